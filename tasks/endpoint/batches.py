"""Files and batches of an endpoint, in the form of OpenAI's Batch API; every failure becomes `BatchesUnavailable`.

LiteLLM's form: https://docs.litellm.ai/docs/batches, looked up 2026-11-22.
"""

from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import httpx2
from openai import APIStatusError, OpenAIError
from openai.types import Batch

from tasks.endpoint.api_keys import Secret, no_secret
from tasks.endpoint.catalog import known_at
from tasks.endpoint.client import connected
from tasks.endpoint.refusals import read_refusal
from tasks.endpoint.replies import as_object
from tasks.errors import BatchesUnavailable
from tasks.files import drafted, keep_private
from tasks.records.judge import Judge
from tasks.text import one_line

ENDED = {"completed", "failed", "expired", "cancelled"}
"""Statuses of a batch that produces no more replies."""
CANCELLING = "cancelling"
"""Status of a batch between its cancellation and its end: ten minutes at most at OpenAI."""
LITELLM_MODEL = "x-litellm-model"
"""Header by which LiteLLM's proxy routes a file to the server behind it."""
MOST_WORDS = 500
MOST_ERRORS = 3
PIECE_BYTES = 1 << 20
FILE_SECONDS = 300.0
"""Longest silence in seconds while a file is sent or fetched."""


class BatchState(NamedTuple):
    """State of a batch, as its endpoint reports it."""

    status: str
    output_file: str
    """Id of the file of replies; empty if there is none."""
    error_file: str
    completed: int
    failed: int
    problem: str
    """Errors of the batch as a whole, in the endpoint's words; empty if there are none."""

    @property
    def ended(self) -> bool:
        """Return whether the batch produces no more replies."""
        return self.status in ENDED


class Batches:
    """Client for files and batches of a judge's endpoint, open for as long as the context lasts.

    Raises:
        BatchesUnavailable: from every request, with the endpoint's status if it answered.
    """

    def __init__(self, judge: Judge, secret: Secret = no_secret) -> None:
        self._judge, self._secret = judge, secret

    async def __aenter__(self) -> Self:
        known = known_at(self._judge.base_url)
        routed = {LITELLM_MODEL: self._judge.model} if known and known.name == "litellm" else {}
        self._client, self._mask = await connected(self._judge, self._secret, routed, FILE_SECONDS)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def upload(self, file: Path) -> str:
        """Upload a file of requests under its name; return its id."""
        with self._asking("takes no file"), file.open("rb") as opened:
            sent = (file.name, opened, "application/jsonl")
            return (await self._client.files.create(file=sent, purpose="batch")).id

    async def create(self, file_id: str, marks: Mapping[str, str]) -> str:
        """Create a batch from an uploaded file; return its id. The batch is billed from here on."""
        with self._asking("makes no batch"):
            made = await self._client.batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata=dict(marks),
            )
            return made.id

    async def state(self, batch_id: str) -> BatchState:
        """Return the state of a batch."""
        with self._asking(f"does not report batch {batch_id}"):
            return _state(await self._client.batches.retrieve(batch_id))

    async def find(self, marks: Mapping[str, str], since: float) -> str:
        """Return the id of the batch with these marks, created after a time (Unix); empty if there is none."""
        with self._asking("does not list its batches"):
            async for batch in self._client.batches.list(limit=100):
                told = batch.to_dict(warnings=False)
                created = told.get("created_at")
                if isinstance(created, int | float) and created < since:  # the newest come first
                    return ""
                if marks.items() <= as_object(told.get("metadata")).items():
                    return batch.id
        return ""

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch; its finished replies can still be fetched."""
        with self._asking(f"does not cancel batch {batch_id}"):
            await self._client.batches.cancel(batch_id)

    async def fetch(self, file_id: str, place: Path, most: int) -> bool:
        """Fetch at most `most` bytes of a file, after decompression; return whether its end was reached."""
        left = most
        with self._asking(f"does not give out file {file_id}"), drafted(place) as draft:
            async with self._client.files.with_streaming_response.content(file_id) as found:
                with draft.open("wb") as opened:
                    keep_private(draft)
                    # httpx2 decompresses piece by piece, on demand.
                    async for piece in found.iter_bytes(PIECE_BYTES):
                        opened.write(piece[:left])
                        left -= len(piece)
                        if left < 0:
                            break
        return left >= 0

    async def delete(self, file_id: str) -> None:
        """Delete a file at the endpoint; a file that it does not have counts as deleted."""
        try:
            with self._asking(f"does not delete file {file_id}"):
                await self._client.files.delete(file_id)
        except BatchesUnavailable as error:
            if error.status != 404:
                raise

    async def files(self, prefix: str) -> AsyncIterator[str]:
        """Yield the ids of request files whose names begin with a prefix."""
        with self._asking("does not list its files"):
            async for file in self._client.files.list(purpose="batch"):
                if file.filename.startswith(prefix):
                    yield file.id

    @contextmanager
    def _asking(self, what: str) -> Generator[None]:
        """Turn a failure of the endpoint into BatchesUnavailable with one sentence, without the key."""
        try:
            yield
        except (OpenAIError, httpx2.HTTPError, ValueError) as error:  # ValueError: the response is not JSON
            status, is_busy, words = 0, False, str(error.__cause__ or error)
            if isinstance(error, APIStatusError):
                status = error.status_code
                content = self._mask.body(error.response.content)  # the response to a file request is not masked yet
                refusal = read_refusal(status, error.response.headers, content)
                is_busy, words = refusal.kind == "busy", f"{status}: {refusal.words}"
            shown = one_line(self._mask.words(words), MOST_WORDS)
            raise BatchesUnavailable(f"{self._judge.base_url} {what}: {shown}", status, is_busy) from None


def _state(batch: Batch) -> BatchState:
    told = batch.to_dict(warnings=False)  # the client checks no type of a reply
    counts, errors = as_object(told.get("request_counts")), told.get("errors")
    errors = as_object(errors).get("data", errors)
    listed = [as_object(each) for each in errors] if isinstance(errors, list) else []  # pyright: ignore
    words = [f"{e.get('code')}: {e.get('message')}" + (f" (line {e['line']})" if e.get("line") else "") for e in listed]
    return BatchState(
        str(batch.status),
        batch.output_file_id or "",
        batch.error_file_id or "",
        *(n if isinstance(n := counts.get(name), int) else 0 for name in ("completed", "failed")),
        problem=one_line("; ".join(words[:MOST_ERRORS]), MOST_WORDS),
    )
