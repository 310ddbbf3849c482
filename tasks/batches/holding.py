"""A run that waits, in a bucket: which of many machines is at work on it, and what each finds there.

In the bucket, `batches/<run_id>/` has the run's samples and requests, and `lease.json`: who is at work on the run, and
until when that holds. It is changed by conditional puts, renewed while its holder lives, and expires when it does not.
The ledger of such a run belongs to whoever has the lease: nobody else sends anything of it, and what a machine has of
it that does not go on from what is in the bucket is replaced by that. Within one machine a lock on a file decides.
"""

import re
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from tasks.batches.cases import CASES
from tasks.errors import InputError
from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.remote import Remote
from tasks.records import Record

LEASE = "lease.json"
HOLDER = "holder"
"""In the folder here: by what the lease knows this copy of it, also after a kill."""
LEASE_SECONDS = 600.0
"""A lease that was not renewed for so long has expired. Clocks of machines differ by less."""
RENEW_SECONDS = 60.0

_OF_RUN = re.compile(r"batches/(\w[\w.-]*)/.")


class Lease(Record):
    """Who is at work on a run."""

    holder: str
    until: float
    """Unix time; passed: nobody is."""


class Hold:
    """A run that this process alone is at work on, and its folders in the bucket.

    Raises:
        RemoteUnavailable: from every method, when the network or the store fails.
    """

    def __init__(self, remote: Remote, run_id: str, work: Path) -> None:
        self.url = remote.bucket.url
        self._remote, self._run_id, self._work = remote, run_id, work
        self._name = f"batches/{run_id}"
        self._holder = _own_name(work)
        self._ended = threading.Event()
        self._lost, self._until = False, 0.0

    def take(self) -> bool:
        """Whether nobody else is at work on the run; then this process is, until `release`."""
        return self._change(time.time() + LEASE_SECONDS)

    def bring(self) -> None:
        """Have here what the bucket has of the run: its ledger, and the files from which it is taken in."""
        self._remote.fetch_held(self._run_id)
        bucket = self._remote.bucket
        for name, size in bucket.sizes(self._name).items():
            place = self._work / Path(name).name
            if place.name != LEASE and not (place.exists() and place.stat().st_size == size):
                bucket.fetch_file(name, place)
        if (self._work / CASES).exists():
            self._remote.fetch_pictures(self._work / CASES)

    def send_files(self) -> None:
        """Let the bucket have the samples and requests that are put down."""
        there = self._remote.bucket.sizes(self._name)
        for file in [self._work / CASES, *sorted(self._work.glob(f"{self._run_id}-*.jsonl"))]:
            if there.get(f"{self._name}/{file.name}") != file.stat().st_size:
                self._remote.bucket.send_file(f"{self._name}/{file.name}", file)

    def send(self) -> None:
        """Let the bucket have what is new in the ledger of the run.

        Raises:
            InputError: another process has taken the run over, since this one did not renew its lease in time.
        """
        # A machine that was suspended comes back to a lease that is over, before it is renewed.
        if self._lost or (time.time() > self._until and not self.take()):
            raise InputError(f"run {self._run_id} was taken over by another process: `jury collect` looks at it again")
        self._remote.send_held(self._run_id)

    def remove(self) -> None:
        """Let nothing wait in the bucket any more, the lease last, by which it is found."""
        names = sorted(self._remote.bucket.sizes(self._name), key=lambda name: name.endswith(LEASE))
        self._remote.bucket.remove([name for name in names if not name.endswith(LEASE)])
        self._remote.bucket.remove([name for name in names if name.endswith(LEASE)])

    def release(self) -> None:
        """Let others have the run."""
        with suppress(RemoteUnavailable):  # the lease expires by itself
            self._change(0.0, only_own=True)

    @contextmanager
    def renewed(self) -> Generator[None]:
        """Tell that this process lives, until the context ends."""
        thread = threading.Thread(target=self._renew, name="image-jury", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(RENEW_SECONDS)

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            with suppress(RemoteUnavailable):  # tried again before the lease expires
                self._lost = not self._change(time.time() + LEASE_SECONDS, only_own=True)

    def _change(self, until: float, only_own: bool = False) -> bool:
        name = f"{self._name}/{LEASE}"
        found = self._remote.bucket.get_with_version(name)
        lease = Lease.model_validate_json(found[0]) if found else None
        own = lease is not None and lease.holder == self._holder
        if not own and (only_own or (lease is not None and lease.until > time.time())):
            return False
        data = Lease(holder=self._holder, until=until).model_dump_json().encode()
        changed = self._remote.bucket.put_if(name, data, found[1] if found else None)
        self._until = until if changed else self._until
        return changed


def _own_name(work: Path) -> str:
    file = work / HOLDER
    if not file.exists():
        file.write_text(uuid4().hex, encoding="utf-8")
    return file.read_text(encoding="utf-8")


@contextmanager
def held(remote: Remote, run_id: str, work: Path) -> Generator[Hold | None]:
    """The run, for the one process that has its lease until the context ends; None: another one has.

    Raises:
        RemoteUnavailable: the bucket cannot be reached.
    """
    hold = Hold(remote, run_id, work)
    if not hold.take():
        yield None
        return
    with hold.renewed():
        try:
            hold.bring()
            yield hold
        finally:
            if (work / HOLDER).exists():  # else nothing of it waits any more
                hold.release()


def remote_waiting(remote: Remote) -> list[str]:
    """Ids of the runs of which anything waits in the bucket.

    Raises:
        RemoteUnavailable: the bucket cannot be reached.
    """
    return sorted({found[1] for name in remote.bucket.sizes("batches") if (found := _OF_RUN.match(name))})
