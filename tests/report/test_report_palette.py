"""Colours stay apart for colour-blind readers: simulated by the matrices of Machado, Oliveira & Fernandes (2009)."""

import itertools
from xml.etree import ElementTree

import numpy as np
import pytest

from fedbandits.report.palette import INKS, SCALE, SERIES, SURFACE, style
from fedbandits.report.swatch import swatch

VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_LMS = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
TO_OKLAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_series_stands_out_from_the_page(mode: str) -> None:
    page = luminance(getattr(SURFACE, mode))
    for ink in SERIES:
        low, high = sorted([page, luminance(getattr(ink, mode))])
        assert (high + 0.05) / (low + 0.05) >= 3.0, ink.name


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("vision", VISION)
def test_all_series_colours_are_told_apart(mode: str, vision: str) -> None:
    seen = [np.clip(np.array(VISION[vision]) @ linear(getattr(ink, mode)), 0, 1) for ink in SERIES]
    lab = [np.array(TO_OKLAB) @ np.cbrt(np.array(TO_LMS) @ colour) for colour in seen]
    closest = min(np.linalg.norm(one - other) for one, other in itertools.combinations(lab, 2))
    assert closest >= 0.07


def test_no_two_series_have_the_same_line_or_the_same_mark() -> None:
    styles = [style(index) for index in range(90)]
    assert len({(look.ink, look.dash) for look in styles}) == 90
    assert len({(look.ink, look.marker) for look in styles}) == 90


@pytest.mark.parametrize(("series", "variants"), [(3, 30), (9, 6), (20, 4)])
def test_no_two_lines_of_a_sweep_have_the_same_style(series: int, variants: int) -> None:
    styles = [style(index, variant, series) for index in range(series) for variant in range(variants)]
    assert len({(look.ink, look.dash) for look in styles}) == series * variants
    for index in range(series):
        assert {style(index, variant, series).ink for variant in range(variants)} == {style(index).ink}


def test_a_swatch_shows_colour_dash_and_marker() -> None:
    shown = [swatch(style(index)) for index in range(40)]
    assert len(set(shown)) == 40
    for index, one in enumerate(shown):
        ElementTree.fromstring(one)
        assert style(index).ink.css in one
        assert ("stroke-dasharray" in one) == (style(index).dash != "solid")


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_scale_leads_away_from_the_page_in_even_steps(mode: str) -> None:
    """Lightness in Oklab is how light a colour looks: little is close to the page, much is far, in either mode."""
    light = [float((np.array(TO_OKLAB) @ np.cbrt(np.array(TO_LMS) @ linear(getattr(ink, mode))))[0]) for ink in SCALE]
    page = float((np.array(TO_OKLAB) @ np.cbrt(np.array(TO_LMS) @ linear(getattr(SURFACE, mode))))[0])
    away = np.abs(np.array(light) - page)
    steps = np.diff(away)
    assert steps.min() > 0.05
    assert steps.max() < 2.5 * steps.min()


def test_inks_are_told_apart_while_drawing() -> None:
    assert len({ink.stand_in for ink in INKS}) == len({ink.name for ink in INKS}) == len(INKS)
