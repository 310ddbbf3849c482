"""`jury` command: the list of its commands, and the one place where errors become exit codes.

The module of a command is imported when it is called, so that the help and the other commands respond at once.
"""

import atexit
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click
from click.exceptions import Exit, NoArgsIsHelpError, NoSuchCommand, NoSuchOption
from click.shell_completion import shell_complete

from flows.commands.faults import is_users, tell_fault
from flows.commands.messages import warn
from flows.commands.sections import GIVEN, Command, Group
from flows.runtime.process import end_without_the_rest, hush
from tasks.errors import InputError

COMMANDS = {
    "Judging": {
        "demo": "Draw samples with known defects and judge them, with no key and no network.",
        "run": "Judge a dataset.",
        "collect": "Take in the replies of runs that wait for their batches.",
        "probe": "Ask the judge one cheap question.",
        "passport": "Test what a judge can see and keeps to, on drawn pictures with known answers.",
        "endpoints": "List the endpoints that are known by a short name, with what their documentation says.",
        "prompts": "List, show, check or import prompts.",
        "samples": "Draw figures and images with known defects into a folder.",
    },
    "Schedules": {
        "up": "Serve the deployments: a Prefect server with its UI, schedules, and runs on request.",
        "prepare": "Make on the server of PREFECT_API_URL what runs of a work pool need; once a server.",
        "baseline": "Begin the baseline of nightly alarms anew.",
        "status": "Show what is up, what runs, failed, is paused or comes next, and what ran last.",
    },
    "Results": {
        "query": "Show a table or view of the history, or the answer to an SQL query.",
        "report": "Write an evaluation with its pictures into one HTML file.",
        "pages": "Make the store's pages anew: the index of all evaluations, and a page each.",
        "compare": "Show what changed from one run, or one candidate, to another.",
        "gate": "Tell whether a candidate may go on, by its score or against another, for a check of a pull request.",
        "bridge": "Tell whether a history may be continued with another judge, and with what offset.",
        "sync": "Load what the ledgers hold and the history lacks.",
        "forget": "Remove a run, a candidate or a sample from the store for good.",
    },
    "People": {
        "label": "Write a page on which people judge samples of a run, without knowing whose they are.",
        "labels": "Bring in what people say of samples, to compare a judge with; list them, or remove them.",
        "agreement": "How far two judges, or a judge and people, agree on samples.",
    },
}
ELSEWHERE = {"gate": "compare", "prepare": "up", "report": "pages", "samples": "demo"}
"""Command -> other command whose module also holds this one."""
COMPLETE = "_JURY_COMPLETE"
"""Environment variable through which a shell asks for completions."""
WIDEST = 100
"""Columns of the help on a wide terminal."""
GOES_ON = ("run", "collect", "demo", "passport", "bridge")
"""Commands that continue where they were stopped."""


class _Lazy(click.Command):
    """Entry of the list for a command whose module is not imported yet."""

    heading = Command.heading

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Import the module of the command, and return the context of the command itself."""
        name = str(self.name)
        module = import_module(f"flows.commands.{ELSEWHERE.get(name, name)}")
        command: click.Command = getattr(module, name if name in ELSEWHERE else "command")
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
    atexit.register(hush)
    code = _code(words)
    if arguments is None:
        end_without_the_rest(code)
    return code


def _code(words: list[str]) -> int:
    given: dict[str, Any] = {}
    try:
        code = _run(words, given)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output is gone (`jury query … | head`), so nobody would see a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        goes_on = "; every reply so far is in the ledger, and the same command goes on from there"
        warn("stopped" + (goes_on if words[:1] and words[0] in GOES_ON else ""))
        return 130
    except Exception as error:
        return _exit_code(error, given)
    return code


def _run(words: list[str], given: dict[str, Any]) -> int:
    """Parse and run the command; put its arguments into `given`, for the report of a failure."""
    jury = _jury()
    if asked := os.environ.get(COMPLETE):
        return shell_complete(jury, {}, "jury", COMPLETE, asked)
    with jury.make_context("jury", words, max_content_width=WIDEST) as context:
        try:
            return jury.invoke(context)
        finally:
            given.update(context.meta.get(GIVEN, {}))


def _jury() -> click.Group:
    jury = Group("jury", help="Evaluations with a vision-language model as the judge.")
    click.version_option(package_name="image-jury", message="%(prog)s %(version)s")(jury)
    for heading, commands in COMMANDS.items():
        for name, words in commands.items():
            command = _Lazy(name, help=words)
            command.heading = heading
            jury.add_command(command)
    return jury


def _keep_closest(error: click.UsageError) -> None:
    """Keep one suggestion for a misspelt word: click finds up to three, the closest first, but lists them by name."""
    if isinstance(error, NoSuchCommand | NoSuchOption) and error.possibilities:
        del error.possibilities[1:]


def _exit_code(error: Exception, given: Mapping[str, Any]) -> int:
    """Print the reason that stopped the command; return the exit code, which shows whose failure it is."""
    match error:
        case Exit():
            return error.exit_code
        case NoArgsIsHelpError():
            error.show()
        case click.UsageError():
            _keep_closest(error)
            path = error.ctx.command_path if error.ctx else "jury"
            warn(f"{error.format_message()}\nTry `{path} --help`.")
        case InputError():
            warn(str(error))
        case OSError() if is_users(error, given):
            warn(str(error))
        case _:
            tell_fault(error, given)
            return 1
    return 2
