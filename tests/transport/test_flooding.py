"""Flooding in arrays: what flooding letter by letter does, to the bit, under everything that may happen."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peer_scripts import TOLD, Script, same

from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Place
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Utterance, Wire, WireError, WireField
from fedbandits.graphs.network import Faults
from fedbandits.testing.flood import Flood
from fedbandits.transport.corruption import Corruption
from fedbandits.transport.flooding import PATIENCE, Flooding
from fedbandits.transport.mishaps import mishaps_of
from fedbandits.transport.relay import Relay, relay_for

ARMS = 3
WIRE = Wire().speaking([TOLD], {})
SEED = np.random.SeedSequence(7)


def flooding(network, ttl, faults=None, absences=False, ledger=None, wire=WIRE):
    """A relay that floods, even where nothing goes wrong."""
    place, faults, ledger = Place(network, ttl), faults or Faults(), ledger or Ledger()
    ways = {}
    for order, utterance in enumerate(wire.utterances):
        mishaps = mishaps_of(faults, SEED, order)
        corruption = Corruption(faults, mishaps, len(network), ARMS, utterance)
        ways[utterance.kind] = Flooding(place, mishaps, corruption, absences, ledger, wire)
    return Relay(place, ways, ledger, wire)


seeds = st.integers(0, 10**9)


def random_graph(rng):
    """Up to nine agents, from few links, and loops that are none, to nearly all."""
    n = int(rng.integers(1, 10))
    graph = nx.gnp_random_graph(n, rng.choice([0.2, 0.4, 0.8]), seed=int(rng.integers(10**9)))
    graph.add_edge(0, 0)
    return graph


def lines(n, rounds, density, rng):
    """What every agent says in every round, if it says anything."""
    return [
        {i: (int(rng.integers(ARMS)), float(rng.normal())) for i in range(n) if rng.random() < density}
        for _ in range(rounds)
    ]


def random_troubles(rng):
    delay_max = int(rng.integers(5))
    return Faults(
        loss=rng.choice([0.0, 0.1, 0.5]),
        delay=rng.choice([0.0, 0.3, 0.5, 1.0]) * delay_max,
        delay_max=delay_max,
        contamination=rng.choice([0.0, 0.3]),
        byzantine=rng.choice([1.0, 0.5]),
        outliers=str(rng.choice(["constant", "gaussian", "cauchy"])),
        tampering=rng.choice([0.0, 0.25]),
        tamperer=str(rng.choice(["uniform", "adaptive"])),
    )


@given(st.integers(0, 5), seeds)
def test_where_nothing_goes_wrong_it_is_the_closed_form(ttl, seed):
    """Same letters in the same order, same ledger after every round; and so says flooding letter by letter."""
    rng = np.random.default_rng(seed)
    network = random_graph(rng)
    said = lines(len(network), 6, rng.choice([0.2, 0.6, 1.0]), rng)
    ledgers = Ledger(), Ledger()
    closed = relay_for(Place(network, ttl), Faults(), False, ARMS, ledgers[1], WIRE, SEED)
    relays = flooding(network, ttl, ledger=ledgers[0]), closed
    scripts = Script(said), Script(said), Script(said)
    flood = Flood(network, ttl)
    links = 0
    for _ in range(6 + ttl):
        for script, relay in zip(scripts, relays, strict=False):
            script.act(relay, 1)
        links += sum(scripts[2].flooded(flood, WIRE, 1))
        np.testing.assert_array_equal(ledgers[0].counts, ledgers[1].counts)
        assert ledgers[0].syncs == ledgers[1].syncs
        assert ledgers[0].peer.messages == links
    assert scripts[0].heard == scripts[1].heard == scripts[2].heard


@settings(max_examples=400)
@given(st.integers(0, 4), seeds)
def test_it_is_flooding_letter_by_letter(ttl, seed):
    """Same letters with the same content in the same order, and as many links crossed in every round."""
    rng = np.random.default_rng(seed)
    network, faults, presence = random_graph(rng), random_troubles(rng), rng.choice([1.0, 0.7, 0.3])
    n, rounds = len(network), 12
    said = lines(n, rounds - 4, 0.6, rng)
    reachable = [rng.random(n) < presence for _ in range(rounds)] if presence < 1 else None
    absences = reachable is not None
    ledger = Ledger()
    script, by_letter = Script(said), Script(said)
    relay = flooding(network, ttl, faults, absences, ledger)
    flood = Flood(network, ttl, faults, absences, ARMS, WIRE, SEED)
    links = 0
    for _ in range(rounds):
        script.act(relay, 1, reachable)
        links += sum(by_letter.flooded(flood, WIRE, 1, reachable))
        assert ledger.peer.messages == links
    assert script.heard == by_letter.heard


@settings(max_examples=40)
@given(st.integers(1, 11), seeds)
def test_any_round_can_be_the_last_before_a_snapshot(at, seed):
    rng = np.random.default_rng(seed)
    network, faults = random_graph(rng), random_troubles(rng)
    n, rounds, ttl = len(network), 12, 3
    said = lines(n, rounds - 4, 0.6, rng)
    reachable = [rng.random(n) < 0.7 for _ in range(rounds)]
    relay, script = flooding(network, ttl, faults, True), Script(said)
    script.act(relay, at, reachable)
    saved = relay.state()
    resumed, other = flooding(network, ttl, faults, True), Script(said)
    resumed.load(saved)
    other.step, other.heard = at, list(script.heard)
    script.act(relay, rounds - at, reachable)
    other.act(resumed, rounds - at, reachable)
    assert script.heard == other.heard
    assert same(relay.state(), resumed.state())


class TestAbsence:
    """On a path 0 - 1 - 2, where only agent 0 speaks, in round 0."""

    path = nx.path_graph(3)

    def heard(self, away, ttl=2, rounds=6, ledger=None, spoken=None):
        reachable = [np.array([i not in away.get(step, ()) for i in range(3)]) for step in range(rounds)]
        script = Script(spoken or [{0: (0, 1.0)}])
        script.act(flooding(self.path, ttl, absences=True, ledger=ledger), rounds, reachable)
        return [(step, to) for step, to, *_ in script.heard]

    def test_nobody_is_away(self):
        assert self.heard({}) == [(0, 1), (1, 2)]

    def test_who_is_away_forwards_when_it_is_back(self):
        assert self.heard({1: {1}, 2: {1}}) == [(0, 1), (3, 2)]

    def test_what_arrives_for_who_is_away_is_lost(self):
        ledger = Ledger()
        assert self.heard({0: {1}}, ledger=ledger) == []
        assert ledger.peer.messages == 1, "it was sent all the same"
        assert self.heard({1: {2}}) == [(0, 1)]

    def test_another_copy_may_come_later(self):
        """On a ring of four, agent 2 misses the copy from 1 and gets the one that 3 was late with."""
        reachable = [np.array([step != 9, True, step != 1, step != 1]) for step in range(4)]
        script = Script([{0: (0, 1.0)}])
        script.act(flooding(nx.cycle_graph(4), 2, absences=True), 4, reachable)
        assert [(step, to) for step, to, *_ in script.heard] == [(0, 1), (0, 3), (2, 2)]

    def test_own_words_wait_too(self):
        assert self.heard({0: {0}, 1: {0}}, ttl=1) == [(2, 1)]

    def test_a_silent_agent_can_be_away_for_long(self):
        assert self.heard({step: {2} for step in range(6)}) == [(0, 1)]

    @pytest.mark.parametrize(("back", "reached"), [(1 + PATIENCE, True), (2 + PATIENCE, False)])
    def test_patience_has_an_end(self, back, reached):
        """With two hops the last forward is due at age 1; it may be late by `PATIENCE` rounds and no more."""
        away = {step: {1} for step in range(1, back)}
        assert self.heard(away, rounds=back + 3) == [(0, 1)] + [(back, 2)] * reached

    def test_memory_is_bounded_where_an_agent_never_comes_back(self):
        rounds = 5 * PATIENCE
        relay = flooding(self.path, 2, absences=True)
        reachable = [np.array([True, step == 0, True]) for step in range(rounds)]
        script = Script([dict.fromkeys(range(3), (0, 0.0))] * rounds)
        script.act(relay, PATIENCE + 2, reachable)
        size = {name: array.size for name, array in relay.state().items()}
        script.act(relay, rounds - PATIENCE - 2, reachable)
        after = {name: array.size for name, array in relay.state().items()}
        assert after["desk.slot"] == PATIENCE + 2, "its own words of the rounds that still count"
        assert all(after[name] <= size[name] for name in size)


class TestFaults:
    def test_a_constant_delay_shifts_every_hop(self):
        script = Script([{0: (0, 1.0)}])
        script.act(flooding(nx.path_graph(4), 3, Faults(delay=2.0, delay_max=2)), 12)
        assert [(step, to) for step, to, *_ in script.heard] == [(2, 1), (5, 2), (8, 3)]

    def test_losses_are_metered_and_have_their_rate(self):
        n, rounds = 40, 50
        ledger = Ledger()
        script = Script([dict.fromkeys(range(n), (0, 0.0))] * rounds)
        script.act(flooding(nx.complete_graph(n), 1, Faults(loss=0.3), ledger=ledger), rounds)
        sent = n * (n - 1) * rounds
        assert ledger.peer.messages == sent
        assert len(script.heard) / sent == pytest.approx(0.7, abs=4 * np.sqrt(0.21 / sent))

    def test_two_algorithms_under_one_seed_meet_the_same_failures(self):
        """Whatever they say, and even if one of them speaks less."""
        n, rounds = 12, 10
        rng = np.random.default_rng(0)
        graph = nx.cycle_graph(n)
        everybody = lines(n, rounds, 1.0, rng)
        fewer = [dict.fromkeys(range(0, n, 2), (0, -1.0)) for _ in range(rounds)]
        heard = []
        for said in (everybody, fewer):
            script = Script(said)
            script.act(flooding(graph, 2, Faults(loss=0.4, delay=1.0, delay_max=4)), rounds)
            heard.append({letter[:4] for letter in script.heard if letter[2] % 2 == 0})
        assert heard[0] == heard[1]
        assert heard[0]

    @pytest.mark.parametrize("tamperer", ["uniform", "adaptive"])
    def test_tampering_is_bounded_by_the_hops(self, tamperer):
        """On a path the hops are the distance."""
        n, rounds, most = 7, 20, 0.25
        said = lines(n, rounds, 0.7, np.random.default_rng(1))
        script = Script(said)
        script.act(flooding(nx.path_graph(n), 4, Faults(tampering=most, tamperer=tamperer)), rounds)
        off = np.array([reward - said[born][origin][1] for _, _, origin, born, _, reward in script.heard])
        hops = np.array([abs(to - origin) for _, to, origin, *_ in script.heard])
        assert (np.abs(off) <= most * hops + 1e-12).all()
        if tamperer == "uniform":
            assert (off > 0).all()
            for distance in (1, 2, 3):
                mean = off[hops == distance].mean()
                spread = most * np.sqrt(distance / 12 / (hops == distance).sum())
                assert mean == pytest.approx(distance * most / 2, abs=4 * spread)
        else:
            assert set(np.round(off[hops == 1] / most).tolist()) == {-1.0, 1.0}

    def test_contamination_is_the_same_for_all_receivers(self):
        n, rounds = 8, 30
        said = lines(n, rounds, 1.0, np.random.default_rng(2))
        script = Script(said)
        script.act(flooding(nx.complete_graph(n), 1, Faults(contamination=0.4, outliers="cauchy")), rounds)
        versions = {}
        for _, _, origin, born, _, reward in script.heard:
            versions.setdefault((origin, born), set()).add(reward)
        assert all(len(values) == 1 for values in versions.values())
        struck = sum(said[born][origin][1] not in values for (origin, born), values in versions.items())
        assert struck / len(versions) == pytest.approx(0.4, abs=4 * np.sqrt(0.24 / len(versions)))


def test_of_copies_with_equal_life_the_lowest_sender_is_read():
    """On a ring of four the far side gets two copies at once, tampered with differently: the one by way of agent 1."""
    faults = Faults(tampering=1.0)
    ring, line = (Script([{0: (0, 0.0)}]) for _ in range(2))
    ring.act(flooding(nx.cycle_graph(4), 2, faults), 3)
    graph = nx.path_graph(4)  # where there is no other way
    line.act(flooding(graph, 2, faults), 3)
    assert [letter for letter in ring.heard if letter[1] == 2] == [letter for letter in line.heard if letter[1] == 2]


class TestDoor:
    def test_another_form_may_come_once_nothing_is_under_way(self):
        more = Utterance("told", "peer", (*TOLD.fields, WireField("v", (2,), optional=True)))
        wire = Wire().speaking([more], {})

        class Changing(Script):
            def say(self, learned):
                said = super().say(learned)
                return [
                    Message("told", one.who, {**one.arrays, "v": np.ones((1, 2))}) for one in said * (self.step == 3)
                ] or said

            def hear(self, inbox):
                self.heard.append((self.step, len(inbox.said.arrays)))

        script = Changing([{0: (0, 1.0)}, {}, {}, {1: (0, 1.0)}])
        script.act(flooding(nx.path_graph(3), 2, wire=wire), 5)
        assert script.heard == [(0, 2), (1, 2), (3, 3)]
        script = Changing([{}, {}, {0: (0, 1.0)}, {1: (0, 1.0)}])
        with pytest.raises(WireError, match="must have the same fields every time"):
            script.act(flooding(nx.path_graph(3), 2, wire=wire), 5)

    def test_rounds_come_one_after_another(self):
        script = Script([{0: (0, 1.0)}])
        relay = flooding(nx.path_graph(3), 2, Faults(delay=2.0, delay_max=2))
        script.act(relay, 1)
        for step in (0, 5):
            script.step = step
            with pytest.raises(ValueError, match="one after another"):
                script.act(relay, 1)

    def test_life_is_not_negative(self):
        with pytest.raises(ValueError, match="ttl"):
            flooding(nx.path_graph(3), -1)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("born", np.zeros(1, dtype=np.int64)),
            ("desk.life", np.zeros(1)),
            ("under_way.at", np.zeros(1, dtype=np.int64)),
            ("posted.reward", np.zeros(3)),
            ("more", np.zeros(3)),
            ("due", None),
            ("due", np.zeros(5, dtype=np.int64)),
            ("desk.at", np.full(1, 3)),
            ("desk.seat", np.full(1, -1)),
            ("kind", np.zeros(0, dtype=np.uint8)),
        ],
    )
    def test_a_snapshot_that_does_not_fit_changes_nothing(self, name, value):
        relay, script = flooding(nx.path_graph(3), 2, absences=True), Script([{0: (0, 1.0)}, {1: (1, 2.0)}])
        script.act(relay, 1)
        broken = relay.state() | {name: value}
        if value is None:
            del broken[name]
        script.act(relay, 1)
        before = relay.state()
        with pytest.raises(ValueError, match=r"snapshot|needs one row"):
            relay.load(broken)
        assert same(relay.state(), before)


def test_messages_that_would_live_too_long_are_refused():
    with pytest.raises(ConfigError, match="lower ttl or delay_max"):
        flooding(nx.path_graph(2), 2, Faults(delay=1.0, delay_max=40_000))
