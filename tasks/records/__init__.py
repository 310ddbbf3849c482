"""Value objects that all modules share, by subject; settings of users are in `parameters` and `judge`.

Pydantic checks records that are read from files.
"""

# pyright: reportUnusedImport=false
from tasks.records.judgment import (
    AspectScore,
    DimensionOutcome,
    Judgment,
    Outcome,
    PictureNote,
    Seen,
    SeenObject,
)
from tasks.records.run import (
    INCOMPLETE,
    BudgetStop,
    LimitsFound,
    Offset,
    RunEnd,
    RunStart,
    is_all_ok,
    new_id,
)
from tasks.records.sample import (
    Check,
    CheckForm,
    PictureSource,
    Place,
    Requirement,
    Sample,
    entries,
)
from tasks.records.terms import (
    ANCHOR,
    BLANK,
    CONTROL_MEASURES,
    FALSE_PREFERENCE,
    INJECTION,
    INSTRUCTION,
    MIXED,
    MOST_COUNTED,
    NEGLECT,
    OTHER,
    OVERALL,
    OVERALL_SCORE,
    REENCODED,
    SAME,
    SCHEMA,
    SEEN,
    TIE,
    UNBILLED,
    VERDICTS,
    WINNERS,
    Decision,
    HistoryRecord,
    Int32,
    JudgmentStatus,
    LedgerRecord,
    MadeFor,
    Order,
    OutcomeStatus,
    Record,
    Verdict,
    known_cost,
    token_count,
)
