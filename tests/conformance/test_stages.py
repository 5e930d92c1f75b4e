"""Every pair of an algorithm and a stage that is admitted keeps the promises of the contract; others are refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from conformance.subjects import NAMES, STAR, about, subject
from fedbandits.channel import STAGES, through
from fedbandits.contract.errors import ConfigError
from fedbandits.testing.suite import PROMISES, Check

SERVED = {
    "quantise": {name for name in STAR if name != "rclb"},
    "robust": {"central-linucb", "dislinucb", "fedlinucb-async"},
}
"""By stage, the algorithms that it can serve."""
PAIRS = [(name, stage) for name in STAR for stage in STAGES if name in SERVED[stage]]
OFTEN = ("two worlds", "resumable")
"""What is tried of every pair in the normal suite."""
EXCUSED = {
    "quantise": {
        "environment": "tried once for each environment",
        "adds": "what was rounded away is sent with the next increment",
        "additive": "as above",
        "raw": "whole numbers and their scales are told from no observation",
        "meanwhile": "rounding depends on what was handed over before",
        "returned": "what is given back is rounded anew; see tests/channel",
        "never asked": "as above",
    },
    "robust": {"environment": "tried once for each environment"},
}

TYPICAL = ("dislinucb", "async-linucb", "hetofedbandit-e", "dyclu", "fedglb-ucb")
"""One for each way of sharing: the others are tried in the slow part of the suite."""
SHORT = 20
"""Steps of the trials in the normal suite."""


def staged(name: str, stage: str, horizon: int | None = None):
    one = subject(name)
    algorithm = through(one.algorithm, [STAGES[stage]()])
    return dataclasses.replace(one, algorithm=algorithm, horizon=horizon or one.horizon)


@pytest.mark.parametrize(
    ("name", "stage"),
    [pytest.param(*pair, marks=() if pair[0] in TYPICAL else pytest.mark.slow) for pair in PAIRS],
)
def test_pairs_keep_the_promises(name, stage):
    for check in OFTEN:
        Check(check, staged(name, stage, SHORT))()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stage"), PAIRS)
def test_pairs_keep_all_promises(name, stage):
    for check in PROMISES:
        if check not in EXCUSED[stage] and check not in OFTEN:
            Check(check, staged(name, stage))()


@pytest.mark.parametrize(
    ("name", "stage"), [(name, stage) for stage in STAGES for name in NAMES if name not in SERVED[stage]]
)
def test_who_cannot_be_served_is_refused(name, stage):
    with pytest.raises(ConfigError, match=about(name).name):
        staged(name, stage)


@pytest.mark.parametrize("name", sorted(SERVED["quantise"]))
def test_callers_by_schedule_are_so_through_a_stage(name):
    """A stage changes what is said, never who calls by a schedule."""
    plain, changed = subject(name), staged(name, "quantise")
    assert changed.algorithm.about.calls == plain.algorithm.about.calls
    if about(name).calls == "scheduled":
        syncs = [one.finished.trace().syncs for one in (plain, changed)]
        np.testing.assert_array_equal(*syncs)
