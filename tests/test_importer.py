"""Importing published prompts: a document becomes a prompt set word for word, or is refused and nothing is written."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from factories import DIMENSIONS, slip
from written_datasets import png, record, write_benchmark

from tasks.datasets.entries import read_texts
from tasks.judging.protocol_items import asked_protocol
from tasks.protocols.figures.tier_rule import pairwise_prompts
from tasks.protocols.images.reply import format_words
from tasks.protocols.loading import load_dataset
from tasks.records.parameters import PAIRWISE, T2I, PairwiseParameters
from tasks.rubrics.importer import import_prompts, imported_words
from tasks.rubrics.rubric import PairwisePrompt, RubricPrompt, load_rubric

COMPARED = """\
Compare two diagrams by their Faithfulness.
1.  **Method**: [content]
2.  **Words**: [content]
3.  **Diagram (Human)**: [image]
4.  **Diagram (Model)**: [image]"""
COUNTED = """\
The keys in the reply are: `right_number`, `tidiness`, and `overall_score`. Look well.
Score: 0 (wrong (or none)) to 10 (right).
Score: 0 (a "mess") to 10 (tidy)"""


def markdown(*blocks: tuple[str, str], fence: str = "```") -> str:
    """Return a document with a fenced text under each heading."""
    return "\n\n".join(f"{heading}\n\n{fence}\n{text}\n{fence}" for heading, text in blocks) + "\n"


ONE = markdown(("## Diagram: Faithfulness", COMPARED))


def write(folder: Path, content: str | bytes) -> Path:
    source = folder / "published.txt"
    source.write_bytes(content if isinstance(content, bytes) else content.encode())
    return source


def bodies(folder: Path, *flows: str) -> dict[str, str]:
    """Return the imported prompts by flow and dimension, without the default ones."""
    prompts = [prompt for flow in flows for prompt in load_rubric(flow, str(folder)).prompts]
    return {f"{each.flow}/{each.dimension}": each.body for each in prompts if Path(each.file).is_relative_to(folder)}


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def declaration(prompt: PairwisePrompt) -> tuple[object, ...]:
    return prompt.dimension, prompt.tier, prompt.verdicts, prompt.default, prompt.inputs


def test_markdown_becomes_eight_prompts_with_exact_texts(tmp_path: Path, documents: dict[str, Path]):
    source = documents["markdown"]
    sections = source.read_bytes().decode().split("\n### ")[1:]
    cut = [section.split("\n```\n")[1].replace("\\`\\`\\`", "```") for section in sections]
    named = [section.split("\n")[0].lower() for section in sections]
    questions = [*(f"diagram/{name}" for name in named[:4]), *(f"plot/{name}" for name in named[4:])]
    imported = import_prompts(source, str(tmp_path / "set"))
    assert imported.placed == {question: digest(text) for question, text in zip(questions, cut, strict=True)}
    assert bodies(tmp_path / "set", "diagram", "plot") == dict(zip(questions, cut, strict=True))
    for flow in PAIRWISE:
        prompts, defaults = (pairwise_prompts(load_rubric(flow, name)) for name in (str(imported.folder), "default"))
        assert [declaration(prompt) for prompt in prompts] == [declaration(prompt) for prompt in defaults]
    headings = [line.split("under the heading ")[1] for line in imported.unplaced]
    assert headings == ["'Overview'", "'Overall Scoring: Two-Tier Decision Logic'"]


def test_json_becomes_six_rubrics_with_exact_texts(tmp_path: Path, documents: dict[str, Path]):
    source = documents["json"]
    texts = json.loads(source.read_bytes())
    imported = import_prompts(source, str(tmp_path / "set"))
    sent = bodies(tmp_path / "set", *T2I)
    assert {question.split("/")[1]: text for question, text in sent.items()} == texts
    assert imported.placed == {question: digest(text) for question, text in sent.items()}
    assert (len(imported.placed), imported.unplaced) == (6, [])
    text = source.read_text(encoding="utf-8")
    prompts, defaults = (
        [one for flow in T2I for one in load_rubric(flow, name).prompts] for name in (str(imported.folder), "default")
    )
    for prompt, default in zip(prompts, defaults, strict=True):
        assert isinstance(prompt, RubricPrompt) and isinstance(default, RubricPrompt)
        assert prompt.inputs == default.inputs
        assert list(prompt.aspects) == list(default.aspects)
        for aspect in prompt.aspects.values():
            assert f"Score: 0 ({aspect.zero}) to 10 ({aspect.ten})" in text
            assert aspect.not_applicable == ""  # neither document says that an aspect may not apply
            assert "null" not in format_words(prompt)


def test_imported_aspects_may_be_null_only_if_the_text_allows_it(tmp_path: Path):
    says = "Give `tidiness` as null if the image is empty."
    source = write(tmp_path, json.dumps({"counting": COUNTED, "colors": f"{COUNTED}\n{says}"}))
    folder = import_prompts(source, str(tmp_path / "set")).folder
    found = {
        flow: {key: aspect.not_applicable for key, aspect in prompt.aspects.items()}
        for flow in ("counting", "colors")
        for prompt in load_rubric(flow, str(folder)).prompts
        if isinstance(prompt, RubricPrompt) and prompt.dimension == flow
    }
    silent = {"right_number": "", "tidiness": ""}
    assert found == {"counting": silent, "colors": silent | {"tidiness": says}}
    prompt = load_rubric("counting", str(folder)).prompt("counting")
    assert isinstance(prompt, RubricPrompt)
    assert {key: (aspect.zero, aspect.ten) for key, aspect in prompt.aspects.items()} == {
        "right_number": ("wrong (or none)", "right"),
        "tidiness": ('a "mess"', "tidy"),
    }


def test_imported_set_keeps_image_links_and_records_it_in_the_protocol(tmp_path: Path):
    folder = import_prompts(write(tmp_path, ONE), str(tmp_path / "set")).folder
    bench = write_benchmark(tmp_path / "bench", [record(0) | {"content": "see ![answer](images/0.png)"}])
    (bench / "figures").mkdir()
    (bench / "figures" / "test_0.png").write_bytes(png(9))
    texts, protocols, keys = list[str](), list[object](), set[str]()
    for given in ({}, {"prompt_set": str(folder)}, {"keep_image_links": True}):
        asked = PairwiseParameters.model_validate({"dataset": str(bench), "images": str(bench / "figures")} | given)
        dataset = load_dataset("diagram", asked)
        texts.append(read_texts(dataset.samples[0])["context"])
        protocols.append(asked_protocol(asked, load_rubric("diagram", asked.prompt_set)).get("texts"))
        keys.add(dataset.key)
        assert bool(dataset.samples[0].notes) == (not given)
    assert texts == ["see ", *["see ![answer](images/0.png)"] * 2]
    assert protocols == [None, "uncut", "uncut"]
    assert len(keys) == 1


def test_plain_name_creates_a_set_among_the_shipped_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tasks.rubrics.rubric.SETS", tmp_path / "sets")
    imported = import_prompts(write(tmp_path, ONE), "team-1")
    assert imported.folder == tmp_path / "sets" / "team-1"
    assert imported_words(imported).endswith("--prompt-set team-1")
    assert list((tmp_path / "sets").iterdir()) == [imported.folder]
    [prompt] = [each for each in pairwise_prompts(load_rubric("diagram", "team-1")) if each.body == COMPARED]
    assert list(prompt.inputs.values()) == ["Method", "Words", "Diagram (Human)", "Diagram (Model)"]
    default = pairwise_prompts(load_rubric("diagram"))[0]
    assert (prompt.tier, prompt.verdicts, list(prompt.inputs)) == (default.tier, default.verdicts, list(default.inputs))


def test_import_of_one_prompt_lists_all_unplaced_text(tmp_path: Path):
    preface = "A preface.\n\n# Prompts for Plots\nRead\nthis.\n\n"
    source = write(tmp_path, preface + markdown(("## Clarity", "x"), ("## Faithfulness", COMPARED)))
    imported = import_prompts(source, str(tmp_path / "set"))
    assert list(imported.placed) == ["plot/faithfulness"]
    figures = [f"{flow}/{name}" for flow in PAIRWISE for name in DIMENSIONS]
    tags = ["colors/colors", "colors/color_attr", "counting/counting", *figures[:4], "object/single_object"]
    known = ", ".join([*tags, "object/two_object", *figures[4:], "position/position"])
    assert imported.unplaced == [
        "line 9: a text under 'Prompts for Plots / Clarity', which names none of the prompts, or several; allowed: "
        f"a flow with its dimension, or a tag alone, of {known}",
        "1 line of text before the first heading",
        "2 lines of text under the heading 'Prompts for Plots'",
    ]
    words = imported_words(imported).splitlines()
    assert words[1] == f"  plot/faithfulness       SHA-256 {digest(COMPARED)}"
    assert words[2].endswith("the default prompts stay: plot/conciseness, plot/readability, plot/aesthetics")
    assert words[4:7] == [f"  {line}" for line in imported.unplaced]


def test_markdown_and_json_both_hold_both_kinds_of_prompts(tmp_path: Path):
    mixed = markdown(("# `counting`", COUNTED), ("# Faithfulness (methodology diagrams)", COMPARED))
    written = import_prompts(write(tmp_path, mixed), str(tmp_path / "a"))
    keyed = json.dumps({"counting": COUNTED, "diagram/faithfulness": COMPARED, "version": 2, "motto": "Look."})
    given = import_prompts(write(tmp_path, keyed), str(tmp_path / "b"))
    expected = {"counting/counting": digest(COUNTED), "diagram/faithfulness": digest(COMPARED)}
    assert (written.placed, written.unplaced) == (expected, [])
    assert given.placed == expected
    assert [line.split(":")[0] for line in given.unplaced] == ["key 'motto'", "key 'version'"]


@pytest.mark.parametrize(
    "name", ["Diagram and Plot: Faithfulness", "Diagram: Faithfulness and Readability", "Faithfulness", "Counting rule"]
)
def test_ambiguous_heading_places_no_prompt(tmp_path: Path, name: str):
    source = write(tmp_path, ONE + markdown((f"# {name}", COMPARED)))
    assert list(import_prompts(source, str(tmp_path / "set")).placed) == ["diagram/faithfulness"]


@pytest.mark.parametrize(
    ("fence", "published", "sent"),
    [
        ("```", f"{COMPARED}\n+++\nmore", ""),
        ("```", f"+++\ntier = 1\n+++\n{COMPARED}", ""),
        ("```", f"{COMPARED}\n\\`\\`\\`json\n{{}}\n\\`\\`\\`", f"{COMPARED}\n```json\n{{}}\n```"),
        ("```", f"{COMPARED}\nuse \\`\\`\\` or \\`x\\`", ""),
        ("```", f"# Role\n\n\tgrößer 😀 \u2028 \x0b\n{COMPARED}", ""),
        ("````", f"{COMPARED}\n```json\n{{}}\n```", ""),
        ("~~~", f"{COMPARED}\n```json\n{{}}\n```", ""),
    ],
)
def test_block_text_is_unchanged_except_escaped_fences(tmp_path: Path, fence: str, published: str, sent: str):
    source = write(tmp_path, markdown(("# Diagram: Faithfulness", published), fence=fence))
    sent = sent or published
    imported = import_prompts(source, str(tmp_path / "set"))
    assert bodies(imported.folder, "diagram") == {"diagram/faithfulness": sent}
    assert imported.placed == {"diagram/faithfulness": digest(sent)}


def test_windows_line_breaks_and_byte_order_mark_are_removed(tmp_path: Path):
    source = write(tmp_path, ("\ufeff" + ONE).replace("\n", "\r\n"))
    assert import_prompts(source, str(tmp_path / "set")).placed == {"diagram/faithfulness": digest(COMPARED)}


def test_surrounding_white_space_is_removed_and_reported(tmp_path: Path):
    source = write(tmp_path, json.dumps({"counting": f"\n{COUNTED} \n"}))
    imported = import_prompts(source, str(tmp_path / "set"))
    assert imported.placed == {"counting/counting": digest(COUNTED)}
    assert imported.unplaced == ["key 'counting': white space around the text, which is sent without it"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", r"found no prompt, but none; allowed: Markdown with each prompt in a fenced block"),
        ("# Diagram: Faithfulness\nSee there.", r"found no prompt, but 1 line of text under the heading 'Diagram: F"),
        ('{"version": 1}', r"found no prompt, but key 'version': holds no text; allowed"),
        ('{"counting": "x",\n "position" "y"}', r"line 2, column 13: Expecting ':' delimiter; allowed: "),
        ('{"counting": "x", "counting": "y"}', r"key 'counting': found it more than once; allowed: each key once"),
        (b"# \xff", r"found a byte at 2 that is not UTF-8; allowed: UTF-8"),
        ("# A\n\n```\ntext", r"line 3: found a block without an end; allowed: a fence that closes it"),
        (markdown(("# A", "text\n```json\n{}")), r"line 5: found a code fence inside the block of line 3"),
        (2 * ONE, r"has 1 problem:\n  line 12: found another text for diagram/faithfulness after line 3; allowed: one"),
        (
            ONE.replace("2.  **Words**: [content]\n", ""),
            r"line 3: found the inputs Method, Diagram \(Human\), .* of context, caption, human, model, in this order",
        ),
        (ONE.replace("Human", "Else"), r"line 3: found the inputs Method, Words, Diagram \(Else\), Diagram \(Model\);"),
        (
            json.dumps({"counting": COUNTED.replace("`tidiness`, ", "")}),
            r"key 'counting': found the keys right_number and lines `Score: 0 \(...\) to 10 \(...\)`: 2; allowed:",
        ),
        (json.dumps({"counting": "Count."}), r"key 'counting': found the keys none and lines .*: 0; allowed"),
        (json.dumps({"counting": COUNTED.replace("tidiness", "Tidiness")}), r"counting.md: key `aspects.Tidiness`"),
        (
            json.dumps({"counting": "Count.", "colors": "Look.", "diagram/faithfulness": "Compare."}),
            r"has 3 problems:\n  key 'counting'.*\n  key 'colors'.*\n  key 'diagram/faith",
        ),
        (json.dumps({"counting": f"{COUNTED}\r\nend"}), r"key 'counting': found a character that no prompt file keeps"),
        (json.dumps({"counting": f"\ud83d {COUNTED}"}), r"key 'counting': found a character that no prompt file keeps"),
    ],
)
def test_invalid_document_is_refused_and_writes_nothing(tmp_path: Path, content: str | bytes, complaint: str):
    source = write(tmp_path, content)
    with pytest.raises(ValueError, match=complaint) as caught:
        import_prompts(source, str(tmp_path / "set"))
    assert str(source) in str(caught.value)
    assert list(tmp_path.iterdir()) == [source]
    with pytest.raises(ValueError, match=r"absent.md: cannot be read: No such file"):
        import_prompts(tmp_path / "absent.md", str(tmp_path / "set"))


def test_import_does_not_overwrite_existing_files(tmp_path: Path):
    source = write(tmp_path, ONE)
    folder = import_prompts(source, str(tmp_path / "set")).folder
    shipped = load_rubric("diagram", "paper")
    for name in (str(folder), str(source), "paper"):
        words = r"(set|published.txt|sets/paper): already exists; allowed: an unused name"
        with pytest.raises(ValueError, match=words):
            import_prompts(write(tmp_path, ONE), name)
    with pytest.raises(ValueError, match=r"published.txt/set: cannot be written: "):
        import_prompts(source, str(source / "set"))
    assert bodies(folder, "diagram") == {"diagram/faithfulness": COMPARED}
    assert source.read_text(encoding="utf-8") == ONE and load_rubric("diagram", "paper") == shipped


@pytest.mark.parametrize("name", ["default", "", "..", "my set", "-x"])
def test_invalid_set_name_is_refused(tmp_path: Path, name: str):
    with pytest.raises(ValueError, match=r"as the name of a prompt set; allowed: letters, digits and \._- \(but not"):
        import_prompts(write(tmp_path, ONE), name)


@pytest.mark.parametrize("function", ["_toml", "load_rubric"])
def test_internal_error_is_not_blamed_on_the_document(tmp_path: Path, function: str, monkeypatch: pytest.MonkeyPatch):
    source = write(tmp_path, ONE)
    monkeypatch.setattr(f"tasks.rubrics.importer.{function}", slip)
    with pytest.raises(ValueError, match=r"^a slip$"):
        import_prompts(source, str(tmp_path / "set"))
