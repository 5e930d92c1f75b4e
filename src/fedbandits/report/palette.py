"""Colours and marks of the series, and the inks of a picture, in a light and a dark mode.

Plots are drawn once, in *stand-in* colours that occur nowhere else; `svg` replaces each by a CSS variable with the
light colour as fallback, and the page gives the variables their values for either mode. The series colours stay apart
under simulated protanopia, deuteranopia and tritanopia, and have a contrast of at least 3 to 1 against the page.
Whoever comes after the last colour, and every line of a sweep that shares one, has a dash of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

Dash = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Ink:
    """One colour of a picture: the CSS variable, its value in either mode, and what stands for it while drawing."""

    name: str
    light: str
    dark: str
    stand_in: str

    @property
    def css(self) -> str:
        """How a style refers to it."""
        return f"var(--{self.name}, {self.light})"


_SERIES = (
    ("#0f54bd", "#4a8df0"),
    ("#e06a00", "#ff9a45"),
    ("#07875f", "#8ff0b5"),
    ("#7a1153", "#d44fa6"),
    ("#2b9ad8", "#7fbff5"),
    ("#6b5410", "#94801f"),
    ("#8454fc", "#6c48d8"),
    ("#b46c9c", "#cca8b4"),
)
SERIES = tuple(Ink(f"series-{i}", light, dark, f"#5e71{i:02x}") for i, (light, dark) in enumerate(_SERIES))
SURFACE = Ink("surface", "#ffffff", "#15171d", "#5e7200")
TEXT = Ink("ink", "#1b1d24", "#eceef4", "#5e7201")
MUTED = Ink("muted", "#5d6270", "#9ea4b5", "#5e7202")
GRID = Ink("grid", "#e5e7ee", "#2b2f3a", "#5e7203")
_SCALE = (
    ("#e3ecfb", "#1d2b45"),
    ("#bdd3f6", "#24416f"),
    ("#93b6ee", "#2d5a9e"),
    ("#6596e3", "#3b77cc"),
    ("#3b74d0", "#6299e6"),
    ("#1c53a8", "#95bdf4"),
    ("#0b3272", "#d3e4fd"),
)
SCALE = tuple(Ink(f"scale-{i}", light, dark, f"#5e73{i:02x}") for i, (light, dark) in enumerate(_SCALE))
"""From little to much: little is close to the page in either mode."""
INKS = (*SERIES, *SCALE, SURFACE, TEXT, MUTED, GRID)

_DASHES: tuple[Dash, ...] = (
    "solid",
    (0, (5.0, 2.0)),
    (0, (1.3, 1.7)),
    (0, (7.0, 2.0, 1.5, 2.0)),
    (0, (2.6, 1.4)),
    (0, (11.0, 3.0)),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h", "<", "p", ">", "*")


@dataclass(frozen=True, slots=True)
class Style:
    """How one line is drawn."""

    ink: Ink
    dash: Dash
    marker: str


def style(index: int, variant: int = 0, series: int = 1) -> Style:
    """The style of series `index`, one of `series`: colours first, then the same colours in other dashes.

    Lines of one series have its colour, and each `variant` a dash that nobody else of that colour has: no two lines
    ever have the same colour and dash, nor, as far as there are markers, the same colour and marker.
    """
    turn = index // len(SERIES) + variant * -(-series // len(SERIES))
    colour = index % len(SERIES)
    return Style(SERIES[colour], _dash(turn), _MARKERS[(colour + turn) % len(_MARKERS)])


def _dash(turn: int) -> Dash:
    """A pattern for every turn: some that are easy to tell apart, then a stroke and ever more dots."""
    if turn < len(_DASHES):
        return _DASHES[turn]
    return 0, (7.0, 2.0, *(1.5, 2.0) * (turn - len(_DASHES) + 2))


def css_variables() -> str:
    """The variables of every ink, light by default and dark where the reader prefers it; print is always light."""
    light = " ".join(f"--{ink.name}: {ink.light};" for ink in INKS)
    dark = " ".join(f"--{ink.name}: {ink.dark};" for ink in INKS)
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    )
