"""Every algorithm keeps every promise of the contract; `fedbandits.testing` says what they are, and tries them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from conformance.subjects import NAMES, about, family_of, subject
from conformance.typical import unless_typical
from fedbandits.contract.facts import Game
from fedbandits.testing import BrokenPromiseError
from fedbandits.testing.subject import Subject
from fedbandits.testing.suite import PROMISES, Check

OF_ENVIRONMENTS = "environment"
"""Tried once for each environment, in `test_environment_promises`."""


def different_seeds(one: Subject) -> None:
    """Different runs, in every single step: clicks may add up to the same number for a while, regrets do not."""
    first, second = one.finished.trace(), one.finished_otherwise.trace()
    assert not np.isclose(first.regret, second.regret).any()
    assert not np.allclose(first.reward, second.reward)


def talks_in_the_simulator(one: Subject) -> None:
    """Guards the suite itself: were nobody to talk, most of it would hold for no reason."""
    trace = one.finished.trace()
    assert trace.syncs[-1] >= 3
    assert trace.messages[-1] > 0
    if one.topology == "star":
        assert trace.uplink.messages[-1] > 0
        assert trace.downlink.messages[-1] > 0


def plays_compiled_turns(one: Subject) -> None:
    """Guards the suite itself: who offers compiled functions is tried where they have something to do, which is not
    in a game, whose players all move one world.
    """
    run = one.played
    if one.topology != "graph" and run.world.problem.get(Game) is None and run.agents.compiled() is not None:
        assert run.played > run.horizon // 2


def trials(name: str) -> Iterator[tuple[str, Callable[[Subject], None]]]:
    """What the algorithm `name` is held to: what the contract asks of everybody, and some more."""
    excused = family_of(name).excused.get(name, {})
    for check in PROMISES.keys() - {OF_ENVIRONMENTS} - excused.keys():
        yield check, lambda one, check=check: Check(check, one)()
    yield "different seeds", different_seeds
    yield "plays compiled turns", plays_compiled_turns
    if about(name).says:
        yield "talks in the simulator", talks_in_the_simulator


# algorithm by algorithm, so that the trials of one follow each other and share its runs
@pytest.mark.parametrize(
    ("name", "trial"),
    [
        pytest.param(
            name,
            trial,
            id=f"{name}-{label.replace(' ', '-')}",
            marks=unless_typical(name, playing=label in ("compiled", "plays compiled turns")),
        )
        for name in NAMES
        for label, trial in sorted(trials(name), key=lambda labelled: labelled[0])
    ],
)
def test_promise(name, trial):
    trial(subject(name))


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, marks=unless_typical(name))
        for name in NAMES
        for check in family_of(name).excused.get(name, {})
    ],
)
def test_nobody_is_excused_from_what_it_does(name, check):
    """An excuse that is no longer needed has to go: under some seed the promise is broken."""
    for seed in range(3):
        try:
            Check(check, dataclasses.replace(subject(name), seed=seed))()
        except BrokenPromiseError:
            return
    pytest.fail(f"{name} keeps {check!r}: strike the excuse")
