"""A dataset loaded for a run: read as its kind of judging reads it, and cut to the run's shard."""

from pathlib import Path

from tasks.datasets.dataset import Dataset
from tasks.datasets.filters import of_shard
from tasks.errors import InputError
from tasks.kinds import kind_of
from tasks.parameters import Parameters


def load_dataset(flow: str, parameters: Parameters) -> Dataset:
    """The samples of a dataset for a flow, as the filters and the shard of `parameters` leave them.

    Of a shard, everything but the samples stays that of the whole dataset: each is a part of one evaluation.

    Raises:
        InputError: everything found wrong, with file and row. A missing or refused picture is no error but a `problem`
            of its sample.
    """
    source = Path(parameters.dataset).expanduser().absolute()
    if not source.exists():
        raise InputError(f"dataset {source} is neither a folder nor a manifest file")
    try:
        whole = kind_of(flow).read_dataset(source, flow, parameters)
    except OSError as error:
        raise InputError(f"dataset {source} cannot be read: {error}") from error
    return whole.model_copy(update={"samples": of_shard(whole.samples, parameters.shard, parameters.shards)})
