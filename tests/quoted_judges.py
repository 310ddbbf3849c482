"""Judges that bill like real ones, for tests of quotes: short replies, long replies, and reasoning.

Input tokens depend on the letters and pictures of a question, as OpenAI counts them: 85 for each picture and 170 for
each tile of 512 x 512 pixels. Output tokens vary between questions, and are equal for equal questions.
"""

import io
import random
from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any

from loopback_replies import Reply, Request, verdict
from PIL import Image
from written_datasets import record, write_json

PRICES = {"judge.price-in": "2", "judge.price-out": "12"}
"""US dollars for a million tokens."""


@dataclass(frozen=True)
class BilledJudge:
    """A judge with a median number of output tokens, and their scatter (in logarithms)."""

    written: float
    reasoned: float = 0.0
    scatter: float = 0.3

    def __call__(self, request: Request) -> Reply:
        reply = verdict("Model")
        return replace(reply, body={**reply.body, "usage": self.usage(request)})

    def usage(self, request: Request) -> dict[str, Any]:
        draws = random.Random(sha256(request.raw).hexdigest())
        sent = sum(map(len, request.texts)) // 4 + sum(map(picture_tokens, request.images))
        reasoned = int(self.reasoned * draws.lognormvariate(0, self.scatter))
        written = int(self.written * draws.lognormvariate(0, self.scatter)) + reasoned
        return {
            "prompt_tokens": sent,
            "completion_tokens": written,
            "total_tokens": sent + written,
            "completion_tokens_details": {"reasoning_tokens": reasoned},
        }


JUDGES = {"short": BilledJudge(60), "long": BilledJudge(700), "reasoning": BilledJudge(250, 2_000)}


def picture_tokens(data: bytes) -> int:
    with Image.open(io.BytesIO(data)) as picture:
        width, height = picture.size
    return 85 + 170 * ceil(width / 512) * ceil(height / 512)


def write_figures(root: Path, samples: int, seed: int = 0) -> list[str]:
    """Write figures of many sizes with texts of many lengths; return the options for `jury run diagram`."""
    draws = random.Random(seed)
    records = [record(n, path_to_gt_image=f"images/{n}.png") for n in range(samples)]
    for n, each in enumerate(records):
        each["content"] = f"Method {n}. " + "It encodes and attends. " * int(250 * draws.lognormvariate(0, 0.6))
        for place in (root / "diagram" / "images", root / "outputs"):
            place.mkdir(parents=True, exist_ok=True)
            size = draws.choice([400, 900, 1500]), draws.choice([300, 700])
            name = f"{n}.png" if place.name == "images" else f"test_{n}.png"
            Image.new("L", size, n % 256).save(place / name)
    write_json(root / "diagram" / "test.json", records)
    return ["--dataset", str(root), "--images", str(root / "outputs")]
