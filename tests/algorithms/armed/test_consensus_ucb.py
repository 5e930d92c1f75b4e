"""Consensus-UCB: the running consensus is the matrix recursion, and the index is the published one."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.algorithms.armed.consensus_ucb import ConsensusUCB
from fedbandits.contract.algorithm import wire_of
from fedbandits.contract.facts import Noise, Place
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.graphs.network import Faults
from fedbandits.transport.relay import relay_for

MEANS = np.array([0.2, 0.9, 0.5, 0.4])
K = len(MEANS)


def problem_on(graph, algorithm=None, ttl=1, horizon=60, arms=K, noise=0.5):
    hops = min(ttl, (algorithm or ConsensusUCB()).about.hops)
    return Problem(len(graph), arms, arms, horizon).knowing(Noise(noise), Place(graph, hops))


def population(algorithm, problem):
    return algorithm.agents(problem, problem.agents, Streams(np.random.SeedSequence(0), problem.agents))


def play(algorithm, problem, agents, horizon=60, seed=0, after=lambda picks, rewards: None, awake=None):
    """(T, n) the choices of `agents`, -1 for those asleep; `after` sees pulls and rewards (n, K) of every round."""
    n, arms = problem.agents, problem.arms
    place, wire = problem.need(Place, by=algorithm.about), wire_of(algorithm, problem)
    relay = relay_for(place, Faults(), False, problem.arms, Ledger(), wire, np.random.SeedSequence(0))
    chosen = np.full((horizon, n), -1)
    rng = np.random.default_rng(seed)
    for step in range(horizon):
        payable = rng.normal(MEANS[:arms], problem.get(Noise).sigma, size=(n, arms))
        who = np.arange(n) if awake is None else np.flatnonzero(awake[step])
        shown = np.broadcast_to(np.eye(arms), (len(who), arms, arms))
        picks = agents.choose(who, shown)
        agents.learn(who, shown, picks, payable[who, picks])
        relay.round(agents, who, step)
        chosen[step, who] = picks
        pulls = np.zeros((n, arms))
        pulls[who, picks] = 1.0
        after(pulls, payable * pulls)
    return chosen


@st.composite
def networks(draw):
    n = draw(st.integers(1, 12))
    return nx.gnp_random_graph(n, draw(st.floats(0.1, 0.9)), seed=draw(st.integers(0, 99)))


@settings(max_examples=30)
@given(networks(), st.floats(0.05, 1.0) | st.none(), st.integers(1, 4))
def test_consensus_is_the_matrix_recursion(graph, kappa, ttl):
    """x <- P (x + xi) with P = I - (kappa/d_max) L, whatever the life of messages in the network."""
    algorithm = ConsensusUCB(kappa=kappa)
    problem = problem_on(graph, algorithm, ttl)
    agents = population(algorithm, problem)
    largest = max(degree for _, degree in graph.degree)
    step = (largest / (largest + 1) if kappa is None else kappa) / max(largest, 1)
    mixing = np.eye(len(graph)) - step * nx.laplacian_matrix(graph, nodelist=range(len(graph))).toarray()
    counts, sums = np.zeros((2, len(graph), problem.arms))

    def compare(pulls, rewards):
        nonlocal counts, sums
        counts, sums = mixing @ (counts + pulls), mixing @ (sums + rewards)
        np.testing.assert_allclose(agents.counts, counts, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(agents.sums, sums, rtol=1e-12, atol=1e-12)

    play(algorithm, problem, agents, horizon=25, after=compare)


def test_counts_and_sums_are_conserved_when_everybody_acts():
    algorithm, graph = ConsensusUCB(), nx.barbell_graph(4, 2)
    agents = population(algorithm, problem_on(graph))
    pulls, rewards = np.zeros((2, K))

    def add(pulled, earned):
        pulls[:] += pulled.sum(axis=0)
        rewards[:] += earned.sum(axis=0)

    play(algorithm, problem_on(graph), agents, after=add)
    np.testing.assert_allclose(agents.counts.sum(axis=0), pulls, rtol=1e-12)
    np.testing.assert_allclose(agents.sums.sum(axis=0), rewards, rtol=1e-12)


def test_on_a_complete_graph_everybody_knows_the_averages_at_once():
    algorithm, graph = ConsensusUCB(), nx.complete_graph(6)
    agents = population(algorithm, problem_on(graph))
    chosen = play(algorithm, problem_on(graph), agents)
    np.testing.assert_allclose(agents.counts, agents.counts.mean(axis=0) + np.zeros_like(agents.counts), rtol=1e-12)
    per_agent = np.bincount(chosen.ravel(), minlength=K) / 6
    np.testing.assert_allclose(agents.counts[0], per_agent, rtol=1e-12)


@pytest.mark.parametrize(("kappa", "agrees"), [(None, True), (0.5, True), (1.0, False)])
def test_a_full_step_never_agrees_on_an_even_ring(kappa, agrees):
    """Which is why 1 is not the default: P then has the eigenvalue -1."""
    algorithm = ConsensusUCB(kappa=kappa)
    agents = population(algorithm, problem_on(nx.cycle_graph(6), algorithm))
    agents.counts[::2] = 2.0
    for born in range(200):
        (said,) = agents.say(np.arange(6))
        to = np.repeat(np.arange(6), 2)
        row = (to + np.tile([-1, 1], 6)) % 6
        agents.hear(Inbox(said, np.full(6, born), to, row))
    assert np.allclose(agents.counts, 1.0) == agrees


class TestIndex:
    def test_by_hand(self):
        """Three agents on a path after 16 rounds: M = 3, G(2) = 3/4, sigma = 1/2, gamma = 1.5."""
        algorithm = ConsensusUCB(gamma=1.5)
        agents = population(algorithm, problem_on(nx.path_graph(3), algorithm))
        agents.turns[:] = 16
        agents.counts[:] = [4.0, 2.0, 1.0, 8.0]
        agents.sums[1] = [2.0, 3.0, -1.0, 4.0]
        log = math.log(16)
        expected = [
            s / n + 0.5 * math.sqrt(2 * 1.5 / 0.75 * (n + math.sqrt(log)) / (3 * n) * log / n)
            for n, s in zip(agents.counts[1], agents.sums[1], strict=True)
        ]
        np.testing.assert_allclose(agents.indices(np.array([1])), [expected], rtol=1e-13)
        assert expected[0] == pytest.approx(0.5 + 0.5 * math.sqrt(4 * 5.6651 / 12 * 2.7726 / 4), rel=1e-4)

    def test_parameters_scale_the_width(self):
        def width(graph=None, noise=0.5, **parameters):
            algorithm = ConsensusUCB(**parameters)
            agents = population(algorithm, problem_on(graph or nx.path_graph(3), algorithm, noise=noise))
            agents.turns[:] = 9
            agents.counts[:] = 3.0
            return agents.indices(np.array([0]))[0, 0]

        usual = width()
        assert width(noise=1.0) == pytest.approx(2 * usual)
        assert width(noise=0.125) == pytest.approx(usual / 4)
        assert width(gamma=4.4) == pytest.approx(2 * usual)
        assert width(eta=1.0) == pytest.approx(usual * math.sqrt(0.75 / (15 / 16)))
        assert width(graph=nx.path_graph(12)) == pytest.approx(usual / 2)
        assert width(graph=nx.disjoint_union(nx.path_graph(3), nx.path_graph(9))) == pytest.approx(usual)

    def test_the_algorithm_s_noise_comes_before_the_problem_s(self):
        algorithm = ConsensusUCB(noise=2.0)
        widths = []
        for noise in (0.5, 7.0):
            agents = population(algorithm, problem_on(nx.path_graph(3), algorithm, noise=noise))
            agents.turns[:] = 9
            agents.counts[:] = 3.0
            widths.append(agents.indices(np.array([0])))
        np.testing.assert_array_equal(*widths)

    def test_each_arm_once_then_the_highest_index(self):
        algorithm = ConsensusUCB()
        problem = problem_on(nx.path_graph(5))
        agents = population(algorithm, problem)
        predicted = [np.zeros(5, dtype=np.int64)]

        def predict(*_):
            turn = agents.turns[0]
            best = agents.indices(np.arange(5)).argmax(axis=1)
            predicted.append(np.full(5, turn) if turn < K else best)

        chosen = play(algorithm, problem, agents, after=predict)
        np.testing.assert_array_equal(chosen, predicted[:-1])
        np.testing.assert_array_equal(chosen[:K].T, np.tile(np.arange(K), (5, 1)))

    def test_an_arm_without_weight_comes_first(self):
        agents = population(ConsensusUCB(), problem_on(nx.path_graph(3)))
        agents.turns[:] = 20
        agents.counts[:] = [5.0, 0.0, 5e-324, 5.0]
        assert agents.indices(np.array([0]))[0, 1] == np.inf
        assert not np.isnan(agents.indices(np.array([0]))).any()
        assert agents.choose(np.array([0]), np.eye(4)[None])[0] == 1


class TestLetters:
    @staticmethod
    def inbox(*letters, to=1):
        """Letters (origin, born, count) for one agent, about one arm as about any other."""
        origins, born, counts = map(np.array, zip(*letters, strict=True))
        told = np.repeat(counts[:, None].astype(float), K, axis=1)
        said = Message("estimate", origins, {"counts": told, "sums": told})
        return Inbox(said, born, np.full(len(letters), to), np.arange(len(letters)))

    def agents(self):
        """A path of three, whose agents have a count of 6 for every arm; one voice weighs 1/3."""
        agents = population(ConsensusUCB(), problem_on(nx.path_graph(3)))
        agents.counts[:] = 6.0
        return agents

    def test_only_the_newest_round_counts(self):
        agents = self.agents()
        agents.hear(self.inbox((0, 7, 9), (2, 6, 300)))
        np.testing.assert_allclose(agents.counts, [[6] * 4, [7] * 4, [6] * 4])  # 6 + (9 - 6)/3
        agents.hear(self.inbox((2, 7, 300)))
        np.testing.assert_allclose(agents.counts[1], 7, err_msg="round 7 is over")
        agents.hear(self.inbox((0, 8, 10), (2, 8, 1)))
        np.testing.assert_allclose(agents.counts[1], 6)  # 7 + (3 - 6)/3
        np.testing.assert_array_equal(agents.heard, [-1, 8, -1])

    @pytest.mark.parametrize("count", [-1.0, np.nan, np.inf])
    def test_unfit_letters_are_refused(self, count):
        agents = self.agents()
        before = agents.state()
        with pytest.raises(ValueError, match=r"agents \[2\]"):
            agents.hear(self.inbox((0, 7, 9), (2, 7, count)))
        assert all(np.array_equal(array, before[name]) for name, array in agents.state().items())


def test_without_messages_it_is_ucb_alone():
    """M is then 1: the width is that of one agent's own pulls."""
    graph, algorithm = nx.path_graph(4), ConsensusUCB()
    quiet = population(algorithm, problem_on(graph, ttl=0))
    apart = population(algorithm, problem_on(nx.empty_graph(4)))
    silent = play(algorithm, problem_on(graph, ttl=0), quiet)
    np.testing.assert_array_equal(silent, play(algorithm, problem_on(nx.empty_graph(4)), apart))
    np.testing.assert_array_equal(quiet.counts.sum(axis=1), 60)


@pytest.mark.parametrize("kappa", [None, 1.0])
def test_it_runs_when_not_everybody_acts(kappa):
    """Counts stay above zero, however weight is given away."""
    algorithm, graph = ConsensusUCB(kappa=kappa), nx.star_graph(6)
    problem = problem_on(graph, algorithm)
    awake = np.random.default_rng(1).random((200, 7)) < 0.3
    agents = population(algorithm, problem)
    chosen = play(algorithm, problem, agents, horizon=200, awake=awake)
    assert ((chosen >= 0) == awake).all()
    assert (agents.counts >= 0).all()
    assert np.isfinite(agents.sums).all()


def test_talking_lowers_regret():
    algorithm, graph = ConsensusUCB(), nx.cycle_graph(10)
    regret = {}
    for ttl in (0, 1):
        problem = problem_on(graph, ttl=ttl, horizon=300)
        runs = [play(algorithm, problem, population(algorithm, problem), 300, seed) for seed in range(5)]
        regret[ttl] = [(MEANS.max() - MEANS[chosen]).sum() for chosen in runs]
    assert max(regret[1]) < min(regret[0])


@pytest.mark.parametrize("bad", [{"kappa": 0}, {"kappa": 1.1}, {"gamma": 0.9}, {"eta": 4}, {"eta": 0}, {"noise": 0}])
def test_parameters_are_checked(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        ConsensusUCB(**bad)
