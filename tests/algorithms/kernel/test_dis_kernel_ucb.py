"""DisKernelUCB: against an implementation from the text, agent by agent, and DisLinUCB under the linear kernel."""

from __future__ import annotations

import numpy as np
import pytest
from companies import off_by, side_by_side

import fedbandits as fb
from fedbandits.algorithms import DisKernelUCB, DisLinUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.wire import WireError
from fedbandits.environments import Cosine, Linear, RKHSMixture
from fedbandits.models.kernels import Matern, SquaredExponential
from fedbandits.models.pool_processes import PoolProcesses
from fedbandits.testing.recording import recorded

ENV = Cosine(clients=4, dim=3, arms=6)
T = 50


class FromTheText:
    """One agent: lists of points and rewards, a matrix that is inverted anew, and determinants by definition."""

    def __init__(self, ridge, width):
        self.ridge, self.width = ridge, width
        self.x, self.y, self.new = np.zeros((0, 3)), np.zeros(0), 0

    def k(self, left, right):
        return np.exp(-0.5 * ((left[:, None] - right[None]) ** 2).sum(axis=2))

    def index(self, arms):
        inverse = np.linalg.inv(self.k(self.x, self.x) + self.ridge * np.eye(len(self.x)))
        k = self.k(arms, self.x)
        variance = 1 - np.einsum("kt,ts,ks->k", k, inverse, k)
        return k @ inverse @ self.y + self.width * np.sqrt(variance / self.ridge)

    def logdet(self, count):
        return np.linalg.slogdet(np.eye(count) + self.k(self.x[:count], self.x[:count]) / self.ridge)[1]

    def learn(self, point, reward):
        self.x, self.y, self.new = np.vstack([self.x, point]), np.append(self.y, reward), self.new + 1

    def level(self):
        return self.new * (self.logdet(len(self.x)) - self.logdet(len(self.x) - self.new))


def test_it_does_what_the_text_says():
    ridge, width, threshold = 0.5, 0.4, 1.5
    agents = [FromTheText(ridge, width) for _ in range(4)]
    pool_x, pool_y, syncs, scalars = np.zeros((0, 3)), np.zeros(0), 0, 0
    algorithm = DisKernelUCB(ridge=ridge, width=width, threshold=threshold)
    for event in recorded(algorithm, ENV, T):
        for row, (agent, arms) in enumerate(zip(agents, event.arms, strict=True)):
            scores = agent.index(arms)
            assert scores[event.picks[row]] == pytest.approx(scores.max(), abs=1e-9)
            agent.learn(arms[event.picks[row]], event.rewards[row])
        calling = [i for i, agent in enumerate(agents) if agent.level() > threshold]
        np.testing.assert_array_equal(event.callers, calling)
        if calling:
            syncs += 1
            news = [(agent.x[len(agent.x) - agent.new :], agent.y[len(agent.y) - agent.new :]) for agent in agents]
            pool_x = np.vstack([pool_x, *(x for x, _ in news)])
            pool_y = np.concatenate([pool_y, *(y for _, y in news)])
            fresh = sum(len(y) for _, y in news)
            scalars += fresh * (3 + 1) + 4 * fresh * (3 + 1)
            for agent in agents:
                agent.x, agent.y, agent.new = pool_x, pool_y, 0
    assert 4 <= syncs < T / 2
    trace = fb.simulate(algorithm, ENV, horizon=T, seed=0)
    assert trace.scalars[-1] == scalars


@pytest.mark.parametrize("width", [0.3, "theory"])
@pytest.mark.parametrize("threshold", [0.0, 2.0])
def test_under_the_linear_kernel_it_is_dislinucb(width, threshold):
    given = {"ridge": 0.7, "width": width, "threshold": threshold}
    pair = [DisLinUCB(**given), DisKernelUCB(kernel="linear", bound=1.0, **given)]
    for step, (picks, scores) in enumerate(side_by_side(pair, Linear(clients=4, dim=5, arms=8), T, seed=5)):
        np.testing.assert_allclose(*scores, rtol=1e-8, atol=1e-9)
        if step:  # before anything is known all arms of a length are as good as each other, to the last digit
            np.testing.assert_array_equal(*picks)


@pytest.mark.parametrize("kernel", [SquaredExponential((0.7, 1.3)), Matern((1.0, 0.5), 1.5)], ids=["rbf", "matern"])
def test_agents_who_were_told_more_or_less_have_posteriors_of_what_they_know(kernel):
    """One factor serves all of them: each has the posterior of the beginning that it knows and of its own."""
    rng = np.random.default_rng(0)
    models, ridge, everybody = PoolProcesses(3, kernel, 0.4, 500), 0.4, np.arange(3)
    pool_x, pool_y = rng.normal(size=(80, 2)), rng.normal(size=80)
    own_x, own_y = [np.zeros((0, 2))] * 3, [np.zeros(0)] * 3
    known = np.zeros(3, dtype=int)
    for turn in range(12):
        who = np.flatnonzero(rng.random(3) < 0.7)
        x, y = rng.normal(size=(len(who), 2)), rng.normal(size=len(who))
        models.learn(who, x, y)
        for row, i in enumerate(who):
            own_x[i], own_y[i] = np.vstack([own_x[i], x[row]]), np.append(own_y[i], y[row])
        if turn % 3 == 2:
            told = np.flatnonzero(rng.random(3) < 0.6)
            lengths = rng.integers(0, 80 - known[told]) // 2
            longest = int(lengths.max(initial=0))
            points, rewards = np.zeros((len(told), longest, 2)), np.zeros((len(told), longest))
            for row, i in enumerate(told):
                held = slice(known[i], known[i] + lengths[row])
                points[row, : lengths[row]], rewards[row, : lengths[row]] = pool_x[held], pool_y[held]
            models.extend(told, points, rewards, lengths)
            known[told] += lengths
        arms = rng.normal(size=(3, 5, 2))
        mean, deviation = models.posterior(everybody, arms)
        for i in range(3):
            x, y = np.vstack([pool_x[: known[i]], own_x[i]]), np.concatenate([pool_y[: known[i]], own_y[i]])
            V, k = kernel.matrix(x, x) + ridge * np.eye(len(x)), kernel.matrix(x, arms[i])
            np.testing.assert_allclose(mean[i], k.T @ np.linalg.solve(V, y), atol=1e-10)
            variance = 1 - np.einsum("tk,tk->k", k, np.linalg.solve(V, k))
            np.testing.assert_allclose(deviation[i], np.sqrt(variance), atol=1e-10)
            assert models.logdet[i] == pytest.approx(np.linalg.slogdet(V / ridge)[1], abs=1e-9)
    assert len(set(known)) == 3


def test_what_was_handed_over_is_in_the_pool_once():
    kernel = SquaredExponential((1.0,))
    models, one = PoolProcesses(1, kernel, 1.0, 100), np.zeros(1, dtype=np.int64)
    models.learn(one, np.array([[0.5]]), np.array([2.0]))
    points, rewards, lengths = models.new(one)
    models.give(one)
    models.learn(one, np.array([[0.9]]), np.array([1.0]))  # meanwhile
    assert models.count == 2
    models.extend(one, points, rewards, lengths)
    assert models.count == 2
    assert (models.known, models.made, models.fresh) == (1, 1, 1)
    again = models.new(one)
    np.testing.assert_array_equal(again[0], [[[0.9]]])
    models.give(one)
    models.take_back(one, again[2])
    np.testing.assert_array_equal(models.new(one)[0], again[0])


def test_a_pool_that_is_another_one_is_refused():
    models, who = PoolProcesses(2, SquaredExponential((1.0,)), 1.0, 100), np.arange(2)
    before = models.state()
    with pytest.raises(WireError, match="not the one that others were told"):
        models.extend(who, np.array([[[0.1]], [[0.2]]]), np.ones((2, 1)), np.ones(2, dtype=np.int64))
    for name, array in models.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_what_does_not_fit_is_refused_with_the_fix():
    with pytest.raises(ConfigError, match=r"capacity=100 .* 4 agents may make in 50 turns; raise capacity to 200"):
        fb.simulate(DisKernelUCB(capacity=100), ENV, horizon=T)
    models, one = PoolProcesses(1, SquaredExponential((1.0,)), 1.0, 1), np.zeros(1, dtype=np.int64)
    models.learn(one, np.zeros((1, 1)), np.zeros(1))
    with pytest.raises(ConfigError, match=r"2 observations are more than the 1 .* dis-kernel-features"):
        models.learn(one, np.zeros((1, 1)), np.zeros(1))


@pytest.mark.parametrize("when", [{"threshold": 2.0}, {"every": 6}], ids=str)
def test_bands_cover_the_function_for_all_agents_and_turns_at_once(when):
    """In all but a share delta of runs, with delta / n for each of n agents."""
    algorithm = DisKernelUCB(kernel="told", delta=0.1 / 4, **when)
    found = [off_by(algorithm, RKHSMixture(clients=4, arms=7), 60, seed) for seed in range(6)]
    assert np.mean([max(run) <= 1 for run in found]) >= 0.9
    assert np.max(found) > 0.1  # bands are not so wide that they say nothing
