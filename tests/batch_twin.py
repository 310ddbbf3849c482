"""A loopback endpoint with files and batches in OpenAI's form; tests let requests expire, fail or get lost."""

import asyncio
import inspect
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

from loopback_judge import LoopbackJudge
from loopback_replies import Answer, Reply, Request, allowed_reply, error, verdict

Fate = Callable[[int], str]
"""Fate of the request at an index of its batch: `` (answered), expired, failed, lost, 400."""


def by_picture(request: Request) -> Reply:
    """A judge whose verdict depends only on the pictures and the question."""
    allowed = request.schema.get("properties", {}).get("winner", {}).get("enum")
    if not allowed:
        return allowed_reply()(request)
    digest = sha256(b"".join(request.images) + request.schema_name.encode()).digest()
    return verdict(allowed[digest[0] % len(allowed)])


@dataclass
class File:
    name: str
    data: bytes


@dataclass
class Batch:
    id: str
    file_id: str
    metadata: dict[str, str]
    created_at: int
    polls: int = 0
    status: str = "validating"
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    errors: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    completed: int = 0
    failed: int = 0
    total: int = 0


class BatchTwin(LoopbackJudge):
    """A judge with a batch API. A batch ends after a number of polls and gets all of its replies then."""

    def __init__(self, answer: Answer | None = None, *, polls: int = 0, fate: Fate = lambda _: "") -> None:
        """Start without files and batches.

        Args:
            polls: number of polls that find a batch unfinished.
        """
        super().__init__(answer)
        self.polls, self.fate = polls, fate
        self.files: dict[str, File] = {}
        self.batches: dict[str, Batch] = {}
        self.paid: Counter[str] = Counter()
        """Request body -> number of times it was answered in a batch."""
        self.uploaded: list[File] = []
        self.deleted: list[str] = []
        self.models: list[str] = []
        """Model in the header of each request about files and batches, as LiteLLM's proxy wants it."""
        self.seen: Callable[[str], object] = lambda _: None
        """Called with the name of a completed operation before its response is sent."""
        self.refuses: dict[str, Reply] = {}
        """Operation -> error to return instead of doing it."""

    async def _reply(self, request: Request, reader: asyncio.StreamReader) -> Reply:
        method, _, target = request.line.partition(" ")
        path = urlsplit(target).path.removeprefix(self.root).strip("/").split("/")
        if path[0] not in ("files", "batches"):
            reply = await super()._reply(request, reader)
            self.seen("call")
            return reply
        self.models.append(request.headers.get("x-litellm-model", ""))
        name = self._name(method, path)
        if refused := self.refuses.get(name):
            return refused
        done = await self._do(name, request, path, parse_qs(urlsplit(target).query))
        self.seen(name)
        return done

    @staticmethod
    def _name(method: str, path: list[str]) -> str:
        of = {"files": "file", "batches": "batch"}[path[0]]
        if len(path) == 3:
            return f"{path[2]} {of}"
        if method == "DELETE":
            return f"delete {of}"
        return f"make {of}" if method == "POST" else f"ask {of}" if len(path) == 2 else f"list {path[0]}"

    async def _do(self, name: str, request: Request, path: list[str], query: dict[str, list[str]]) -> Reply:
        match name:
            case "make file":
                return Reply(self._take_file(request))
            case "content file" if path[1] in self.files:
                return Reply(self.files[path[1]].data)
            case "delete file" if path[1] in self.files:
                del self.files[path[1]]
                self.deleted.append(path[1])
                return Reply({"id": path[1], "object": "file", "deleted": True})
            case "list files":
                return Reply({"object": "list", "data": [self._file(id) for id in self.files], "has_more": False})
            case "make batch":
                return self._make(request.body)
            case "list batches":
                made = sorted(self.batches.values(), key=lambda batch: batch.created_at, reverse=True)
                return Reply({"object": "list", "data": [self._batch_object(each) for each in made], "has_more": False})
            case "ask batch" if path[1] in self.batches:
                return Reply(self._batch_object(await self._polled(self.batches[path[1]])))
            case "cancel batch" if path[1] in self.batches:
                if self.batches[path[1]].status == "cancelling":
                    return error(400, "The batch is being cancelled.")
                self.batches[path[1]].status = "cancelling"
                return Reply(self._batch_object(self.batches[path[1]]))
            case _:
                return error(404, f"Nothing is there: {'/'.join(path)} {query}")

    # Files

    def _take_file(self, request: Request) -> dict[str, Any]:
        mark = request.headers["content-type"].partition("boundary=")[2].strip('"').encode()
        parts = request.raw.split(b"--" + mark)
        [part] = [part for part in parts if b'name="file"' in part.partition(b"\r\n\r\n")[0]]
        assert b"batch" in next(part for part in parts if b'name="purpose"' in part)
        head, _, data = part.partition(b"\r\n\r\n")
        name = head.partition(b'filename="')[2].partition(b'"')[0].decode()
        file = File(name, data.removesuffix(b"\r\n"))
        self.uploaded.append(file)
        return self._file(self._keep(file))

    def _keep(self, file: File) -> str:
        file_id = f"file-{len(self.files) + len(self.deleted):04}"
        self.files[file_id] = file
        return file_id

    def _file(self, file_id: str) -> dict[str, Any]:
        file = self.files[file_id]
        about = {"bytes": len(file.data), "created_at": int(time.time()), "filename": file.name, "purpose": "batch"}
        return {"id": file_id, "object": "file", "status": "processed", **about}

    # Batches

    def _make(self, body: dict[str, Any]) -> Reply:
        assert (body["endpoint"], body["completion_window"]) == ("/v1/chat/completions", "24h")
        batch_id = f"batch-{len(self.batches):04}"
        made = Batch(batch_id, body["input_file_id"], body.get("metadata") or {}, int(time.time()))
        self.batches[batch_id] = made
        return Reply(self._batch_object(made))

    def _batch_object(self, batch: Batch) -> dict[str, Any]:
        about = {"created_at": batch.created_at, "input_file_id": batch.file_id, "metadata": batch.metadata}
        counts = {"total": batch.total, "completed": batch.completed, "failed": batch.failed}
        files = {f"{name}_file_id": batch.outputs.get(name) for name in ("output", "error")}
        errors = {"object": "list", "data": batch.errors} if batch.errors else None
        about |= {"id": batch.id, "object": "batch", "status": batch.status, "request_counts": counts}
        return {**about, **files, "errors": errors}

    async def _polled(self, batch: Batch) -> Batch:
        """Poll a batch once: validating, in_progress, finalizing, then its final status."""
        batch.polls += 1
        if batch.status in ("completed", "expired", "failed", "cancelled"):
            return batch
        if batch.status == "cancelling":
            await self._answer_all(batch, cancelled=True)
        elif batch.polls > self.polls:
            await self._answer_all(batch)
        else:
            batch.status = ("in_progress", "finalizing")[batch.polls == self.polls]
        return batch

    async def _answer_all(self, batch: Batch, cancelled: bool = False) -> None:
        lines = [json.loads(line) for line in self.files[batch.file_id].data.splitlines()]
        names = [line["custom_id"] for line in lines]
        if len({*names}) != len(names) or any({*line} != {"custom_id", "method", "url", "body"} for line in lines):
            batch.status = "failed"
            batch.errors = [{"code": "invalid_json_line", "message": "A line is none.", "line": 1, "param": None}]
            return
        batch.total, outputs, errors = len(lines), list[bytes](), list[bytes]()
        for place, line in enumerate(lines):
            fate = "cancelled" if cancelled and place >= len(lines) // 2 else self.fate(place)
            if fate == "lost":
                continue
            row = {"id": f"batch_req_{place}", "custom_id": line["custom_id"], **await self._row(line, fate)}
            (errors if fate else outputs).append(json.dumps(row).encode() + b"\n")
        for name, rows in (("output", outputs), ("error", errors)):
            random.Random(batch.id).shuffle(rows)
            if rows:
                batch.outputs[name] = self._keep(File(f"{batch.id}_{name}.jsonl", b"".join(rows)))
        batch.completed, batch.failed = len(outputs), len(errors)
        expired = any(b"batch_expired" in row for row in errors)
        batch.status = "cancelled" if cancelled else "expired" if expired else "completed"

    async def _row(self, line: dict[str, Any], fate: str) -> dict[str, Any]:
        if fate in ("expired", "cancelled"):
            words = "This request could not be executed before the completion window expired."
            return {"response": None, "error": {"code": f"batch_{fate}", "message": words}}
        if fate:
            status = int(fate) if fate.isdigit() else 500
            body = {"error": {"message": "The server had an error", "type": "server_error"}}
            return {"response": {"status_code": status, "request_id": "r", "body": body}, "error": None}
        body = json.dumps(line["body"])
        self.paid[body] += 1
        request = Request(f"POST {self.root}/chat/completions", {}, body.encode(), time.monotonic())
        reply_or_awaitable = self.answer(request)
        reply = self._sign(await reply_or_awaitable if inspect.isawaitable(reply_or_awaitable) else reply_or_awaitable)
        return {"response": {"status_code": reply.status, "request_id": "r", "body": reply.body}, "error": None}
