"""The thesis' constants for noisy matrices, as printed (Dubey 2022, section 6.5)."""

from __future__ import annotations

import math


def printed_deviation(epsilon: float, delta: float, uploads: int) -> float:
    """sigma_N / (L^2 + B^2) = 4 sqrt(m) log(2/delta) / epsilon, m = 1 + ceil(log2 uploads): for every node of a tree.

    The budget of each node is meant to be (epsilon / sqrt(8 m ln(2/delta)), delta / (2m)); exact accounting finds that
    together they cost four to six times less than `epsilon`.
    """
    return 4 * math.sqrt(depth(uploads)) * math.log(2 / delta) / epsilon


def printed_spectrum(epsilon: float, delta: float, uploads: int) -> float:
    """Lambda / ((L^2 + B^2) (4 sqrt(d) + 2 log(2 n M/alpha))) = sqrt(32) m log(4/delta) / epsilon."""
    return math.sqrt(32) * depth(uploads) * math.log(4 / delta) / epsilon


def depth(uploads: int) -> int:
    """m: how many nodes an upload is in, and how many add up to a release, at most."""
    return 1 + math.ceil(math.log2(uploads))
