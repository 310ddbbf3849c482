"""From a picture and its prompt to the scores of a text-to-image rubric, as the embedded judge gives them.

Owns which aspects it knows, what it says where a picture is no plain scene, the overall score, and what it says it
sees. The rule of each aspect stands in `image_aspects`, the words that are read of a prompt in `prompt_words`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from statistics import fmean

from tasks.embedded_judge import image_aspects as rules
from tasks.embedded_judge.image_view import CANNOT_TELL, MIDDLING, Blob, Finding, Survey, View, cannot_tell
from tasks.records import OVERALL_SCORE, AspectScore, Seen, SeenObject
from tasks.synthetic.prompt_words import read_prompt
from tasks.synthetic.shapes import SHAPES

Rule = Callable[[View], Finding]

ABOVE_LOWEST = 1.0
"""The overall score is at most so much above the lowest measured aspect: what fails one aspect fails."""

_OF_COLORS: dict[str, Rule] = {
    "detectability": rules.contrast,
    "contrast_effectiveness": rules.contrast,
    "color_fidelity": rules.fidelity,
    "multi_object_consistency": rules.consistency,
}
"""Aspect -> rule, where the rule means something in any picture."""
_OF_OBJECTS: dict[str, Rule] = {
    "object_completeness": rules.completeness,
    "occlusion_handling": rules.covering,
    "separation_clarity": rules.separation,
    "individual_completeness": rules.wholeness,
    "relationship_accuracy": rules.proportion,
    "count_accuracy": rules.count,
    "object_uniformity": rules.uniformity,
    "spatial_legibility": rules.legibility,
    "attribute_binding": rules.binding,
    "position_accuracy": rules.position,
    "occlusion_management": rules.separation,
}
"""Aspect -> rule, where the rule needs objects that stand apart from an even ground."""
_BEYOND_PIXELS = {
    "material_consistency": "what an object is made of",
    "perspective_consistency": "how far away an object is",
}
"""Aspect -> what one would have to know."""
ASPECTS = (*_OF_OBJECTS, *_OF_COLORS, *_BEYOND_PIXELS)
"""Aspects that this judge knows."""


def score(aspects: Sequence[str], prompt: str, survey: Survey, always: Collection[str] = ()) -> tuple[AspectScore, ...]:
    """The scores of these aspects, which must be known ones, in their order, and last the overall score.

    Args:
        always: aspects that must have a score, also where they do not apply.
    """
    view = View(survey, read_prompt(prompt))
    findings = {aspect: _finding(aspect, view) for aspect in aspects}
    for aspect in always:
        if aspect in findings and findings[aspect].score is None:
            findings[aspect] = cannot_tell(f"{findings[aspect].words}; what the score is then")
    findings[OVERALL_SCORE] = _overall(list(findings.values()))
    return tuple(_stated(aspect, finding) for aspect, finding in findings.items())


def look(names: Sequence[str], prompt: str, survey: Survey) -> Seen:
    """What can be said of the objects with these names, and of the relation that the prompt asks for.

    Drawn shapes are recognised by their outlines; one other object is taken for all that differs from the ground. What
    pixels cannot tell is not mentioned: several other objects, shapes where some touch, and anything in a picture that
    is no plain scene.
    """
    if not survey.simple:
        return Seen(objects=())
    found = {name: _found(name, len(names) == 1, survey) for name in names}
    holds, _ = rules.relation(View(survey, read_prompt(prompt)))
    return Seen(
        objects=tuple(_seen(name, blobs) for name, blobs in found.items() if blobs is not None), relation_holds=holds
    )


def _finding(aspect: str, view: View) -> Finding:
    if aspect in _BEYOND_PIXELS:
        return cannot_tell(_BEYOND_PIXELS[aspect])
    if aspect == "multi_object_consistency" and view.wanted < 2:
        return rules.consistency(view)
    if not view.blobs:
        return Finding(0, "nothing differs from the ground")
    if aspect in _OF_COLORS:
        return _OF_COLORS[aspect](view)
    if not view.survey.simple:
        found = f"{view.counted()}, on a ground that varies by {view.survey.unevenness:.0f} of 255 levels"
        return cannot_tell(f"{found}, which is no scene of a few plain objects")
    return _OF_OBJECTS[aspect](view)


def _stated(aspect: str, finding: Finding) -> AspectScore:
    rounded = None if finding.score is None else round(finding.score, 1)
    return AspectScore(aspect=aspect, score=rounded, explanation=f"{finding.words}.")


def _overall(findings: list[Finding]) -> Finding:
    """The plain mean of the aspects that apply, limited by the lowest that was measured."""
    measured = "pixels were measured, nothing was recognised"
    scores = [one.score for one in findings if one.score is not None]
    if not scores:
        return Finding(MIDDLING, f"no aspect applies, {CANNOT_TELL}; {measured}")
    mean = fmean(scores)
    lowest = min((one.score for one in findings if one.score is not None and one.measured), default=mean)
    if mean <= lowest + ABOVE_LOWEST:
        return Finding(mean, f"mean of the aspects; {measured}")
    held = f"mean of the aspects {mean:.1f}, held at {ABOVE_LOWEST:g} above the lowest of those that pixels can tell"
    return Finding(lowest + ABOVE_LOWEST, f"{held}; {measured}")


def _found(name: str, alone: bool, survey: Survey) -> list[Blob] | None:
    """The blobs that are taken for this object, the only one asked about or not; None: pixels cannot tell."""
    if name not in SHAPES:
        return list(survey.blobs) if alone else None
    # Where areas touch, any of them may be a part of this object.
    return None if survey.touching() else [blob for blob in survey.blobs if blob.shape == name]


def _seen(name: str, blobs: list[Blob]) -> SeenObject:
    color = Counter(blob.color for blob in blobs).most_common(1)[0][0] if blobs else ""
    return SeenObject(name=name, present=bool(blobs), count=len(blobs), color=color)
