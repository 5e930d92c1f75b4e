"""FedLinUCB-Network: as the text has it, within its budget, and unharmed by what befalls messages."""

from __future__ import annotations

import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from algorithms.private.network_reference import Federation, Setting, dense
from fedbandits.algorithms.private.fedlinucb_network import FedLinUCBNetwork
from fedbandits.algorithms.private.network_agents import NetworkAgents
from fedbandits.algorithms.private.synchronising import Synchronising
from fedbandits.contract.facts import Noise, Place
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams, seeds_of
from fedbandits.graphs.leaders import clique_of
from fedbandits.graphs.network import Given
from fedbandits.privacy.gaussian import gaussian_mu
from fedbandits.testing import check_algorithm
from fedbandits.testing.recording import recorded

DIM, ARMS, HORIZON = 3, 4, 36
SHORT: dict[str, Any] = {"first": 2, "uploads": 5, "last": 0.8}
"""A schedule that fits into a short run."""


def gap(n: int, **parameters: Any) -> fb.environments.Gap:
    return fb.environments.Gap(clients=n, dim=DIM, arms=ARMS, **parameters)


def agents_of(event: Any) -> NetworkAgents:
    found = event.side.agents
    assert isinstance(found, NetworkAgents)
    return found


@st.composite
def networks(draw, most: int = 7) -> tuple[nx.Graph, int]:
    """A connected graph, and for how many hops messages live."""
    n = draw(st.integers(2, most))
    parents = [draw(st.integers(0, i)) for i in range(n - 1)]
    graph = nx.empty_graph(n)
    graph.add_edges_from((i + 1, parent) for i, parent in enumerate(parents))
    graph.add_edges_from(draw(st.lists(st.sampled_from(list(itertools.combinations(range(n), 2))), max_size=n)))
    return graph, draw(st.integers(1, 3))


def scheduled(uses: int, first: int, last: float, uploads: int) -> list[int]:
    """Uses of a phase after which it is synchronised."""
    end = max(1.0, last * uses)
    ratio = np.log(end) - np.log(start := min(first, max(1.0, end / uploads)))
    return sorted({round(float(start * np.exp(ratio * k / (uploads - 1)))) for k in range(uploads)})


def setting_of(algorithm: FedLinUCBNetwork, graph: nx.Graph, ttl: int) -> Setting:
    """What the parameters mean, computed anew."""
    label = clique_of(graph, ttl)
    uses = math.ceil(HORIZON / ttl)
    turns = None if algorithm.trigger == "logdet" else scheduled(uses, 2, 0.8, 5)
    found = Setting(
        graph=graph,
        ttl=ttl,
        cliques=[set(np.flatnonzero(label == one).tolist()) for one in np.unique(label)],
        horizon=HORIZON,
        dim=DIM,
        turns=turns,
        threshold=algorithm.threshold,
        own=algorithm.own,
    )
    if algorithm.epsilon is None:
        return found
    found.noise = "tree" if algorithm.constants == "thesis" else algorithm.mechanism or "toeplitz"
    found.releases = len(turns) if turns is not None else algorithm.uploads or 0
    columns = dense(found.noise, found.releases)
    reach = np.linalg.norm(np.linalg.solve(columns, np.tri(found.releases)), axis=0).max()
    found.sigma = math.sqrt(1.5) * reach / gaussian_mu(algorithm.epsilon, algorithm.delta)
    if algorithm.constants == "thesis":
        m, epsilon, delta = 1 + math.ceil(math.log2(found.releases)), algorithm.epsilon, algorithm.delta
        found.sigma = 4 * math.sqrt(m) * 2 * math.log(2 / delta) / epsilon
        found.printed = lambda size: (
            (math.sqrt(32) * m * 2 / epsilon * math.log(4 / delta))
            * (4 * math.sqrt(DIM) + 2 * math.log(2 * found.releases * size * ttl / 0.1))
        )
    return found


def follow(algorithm: FedLinUCBNetwork, graph: nx.Graph, ttl: int, seed: int) -> Federation:
    """Every decision of a run is that of the text; returns what the text made of it."""
    n, seeds = graph.number_of_nodes(), seeds_of(seed)
    told = Federation(setting_of(algorithm, graph, ttl), Streams(seeds.agents, n, common=seeds.common))
    judged = 0
    for event in recorded(algorithm, gap(n), HORIZON, seed, network=Given.of(graph, ttl=ttl)):
        for agent, index in enumerate(told.indices(event.step, event.arms)):
            if index is None:
                assert event.picks[agent] == told.at_random(agent, ARMS)
            else:
                best = np.sort(index)[-2:]
                if best[1] - best[0] > 1e-9:
                    assert event.picks[agent] == index.argmax(), f"agent {agent} in round {event.step}"
                    judged += 1
        told.learn(event.step, event.arms[np.arange(n), event.picks], event.rewards)
        spoken = {
            (event.step, int(who), message.kind, int(phase))
            for _, message in event.crossed
            for who, phase in zip(message.who, message.arrays["phase"], strict=True)
        }
        assert spoken == {said for said in told.said if said[0] == event.step}
    assert judged > 2 * n
    return told


VARIANTS: dict[str, dict[str, Any]] = {
    "not private": {"epsilon": None},
    "not private, recent": {"epsilon": None, "own": "recent"},
    "toeplitz": {"epsilon": 20.0},
    "tree": {"epsilon": 20.0, "mechanism": "tree"},
    "fresh": {"epsilon": 20.0, "mechanism": "fresh"},
    "recent": {"epsilon": 20.0, "own": "recent"},
}


class TestAsTheTextHasIt:
    @settings(max_examples=12)
    @given(network=networks(), variant=st.sampled_from(sorted(VARIANTS)), seed=st.integers(0, 9))
    def test_every_decision(self, network, variant, seed):
        follow(FedLinUCBNetwork(**SHORT, **VARIANTS[variant], width=0.3), *network, seed)

    @pytest.mark.parametrize("threshold", [0.5, 4.0])
    def test_the_trigger_of_the_thesis(self, threshold):
        """Two cliques, whose members ask at different times."""
        algorithm = FedLinUCBNetwork(epsilon=None, own="recent", trigger="logdet", threshold=threshold, width=0.3)
        told = follow(algorithm, nx.barbell_graph(3, 0), 2, 1)
        asked = [said for said in told.said if said[2] == "sync"]
        assert len({(now, g) for now, _, _, g in asked}) < len(asked) or threshold > 1
        assert len(asked) > 4

    @pytest.mark.parametrize("own", ["released", "recent"])
    def test_the_thesis_constants(self, own):
        """With a budget that leaves anything of the data, on two cliques of different sizes."""
        algorithm = FedLinUCBNetwork(**SHORT, epsilon=1e4, constants="thesis", own=own, width=0.3)
        follow(algorithm, nx.barbell_graph(3, 0), 2, 2)


class TestOnACompleteGraph:
    def test_it_is_algorithm_9_a_turn_later(self):
        """Pooled by a server at the end of the turn after each request, everybody decides the same (spec, 10.4)."""
        n, every = 5, 6
        algorithm = FedLinUCBNetwork(epsilon=None, own="recent", every=every, width=0.3)
        S, s = np.eye(DIM), np.zeros(DIM)
        U, u = np.zeros((n, DIM, DIM)), np.zeros((n, DIM))
        for event in recorded(algorithm, gap(n), HORIZON, 3, network=Given.of(nx.complete_graph(n))):
            for i in range(n):
                V = S + U[i]
                theta = np.linalg.solve(V, s + u[i])
                bonus = np.sqrt(np.einsum("kd,dk->k", event.arms[i], np.linalg.solve(V, event.arms[i].T)))
                assert event.picks[i] == (event.arms[i] @ theta + 0.3 * bonus).argmax()
                x = event.arms[i, event.picks[i]]
                U[i] += np.outer(x, x)
                u[i] += event.rewards[i] * x
            turn = event.step + 1
            if turn > 1 and (turn - 1) % every == 0:
                S, s = S + U.sum(axis=0), s + u.sum(axis=0)
                U[:], u[:] = 0, 0

    @pytest.mark.parametrize("epsilon", [None, 1.0])
    def test_after_a_synchronisation_all_members_have_the_same_to_the_last_bit(self, epsilon):
        graph, ttl = nx.barbell_graph(4, 0), 2
        cliques = clique_of(graph, ttl)
        algorithm = FedLinUCBNetwork(epsilon=epsilon, every=3, width=0.3)
        compared = 0
        for event in recorded(algorithm, gap(8), HORIZON, 3, network=Given.of(graph, ttl=ttl)):
            agents, g = agents_of(event), (event.step + 1) % ttl
            uses = agents.protocol.uses[0, g]
            if uses > 3 and uses % 3 == 2:  # asked after 3, told after 4: all have it before the sixth use
                base = agents.models.part.base
                rows = np.arange(8) * ttl + g
                for one in np.unique(cliques):
                    mine = rows[cliques == one]
                    assert (base.gram[mine] == base.gram[mine[0]]).all()
                    assert (base.moment[mine] == base.moment[mine[0]]).all()
                    compared += len(mine) > 1
                assert not (base.gram[rows[0]] == base.gram[rows[-1]]).all()
        assert compared > 5


def test_cliques_are_cliques_of_the_power_graph():
    """What everything here rests on: members hear each other within as many rounds as there are phases."""
    for seed in range(5):
        graph = nx.gnp_random_graph(14, 0.25, seed=seed)
        distance = dict(nx.all_pairs_shortest_path_length(graph))
        for ttl in (1, 2, 3):
            label = clique_of(graph, ttl)
            for i, j in itertools.combinations(range(14), 2):
                assert label[i] != label[j] or distance[i].get(j, 99) <= ttl


class TestWhatIsSaid:
    @settings(max_examples=10)
    @given(network=networks(), epsilon=st.sampled_from([None, 1.0]))
    def test_the_ledger_counts_every_message_on_every_link(self, network, epsilon):
        """A request and a release of each agent for each scheduled use of each phase, on all links within reach."""
        graph, ttl = network
        n, distance = graph.number_of_nodes(), dict(nx.all_pairs_shortest_path_length(graph))
        turns = scheduled(math.ceil(HORIZON / ttl), 2, 0.8, 5)
        trace = fb.simulate(
            FedLinUCBNetwork(**SHORT, epsilon=epsilon), gap(n), HORIZON, network=Given.of(graph, ttl=ttl)
        )
        links, scalars = 0, 0
        for phase in range(ttl):
            asked, owing = 0, False
            for now in range(phase, HORIZON, ttl):
                asks = not owing and asked < len(turns) and now // ttl + 1 >= turns[asked]
                size = 1 + DIM**2 + DIM if owing else 2 if asks else 0
                asked, owing = asked + asks, asks
                for sender in range(n) if size else ():
                    reach = min(ttl, HORIZON - now)  # what is under way at the end is counted as far as it came
                    crossed = sum(graph.degree(v) for v, hops in distance[sender].items() if hops < reach)
                    links, scalars = links + crossed, scalars + crossed * size
        assert trace.messages[-1] == links
        assert trace.scalars[-1] == scalars

    def test_nobody_listens_to_another_clique(self):
        """Data of one half of a barbell do not reach the other, although messages do."""
        graph = nx.barbell_graph(4, 0)
        algorithm = FedLinUCBNetwork(epsilon=None, every=3, width=0.3)

        def other_half(step, rewards):
            return np.where(np.arange(8) < 4, rewards, 1 - rewards)

        runs = [
            list(recorded(algorithm, gap(8), HORIZON, 3, network=Given.of(graph, ttl=1), told=told))
            for told in (None, other_half)
        ]
        assert len(np.unique(clique_of(graph, 1)[:4])) == 1
        ours, theirs = (np.array([event.picks for event in run]) for run in runs)
        assert (ours[:, :4] == theirs[:, :4]).all()
        assert (ours[:, 4:] != theirs[:, 4:]).any()

    def test_agents_that_hear_nobody_act_on_their_own_releases(self):
        algorithm = FedLinUCBNetwork(**SHORT, epsilon=None, width=0.3)
        (*_, last) = recorded(algorithm, gap(4), HORIZON, network=Given.of(nx.path_graph(4), ttl=0))
        agents = agents_of(last)
        assert agents.told.all()
        released = agents.sums.part.released.count
        assert (released > HORIZON / 2).all()
        np.testing.assert_array_equal(agents.models.part.base.count, released)
        assert last.side.ledger.peer.messages == 0


class TestTrouble:
    """Whatever befalls messages, what an agent knows is one release of each member, and the budget is kept."""

    @settings(max_examples=12)
    @given(
        network=networks(),
        loss=st.sampled_from([0.0, 0.3, 0.7]),
        delay=st.sampled_from([0.0, 1.5]),
        attendance=st.sampled_from([{}, {"stragglers": 0.5, "presence": 0.4}, {"schedule": "random"}]),
        trigger=st.sampled_from(["schedule", "logdet"]),
        seed=st.integers(0, 9),
    )
    def test_nothing_counts_twice(self, network, loss, delay, attendance, trigger, seed):
        graph, ttl = network
        n = graph.number_of_nodes()
        when = {**SHORT, "trigger": trigger, "leaky": trigger == "logdet", "threshold": 1.0}
        algorithm = FedLinUCBNetwork(**when, epsilon=1.0, width=0.3)
        troubled = Given.of(graph, ttl=ttl, loss=loss, delay=delay, delay_max=4 if delay else 0)
        cliques, made = clique_of(graph, ttl), [set() for _ in range(n * ttl)]
        for event in recorded(algorithm, gap(n, **attendance), 2 * HORIZON, seed, network=troubled):
            agents = agents_of(event)
            released = agents.sums.part.released
            for row in range(n * ttl):  # all that each agent has ever released
                made[row].add(released.gram[row].tobytes())
            sums = agents.heard.pooled(np.arange(n * ttl), released)
            for g in range(ttl):
                table = agents.heard.table(g)
                for agent in range(n):
                    rows = range(table.starts[agent], table.starts[agent + 1])
                    assert all(cliques[table.origins[e]] == cliques[agent] for e in rows)
                    for e in rows:
                        if table.born[e] >= 0:
                            assert table.kept["gram"][e].tobytes() in made[table.origins[e] * ttl + g]
                    whole = sum((table.kept["gram"][e] for e in rows), released.gram[agent * ttl + g])
                    np.testing.assert_allclose(sums[0][agent * ttl + g], whole, atol=1e-9)
            protection = agents.protection()
            assert (protection.releases <= protection.allowed).all()
            assert (agents.sums.part.steps.made <= 5).all()
        assert (protection.releases > 0).any()
        if trigger == "schedule":
            assert (agents.spent() <= 1.0).all()
        else:
            assert np.isinf(agents.spent()[protection.releases > 0]).all()

    def test_what_was_lost_is_made_up_for(self):
        """With most transmissions lost, agents nevertheless have most of what their clique released, in the end."""
        algorithm = FedLinUCBNetwork(epsilon=None, every=2, width=0.3)
        network = Given.of(nx.complete_graph(5), loss=0.6)
        (*_, last) = recorded(algorithm, gap(5), 120, network=network)
        agents = agents_of(last)
        told = agents.sums.part.released.gram.trace(axis1=1, axis2=2).sum()
        known = agents.models.part.base.gram.trace(axis1=1, axis2=2)
        assert (known > 0.9 * told).all()
        assert (known <= told * (1 + 1e-12)).all()


class TestRequests:
    @given(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 4)), max_size=20),
        st.randoms(use_true_random=False),
    )
    def test_their_order_and_repetition_do_not_matter(self, letters, random):
        """Late, doubled and shuffled requests leave the same debts, and none where there was none."""
        first, second = Synchronising(3, 2), Synchronising(3, 2)
        shuffled = [*letters, *letters[: len(letters) // 2]]
        random.shuffle(shuffled)
        for protocol, told in ((first, letters), (second, shuffled)):
            for who, phase, number in told:
                protocol.heed(np.array([who]), np.array([phase]), np.array([number]))
        together = Synchronising(3, 2)
        if letters:
            together.heed(*(np.array(column) for column in zip(*letters, strict=True)))
        for other in (second, together):
            np.testing.assert_array_equal(first.latest, other.latest)
            np.testing.assert_array_equal(first.owing, other.owing)

    def test_a_request_that_was_answered_is_not_answered_again(self):
        protocol, one = Synchronising(1, 1), np.zeros(1, np.int64)
        protocol.heed(one, one, np.array([1]))
        assert protocol.use(one, one).all()
        protocol.heed(one, one, np.array([1]))
        assert not protocol.use(one, one).any()


def placed(n: int = 1, graph: nx.Graph | None = None, ttl: int = 2, horizon: int = HORIZON, **facts: Any) -> Problem:
    world = gap(n).world(horizon, np.random.SeedSequence(0))
    return world.problem.knowing(Place(graph or nx.path_graph(n), ttl))


class TestBudget:
    @pytest.mark.parametrize("mechanism", ["toeplitz", "tree", "fresh"])
    @pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
    def test_one_observation_moves_releases_by_what_noise_is_made_for(self, mechanism, adjacency):
        """Two histories with the same noise, of which one observation differs: in units of the noise's covariance, what
        is released moves by mu at most; and by as much where the observation is as bad as can be.
        """
        algorithm = FedLinUCBNetwork(
            epsilon=1.0, every=2, uploads=6, mechanism=mechanism, adjacency=adjacency, rewards=1.0
        )
        budget = gaussian_mu(1.0, 1e-5)
        moved = [self.moved(algorithm, place, adjacency) for place in range(12)]
        assert max(moved) <= budget * (1 + 1e-9)
        assert max(moved) == pytest.approx(budget, rel=1e-6)

    def test_all_that_an_agent_contributes(self):
        """Everything differs, in both phases: together by mu, since noise is sqrt(2) times that of one phase."""
        algorithm = FedLinUCBNetwork(epsilon=1.0, every=6, uploads=2, unit="agent", most=3, phases=2)
        assert self.moved(algorithm, None, "add-remove") == pytest.approx(gaussian_mu(1.0, 1e-5), rel=1e-6)

    def moved(self, algorithm: FedLinUCBNetwork, place: int | None, adjacency: str) -> float:
        """By how much releases move where the observation in `place`, or all of them, are others."""
        problem = placed()
        runs = []
        for one in range(2):
            agents = algorithm.agents(problem, 1, Streams(np.random.SeedSequence(1), 1))
            runs.append([])
            for turn in range(HORIZON):
                x, y = np.eye(DIM)[0], 1.0
                if one == 1 and place in (None, turn):
                    x, y = (0 * x, 0.0) if adjacency == "add-remove" else (x, -1.0)
                self.told(agents, 3 * x, y)  # longer than it may be: it is cut down
                runs[-1].append(
                    np.concatenate(
                        [agents.sums.part.released.gram, agents.sums.part.released.moment[..., None]], axis=2
                    )
                )
        steps = np.array(runs[0]) - np.array(runs[1])  # (turns, phases, d, d + 1)
        made = agents.sums.part.steps.made
        total, privatizer = 0.0, agents.sums.part
        for g in range(2):
            places = np.flatnonzero(np.abs(np.diff(np.array(runs[0])[:, g], axis=0, prepend=0)).sum(axis=(1, 2)))
            assert len(places) == made[g]
            B = dense(algorithm.mechanism or "toeplitz", privatizer.steps._sums.uploads)[: made[g], : made[g]]
            moved = np.linalg.solve(B, steps[places, g].reshape(made[g], -1)).reshape(made[g], DIM, DIM + 1)
            # of the matrix, entries on the diagonal have twice the variance, and all others stand there twice
            total += float((moved[:, :, :DIM] ** 2).sum() / 2 + (moved[:, :, DIM] ** 2).sum())
        return math.sqrt(total) / privatizer._deviation

    def told(self, agents: NetworkAgents, x: np.ndarray, y: float) -> None:
        one = np.zeros(1, np.int64)
        agents.learn(one, np.array([[x]]), one, np.array([y]))

    @pytest.mark.parametrize("unit", ["observation", "agent"])
    def test_it_is_spent_to_the_last_and_no_further(self, unit):
        algorithm = FedLinUCBNetwork(**SHORT, unit=unit, epsilon=2.0, delta=1e-6)
        network = Given.of(nx.cycle_graph(6), ttl=2)
        before = 0.0
        for event in recorded(algorithm, gap(6), 3 * HORIZON, network=network):
            protection = agents_of(event).protection()
            assert (protection.spent >= before).all()
            before = protection.spent
        assert protection.allowed == 10
        assert (protection.releases == 10).all()
        np.testing.assert_allclose(protection.spent, 2.0, rtol=1e-9)
        assert (protection.spent <= 2.0).all()
        assert (protection.unit, protection.definition) == (unit, "transcript")
        assert agents_of(event).delta == 1e-6

    def test_phases_have_noise_of_their_own(self):
        """And agents: nowhere is the same number drawn twice."""
        algorithm = FedLinUCBNetwork(**SHORT)
        seen = {}  # by place: what no later release is made of is forgotten
        for event in recorded(algorithm, gap(4), HORIZON, network=Given.of(nx.cycle_graph(4), ttl=2)):
            drawn = agents_of(event).sums.part.steps.drawn
            for place in zip(*np.nonzero(drawn), strict=True):
                seen.setdefault(place, set()).add(float(drawn[place]))
        used = [number for numbers in seen.values() for number in numbers]
        assert len(set(used)) == len(used) > 4 * 2 * 3 * 9

    @pytest.mark.parametrize(
        ("parameters", "spent"),
        [
            ({"own": "recent"}, math.inf),
            ({"trigger": "logdet", "leaky": True, "threshold": 0.5}, math.inf),
            ({"epsilon": None}, None),
        ],
    )
    def test_what_is_not_private_says_so(self, parameters, spent):
        algorithm = FedLinUCBNetwork(**SHORT, **parameters)
        trace = fb.simulate(algorithm, gap(4), HORIZON, network=Given.of(nx.cycle_graph(4), ttl=2))
        if spent is None:
            assert trace.privacy is None
            assert not algorithm.about.private
        else:
            assert (trace.privacy.epsilon == spent).all()
        assert algorithm.about.calls == ("data" if "trigger" in parameters else "scheduled")

    @pytest.mark.parametrize(("own", "sees"), [("released", False), ("recent", True)])
    def test_what_agents_choose_follows_from_releases(self, own, sees):
        """Rewards that were not released move no choice; with own="recent" they do."""
        algorithm = FedLinUCBNetwork(**{**SHORT, "first": 20, "uploads": 2}, own=own, phases=1)

        def others(step, rewards):
            return 1 - rewards

        runs = [
            np.array(
                [
                    event.picks
                    for event in recorded(
                        algorithm, gap(5), HORIZON, 2, network=Given.of(nx.complete_graph(5)), told=told
                    )
                ]
            )
            for told in (None, others)
        ]
        first = scheduled(HORIZON, 20, 0.8, 2)[0] + 1
        assert (runs[0][:first] != runs[1][:first]).any() == sees
        assert (runs[0][first:] != runs[1][first:]).any()


class TestConfidence:
    @pytest.mark.parametrize("own", ["released", "recent"])
    @pytest.mark.parametrize("constants", ["exact", "thesis"])
    def test_sets_cover_under_noise(self, own, constants):
        algorithm = FedLinUCBNetwork(**SHORT, epsilon=4.0, own=own, constants=constants)
        trace = fb.simulate(algorithm, gap(6), 150, 3, network=Given.of(nx.cycle_graph(6), ttl=2), coverage=True)
        assert (trace.gauges["coverage"] >= 0.9).all()


class TestParameters:
    @pytest.mark.parametrize(
        ("parameters", "words"),
        [
            ({"trigger": "logdet", "uploads": 9}, ["trigger='logdet'", "leaky=true"]),
            ({"trigger": "logdet", "leaky": True}, ["uploads=32"]),
            ({"trigger": "logdet", "every": 3, "epsilon": None}, ["every=3", "leave one"]),
            ({"unit": "person"}, ["unit='person'", "'observation' or 'agent'"]),
            ({"constants": "thesis", "mechanism": "toeplitz"}, ["mechanism=tree"]),
            ({"constants": "thesis", "unit": "agent"}, ["unit=observation"]),
            ({"epsilon": 0}, ["epsilon", "greater than 0"]),
        ],
    )
    def test_what_does_not_go_together_is_refused(self, parameters, words):
        with pytest.raises(fb.ConfigError) as caught:
            FedLinUCBNetwork(**parameters)
        assert str(caught.value).startswith("fedlinucb-network: ")
        for word in words:
            assert word in str(caught.value)

    def test_rewards_without_bounds_are_refused(self):
        bare = Problem(agents=3, dim=DIM, arms=ARMS, horizon=HORIZON).knowing(Noise(), Place(nx.path_graph(3), 1))
        streams = Streams(np.random.SeedSequence(0), 3)
        with pytest.raises(fb.ConfigError, match="fedlinucb-network:arms=1"):
            FedLinUCBNetwork().agents(bare, 3, streams)
        with pytest.raises(fb.ConfigError, match="fedlinucb-network:rewards=1"):
            FedLinUCBNetwork(arms=1.0).agents(bare, 3, streams)
        assert len(FedLinUCBNetwork(arms=1.0, rewards=1.0).agents(bare, 3, streams)) == 3
        assert len(FedLinUCBNetwork(epsilon=None).agents(bare, 3, streams)) == 3

    def test_a_schedule_that_allows_no_release_is_refused(self):
        with pytest.raises(fb.ConfigError, match="every=50 allows no upload within 18"):
            FedLinUCBNetwork(every=50).agents(placed(), 1, Streams(np.random.SeedSequence(0), 1))

    def test_files_and_commands_can_say_that_there_is_no_budget(self):
        assert FedLinUCBNetwork(epsilon="none") == FedLinUCBNetwork(epsilon=None)

    def test_it_needs_a_network(self):
        with pytest.raises(fb.ConfigError, match="give a network"):
            fb.simulate(FedLinUCBNetwork(), gap(4), 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {"own": "recent"},
        {"epsilon": None},
        {"epsilon": None, "own": "recent", "width": "loose"},
        {"constants": "thesis", "own": "recent"},
        {"trigger": "logdet", "threshold": 1.0, "leaky": True},
        {"trigger": "logdet", "threshold": 1.0, "epsilon": None, "own": "recent"},
        {"unit": "agent", "phases": 3, "mechanism": "fresh"},
        {"mechanism": "tree", "adjacency": "replace", "width": 0.3},
    ],
    ids=str,
)
def test_every_variant_keeps_the_contract(parameters):
    network = Given.of(nx.cycle_graph(6), ttl=2)
    check_algorithm(FedLinUCBNetwork(**SHORT, **parameters), gap(6), network=network, seed=5)
