"""No agent acts on a stale estimate: its choices are recomputed, as its family says, by means of their own."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.subjects import CLIENTS, NAMES, TALKING, TTL, about, family_of
from conformance.typical import unless_typical

TRIALS = [(name, label, trial) for name in NAMES for label, trial in family_of(name).choices(name)]


VARIANTS = ("catoni", "median-of-means", "shortest-interval")
"""Estimators that are tried with `ucb1` by `make test-thorough`, and with all who use them in the slow part."""


def marks(name: str, label: str) -> Any:
    if label in VARIANTS:
        return pytest.mark.thorough if name == "ucb1" else pytest.mark.slow
    return unless_typical(name)


@pytest.mark.parametrize(
    "trial",
    [pytest.param(trial, id=f"{name}-{label}", marks=marks(name, label)) for name, label, trial in TRIALS],
)
def test_what_it_acts_on_is_what_it_knows(trial):
    trial()


def test_everybody_who_is_told_something_is_tried():
    """Those that draw at random, plan, or estimate by an optimisation of their own are tried in `tests/algorithms`."""
    planning = {name for name in TALKING if about(name).family == "planning"}
    elsewhere = {"charm", "private-fed-ucb", "consensus-ucb", "rclb"} | planning
    assert {name for name in TALKING if about(name).family != "any"} - {name for name, *_ in TRIALS} == elsewhere


def test_the_ring_is_wide_enough():
    """Guards the armed family's trials: some agents must be out of reach, or distances would not matter."""
    assert CLIENTS // 2 > TTL
