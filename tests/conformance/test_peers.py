"""Agents that talk on a graph: the relay delivers and counts what flooding, letter by letter, would, in both worlds."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from conformance.gossip import FRESH, GossipLinUCB
from conformance.subjects import CLIENTS, HORIZON, home, subject
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Place
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.wire import Utterance, Wire, WireField, vector
from fedbandits.graphs.network import Faults, Given
from fedbandits.simulation.loop import Simulation
from fedbandits.testing.breach import same
from fedbandits.testing.flood import Flood
from fedbandits.testing.worlds import two_worlds
from fedbandits.transport.relay import Relay, relay_for

NAME = GossipLinUCB.about.name
NAMING = Utterance("name", "peer", (vector("tag", 2),))
TOLD = Utterance("told", "peer", (WireField("arm", dtype="i8"), WireField("reward", raw=True)))


def quiet_relay(graph: nx.Graph, hops: int, ledger: Ledger, said: Utterance = NAMING) -> Relay:
    """The relay on a graph where nothing goes wrong."""
    wire = Wire().speaking([said], {"d": 5})
    return relay_for(Place(graph, hops), Faults(), False, 0, ledger, wire, np.random.SeedSequence(0))


class Parrots:
    """Peers that say who they are and when, and write down what they hear."""

    def __init__(self, speakers):
        self.speakers = speakers
        self.step = 0
        self.heard = []

    def say(self, learned):
        names = np.array(sorted(self.speakers[self.step]), dtype=np.int64)
        if len(names) == 0:
            return []
        tags = np.stack([names, np.full(len(names), self.step)], axis=1).astype(float)
        return [Message("name", names, {"tag": tags})]

    def hear(self, inbox):
        tags = inbox.said.arrays["tag"]
        np.testing.assert_array_equal(tags[:, 0], inbox.said.who)
        np.testing.assert_array_equal(tags[:, 1], inbox.born)
        self.heard += [
            (self.step, int(to), int(inbox.said.who[row]), int(inbox.born[row]))
            for to, row in zip(inbox.to, inbox.row, strict=True)
        ]


@st.composite
def networks(draw):
    n = draw(st.integers(1, 9))
    pairs = [(u, v) for u in range(n) for v in range(u, n)]
    graph = nx.empty_graph(n)
    graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), max_size=2 * n)))
    return graph


@given(networks(), st.integers(0, 5), st.data())
def test_closed_form_equals_flooding(network, ttl, data):
    """Same deliveries in the same rounds, each once, and the same number of links crossed."""
    nodes = st.sets(st.sampled_from(sorted(network)))
    speakers = data.draw(st.lists(nodes, min_size=1, max_size=6)) + [set()] * ttl
    peers, ledger = Parrots(speakers), Ledger()
    relay, flood = quiet_relay(network, ttl, ledger), Flood(network, ttl)
    expected, links = [], 0
    for step, said in enumerate(speakers):
        peers.step = step
        relay.round(peers, np.arange(len(network)), step)
        read, crossed = flood.round(step, dict.fromkeys(said, b""))
        expected += [(step, to, letter.origin, letter.born) for to, letter in read]
        links += len(crossed)
        assert ledger.peer.messages == links
    assert sorted(peers.heard) == sorted(expected)
    assert len(set(peers.heard)) == len(peers.heard)
    assert ledger.peer.scalars == 2 * links
    if ttl:
        assert ledger.syncs == sum(map(bool, speakers))


def test_a_message_reaches_exactly_the_agents_within_its_life():
    """On a path of five, said in the middle with two hops to live: round 0 reaches 1 and 3, round 1 reaches 0 and 4."""
    peers = Parrots([{2}, set(), set()])
    ledger = Ledger()
    relay = quiet_relay(nx.path_graph(5), 2, ledger)
    for step in range(3):
        peers.step = step
        relay.round(peers, np.arange(5), step)
    assert sorted(peers.heard) == [(0, 1, 2, 0), (0, 3, 2, 0), (1, 0, 2, 0), (1, 4, 2, 0)]
    assert ledger.peer.messages == 2 + 4  # the origin's two links, then two links of each neighbour


def test_hearing_equals_pooling_what_was_said():
    """Complete graph, one hop: every agent knows everybody's observations, as under central LinUCB."""
    env = home(NAME)
    gossip = Simulation(GossipLinUCB(), env, HORIZON, 1, network=nx.complete_graph(CLIENTS))
    central = Simulation(fb.algorithms.CentralLinUCB(), env, HORIZON, 1)
    gossip.run()
    central.run()
    np.testing.assert_allclose(gossip.agents.models.theta, central.agents.models.theta, atol=1e-9)
    np.testing.assert_allclose(gossip.trace().regret, central.trace().regret)


def test_without_links_everybody_is_alone():
    env = home(NAME)
    gossip = fb.simulate(GossipLinUCB(), env, HORIZON, 1, network=Given.of(nx.empty_graph(CLIENTS), ttl=3))
    alone = fb.simulate(fb.algorithms.IndependentLinUCB(), env, HORIZON, 1)
    np.testing.assert_allclose(gossip.regret, alone.regret)
    assert gossip.messages[-1] == 0


def test_more_hops_mean_less_regret_and_more_messages():
    env = home(NAME, clients=12)
    ring = nx.cycle_graph(12)
    runs = {
        ttl: [fb.simulate(GossipLinUCB(), env, 100, seed, network=Given.of(ring, ttl=ttl)) for seed in range(5)]
        for ttl in (0, 1, 6)
    }
    regret = {ttl: np.mean([trace.regret[-1] for trace in traces]) for ttl, traces in runs.items()}
    assert regret[6] < regret[1] < regret[0]
    per_step = runs[1][0].peerlink.messages[0]
    assert per_step == 12 * 2
    d = 5
    assert runs[1][0].peerlink.scalars[0] == per_step * (d * d + d)
    assert runs[0][0].messages[-1] == 0
    assert runs[6][0].uplink.messages[-1] == runs[6][0].downlink.messages[-1] == 0


def test_letters_under_way_are_part_of_the_snapshot():
    gossip = subject(NAME)
    run = gossip.simulation()
    run.run(steps=10)
    saved = run.state()
    run.run()
    forgetful = {key: value for key, value in saved.items() if not key.startswith("relay.")}
    forgetful["relay.flying"] = np.array(0)
    resumed, lossy = gossip.simulation(), gossip.simulation()
    resumed.load(saved)
    resumed.run()
    lossy.load(forgetful)
    lossy.run()
    assert same(resumed.state(), run.state())
    assert not same(lossy.state(), run.state()), "no letter was under way: the test shows nothing"


@dataclass(frozen=True)
class Chatter:
    """Everybody tells what it got for which arm, and takes the arm with the best sum of what it saw and heard."""

    about = About("chatter", "armed", "graph", "after every reward", (TOLD,), "none", "test")

    def agents(self, problem, n, rng):
        return Chatterers(problem.arms, n)

    def server(self, problem, n, rng):
        return None


class Chatterers(Population):
    keeps = ("total", "last", "got", "turns")

    def __init__(self, arms, n):
        super().__init__(n)
        self.total, self.turns = np.zeros((n, arms)), np.zeros(n, dtype=np.int64)
        self.last, self.got = np.zeros(n, dtype=np.int64), np.zeros(n)

    def choose(self, who, arms):
        first = self.turns[who] < arms.shape[1]
        return np.where(first, self.turns[who], self.total[who].argmax(axis=1))

    def learn(self, who, arms, picks, rewards):
        self.turns[who] += 1
        self.last[who], self.got[who] = picks, rewards
        self.total[who, picks] += rewards

    def say(self, learned):
        return [Message("told", learned, {"arm": self.last[learned], "reward": self.got[learned]})]

    def hear(self, inbox):
        arm, reward = (inbox.said.arrays[name][inbox.row] for name in ("arm", "reward"))
        np.add.at(self.total, (inbox.to, arm), reward)


class TestTrouble:
    """Whatever befalls messages, it befalls them alike in both worlds, and a resumed run goes on."""

    troubles = (
        {"loss": 0.3},
        {"delay": 1.5, "delay_max": 4},
        {"contamination": 0.3, "byzantine": 0.5, "outliers": "cauchy"},
        {"tampering": 0.2},
        {"tampering": 0.2, "tamperer": "adaptive", "loss": 0.2, "delay": 1.0, "delay_max": 2, "contamination": 0.1},
    )

    @pytest.mark.parametrize("stragglers", [pytest.param(0.0, marks=pytest.mark.slow), 0.5])
    @pytest.mark.parametrize("trouble", troubles, ids=lambda trouble: "-".join(trouble))
    def test_two_worlds_agree(self, trouble, stragglers):
        env = home(NAME, stragglers=stragglers, presence=0.4)
        network = Given.of(nx.cycle_graph(CLIENTS), ttl=2, **trouble)
        for step in two_worlds(Chatter(), env, HORIZON, 3, network=network):
            together, apart = step.together, step.apart
            np.testing.assert_array_equal(step.picks, step.picks_apart)
            np.testing.assert_array_equal(together.ledger.counts, apart.ledger.counts)
            assert apart.bytes_seen == apart.ledger.peer.bytes
            for joint, alone in zip(together.states(), apart.states(), strict=True):
                assert same(joint, alone)
        clean = list(two_worlds(Chatter(), env, HORIZON, 3, network=Given.of(nx.cycle_graph(CLIENTS), ttl=2)))[-1]
        assert not same(clean.together.agents.state(), together.agents.state()), "the trouble made no difference"

    @pytest.mark.parametrize("trouble", troubles, ids=lambda trouble: "-".join(trouble))
    def test_a_resumed_run_goes_on(self, trouble):
        env = home(NAME, stragglers=0.5, presence=0.4)
        straight, stopped, resumed = (
            Simulation(Chatter(), env, HORIZON, 4, network=Given.of(nx.cycle_graph(CLIENTS), ttl=2, **trouble))
            for _ in range(3)
        )
        straight.run()
        stopped.run(steps=HORIZON // 2)
        resumed.load(stopped.state())
        resumed.run()
        assert same(straight.state(), resumed.state())

    def test_stragglers_send_less(self):
        """Linear agents on a graph, half of them seldom there: all that was sent is on the ledger of both worlds."""
        network = Given.of(nx.cycle_graph(CLIENTS), ttl=2)
        runs = [
            list(two_worlds(GossipLinUCB(), home(NAME, stragglers=share, presence=0.3), HORIZON, 6, network=network))
            for share in (0.0, 0.5)
        ]
        always, seldom = (run[-1] for run in runs)
        for last in (always, seldom):
            np.testing.assert_array_equal(last.together.ledger.counts, last.apart.ledger.counts)
        assert 0 < seldom.together.ledger.peer.messages < always.together.ledger.peer.messages

    def test_rewards_cannot_be_corrupted_where_none_are_sent(self):
        network = Given.of(nx.cycle_graph(CLIENTS), tampering=0.1)
        with pytest.raises(fb.ConfigError, match="network: corruption changes the rewards"):
            fb.simulate(GossipLinUCB(), home(NAME), 3, network=network)


class TestNetworkIsChecked:
    def test_missing(self):
        with pytest.raises(fb.ConfigError, match="give a network"):
            fb.simulate(GossipLinUCB(), home(NAME), 3)

    @pytest.mark.parametrize("nodes", [CLIENTS - 1, CLIENTS + 1])
    def test_of_another_size(self, nodes):
        with pytest.raises(fb.ConfigError, match=f"one node for each of {CLIENTS} agents"):
            fb.simulate(GossipLinUCB(), home(NAME), 3, network=nx.cycle_graph(nodes))

    def test_directed(self):
        with pytest.raises(ValueError, match="directed"):
            fb.simulate(GossipLinUCB(), home(NAME), 3, network=nx.cycle_graph(CLIENTS, create_using=nx.DiGraph))

    def test_named_nodes(self):
        graph = nx.relabel_nodes(nx.cycle_graph(CLIENTS), {0: "zero"})
        with pytest.raises(ValueError, match=r"0\.\.n-1"):
            fb.simulate(GossipLinUCB(), home(NAME), 3, network=graph)

    def test_negative_life(self):
        with pytest.raises(ValueError, match="ttl"):
            fb.simulate(GossipLinUCB(), home(NAME), 3, network=Given.of(nx.cycle_graph(CLIENTS), ttl=-1))

    def test_undeclared_letters_are_refused(self):
        class Chatty(Parrots):
            pass

        relay = quiet_relay(nx.path_graph(3), 1, Ledger(), FRESH)
        with pytest.raises(ValueError, match="never declared"):
            relay.round(Chatty([{0}]), np.arange(3), 0)


def test_agents_know_their_network():
    """The fact `Place` holds the graph given to the simulation."""
    seen = []

    class Curious(GossipLinUCB):
        def agents(self, problem, n, rng):
            seen.append(problem.get(Place).graph)
            return super().agents(problem, n, rng)

    ring = nx.cycle_graph(CLIENTS)
    fb.simulate(Curious(), home(NAME), 3, network=ring)
    assert nx.utils.graphs_equal(seen[0], ring)
