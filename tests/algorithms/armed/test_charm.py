"""CHARM: the completed pseudocode, played by hand beside the population, and what it promises about time."""

from __future__ import annotations

import math
from collections import defaultdict

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.algorithms.armed.charm import CHARM, Epochs
from fedbandits.contract.algorithm import wire_of
from fedbandits.contract.facts import Place, Range
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.graphs.leaders import leadership
from fedbandits.graphs.network import Faults
from fedbandits.transport.relay import relay_for

MEANS = np.array([0.3, 0.8, 0.5])
GRAPHS = {
    "path": nx.path_graph(7),
    "star": nx.star_graph(5),
    "two parts": nx.disjoint_union(nx.path_graph(4), nx.complete_graph(3)),
    "random": nx.erdos_renyi_graph(9, 0.3, seed=4),
    "nobody to talk to": nx.empty_graph(3),
}


def problem_on(graph, ttl, horizon=400, arms=3):
    return Problem(len(graph), arms, arms, horizon).knowing(Range(0, 1), Place(graph, ttl))


def population(algorithm, problem, seed=0):
    return algorithm.agents(problem, problem.agents, Streams(np.random.SeedSequence(seed), problem.agents))


def coins(horizon, n, means=MEANS, seed=0):
    """(T, n, K) the reward every agent would get for every arm in every round."""
    return (np.random.default_rng(seed).random((horizon, n, len(means))) < means).astype(float)


def play(algorithm, problem, agents, rewards, before=lambda agents: None, awake=None):
    """(T, n) the choices of `agents`, -1 for those asleep."""
    n, arms = problem.agents, problem.arms
    place, wire = problem.need(Place, by=algorithm.about), wire_of(algorithm, problem)
    relay = relay_for(place, Faults(), False, problem.arms, Ledger(), wire, np.random.SeedSequence(0))
    chosen = np.full(rewards.shape[:2], -1)
    for step, payable in enumerate(rewards):
        who = np.arange(n) if awake is None else np.flatnonzero(awake[step])
        shown = np.broadcast_to(np.eye(arms), (len(who), arms, arms))
        before(agents)
        picks = agents.choose(who, shown)
        agents.learn(who, shown, picks, payable[who, picks])
        relay.round(agents, who, step)
        chosen[step, who] = picks
    return chosen


class ByHand:
    """The pseudocode of the thesis, completed, in plain Python: rounds from 1, full histories.

    Knows nothing of messages: what is known when follows from distances.
    """

    def __init__(self, algorithm, problem, seed=0):
        place = problem.get(Place)
        self.leader = leadership(place.graph, place.hops).leader
        self.distance = dict(nx.all_pairs_shortest_path_length(place.graph))
        self.streams = Streams(np.random.SeedSequence(seed), problem.agents)
        self.n, self.arms, self.gamma, self.algorithm = problem.agents, problem.arms, place.hops, algorithm
        self.leaders = sorted(set(self.leader.tolist()))
        self.members = {i: [j for j in range(self.n) if self.leader[j] == i] for i in self.leaders}
        size = len(self.leaders)
        self.lam = algorithm.lambda_scale * math.log(
            8 * self.arms * size / algorithm.delta * math.log2(problem.horizon)
        )
        self.pulled = defaultdict(dict)
        self.earned = defaultdict(dict)
        self.gaps = {i: [[1.0] * self.arms] for i in self.leaders}
        # first round of the epoch, first round after it
        self.plan = {i: self.planned(i, self.arms + 1) for i in self.leaders}

    def planned(self, i, window):
        total = sum(self.lam / gap**2 for gap in self.gaps[i][-1])
        length = math.ceil(total / len(self.members[i]) if self.algorithm.epochs == "shared" else total)
        return window + 2 * self.gamma, window + 2 * self.gamma + length

    def probabilities(self, i):
        inverse = [1 / gap**2 for gap in self.gaps[i][-1]]
        return [one / sum(inverse) for one in inverse]

    def renew(self, i):
        """The gaps after an epoch, from what everybody in V_i got by repeating its rounds."""
        first, end = self.plan[i]
        sums, seen = [0.0] * self.arms, [0] * self.arms
        for t in range(first, end):
            for j in self.members[i]:
                s = t + self.distance[i][j]
                sums[self.pulled[s][j]] += self.earned[s][j]
                seen[self.pulled[s][j]] += 1
        expected = [p * (end - first) * len(self.members[i]) for p in self.probabilities(i)]
        pulls = expected if self.algorithm.divisor == "expected" else [max(one, 1) for one in seen]
        r = [a / b for a, b in zip(sums, pulls, strict=True)]
        epoch, old = len(self.gaps[i]), self.gaps[i][-1]
        best = max(a - gap / 16 for a, gap in zip(r, old, strict=True))
        self.gaps[i].append([max(2.0**-epoch, best - a) for a in r])
        self.plan[i] = self.planned(i, end)

    def draw(self, j, probabilities):
        u, rung = self.streams.uniform(np.array([j]))[0], 0.0
        for k, p in enumerate(probabilities):
            rung += p
            if u < rung:
                return k
        return self.arms - 1

    def ucb1(self, i, t):
        mine = [(self.pulled[s][i], self.earned[s][i]) for s in range(1, t)]
        scores = []
        for k in range(self.arms):
            got = [reward for arm, reward in mine if arm == k]
            scores.append(sum(got) / len(got) + math.sqrt(2 * math.log(t) / len(got)))
        return scores.index(max(scores))

    def choice(self, j, t):
        i = int(self.leader[j])
        if t <= self.arms:
            return t - 1
        if i != j:
            lag = self.distance[i][j]
            return self.draw(j, [1 / self.arms] * self.arms) if t <= self.arms + lag else self.pulled[t - lag][i]
        if t == self.plan[i][1] + 2 * self.gamma:  # the window after the epoch is over, and everything has come in
            self.renew(i)
        first, end = self.plan[i]
        return self.draw(j, self.probabilities(i)) if first <= t < end else self.ucb1(i, t)

    def play(self, rewards):
        for t, payable in enumerate(rewards, start=1):
            self.pulled[t] = {j: self.choice(j, t) for j in range(self.n)}
            self.earned[t] = {j: payable[j, arm] for j, arm in self.pulled[t].items()}
        return np.array([[self.pulled[t][j] for j in range(self.n)] for t in range(1, len(rewards) + 1)])


@pytest.mark.parametrize("variant", [{}, {"epochs": "literal"}, {"divisor": "realised"}], ids=str)
@pytest.mark.parametrize("ttl", [1, *(pytest.param(ttl, marks=pytest.mark.slow) for ttl in (0, 2, 4))])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_choice_is_that_of_the_pseudocode(name, ttl, variant):
    algorithm, problem = CHARM(lambda_scale=0.7, **variant), problem_on(GRAPHS[name], ttl)
    rewards = coins(problem.horizon, problem.agents)
    agents, book = population(algorithm, problem), ByHand(algorithm, problem)
    np.testing.assert_array_equal(play(algorithm, problem, agents, rewards), book.play(rewards))
    for i in book.leaders:
        assert agents.epochs.number[i] == len(book.gaps[i]) >= 2, "no epoch ended: the test shows little"
        np.testing.assert_allclose(agents.gaps[i], book.gaps[i][-1], rtol=1e-12)


@st.composite
def places(draw):
    n = draw(st.integers(1, 10))
    graph = nx.gnp_random_graph(n, draw(st.floats(0.1, 0.7)), seed=draw(st.integers(0, 99)))
    return problem_on(graph, draw(st.integers(0, 4)), horizon=120)


@settings(max_examples=25)
@given(places(), st.integers(0, 9))
def test_imitators_lag_by_their_distance_and_gaps_have_a_floor(problem, seed):
    algorithm = CHARM(lambda_scale=0.3)
    agents = population(algorithm, problem, seed)

    def floor(agents):
        newest = np.maximum(agents.epochs.number - 1, 0)
        assert (agents.gaps >= 0.5 ** newest[:, None]).all()

    chosen = play(algorithm, problem, agents, coins(problem.horizon, problem.agents, seed=seed), before=floor)
    led = leadership(problem.get(Place).graph, problem.get(Place).hops)
    for j in range(problem.agents):
        lag, i = led.distance[j], led.leader[j]
        start = problem.arms + lag
        np.testing.assert_array_equal(chosen[start:, j], chosen[start - lag : problem.horizon - lag, i])
    np.testing.assert_array_equal(chosen[: problem.arms], np.arange(problem.arms)[:, None] + np.zeros_like(chosen[:1]))
    assert agents.epochs.number.max() >= 2


@pytest.mark.parametrize("epochs", ["shared", "literal"])
def test_feedback_of_an_epoch_is_complete_when_the_window_closes_and_not_two_turns_before(epochs):
    """A path with its leader in the middle: the ends are gamma hops away, and their last letters come just in time."""
    gamma = 3
    algorithm, problem = CHARM(lambda_scale=0.4, epochs=epochs), problem_on(nx.path_graph(2 * gamma + 1), gamma)
    waited = []

    def watch(agents):
        newest, turn = agents.epochs, agents.turns[gamma] + 1
        missing = (newest.ends - newest.begins)[gamma] * problem.agents - newest.gathered[gamma].sum()
        assert missing >= 0
        if newest.number[gamma]:
            waited.append((turn - newest.ends[gamma], missing))

    agents = population(algorithm, problem)
    play(algorithm, problem, agents, coins(problem.horizon, problem.agents), before=watch)
    assert agents.epochs.number[gamma] >= 3
    last_letters = [missing for after, missing in waited if after == 2 * gamma - 2]
    assert len(last_letters) >= 2
    assert set(last_letters) == {2}, "one from each end"
    complete = [missing for after, missing in waited if after >= 2 * gamma - 1]
    assert len(complete) >= 2
    assert set(complete) == {0}
    assert {after for after, _ in waited} >= {2 * gamma}


class TestOneEpochByHand:
    """Two arms, a leader and one imitator, lambda = 8: everything is a small number."""

    PROBLEM = problem_on(nx.path_graph(2), 1, horizon=1024, arms=2)

    def epochs(self, **variant):
        unit = CHARM(lambda_scale=1.0).pulls(self.PROBLEM, leaders=1)
        return Epochs(CHARM(lambda_scale=8 / unit, **variant), self.PROBLEM, 1, np.array([2]), leaders=1)

    def test_plan(self):
        epochs, me = self.epochs(), np.array([0])
        epochs.begin(me, np.array([4]))
        assert epochs.number[0] == 0, "turns 3 and 4 are the window"
        epochs.begin(me, np.array([5]))
        assert (epochs.number[0], epochs.begins[0], epochs.ends[0]) == (1, 5, 13)  # N = 16 pulls, 8 turns for two
        np.testing.assert_allclose(epochs.expected(me), [[8, 8]])
        np.testing.assert_array_equal(
            epochs.draw(me.repeat(4), np.array([1e-9, 0.499, 0.501, 1 - 2**-53])), [0, 0, 1, 1]
        )

    @pytest.mark.parametrize(
        ("feedback", "gaps", "length"),
        [
            ([8.0, 0.0], [0.5, 0.9375], 21),  # r = (1, 0), r* = 1 - 1/16; N = 32 + 8/0.9375^2 = 41.1
            ([6.0, 2.0], [0.5, 0.5], 32),  # r* - r = (-1/16, 7/16): both at the floor; N = 64
            ([0.0, 7.2], [0.8375, 0.5], 22),  # r* = 0.9 - 1/16; N = 11.4 + 32
        ],
    )
    def test_gaps(self, feedback, gaps, length):
        epochs, me = self.epochs(), np.array([0])
        epochs.begin(me, np.array([5]))
        epochs.feedback[0] = feedback
        epochs.begin(me, np.array([14]))
        assert epochs.number[0] == 1, "the window is not over"
        epochs.begin(me, np.array([15]))
        np.testing.assert_allclose(epochs.gaps, [gaps])
        assert (epochs.number[0], epochs.begins[0], epochs.ends[0]) == (2, 15, 15 + length)
        assert not epochs.feedback.any()
        assert not epochs.gathered.any()
        epochs.begin(me, np.array([15]))
        assert epochs.number[0] == 2, "beginning twice in one turn is beginning once"

    def test_literal_epochs_have_as_many_turns_as_shared_ones_have_pulls(self):
        epochs, me = self.epochs(epochs="literal"), np.array([0])
        epochs.begin(me, np.array([5]))
        assert epochs.ends[0] - epochs.begins[0] == 16
        np.testing.assert_allclose(epochs.expected(me), [[16, 16]])
        epochs.feedback[0] = [16.0, 0.0]
        epochs.begin(me, np.array([23]))
        np.testing.assert_allclose(epochs.gaps, [[0.5, 0.9375]])

    def test_means_of_realised_pulls_do_not_depend_on_how_many_those_were(self):
        epochs, me = self.epochs(divisor="realised"), np.array([0])
        epochs.begin(me, np.array([5]))
        epochs.feedback[0], epochs.gathered[0] = [3.0, 3.0], [4, 12]
        epochs.begin(me, np.array([15]))
        np.testing.assert_allclose(epochs.gaps, [[0.5, 0.5]])  # r = (3/4, 1/4), as under [6, 2] above

    def test_draws_follow_the_gaps(self):
        epochs = self.epochs()
        epochs.gaps[0] = [0.5, 1.0]
        grid = (np.arange(1000) + 0.5) / 1000
        drawn = epochs.draw(np.zeros(1000, dtype=np.int64), grid)
        np.testing.assert_array_equal(drawn, (grid > 0.8).astype(int))


@pytest.mark.parametrize(("arms", "leaders", "horizon", "expected"), [(5, 1, 10_000, 8784), (10, 5, 500, 10_739)])
def test_lambda(arms, leaders, horizon, expected):
    problem = problem_on(nx.path_graph(2), 1, horizon=horizon, arms=arms)
    assert CHARM().pulls(problem, leaders) == pytest.approx(expected, abs=1)
    assert CHARM(lambda_scale=1).pulls(problem, leaders) == pytest.approx(expected / 1024, rel=1e-3)


def test_lambda_of_the_shortest_runs_is_positive():
    assert CHARM().pulls(problem_on(nx.path_graph(2), 1, horizon=1), 1) > 0


def letter(origin, born, arm, reward, to):
    said = Message("reward", np.array([origin]), {"arm": np.array([arm]), "reward": np.array([reward])})
    return Inbox(said, np.array([born]), np.array([to]), np.array([0]))


class TestLetters:
    """A path of three, one hop: 1 leads, 0 and 2 imitate."""

    PROBLEM = problem_on(nx.path_graph(3), 1)
    SHOWN = np.eye(3)[None]

    def grown_up(self, seed=0):
        """A population whose agents have taken every arm once and heard nothing."""
        agents = population(CHARM(), self.PROBLEM, seed)
        for _ in range(3):
            who = np.arange(3)
            picks = agents.choose(who, self.SHOWN.repeat(3, 0))
            agents.learn(who, self.SHOWN.repeat(3, 0), picks, np.zeros(3))
        return agents

    def test_an_imitator_that_has_heard_nothing_draws_uniformly(self):
        drawn = []
        for seed in range(300):
            agents = self.grown_up(seed)
            agents.turns[:] = 50
            drawn.append(agents.choose(np.array([0]), self.SHOWN)[0])
        counts = np.bincount(drawn, minlength=3)
        assert ((counts - 100) ** 2 / 100).sum() < 13.8  # chi-squared with two degrees of freedom, at 0.001

    def test_in_its_first_turns_an_imitator_draws_whatever_it_has_heard(self):
        picks = set()
        for seed in range(20):
            agents = self.grown_up(seed)
            agents.hear(letter(1, 2, 2, 0.0, to=0))
            picks.add(int(agents.choose(np.array([0]), self.SHOWN)[0]))
        assert picks == {0, 1, 2}

    def test_an_imitator_repeats_the_newest_action_until_it_hears_of_a_newer_one(self):
        agents = self.grown_up()
        agents.turns[:] = 50
        for origin, born, arm, expected in [(1, 40, 2, 2), (1, 39, 0, 2), (2, 45, 0, 2), (1, 41, 1, 1)]:
            agents.hear(letter(origin, born, arm, 0.0, to=0))
            assert agents.choose(np.array([0]), self.SHOWN)[0] == expected

    def test_a_leader_counts_rewards_of_its_imitators_in_its_epoch_and_no_others(self):
        agents = self.grown_up()
        epochs = agents.epochs
        epochs.number[1], epochs.begins[1], epochs.ends[1] = 1, 10, 12
        # said in round s = born + 1 at distance 1: it belongs to turn born
        for born, counts in [(9, 0), (10, 1), (11, 2), (12, 2)]:
            agents.hear(letter(0, born, 2, 0.25, to=1))
            assert epochs.gathered[1].tolist() == [0, 0, counts]
        np.testing.assert_allclose(epochs.feedback[1], [0, 0, 0.5])
        assert not agents.counts[1, 2] > 1, "rewards of others never enter UCB1"
        agents.hear(letter(2, 10, 2, 0.25, to=0))
        assert not epochs.gathered[[0, 2]].any()

    @pytest.mark.parametrize(("arm", "reward"), [(3, 0.5), (-1, 0.5), (0, np.nan), (0, np.inf)])
    def test_unfit_letters_are_refused(self, arm, reward):
        agents = self.grown_up()
        before = agents.state()
        with pytest.raises(ValueError, match=r"agents \[0\]"):
            agents.hear(letter(0, 10, arm, reward, to=1))
        assert all(np.array_equal(array, before[name]) for name, array in agents.state().items())


class Liars:
    """Peers whose letters are delivered with every reward changed."""

    def __init__(self, agents, lie):
        self._agents, self._lie = agents, lie

    def __getattr__(self, name):
        return getattr(self._agents, name)

    def hear(self, inbox):
        arrays = inbox.said.arrays
        told = {"arm": arrays["arm"], "reward": arrays["reward"] + self._lie[arrays["arm"]]}
        self._agents.hear(Inbox(Message("reward", inbox.said.who, told), inbox.born, inbox.to, inbox.row))


def test_own_data_are_clean_and_what_is_told_is_not():
    algorithm, problem = CHARM(lambda_scale=0.4), problem_on(nx.star_graph(4), 2)
    rewards = coins(problem.horizon, problem.agents)
    lied_to = population(algorithm, problem)
    chosen = play(algorithm, problem, Liars(lied_to, np.array([5.0, 0.0, 0.0])), rewards)
    for i in range(problem.agents):
        for k in range(problem.arms):
            own = rewards[:, i, k][chosen[:, i] == k]
            assert lied_to.counts[i, k] == len(own)
            assert lied_to.sums[i, k] == own.sum()
    leader = leadership(problem.get(Place).graph, 2).leader[0]
    assert lied_to.gaps[leader].argmin() == 0, "a lie told by four of five passes for the truth"
    assert lied_to.gaps[leader, 1] > 1


@pytest.mark.parametrize("seed", range(5))
def test_lies_far_below_the_gaps_do_not_hide_the_best_arm(seed):
    """Every letter speaks against the best arm, by 0.1 all told; the next best is 0.3 behind."""
    algorithm, problem = CHARM(lambda_scale=8, divisor="realised"), problem_on(nx.star_graph(9), 1, horizon=600)
    agents = population(algorithm, problem, seed)
    rewards = coins(problem.horizon, problem.agents, seed=seed)
    chosen = play(algorithm, problem, Liars(agents, np.array([0.05, -0.05, 0.05])), rewards)
    assert agents.epochs.number[0] >= 3
    assert agents.gaps[0].argmin() == 1
    assert np.bincount(chosen[-100:].ravel(), minlength=3).argmax() == 1


@pytest.mark.parametrize(("divisor", "holds"), [("expected", False), ("realised", True)])
def test_copied_draws_vary_more_than_the_analysis_allows(divisor, holds):
    """Lemma 5.2 without corruption: |r_k - mu_k| <= Delta_k(m-1)/16 for all arms with probability 1 - delta.

    Imitators repeat the same draws, so that 200 agents make them 220 times and not 44 000 times.
    """
    size, mean, leaders = 200, 0.9, 1000
    problem = problem_on(nx.path_graph(2), 1, horizon=10_000, arms=5)
    epochs = Epochs(CHARM(), problem, 1, np.full(leaders, size), leaders=1)
    who = np.arange(leaders)
    epochs.begin(who, np.full(leaders, 8))
    length = epochs.ends[0] - epochs.begins[0]
    assert length == 220
    rng = np.random.default_rng(0)
    pulls = rng.multinomial(length, [0.2] * 5, leaders) * size
    means = rng.binomial(pulls, mean) / (epochs.expected(who) if divisor == "expected" else pulls)
    missed = (abs(means - mean) > 1 / 16).any(axis=1).mean()
    assert (missed <= CHARM().delta) == holds
    assert holds or missed > 0.9


def test_it_runs_when_not_everybody_acts():
    algorithm, problem = CHARM(lambda_scale=0.4), problem_on(GRAPHS["random"], 2)
    awake = np.random.default_rng(0).random((problem.horizon, problem.agents)) < 0.4
    agents = population(algorithm, problem)
    chosen = play(algorithm, problem, agents, coins(problem.horizon, problem.agents), awake=awake)
    assert ((chosen >= 0) == awake).all()
    assert (chosen < problem.arms).all()
    np.testing.assert_array_equal(agents.turns, awake.sum(axis=0))
    assert np.isfinite(agents.gaps).all()


@pytest.mark.parametrize("bad", [{"delta": 0}, {"delta": 1}, {"lambda_scale": 0}, {"epochs": "long"}, {"divisor": "n"}])
def test_parameters_are_checked(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        CHARM(**bad)
