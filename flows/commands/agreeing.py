"""Labels brought in, and the agreement of judges with each other and with people, on the terminal."""

import sys
from pathlib import Path

from flows.commands.behind import tell_if_behind
from tasks.errors import HistoryLocked
from tasks.history.evaluations import shared_replies
from tasks.history.loading import store_labels
from tasks.labels.agreement import Agreed, Agreement, agreement
from tasks.labels.exchange import exchange_labels
from tasks.labels.importing import import_labels
from tasks.ledger.bucket import Bucket, RemoteUnavailable
from tasks.ledger.label_sets import labels_words
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.parameters import PAIRWISE
from tasks.presentation import tables
from tasks.presentation.tables import Grid, grid_table
from tasks.records import OVERALL, OVERALL_SCORE
from tasks.statistics.concordance import Statistic
from tasks.text import number_words, one_line

_OF_VERDICTS = (
    "equal: the same answer; kappa: Cohen's; both keep Both are good and bad apart",
    "tau-b: Kendall's, on the scale Model > neutral > Human; [ ]: 95% interval",
)
_OF_SCORES = (
    "equal: at most 1 point apart; kappa: Cohen's, quadratic weights; tau-b: Kendall's",
    "[ ]: 95% interval, over prompts",
)


def import_label_file(named: str, file: str, flow: str, name: str) -> int:
    """Keep the labels of a file, load them into the history and send them to a remote store."""
    store = local_cache(named)
    about = import_labels(store, Path(file).expanduser(), flow, name)
    print(f"kept as {about.name}: {labels_words(about.labels, len(about.annotators))}")
    print(f"compare them: jury agreement RUN {about.name}")
    try:
        store_labels(store, about.name)
        if is_remote(named):
            share_labels(Remote(named, store).bucket, store)
    except (HistoryLocked, RemoteUnavailable) as error:
        print(f"jury: {error}; `jury sync` does the rest", file=sys.stderr)
    return 0


def share_labels(bucket: Bucket, store: Path) -> None:
    """Bring the labels of a remote store and its local cache together, and say what travelled and what could not."""
    done = exchange_labels(bucket, store)
    if done.sent or done.fetched:
        print(f"labels: {len(done.sent)} sent, {len(done.fetched)} fetched")
    if done.clashing:
        words = f"{', '.join(done.clashing)}: other labels of that name are in {bucket.url}"
        print(f"jury: {words}; those here stay on this machine, until they have another name", file=sys.stderr)


def show_agreement(store: Path, a: str, b: str, as_json: bool) -> int:
    """Print how far two raters agree: who they are, a table, what could not be compared, and who said what overall."""
    tell_if_behind(store)
    found = agreement(store, a, b)
    if as_json:
        print(found.model_dump_json(indent=1))
    else:
        _print_agreement(found)
        both_judged = found.a.kind == found.b.kind == "evaluation"
        if both_judged and (shared := shared_replies(store, found.a.name, found.b.name)):
            print(shared)
    return 0


def _print_agreement(found: Agreement) -> None:
    console = tables.console()
    words = _OF_VERDICTS if found.a.flow in PAIRWISE else _OF_SCORES
    for side, rater in (("A", found.a), ("B", found.b)):
        whose = f"{side}: {one_line(rater.name)}, {rater.kind} of {rater.flow}: {one_line(rater.about)}"
        console.print(whose, soft_wrap=True)
    console.print()
    console.print(grid_table(agreement_grid(found), []))
    for line in [*words, *_notes(found)]:
        console.print(line, soft_wrap=True)
    for each in found.questions:
        if each.question in (OVERALL, OVERALL_SCORE) and each.n:
            console.print(f"\n{_name(each)}, A in rows and B in columns (--json has the other questions):\n")
            console.print(grid_table(confusion_grid(each), []))


def agreement_grid(found: Agreement) -> Grid:
    """A line a question; those about images stand under the tag of their prompts."""
    lines: list[list[str]] = []
    tag = ""
    for each in found.questions:
        if each.tag != tag:
            lines.append([each.tag])
            tag = each.tag
        numbers = [_percent(each.agreement), _decimal(each.kappa), _decimal(each.tau)]
        lines.append([each.question, str(each.n), *numbers])
    return Grid(["", "n", "equal", "kappa", "tau-b"], lines)


def confusion_grid(each: Agreed) -> Grid:
    """How often A gave the answer of the row and B that of the column."""
    lines = [[category, *(str(n) for n in row)] for category, row in zip(each.categories, each.confusion, strict=True)]
    return Grid(["", *(category.replace("Both are ", "both\n") for category in each.categories)], lines)


def _percent(found: Statistic) -> str:
    if found.value is None or found.ci_low is None or found.ci_high is None:
        return "–" if found.value is None else f"{found.value:.0%}"
    return f"{found.value:.0%} [{100 * found.ci_low:.0f}, {100 * found.ci_high:.0f}]"


def _decimal(found: Statistic) -> str:
    if found.ci_low is None or found.ci_high is None:
        return number_words(found.value)
    return f"{found.value:.2f} [{found.ci_low:.2f}, {found.ci_high:.2f}]"


def _notes(found: Agreement) -> list[str]:
    """What was not paired, and why a number is missing: each reason once, with the questions it holds for."""
    reasons: dict[str, list[str]] = {}
    for each in found.questions:
        for reason in [*_unpaired(each), *_undefined(each)]:
            reasons.setdefault(reason, []).append(_name(each))
    return [f"{reason}: {', '.join(names)}" for reason, names in reasons.items()]


def _unpaired(each: Agreed) -> list[str]:
    counts = {"answered by A alone": each.only_a, "by B alone": each.only_b, "of other pictures": each.other_picture}
    words = [f"{n:,} {kind}" for kind, n in counts.items() if n]
    return [f"not paired, {', '.join(words)}"] if words else []


def _undefined(each: Agreed) -> list[str]:
    """Why numbers are missing; where nothing is paired, that says it all."""
    named = {"equal": each.agreement, "kappa": each.kappa, "tau-b": each.tau}
    whys = dict.fromkeys(found.why for found in named.values() if found.why and each.n)
    return [f"{', '.join(name for name, found in named.items() if found.why == why)} {why}" for why in whys]


def _name(each: Agreed) -> str:
    return f"{each.tag} {each.question}".strip()
