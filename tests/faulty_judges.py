"""A judge that always fails some figures, always in the same way, and answers all others."""

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
    """The answer of such a judge; figures are known by a word of their caption, `Figure 7.`"""

    fault: Reply
    bad: frozenset[str]
    """Captions of the figures that fail."""
    seconds: float = 0.02
    """Time of each good call."""
    only_dimension: str = ""
    """The one question about them that fails; empty: all four."""
    asked: Counter[str] = field(default_factory=Counter[str])
    """Question about a bad figure -> requests."""

    def __call__(self, seen: Request) -> Reply:
        caption = next((words for text in seen.texts for words in text.split("\n") if words.startswith("Figure ")), "")
        named = self.only_dimension in seen.schema_name
        if caption in self.bad and named:
            self.asked[f"{seen.schema_name} {caption}"] += 1
            return self.fault
        return delayed(allowed_reply()(seen), self.seconds)
