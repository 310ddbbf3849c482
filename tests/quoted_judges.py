"""Judges that bill as real ones do, for quotes to be held against: short, long, and one that reasons.

Input tokens go by the letters and the pictures of a question, as OpenAI counts them: 85 for a picture and 170 for each
tile of 512 x 512 pixels. What a judge writes scatters from question to question, and is the same for the same question.
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
"""Of a million tokens."""


@dataclass(frozen=True)
class BilledJudge:
    """How much it writes: tokens in the median, and how far they scatter (in logarithms)."""

    written: float
    reasoned: float = 0.0
    scatter: float = 0.3

    def __call__(self, request: Request) -> Reply:
        said = verdict("Model")
        return replace(said, body={**said.body, "usage": self.usage(request)})

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
    """Figures of many sizes with texts of many lengths, as options of `jury run diagram`."""
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
