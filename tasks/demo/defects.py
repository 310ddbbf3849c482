"""Kinds of defects in drawn samples."""

DRAWN = "samples"
"""Name of the drawn samples in place of a dataset."""
LABELS = "labels.json"

CLEAN = ("copy", "restyled")
"""Pairs of figures of equal worth: the same picture twice, and the same figure in another style."""
FORFEIT = ("null", "missing")
"""Kinds without a Model figure: decided without a judge."""
IN_HUMAN = "human_"
"""Prefix of a kind whose defect is in the Human figure, so that the Model figure is the better one."""

_ILL_DRAWN = {
    "overload": ("conciseness", "conciseness"),
    "low_contrast": ("readability", "readability"),
    "tiny_text": ("readability", "readability"),
    "black": ("readability", "aesthetics"),
    "margin": ("readability", "aesthetics"),
    "pixelated": ("aesthetics", "aesthetics"),
    "neon": ("aesthetics", "aesthetics"),
}
DEFECTS: dict[str, tuple[str, str]] = {
    "other": ("faithfulness", "faithfulness"),
    "garbled": ("faithfulness", "faithfulness"),
    "reversed": ("faithfulness", ""),
    "mislabeled": ("", "faithfulness"),
    **_ILL_DRAWN,
    **{IN_HUMAN + kind: dimensions for kind, dimensions in _ILL_DRAWN.items()},
}
"""Kind -> the dimension whose prompt forbids it, of a diagram and of a plot; empty: the flow has no such defect.

`garbled`, `reversed` and `mislabeled` show only to a judge that reads. The Human figure never has a defect of
faithfulness, since faithfulness is measured against it.
"""

CLEAN_SCENE = "clean"
SCENE_DEFECTS: dict[str, tuple[str, ...]] = {
    "single_object": ("absent",),
    "two_object": ("absent", "overlapping"),
    "counting": ("wrong_count", "overlapping"),
    "colors": ("wrong_color",),
    "position": ("mirrored", "overlapping", "absent"),
    "color_attr": ("swapped_colors", "wrong_color", "absent"),
}
"""Tag -> kinds of defects in its images. Each violates some aspect of the tag's rubric."""
SCENE_KINDS = frozenset((CLEAN_SCENE, *(kind for kinds in SCENE_DEFECTS.values() for kind in kinds)))
CHECKED = SCENE_KINDS - {"overlapping"} | {"other", "black"}
"""Kinds that some check of a drawn image or diagram is about."""
KINDS = SCENE_KINDS | {*DEFECTS, *CLEAN, *FORFEIT}
