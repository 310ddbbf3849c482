"""Prompts behind the questions to people: those of an evaluation, and the names that labels of a flow may use."""

from pathlib import Path

from tasks.errors import InputError
from tasks.history import queries as history
from tasks.history.database import HISTORY
from tasks.history.queries import Evaluation
from tasks.ledger.evaluations import PROMPT
from tasks.rubrics.rubric import Rubric, RubricPrompt, load_rubric, prompt_sets

_SCORED = """
    SELECT DISTINCT dimension, CASE WHEN "grouping" = 'aspect' THEN group_name ELSE '' END AS aspect FROM by_group
    WHERE flow = $1 AND dimension <> 'overall' ORDER BY ALL"""


def prompts_of(evaluation: Evaluation) -> Rubric:
    """Return the prompts of an evaluation.

    A folder of the user may be gone, or changed since. Then the default prompts stand in, if they have the same names.

    Raises:
        InputError: they have not.
    """
    flow, prompt_set = evaluation.flow, evaluation.prompt_set
    if prompt_set in prompt_sets():
        return load_rubric(flow, prompt_set)
    asked = {name: value for name, value in evaluation.protocol.items() if name.startswith(PROMPT)}
    try:
        own = load_rubric(flow, prompt_set)
    except InputError:
        own = None
    if own and asked == {f"{PROMPT}{each.dimension}": each.digest for each in own.prompts}:
        return own
    default = load_rubric(flow)
    if added := asked.keys() - {f"{PROMPT}{each.dimension}" for each in default.prompts}:
        raise InputError(
            f"{evaluation.run_id}: its prompt set {prompt_set!r}, which defines {', '.join(sorted(added))}, is gone or "
            "has changed since: put back its files as they were"
        )
    return default


def known_questions(store: Path, flow: str) -> dict[str, dict[str, None]]:
    """Return dimension or tag -> its aspects (as keys, in order), of the default prompts and of all in the history."""
    found = {
        prompt.dimension: dict.fromkeys(prompt.aspects if isinstance(prompt, RubricPrompt) else ())
        for prompt in load_rubric(flow).prompts
    }
    scored = history.query(store, _SCORED, values=[flow]).rows if (store / HISTORY).exists() else []
    for dimension, aspect in scored:
        found.setdefault(dimension, {}).update(dict.fromkeys(filter(None, [aspect])))
    return found
