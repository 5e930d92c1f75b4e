"""Audits: sound on known laws, sharp enough to catch a mechanism that is broken."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from fedbandits.contract.streams import Streams
from fedbandits.privacy import IntervalMeans, audit, broadcast, composed, gaussian_ratio, laplace_ratio, tight

RUNS = 40_000


class TestTheAuditItself:
    def test_it_seldom_claims_too_much(self):
        """Randomised response with epsilon = 1, many audits at 80%: about one in five may exceed it, not more."""
        rng = np.random.default_rng(0)
        p = np.e / (1 + np.e)
        found = [
            audit((rng.random((400, 1)) < p) * 1.0, (rng.random((400, 1)) < 1 - p) * 1.0, confidence=0.8).epsilon
            for _ in range(300)
        ]
        assert np.mean(np.array(found) > 1) < 0.2
        assert np.median(found) > 0.6

    def test_equal_laws_give_nothing(self):
        rng = np.random.default_rng(1)
        assert audit(rng.random((5000, 3)), rng.random((5000, 3))).epsilon < 0.05

    def test_it_finds_the_telling_feature_and_side(self):
        rng = np.random.default_rng(2)
        first, second = rng.random((2, 4000, 3))
        second[:, 1] = np.where(rng.random(4000) < 0.9, -1.0, second[:, 1])
        found = audit(first, second)
        assert (found.feature, found.above, found.first_is_likelier) in {(1, True, True), (1, False, False)}
        swapped = audit(second, first)
        assert swapped.feature == 1
        assert swapped.first_is_likelier != found.first_is_likelier or swapped.above != found.above
        assert swapped.epsilon == pytest.approx(found.epsilon, abs=0.3)

    def test_delta_is_taken_off(self):
        """An event of probability 0.05 against never is within delta = 0.05, and beyond delta = 0.01."""
        first, second = np.zeros((2, 20_000, 1))
        first[::20] = 1.0
        assert audit(first, second, delta=0.05).epsilon < 0.05
        assert audit(first, second, delta=0.01).epsilon > 3

    def test_a_certain_difference_is_bounded_only_by_the_number_of_runs(self):
        small, large = (audit(np.ones((m, 1)), np.zeros((m, 1))).epsilon for m in (100, 10_000))
        assert 2 < small < large < np.log(10_000)

    @pytest.mark.parametrize(
        ("first", "second", "match"),
        [
            (np.zeros(5), np.zeros(5), "runs, features"),
            (np.zeros((3, 1)), np.zeros((9, 1)), "at least 4"),
            (np.zeros((9, 1)), np.zeros((9, 2)), "not comparable"),
            (np.full((9, 1), np.nan), np.zeros((9, 1)), "finite"),
        ],
    )
    def test_samples_are_checked(self, first, second, match):
        with pytest.raises(ValueError, match=match):
            audit(first, second)

    def test_levels_are_checked(self):
        with pytest.raises(ValueError, match="delta"):
            audit(np.zeros((9, 1)), np.zeros((9, 1)), delta=1.0)

    def test_the_likelihood_ratio(self):
        """Against the densities, and blind to releases that were not made."""
        outputs, scales = np.array([[0.3, np.nan, -2.0]]), np.array([1.0, 2.0, 0.5])
        density = lambda x, centre, scale: np.exp(-abs(x - centre) / scale) / (2 * scale)  # noqa: E731
        expected = np.log(density(0.3, 1, 1) * density(-2, 1, 0.5) / density(0.3, 0, 1) / density(-2, 0, 0.5))
        np.testing.assert_allclose(laplace_ratio(outputs, np.ones(3), np.zeros(3), scales), [expected])
        expected = norm.logpdf([0.3, -2.0], 1, scales[[0, 2]]).sum() - norm.logpdf([0.3, -2.0], 0, scales[[0, 2]]).sum()
        np.testing.assert_allclose(gaussian_ratio(outputs, np.ones(3), np.zeros(3), scales), [expected])


class TestTheMechanism:
    """One arm, its first reward 0 or 1, all others 0: the history whose change moves every mean by the most it can."""

    pulls = 6
    delta = 0.01

    def scores(self, first_reward, shrink, seed):
        """Log-likelihood ratios of everything released, over many agents."""
        schedule = broadcast(1.0, 1.1, self.pulls)
        means = IntervalMeans(RUNS, 1, schedule, Streams(np.random.SeedSequence(seed), RUNS))
        means._scales = means._scales * shrink
        everybody, arm = np.arange(RUNS), np.zeros(RUNS, dtype=np.int64)
        outputs = np.empty((RUNS, self.pulls))
        for step in range(self.pulls):
            means.observe(everybody, arm, np.full(RUNS, first_reward if step == 0 else 0.0))
            outputs[:, step] = means.means[:, 0]
        centres = 1 / schedule.counts
        return laplace_ratio(outputs, centres, 0.0, schedule.scales * shrink)[:, None]

    def lower_bound(self, shrink):
        return audit(self.scores(1.0, shrink, 1), self.scores(0.0, shrink, 2), delta=self.delta).epsilon

    def test_what_is_claimed_is_not_exceeded_and_nearly_reached(self):
        losses = broadcast(1.0, 1.1, self.pulls).losses
        claimed = tight(losses, self.delta)
        assert 0.8 * claimed < self.lower_bound(1.0) <= claimed <= composed(losses, self.delta)[-1]

    @pytest.mark.parametrize("shrink", [0.25, 0.7])
    def test_too_little_noise_is_caught(self, shrink):
        claimed = composed(broadcast(1.0, 1.1, self.pulls).losses, self.delta)[-1]
        assert self.lower_bound(shrink) > claimed
