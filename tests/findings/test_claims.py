"""Verdicts on synthetic results whose truth is known."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from scipy.stats import binomtest

from fedbandits.contract.catalogue import ConfigError
from fedbandits.findings.claims import Interval, parse_claims

SEEDS = 12


def rows(algorithm, regret, messages=1.0, **columns):
    """Final rows of one algorithm, one per seed."""
    regret = np.atleast_1d(np.asarray(regret, dtype=float))
    held = {"algorithm": algorithm, "seed": np.arange(len(regret)), "clients": 1, "step": 100, "decisions": 100}
    return pd.DataFrame(held | {"regret": regret, "messages": messages} | columns)


def verdict(frame, **claim):
    [parsed] = parse_claims([{"text": "said", **claim}])
    return parsed.judge(frame, frame)


def noise(seed, scale=1.0, count=SEEDS):
    return scale * np.random.default_rng(seed).standard_normal(count)


class TestLess:
    def judge(self, a, b, **more):
        frame = pd.concat([rows("a", a), rows("b", b)])
        return verdict(frame, kind="less", metric="regret", of="a", than="b", **more).verdict

    def test_pairing_decides_what_spread_would_hide(self):
        common = noise(0, 50.0)
        assert self.judge(100 + common, 103 + common + noise(1)) == "holds"
        assert self.judge(103 + common + noise(1), 100 + common) == "fails"
        assert self.judge(100 + common, 103 + noise(2, 50.0)) == "undecided"

    def test_factor(self):
        assert self.judge(60 + noise(0), 100 + noise(1)) == "holds"
        assert self.judge(60 + noise(0), 100 + noise(1), factor=0.5) == "fails"

    def test_a_margin_is_added(self):
        assert self.judge(110 + noise(0), 100 + noise(1)) == "fails"
        assert self.judge(110 + noise(0), 100 + noise(1), plus=20.0) == "holds"
        assert self.judge(110 + noise(0), 200 + noise(1), factor=0.5, plus=5.0) == "fails"

    def test_in_every_run_is_not_in_the_mean(self):
        one = np.array([*np.full(SEEDS - 1, 1.0), 11.0])
        assert self.judge(one, np.full(SEEDS, 10.0)) == "holds"
        assert self.judge(one, np.full(SEEDS, 10.0), every=True) == "fails"
        assert self.judge(one, np.full(SEEDS, 12.0), every=True) == "holds"
        assert self.judge(one[-2:], np.full(2, 12.0), every=True) == "undecided"
        frame = pd.concat([rows("a", one), rows("b", np.full(SEEDS, 10.0))])
        told = verdict(frame, kind="less", metric="regret", of="a", than="b", every=True).measured
        assert "1 in the worst run" in told

    def test_most_runs_are_not_the_mean(self):
        """One run that is far above all others decides the mean, and not what most runs do."""
        one, other = np.append(np.full(19, 9.0), 10_000.0), np.full(20, 10.0)
        assert self.judge(one, other) == "undecided"
        assert self.judge(one, other, share=0.5) == "holds"
        assert self.judge(one, other, share=0.9) == "undecided"
        assert self.judge(other, one, share=0.5) == "fails"
        assert self.judge(one, other, share=0.5, looks=10**6) == "undecided"

    def test_so_many_runs_are_told(self):
        frame = pd.concat([rows("a", np.append(np.full(7, 1.0), 3.0)), rows("b", np.full(8, 2.0))])
        found = verdict(frame, kind="less", metric="regret", of="a", than="b", share=0.5)
        exact = binomtest(7, 8).proportion_ci(0.95, "exact")
        assert found.verdict == ("holds" if exact.low > 0.5 else "undecided")
        assert found.details["share"]["b"] == pytest.approx(
            {"mean": 7 / 8, "low": exact.low, "high": exact.high, "seeds": 8}
        )
        assert "below in 0.875 [0.473, 0.997] of the runs" in found.measured

    def test_runs_that_agree_are_no_proof_that_three_would_do(self):
        three = verdict(
            pd.concat([rows("a", np.ones(3)), rows("b", np.full(3, 2.0))]),
            kind="less", metric="regret", of="a", than="b", share=0.5,
        )  # fmt: skip
        assert three.verdict == "undecided"
        assert 5 <= three.details["seeds_to_decide"] <= 8  # six out of six would

    def test_a_share_of_all_runs_is_no_claim(self):
        with pytest.raises(ValidationError, match="leave out `share` or `every`"):
            self.judge(np.ones(5), np.full(5, 2.0), every=True, share=0.5)

    def test_equal_is_not_less(self):
        assert self.judge(np.full(SEEDS, 5.0), np.full(SEEDS, 5.0)) == "fails"

    def test_two_seeds_never_decide(self):
        assert self.judge([1.0, 1.1], [100.0, 100.2]) == "undecided"

    def test_two_seeds_are_told_in_words_and_as_nothing(self):
        frame = pd.concat([rows("a", [1.0, 1.1]), rows("b", [100.0, 100.2])])
        found = verdict(frame, kind="less", metric="regret", of="a", than="b")
        assert found.measured == (
            "regret 1.05 of a, 100 of b; difference -99.1 (too few seeds for an interval); "
            "2 seeds are too few to decide"
        )
        difference = found.details["difference"]["b"]
        assert (difference["low"], difference["high"], difference["seeds"]) == (None, None, 2)

    def test_only_common_seeds_count(self):
        frame = pd.concat([rows("a", 1 + noise(0)), rows("b", 9 + noise(1, count=5))])
        found = verdict(frame, kind="less", metric="regret", of="a", than="b")
        assert (found.verdict, found.details["seeds"]) == ("holds", 5)

    def test_no_common_seeds(self):
        frame = pd.concat([rows("a", [1.0]), rows("b", [2.0]).assign(seed=7)])
        assert verdict(frame, kind="less", metric="regret", of="a", than="b").verdict == "undecided"

    def test_figures_are_told(self):
        frame = pd.concat([rows("a", [1.0, 2.0, 3.0]), rows("b", [5.0, 6.0, 7.0])])
        found = verdict(frame, kind="less", metric="regret", of="a", than="b")
        assert found.text == "said"
        assert found.measured == "regret 2 of a, 6 of b; difference -4 [-4, -4]; 3 seeds"

    def test_below_each_of_several(self):
        frame = pd.concat([rows("a", 10 + noise(0)), rows("b", 20 + noise(1)), rows("c", 5 + noise(2))])
        both = verdict(frame, kind="less", metric="regret", of="a", than=["b", "c"])
        assert both.verdict == "fails"
        assert both.measured.count("difference") == 2
        assert both.details["than"].keys() == {"b", "c"}
        assert verdict(frame, kind="less", metric="regret", of="c", than=["a", "b"]).verdict == "holds"

    def test_several_comparisons_are_each_held_to_more(self):
        gap = np.array([-1.0, -1.0, -1.0, -1.0, 0.2])  # below zero at 95 %, not at 97.5 %
        frame = pd.concat([rows("a", 10 + gap), rows("b", np.full(5, 10.0)), rows("c", np.full(5, 10.0))])
        assert verdict(frame, kind="less", metric="regret", of="a", than="b").verdict == "holds"
        assert verdict(frame, kind="less", metric="regret", of="a", than=["b", "c"]).verdict == "undecided"

    def test_since_leaves_out_what_came_before(self):
        def run(label, early, late):
            steps = [(25, early / 2), (50, early), (75, early + late / 2), (100, early + late)]
            return pd.concat([rows(label, regret + noise(step, 0.1), step=step) for step, regret in steps])

        frame = pd.concat([run("a", 100, 10), run("b", 10, 50)])
        final = frame[frame["step"] == 100]
        claim = {"kind": "less", "text": "t", "metric": "regret", "of": "a", "than": "b"}
        whole, half, early = parse_claims([claim, claim | {"since": 0.5}, claim | {"since": 0.01}])
        assert whole.judge(frame, final).verdict == "fails"
        found = half.judge(frame, final)
        assert found.verdict == "holds"
        assert found.details["of"] == pytest.approx(10, abs=0.2)
        assert "after 50 % of the run" in found.measured
        assert early.judge(frame, final).details["of"] == pytest.approx(110, abs=0.2)  # no step is kept so early

    def test_needs_one_sweep_point(self):
        frame = pd.concat([rows("a", 1 + noise(0), dim=d) for d in (2, 4)] + [rows("b", 9 + noise(1), dim=2)])
        with pytest.raises(ConfigError, match="`at`"):
            verdict(frame, kind="less", metric="regret", of="a", than="b")
        assert verdict(frame, kind="less", metric="regret", of="a", than="b", at={"dim": 2}).verdict == "holds"


class TestMonotone:
    def judge(self, *levels, direction="rises", scale=1.0):
        labels = [f"a{at}" for at in range(len(levels))]
        frame = pd.concat(
            [
                rows(label, level + noise(at, scale))
                for at, (label, level) in enumerate(zip(labels, levels, strict=True))
            ]
        )
        return verdict(frame, kind="monotone", metric="regret", direction=direction, along=labels)

    def test_along_labels(self):
        assert self.judge(10, 20, 30).verdict == "holds"
        assert self.judge(10, 20, 30, direction="falls").verdict == "fails"
        assert self.judge(30, 20, 10, direction="falls").verdict == "holds"

    def test_one_bad_step_is_enough_to_fail_and_is_named(self):
        found = self.judge(10, 30, 20)
        assert found.verdict == "fails"
        assert "from a1 to a2 it does not" in found.measured

    def test_noisy_step_is_undecided(self):
        assert self.judge(10, 10.1, 30, scale=2.0).verdict == "undecided"

    def test_steps_share_the_error(self):
        # a difference that one comparison accepts and twenty do not: bounds at 1 - 0.05 and 1 - 0.05/20
        step = noise(0)
        step = (step - step.mean()) / step.std(ddof=1) + 0.7
        alone = pd.concat([rows("a0", np.zeros(SEEDS)), rows("a1", step)])
        many = [rows(f"a{at}", 100.0 * at + np.zeros(SEEDS)) for at in range(20)]
        many.append(rows("a20", 1900.0 + step))
        claim = {"kind": "monotone", "metric": "regret", "direction": "rises"}
        assert verdict(alone, along=["a0", "a1"], **claim).verdict == "holds"
        assert verdict(pd.concat(many), along=[f"a{at}" for at in range(21)], **claim).verdict == "undecided"

    def test_along_a_sweep_column(self):
        frame = pd.concat([rows("a", 10 * n + noise(n), dim=n) for n in (8, 2, 4)])
        claim = {"kind": "monotone", "metric": "regret", "along": "dim", "of": "a"}
        assert verdict(frame, direction="rises", **claim).verdict == "holds"
        assert verdict(frame, direction="falls", **claim).verdict == "fails"


class TestGrowth:
    def judge(self, exponent, scale=0.01, column="horizon", **bounds):
        values = [1_000, 10_000, 100_000]
        frame = pd.concat(
            [
                rows("a", value**exponent * np.exp(noise(at, scale)), **{column: value})
                for at, value in enumerate(values)
            ]
        )
        return verdict(frame, kind="growth", metric="regret", of="a", against=column, **bounds)

    @pytest.mark.parametrize(
        ("bounds", "expected"),
        [
            ({"below": 0.6}, "holds"),
            ({"below": 0.4}, "fails"),
            ({"above": 0.6}, "fails"),
            ({"above": 0.4, "below": 0.6}, "holds"),
            ({"below": 0.5}, "undecided"),
        ],
    )
    def test_bounds(self, bounds, expected):
        found = self.judge(0.5, **bounds)
        assert found.details["exponent"]["mean"] == pytest.approx(0.5, abs=0.01)
        assert found.verdict == expected

    def test_within_a_run(self):
        steps = np.arange(1, 51)
        frame = pd.concat(
            [
                pd.DataFrame({"algorithm": "a", "seed": seed, "step": steps, "regret": (3 + seed) * steps**0.7})
                for seed in range(4)
            ]
        )
        found = verdict(frame, kind="growth", metric="regret", of="a", against="step", above=0.69, below=0.71)
        assert found.verdict == "holds"

    def test_zero_has_no_exponent(self):
        frame = pd.concat([rows("a", np.full(SEEDS, value), horizon=value) for value in (0, 10, 100)])
        found = verdict(frame, kind="growth", metric="regret", of="a", against="horizon", below=2)
        assert found.verdict == "undecided"
        assert "horizon=0" in found.measured

    def test_per_client(self):
        frame = pd.concat([rows("a", n**0.5 * np.exp(noise(n, 0.01)), clients=n) for n in (1, 4, 16)])
        claim = {"kind": "growth", "of": "a", "against": "clients", "above": -0.55, "below": -0.45}
        assert verdict(frame, metric="regret_per_client", **claim).verdict == "holds"
        assert verdict(frame, metric="regret", **claim).verdict == "fails"


class TestFrontier:
    """A's points lie on regret = 1000 / messages; B's at 100 messages, where A's frontier is 10."""

    def judge(self, regret, messages=100.0, **more):
        frame = pd.concat(
            [
                rows("a1", 100 * np.exp(noise(0, 0.01)), messages=10.0),
                rows("a2", 1 * np.exp(noise(1, 0.01)), messages=1000.0),
                rows("a3", 500.0 + noise(2), messages=0.0),
                rows("b", regret * np.exp(noise(3, 0.01)), messages=messages),
            ]
        )
        more = {"of": ["a1", "a2", "a3"], "than": ["b"]} | more
        return verdict(frame, kind="frontier", x="messages", y="regret", **more)

    def test_interpolates_in_logarithms(self):
        found = self.judge(20.0)
        assert found.verdict == "holds"
        assert found.details["ratios"]["b"]["mean"] == pytest.approx(0.5, rel=0.02)

    def test_worse_fails_unless_the_factor_allows_it(self):
        assert self.judge(8.0).verdict == "fails"
        assert self.judge(8.0, factor=1.5).verdict == "holds"
        assert self.judge(10.0).verdict == "undecided"

    def test_two_seeds_have_a_ratio_and_no_interval(self):
        frame = pd.concat(
            [
                rows("a1", [100.0, 100.0], messages=10.0),
                rows("a2", [1.0, 1.0], messages=1000.0),
                rows("b", [20.0, 20.0], messages=100.0),
            ]
        )
        found = verdict(frame, kind="frontier", x="messages", y="regret", of=["a1", "a2"], than=["b"])
        assert found.verdict == "undecided"
        assert "regret is 0.5 (too few seeds for an interval) times as large, in range in 2 of 2 seeds" in (
            found.measured
        )
        assert found.details["ratios"]["b"]["low"] is None

    @pytest.mark.parametrize("messages", [1.0, 5000.0, 0.0])
    def test_never_extrapolates(self, messages):
        found = self.judge(1.0, messages=messages)
        assert found.verdict == "undecided"
        assert f"in range in 0 of {SEEDS} seeds" in found.measured


class TestBetween:
    @pytest.mark.parametrize(
        ("low", "high", "expected"), [(9, 11, "holds"), (11, 12, "fails"), (0, 9, "fails"), (10, 12, "undecided")]
    )
    def test_bounds(self, low, high, expected):
        centred = noise(0)
        frame = rows("a", 10 + centred - centred.mean())
        assert verdict(frame, kind="between", metric="regret", of="a", low=low, high=high).verdict == expected

    def test_without_bounds_two_seeds_decide_nothing_either(self):
        assert verdict(rows("a", [1.0, 2.0]), kind="between", metric="regret", of="a").verdict == "undecided"

    def test_infinite_values_have_no_interval(self):
        found = verdict(rows("a", [np.inf] * 4), kind="between", metric="regret", of="a", high=1.0)
        assert found.verdict == "undecided"
        assert found.measured == "regret of a infinite (without an interval); 4 seeds"
        assert found.details["mean"] == {"mean": None, "low": None, "high": None, "seeds": 4}


CLAIMS = [
    {"kind": "less", "metric": "regret", "of": "a", "than": ["b", "c"]},
    {"kind": "monotone", "metric": "regret", "direction": "rises", "along": ["a", "b", "c"]},
    {"kind": "growth", "metric": "regret", "of": "a", "against": "step", "below": 1.0},
    {"kind": "frontier", "x": "messages", "y": "regret", "of": ["a", "b"], "than": ["c"]},
    {"kind": "between", "metric": "regret", "of": "a", "low": 0.0},
]


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim["kind"] for claim in CLAIMS])
@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_never_print_infinities(claim, seeds):
    levels = {"a": 1.0, "b": 5.0, "c": 3.0}
    parts = [
        rows(label, level * (1 + step) + noise(at, 0.1, seeds), messages=100 * level, step=step)
        for at, (label, level) in enumerate(levels.items())
        for step in (1, 2)
    ]
    frame = pd.concat(parts)
    [parsed] = parse_claims([{"text": "said", **claim}])
    found = parsed.judge(frame, frame[frame["step"] == 2])
    assert found.verdict == "undecided"
    assert not re.search(r"\binf|nan", found.measured)
    assert "too few" in found.measured
    json.dumps(found.details, allow_nan=False)


def test_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = [
        abs(interval.mean) <= interval.high - interval.mean
        for interval in (Interval.over(sample) for sample in rng.standard_normal((4000, 5)))
    ]
    assert np.mean(hits) == pytest.approx(0.95, abs=0.012)


class TestTheory:
    """Regret held against what theory says of it."""

    def test_regret_within_its_bounds(self):
        frame = rows("a", 10 + noise(0)).assign(upper_bound=40.0, lower_bound=5.0)
        upper = {"kind": "between", "metric": "regret_per_upper_bound", "of": "a", "high": 1.0}
        lower = {"kind": "between", "metric": "regret_per_lower_bound", "of": "a", "low": 1.0}
        assert verdict(frame, **upper).verdict == "holds"
        assert verdict(frame, **upper).details["mean"]["mean"] == pytest.approx(0.25, abs=0.05)
        assert verdict(frame, **lower).verdict == "holds"
        assert verdict(frame.assign(upper_bound=5.0), **upper).verdict == "fails"

    def test_without_a_bound_nothing_is_decided(self):
        frame = rows("a", 10 + noise(0)).assign(upper_bound=np.nan)
        found = verdict(frame, kind="between", metric="regret_per_upper_bound", of="a", high=1.0)
        assert found.verdict == "undecided"

    def test_privacy_is_measured(self):
        frame = rows("a", 10 + noise(0)).assign(epsilon=1.5)
        assert verdict(frame, kind="between", metric="epsilon", of="a", low=1.5, high=1.5).verdict == "holds"


def test_names_come_in_the_order_of_the_run_and_numbers_ascending():
    names = pd.concat(
        [rows("a", level + noise(0), network=name) for name, level in (("star", 1), ("line", 5), ("x", 9))]
    )
    claim = {"kind": "monotone", "metric": "regret", "of": "a", "direction": "rises"}
    assert verdict(names, along="network", **claim).verdict == "holds"
    mixed = pd.concat([rows("a", level + noise(0), ttl=ttl) for ttl, level in ((2, 1), (1, 5), ("diameter", 9))])
    found = verdict(mixed, along="ttl", **claim)
    assert found.verdict == "holds"
    assert list(found.details["levels"]) == ["ttl=2", "ttl=1", "ttl=diameter"]
