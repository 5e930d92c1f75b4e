"""Corruption: rates and laws of outliers, the bound on tampering, and a tamperer that learns."""

from __future__ import annotations

import numpy as np
import pytest
from peer_scripts import TOLD
from scipy import stats

from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Ragged, Utterance, WireField, vector
from fedbandits.graphs.network import Faults
from fedbandits.transport.corruption import Corruption, check_corruptible
from fedbandits.transport.mishaps import byzantine, mishaps_of

N = 400
MANY = Utterance("many", "peer", (WireField("mean", (2,), raw=True), vector("weights", 3), WireField("last", raw=True)))


def corruption(said=TOLD, seed=0, arms=3, **faults):
    given = Faults(**faults)
    return Corruption(given, mishaps_of(given, np.random.SeedSequence(seed)), N, arms, said)


def told(rewards, arms=None):
    arms = np.zeros(len(rewards), dtype=np.int64) if arms is None else np.array(arms)
    return Message("told", np.arange(len(rewards)), {"arm": arms, "reward": np.array(rewards, dtype=float)})


def left_with(one, rounds=100):
    """(rounds, N) what leaves the source where everybody says 0.5 in every round."""
    return np.array([one.at_source(told(np.full(N, 0.5)), step).arrays["reward"] for step in range(rounds)])


class TestContamination:
    def test_has_its_rate(self):
        struck = left_with(corruption(contamination=0.2, outlier=7.0)) == 7.0
        assert struck.mean() == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / struck.size))
        by_agent, by_round = struck.sum(axis=0), struck.sum(axis=1)
        assert stats.chisquare(by_agent).pvalue > 0.001
        assert stats.chisquare(by_round).pvalue > 0.001

    def test_strikes_byzantine_agents_alone(self):
        faults = Faults(contamination=0.3, byzantine=0.25)
        guilty = byzantine(mishaps_of(faults, np.random.SeedSequence(0)), 0.25, N)
        struck = left_with(corruption(contamination=0.3, byzantine=0.25)) != 0.5
        assert guilty.sum() == 100
        np.testing.assert_array_equal(struck.any(axis=0), guilty)

    @pytest.mark.parametrize(("outliers", "law"), [("gaussian", stats.norm), ("cauchy", stats.cauchy)])
    def test_outliers_have_their_law(self, outliers, law):
        left = left_with(corruption(contamination=0.3, outliers=outliers, outlier=4.0))
        assert stats.kstest(left[left != 0.5] / 4.0, law.cdf).pvalue > 0.01

    def test_leaves_the_speaker_alone(self):
        said = told(np.full(N, 0.5))
        corruption(contamination=0.4).at_source(said, 0)
        assert (said.arrays["reward"] == 0.5).all()

    def test_is_the_same_whoever_else_speaks(self):
        one = corruption(contamination=0.4, outliers="cauchy")
        some = np.arange(0, N, 7)
        part = Message("told", some, {"arm": np.zeros(len(some), dtype=np.int64), "reward": np.full(len(some), 0.5)})
        everybody = one.at_source(told(np.full(N, 0.5)), 3).arrays["reward"]
        np.testing.assert_array_equal(one.at_source(part, 3).arrays["reward"], everybody[some])


class TestTampering:
    journeys = tuple(np.arange(N) + shift for shift in (0, 1, 2, 3))

    def test_adds_uniformly_up_to_its_bound(self):
        one = corruption(tampering=0.3)
        added = one.on_the_way(np.zeros((N, 1)), None, *self.journeys)[:, 0]
        assert stats.kstest(added / 0.3, "uniform").pvalue > 0.01

    def test_each_number_is_changed_by_itself(self):
        one = corruption(MANY, tampering=0.3)
        added = one.on_the_way(np.zeros((N, 3)), None, *self.journeys)
        assert len(np.unique(added)) == 3 * N

    def test_the_adaptive_one_lowers_what_looks_best(self):
        one = corruption(tampering=0.1, tamperer="adaptive")
        arms = np.array([0, 1, 2])
        some = tuple(journey[:3] for journey in self.journeys)

        def added():
            one.look()
            return one.on_the_way(np.zeros((3, 1)), arms, *some)[:, 0].tolist()

        one.watch(told([0.5, 0.9], [1, 2]))
        assert added() == [0.1, 0.1, -0.1]
        one.watch(told([0.1, 0.5], [2, 1]))  # means: arm 1 at 0.5, arm 2 at 0.5: a tie
        assert added() == [0.1, -0.1, 0.1]
        one.watch(told([3.0], [0]))
        assert added() == [-0.1, 0.1, 0.1]

    def test_the_adaptive_one_does_not_see_the_round_it_acts_in(self):
        one = corruption(tampering=0.1, tamperer="adaptive")
        some = tuple(journey[:1] for journey in self.journeys)
        one.look()
        one.watch(told([0.5], [1]))
        assert one.on_the_way(np.zeros((1, 1)), np.array([1]), *some)[0, 0] == 0.1
        one.look()
        assert one.on_the_way(np.zeros((1, 1)), np.array([1]), *some)[0, 0] == -0.1

    def test_the_adaptive_one_remembers_across_snapshots(self):
        one, other = (corruption(tampering=0.1, tamperer="adaptive") for _ in range(2))
        one.watch(told([0.5], [1]))
        other.load(one.state())
        assert other.totals.tolist() == [0, 0.5, 0]
        assert other.counts.tolist() == [0, 1, 0]

    def test_messages_without_an_arm_are_lowered(self):
        one = corruption(tampering=0.1, tamperer="adaptive")
        some = tuple(journey[:2] for journey in self.journeys)
        assert one.on_the_way(np.ones((2, 1)), None, *some)[:, 0].tolist() == [0.9, 0.9]

    def test_an_arm_that_does_not_exist_is_refused(self):
        with pytest.raises(ValueError, match=r"'arm'.* 0\.\.2"):
            corruption(tampering=0.1, tamperer="adaptive").watch(told([0.5], [3]))


class TestRawFields:
    def message(self):
        arrays = {"mean": np.arange(4.0).reshape(2, 2), "weights": np.ones((2, 3)), "last": np.array([8.0, 9.0])}
        return Message("many", np.arange(2), arrays)

    def test_numbers_are_read_and_written_field_by_field(self):
        one, message = corruption(MANY), self.message()
        numbers = one.numbers(message)
        assert numbers.tolist() == [[0, 1, 8], [2, 3, 9]]
        changed = one.rewritten(message.arrays, -numbers)
        np.testing.assert_array_equal(changed["mean"], -message.arrays["mean"])
        np.testing.assert_array_equal(changed["last"], -message.arrays["last"])
        np.testing.assert_array_equal(changed["weights"], message.arrays["weights"])
        assert message.arrays["last"].tolist() == [8, 9]

    @pytest.mark.parametrize("faults", [{"contamination": 0.1}, {"tampering": 0.1}])
    def test_there_must_be_some(self, faults):
        with pytest.raises(ConfigError, match=r"corruption changes the rewards in messages, .* \(they say 'quiet'\)"):
            check_corruptible(Faults(**faults), [Utterance("quiet", "peer", (vector("v"),))])

    def test_one_kind_that_has_some_will_do(self):
        quiet = Utterance("quiet", "peer", (vector("v"),))
        check_corruptible(Faults(tampering=0.1), [quiet, TOLD])
        check_corruptible(Faults(loss=0.1), [quiet])
        one = corruption(quiet, tampering=0.1)
        assert not one.in_transit
        assert one.numbers(Message("quiet", np.arange(2), {"v": np.ones((2, 3))})).shape == (2, 0)

    def test_what_agents_send_more_or_less_of_cannot_be_corrupted(self):
        ragged = Utterance("points", "peer", (WireField("rewards", (Ragged("m"),), raw=True),))
        with pytest.raises(ConfigError, match="cannot change 'rewards'"):
            check_corruptible(Faults(contamination=0.1), [ragged])

    def test_whole_numbers_are_never_touched(self):
        said = Utterance("told", "peer", (WireField("arm", dtype="i8", raw=True), WireField("reward", raw=True)))
        left = corruption(said, contamination=0.4).at_source(told(np.full(N, 0.5)), 0)
        assert left.arrays["arm"].dtype == np.int64
        assert (left.arrays["arm"] == 0).all()
        assert (left.arrays["reward"] == 10.0).any()
