"""Every algorithm keeps every promise of the contract; `fedbandits.testing` says what they are, and tries them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from conformance.subjects import NAMES, TALKING, about, family_of, subject
from fedbandits.testing import BrokenPromiseError
from fedbandits.testing.suite import PROMISES, Check

OF_ENVIRONMENTS = "environment"
"""Tried once for each environment, in `test_environment_promises`."""


def promised(name: str) -> list[str]:
    """What the algorithm `name` has promised."""
    return [
        check for check in PROMISES if check != OF_ENVIRONMENTS and check not in family_of(name).excused.get(name, {})
    ]


@pytest.mark.parametrize(("name", "check"), [(name, check) for name in NAMES for check in promised(name)])
def test_promise(name, check):
    Check(check, subject(name))()


@pytest.mark.parametrize(
    ("name", "check"), [(name, check) for name in NAMES for check in family_of(name).excused.get(name, {})]
)
def test_nobody_is_excused_from_what_it_does(name, check):
    """An excuse that is no longer needed has to go: under some seed the promise is broken."""
    for seed in range(3):
        try:
            Check(check, dataclasses.replace(subject(name), seed=seed))()
        except BrokenPromiseError:
            return
    pytest.fail(f"{name} keeps {check!r}: strike the excuse")


@pytest.mark.parametrize("name", NAMES)
def test_different_seeds_different_runs(name):
    """In every single step: clicks may add up to the same number for a while, regrets do not."""
    first, second = subject(name).finished.trace(), subject(name).finished_otherwise.trace()
    assert not np.isclose(first.regret, second.regret).any()
    assert not np.allclose(first.reward, second.reward)


@pytest.mark.parametrize("name", TALKING)
def test_the_talkative_parameters_do_talk_in_the_simulator_too(name):
    """Guards the suite itself: were nobody to talk, most of it would hold for no reason."""
    trace = subject(name).finished.trace()
    assert trace.syncs[-1] >= 3
    assert trace.messages[-1] > 0
    if about(name).topology == "star":
        assert trace.uplink.messages[-1] > 0
        assert trace.downlink.messages[-1] > 0
