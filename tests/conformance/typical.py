"""Which algorithms stand for the others in `make test`; `make test-thorough` tries what is left, and so does CI."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

TYPICAL = frozenset(
    {
        "random",
        "independent-linucb",
        "dislinucb",
        "async-linucb",
        "sample-gossip",
        "rclb",
        "fedlinucb-private",
        "hetofedbandit-e",
        "fedglb-ucb",
        "gp-ucb",
        "kernel-ucb",
        "neural-linear",
        "fed-go-ucb",
        "lsvi-ucb",
        "fedlsvi-rare",
        "ucb1",
        "dp-ucb-int",
        "fed-ucb1",
        "private-fed-ucb",
    }
)
"""At least one of each family, and of each topology with and without privacy (`test_families`)."""
PLAYING = frozenset({"random", "independent-linucb", "dislinucb", "ucb1", "fed-ucb1"})
"""Those of them whose loops over turns are compiled, for some seconds each: alone, with a server, on a graph."""


def unless_typical(setting: str, *, playing: bool = False) -> Any:
    """The marks of a test of the algorithm in `setting`, which is a name, perhaps with parameters and stages; if it is
    one of `playing` turns, that of loops.
    """
    name = re.split("[:|]", setting)[0]
    others = "|" in setting or "mean=" in setting  # which have loops of their own
    tried = name in PLAYING and not others if playing else name in TYPICAL
    return () if tried else pytest.mark.thorough


def typical_first(settings: Iterable[str], *, playing: bool = False) -> list[Any]:
    """Parameters of a test of algorithms: those that others stand for are left to `make test-thorough`."""
    return [pytest.param(setting, marks=unless_typical(setting, playing=playing)) for setting in settings]
