"""ApproxDisKernelUCB: against an implementation from the text, agent by agent, and against exact regression."""

from __future__ import annotations

import numpy as np
import pytest
from companies import off_by

import fedbandits as fb
from fedbandits.algorithms import ApproxDisKernelUCB, DisKernelUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.messages import Message
from fedbandits.contract.streams import Streams
from fedbandits.environments import Cosine, RKHSMixture
from fedbandits.models.dictionary_models import DictionaryModels, embedded_sums
from fedbandits.models.features.nystrom import NystromFeatures
from fedbandits.models.kernels import Linear, Matern, SquaredExponential
from fedbandits.testing.recording import recorded

ENV = Cosine(clients=4, dim=3, arms=6)
T = 60


def k(left, right):
    return np.exp(-0.5 * ((left[:, None] - right[None]) ** 2).sum(axis=2))


class FromTheText:
    """One agent, with the symmetric root of K_SS, matrices that are inverted anew, and a variance that is frozen."""

    def __init__(self, ridge, width):
        self.ridge, self.width = ridge, width
        self.x, self.y, self.new = np.zeros((0, 3)), np.zeros(0), 0
        self.tell(np.zeros((0, 3)), np.zeros((0, 0)), np.zeros(0))

    def tell(self, S, gram, moment):
        values, vectors = np.linalg.eigh(k(S, S))
        self.S, self.root = S, vectors @ np.diag(np.maximum(values, 1e-10) ** -0.5) @ vectors.T
        self.gram, self.moment, self.new = gram, moment, 0

    def z(self, x):
        return self.root @ k(self.S, x)

    def var(self, x, since):
        z, own = self.z(x), self.z(self.x[len(self.x) - since :])
        gram = self.gram + own @ own.T
        seen = np.einsum("sk,sk->k", z, gram @ np.linalg.solve(gram + self.ridge * np.eye(len(z)), z))
        return (1 - seen) / self.ridge

    def index(self, x):
        own, y = self.z(self.x[len(self.x) - self.new :]), self.y[len(self.y) - self.new :]
        A = self.gram + own @ own.T + self.ridge * np.eye(len(self.S))
        mean = self.z(x).T @ np.linalg.solve(A, self.moment + own @ y)
        return mean + self.width * np.sqrt(np.maximum(self.var(x, self.new), 0))

    def learn(self, point, reward):
        self.x, self.y, self.new = np.vstack([self.x, point]), np.append(self.y, reward), self.new + 1

    def level(self):
        return self.var(self.x[len(self.x) - self.new :], 0).sum() if self.new else 0.0


def test_it_does_what_the_text_says():
    """But for the draws, which are taken from the run, and whose number is held against their expectation."""
    ridge, width, threshold, q = 0.7, 0.4, 1.5, 1.0
    agents = [FromTheText(ridge, width) for _ in range(4)]
    syncs, scalars, drawn, expected, spread = 0, 0, 0, 0.0, 0.0
    algorithm = ApproxDisKernelUCB(ridge=ridge, width=width, threshold=threshold, oversampling=q)
    for event in recorded(algorithm, ENV, T):
        for row, (agent, arms) in enumerate(zip(agents, event.arms, strict=True)):
            scores = agent.index(arms)
            assert scores[event.picks[row]] == pytest.approx(scores.max(), abs=1e-6)
            agent.learn(arms[event.picks[row]], event.rewards[row])
        np.testing.assert_array_equal(event.callers, [i for i, one in enumerate(agents) if one.level() > threshold])
        if not len(event.callers):
            continue
        syncs += 1
        sent = next(message for way, message in event.crossed if message.kind == "drawn")
        shares = [sent.arrays["points"][i, : sent.lengths["points"][i]] for i in range(4)]
        for agent, share in zip(agents, shares, strict=True):
            chance = np.clip(q * agent.var(agent.x, 0), 0, 1)
            expected, spread = expected + chance.sum(), spread + (chance * (1 - chance)).sum()
            drawn += len(share)
            assert {tuple(x) for x in share} <= {tuple(x) for x in agent.x[chance > 0]}
        S = np.unique(np.vstack(shares), axis=0)
        scalars += 3 * sum(map(len, shares)) + 4 * (2 * (len(S) ** 2 + len(S) + 1) + 2 * 3 * len(S))
        sums = [agent_sums(S, agent) for agent in agents]
        for agent in agents:
            agent.tell(S, sum(gram for gram, _ in sums), sum(moment for _, moment in sums))
    assert 4 <= syncs < T / 2
    assert abs(drawn - expected) < 4 * np.sqrt(spread)
    assert fb.simulate(algorithm, ENV, horizon=T, seed=0).scalars[-1] == scalars


def agent_sums(S, agent):
    one = FromTheText(1.0, 1.0)
    one.tell(S, np.zeros((len(S), len(S))), np.zeros(len(S)))
    z = one.z(agent.x)
    return z @ z.T, z @ agent.y


def test_with_all_points_in_the_dictionary_it_is_the_exact_one():
    """Everybody synchronises after every turn, so that nobody has points that are not in it."""
    given = {"ridge": 0.6, "width": 0.5, "every": 1}
    exact = DisKernelUCB(**given)
    approximate = ApproxDisKernelUCB(oversampling=1e12, **given)
    for left, right in zip(recorded(exact, ENV, 40), recorded(approximate, ENV, 40), strict=True):
        np.testing.assert_array_equal(left.picks, right.picks)
    everybody, arms = np.arange(4), np.random.default_rng(0).uniform(-1, 1, (4, 9, 3))
    found = [event.side.agents.scores(everybody, arms) for event in (left, right)]
    np.testing.assert_allclose(*found, atol=1e-5)
    assert right.side.agents.models.sizes.min() == 160


@pytest.mark.parametrize("kernel", [SquaredExponential((1.0, 0.5)), Matern((1.0, 1.0), 1.5), Linear(2)], ids=repr)
def test_features_are_the_projected_kernel(kernel):
    rng = np.random.default_rng(1)
    S, x = rng.normal(size=(12, 2)), rng.normal(size=(1, 7, 2))
    z = NystromFeatures(kernel, S).of(np.zeros(1, dtype=np.int64), x)[0]
    cross = kernel.matrix(S, x[0])
    expected = cross.T @ np.linalg.pinv(kernel.matrix(S, S), rcond=1e-9, hermitian=True) @ cross
    np.testing.assert_allclose(z @ z.T, expected, atol=1e-6)
    assert (np.diag(z @ z.T) <= kernel.diagonal(x[0]) + 1e-9).all()
    twice = NystromFeatures(kernel, np.vstack([S, S[:5]])).of(np.zeros(1, dtype=np.int64), x)[0]
    np.testing.assert_allclose(twice @ twice.T, expected, atol=1e-6)


def test_what_is_learned_one_by_one_is_what_is_told_at_once():
    """Rotations of the factor against one factorisation of all sums."""
    rng, kernel, ridge = np.random.default_rng(2), SquaredExponential((0.8, 0.8)), 0.3
    S, x, y = rng.normal(size=(20, 2)), rng.normal(size=(50, 2)), rng.normal(size=50)
    gram, moment = embedded_sums(NystromFeatures(kernel, S), x, y)
    once, slowly = DictionaryModels(1, kernel, ridge), DictionaryModels(1, kernel, ridge)
    one = np.zeros(1, dtype=np.int64)
    once.tell(one, S[None], gram[None], moment[None], np.array([50.0]))
    slowly.tell(one, S[None], np.zeros((1, 20, 20)), np.zeros((1, 20)), np.zeros(1))
    for point, reward in zip(x, y, strict=True):
        slowly.learn(one, point[None], np.array([reward]))
    arms = rng.normal(size=(1, 9, 2))
    for found, expected in zip(slowly.judge(one, arms), once.judge(one, arms), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-7)
    assert once.drift == 0
    z = NystromFeatures(kernel, S).of(one, x[None])[0]
    volume, missed = np.linalg.slogdet(np.eye(50) + z @ z.T / ridge)[1], (1 - (z**2).sum(axis=1)).sum() / ridge
    for models in (once, slowly):
        assert models.volume[0] == pytest.approx(volume, abs=1e-6)
        assert models.missed[0] == pytest.approx(missed, abs=1e-6)
    exact = np.linalg.slogdet(np.eye(50) + kernel.matrix(x, x) / ridge)[1]
    assert volume < exact < volume + missed  # what the width rests on
    frozen = DictionaryModels(1, kernel, ridge)
    frozen.tell(one, S[None], np.zeros((1, 20, 20)), np.zeros((1, 20)), np.zeros(1))
    assert slowly.drift[0] == pytest.approx(frozen.judge(one, x[None])[1].sum(), rel=1e-9)
    np.testing.assert_allclose(slowly.doubts(0, x), frozen.judge(one, x[None])[1][0], rtol=1e-9)


def test_who_is_away_is_left_out_and_those_there_do_not_forget():
    """Where those who answer have less than the quorum, or one of them falls silent, nothing is told."""
    server = ApproxDisKernelUCB(quorum=0.5).server(ENV.world(9, np.random.SeedSequence(0)).problem, 4, None)

    def held(who, counts, silent=()):
        conversation, who = server.converse(np.arange(1)), np.array(who)
        next(conversation)
        points = np.arange(3.0 * len(who)).reshape(len(who), 1, 3)
        asked = conversation.send(Message("drawn", who, {"points": points}, {"points": np.ones(len(who), dtype=int)}))
        assert (asked.kind, asked.arrays["dictionary"].shape) == ("embed", (len(who), len(who), 3))
        there = np.setdiff1d(who, silent)
        size, m = len(who), len(there)
        sums = {"gram": np.ones((m, size, size)), "moment": np.ones((m, size)), "count": np.array(counts[:m])}
        try:
            return conversation.send(Message("embedded", there, sums))
        except StopIteration:
            return None

    told = held([0, 1, 2], [5.0, 5.0, 5.0])
    assert told.kind == "fitted"
    np.testing.assert_array_equal(told.arrays["count"], [15.0] * 3)
    assert held([0, 1, 2], [9.0, 9.0, 9.0], silent=[1]) is None
    assert held([0], [7.0]) is None
    assert held([0], [8.0]) is not None


def judged(agents, who, arms):
    """mean, sqrt(var) and the width of each arm."""
    mean, variance = agents.models.judge(who, arms)
    scores = agents.scores(who, arms)
    return mean, np.sqrt(variance), (scores - mean) / np.sqrt(variance)


@pytest.mark.parametrize(
    "given",
    [
        {"width": "theory", "oversampling": 0.05},  # a poor dictionary
        {"width": "theory", "every": 7, "oversampling": 2.0},
        {"width": "published"},
    ],
    ids=str,
)
def test_bands_cover_the_function_for_all_agents_and_turns_at_once(given):
    """In all but a share delta of runs; the published ones for a dictionary of nearly all points."""
    delta = 0.1
    algorithm = ApproxDisKernelUCB(kernel="told", delta=delta, **given)
    found = [off_by(algorithm, RKHSMixture(clients=4, arms=7), 60, seed) for seed in range(6)]
    assert np.mean([max(run) <= 1 for run in found]) >= 1 - delta
    assert np.max(found) > 0.1  # bands are not so wide that they say nothing


def test_widths_are_those_that_are_stated():
    """At the last turn, from all points that were observed; gamma of the published one is a bound for theirs."""
    env, T, delta, eps = RKHSMixture(clients=4, arms=7), 30, 0.05, 0.25
    given = {"kernel": "told", "ridge": 0.7, "delta": delta, "bound": 1.5}
    for algorithm in (
        ApproxDisKernelUCB(width="theory", threshold=0.4, oversampling=0.3, **given),
        ApproxDisKernelUCB(width="published", accuracy=eps, **given),
    ):
        (*_, last) = recorded(algorithm, env, T)
        agents, problem = last.side.agents, env.world(T, np.random.SeedSequence(0)).problem
        told, kernel, noise = agents.models.told[0], agents.models.kernel, problem.get(fb.facts.Noise).sigma
        assert (agents.models.row == 0).all()
        arms = np.random.default_rng(0).uniform(-1, 1, (4, 5, 2))
        width = judged(agents, np.arange(4), arms)[2][0, 0]
        known = [agents.data.arms[i, :, : agents.inside[i]].T for i in range(4)]
        x = np.concatenate([*known, agents.data.arms[0, :, agents.inside[0] : agents.data.count[0]].T])
        z = told.features.of(np.zeros(1, dtype=np.int64), x[None])[0]
        missed, volume = (1 - (z**2).sum(axis=1)).sum() / 0.7, np.linalg.slogdet(np.eye(len(x)) + z @ z.T / 0.7)[1]
        if algorithm.width == "theory":
            spread = noise * np.sqrt(2 * np.log(4 * T / delta) + volume + missed)
            expected = (1 + np.sqrt(missed)) * np.sqrt(0.7) * 1.5 + spread
        else:
            D = 1 / 4
            left = -eps + 1 / (1 + (1 + eps) * D / (1 - eps))
            spread = 2 * noise * np.sqrt(np.log(4 / delta) + (volume + missed) / 2)
            expected = (1 / np.sqrt(left) + 1) * np.sqrt(0.7) * 1.5 + spread
            assert volume + missed >= np.linalg.slogdet(np.eye(len(x)) + kernel.matrix(x, x) / 0.7)[1] - 1e-9
            q = 6 * (1 + eps) / (1 - eps) * np.log(4 * 4 * T / delta) / eps**2
            assert (algorithm.trigger(problem), algorithm.drawing(problem)) == (D, pytest.approx(q))
        assert width == pytest.approx(expected, rel=1e-6)


def test_what_published_widths_do_not_rest_on_is_refused_with_the_fix():
    problem = ENV.world(30, np.random.SeedSequence(0)).problem

    def made(**given):
        return ApproxDisKernelUCB(width="published", **given).agents(problem, 4, Streams(np.random.SeedSequence(0), 4))

    made(accuracy=0.3)
    with pytest.raises(ConfigError, match=r"accuracy=0\.9 and a threshold of 0\.25.* lower accuracy or threshold"):
        made(accuracy=0.9)
    with pytest.raises(ConfigError, match=r"accuracy=0\.3.* and a threshold of 5"):
        made(threshold=5.0)
    with pytest.raises(ConfigError, match=r"oversampling=4 is less than the \d+.* leave it out"):
        made(oversampling=4.0)
    with pytest.raises(ConfigError, match="leave every out, or say width=theory"):
        made(every=5)
    with pytest.raises(ConfigError, match="use dislinucb"):
        ApproxDisKernelUCB(width="theory", kernel="linear")


def test_a_dictionary_that_grows_too_large_is_refused_with_the_fix():
    with pytest.raises(ConfigError, match=r"a dictionary of \d+ points is more than 3; raise capacity"):
        fb.simulate(ApproxDisKernelUCB(capacity=3), ENV, horizon=T)


def test_snapshots_carry_what_was_told_once():
    """Four agents who were told the same hold one dictionary, and one of them alone holds that."""
    (*_, last) = recorded(ApproxDisKernelUCB(threshold=0.5), ENV, 20)
    agents = last.side.agents
    state = agents.state()
    assert len(state["models.sizes"]) == 1
    problem = ENV.world(20, np.random.SeedSequence(0)).problem
    alone = ApproxDisKernelUCB().agents(problem, 1, Streams(np.random.SeedSequence(0), identities=np.array([2])))
    alone.load(agents.share(2))
    arms = np.random.default_rng(0).uniform(-1, 1, (4, 5, 3))
    np.testing.assert_array_equal(agents.scores(np.arange(4), arms)[2:3], alone.scores(np.arange(1), arms[2:3]))
    with pytest.raises(ValueError, match=r"models\.gram has shape"):
        agents.load(state | {"models.gram": state["models.gram"][:-1]})
