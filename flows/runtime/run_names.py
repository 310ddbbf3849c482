"""Names of runs in the UI: which ones a person has typed, and are left alone.

A run has a name before it is known what it judges: Prefect and both of its UIs make one up, each from its own words.
Prefect keeps no record of who named a run, so a made-up name is told by those words.
"""

import re
from typing import Any

from coolname import data

from tasks.parameters import FLOWS

OF_OURS = " · "
"""Stands in every name that the program gives, behind the flow's."""
_GREEK = (
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|omicron|pi|rho|sigma|tau|upsilon|phi|chi"
    "|psi|omega"
)
_PRAISE = (
    "Awesome|Rustic|Small|Gorgeous|Fantastic|Sleek|Intelligent|Unbranded|Refined|Licensed|Generic|Practical|Ergonomic"
    "|Handcrafted|Tasty|Handmade|Incredible"
)
_CONSTELLATIONS = (
    "andromedae|antliae|apodis|aquarii|aquilae|arae|arietis|aurigae|bootis|caeli|camelopardalis|cancri"
    "|canis-majoris|canis-minoris|canum-venaticorum|capricorni|carinae|cassiopeiae|centauri|cephei|ceti|chamaeleontis"
    "|circini|columbae|comae-berenices|coronae-australis|coronae-borealis|corvi|crateris|crucis|cygni|delphini|doradus"
    "|draconis|equulei|eridani|fornacis|geminorum|gruis|herculis|horologii|hydrae|hydri|indi|lacertae|leonis"
    "|leonis-majoris|leonis-minoris|leporis|librae|lupi|lyncis|lyrae|mensae|microscopii|monocerotis|muscae|normae"
    "|octantis|ophiuchi|orion|orionis|pavonis|pegasi|persei|phoenicis|pictoris|piscis-austrini|piscium|puppis|pyxidis"
    "|reticuli|sagittae|sagittarii|scorpii|sculptoris|scuti|serpentis|sextantis|tauri|telescopii|trianguli"
    "|trianguli-australis|tucanae|ursae-majoris|ursae-minoris|velorum|virginis|volantis|vulpeculae"
)
_OF_THE_UIS = re.compile(rf"({_GREEK})(\d+-[a-z]+|-({_CONSTELLATIONS}))(-[a-z]+)*|({_PRAISE})-[^\W\da-z_].{{0,5}}")
"""A star and where it lies (`theta3-cancri-nebula`), or praise of a dish of six letters at most (`Rustic-Drob`). The
places are 1,354 words: without a number only constellations are told from what a person may have typed."""


def is_made_up(name: str) -> bool:
    """Whether nobody typed this name of a run: Prefect, one of its UIs or this program made it."""
    ours = name.partition(OF_OURS)
    return (bool(ours[1]) and ours[0] in FLOWS) or bool(_OF_THE_UIS.fullmatch(name)) or _of_prefect(name)


def _of_prefect(name: str) -> bool:
    """Whether the name is two of the words that Prefect draws from, such as `bold-falcon`."""
    lists: dict[str, dict[str, Any]] = data.config  # pyright: ignore
    known = {word for each in lists.values() for word in each.get("words", ())}
    words = name.split("-")
    return len(words) == 2 and known.issuperset(words)
