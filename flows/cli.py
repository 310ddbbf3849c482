"""The `jury` command: everything a person starts from a terminal.

Each command is one function. What takes long to import (Prefect, DuckDB) is imported by the command that needs it, so
that the others answer at once.
"""

import argparse
import asyncio
import atexit
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from flows.commands.options import add_options, parse_options
from flows.runtime.quiet import hush
from tasks.errors import HistoryLocked
from tasks.ledger.remote import local_cache
from tasks.parameters import PAIRWISE, T2I, Probe, default_store, parameters_of

FLOWS = (*PAIRWISE, *T2I)
_JUDGED = {
    "diagram": "Judge method diagrams against the human ones.",
    "plot": "Judge statistical plots against the human ones.",
    "object": "Judge generated images of one or two objects.",
    "counting": "Judge generated images of counted objects.",
    "colors": "Judge generated images of colored objects.",
    "position": "Judge generated images of objects beside or above each other.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 when every judgment is ok, 3 when any is not or a Human picture is bad, 2 when a mistake in the input or a
        refusal by the judge stopped the command, with the reason as one message on standard error.
    """
    found = _parser().parse_args(arguments)
    atexit.register(hush)
    try:
        return found.command(found)
    except BrokenPipeError:
        # The reader of our output has gone (`jury query … | head`); there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, HistoryLocked, OSError) as error:
        print(f"jury: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "jury: stopped; every reply so far is in the ledger, and the same command goes on from there",
            file=sys.stderr,
        )
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jury", description="Evaluations with a vision-language model as the judge.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Callable[[argparse.Namespace], int], words: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=words, description=words)
        added.set_defaults(command=function)
        return added

    demo = command("demo", _demo, "Draw samples with known defects and judge them, with no key and no network.")
    _add_store(demo)
    up = command("up", _up, "Serve the deployments: a Prefect server with its UI, schedules, and runs on request.")
    up.add_argument("--port", type=int, default=4200, help="Port of the UI on this machine (default: 4200).")
    up.add_argument("--deployments", default="", metavar="FILE", help="Another list than deployments/prefect.yaml.")
    _add_notify(up)
    _add_store(up)
    prepare = command(
        "prepare", _prepare, "Make on the server of PREFECT_API_URL what runs of a work pool need; once a server."
    )
    _add_notify(prepare)
    status = command("status", _status, "Show what is up, what runs next, what ran last.")
    _add_store(status)
    run = command("run", _run, "Judge a dataset.")
    flows = run.add_subparsers(required=True, metavar="FLOW", dest="flow")
    for flow in FLOWS:
        each = flows.add_parser(flow, help=_JUDGED[flow])
        add_options(each, parameters_of(flow))
        each.add_argument("--json", action="store_true", help="Print scores and rates as JSON.")
    query = command("query", _query, "Show a table or view of the history, or the answer to an SQL query.")
    query.add_argument("question", nargs="?", default="", metavar="NAME|SQL", help="Empty: list what there is.")
    query.add_argument("--json", action="store_true", help="Print an array of objects.")
    _add_store(query)
    _add_compare(command("compare", _compare, "Show what changed from one run, or one candidate, to another."))
    report = command("report", _report, "Write evaluations with their pictures into one HTML file.")
    report.add_argument("run", nargs="?", default="", metavar="RUN", help="Beginning of its id; empty: the newest.")
    report.add_argument("--flow", default="", choices=FLOWS, metavar="FLOW", help="The newest of this flow.")
    report.add_argument("--last", type=int, default=1, metavar="N", help="So many of the newest (default: 1).")
    report.add_argument("-o", "--output", default="report.html", metavar="FILE", help="Default: report.html.")
    _add_store(report)
    sync = command("sync", _sync, "Load what the ledgers hold and the history lacks.")
    sync.add_argument("--rebuild", action="store_true", help="Make the history anew from all ledgers.")
    _add_store(sync)
    labels = command("labels", _labels, "Bring in what people say of samples, to compare a judge with.")
    labels.add_argument("what", choices=["import"])
    labels.add_argument("file", metavar="FILE", help="JSON Lines or CSV; README.md lists the columns.")
    labels.add_argument("--flow", required=True, choices=FLOWS, help="Flow whose samples the labels are about.")
    labels.add_argument("--name", default="", help="What the labels are called (default: the file's name).")
    _add_store(labels)
    agreement = command("agreement", _agreement, "How far two judges, or a judge and people, agree on samples.")
    for side in ("a", "b"):
        agreement.add_argument(side, metavar=side.upper(), help="Beginning of a run's id, or the name of labels.")
    agreement.add_argument("--json", action="store_true", help="Print everything as JSON.")
    _add_store(agreement)
    probe = command("probe", _probe, "Ask the judge one cheap question.")
    add_options(probe, Probe)
    prompts = command("prompts", _prompts, "List, show, check or import prompts.")
    prompts.add_argument("what", choices=["list", "show", "check", "import"])
    named = "The prompt to show, or the published document to import."
    prompts.add_argument("prompt", nargs="?", default="", metavar="FLOW/DIMENSION|FILE", help=named)
    prompts.add_argument("--set", default="", metavar="NAME", help="Name or folder of the set that an import makes.")
    prompts.add_argument("--prompt-set", default="default", help="Name or folder of a prompt set.")
    samples = command("samples", _samples, "Draw figures and images with known defects into a folder.")
    samples.add_argument("folder", metavar="DIR")
    samples.add_argument("--count", type=int, default=24, help="Diagrams and plots, each (default: 24).")
    samples.add_argument("--prompts", type=int, default=8, help="Text-to-image prompts a tag (default: 8).")
    samples.add_argument("--seed", type=int, default=7, help="The same seed draws the same files (default: 7).")
    return parser


def _add_compare(parser: argparse.ArgumentParser) -> None:
    which = "Two runs, the earlier one first, by the beginnings of their ids; or one run and two candidates."
    parser.add_argument("runs", nargs="*", metavar="RUN", help=which)
    allowed = "A difference that is meant: dataset, or an item of the protocol, such as model; repeatable."
    parser.add_argument("--across", action="append", default=[], metavar="NAME", help=allowed)
    candidates = "Candidate of both runs; given twice, one of each."
    parser.add_argument("--candidate", action="append", default=[], metavar="NAME", help=candidates)
    parser.add_argument("--last", type=int, metavar="N", help="The first and the last of N runs of --flow.")
    parser.add_argument("--flow", choices=FLOWS, default="", help="Flow whose last runs are meant.")
    parser.add_argument("--json", action="store_true", help="Print everything as JSON.")
    _add_store(parser)


def _add_notify(parser: argparse.ArgumentParser) -> None:
    block = "Tell people through this notification block when a scheduled run is worse than the last one."
    parser.add_argument("--notify", default="", metavar="TYPE/NAME", help=block)


def _add_store(parser: argparse.ArgumentParser) -> None:
    store = default_store()
    parser.add_argument("--store", default=store, help=f"Folder or s3://… of ledgers and history (default: {store}).")


def _demo(found: argparse.Namespace) -> int:
    from flows.commands.running import run_flow

    codes: list[int] = []
    for flow in FLOWS:
        print(f"\n{flow}: drawn samples, judged by pixels\n")
        codes.append(run_flow(flow, parameters_of(flow)(store=found.store, reuse_hours=0)))
    print(f"\nThe history is {local_cache(found.store) / 'history.duckdb'}. Next:\n")
    for words in (
        "query leaderboard",
        "query t2i_leaderboard",
        "report -o report.html",
        "query \"SELECT sample_id, overall, path FROM outcomes WHERE injected = 'black'\"",
        "run diagram --judge.model gpt-5 --judge.base-url https://api.openai.com/v1 --limit 4",
    ):
        print(f"  .venv/bin/jury {words}" + ("" if found.store == default_store() else f" --store {found.store}"))
    # A drawn sample without its picture is a forfeit on purpose, so the demo ends well when every reply came.
    return max(codes)


def _up(found: argparse.Namespace) -> int:
    from flows.commands.serving import up

    return up(found.store, found.port, found.deployments, found.notify)


def _prepare(found: argparse.Namespace) -> int:
    from flows.commands.serving import prepare

    return prepare(found.notify)


def _status(found: argparse.Namespace) -> int:
    from flows.commands.status import show_status

    return show_status(local_cache(found.store))


def _run(found: argparse.Namespace) -> int:
    from flows.commands.running import run_flow

    return run_flow(found.flow, parse_options(found, parameters_of(found.flow)), as_json=found.json)


def _query(found: argparse.Namespace) -> int:
    from flows.commands.asking import show_query

    return show_query(local_cache(found.store), found.question, as_json=found.json)


def _compare(found: argparse.Namespace) -> int:
    from flows.commands.comparing import show_compare

    last = (found.last, found.flow)
    return show_compare(local_cache(found.store), found.runs, found.candidate, found.across, last, as_json=found.json)


def _report(found: argparse.Namespace) -> int:
    from flows.commands.reporting import write_report

    return write_report(local_cache(found.store), found.run, found.flow, found.last, Path(found.output))


def _sync(found: argparse.Namespace) -> int:
    from flows.commands.asking import show_sync

    return show_sync(found.store, found.rebuild)


def _labels(found: argparse.Namespace) -> int:
    from flows.commands.agreeing import import_label_file

    return import_label_file(found.store, found.file, found.flow, found.name)


def _agreement(found: argparse.Namespace) -> int:
    from flows.commands.agreeing import show_agreement

    return show_agreement(local_cache(found.store), found.a, found.b, as_json=found.json)


def _probe(found: argparse.Namespace) -> int:
    from flows.commands.running import find_prefect
    from flows.runtime.secrets import secret_block
    from tasks.endpoint.client import Vlm
    from tasks.endpoint.requests import probe_request
    from tasks.text import one_line

    judge = parse_options(found, Probe).judge
    find_prefect(local_cache(default_store()))  # a key may be kept there, as a Secret block

    async def ask() -> int:
        async with Vlm(judge, secret=secret_block) as vlm:
            reply = await vlm.probe(probe_request())
        print(f"{reply.status}: {reply.model or judge.model} in {reply.seconds:g} s, reply format {reply.rung}")
        print(one_line(reply.error or reply.text, 500))
        if reply.not_sent:
            print(f"left out because the endpoint refuses it: {', '.join(reply.not_sent)}")
        return 0 if reply.status == "ok" else 3

    return asyncio.run(ask())


def _prompts(found: argparse.Namespace) -> int:
    from flows.commands.prompts import check_prompts, import_prompt_set, list_prompts, show_prompt

    match found.what:
        case "list":
            print(list_prompts())
        case "show":
            print(show_prompt(found.prompt, found.prompt_set))
        case "import":
            print(import_prompt_set(found.prompt, found.set))
        case _:
            print(check_prompts(found.prompt_set))
    return 0


def _samples(found: argparse.Namespace) -> int:
    from tasks.synthetic.samples import GENERATED, draw_all

    folder = Path(found.folder)
    draw_all(folder, found.count, found.prompts, found.seed)
    for flow in PAIRWISE:
        print(f"{found.count} {flow} samples drawn; judge them with: jury run {flow} --dataset {folder}")
    print(
        f"images of {found.prompts} prompts a tag drawn; judge them with: jury run FLOW --dataset {folder / GENERATED}"
    )
    print(f"  FLOW: {', '.join(T2I)}")
    return 0
