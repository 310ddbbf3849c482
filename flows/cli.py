"""`jury` command: the tree of its commands, and the one place where errors become exit codes.

The module of a command is imported when it is called, so that the help and the other commands respond at once.
"""

import atexit
import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.exceptions import Exit, NoArgsIsHelpError, NoSuchCommand, NoSuchOption
from click.shell_completion import shell_complete

from flows.commands.console import Command, Group, tell_fault, warn
from flows.server.supervision import GARBAGE_THRESHOLDS, end_without_the_rest
from tasks.errors import InputError


class Entry(NamedTuple):
    """A command in the list, or a group of commands."""

    help: str
    place: str = ""
    """Module of `flows.commands` and function of the command; empty: a group, whose commands are entries, too."""


COMMANDS: dict[str, dict[str, Entry]] = {
    "Judging": {
        "run": Entry("Judge a dataset with one flow, or with several of one kind.", "run.run"),
        "demo": Entry(
            "Draw samples with known defects and judge them, with no key and no network; or only draw them.",
            "demo.demo",
        ),
        "batch": Entry("Collect or cancel the batches that runs wait for."),
        "batch collect": Entry("Collect the replies of runs that wait for their batches.", "batch.collect_runs"),
        "batch cancel": Entry("Cancel the batches of a run; finished replies are kept.", "batch.cancel_run"),
        "judge": Entry("Ask a judge a question, test what it can see, or compare two judges."),
        "judge ping": Entry("Ask the judge one cheap question.", "judge.ping"),
        "judge exam": Entry(
            "Test what a judge can see and keeps to, on drawn pictures with known answers.", "exam.exam"
        ),
        "judge endpoints": Entry("List the known endpoints, their addresses and keys.", "judge.list_endpoints"),
        "judge bridge": Entry(
            "Check whether another judge may continue a history, and with what offset.", "raters.bridge_judges"
        ),
        "prompts": Entry("List, show, check or import prompts, or draft checks of figures."),
        "prompts list": Entry(
            "List the prompt sets with the flows and dimensions that they hold.", "prompts.list_prompts"
        ),
        "prompts show": Entry("Show a prompt as it is sent with a drawn sample.", "prompts.show_prompt"),
        "prompts check": Entry("Check that every prompt of a set can be used.", "prompts.check_prompts"),
        "prompts import": Entry(
            "Make a prompt set of a published document, word for word.", "prompts.import_prompt_set"
        ),
        "prompts draft-checks": Entry(
            "Let a model draft a checklist for figures, and keep what their Human figures pass.", "drafts.draft_checks"
        ),
    },
    "Schedules": {
        "up": Entry("Serve the deployments: a Prefect server with its UI, schedules, and runs on request.", "up.up"),
        "deploy": Entry(
            "Prepare a Prefect server for runs of a work pool, or write a list of deployments.", "up.deploy"
        ),
        "alarms": Entry("Restart the baseline of nightly alarms."),
        "alarms restart": Entry(
            "Start a new baseline with the next scheduled run, and close open alarms.", "alarms.restart"
        ),
        "status": Entry("Show servers, runs, failures, pauses, the next runs and open alarms.", "status.status"),
    },
    "Results": {
        "query": Entry("Show a table or view of the history, or the answer to an SQL query.", "query.query"),
        "report": Entry("Write an evaluation with its pictures into one HTML file.", "pages.report"),
        "compare": Entry("Show what changed from one run, or one candidate, to another.", "compare.compare_runs"),
        "gate": Entry("Decide in CI whether a candidate passes, by its score or against another.", "compare.gate"),
        "store": Entry("Bring history, pages and bucket in step with the ledgers, or remove data for good."),
        "store sync": Entry("Load what the ledgers hold and the history lacks.", "store.sync"),
        "store rebuild": Entry("Rebuild the history from all ledgers.", "store.rebuild"),
        "store push": Entry("Send the pages that the bucket of a remote store lacks, and its index.", "pages.push"),
        "store pages": Entry(
            "Make the store's pages again: the index, and a page for each evaluation.", "pages.make_pages"
        ),
        "store forget": Entry("Remove a run, a candidate or a sample from the store for good.", "store.forget"),
    },
    "People": {
        "labels": Entry("Let people judge samples, and compare a judge with them."),
        "labels page": Entry(
            "Write a page on which people judge samples of a run, without knowing whose they are.",
            "labels.write_pages",
        ),
        "labels import": Entry(
            "Keep the labels of a file, load them into the history, send them to a remote store.", "labels.import_file"
        ),
        "labels list": Entry("List the labels of the store, and what each file is about.", "labels.list_labels"),
        "labels remove": Entry("Remove labels from the store and the history, for good.", "labels.remove"),
        "labels agreement": Entry(
            "Print how far two judges, or a judge and people, agree on samples.", "raters.compare_raters"
        ),
    },
}
"""Heading -> the words after `jury` -> command. A group comes before its commands."""
COMPLETE = "_JURY_COMPLETE"
"""Environment variable through which a shell asks for completions."""
WIDEST = 100
"""Columns of the help on a wide terminal."""
GOES_ON = ("run", "demo", "batch", "judge exam", "prompts draft-checks")
"""Commands that continue where they were stopped."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that only the user can fix, for any file."""


class _Lazy(click.Command):
    """Command of the list whose module is not imported yet."""

    heading = Command.heading

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.help)
        self._place = entry.place

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Import the module of the command, and return the context of the command itself."""
        module, _, function = self._place.partition(".")
        command: click.Command = getattr(import_module(f"flows.commands.{module}"), function)
        command.help = self.help
        return command.make_context(info_name, args, parent, **extra)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Without `arguments` it runs the command of this process, and may end the process.

    Returns:
        0 if every judgment is ok. 3 if any is not, a Human picture is bad or a run waits; of `jury status` if history
        and ledgers are not in step, a removal is unfinished or there is no store. 4 if a candidate fails `jury gate`, 5
        if that is undecided. 2 if a mistake in the input or a refusal by the judge stopped the command; the reason is
        one message on standard error. 1 for a fault of the program, 130 after Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else [*arguments]
    atexit.register(_hush)
    if arguments is None:
        gc.set_threshold(*GARBAGE_THRESHOLDS)
    code = _code(words)
    if arguments is None:
        end_without_the_rest(code)
    return code


def _hush() -> None:
    """Hide the output of DuckDB 2.0 at exit (nanobind's leak list) from the user."""
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _code(words: list[str]) -> int:
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output is gone (`jury query … | head`), so nobody would see a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        goes_on = "; every reply so far is in the ledger, and the same command goes on from there"
        warn("stopped" + (goes_on if " ".join(words).startswith(GOES_ON) else ""))
        return 130
    except Exception as error:
        return _exit_code(error)
    return code


def _run(words: list[str]) -> int:
    jury = _jury()
    if asked := os.environ.get(COMPLETE):
        return shell_complete(jury, {}, "jury", COMPLETE, asked)
    with jury.make_context("jury", words, max_content_width=WIDEST) as context:
        return jury.invoke(context)


def _jury() -> click.Group:
    jury = Group("jury", help="Evaluations with a vision-language model as the judge.")
    click.version_option(package_name="image-jury", message="%(prog)s %(version)s")(jury)
    groups: dict[str, click.Group] = {"": jury}
    for heading, entries in COMMANDS.items():
        for path, entry in entries.items():
            above, _, name = path.rpartition(" ")
            command = _Lazy(name, entry) if entry.place else Group(name, help=entry.help)
            if not above:
                command.heading = heading
            if isinstance(command, Group):
                groups[path] = command
            groups[above].add_command(command)
    return jury


def _is_users(error: OSError) -> bool:
    """Return whether a user can mend an error: of the remote store, of a file, or of a full disk."""
    from tasks.ledger.bucket import RemoteUnavailable

    return isinstance(error, RemoteUnavailable) or bool(error.filename) or error.errno in FULL


def _exit_code(error: Exception) -> int:
    """Print the reason that stopped the command; return the exit code, which shows whose failure it is."""
    match error:
        case Exit():
            return error.exit_code
        case NoArgsIsHelpError():
            error.show()
        case click.UsageError():
            if isinstance(error, NoSuchCommand | NoSuchOption) and error.possibilities:
                del error.possibilities[1:]  # click finds up to three, the closest first, but lists them by name
            path = error.ctx.command_path if error.ctx else "jury"
            warn(f"{error.format_message()}\nTry `{path} --help`.")
        case InputError():
            warn(str(error))
        case OSError() if _is_users(error):
            warn(str(error))
        case _:
            tell_fault(error)
            return 1
    return 2
