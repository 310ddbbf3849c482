"""How the drawn figures are styled: palettes and what else is a matter of taste."""

from dataclasses import dataclass
from typing import NamedTuple

from PIL import ImageColor


class Tone(NamedTuple):
    """A light fill with the darker edge that belongs to it."""

    fill: str
    edge: str


class Palette(NamedTuple):
    """The colors of one figure, as `#rrggbb`."""

    ink: str
    line: str
    panel: str
    tones: tuple[Tone, ...]
    paper: str = "#ffffff"

    def tone(self, number: int) -> Tone:
        """The tone of the phase or series with this number; they come round again."""
        return self.tones[number % len(self.tones)]

    def faded(self, share: float) -> "Palette":
        """The same palette with every color moved towards the paper by this share (0 to 1)."""

        def fade(color: str) -> str:
            return mixed(color, self.paper, share)

        tones = tuple(Tone(fade(tone.fill), fade(tone.edge)) for tone in self.tones)
        return Palette(fade(self.ink), fade(self.line), fade(self.panel), tones, self.paper)


@dataclass(frozen=True)
class Look:
    """How a figure is styled, apart from what it shows. Lengths in pixels of the finished picture."""

    palette: Palette
    font_size: int
    radius: int
    line_width: float


def mixed(color: str, other: str, share: float) -> str:
    """`color` with this share (0 to 1) of `other` in it."""
    pairs = zip(ImageColor.getrgb(color)[:3], ImageColor.getrgb(other)[:3], strict=True)
    return "#" + "".join(f"{round(one + (two - one) * share):02x}" for one, two in pairs)


def _palette(colors: str) -> Palette:
    ink, line, panel, *tones = colors.split()
    return Palette(ink, line, panel, tuple(Tone(*tone.split("/")) for tone in tones))


PALETTES = (
    _palette("#1f2933 #52606d #f3f6fa #d6e6f5/#3b76af #fbe3d0/#c96f2e #dcefdc/#4a8f55 #e8e0f3/#7a5ea8"),
    _palette("#22223b #4a4e69 #f6f4f1 #e3dcef/#6d5a94 #f3dcd8/#a8574d #dbe9e6/#3f7d74 #f5ebcf/#9c7c24"),
    _palette("#1b2a2f #44575e #f1f6f5 #cfe8e5/#2a7f77 #f9e8c8/#b67d1b #dbe2f3/#4b64a8 #f6d9dd/#b04a5c"),
    _palette("#2b2118 #6b5b4d #faf6f0 #f3dfc4/#a9681f #d9e5ee/#42708f #e4e8cf/#6f7f2c #f1d7d2/#a3493b"),
    _palette("#20242c #5c6470 #f4f5f7 #dfe3e8/#59636f #d3e3f2/#2f6ea3 #fbe6cf/#bd7420 #dfeedd/#558b4e"),
)
"""Quiet palettes of the kind that papers print: dark ink, light fills, white paper."""

NEON = _palette("#111111 #ff00ff #ffff00 #00ff00/#ff00aa #ff00ff/#00ee00 #00ffff/#ff2200 #ff0080/#00ccff")
"""Colors as bright and saturated as they come."""
