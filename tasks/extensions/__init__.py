"""Optional parts of a run. Each is imported only if a parameter or a setting of the environment asks for it."""

import os
from collections.abc import Callable

from tasks.judging.extension import Extension, Opening
from tasks.ledger.remote import is_remote
from tasks.records.judge import EMBEDDED


def extensions_of(opening: Opening) -> tuple[Extension, ...]:
    """Return the extensions of a run, in the order in which their hooks are called."""
    return tuple(extension for make in EXTENSIONS if (extension := make(opening)))


def _retention(opening: Opening) -> Extension | None:
    if not os.environ.get("JURY_KEEP_DAYS"):
        return None
    from tasks.extensions.retention import Retention

    return Retention(opening)


def _shared_layout(opening: Opening) -> Extension | None:
    if not opening.asked.shares_beginnings:
        return None
    from tasks.extensions.shared_layout import SharedBeginnings

    return SharedBeginnings(opening)


def _budget(opening: Opening) -> Extension | None:
    if not (opening.asked.budget or os.environ.get("JURY_BUDGET_MONTH")):
        return None
    from tasks.extensions.budget import BudgetLimit

    return BudgetLimit(opening)


def _bucket(opening: Opening) -> Extension | None:
    if not is_remote(opening.asked.store):
        return None
    from tasks.extensions.bucket import BucketStore

    return BucketStore(opening)


def _controls(opening: Opening) -> Extension | None:
    if not opening.asked.controls:
        return None
    from tasks.extensions.controls import Controls

    return Controls(opening)


def _anchors(opening: Opening) -> Extension | None:
    # A run by hand judges none, because the series is that of the schedule. The first shard judges them all.
    if not opening.asked.anchors or not opening.scheduled or opening.asked.shard > 1:
        return None
    from tasks.extensions.anchors import FrozenAnchors

    return FrozenAnchors(opening)


def _export(opening: Opening) -> Extension | None:
    if not getattr(opening.asked, "export", "") or opening.asked.quote:
        return None
    from tasks.extensions.geneval_export import GenevalExport

    return GenevalExport(opening)


def _judge_notices(opening: Opening) -> Extension | None:
    if opening.asked.judge.base_url == EMBEDDED or opening.asked.quote:
        return None
    from tasks.extensions.judge_notices import JudgeNotices

    return JudgeNotices(opening)


# The budget comes before all that choose samples, because a run that may stop early judges the anchors first.
# The bucket comes before the anchors, because it fetches the frozen ones of other machines.
EXTENSIONS: list[Callable[[Opening], Extension | None]] = [
    *(_retention, _shared_layout, _budget, _bucket, _controls, _anchors, _export, _judge_notices),
]
"""Functions that return an extension of a run if the run asks for it, in the order of the extensions' hooks."""
