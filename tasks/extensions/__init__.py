"""Optional parts of a run. Each is imported only if a parameter or a setting of the environment asks for it."""

import os

from tasks.judging.extension import Extension, Opening
from tasks.ledger.remote import is_remote
from tasks.records.judge import EMBEDDED


def extensions_of(opening: Opening) -> tuple[Extension, ...]:
    """Return the extensions of a run, in the order in which their hooks are called.

    The budget comes before all that choose samples, because a run that may stop early judges the anchors first. The
    bucket comes before the anchors, because it fetches the frozen ones of other machines.
    """
    asked, found = opening.asked, list[type[Extension]]()
    if os.environ.get("JURY_KEEP_DAYS"):
        from tasks.extensions.retention import Retention

        found.append(Retention)
    if asked.shares_beginnings:
        from tasks.extensions.shared_layout import SharedBeginnings

        found.append(SharedBeginnings)
    if asked.budget or os.environ.get("JURY_BUDGET_MONTH"):
        from tasks.extensions.budget import BudgetLimit

        found.append(BudgetLimit)
    if is_remote(asked.store):
        from tasks.extensions.bucket import BucketStore

        found.append(BucketStore)
    if asked.controls:
        from tasks.extensions.controls import Controls

        found.append(Controls)
    # A run by hand judges no anchors, because the series is that of the schedule. The first shard judges them all.
    if asked.anchors and opening.scheduled and asked.shard <= 1:
        from tasks.extensions.anchors import FrozenAnchors

        found.append(FrozenAnchors)
    if getattr(asked, "export", "") and not asked.quote:
        from tasks.extensions.export import Export

        found.append(Export)
    if asked.judge.base_url != EMBEDDED and not asked.quote:
        from tasks.extensions.judge_notices import JudgeNotices

        found.append(JudgeNotices)
    return tuple(extension(opening) for extension in found)
