"""The homogeneity test: its statistic by definition, its error rates by simulation, and what the released code does."""

from __future__ import annotations

import numpy as np
import pytest
from clustered_data import by_definition, of_pair, pairs_to_test, parallel_sum, statistics
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, ncx2

from fedbandits.algorithms import HetoFedBandit, HetoFedBanditE
from fedbandits.algorithms.clustered.homogeneity import HomogeneityTest, compare_pairs
from fedbandits.contract.facts import Noise
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams

NOISE = 0.1


def unit(rng, *shape):
    drawn = rng.standard_normal(shape)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def within(count, trials, rate, tail=1e-6):
    """Whether `count` of `trials` is what a chance of `rate` brings, but for a probability of 2 `tail`."""
    return binom.ppf(tail, trials, rate) <= count <= binom.isf(tail, trials, rate)


class TestStatistic:
    V1, b1 = np.array([[1.36, 0.48], [0.48, 1.64]]), np.array([0.56, -0.12])

    def test_full_rank_vector(self):
        s, freedom = of_pair((self.V1, self.b1), (np.array([[1.64, 0.48], [0.48, 0.36]]), np.array([0.69, 0.18])))
        assert s / 0.01 == pytest.approx(0.2577441714, abs=1e-9)
        assert freedom == 2

    def test_rank_one_vector(self):
        s, freedom = of_pair((self.V1, self.b1), (np.array([[0.64, 0.48], [0.48, 0.36]]), np.array([0.24, 0.18])))
        assert s / 0.01 == pytest.approx(0.0998336798, abs=1e-9)
        assert freedom == 1

    @given(
        seed=st.integers(0, 2**32 - 1),
        dim=st.integers(1, 7),
        rows=st.tuples(st.integers(1, 12), st.integers(1, 12)),
        spans=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    )
    def test_equals_the_definition_on_raw_data_of_any_rank(self, seed, dim, rows, spans):
        rng = np.random.default_rng(seed)
        shared = rng.standard_normal((7, dim))  # both designs span leading rows of it, so that they overlap
        data = []
        for m, span in zip(rows, spans, strict=True):
            data += [rng.standard_normal((m, span)) @ shared[:span], rng.standard_normal(m)]
        expected, freedom = by_definition(*data)
        (V1, b1), (V2, b2) = statistics(data[0], data[1]), statistics(data[2], data[3])
        got, df = of_pair((V1, b1), (V2, b2))
        scale = max(1.0, float(data[1] @ data[1] + data[3] @ data[3]))
        assert df == freedom
        assert got == pytest.approx(expected, abs=1e-7 * scale)
        pinv = lambda V: np.linalg.pinv(V, rcond=1e-11, hermitian=True)  # noqa: E731
        first_form = b1 @ pinv(V1) @ b1 + b2 @ pinv(V2) @ b2 - (b1 + b2) @ pinv(V1 + V2) @ (b1 + b2)
        assert first_form == pytest.approx(expected, abs=1e-6 * scale)

    def test_is_symmetric_and_scales_with_the_square_of_the_responses(self):
        rng = np.random.default_rng(0)
        one, two = (statistics(rng.standard_normal((9, 4)), rng.standard_normal(9)) for _ in range(2))
        s, df = of_pair(one, two)
        assert of_pair(two, one) == (pytest.approx(s), df)
        assert of_pair((one[0], 3 * one[1]), (two[0], 3 * two[1])) == (pytest.approx(9 * s), df)

    def test_does_not_cancel_when_counts_are_large(self):
        """10^8 observations each and a difference whose statistic is 1: subtracting sums of squares would lose it."""
        rng = np.random.default_rng(1)
        n, d = 1e8, 5
        V = n * np.eye(d)
        theta = 1e3 * unit(rng, d)
        gap = np.sqrt(2 / n) * unit(rng, d)
        s, _ = of_pair((V, V @ theta), (V, V @ (theta + gap)))
        assert s == pytest.approx(1.0, rel=1e-4)

    def test_without_common_directions_there_is_no_evidence(self):
        test = HomogeneityTest(NOISE, 0.01, 0.0)
        gram = np.stack([np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.zeros((2, 2))])
        moment = np.array([[5.0, 0.0], [0.0, -5.0], [0.0, 0.0]])
        np.testing.assert_array_equal(test.graph(gram, moment), ~np.eye(3, dtype=bool))


class TestThresholds:
    @pytest.mark.parametrize(
        ("agents", "noncentrality", "expected"),
        [(30, "theory", 60.07), (30, 100.0, 215.4), (50, "theory", 63.09), (50, 100.0, 222.6)],
    )
    def test_published_levels(self, agents, noncentrality, expected):
        problem = Problem(agents=agents, dim=25, arms=25, horizon=3000, facts=(Noise(NOISE),))
        test = HetoFedBandit(noncentrality=noncentrality).test(problem, adaptive=False)
        assert test.threshold(25) == pytest.approx(expected, rel=5e-4)

    @pytest.mark.parametrize(("noncentrality", "expected"), [("theory", 44.51), (0.0, 44.31)])
    def test_released_level(self, noncentrality, expected):
        problem = Problem(agents=30, dim=25, arms=25, horizon=3000, facts=(Noise(NOISE),))
        test = HetoFedBandit(level=0.01, noncentrality=noncentrality).test(problem, adaptive=False)
        assert test.threshold(25) == pytest.approx(expected, abs=6e-3)

    def test_a_world_without_noise_is_refused(self):
        quiet = Problem(agents=3, dim=2, arms=2, horizon=10, facts=(Noise(0.0),))
        with pytest.raises(ValueError, match="noise"):
            HetoFedBandit().server(quiet, 3, Streams(np.random.SeedSequence(0), 1))
        with pytest.raises(ValueError, match="noise"):
            HetoFedBanditE().server(quiet, 3, Streams(np.random.SeedSequence(0), 1))


def simulated(rng, pairs, d, rows, gaps, noise=NOISE):
    """Statistics of agents 2p, 2p + 1 whose parameters differ by `gaps` (pairs, d)."""
    X = unit(rng, 2 * pairs, rows, d)
    theta = np.repeat(unit(rng, pairs, d), 2, axis=0)
    theta[1::2] += gaps
    y = np.einsum("pmd,pd->pm", X, theta) + noise * rng.standard_normal((2 * pairs, rows))
    return statistics(X, y)


def leading(P):
    """The eigenvalues and eigenvectors of largest eigenvalue, batched."""
    values, vectors = np.linalg.eigh((P + P.swapaxes(1, 2)) / 2)
    return values[:, -1], vectors[:, :, -1]


class TestErrorRates:
    PAIRS, D = 20_000, 5

    @pytest.mark.parametrize("rows", [3, 40], ids=["rank-deficient", "full-rank"])
    @pytest.mark.parametrize("level", [0.1, 0.01])
    def test_homogeneous_pairs_are_separated_at_the_nominal_rate(self, rows, level):
        gram, moment = simulated(np.random.default_rng(3), self.PAIRS, self.D, rows, 0.0)
        rejected = (~HomogeneityTest(NOISE, level, 0.0).passes(gram, moment, *pairs_to_test(self.PAIRS))).sum()
        assert within(rejected, self.PAIRS, level)

    @pytest.mark.slow
    @pytest.mark.parametrize("adaptive", [False, True])
    def test_pairs_at_distance_epsilon_are_separated_at_most_at_the_level(self, adaptive):
        """The worst homogeneous pairs: they differ by epsilon in the direction that the data see best."""
        rng = np.random.default_rng(4)
        X = unit(rng, 2 * self.PAIRS, 40, self.D)
        gram = X.swapaxes(1, 2) @ X
        P = parallel_sum(gram[::2], gram[1::2])
        strongest, direction = leading(P)
        psi = 6.0  # noncentrality that a homogeneous pair may have at most
        largest = np.maximum(*(np.linalg.eigvalsh(gram[k::2])[:, -1] for k in (0, 1)))
        # epsilon^2 / sigma^2 times lambda_max(P), or lambda_max(V) in the adaptive test, is psi
        epsilon = NOISE * np.sqrt(psi / (largest if adaptive else strongest))
        theta = np.repeat(unit(rng, self.PAIRS, self.D), 2, axis=0)
        theta[1::2] += epsilon[:, None] * direction
        y = np.einsum("pmd,pd->pm", X, theta) + NOISE * rng.standard_normal(X.shape[:2])
        moment = np.einsum("pmd,pm->pd", X, y)
        level = 0.05
        test = HomogeneityTest(NOISE, level, psi, adaptive)
        rejected = (~test.passes(gram, moment, *pairs_to_test(self.PAIRS))).sum()
        assert within(rejected, self.PAIRS, level), "at exactly epsilon the bound is attained"
        # a pair at epsilon in any other direction is separated less often
        theta[1::2] = theta[::2] + epsilon[:, None] * unit(rng, self.PAIRS, self.D)
        y = np.einsum("pmd,pd->pm", X, theta) + NOISE * rng.standard_normal(X.shape[:2])
        elsewhere = (~test.passes(gram, np.einsum("pmd,pm->pd", X, y), *pairs_to_test(self.PAIRS))).sum()
        assert elsewhere < binom.ppf(1e-6, self.PAIRS, level)

    @pytest.mark.parametrize("separation", [0.03, 0.06, 0.1, 0.15])
    def test_power_is_what_the_noncentral_distribution_predicts(self, separation):
        rng = np.random.default_rng(5)
        gaps = separation * unit(rng, self.PAIRS, self.D)
        gram, moment = simulated(rng, self.PAIRS, self.D, 40, gaps)
        test = HomogeneityTest(NOISE, 0.01, 0.5)
        rejected = (~test.passes(gram, moment, *pairs_to_test(self.PAIRS))).sum()
        psi = np.einsum("pd,pde,pe->p", gaps, parallel_sum(gram[::2], gram[1::2]), gaps) / NOISE**2
        power = ncx2.sf(test.threshold(self.D), self.D, psi)
        expected, deviation = power.sum(), np.sqrt((power * (1 - power)).sum())
        assert 0.008 < power.mean() < 0.999
        assert abs(rejected - expected) < 5 * deviation

    def test_the_statistic_follows_the_noncentral_distribution_throughout(self):
        """Not just at one threshold: its probability transform is uniform (Kolmogorov-Smirnov distance)."""
        rng = np.random.default_rng(6)
        gaps = 0.08 * unit(rng, self.PAIRS, self.D)
        gram, moment = simulated(rng, self.PAIRS, self.D, 40, gaps)
        evidence = compare_pairs(gram, moment, *pairs_to_test(self.PAIRS))
        psi = np.einsum("pd,pde,pe->p", gaps, parallel_sum(gram[::2], gram[1::2]), gaps) / NOISE**2
        uniform = np.sort(ncx2.cdf(evidence.distance / NOISE**2, evidence.freedom, psi))
        distance = np.abs(uniform - (np.arange(self.PAIRS) + 0.5) / self.PAIRS).max()
        assert distance < 2.2 / np.sqrt(self.PAIRS)  # exceeded with probability 1e-4


class TestScreening:
    """Bounds spare most pairs the exact statistic; no verdict may change by it."""

    @pytest.mark.parametrize("adaptive", [False, True])
    @pytest.mark.parametrize("rows", [(6, 6), (40, 40), (8, 400)], ids=str)
    def test_no_verdict_changes(self, rows, adaptive):
        rng = np.random.default_rng(10)
        pairs, d, level, psi = 3000, 5, 0.05, 0.5
        theta = np.repeat(unit(rng, pairs, d), 2, axis=0)
        theta[1::2] += rng.exponential(0.3, (pairs, 1)) * unit(rng, pairs, d)
        gram, moment = np.empty((2 * pairs, d, d)), np.empty((2 * pairs, d))
        for side, m in enumerate(rows):
            X = unit(rng, pairs, m, d) * np.linspace(1, 0.1, d)
            y = np.einsum("pmd,pd->pm", X, theta[side::2]) + NOISE * rng.standard_normal((pairs, m))
            gram[side::2], moment[side::2] = statistics(X, y)
        evidence = compare_pairs(gram, moment, *pairs_to_test(pairs))
        s = evidence.distance / NOISE**2
        if adaptive:
            P = parallel_sum(gram[::2], gram[1::2])
            largest = np.maximum(*(np.linalg.eigvalsh(gram[k::2])[:, -1] for k in (0, 1)))
            expected = ncx2.sf(s, d, psi * leading(P)[0] / largest) > level
        else:
            expected = ncx2.sf(s, d, psi) > level
        got = HomogeneityTest(NOISE, level, psi, adaptive).passes(gram, moment, *pairs_to_test(pairs))
        np.testing.assert_array_equal(got, expected)
        assert 0.1 < got.mean() < 0.95


class TestAdaptive:
    @pytest.mark.parametrize("rows", [3, 8, 30])
    def test_equals_the_exact_test_of_every_pair(self, rows):
        """No shortcut: psi_ij from eigenvalues and the survival function for each of the pairs."""
        rng = np.random.default_rng(7)
        n, d, level, psi = 24, 5, 0.05, 4.0
        X = unit(rng, n, rows, d)
        theta = unit(rng, 1, d) + 0.05 * rng.standard_normal((n, d))
        y = np.einsum("nmd,nd->nm", X, theta) + NOISE * rng.standard_normal((n, rows))
        gram, moment = statistics(X, y)
        expected = np.zeros((n, n), dtype=bool)
        between = 0
        for i in range(n):
            for j in range(i):
                s, df = by_definition(X[i], y[i], X[j], y[j])
                s /= NOISE**2
                top = max(np.linalg.eigvalsh(gram[i])[-1], np.linalg.eigvalsh(gram[j])[-1])
                P = parallel_sum(gram[i], gram[j])
                own = psi * np.linalg.eigvalsh((P + P.T) / 2)[-1] / top
                expected[i, j] = expected[j, i] = df == 0 or ncx2.sf(s, df, own) > level
                between += df > 0 and chi2.isf(level, df) < s < ncx2.isf(level, df, psi)
        np.testing.assert_array_equal(HomogeneityTest(NOISE, level, psi, adaptive=True).graph(gram, moment), expected)
        assert expected.any()
        assert not expected[~np.eye(n, dtype=bool)].all()
        assert between > 0, "no pair needed its own noncentrality: the shortcut was not tested"


class TestReleasedCode:
    """What the publication's released code does instead, and what it costs."""

    D, LEVEL = 5, 0.01

    def noncentrality_without_the_inverse(self, V1, V2, horizon, agents):
        """lambda_max(V_2 (V_1 + V_2) V_1) / (n^2 sigma^2 T): grows with the cube of the number of observations."""
        return np.linalg.eigvals(V2 @ (V1 + V2) @ V1).real.max(axis=-1) / (agents * NOISE) ** 2 / horizon

    def test_without_the_inverse_the_test_goes_blind(self):
        """Pairs that the text's test tells apart nearly always: the more data, the less the variant sees."""
        rng = np.random.default_rng(8)
        pairs, agents, horizon = 400, 30, 3000
        seen = {}
        for rows in (60, 2000):
            gram, moment = simulated(rng, pairs, self.D, rows, 0.2 * unit(rng, pairs, self.D))
            right = ~HomogeneityTest(NOISE, self.LEVEL, 1 / (agents * NOISE) ** 2, adaptive=True).passes(
                gram, moment, *pairs_to_test(pairs)
            )
            s = compare_pairs(gram, moment, *pairs_to_test(pairs)).distance / NOISE**2
            psi = self.noncentrality_without_the_inverse(gram[::2], gram[1::2], horizon, agents)
            wrong = s > ncx2.isf(self.LEVEL, self.D, psi)
            seen[rows] = right.mean(), wrong.mean()
        assert seen[60][0] > 0.8
        assert seen[2000] == (1.0, 0.0), "every pair told apart by the text's test, none by the variant"

    def test_contaminated_estimates_break_the_error_rate(self):
        """Estimates that include others' data, with designs that do not.

        After a service among equals all hold nearly the same estimate, so a homogeneous pair is never separated and a
        different pair that was merged wrongly once is never found out.
        """
        rng = np.random.default_rng(9)
        pairs, rows, level = 4000, 40, 0.1
        first, second = pairs_to_test(pairs)

        def rates(gaps):
            X = unit(rng, 2 * pairs, rows + 10, self.D)
            theta = np.repeat(unit(rng, pairs, self.D), 2, axis=0)
            theta[1::2] += gaps
            y = np.einsum("pmd,pd->pm", X, theta) + NOISE * rng.standard_normal(X.shape[:2])
            own_gram, own = statistics(X, y)
            gram, moment = statistics(X[:, :rows], y[:, :rows])
            # the two shared their first observations; each has ten more since then
            others = np.arange(2 * pairs) ^ 1
            estimates = np.linalg.solve(own_gram + gram[others], (own + moment[others])[..., None])[..., 0]
            gap = estimates[::2] - estimates[1::2]
            s = np.einsum("pd,pde,pe->p", gap, parallel_sum(own_gram[::2], own_gram[1::2]), gap) / NOISE**2
            clean = HomogeneityTest(NOISE, level, 0.0).passes(own_gram, own, first, second)
            return (s > chi2.isf(level, self.D)).mean(), (~clean).mean()

        contaminated, clean = rates(0.0)
        assert contaminated == 0.0, "nominal 0.1"
        assert within(clean * pairs, pairs, level)
        contaminated, clean = rates(0.2 * unit(rng, pairs, self.D))
        assert clean > 0.9
        assert contaminated < 0.05
