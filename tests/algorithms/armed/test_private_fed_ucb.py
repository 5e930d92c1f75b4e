"""Private FedUCB and DP-UCB-INT: the pseudocode played out agent by agent, budgets that hold, and an audit."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from fedbandits.algorithms.armed.dp_ucb_int import DPUCBInt
from fedbandits.algorithms.armed.fed_ucb1 import FedUCB1
from fedbandits.algorithms.armed.private_fed_ucb import PrivateFedUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Noise, Place, Range
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments.armed import BernoulliArms
from fedbandits.graphs.network import Given
from fedbandits.network import ErdosRenyi
from fedbandits.privacy import audit, broadcast, laplace_ratio, regular, spending, tight
from fedbandits.simulation.loop import Simulation, simulate
from fedbandits.testing.flood import Flood

SEED = np.random.SeedSequence(11)
ARMS = 3
NETWORK = nx.barbell_graph(3, 2)
CLIENTS = len(NETWORK)


def problem_on(network, ttl=2, horizon=60, arms=ARMS):
    bare = Problem(agents=len(network), dim=arms, arms=arms, horizon=horizon)
    return bare.knowing(Noise(0.5), Range(0.0, 1.0), Place(network, ttl))


def shown(n, arms=ARMS):
    return np.broadcast_to(np.eye(arms), (n, arms, arms))


def rewards_of(n, horizon, arms=ARMS, seed=0):
    """(horizon, n, K) the click every agent would get for every arm in every round."""
    rng = np.random.default_rng(seed)
    return (rng.random((horizon, n, arms)) < np.linspace(0.8, 0.2, arms)).astype(float)


class Letters:
    """Carries messages by plain flooding, letter by letter."""

    def __init__(self, problem):
        place = problem.get(Place)
        self.flood = Flood(place.graph, place.hops)

    def round(self, agents, who, step):
        """Let `who` speak and deliver what arrives; returns what was said."""
        (said,) = agents.say(who)
        rows = {int(i): {k: v[r] for k, v in said.arrays.items()} for r, i in enumerate(said.who)}
        read, _ = self.flood.round(step, rows)
        if read:
            letters = sorted(read, key=lambda one: (one[0], -one[1].born, one[1].origin))
            contents = [letter.content for _, letter in letters]
            message = Message(
                "released",
                np.array([letter.origin for _, letter in letters]),
                {name: np.stack([content[name] for content in contents]) for name in ("mean", "count")},
            )
            born = np.array([letter.born for _, letter in letters])
            agents.hear(Inbox(message, born, np.array([to for to, _ in letters]), np.arange(len(letters))))
        return said


def play(agents, problem, table, letters=None, awake=None):
    """Picks (horizon, n) of `agents` on the clicks of `table`; -1 for those asleep."""
    steps, n, arms = table.shape
    picks = np.full((steps, n), -1)
    for step in range(steps):
        who = np.arange(n) if awake is None else np.flatnonzero(awake[step])
        picks[step, who] = agents.choose(who, shown(len(who), arms))
        agents.learn(who, shown(len(who), arms), picks[step, who], table[step, who, picks[step, who]])
        if letters is not None:
            letters.round(agents, who, step)
    return picks


def by_the_book(algorithm, problem, table):
    """Algorithms 1 and 2 of the thesis with dictionaries: what u said in round s is known to v in round s + d(u, v)."""
    steps, n, arms = table.shape
    s, v = algorithm.schedule, algorithm.rate
    moments = [set(broadcast(s, v, problem.horizon).counts.tolist())] * arms
    place = problem.get(Place)
    distance = dict(nx.all_pairs_shortest_path_length(place.graph))
    streams = [Streams(SEED, identities=np.array([i])) for i in range(n)]
    total, count = np.zeros((n, arms)), np.zeros((n, arms), dtype=int)
    mean, at = np.zeros((n, arms)), np.zeros((n, arms), dtype=int)
    said, picks = [], np.empty((steps, n), dtype=int)

    def told(i):
        weight = np.where(at[i] > 0, count[i], 0) if algorithm.counts == "current" else at[i]
        return mean[i].copy(), weight.copy()

    for t in range(1, steps + 1):
        spoke = {}
        for i in range(n):
            if t <= arms * math.ceil(1 / s):
                picks[t - 1, i] = (t - 1) % arms
                continue
            if algorithm.own == "clean":
                numerator, N = total[i].copy(), count[i].astype(float)
            else:
                m, weight = told(i)
                numerator, N = m * weight, weight.astype(float)
            for u in range(n):
                if u == i or not 1 <= distance[i].get(u, 99) <= place.hops:
                    continue
                latest = [r for r in range(t - distance[i][u]) if u in said[r]]
                if latest:
                    m, weight = said[latest[-1]][u]
                    numerator, N = numerator + weight * m, N + weight
            with np.errstate(divide="ignore", invalid="ignore"):
                index = np.where(N > 0, numerator / N + np.sqrt(2 * np.log(t) / N), np.inf)
            picks[t - 1, i] = index.argmax()
        for i in range(n):
            k = picks[t - 1, i]
            total[i, k] += table[t - 1, i, k]
            count[i, k] += 1
            new = count[i, k] in moments[k]
            if new:
                u = streams[i].uniform(np.zeros(1, dtype=np.int64))[0]
                laplace = np.log(2 * u) if u < 0.5 else -np.log(2 - 2 * u)
                mean[i, k] = total[i, k] / count[i, k] + count[i, k] ** (v / 2 - 1) * laplace
                at[i, k] = count[i, k]
            if new or algorithm.talk == "every-round":
                spoke[i] = told(i)
        said.append(spoke)
    return picks


VARIANTS = [
    {"schedule": 0.5},
    {"schedule": 1.0, "own": "clean"},
    {"schedule": 0.3, "own": "clean", "counts": "at-release", "rate": 1.3},
    {"schedule": 0.4, "counts": "at-release"},
    {"schedule": 0.35, "talk": "at-release"},
    {"schedule": 0.35, "talk": "at-release", "counts": "at-release", "rate": 1.45},
]


@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
@pytest.mark.parametrize("ttl", [0, 1, 3])
def test_the_pseudocode_agent_by_agent(parameters, ttl):
    algorithm = PrivateFedUCB(**parameters)
    problem, table = problem_on(NETWORK, ttl), rewards_of(CLIENTS, 60)
    agents = algorithm.agents(problem, CLIENTS, Streams(SEED, CLIENTS))
    picks = play(agents, problem, table, Letters(problem) if ttl else None)
    np.testing.assert_array_equal(picks, by_the_book(algorithm, problem, table))


@pytest.mark.parametrize(
    "parameters", [{"schedule": 0.5}, {"schedule": 0.4, "talk": "at-release", "own": "clean"}], ids=str
)
def test_everybody_alone_makes_the_same_choices_and_keeps_its_share(parameters):
    """With agents asleep now and then; letters pass by hand between populations of one."""
    algorithm, problem, table = PrivateFedUCB(**parameters), problem_on(NETWORK), rewards_of(CLIENTS, 50, seed=1)
    awake = np.random.default_rng(0).random((50, CLIENTS)) < 0.8
    together = algorithm.agents(problem, CLIENTS, Streams(SEED, CLIENTS))
    letters = Letters(problem)
    apart = [algorithm.agents(problem, 1, Streams(SEED, identities=np.array([i]))) for i in range(CLIENTS)]
    flood, me = Letters(problem).flood, np.zeros(1, dtype=np.int64)
    for step in range(50):
        who = np.flatnonzero(awake[step])
        picks = together.choose(who, shown(len(who)))
        together.learn(who, shown(len(who)), picks, table[step, who, picks])
        letters.round(together, who, step)
        said = {}
        for i, pick in zip(who, picks, strict=True):
            assert apart[i].choose(me, shown(1))[0] == pick
            apart[i].learn(me, shown(1), np.array([pick]), table[step, [i], [pick]])
            (message,) = apart[i].say(me)
            if len(message.who):
                said[int(i)] = message
        for to, letter in flood.round(step, said)[0]:
            message = Message("released", np.array([letter.origin]), letter.content.arrays)
            apart[to].hear(Inbox(message, np.array([letter.born]), me, me))
    for i in range(CLIENTS):
        share, own = together.share(i), apart[i].share(0)
        assert share.keys() == own.keys()
        for name in own:
            np.testing.assert_array_equal(share[name], own[name], err_msg=name)


def test_a_snapshot_goes_on_as_if_nothing_had_happened():
    algorithm, problem, table = PrivateFedUCB(schedule=0.5), problem_on(NETWORK, 1), rewards_of(CLIENTS, 60)
    one = algorithm.agents(problem, CLIENTS, Streams(SEED, CLIENTS))
    letters = Letters(problem)
    play(one, problem, table[:30], letters)
    other = algorithm.agents(problem, CLIENTS, Streams(np.random.SeedSequence(99), CLIENTS))
    other.load(one.state())
    for left, right in zip(one.state().values(), other.state().values(), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(
        play(one, problem, table[30:], Letters(problem)), play(other, problem, table[30:], Letters(problem))
    )


class TestTalk:
    def test_only_releases_are_told_of_if_asked(self):
        """As many messages as releases, instead of one in every round."""
        problem, table = problem_on(NETWORK), rewards_of(CLIENTS, 60)
        for talk, expected in [("every-round", 60 * CLIENTS), ("at-release", None)]:
            agents = PrivateFedUCB(schedule=0.25, talk=talk).agents(problem, CLIENTS, Streams(SEED, CLIENTS))
            letters, spoken = Letters(problem), 0
            for step in range(60):
                who = np.arange(CLIENTS)
                picks = agents.choose(who, shown(CLIENTS))
                agents.learn(who, shown(CLIENTS), picks, table[step, who, picks])
                said = letters.round(agents, who, step)
                spoken += len(said.who)
            assert spoken == (agents.own.releases.sum() if expected is None else expected)

    def test_nothing_is_told_of_an_arm_before_its_first_release(self):
        agents = PrivateFedUCB(schedule=0.5).agents(problem_on(NETWORK), CLIENTS, Streams(SEED, CLIENTS))
        play(agents, None, rewards_of(CLIENTS, ARMS + 1))
        (said,) = agents.say(np.arange(CLIENTS))
        assert (said.arrays["count"][:, 0] == 2).all()
        assert (said.arrays["count"][:, 1:] == 0).all()
        assert (said.arrays["mean"][:, 1:] == 0).all()
        assert said.arrays["count"].dtype == np.int64


class TestBudget:
    @pytest.mark.parametrize("kind", [PrivateFedUCB, DPUCBInt])
    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (4.0, 1e-3), (2.0, 0.0)])
    def test_it_is_kept_even_beyond_the_horizon(self, kind, epsilon, delta):
        """Agents that go on for three horizons stop releasing; most of the budget is used by then."""
        problem = problem_on(nx.empty_graph(4), horizon=80)
        agents = kind(epsilon=epsilon, delta=delta).agents(problem, 4, Streams(SEED, 4))
        seen = []
        for part in range(6):
            play(agents, problem, rewards_of(4, 40, seed=part))
            seen.append(agents.spent())
        assert (np.diff(seen, axis=0) >= 0).all()
        assert (seen[-1] <= epsilon).all()
        assert seen[-1].max() > 0.7 * epsilon
        assert agents.delta == delta

    @pytest.mark.parametrize(("kind", "rule"), [(PrivateFedUCB, broadcast), (DPUCBInt, regular)])
    def test_spent_is_what_the_most_released_arm_costs(self, kind, rule):
        problem = problem_on(nx.empty_graph(4))
        agents = kind(schedule=0.3, delta=1e-3).agents(problem, 4, Streams(SEED, 4))
        assert (agents.spent() == 0).all()
        play(agents, problem, rewards_of(4, 60))
        table = spending(rule(0.3, 1.1, 60), 1e-3)
        np.testing.assert_array_equal(agents.spent(), table[agents.own.releases.max(axis=1)])

    def test_acting_on_clean_rewards_has_no_price_that_could_be_named(self):
        problem = problem_on(nx.empty_graph(2))
        agents = PrivateFedUCB(schedule=0.5, own="clean").agents(problem, 2, Streams(SEED, 2))
        play(agents, problem, rewards_of(2, 2 * ARMS))
        assert np.isfinite(agents.spent()).all()
        play(agents, problem, rewards_of(2, 1))
        assert np.isinf(agents.spent()).all()

    @pytest.mark.parametrize("given", [None, (-1.0, 1.0), (0.0, 2.0)])
    @pytest.mark.parametrize("kind", [PrivateFedUCB, DPUCBInt])
    def test_rewards_of_unknown_range_are_refused(self, kind, given):
        problem = problem_on(NETWORK).without(Range).knowing(*(() if given is None else (Range(*given),)))
        with pytest.raises(ConfigError, match=r"lie in \[0, 1\].*bernoulli"):
            kind(schedule=0.5).agents(problem, CLIENTS, Streams(SEED, CLIENTS))

    def test_parameters(self):
        with pytest.raises(ConfigError, match="give one of them"):
            PrivateFedUCB(epsilon=1.0, schedule=0.1)
        with pytest.raises(ConfigError, match="own"):
            PrivateFedUCB(own="raw")
        with pytest.raises(ConfigError, match="budget"):
            DPUCBInt(budget=3)


def test_agents_on_their_own_release_at_regular_intervals_and_play_the_index():
    """DP-UCB-INT: f times each arm, then the highest frozen mean plus current width."""
    problem, table = problem_on(nx.empty_graph(5), horizon=90), rewards_of(5, 90)
    agents = DPUCBInt(schedule=0.25).agents(problem, 5, Streams(SEED, 5))
    assert not agents.say(np.arange(5))
    assert not agents.calling().any()
    everybody = np.arange(5)
    for step in range(90):
        means, counts = agents.own.means.copy(), agents.own.counts.copy()
        picks = agents.choose(everybody, shown(5))
        if step < 4 * ARMS:
            expected = np.full(5, step % ARMS)
        else:
            expected = (means + np.sqrt(2 * np.log(step + 1) / counts)).argmax(axis=1)
        np.testing.assert_array_equal(picks, expected)
        agents.learn(everybody, shown(5), picks, table[step, everybody, picks])
        np.testing.assert_array_equal(agents.own.releases, agents.own.counts // 4)


def test_talking_lowers_regret_at_the_same_schedule():
    """Private agents who talk do better than private agents on their own, and the better the further they are heard."""
    env, ring = BernoulliArms(clients=20), nx.cycle_graph(20)

    def regret(algorithm, network=None):
        return np.mean([simulate(algorithm, env, 300, seed, network=network).regret[-1] for seed in range(5)])

    alone = regret(DPUCBInt(schedule=0.5))
    neighbours, everybody = (regret(PrivateFedUCB(schedule=0.5), Given.of(ring, ttl=ttl)) for ttl in (1, 10))
    assert everybody < 0.7 * neighbours < 0.6 * alone


class TestAudit:
    """Two arms; the first reward of arm 0 is 0 or 1, every other reward of either arm is 1/2.

    Everything an observer sees is used: the messages of every round. Each of many agents, without neighbours, is a run.
    """

    runs, rounds, delta = 20_000, 8, 0.01

    def features(self, own, first_reward, seed):
        """(runs, 1 + rounds) log-likelihood ratio of the told means of arm 0, and its told count in every round."""
        problem = problem_on(nx.empty_graph(self.runs), horizon=self.rounds, arms=2)
        algorithm = PrivateFedUCB(schedule=1.0, own=own, delta=self.delta)
        agents = algorithm.agents(problem, self.runs, Streams(np.random.SeedSequence(seed), self.runs))
        everybody = np.arange(self.runs)
        told = np.full((self.runs, self.rounds), np.nan)
        counts = []
        pulls = np.zeros(self.runs, dtype=np.int64)
        for _ in range(self.rounds):
            picks = agents.choose(everybody, shown(self.runs, 2))
            first = (picks == 0) & (pulls == 0)
            agents.learn(everybody, shown(self.runs, 2), picks, np.where(first, first_reward, 0.5))
            (said,) = agents.say(everybody)
            count = said.arrays["count"][:, 0]
            new = count > pulls
            told[new, count[new] - 1] = said.arrays["mean"][new, 0]
            pulls = count
            counts.append(count.astype(float))
        n = np.arange(1, self.rounds + 1)
        ratio = laplace_ratio(told, 0.5 + 0.5 / n, 0.5 - 0.5 / n, broadcast(1.0, 1.1, self.rounds).scales)
        return np.column_stack([ratio, *counts])

    def lower_bound(self, own):
        return audit(self.features(own, 1.0, 1), self.features(own, 0.0, 2), delta=self.delta)

    @property
    def claimed(self):
        return tight(broadcast(1.0, 1.1, self.rounds).losses, self.delta)

    def test_all_messages_are_within_the_claim(self):
        assert 0.5 * self.claimed < self.lower_bound("released").epsilon <= self.claimed

    def test_acting_on_clean_rewards_is_caught_by_the_counts(self):
        found = self.lower_bound("clean")
        assert found.epsilon > 1.5 * self.claimed
        assert found.feature > 0
        assert (found.likelier, found.rarer) == (1.0, 0.0)


@pytest.mark.slow
def test_it_is_the_noise_in_their_own_means_that_lowers_regret():
    """Documentation says so: the less of it, the more regret, and without any that of FedUCB1."""

    def regret(algorithm, noise=1.0):
        total = 0.0
        for seed in range(6):
            run = Simulation(
                algorithm, BernoulliArms(clients=60, arms=5), 1_000, seed, network=ErdosRenyi(p=0.2, ttl=1)
            )
            if noise < 1:
                run.agents.own._scales = noise * run.agents.own._scales
            run.run()
            total += run.trace().regret[-1]
        return total

    released, clean = (PrivateFedUCB(schedule=1.0, delta=0.1, own=own) for own in ("released", "clean"))
    loud, low, silent = (regret(released, noise) for noise in (1.0, 0.3, 0.0))
    assert loud < 0.7 * low < 0.7 * silent
    assert silent == regret(FedUCB1())
    assert regret(clean) > silent
