"""Page on which people judge blind items with the judge's inputs: a file, and its pictures in a folder beside it.

It opens anywhere, with no server and no network, and reveals no owner of a picture: no candidate, id, file name, hash
or verdict.
"""

import secrets
from collections.abc import Collection, Iterable
from pathlib import Path
from urllib.parse import quote

from tasks.files import new_folder, write_whole
from tasks.labels.inputs import LONGEST_SIDE
from tasks.labels.labeling import Made, sides
from tasks.ledger.labels import keep_page
from tasks.ledger.removals import beside
from tasks.pages.page import BESIDE, pieces
from tasks.protocols.labels import PeopleQuestion
from tasks.rubrics.rubric import Prompt, Rubric


def write_label_page(store: Path, made: Made, target: Path) -> int:
    """Write the pictures of a page, its record in the store, and then the page; return the bytes of all.

    Raises:
        InputError: the folder of its pictures is there already.
        OSError: a file cannot be written.
    """
    folder, pictures, items = target.with_name(beside(target.name)), dict[str, bytes](), list[dict[str, object]]()
    for item in made.page.items:
        if item.lost:
            continue
        found = made.inputs[item.candidate, item.sample_id]
        named = {f"{secrets.token_hex(8)}.jpg": found.pictures[each] for each in sides(item)}
        pictures |= named
        addresses = [quote(f"{folder.name}/{name}") for name in named]
        items.append({"item": item.token, "tag": item.tag, "texts": found.texts, "pictures": addresses})
    names = {name for each in made.inputs.values() for name in each.texts}
    asked = {tag: [_question(each, tag, made.rubric, names) for each in some] for tag, some in made.questions.items()}
    lost = len(made.page.items) - len(items)
    labels = _labels(made.rubric.prompts, names)
    data = {"page": made.page.page_id, "asked": asked, "labels": labels, "items": items}
    values = {"data": data, "lost": lost, "side": LONGEST_SIDE, "folder": folder.name}
    text = "".join(pieces("label.html.j2", "label.js", values, ["label.css"], BESIDE))
    whole = text.encode("utf-8", "replace")
    new_folder(folder, dict(sorted(pictures.items())))
    keep_page(store, made.page.model_copy(update={"file": str(target.absolute())}))
    write_whole(target, whole)
    return len(whole) + sum(map(len, pictures.values()))


def _question(asked: PeopleQuestion, tag: str, rubric: Rubric, names: Collection[str]) -> dict[str, object]:
    """Return a question with the texts that the judge gets for it: those of one prompt, or for the whole of all."""
    prompts = [prompt for prompt in rubric.prompts if prompt.dimension in (tag, asked.question)] or rubric.prompts
    choices = [choice._asdict() for choice in asked.choices]
    return {**asked._asdict(), "choices": choices, "texts": list(_labels(prompts, names))}


def _labels(prompts: Iterable[Prompt], names: Collection[str]) -> dict[str, str]:
    """Return the label of each of these inputs that the prompts have; those of pictures would tell whose they are."""
    return {str(name): label for prompt in prompts for name, label in prompt.inputs.items() if name in names}
