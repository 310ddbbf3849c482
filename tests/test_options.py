"""Parameter models as options: what is wrong is told by the names that command line, form and list share."""

import argparse

import pytest

from flows.commands.options import add_options, parse_options
from tasks.parameters import RubricParameters


def complaint(*given: str) -> list[str]:
    parser = argparse.ArgumentParser()
    add_options(parser, RubricParameters)
    with pytest.raises(ValueError) as error:
        parse_options(parser.parse_args(given), RubricParameters)
    return str(error.value).splitlines()


def test_values_out_of_range_are_told_together_by_their_options() -> None:
    assert complaint("--limit", "-1", "--judge.max-output-tokens", "x") == [
        "--limit: Input should be greater than or equal to 0, found '-1'",
        "--judge.max-output-tokens: Input should be a valid integer, unable to parse string as an integer, found 'x'",
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ["--judge.model", "m"],
            "judge.model is 'm' and needs an address, the embedded judge is 'pixel-baseline': set ",
        ),
        (["--judge.base-url", "judge"], "judge.base_url 'judge' is no address: allowed are"),
        (["--judge.base-url", "http://a:b@c"], "judge.base_url must hold no user, password, query or fragment"),
        (["--shard", "2"], "shard is 2, allowed are 0"),
    ],
)
def test_fields_that_do_not_go_together_are_named_with_their_place(given: list[str], words: str) -> None:
    [told] = complaint(*given)
    assert told.startswith(words)
