"""`jury prompts`: list, show, check and import prompts."""

import shutil
from pathlib import Path

import pytest

from flows.cli import main
from tasks.rubrics.rubric import PROMPTS, holdings, load_rubric, prompt_sets


def test_list_shows_every_set_with_its_prompts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", "list"]) == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert lines == [[name, flow, ", ".join(held)] for name in prompt_sets() for flow, held in holdings(name).items()]


@pytest.mark.parametrize("name", ["plot/faithfulness", "colors/color_attr"])
def test_show_prints_the_prompt_and_a_sample_message(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", "show", name]) == 0
    out = capsys.readouterr().out
    flow, _, dimension = name.partition("/")
    prompt = load_rubric(flow).prompt(dimension)
    assert f"SHA-256 of the body {prompt.sha256}\n" in out and f"[system]\n{prompt.body}\n" in out
    message = out.partition("[user, for a drawn sample]\n")[2]
    assert "(picture, " in message and "JSON" in message


def test_check_accepts_all_shipped_prompts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", "check"]) == 0
    assert capsys.readouterr().out.endswith("17 prompts can be used\n")


def test_check_reports_problems_and_strips_control_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flow in ("diagram", "counting"):
        shutil.copytree(PROMPTS / flow, tmp_path / flow)
    (tmp_path / "diagram" / "aesthetics.md").write_text("no front matter", encoding="utf-8")
    (tmp_path / "counting" / "counting.md").write_text('+++\n"\\u001b[2J" = 1\n+++\nx', encoding="utf-8")
    assert main(["prompts", "check", "--prompt-set", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "diagram/aesthetics.md" in err and "counting/counting.md" in err and "\x1b" not in err


def test_custom_tag_is_checked_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (PROMPTS / "object" / "two_object.md").read_text(encoding="utf-8")
    file = tmp_path / "object" / "three_object.md"
    file.parent.mkdir()
    file.write_text(text.replace("position = 20", "position = 30"), encoding="utf-8")
    assert main(["prompts", "check", "--prompt-set", str(tmp_path)]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [f"object/{name}_object" for name in ("single", "two", "three")]
    assert last == "3 prompts can be used"
    assert main(["prompts", "show", "object/three_object", "--prompt-set", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"[system]\n{text.split('+++')[2].strip()}\n" in out and "(picture, " in out


@pytest.mark.parametrize(("args", "said"), [(["show", "x/y"], "no prompts for flow 'x'"), (["show"], "FLOW/DIMENSION")])
def test_missing_prompt_is_an_error(args: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", *args]) == 2
    assert said in capsys.readouterr().err


def test_import_requires_a_set_name_and_an_existing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", "import", str(tmp_path / "none.md")]) == 2
    assert "Missing option '--set'" in capsys.readouterr().err
    assert main(["prompts", "import", str(tmp_path / "none.md"), "--set", str(tmp_path / "set")]) == 2
    assert "none.md" in capsys.readouterr().err and not (tmp_path / "set").exists()
