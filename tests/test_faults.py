"""Figures that always fail in one way: their calls end, and cost other figures nothing but bounded time."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import Reply as Answer
from loopback_replies import Request as Asked
from loopback_replies import allowed_reply, delayed, error, hang, reset, retry_after

from tasks.endpoint import client, gate
from tasks.endpoint.client import MOST_FAILURES, MOST_SILENCES, Vlm
from tasks.endpoint.replies import Reply
from tasks.endpoint.requests import Image, Request, probe_request
from tasks.errors import JudgeStopped
from tasks.records.judge import Judge

FIGURES = 16
DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
WINNER = {"type": "object", "properties": {"winner": {"type": "string", "enum": ["Model"]}}, "required": ["winner"]}
PICTURE = Image("image/png", b"AAAA")
FAULTS: dict[str, Answer] = {
    "429": error(429, "Too many requests."), "429 with Retry-After": retry_after(1),
    "no answer": hang(), "reset": reset(), "500": error(500, "The worker died."),
    "302": Answer("", status=302, headers={"location": "http://127.0.0.1:9/elsewhere"}),
    "404": error(404, "No such model."),
}  # fmt: skip
BUSY = ("429", "429 with Retry-After")
SILENT = ("no answer", "reset")


@dataclass
class Faulty:
    """Answer function of a judge that always fails the same figures; it recognizes them by a line, `Figure 7.`"""

    fault: Answer
    bad: frozenset[str]
    """Captions of figures that fail."""
    only_dimension: str = ""
    """Dimension that fails for these figures; empty: all four."""
    asked: Counter[str] = field(default_factory=Counter[str])
    """Schema name and caption of a failing figure -> number of requests."""

    def __call__(self, seen: Asked) -> Answer:
        caption = next((words for text in seen.texts for words in text.split("\n") if words.startswith("Figure ")), "")
        named = self.only_dimension in seen.schema_name
        if caption in self.bad and named:
            self.asked[f"{seen.schema_name} {caption}"] += 1
            return self.fault
        return delayed(allowed_reply()(seen), 0.02)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(gate, "KNOCK_SECONDS", (0.05, 0.4))
    monkeypatch.setattr(gate, "BACKOFF_SECONDS", (0.02, 0.1))
    monkeypatch.setattr(gate, "TRY_SECONDS", 1.0)  # a busy machine answers late


async def judge_all(base_url: str, **settings: float) -> tuple[dict[str, Counter[str]], float]:
    """Return figure -> statuses of its calls, and the seconds that the judge counted as away."""
    given = {"timeout_seconds": 0.5, "call_seconds": 1.0, "patience_seconds": 20.0, "concurrency": 6, **settings}
    judge = Judge(model="m", base_url=base_url, **given)  # pyright: ignore

    async def ask(vlm: Vlm, figure: str, dimension: str) -> tuple[str, Reply]:
        question = Request("Compare.", (figure, PICTURE, "Reply as JSON."), f"diagram_{dimension}", WINNER)
        return figure, await vlm.ask(question, figure)

    async with Vlm(judge) as vlm:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(vlm, f"Figure {n}.", each)) for n in range(FIGURES) for each in DIMENSIONS]
        found = vlm.gate.found()
    statuses: dict[str, Counter[str]] = {}
    for each in tasks:
        figure, reply = each.result()
        statuses.setdefault(figure, Counter())[reply.status] += 1
    return statuses, found.away_seconds if found else 0.0


def figures(numbers: range) -> frozenset[str]:
    return frozenset(f"Figure {number}." for number in numbers)


BAD = {"one": figures(range(7, 8)), "last five": figures(range(FIGURES - 5, FIGURES))}
CASES = [
    *((name, "one") for name in ("429", "no answer", "302")),
    *((name, "last five") for name in ("429 with Retry-After", "reset", "500")),
]


@pytest.mark.parametrize(("name", "which"), CASES)
def test_failing_figures_end_and_cost_no_other(name: str, which: str) -> None:
    bad = BAD[which]
    with LoopbackJudge(faulty := Faulty(FAULTS[name], bad), keep_requests=False) as judge:
        statuses, away = asyncio.run(judge_all(judge.base_url))
    good = [found for figure, found in statuses.items() if figure not in bad]
    assert good == [{"ok": len(DIMENSIONS)}] * (FIGURES - len(bad))
    ends = "rejected" if name == "302" else "unavailable"
    assert [statuses[figure] for figure in bad] == [{ends: len(DIMENSIONS)}] * len(bad)
    assert away == 0, "a judge that answers other calls is not away"
    most = {"302": 1, "500": MOST_FAILURES} | dict.fromkeys(SILENT, MOST_SILENCES)
    assert name in BUSY or max(faulty.asked.values()) <= most[name]


def test_single_failing_call_ends_alone() -> None:
    fault = Faulty(FAULTS["429"], figures(range(3, 4)), only_dimension="readability")
    with LoopbackJudge(fault, keep_requests=False) as judge:
        statuses, _ = asyncio.run(judge_all(judge.base_url))
    assert statuses.pop("Figure 3.") == {"ok": 3, "unavailable": 1}
    assert [*statuses.values()] == [{"ok": 4}] * (FIGURES - 1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("429", "has refused all calls for 1 s: 429: Too many requests."),
        ("no answer", "answers no call .no whole reply within 0.2 s"),
        ("404", "refuses all calls .404: No such model."),
    ],
)
def test_run_stops_with_the_reason_if_all_figures_fail(name: str, words: str) -> None:
    fault = Faulty(FAULTS[name], figures(range(FIGURES)))
    with LoopbackJudge(fault, keep_requests=False) as judge, pytest.raises(ExceptionGroup) as stopped:
        patience = 1 if name == "429" else 60
        timeout = 0.2 if name == "no answer" else 20  # a busy machine answers late
        settings = {"timeout_seconds": timeout, "patience_seconds": patience, "call_seconds": 120, "concurrency": 16}
        asyncio.run(judge_all(judge.base_url, **settings))
    assert stopped.group_contains(JudgeStopped, match=words)


def test_run_gives_up_after_patience_if_all_calls_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first question is answered, but no call is, so calls cannot be compared with others."""
    monkeypatch.setattr(gate, "MOST_REFUSALS", 2)

    async def scene(base_url: str) -> None:
        settings = {"call_seconds": 0.5, "patience_seconds": 5.0, "concurrency": 6}
        async with Vlm(Judge(model="m", base_url=base_url, **settings)) as vlm, asyncio.TaskGroup() as group:  # pyright: ignore
            await vlm.probe(probe_request())
            for number in range(6):
                for dimension in DIMENSIONS:
                    question = Request("Compare.", (f"Figure {number}.", PICTURE), f"diagram_{dimension}", WINNER)
                    group.create_task(vlm.ask(question, f"Figure {number}."))

    fault = Faulty(FAULTS["429"], figures(range(6)))
    with LoopbackJudge(fault, keep_requests=False) as judge, pytest.raises(ExceptionGroup) as stopped:
        asyncio.run(scene(judge.base_url))
    assert stopped.group_contains(JudgeStopped, match="has refused all calls for 5 s: 429: Too many requests.")


def test_calls_told_to_wait_an_hour_end_or_stop_the_run() -> None:
    hour = FAULTS["429 with Retry-After"]
    hour = type(hour)(hour.body, hour.status, {"retry-after": "3600"})
    with LoopbackJudge(Faulty(hour, figures(range(2, 3))), keep_requests=False) as judge:
        statuses, _ = asyncio.run(judge_all(judge.base_url))
    assert statuses.pop("Figure 2.") == {"unavailable": 4} and {*map(str, statuses.values())} == {"Counter({'ok': 4})"}
    fault = Faulty(hour, figures(range(FIGURES)))
    with LoopbackJudge(fault, keep_requests=False) as judge, pytest.raises(ExceptionGroup) as stopped:
        asyncio.run(judge_all(judge.base_url))
    assert stopped.group_contains(JudgeStopped, match="asks to wait 1 h, and judge.patience_seconds allows 20 s")
