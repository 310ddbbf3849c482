"""A judge that always fails the same figures in the same way and answers all others."""

from collections import Counter
from dataclasses import dataclass, field

from loopback_replies import Reply, Request, allowed_reply, delayed, error, hang, reset, retry_after

FAULTS: dict[str, Reply] = {
    "429": error(429, "Too many requests."), "429 with Retry-After": retry_after(1), "503": error(503, "Overloaded."),
    "no answer": hang(), "too long a length": Reply(b"{", times=1000, pause=3600.0),
    "one byte a second": Reply(b" ", times=2**20, pause=1.0), "reset": reset(), "500": error(500, "The worker died."),
    "302": Reply("", status=302, headers={"location": "http://127.0.0.1:9/elsewhere"}),
    "404": error(404, "No such model."),
}  # fmt: skip
BUSY = ("429", "429 with Retry-After", "503")
SILENT = ("no answer", "too long a length", "one byte a second", "reset")


@dataclass
class Faulty:
    """Answer function of a judge; it recognizes figures by a line of their caption, `Figure 7.`"""

    fault: Reply
    bad: frozenset[str]
    """Captions of figures that fail."""
    seconds: float = 0.02
    """Duration of each good call."""
    only_dimension: str = ""
    """Dimension that fails for these figures; empty: all four."""
    asked: Counter[str] = field(default_factory=Counter[str])
    """Schema name and caption of a failing figure -> number of requests."""

    def __call__(self, seen: Request) -> Reply:
        caption = next((words for text in seen.texts for words in text.split("\n") if words.startswith("Figure ")), "")
        named = self.only_dimension in seen.schema_name
        if caption in self.bad and named:
            self.asked[f"{seen.schema_name} {caption}"] += 1
            return self.fault
        return delayed(allowed_reply()(seen), self.seconds)
