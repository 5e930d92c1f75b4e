"""How many seeds it would take: the least number at which an interval of that mean and spread leaves the bound out."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedbandits.findings.claims import Between, Growth, Less, Monotone
from fedbandits.findings.claims.interval import FEWEST_SEEDS, Interval


@given(
    st.lists(st.floats(-100, 100), min_size=FEWEST_SEEDS, max_size=12),
    st.floats(-10, 10),
    st.integers(1, 4),
    st.integers(1, 2),
)
def test_it_is_the_least_number_of_which_the_interval_leaves_the_bound_out(values, bound, comparisons, sides):
    found = Interval.over(np.array(values), comparisons, sides)
    needed = found.seeds_to_decide(bound)
    spread, mean = np.std(values, ddof=1), np.mean(values)
    if abs(mean - bound) <= 1e-9 * spread:
        assert needed is None
        return

    def excluded(seeds: int) -> bool:
        quantile = stats.t.ppf(1 - 0.05 / comparisons / sides, seeds - 1)
        return bool(quantile * spread / math.sqrt(seeds) < abs(mean - bound) * (1 + 1e-9))

    assert needed is not None
    assert excluded(needed)
    if needed > FEWEST_SEEDS and abs(mean - bound) > 1e-3 * spread:
        quantile = stats.t.ppf(1 - 0.05 / comparisons / sides, needed - 2)
        assert quantile * spread / math.sqrt(needed - 1) >= abs(mean - bound) * (1 - 1e-6)


def test_nothing_is_said_where_nothing_is_known():
    assert Interval.over(np.array([1.0, 2.0])).seeds_to_decide(0) is None
    assert Interval.over(np.array([1.0, np.nan, 2.0])).seeds_to_decide(0) is None
    assert Interval.over(np.array([-1.0, 0.0, 1.0])).seeds_to_decide(0) is None, "it is zero, as far as one can see"
    assert Interval.over(np.array([-1.0, 0.0, 1.0])).seeds_to_decide(-math.inf, math.inf) is None


def frame(**regrets: list[float]) -> pd.DataFrame:
    rows = [
        {"algorithm": name, "seed": seed, "clients": 1, "step": 1, "regret": regret}
        for name, values in regrets.items()
        for seed, regret in enumerate(values)
    ]
    return pd.DataFrame(rows)


APART = [3.0, -2.0, 4.0, -1.0, 2.0]
"""Differences, in which nothing can be seen yet."""


@pytest.mark.parametrize(
    ("claim", "needed"),
    [
        (Less(kind="less", text="less", metric="regret", of="one", than="two"), 21),
        (Monotone(kind="monotone", text="falls", metric="regret", direction="falls", along=["two", "one"]), 15),
        (Between(kind="between", text="between", metric="regret", of="one", low=0.0, high=9.0), None),
    ],
)
def test_undecided_verdicts_say_so(claim, needed):
    level = 10.0
    final = frame(one=[level + apart for apart in APART], two=[level] * 5)
    verdict = claim.judge(final, final)
    assert verdict.verdict == "undecided"
    found = verdict.details["seeds_to_decide"]
    assert f"; 5 seeds; about {found} like these would decide" in verdict.measured
    values = np.array(APART) + (level - 9.0 if claim.kind == "between" else 0.0)
    sides = 1 if claim.kind == "monotone" else 2
    assert found == Interval.over(values, sides=sides).seeds_to_decide(0)
    assert needed in (None, found)


def test_decided_ones_do_not():
    final = frame(one=[1.0, 1.1, 1.2], two=[10.0, 10.3, 10.1])
    verdict = Less(kind="less", text="less", metric="regret", of="one", than="two").judge(final, final)
    assert verdict.verdict == "holds"
    assert "would decide" not in verdict.measured
    assert "seeds_to_decide" not in verdict.details


def test_exponents_have_their_own():
    rows = [
        {"algorithm": "one", "n": n, "seed": seed, "clients": 1, "step": 1, "regret": n ** (0.5 + 0.3 * (-1) ** seed)}
        for n in (1, 10, 100)
        for seed in range(5)
    ]
    final = pd.DataFrame(rows)
    verdict = Growth(kind="growth", text="root", metric="regret", of="one", against="n", below=0.8).judge(final, final)
    assert verdict.verdict == "undecided"
    assert verdict.details["seeds_to_decide"] > 5


@pytest.mark.parametrize("looks", [2, 5])
def test_every_look_has_its_share_of_the_doubt(looks):
    """A claim that is looked at again is judged as one of so many comparisons."""
    final = frame(one=[10.0 + apart for apart in APART], two=[10.0] * 5)
    once = Less(kind="less", text="less", metric="regret", of="one", than="two")
    again = once.model_copy(update={"looks": looks}).judge(final, final)
    assert again.details["difference"]["two"] == Interval.over(np.array(APART), looks).plain()
    assert again.details["seeds_to_decide"] > once.judge(final, final).details["seeds_to_decide"]
    assert f"5 seeds; look {looks}, at {5 / looks:.2g} %; about" in again.measured


def test_looking_until_something_is_decided_errs_seldom_enough_if_the_looks_are_counted():
    """Nothing is there to be found. With four looks at growing numbers of seeds something is found in far more than one
    of twenty cases, unless the looks are counted.
    """
    rng = np.random.default_rng(0)
    counted = uncounted = 0
    cases = 2000
    for values in rng.normal(size=(cases, 160)):
        looks = [values[:seeds] for seeds in (20, 40, 80, 160)]
        uncounted += any(Interval.over(seen).below(0) != "undecided" for seen in looks)
        counted += any(Interval.over(seen, len(looks)).below(0) != "undecided" for seen in looks)
    assert uncounted > 0.09 * cases
    assert counted < 0.05 * cases
