"""The drawn samples: datasets with known defects, made from a seed, to try a judge on.

Owns the files of such a dataset, its labels, and whether a judge caught what was put in. The figures stand in
`diagrams` and `plots`, what is put wrong in them in `defects`; the drawn text-to-image samples are those of `images`.
"""

import base64
import io
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from PIL import Image

from tasks.errors import InputError
from tasks.files import write_whole
from tasks.parameters import T2I
from tasks.records import WINNERS
from tasks.synthetic.defects import CLEAN, DEFECTS, FORFEIT, IN_HUMAN, NEW_FIGURE, Figure, spoilt
from tasks.synthetic.images import check_prompts, draw_images, read_kinds
from tasks.text import bounded

DRAWN = "samples"
"""Name of the drawn samples where a dataset is asked for."""
GENERATED = "generated"
"""Folder of the drawn images among the drawn samples."""
DRAWN_FIGURES = 24
DRAWN_PROMPTS = 8
"""Prompts of each tag: from so many on means have intervals."""
RESULTS = "results"
"""Folder of the result files among the drawn samples."""
LABELS = "labels.json"
SHOWN = 5
"""Names that an error lists."""

_OWN_KIND = {"diagram": "reversed", "plot": "mislabeled"}
_MIX = (
    *("copy", "black", "other", "pixelated", "overload", "restyled", "margin", "neon", "low_contrast", "tiny_text"),
    *("garbled", "human_pixelated", "null", "missing", "copy", "human_overload", "human_black", "other"),
    *("human_low_contrast", "restyled", "human_neon", "human_margin", "human_tiny_text"),
)
"""Kinds of the samples in order, after which they are repeated; each flow adds one kind that only it has."""

RATIOS = {"3:2": 3 / 2, "16:9": 16 / 9, "21:9": 21 / 9}
"""Aspect ratios that the benchmark rounds to."""
HUMAN_FORMAT = {"diagram": ("jpg", "JPEG"), "plot": ("png", "PNG")}
"""Flow -> ending and format of the Human figures, one of each kind that datasets have."""


class Pair(NamedTuple):
    """A drawn sample: what it shows, what was put wrong, and the two pictures."""

    figure: Figure
    kind: str
    human: Image.Image
    model: Image.Image


def draw_samples(root: Path, flow: str, count: int = DRAWN_FIGURES, seed: int = 7) -> None:
    """Draw a dataset in the layout of PaperBananaBench, with the results of a candidate and the labels of its defects.

    Writes `<flow>/test.json`, `<flow>/images/`, `<flow>/labels.json` (id -> kind) and `results/<flow>.json` under
    `root`, over what is there. The same flow and seed give the same bytes, and a larger count only adds samples.

    Raises:
        InputError: the count is below 1.
        ValueError: there are no drawn samples of that flow.
    """
    if flow not in NEW_FIGURE:
        raise ValueError(f"There are no drawn samples of flow {flow!r}; allowed are {', '.join(NEW_FIGURE)}")
    _check_count(count)
    images = root / flow / "images"
    images.mkdir(parents=True, exist_ok=True)
    (root / RESULTS).mkdir(exist_ok=True)
    pairs = [_pair(flow, seed, number) for number in range(count)]
    records = [_record(flow, number, pair) for number, pair in enumerate(pairs)]
    for record, pair in zip(records, pairs, strict=True):
        write_whole(root / flow / record["path_to_gt_image"], _encoded(pair.human, HUMAN_FORMAT[flow][1]))
    _write_json(root / flow / LABELS, {record["id"]: pair.kind for record, pair in zip(records, pairs, strict=True)})
    results = [record | _result(flow, pair) for record, pair in zip(records, pairs, strict=True)]
    _write_json(root / RESULTS / f"{flow}.json", results)
    _write_json(root / flow / "test.json", records)


def _check_count(count: int) -> None:
    if count < 1:
        raise InputError(f"{count} samples cannot be drawn; at least 1 is needed")


def draw_all(root: Path, count: int, prompts_per_tag: int, seed: int) -> None:
    """Draw `count` figures of either kind and, in `generated`, images of so many prompts for each tag.

    Raises:
        InputError: a number that cannot be drawn, or a folder that holds anything but earlier samples, before anything
            is drawn; or a folder that cannot be written to.
    """
    _check_count(count)
    check_prompts(prompts_per_tag)
    try:
        _check_folder(root)
        for flow in NEW_FIGURE:
            draw_samples(root, flow, count, seed)
        draw_images(root / GENERATED, prompts_per_tag, seed=seed)
    except OSError as error:
        raise InputError(f"samples cannot be drawn into {root}: {error.strerror or error}") from error


def _check_folder(root: Path) -> None:
    """Refuse to draw over what is not ours: drawn figures and images have their labels, and their results a name."""
    drawn = {name for name in (*NEW_FIGURE, GENERATED) if (root / name / LABELS).is_file()}
    ours = {*drawn, RESULTS} if drawn else drawn
    if others := sorted(path.name for path in root.iterdir() if path.name not in ours) if root.is_dir() else []:
        found = ", ".join(bounded(others[:SHOWN], len(others)))
        raise InputError(f"{root} holds {found}; samples are drawn into a new or empty folder, or over earlier samples")


def drawn_samples(root: Path, flow: str, figures: int = DRAWN_FIGURES, prompts: int = DRAWN_PROMPTS) -> Path:
    """The folder of a flow's standard drawn samples under `root`; they are drawn anew, which takes about a second.

    Smaller numbers of figures, or of prompts of each tag, give the first of the same samples sooner.
    """
    if flow in T2I:
        draw_images(root / GENERATED, prompts)
        return root / GENERATED
    draw_samples(root, flow, figures)
    return root


def read_labels(dataset_root: Path, flow: str) -> dict[str, str]:
    """Sample id -> kind, from `<flow>/labels.json` or else `labels.json` in the dataset; empty where there is neither.

    Other datasets may hold a file of that name with another meaning: kinds that are not ours are left out.
    """
    paths = (dataset_root / flow / LABELS, dataset_root / LABELS)
    path = next((path for path in paths if path.is_file()), None)
    return read_kinds(path, {*DEFECTS, *CLEAN, *FORFEIT}) if path else {}


def caught(kind: str, flow: str, verdicts: Mapping[str, str | None]) -> bool | None:
    """Whether the verdicts (dimension -> verdict) show that the judge saw what was put into a sample.

    A defect is caught by its verdict in its dimension; a clean pair by claiming no winner in any dimension. None when
    that cannot be said: nothing or nothing known was put in, the sample is a forfeit, or a verdict is missing.
    """
    if kind in CLEAN:
        given = verdicts.values()
        return None if None in given or not given else not any(verdict in WINNERS for verdict in given)
    defect = DEFECTS.get(kind)
    dimension = defect.dimensions.get(flow) if defect else None
    verdict = verdicts.get(dimension) if dimension else None
    return None if verdict is None or defect is None else verdict == defect.verdict


def _pair(flow: str, seed: int, number: int) -> Pair:
    random = Random(f"{flow} {seed} {number}")
    figure = NEW_FIGURE[flow](random)
    mix = (*_MIX, _OWN_KIND[flow])
    kind = mix[number % len(mix)]
    good = figure.draw()
    bad = good if kind in FORFEIT else spoilt(kind.removeprefix(IN_HUMAN), figure, random)
    human, model = (bad, good) if kind.startswith(IN_HUMAN) else (good, bad)
    return Pair(figure, kind, human, model)


def _record(flow: str, number: int, pair: Pair) -> dict[str, Any]:
    name, (width, height) = f"test_{number}", pair.human.size
    ratio = min(RATIOS, key=lambda ratio: abs(RATIOS[ratio] - width / height))
    return {
        "id": name,
        "content": pair.figure.content(),
        "visual_intent": pair.figure.intent(),
        "path_to_gt_image": f"images/{name}.{HUMAN_FORMAT[flow][0]}",
        "category": pair.figure.category,
        "difficulty": pair.figure.difficulty,
        "split": "test",
        "additional_info": {"rounded_ratio": ratio, "width": width, "height": height},
    }


def _result(flow: str, pair: Pair) -> dict[str, Any]:
    # As the generator names it: the third round of the critic, which encodes its pictures as JPEG.
    key = f"target_{flow}_critic_desc2_base64_jpg"
    if pair.kind in FORFEIT:
        return {"eval_image_field": key} | ({key: None} if pair.kind == "null" else {})
    return {"eval_image_field": key, key: base64.b64encode(_encoded(pair.model, "JPEG")).decode("ascii")}


def _encoded(picture: Image.Image, name: str) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, name, quality=95)
    return buffer.getvalue()


def _write_json(path: Path, value: object) -> None:
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False).encode())
