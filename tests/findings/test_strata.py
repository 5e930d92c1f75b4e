"""Seeds of some kinds of instances more than of others: means stay what they are, and intervals cover what they say."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedbandits import environments
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.streams import seeds_of
from fedbandits.findings.claims import Less
from fedbandits.findings.claims.interval import Interval
from fedbandits.findings.claims.strata import Strata
from fedbandits.simulation.instances import seeds_of_kinds, smallest_gap, world_of

ARMS = environments.BernoulliArms(clients=2, arms=3)


def share_below(gap: float, arms: int = 3) -> float:
    """How often uniform means have a smallest gap up to `gap`: the space between the two largest of K is Beta(1, K)."""
    return 1 - (1 - gap) ** arms


def gap_of(environment, seed: int) -> float:
    return smallest_gap(world_of(environment, 10, seeds_of(seed).world))


class TestInterval:
    def test_by_hand(self):
        values, kinds = np.array([1.0, 2.0, 3.0, 10.0, 14.0, 18.0, 14.0]), np.array([0, 0, 0, 1, 1, 1, 1])
        found = Interval.stratified(values, kinds, np.array([0.75, 0.25]))
        first, second = 0.75**2 * 1.0 / 3, 0.25**2 * (32 / 3) / 4
        assert found.mean == pytest.approx(0.75 * 2 + 0.25 * 14)
        freedom = (first + second) ** 2 / (first**2 / 2 + second**2 / 3)
        from scipy import stats

        low, high = stats.t.interval(0.95, freedom, loc=found.mean, scale=math.sqrt(first + second))
        assert (found.low, found.high) == pytest.approx((low, high))
        assert found.seeds == 7

    @given(st.lists(st.floats(-100, 100), min_size=4, max_size=30), st.integers(1, 6))
    def test_one_kind_is_none(self, values, comparisons):
        values = np.array(values)
        whole = Interval.over(values, comparisons)
        found = Interval.stratified(values, np.zeros(len(values), dtype=np.int64), np.ones(1), comparisons)
        assert (found.mean, found.low, found.high) == pytest.approx((whole.mean, whole.low, whole.high))
        assert found.spread == pytest.approx(whole.spread, abs=1e-12)

    def test_covers_as_often_as_it_says_whatever_is_drawn_of_each_kind(self):
        rng = np.random.default_rng(1)
        weights, centres, spreads = np.array([0.6, 0.3, 0.1]), np.array([1.0, 5.0, 40.0]), np.array([0.1, 2.0, 20.0])
        counts, truth = (4, 12, 40), float(weights @ centres)
        kinds = np.repeat(np.arange(3), counts)
        hits, naive = 0, 0
        for _ in range(2000):
            values = rng.normal(centres[kinds], spreads[kinds])
            found = Interval.stratified(values, kinds, weights)
            hits += found.low <= truth <= found.high
            whole = Interval.over(values)
            naive += whole.low <= truth <= whole.high
        assert 0.935 < hits / 2000 < 0.965
        assert naive < 200, "without weights it is another mean"

    def test_is_narrower_than_that_of_as_many_seeds_as_they_come(self):
        rng = np.random.default_rng(2)
        weights, spreads = np.array([0.9, 0.1]), np.array([0.1, 10.0])
        as_they_come = rng.random(1000) < 0.1
        drawn = rng.normal(0, spreads[as_they_come.astype(int)])
        kinds = np.repeat([0, 1], (100, 900))
        chosen = rng.normal(0, spreads[kinds])
        one, other = Interval.stratified(chosen, kinds, weights), Interval.over(drawn)
        assert (one.high - one.low) < 0.5 * (other.high - other.low)

    @pytest.mark.parametrize("kinds", [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]])
    def test_nothing_is_decided_by_too_few_of_a_kind(self, kinds):
        found = Interval.stratified(np.arange(5.0), np.array(kinds), np.array([0.5, 0.5]))
        assert not found.bounded
        assert found.seeds_to_decide(0) is None

    def test_seeds_that_agree_leave_no_doubt(self):
        found = Interval.stratified(np.full(6, 2.0), np.array([0, 0, 0, 1, 1, 1]), np.array([0.5, 0.5]))
        assert (found.low, found.high) == (2.0, 2.0)


class TestInstances:
    def test_gap_is_that_of_the_two_best(self):
        for seed in range(20):
            world = world_of(ARMS, 10, seeds_of(seed).world)
            second, best = sorted(world.mean_rewards())[-2:]
            assert gap_of(ARMS, seed) == best - second

    def test_two_best_arms_have_none_between_them(self):
        assert gap_of(environments.BernoulliArms(arms=3, means=(0.5, 0.9, 0.9)), 0) == 0

    @pytest.mark.parametrize("environment", [environments.Linear(), environments.BernoulliArms(arms=1)])
    def test_nobody_can_tell_where_arms_change_or_there_is_one(self, environment):
        assert math.isnan(gap_of(environment, 0))

    def test_first_seeds_of_every_kind(self):
        upto, counts = [0.1, 0.4], [5, 3, 4]
        shares = np.diff([0, *(share_below(gap) for gap in upto), 1])
        found = seeds_of_kinds(ARMS, 10, "smallest_gap", upto, shares, counts, first=7)
        kinds = [sum(gap_of(ARMS, seed) > edge for edge in upto) for seed in range(7, max(found) + 1)]
        expected = [
            seed
            for kind, count in enumerate(counts)
            for seed in [7 + at for at, one in enumerate(kinds) if one == kind][:count]
        ]
        assert found == sorted(expected)

    def test_shares_that_are_wrong_are_refused(self):
        with pytest.raises(ConfigError, match=r"shares: .* of kind 0, a share of 0\.2\d* and not 0\.7"):
            seeds_of_kinds(ARMS, 10, "smallest_gap", [0.1], [0.7, 0.3], [200, 200])

    def test_a_kind_that_never_comes_is_not_waited_for(self):
        with pytest.raises(ConfigError, match="shares: "):
            seeds_of_kinds(ARMS, 10, "smallest_gap", [2.0], [0.9, 0.1], [3, 300])
        with pytest.raises(ConfigError, match="of 1,900 instances"):
            seeds_of_kinds(ARMS, 10, "smallest_gap", [2.0], [0.99, 0.01], [3, 3])

    def test_environments_whose_arms_change_have_no_kinds(self):
        with pytest.raises(ConfigError, match="always shows everybody the same arms"):
            seeds_of_kinds(environments.Linear(), 10, "smallest_gap", [0.1], [0.5, 0.5], [3, 3])

    def test_unknown_measures_are_refused(self):
        with pytest.raises(ConfigError, match="did you mean 'smallest_gap'"):
            seeds_of_kinds(ARMS, 10, "smalest_gap", [0.1], [0.5, 0.5], [3, 3])


STRATA = {"by": "smallest_gap", "upto": [0.1, 0.4], "shares": [0.271, 0.513, 0.216], "seeds": [20, 10, 5]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"by": "gap"}, "unknown measure 'gap'"),
        ({"upto": [0.4, 0.1]}, "upto: must ascend"),
        ({"upto": [0.1, math.inf]}, "finite"),
        ({"upto": []}, "at least 1 item"),
        ({"shares": [0.5, 0.5]}, "shares: one for each kind, 3, is needed"),
        ({"seeds": [5, 5]}, "seeds: one for each kind, 3, is needed"),
        ({"seeds": [2, 5, 5]}, "greater than or equal to 3"),
        ({"shares": [0.3, 0.5, 0.1]}, "shares: must add up to 1"),
        ({"shares": [0.0, 0.5, 0.5]}, "greater than 0"),
        ({"more": 1}, "Extra inputs"),
    ],
)
def test_what_does_not_fit_together_is_refused(change, told):
    with pytest.raises(ValidationError, match=told):
        Strata.model_validate({**STRATA, **change})


@pytest.mark.parametrize("change", [{"every": True}, {"share": 0.5}, {"seeds": 50}])
def test_strata_are_for_means(change):
    with pytest.raises(ValidationError, match="strata"):
        Less(kind="less", text="less", metric="regret", of="one", than="two", strata=Strata(**STRATA), **change)


def ends(seeds, of, than, gaps) -> pd.DataFrame:
    rows = [
        {"algorithm": name, "seed": seed, "clients": 1, "step": 1, "regret": value, "smallest_gap": gap}
        for name, values in (("one", of), ("two", than))
        for seed, value, gap in zip(seeds, values, gaps, strict=True)
    ]
    return pd.DataFrame(rows)


def test_a_claim_weighs_kinds_by_their_shares():
    rng = np.random.default_rng(3)
    gaps = np.r_[rng.uniform(0, 0.1, 20), rng.uniform(0.11, 0.4, 10), rng.uniform(0.41, 0.9, 5)]
    kinds = np.repeat([0, 1, 2], (20, 10, 5))
    than, apart = 10 - 10 * gaps, np.choose(kinds, [3.0, -2.0, -4.0]) + rng.normal(size=35)
    claim = Less(kind="less", text="less", metric="regret", of="one", than="two", looks=2, strata=Strata(**STRATA))
    final = ends(range(35), than + apart, than, gaps)
    verdict = claim.judge(final, final)
    weights = np.array(STRATA["shares"])
    expected = Interval.stratified(apart, kinds, weights, 2)
    assert verdict.details["difference"]["two"] == pytest.approx(expected.plain())
    assert verdict.details["of"] == pytest.approx(
        sum(share * (than + apart)[kinds == kind].mean() for kind, share in enumerate(weights))
    )
    assert verdict.verdict == "holds", "the plain mean is above zero: most seeds are of the kind in which it has more"
    assert apart.mean() > 0
    assert "instances of 3 kinds by smallest_gap" in verdict.measured
    assert "35 seeds; look 2" in verdict.measured


def test_seeds_beyond_the_first_of_their_kind_have_no_say():
    """They may have been chosen by another claim, of instances that are otherwise sorted."""
    gaps = np.r_[np.full(20, 0.05), np.full(10, 0.2), np.full(5, 0.5), np.full(30, 0.01)]
    apart = np.r_[np.random.default_rng(4).normal(-1, 0.5, 35), np.full(30, 100.0)]
    claim = Less(kind="less", text="less", metric="regret", of="one", than="two", strata=Strata(**STRATA))
    with_others = ends(range(65), apart, np.zeros(65), gaps).sample(frac=1, random_state=0)
    without = ends(range(35), apart[:35], np.zeros(35), gaps[:35])
    assert claim.judge(with_others, with_others).measured == claim.judge(without, without).measured


def test_runs_that_do_not_say_their_gap_are_refused():
    claim = Less(kind="less", text="less", metric="regret", of="one", than="two", strata=Strata(**STRATA))
    final = ends(range(3), [1.0] * 3, [2.0] * 3, [0.1, np.nan, 0.3])
    with pytest.raises(ConfigError, match="not known of all runs"):
        claim.judge(final, final)
