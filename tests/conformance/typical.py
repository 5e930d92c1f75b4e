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
        "rclb",
        "fedlinucb-private",
        "fedlinucb-network",
        "private-linucb",
        "hetofedbandit-e",
        "fedglb-ucb",
        "fedglb-newton",
        "n-ons-glm",
        "fed-gp-ucb",
        "private-gp-ucb",
        "gp-ucb",
        "approx-dis-kernel-ucb",
        "kernel-ucb",
        "fed-ucb-kernel",
        "neural-linear",
        "neural-ucb",
        "fed-go-ucb",
        "n-go-ucb",
        "lsvi-ucb",
        "fedlsvi-dense",
        "fedlsvi-rare",
        "private-fedlsvi",
        "mg-lsvi",
        "ucb1",
        "thompson-beta",
        "dp-ucb-int",
        "fed-ucb1",
        "consensus-ucb",
        "private-fed-ucb",
        "sample-gossip",
    }
)
"""At least one of each family, topology and privacy (`test_families`), and one of each way to talk."""


def unless_typical(setting: str) -> Any:
    """The marks of a test of the algorithm in `setting`, which is a name, perhaps with parameters and stages."""
    return () if re.split("[:|]", setting)[0] in TYPICAL else pytest.mark.thorough


def typical_first(settings: Iterable[str]) -> list[Any]:
    """Parameters of a test of algorithms: those that others stand for are left to `make test-thorough`."""
    return [pytest.param(setting, marks=unless_typical(setting)) for setting in settings]
