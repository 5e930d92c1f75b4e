"""Several kinds of message at a time on a graph: each travels as if it were alone, and all of them make one round."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peer_scripts import same
from rumours import DIARY, TOLD, Rumours

import fedbandits as fb
from fedbandits.contract.facts import Place
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.wire import Free, Ragged, Utterance, Wire, WireError, WireField
from fedbandits.environments.armed import BernoulliArms
from fedbandits.graphs.network import Faults, Given
from fedbandits.simulation.loop import Simulation
from fedbandits.testing import check_algorithm
from fedbandits.testing.attendance import ATTENDANCES, Attended
from fedbandits.testing.flood import Flood
from fedbandits.testing.worlds import two_worlds
from fedbandits.transport.relay import relay_for

CLIENTS, HORIZON = 7, 30
RING = nx.cycle_graph(CLIENTS)
SEED = np.random.SeedSequence(5)
TROUBLES = (
    {},
    {"loss": 0.3},
    {"delay": 1.5, "delay_max": 4},
    {"contamination": 0.3, "byzantine": 0.5, "outliers": "cauchy"},
    {"tampering": 0.2, "tamperer": "adaptive", "loss": 0.2, "delay": 1.0, "delay_max": 2, "contamination": 0.1},
)
troubled = pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: "-".join(trouble) or "none")


def arms():
    return BernoulliArms(clients=CLIENTS, arms=3)


@troubled
@pytest.mark.parametrize("attendance", ATTENDANCES)
def test_two_worlds_agree(trouble, attendance):
    """Letter by letter, each kind by itself: same choices, same ledger, same bytes and same memories, to the bit."""
    network = Given.of(RING, ttl=2, **trouble)
    writers = np.zeros(CLIENTS, dtype=np.bool_)
    written = asleep = 0
    for step in two_worlds(Rumours(), Attended(arms(), attendance), HORIZON, 3, network=network):
        together, apart = step.together, step.apart
        np.testing.assert_array_equal(step.picks, step.picks_apart)
        np.testing.assert_array_equal(together.ledger.counts, apart.ledger.counts)
        assert together.ledger.syncs == apart.ledger.syncs
        assert apart.bytes_seen == apart.ledger.peer.bytes
        for joint, alone in zip(together.states(), apart.states(), strict=True):
            assert same(joint, alone)
        written += writers.sum()
        asleep += np.delete(writers, step.turn.who).sum()
        writers = (together.agents.times > 0).sum(axis=1) >= 3  # in the next round
    assert written > 0
    assert together.agents.read.any()
    assert asleep > 0 or attendance == "as it is", "nobody wrote who had not just learned: the test shows nothing"


@troubled
@pytest.mark.parametrize("attendance", ATTENDANCES)
def test_a_resumed_run_goes_on_with_both_kinds_under_way(trouble, attendance):
    network = Given.of(RING, ttl=3, **trouble)
    straight, stopped = (Simulation(Rumours(), Attended(arms(), attendance), HORIZON, 4, network=network) for _ in "ab")
    straight.run()
    under_way = 0
    for _ in range(HORIZON - 1):
        stopped.run(steps=1)
        saved = stopped.state()
        flying = [_flying(saved, f"relay.way{place}.") for place in (0, 1)]
        if all(flying):
            under_way += 1
            if under_way == 3:
                break
    assert under_way == 3, "the two kinds were never under way together: the test shows nothing"
    resumed = Simulation(Rumours(), Attended(arms(), attendance), HORIZON, 4, network=network)
    resumed.load(saved)
    resumed.run()
    assert same(straight.state(), resumed.state())


def _flying(state, prefix):
    if f"{prefix}flying" in state:
        return int(state[f"{prefix}flying"])
    return len(state[f"{prefix}desk.slot"]) + len(state[f"{prefix}due"])


def test_it_keeps_every_promise():
    check_algorithm(Rumours(), arms(), network=Given.of(RING, ttl=2))


POINTS = Utterance("points", "peer", (WireField("x", (Ragged("m"), 2)), WireField("tag", dtype="i8")))
PING = Utterance("ping", "peer")
SPOKEN = (TOLD, POINTS, PING)
WIRE = Wire().speaking(SPOKEN, {})


class Chorus(Population):
    """Peers that say what is written in three kinds, and write down what they hear.

    `lines` has, for each round and kind, the content by agent: arm and reward, points, or nothing at all.
    """

    def __init__(self, n, lines):
        super().__init__(n)
        self.lines = lines
        self.step = 0
        self.heard = []
        self.kinds = []

    def choose(self, who, arms): ...

    def learn(self, who, arms, picks, rewards): ...

    def say(self, learned):
        lines = self.lines[self.step] if self.step < len(self.lines) else {}
        return [self._message(kind, lines[kind]) for kind in sorted(lines)]

    @staticmethod
    def _message(kind, line):
        who = np.array(sorted(line, reverse=True), dtype=np.int64)
        if kind == "told":
            arm, reward = np.array([line[i] for i in who]).reshape(-1, 2).T
            return Message("told", who, {"arm": arm.astype(np.int64), "reward": reward})
        if kind == "ping":
            return Message("ping", who)
        lengths = np.array([len(line[i]) for i in who], dtype=np.int64)
        x = np.zeros((len(who), lengths.max(initial=0), 2))
        for row, i in enumerate(who):
            x[row, : lengths[row]] = line[i]
        return Message("points", who, {"x": x, "tag": 10 * who}, {"m": lengths})

    def hear(self, inbox):
        said = inbox.said
        WIRE.check(said, "peer")
        self.kinds.append((self.step, said.kind))
        for to, row in zip(inbox.to, inbox.row, strict=True):
            content = WIRE.encode(said, row, "peer")
            self.heard.append((self.step, said.kind, int(to), int(said.who[row]), int(inbox.born[row]), content))

    def act(self, relay, rounds, reachable=None):
        for _ in range(rounds):
            relay.round(self, np.arange(0), self.step, None if reachable is None else reachable[self.step])
            self.step += 1

    def flooded(self, floods, ledger, rounds, reachable=None):
        """The same, letter by letter, one flood for each kind."""
        for _ in range(rounds):
            there = None if reachable is None else reachable[self.step]
            said = {message.kind: message for message in self.say(np.arange(0)) if len(message.who)}
            if said:
                ledger.synchronised()
            for kind, flood in floods.items():
                message = said.get(kind)
                rows = enumerate(() if message is None else message.who)
                letters = {int(i): WIRE.encode(message, row, "peer") for row, i in rows}
                read, crossed = flood.round(self.step, letters, there)
                for letter in crossed:
                    arrays = Wire.decode(letter.content)[1]
                    ledger.record(WIRE.gathered(kind, np.zeros(1, np.int64), [arrays], "peer"), "peer", WIRE)
                self.heard += [(self.step, kind, to, one.origin, one.born, one.content) for to, one in read]
            self.step += 1


def relay_on(graph, ttl, faults=None, absences=False, ledger=None, wire=WIRE):
    return relay_for(Place(graph, ttl), faults or Faults(), absences, 3, ledger or Ledger(), wire, SEED)


def floods_on(graph, ttl, faults, absences):
    return {
        utterance.kind: Flood(graph, ttl, faults, absences, 3, WIRE, SEED, order)
        for order, utterance in enumerate(SPOKEN)
    }


def random_lines(n, rounds, rng):
    def content(kind):
        if kind == "told":
            return float(rng.integers(3)), float(rng.normal())
        return rng.normal(size=(rng.integers(4), 2)) if kind == "points" else None

    return [
        {
            one.kind: {i: content(one.kind) for i in range(n) if rng.random() < 0.5}
            for one in SPOKEN
            if rng.random() < 0.7
        }
        for _ in range(rounds)
    ]


def random_setting(seed):
    rng = np.random.default_rng(seed)
    n, delay_max = int(rng.integers(1, 8)), int(rng.integers(4))
    graph = nx.gnp_random_graph(n, rng.choice([0.3, 0.7]), seed=int(rng.integers(10**9)))
    faults = Faults(
        loss=rng.choice([0.0, 0.3]),
        delay=rng.choice([0.0, 0.5]) * delay_max,
        delay_max=delay_max,
        contamination=rng.choice([0.0, 0.0, 0.3]),
        tampering=rng.choice([0.0, 0.0, 0.25]),
    )
    reachable = [rng.random(n) < 0.7 for _ in range(12)] if rng.random() < 0.5 else None
    return graph, faults, reachable, random_lines(n, 8, rng)


@settings(max_examples=30)
@given(st.integers(0, 4), st.integers(0, 10**9))
def test_every_kind_is_flooded_letter_by_letter(ttl, seed):
    """Same letters with the same bytes in the same order, same ledger after every round; ragged ones metered row by
    row, signals weigh nothing, and a round in which anybody spoke is one synchronisation."""
    graph, faults, reachable, lines = random_setting(seed)
    ledgers = Ledger(), Ledger()
    relay = relay_on(graph, ttl, faults, reachable is not None, ledgers[0])
    floods = floods_on(graph, ttl, faults, reachable is not None)
    chorus, by_letter = Chorus(len(graph), lines), Chorus(len(graph), lines)
    for _ in range(12):
        chorus.act(relay, 1, reachable)
        by_letter.flooded(floods, ledgers[1], 1, reachable)
        np.testing.assert_array_equal(ledgers[0].counts, ledgers[1].counts)
        assert ledgers[0].syncs == (ledgers[1].syncs if ttl else 0)
    assert chorus.heard == by_letter.heard
    declared = [utterance.kind for utterance in SPOKEN]
    assert chorus.kinds == sorted(chorus.kinds, key=lambda one: (one[0], declared.index(one[1])))


@settings(max_examples=40)
@given(st.integers(1, 11), st.integers(0, 10**9))
def test_any_round_can_be_the_last_before_a_snapshot(at, seed):
    graph, faults, reachable, lines = random_setting(seed)
    relay, resumed = (relay_on(graph, 3, faults, reachable is not None) for _ in range(2))
    chorus, other = Chorus(len(graph), lines), Chorus(len(graph), lines)
    chorus.act(relay, at, reachable)
    resumed.load(relay.state())
    other.step, other.heard = at, list(chorus.heard)
    chorus.act(relay, 12 - at, reachable)
    other.act(resumed, 12 - at, reachable)
    assert chorus.heard == other.heard
    assert same(relay.state(), resumed.state())


class TestMishaps:
    n, rounds = 20, 30

    def arrivals(self, *spoken):
        wire = Wire().speaking(spoken, {})
        line = dict.fromkeys(range(self.n), (0.0, 1.0))
        lines = [{one.kind: line for one in spoken}] * self.rounds
        chorus = Chorus(self.n, lines)
        chorus.act(relay_on(nx.complete_graph(self.n), 1, Faults(loss=0.5), wire=wire), self.rounds)
        return {one.kind: {letter[2:5] for letter in chorus.heard if letter[1] == one.kind} for one in spoken}

    def test_kinds_fail_independently_of_each_other(self):
        both = self.arrivals(TOLD, PING)
        total = self.n * (self.n - 1) * self.rounds
        spread = 4 * np.sqrt(0.25 / total)
        assert len(both["told"]) / total == pytest.approx(0.5, abs=spread)
        assert len(both["ping"]) / total == pytest.approx(0.5, abs=spread)
        assert len(both["told"] & both["ping"]) / total == pytest.approx(0.25, abs=spread)

    def test_the_first_kind_meets_what_it_would_meet_alone(self):
        assert self.arrivals(TOLD, PING)["told"] == self.arrivals(TOLD)["told"]

    def test_byzantine_agents_are_so_in_every_kind(self):
        other = Utterance("other", "peer", TOLD.fields)
        wire = Wire().speaking([TOLD, other], {})
        faults = Faults(contamination=0.4, byzantine=0.3, outlier=99.0)

        class Twofold(Chorus):
            def _message(self, kind, line):
                told = Chorus._message("told", line)
                return Message(kind, told.who, told.arrays)

            def hear(self, inbox):
                struck = inbox.said.arrays["reward"] == 99.0
                self.heard += [
                    (inbox.said.kind, int(i), int(born))
                    for i, born in zip(inbox.said.who[struck], inbox.born[struck], strict=True)
                ]

        line = dict.fromkeys(range(self.n), (0.0, 1.0))
        chorus = Twofold(self.n, [{"told": line, "other": line}] * self.rounds)
        chorus.act(relay_on(nx.complete_graph(self.n), 1, faults, wire=wire), self.rounds)
        told, other = ({one[1:] for one in chorus.heard if one[0] == kind} for kind in ("told", "other"))
        assert len({i for i, _ in told}) == 6
        assert {i for i, _ in told} == {i for i, _ in other}
        assert told != other


class TestSpeakers:
    def test_who_has_not_learned_may_speak_and_who_is_away_speaks_when_it_is_back(self):
        """On a path 0 - 1 - 2 agent 0 speaks in two kinds while it is away; nobody has learned anything."""
        lines = [{"told": {0: (1.0, 0.5)}, "points": {0: np.ones((2, 2)), 2: np.ones((1, 2))}}]
        reachable = [np.array([step >= 2, True, True]) for step in range(5)]
        chorus = Chorus(3, lines)
        chorus.act(relay_on(nx.path_graph(3), 1, absences=True), 5, reachable)
        assert [letter[:4] for letter in chorus.heard] == [(0, "points", 1, 2), (2, "told", 1, 0), (2, "points", 1, 0)]

    def test_where_messages_live_for_no_hop_nobody_is_asked(self):
        chorus, ledger = Chorus(3, [{"told": {0: (0.0, 1.0)}}]), Ledger()
        chorus.say = None
        chorus.act(relay_on(nx.path_graph(3), 0, ledger=ledger), 3)
        assert ledger.syncs == 0
        assert chorus.heard == []


class TestDoor:
    def chorus(self):
        return Chorus(3, [{"told": {0: (0.0, 1.0)}, "points": {1: np.ones((2, 2))}}, {"ping": {2: None}}])

    @pytest.mark.parametrize("absences", [False, True])
    @pytest.mark.parametrize("change", ["lacks", "unknown", "another kind", "lengths"])
    def test_a_snapshot_that_does_not_fit_changes_no_kind(self, absences, change):
        chorus, relay = self.chorus(), relay_on(nx.path_graph(3), 3, absences=absences)
        chorus.act(relay, 1)
        broken = relay.state()
        length = "way1.length.m" if absences else "way1.0.length.m"
        kind = "way1.kind" if absences else "way1.0.kind"
        if change == "lacks":
            del broken[kind]
        elif change == "unknown":
            broken["more"] = np.zeros(1)
        elif change == "another kind":
            broken[kind] = np.frombuffer(b"told", np.uint8)
        else:
            broken[length] = broken[length] + 9
        chorus.act(relay, 1)
        before = relay.state()
        with pytest.raises(ValueError, match=r"lacks|unknown|declared"):
            relay.load(broken)
        assert same(relay.state(), before)

    def test_a_free_size_may_not_change_while_messages_are_under_way(self):
        wire = Wire().speaking([Utterance("free", "peer", (WireField("x", (Free("k"),)),))], {})

        class Growing(Chorus):
            def say(self, learned):
                return [Message("free", np.arange(1), {"x": np.zeros((1, self.step))})]

            def hear(self, inbox): ...

        for absences in (False, True):
            growing = Growing(3, [])
            with pytest.raises(WireError, match=r"x float64\[1\]\) while .*x float64\[0\]\) is under way"):
                growing.act(relay_on(nx.path_graph(3), 2, absences=absences, wire=wire), 2)

    def test_ragged_rewards_cannot_be_corrupted(self):
        raw = Utterance("points", "peer", (WireField("x", (Ragged("m"),), raw=True),))
        with pytest.raises(fb.ConfigError, match="cannot change 'x'"):
            relay_on(nx.path_graph(3), 1, Faults(tampering=0.1), wire=Wire().speaking([TOLD, raw], {}))


def test_diaries_are_declared_ragged():
    assert [item.ragged for item in DIARY.fields] == [((0, "m"),), ((0, "m"),)]
