"""A dataset loaded for a run: read as its kind of judging reads it, and cut to the run's shard."""

from pathlib import Path

from tasks.datasets.dataset import Dataset
from tasks.errors import InputError
from tasks.kinds import kind_of
from tasks.parameters import Parameters


def load_dataset(flow: str, parameters: Parameters) -> Dataset:
    """The samples of a dataset for a flow, as the filters of `parameters` leave them.

    Raises:
        InputError: everything found wrong, with file and row. A missing or refused picture is no error but a `problem`
            of its sample.
    """
    source = Path(parameters.dataset).expanduser().absolute()
    if not source.exists():
        raise InputError(f"dataset {source} is neither a folder nor a manifest file")
    try:
        return _shard(kind_of(flow).read_dataset(source, flow, parameters), parameters)
    except OSError as error:
        raise InputError(f"dataset {source} cannot be read: {error}") from error


def _shard(whole: Dataset, parameters: Parameters) -> Dataset:
    """What the run judges of a dataset that is split: every so many-th id, with all candidates and images of it.

    Everything else stays that of the whole dataset: each shard is a part of one evaluation.
    """
    if not parameters.shard:
        return whole
    ids = sorted({sample.prompt_id or sample.sample_id for sample in whole.samples})
    ours = set(ids[parameters.shard - 1 :: parameters.shards])
    samples = tuple(sample for sample in whole.samples if (sample.prompt_id or sample.sample_id) in ours)
    return whole.model_copy(update={"samples": samples})
