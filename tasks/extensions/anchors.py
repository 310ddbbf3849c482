"""Frozen sets of anchors in `<store>/anchors/<flow>/<set>/`, each a manifest with its pictures, byte for byte.

The name of a set is its time and the hash of its manifest. The newest set counts; a retired one asks for a new choice.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from tasks.datasets.dataset import Dataset
from tasks.datasets.entries import picture_sha256, read_picture
from tasks.datasets.rows import read_row
from tasks.errors import InputError
from tasks.files import MOST_BYTES, alone, private_folder, read_regular, remove_drafts, write_whole
from tasks.judging.extension import Extension, Opening
from tasks.judging.protocol_items import picture_policy
from tasks.ledger.bucket import in_daemon_thread
from tasks.pictures.preparation import Policy, prepare
from tasks.protocols import control_rules_of, protocol_of
from tasks.protocols.loading import load_dataset
from tasks.records import ANCHOR, Sample
from tasks.records.parameters import Parameters

MANIFEST, PICTURES = "anchors.jsonl", "pictures"
RETIRED = b"\n"
"""Manifest of a set that asks for a new choice. An empty object in a bucket would mark a forgotten file."""
SEED = "anchors 1"
"""Arbitrary constant: the same dataset must give the same anchors."""
_HASH = 16
"""Digits of the manifest's hash in the name of a set."""


class Anchors(NamedTuple):
    """Anchors that a run judges."""

    key: str = ""
    """Hash that identifies a frozen set; empty: there are no anchors."""
    samples: tuple[Sample, ...] = ()
    warnings: tuple[str, ...] = ()


def in_turn(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples in the order in which they become anchors, one for each Human figure or prompt.

    Any number of them from the beginning contains each category (or tag) in proportion. Samples with missing pictures
    are left out. Verdicts play no part: samples chosen by them would be extreme by chance, and an unchanged judge would
    seem to fall by 9 points.
    """
    able = [sample for sample in samples if not any(source.problem for source in sample.pictures.values())]
    references: dict[str, Sample] = {}
    for sample in sorted(able, key=_drawn):
        references.setdefault(sample.subject, sample)
    categories: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in references.values():
        categories[sample.category or sample.tag].append(sample)
    places = [((rank + 0.5) / len(its), sample) for its in categories.values() for rank, sample in enumerate(its)]
    return [sample for _, sample in sorted(places, key=lambda place: (place[0], _drawn(place[1])))]


def _drawn(sample: Sample) -> tuple[str, str]:
    """Return a random sort key that is the same each time: of the reference, then of the candidate's sample."""
    return _digest(sample.subject), _digest(f"{sample.subject}\n{sample.candidate}\n{sample.sample_id}")


def _digest(text: str) -> str:
    return sha256(f"{SEED}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


def folder(store: Path, flow: str) -> Path:
    """Return the folder of the sets of a flow."""
    return store / "anchors" / flow


def anchors_of(flow: str, parameters: Parameters, samples: Callable[[], Sequence[Sample]], policy: Policy) -> Anchors:
    """Return the frozen anchors of a flow; if there are none, choose some of `samples()` that a judge can be shown.

    Raises:
        InputError: the set has changed since it was frozen, or no sample of the dataset could be an anchor.
    """
    place = folder(Path(parameters.store), flow)
    private_folder(place)
    with alone(place):
        chosen = _chosen(place) or _freeze(place, flow, samples(), parameters.anchors, policy)
    return _read(chosen, flow, parameters)


def retire(store: Path, flow: str) -> bool:
    """Let the next scheduled run of a flow choose new anchors; return whether there were any."""
    place = folder(store, flow)
    if not _chosen(place):
        return False
    with alone(place):
        _keep(place, _draft(place), RETIRED)
    return True


def is_newest(store: Path, flow: str, key: str) -> bool:
    """Return whether the next run judges the anchors with this key; true if no set is kept here."""
    newest = _newest(folder(store, flow))
    return newest is None or newest.name.endswith(f"-{key[:_HASH]}")


def _newest(place: Path) -> Path | None:
    """Return the newest set of a flow; names begin with the time."""
    return max(
        (path.parent for path in place.glob(f"*/{MANIFEST}") if not path.parent.name.startswith(".")), default=None
    )


def _chosen(place: Path) -> Path | None:
    """Return the newest set of a flow unless it is retired."""
    newest = _newest(place)
    return newest if newest and (newest / MANIFEST).stat().st_size > len(RETIRED) else None


def _freeze(place: Path, flow: str, samples: Sequence[Sample], number: int, policy: Policy) -> Path:
    draft, rows = _draft(place), list[bytes]()
    for sample in in_turn(samples):
        if len(rows) == number:
            break
        try:
            rows.append(_frozen(draft, flow, sample, policy))
        except InputError:  # unreadable pictures are reported when they are judged
            continue
    if not rows:
        raise InputError("the dataset has no sample with readable pictures that could be an anchor")
    return _keep(place, draft, b"".join(rows))


def _draft(place: Path) -> Path:
    """Make the folder of a set that is not complete; remove what killed processes left, since this one is alone."""
    remove_drafts(place)
    draft = place / f".{uuid4().hex}"
    private_folder(draft / PICTURES)
    return draft


def _keep(place: Path, draft: Path, manifest: bytes) -> Path:
    """Complete a set with its manifest and give it its name, so that it appears as a whole."""
    write_whole(draft / MANIFEST, manifest)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{sha256(manifest).hexdigest()[:_HASH]}"
    return draft.rename(place / name)


def _frozen(draft: Path, flow: str, sample: Sample, policy: Policy) -> bytes:
    """Return a row of the manifest, after saving its pictures in the set."""
    read = {role: read_picture(source) for role, source in sample.pictures.items()}
    for data in read.values():  # all of them first: no picture is saved of a sample that is no anchor
        prepare(data, policy)
    pictures = {role: _picture(draft, data) for role, data in read.items()}
    texts = read_row(sample.record, list(sample.texts.values()))
    texts_by_name = {name: texts[key] for name, key in sample.texts.items()}
    row = control_rules_of(flow).manifest_row(flow, sample, texts_by_name, pictures)
    return json.dumps(row, default=str).encode() + b"\n"


def _picture(draft: Path, data: bytes) -> str:
    """Save a picture whole, and return its path in the set."""
    name = f"{PICTURES}/{sha256(data).hexdigest()}"
    write_whole(draft / name, data)
    return name


def _read(place: Path, flow: str, parameters: Parameters) -> Anchors:
    manifest = place / MANIFEST
    rows = read_regular(manifest, MOST_BYTES)
    found = sha256(rows).hexdigest()
    if not place.name.endswith(f"-{found[:_HASH]}"):
        raise InputError(f"{manifest} is damaged: its hash is not the one in the name of its folder; {renew(flow)}")
    # These parameters of a run decide how texts are read, and what is asked; the others choose samples.
    how: dict[str, Any] = parameters.model_dump(include={"prompt_set", "keep_image_links", "instrument"})
    dataset = protocol_of(flow).read_dataset(manifest, flow, type(parameters)(dataset=str(manifest), **how))
    whole = tuple(replace(sample, control=ANCHOR) for sample in dataset.samples if _is_whole(sample))
    # A row is an anchor. Datasets of prompts have further samples, for the images that a candidate has not.
    return Anchors(found, whole, tuple(_warnings(flow, rows.count(b"\n"), len(whole), parameters.anchors)))


def _is_whole(sample: Sample) -> bool:
    """Return whether the pictures of an anchor are the frozen ones."""
    files = {source: source.place for source in sample.pictures.values()}
    return all(file and picture_sha256(source) == Path(file.path).name for source, file in files.items())


def _warnings(flow: str, frozen: int, whole: int, asked: int) -> list[str]:
    lost = f"{frozen - whole} of {frozen} anchors are left out: their pictures are not those that were frozen"
    other = f"{frozen} anchors are frozen and judged, {asked} are asked for"
    cure = f"{renew(flow)}, or set anchors to {frozen}"
    return [f"{lost}; {renew(flow)}."] * (whole < frozen) + [f"{other}: {cure}."] * (frozen != asked)


def renew(flow: str) -> str:
    """Return instructions for choosing new anchors."""
    return f"`jury alarms restart {flow} --anchors` lets the next scheduled run choose new ones"


class FrozenAnchors(Extension):
    """Extension for a scheduled run with anchors."""

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        self.anchors = Anchors()

    async def prepare(self, dataset: Dataset) -> Dataset:
        """See `Extension.prepare`: fetch or choose the anchors, and send new ones; a failure is only a warning."""
        opening = self.opening
        sets = folder(opening.store, opening.flow).relative_to(opening.store).as_posix()
        try:
            if remote := opening.remote:
                await in_daemon_thread(lambda: remote.fetch_folder(sets))
            self.anchors = await asyncio.to_thread(self._find, dataset)
            if remote:
                await in_daemon_thread(lambda: remote.send_folder(sets))
        except (InputError, OSError) as error:
            self.anchors = Anchors(warnings=(f"No anchors were judged: {error}.",))
        opening.anchors = self.anchors.key
        opening.said += self.anchors.warnings
        return dataset

    def _find(self, dataset: Dataset) -> Anchors:
        """Return the anchors; those of a shard are chosen from the whole dataset."""
        flow, parameters = self.opening.flow, self.opening.parameters

        def choosable() -> Sequence[Sample]:
            if not parameters.shard:
                return dataset.samples
            whole = {"shards": 1, "shard": 0, "evaluation_id": ""}
            return load_dataset(flow, parameters.model_copy(update=whole)).samples

        return anchors_of(flow, parameters, choosable, picture_policy(parameters))

    def samples(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """See `Extension.samples`: first where the run may stop, since a night without them detects no moved judge."""
        own = self.anchors.samples
        return [*own, *samples] if self.opening.may_stop else [*samples, *own]
