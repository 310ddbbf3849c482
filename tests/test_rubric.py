"""Loading prompt files as a rubric: overlay of prompt sets, refused files, hashes."""

from hashlib import sha256
from pathlib import Path

import pytest
from factories import slip

from tasks.errors import InputError
from tasks.rubrics.rubric import holdings, load_rubric, prompt_sets

FRONT = """\
tier = 1
verdicts = ["Model", "Human"]
default = "Human"

[inputs]
model = "Right Picture"
caption = "Words"
human = "Left Picture"
"""
BODY = "Compare Left Picture and Right Picture under their Words."

ALL = "Model, Human, Both are good, Both are bad"
BOTH, EACH = '["Model", "Human"]', f"at least one of {ALL}, each once"
TABLE = "a table of context, caption, human and model, each with a label that is non-empty text"


def write_prompt(folder: Path, name: str = "diagram/readability", front: str = FRONT, body: str = BODY) -> Path:
    file = folder / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"+++\n{front}+++\n\n{body}\n", encoding="utf-8")
    return file


def load_errors(folder: Path, flow: str = "diagram") -> list[str]:
    """Return the error lines of loading a set, without the heading line."""
    with pytest.raises(ValueError) as caught:
        load_rubric(flow, str(folder))
    first, *lines = str(caught.value).splitlines()
    assert first == f"the prompts of {flow} (prompt set {str(folder)!r}) cannot be used:"
    return lines


def test_named_set_replaces_only_its_own_prompts():
    default, paper = load_rubric("diagram"), load_rubric("diagram", "paper")
    differing = {a.dimension for a, b in zip(default.prompts, paper.prompts, strict=True) if a.body != b.body}
    assert differing == {"aesthetics", "readability"}
    assert paper.prompt("conciseness") == default.prompt("conciseness")
    assert Path(paper.prompt("aesthetics").file).match("sets/paper/diagram/aesthetics.md")


def test_folder_is_a_set_and_inputs_keep_file_order(tmp_path: Path):
    file = write_prompt(tmp_path)
    rubric = load_rubric("diagram", str(tmp_path))
    assert (rubric.prompt("readability").body, rubric.prompt("readability").file) == (BODY, str(file))
    assert rubric.prompt("aesthetics") == load_rubric("diagram").prompt("aesthetics")
    inputs = rubric.prompt("readability").inputs
    assert list(inputs.items()) == [("model", "Right Picture"), ("caption", "Words"), ("human", "Left Picture")]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_hash_is_of_the_sent_body_despite_editor_differences(tmp_path: Path, newline: str, mark: str):
    body = f"{BODY}\n+++\n\n- größer"  # plus signs in the body belong to it
    file = write_prompt(tmp_path, body=body)
    file.write_bytes((mark + file.read_text(encoding="utf-8").replace("\n", newline)).encode())
    prompt = load_rubric("diagram", str(tmp_path)).prompt("readability")
    assert prompt.body == body
    assert prompt.sha256 == sha256(body.encode()).hexdigest()


def test_unknown_dimension_is_refused_with_the_known_ones():
    words = "plot has no dimension 'clarity'; it has faithfulness, conciseness, readability, aesthetics"
    with pytest.raises(ValueError, match=words):
        load_rubric("plot").prompt("clarity")


def test_holdings_list_the_prompts_of_sets():
    assert prompt_sets()[0] == "default" and {"checked", "paper"} <= set(prompt_sets())
    four = ["aesthetics", "conciseness", "faithfulness", "readability"]
    tags = {"object": ["single_object", "two_object"], "counting": ["counting"]}
    tags |= {"colors": ["color_attr", "colors"], "position": ["position"]}
    assert holdings() == {"diagram": four, "plot": four, **tags, "facts": ["single", "soft", "together"]}
    assert holdings("checked") == tags
    assert holdings("paper") == {"diagram": ["aesthetics", "readability"]}


def test_set_without_the_flow_is_refused_with_its_contents():
    with pytest.raises(ValueError) as caught:
        load_rubric("plot", "paper")
    assert str(caught.value) == "prompt set 'paper' holds diagram: aesthetics, readability; nothing for plot"


@pytest.mark.parametrize(
    ("flow", "prompt_set", "message"),
    [
        ("diagram", "papre", r"'papre' is neither a known set \(default, .*paper.*\) nor a folder"),
        ("diagram", ".", r"'\.' holds no file <flow>/<dimension>\.md"),
        ("sculpture", "default", r"no prompts for flow 'sculpture'; flows with prompts: .*diagram.*plot"),
        ("sets", "default", r"no prompts for flow 'sets'"),
    ],
)
def test_unknown_set_or_flow_is_refused_with_the_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flow: str, prompt_set: str, message: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_rubric(flow, prompt_set)


def test_shipped_set_precedes_a_folder_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_prompt(tmp_path / "paper")
    monkeypatch.chdir(tmp_path)
    assert load_rubric("diagram", "paper").prompt("readability").body != BODY
    assert load_rubric("diagram", "./paper").prompt("readability").body == BODY


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("tier = 1", "tier = 3", "key `tier`: found 3; allowed: 1 or 2, the tier of the decision rule"),
        ("tier = 1", "", "key `tier`: found nothing; allowed: 1 or 2, the tier of the decision rule"),
        ("tier = 1", "tear = 1\ntier = 1", "unknown key `tear`; allowed: position, inputs, tier, verdicts, default"),
        (BOTH, '["Human", "Draw"]', f"key `verdicts.1`: found 'Draw'; allowed: an array of at least one of {ALL}"),
        (BOTH, '["Human", "Human"]', f"key `verdicts`: found ['Human', 'Human']; allowed: {EACH}"),
        (BOTH, "[]", f"key `verdicts`: found []; allowed: {EACH}"),
        (
            '= "Human"',
            '= "Both are bad"',
            "key `default`: found 'Both are bad'; allowed: one of Model, Human, or no such key",
        ),
        (
            'model = "Right Picture"',
            "",
            "key `inputs`: found {'caption': 'Words', 'human': 'Left Picture'}; allowed: both human and model",
        ),
        ("caption =", "title =", f"key `inputs.title`: found 'title'; allowed: {TABLE}"),
        ('"Words"', '" "', f"key `inputs.caption`: found ' '; allowed: {TABLE}"),
    ],
)
def test_invalid_front_matter_is_reported_with_allowed_values(tmp_path: Path, old: str, new: str, complaint: str):
    file = write_prompt(tmp_path, front=FRONT.replace(old, new))
    assert f"{file}: {complaint}" in load_errors(tmp_path)


def test_labels_must_differ_and_occur_in_the_body(tmp_path: Path):
    write_prompt(tmp_path, front=FRONT.replace("Left Picture", "Words").replace("Right Picture", "Third Picture"))
    (complaint,) = load_errors(tmp_path)
    assert complaint.endswith("allowed: a label once only and labels that the body names (it lacks Third Picture)")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"# No front matter", "found no front matter; allowed: TOML between two `+++` lines, at the top"),
        (b"+++\ntier = 1\n", "found no front matter; allowed: TOML between two `+++` lines, at the top"),
        (b"+++\ntier = 1\nverdicts = [\n+++\nText", "front matter is not TOML: Invalid value (at end of document)"),
        (b"+++\na = 1\na = 2\n+++\nText", "front matter is not TOML: Cannot overwrite a value (at line 3, column 6)"),
        (b"+++\n\xff\n+++\nText", "found a byte at 4 that is not UTF-8; allowed: UTF-8"),
    ],
)
def test_unparsable_prompt_file_is_reported(tmp_path: Path, content: bytes, complaint: str):
    file = write_prompt(tmp_path)
    file.write_bytes(content)
    assert load_errors(tmp_path) == [f"{file}: {complaint}"]


def test_links_may_lead_only_within_the_set(tmp_path: Path):
    elsewhere = write_prompt(tmp_path / "elsewhere")
    inside = write_prompt(tmp_path / "set", "common/readability")
    (tmp_path / "set" / "diagram").mkdir()
    (tmp_path / "set" / "diagram" / "readability.md").symlink_to(inside)
    assert load_rubric("diagram", str(tmp_path / "set"))
    (tmp_path / "set" / "diagram" / "readability.md").unlink()
    (tmp_path / "set" / "diagram" / "readability.md").symlink_to(elsewhere)
    [words] = load_errors(tmp_path / "set")
    assert f"readability.md: refused: it leads to {elsewhere}, outside of {tmp_path / 'set'}" in words


def test_each_tier_needs_at_least_one_dimension(tmp_path: Path):
    write_prompt(tmp_path, "diagram/aesthetics")
    assert [prompt.tier for prompt in load_rubric("diagram", str(tmp_path)).prompts] == [1, 2, 1, 1]
    write_prompt(tmp_path, "diagram/conciseness")
    assert load_errors(tmp_path) == ["key `tier`: found 2 in no prompt; allowed: 1 and 2 at least once"]


# Custom dimensions and tags

ASPECTS = """\
[inputs]
prompt = "Words"
image = "Picture"

[aspects.order]
zero = "none"
ten = "perfect"
"""
PLACE = (
    "key `position`: found nothing; allowed: the place of '{}' in tables, such as `position = {}`; or the name of a "
    "prompt to replace: {}"
)
PLACED = f"position = 5\n{FRONT}"
COUNTED = "position = 5\n" + ASPECTS.replace("[aspects.order", 'objects = "Objects"\n[aspects.count')
FOUR = "aesthetics, conciseness, faithfulness, readability"


def test_new_dimension_gets_its_position_and_a_replaced_one_keeps_it(tmp_path: Path):
    write_prompt(tmp_path, "diagram/clarity", f"position = 15\n{FRONT}")
    write_prompt(tmp_path, "diagram/aesthetics", FRONT.replace("tier = 1", "tier = 2"))
    found = load_rubric("diagram", str(tmp_path)).prompts
    assert [prompt.dimension for prompt in found] == [
        "faithfulness", "clarity", "conciseness", "readability", "aesthetics"
    ]  # fmt: skip
    assert [prompt.position for prompt in found] == [10, 15, 20, 30, 40]


def test_position_does_not_change_the_prompt_digest(tmp_path: Path):
    digests = set[str]()
    for place in ("", "position = 45\n"):
        write_prompt(tmp_path, front=place + FRONT)
        digests.add(load_rubric("diagram", str(tmp_path)).prompt("readability").digest)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("name", "front", "complaint"),
    [
        ("diagram/clarity", FRONT, PLACE.format("clarity", 50, FOUR)),
        ("object/three_object", ASPECTS, PLACE.format("three_object", 30, "single_object, two_object")),
        ("diagram/clarity", f'position = "5"\n{FRONT}', "key `position`: found '5'; allowed: a whole number from 1 on"),
        ("diagram/clarity", f"position = 0\n{FRONT}", "key `position`: found 0; allowed: a whole number from 1 on"),
        ("diagram/Clarity!", PLACED, "found the name 'Clarity!'; allowed: a small letter, then at most"),
        ("diagram/" + 41 * "a", PLACED, "allowed: a small letter, then at most 39 small letters, digits"),
        ("diagram/overall", PLACED, "found the name 'overall', which the history uses itself; allowed"),
        ("diagram/tier_path", PLACED, "found the name 'tier_path', which the history uses itself"),
        ("diagram/constructor", PLACED, "found the name 'constructor', which the history uses itself"),
        (
            "object/counting",
            f"position = 5\n{ASPECTS}",
            "found a tag of the flow counting; allowed: a name that no other",
        ),
        ("object/clarity", PLACED, "unknown key `tier`; allowed: position, inputs, aspects"),
        (
            "object/clarity",
            f"position = 5\n{ASPECTS.replace('order', 'score')}",
            "with another name than overall_score",
        ),
        ("object/clarity", COUNTED, "key `aspects`: found {'count': {'zero': 'none', 'ten': 'perfect'}}; allowed: at"),
    ],
)
def test_invalid_new_prompt_is_reported_with_advice(tmp_path: Path, name: str, front: str, complaint: str):
    file = write_prompt(tmp_path, name, front)
    found = load_errors(tmp_path, name.partition("/")[0])
    assert [line for line in found if line.startswith(f"{file}: ") and complaint in line]


def test_duplicate_position_is_refused(tmp_path: Path):
    write_prompt(tmp_path, "diagram/clarity", f"position = 20\n{FRONT}")
    expected = "key `position`: found 20 in conciseness, clarity; allowed: a number of its own for each prompt"
    assert load_errors(tmp_path) == [expected]


def test_tag_in_two_flows_is_refused(tmp_path: Path):
    files = [write_prompt(tmp_path, f"{flow}/clarity", f"position = 50\n{ASPECTS}") for flow in ("object", "colors")]
    expected = "found a tag of the flow {}; allowed: a name that no other flow has"
    assert load_errors(tmp_path, "object") == [f"{files[0]}: {expected.format('colors')}"]
    assert load_errors(tmp_path, "colors") == [f"{files[1]}: {expected.format('object')}"]


def test_text_file_with_another_suffix_is_reported(tmp_path: Path):
    write_prompt(tmp_path)
    for name in ("clarity.txt", "style.MD", "notes.json", ".hidden.txt"):
        (tmp_path / "diagram" / name).write_text("x", encoding="utf-8")
    expected = "found the ending '{}'; allowed: .md, or another folder for a text that is no prompt"
    assert load_errors(tmp_path) == [
        f"{tmp_path / 'diagram' / name}: {expected.format(ending)}"
        for name, ending in (("clarity.txt", ".txt"), ("style.MD", ".MD"))
    ]


def test_problems_of_all_files_are_reported_together(tmp_path: Path):
    stranger = write_prompt(tmp_path, "diagram/clarity")
    twice = write_prompt(
        tmp_path, front='colour = "red"\n' + FRONT.replace('default = "Human"', 'default = "Tie"'), body=""
    )
    broken = write_prompt(tmp_path, "diagram/aesthetics", front="tier = \n")
    found = load_errors(tmp_path)
    assert [line.split(": ")[0] for line in found] == [str(broken), *[str(twice)] * 4, str(stranger)]
    for part in ("clarity", "not TOML", "empty body", "`default`: found 'Tie'", "`colour`", "`inputs`"):
        assert sum(part in line for line in found) == 1
    assert found[-1] == f"{stranger}: {PLACE.format('clarity', 50, FOUR)}"
    assert f"{twice}: found an empty body; allowed: the text of the prompt" in found


def test_internal_error_is_not_blamed_on_a_prompt_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_prompt(tmp_path)
    monkeypatch.setattr("tasks.rubrics.rubric.kept", slip)
    with pytest.raises(ValueError, match=r"^a slip$") as caught:
        load_rubric("diagram", str(tmp_path))
    assert not isinstance(caught.value, InputError)
