"""A process that is kept: begun again when it ends unasked, given up when that does not help."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from served import on_ctrl_c, wait_for

from flows.runtime.kept_process import MOST_TIMES, KeptProcess
from flows.runtime.process import ended_by_sigterm


class Begun:
    """Processes begun by a keeper, and how often it told that one had ended."""

    def __init__(self, program: str) -> None:
        self.pids, self.told, self.program = list[int](), 0, program

    def begin(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-S", "-c", self.program])
        self.pids.append(process.pid)
        return process

    def tell(self) -> None:
        self.told += 1


@pytest.fixture
def begun() -> Begun:
    return Begun("import time; time.sleep(60)")


@pytest.fixture
def kept(begun: Begun) -> Iterator[KeptProcess]:
    process = KeptProcess(begun.begin, begun.tell)
    process.keep()
    yield process
    process.end()


def test_a_process_that_is_killed_begins_again_until_it_is_ended(begun: Begun, kept: KeptProcess) -> None:
    kept.now.kill()
    wait_for(lambda: len(begun.pids) == 2)
    wait_for(lambda: kept.now.pid == begun.pids[1])
    kept.end()
    assert kept.now.poll() == -signal.SIGTERM
    assert (len(begun.pids), begun.told, kept.lost) == (2, 1, False)


def test_a_process_that_does_not_live_is_given_up_and_ends_what_waits_for_it() -> None:
    """Also in the background of a shell script, where Ctrl-C is ignored."""
    begun = Begun("")
    kept = KeptProcess(begun.begin, begun.tell)
    with on_ctrl_c(signal.SIG_IGN), pytest.raises(KeyboardInterrupt), ended_by_sigterm():
        kept.keep()
        time.sleep(120)
    assert kept.lost and len(begun.pids) == MOST_TIMES and begun.told == MOST_TIMES - 1
    kept.end()
