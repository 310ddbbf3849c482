"""Dataset of a run: drawn if required, read by its kind of judging, and reduced to the run's shard.

A command loads it ahead, so that mistakes are reported before anything starts; the run then takes the loaded dataset.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tasks.datasets.dataset import Dataset, of_shard
from tasks.datasets.paths import check_no_url, check_place, resolved
from tasks.demo.defects import DRAWN
from tasks.demo.samples import drawn_samples
from tasks.errors import InputError
from tasks.files import private_folder
from tasks.protocols import parameters_of, protocol_of
from tasks.records.parameters import Parameters
from tasks.text import listed

_AHEAD: dict[str, tuple[Parameters, Dataset]] = {}
"""Flow -> parameters, and the dataset loaded ahead for a run with them."""


def load_ahead(flow: str, parameters: Parameters) -> None:
    """Load a dataset for the next run of a flow in this process. Raises InputError as `load_dataset` does."""
    _AHEAD[flow] = parameters, load_dataset(flow, parameters)


def dataset_of(flow: str, parameters: Parameters) -> Dataset:
    """Return the dataset that was loaded ahead with equal parameters, once; otherwise load it now."""
    asked, dataset = _AHEAD.pop(flow, (None, None))
    return dataset if dataset and asked == parameters else load_dataset(flow, parameters)


def load_given(flow: str, given: Mapping[str, Any]) -> Dataset:
    """Load the dataset that the values of some parameters name today. Raises InputError as `load_dataset` does."""
    return load_dataset(flow, resolved(parameters_of(flow).model_validate(given), datetime.now().astimezone()))


def load_dataset(flow: str, parameters: Parameters) -> Dataset:
    """Load the samples of a dataset for a flow that the filters and the shard of `parameters` select.

    For a shard, all other fields describe the whole dataset, because all shards are parts of one evaluation.

    Raises:
        InputError: lists all problems, with file and row. A missing or refused picture becomes a `problem` of its
            sample instead.
    """
    own = parameters.dataset == DRAWN
    if own:
        _check_own_pictures(parameters)
        drawn = Path(parameters.store) / DRAWN
        private_folder(drawn)
        folder = drawn_samples(drawn, flow)
        parameters = parameters.model_copy(update={"dataset": str(folder)})
    check_no_url("dataset", parameters.dataset)
    source = Path(parameters.dataset).expanduser().absolute()
    if not source.exists():
        raise InputError(f"dataset {source} does not exist")
    if not source.is_dir() and not source.is_file():
        raise InputError(f"dataset {source} is neither a folder nor a manifest file")
    try:
        whole = protocol_of(flow).read_dataset(source, flow, parameters)
    except OSError as error:
        raise InputError(f"dataset {source} cannot be read: {error}") from error
    if not own:
        _check_places(whole)
    return whole.model_copy(update={"samples": of_shard(whole.samples, parameters.shard, parameters.shards)})


def _check_places(dataset: Dataset) -> None:
    """Raise InputError if a folder was replaced by a link out of `JURY_ROOTS` after its parameter was checked."""
    places = [
        place
        for sample in dataset.samples
        for place in (sample.record, *(source.place for source in sample.pictures.values()))
    ]
    for within in {place.within for place in places if place}:
        for real in within:
            check_place("dataset", real)


def _check_own_pictures(parameters: Parameters) -> None:
    """Raise InputError if other files are given for the drawn samples: a dataset was meant, but not named."""
    if given := [name for name in ("results", "images", "metadata") if getattr(parameters, name, "")]:
        raise InputError(
            f"{listed(given)} is given, and no dataset that it belongs to: name the dataset; the drawn samples "
            f"({DRAWN!r}) have pictures of their own"
        )
