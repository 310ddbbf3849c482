"""Warnings about format differences between Human and Model pictures that may decide verdicts."""

import io
from pathlib import Path

import factories
import pytest
from PIL import Image
from written_history import keep

from tasks.history.queries import query
from tasks.pictures.preparation import Comparability, Policy, prepare
from tasks.records import PictureNote

POLICY = Policy(max_bytes=20_000_000, max_side=8000, normalize=False)


def note(name: str = "PNG", size: tuple[int, int] = (200, 100), clear: bool = False, **changes: object) -> PictureNote:
    image = Image.new("RGBA", size, (10, 20, 30, 0)) if clear else Image.new("RGB", size, "gray")
    buffer = io.BytesIO()
    image.save(buffer, name)
    return prepare(buffer.getvalue(), POLICY.model_copy(update=changes)).note


def warnings(pairs: list[tuple[PictureNote, PictureNote]]) -> list[str]:
    comparability = Comparability()
    for number, (human, model) in enumerate(pairs):
        comparability.add(factories.outcome(f"s{number}", pictures={"human": human, "model": model}))
    return comparability.warnings()


QUIET = {
    "no pair": [],
    "similar sides": [(note(), note())] * 8 + [(note("JPEG"), note("JPEG", (210, 100)))] * 2,
    "formats mixed equally on both sides": [(note(), note("JPEG")), (note("JPEG"), note())] * 4,
    "normalized": [(note(normalize=True), note("JPEG", normalize=True))] * 8,
    "other sizes, sent alike": [(note(size=(100, 50), max_side=100), note(size=(800, 400), max_side=100))] * 8,
}


@pytest.mark.parametrize("pairs", QUIET.values(), ids=QUIET)
def test_sides_that_are_sent_alike_cause_no_warning(pairs: list[tuple[PictureNote, PictureNote]]) -> None:
    assert warnings(pairs) == []


@pytest.mark.parametrize(("others", "warned"), [(1, False), (2, True), (8, True)])
def test_formats_differing_in_a_quarter_of_pairs_suggest_normalize(others: int, warned: bool) -> None:
    found = warnings([(note(), note("JPEG"))] * others + [(note(), note())] * (8 - others))
    assert bool(found) is warned
    if warned:
        assert f"JPEG {others / 8:.0%}; Human PNG 100%" in found[0]
        assert found[0].startswith("The pictures of alpha") and "normalize: true" in found[0]


@pytest.mark.parametrize(
    ("size", "words"),
    [((200, 100), ""), ((270, 140), ""), ((400, 200), "4 times"), ((100, 100), "0.5 times"), ((60, 30), "0.09 times")],
)
def test_large_size_differences_cause_a_warning(size: tuple[int, int], words: str) -> None:
    found = warnings([(note(), note(size=size))] * 8)
    assert [words in each and "size" in each for each in found] == [True] * bool(words)


def test_transparency_on_one_side_causes_a_warning() -> None:
    found = warnings([(note(), note(clear=True))] * 3 + [(note(), note())] * 5)
    assert len(found) == 1 and "transparency" in found[0] and "Model in 38%, Human in 0%" in found[0]


def test_samples_without_two_pictures_are_ignored() -> None:
    comparability = Comparability()
    comparability.add(factories.outcome("s1", status="forfeit", pictures={"human": note()}))
    comparability.add(factories.image())
    assert comparability.warnings() == []


def test_candidates_are_checked_separately() -> None:
    comparability = Comparability()
    for candidate, name in (("alpha", "PNG"), ("beta", "JPEG")):
        comparability.add(factories.outcome(candidate=candidate, pictures={"human": note(), "model": note(name)}))
    assert [words.split(" and ")[0] for words in comparability.warnings()] == ["The pictures of beta"]


def test_history_stores_the_numbers_of_each_side(tmp_path: Path) -> None:
    small, large = note("PNG", (100, 100)), note("JPEG", (1000, 1000))
    models = enumerate([large, large, note("PNG", (300, 200), clear=True, max_side=150)])
    rows = [
        *(factories.outcome(f"s{n}", pictures={"human": small, "model": model}) for n, model in models),
        factories.outcome("s9", control="blank", pictures={"human": large, "model": large}),
        *(factories.judgment(f"s{n}", tokens_in=1000 + n) for n in range(3)),
        factories.judgment("s9", tokens_in=9000, control="blank"),
        factories.judgment("s8", tokens_in=0, reused_from="earlier"),
    ]
    keep(tmp_path, factories.RUN, rows)
    columns = "side, n, formats, sent_formats, megapixels, reencoded, transparent, tokens_in"
    model, third = {"JPEG": 2, "PNG": 1}, pytest.approx(1 / 3)
    assert query(tmp_path, f"SELECT {columns} FROM picture_contract").rows == [
        ("human", 3, {"PNG": 3}, {"PNG": 3}, 0.01, 0.0, 0.0, 1001.0),
        ("model", 3, model, model, 1.0, third, third, 1001.0),
    ]
