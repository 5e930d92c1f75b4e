"""Which relay is picked, and the closed form: its order, its economy, its snapshots and its door."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from peer_scripts import TOLD, Script

from fedbandits.contract.arrays import IntArray
from fedbandits.contract.facts import Place
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.contract.post import ABREAST
from fedbandits.contract.wire import Utterance, Wire, WireError, WireField
from fedbandits.graphs.network import Faults
from fedbandits.transport.closed_form import ClosedForm
from fedbandits.transport.flooding import Flooding
from fedbandits.transport.letters import in_order
from fedbandits.transport.relay import relay_for

WIRE = Wire().speaking([TOLD], {})


class Crowd:
    """Peers who all speak in every round, in a buffer that they use again, and keep the inboxes."""

    def __init__(self, n: int) -> None:
        self.rewards = np.zeros(n)
        self.step = 0
        self.inboxes = []

    def say(self, learned: IntArray) -> list[Message]:
        self.rewards[:] = self.step
        return [Message("told", learned, {"arm": learned.copy(), "reward": self.rewards})]

    def hear(self, inbox):
        self.inboxes.append(inbox)

    def act(self, relay, rounds):
        for _ in range(rounds):
            relay.round(self, np.arange(len(self.rewards)), self.step)
            self.step += 1


@pytest.mark.parametrize(
    ("faults", "absences", "kind"),
    [
        (Faults(), False, ClosedForm),
        (Faults(delay_max=3, byzantine=0.5, outlier=3.0), False, ClosedForm),
        (Faults(), True, Flooding),
        (Faults(loss=0.1), False, Flooding),
        (Faults(delay=0.1, delay_max=1), False, Flooding),
        (Faults(contamination=0.1), False, Flooding),
        (Faults(tampering=0.1), False, Flooding),
    ],
)
def test_flooding_is_for_networks_on_which_something_may_happen(faults, absences, kind):
    relay = relay_for(Place(nx.cycle_graph(4), 2), faults, absences, 2, Ledger(), WIRE, np.random.SeedSequence(0))
    assert [type(way) for way in relay._ways.values()] == [kind]


def closed(graph, ttl, ledger=None, wire=WIRE):
    """The relay where nothing goes wrong."""
    return relay_for(Place(graph, ttl), Faults(), False, 2, ledger or Ledger(), wire, np.random.SeedSequence(0))


def test_the_order_is_stable():
    keys = np.random.default_rng(0).integers(7, size=500)
    np.testing.assert_array_equal(in_order(keys, 7), np.argsort(keys, kind="stable"))


class TestClosedForm:
    n, ttl = 60, 3
    graph = nx.barabasi_albert_graph(n, 2, seed=3)

    def test_letters_are_sorted_by_receiver_then_newest_first_then_by_origin(self):
        crowd = Crowd(self.n)
        crowd.act(closed(self.graph, self.ttl), 6)
        distance = dict(nx.all_pairs_shortest_path_length(self.graph))
        for step, inbox in enumerate(crowd.inboxes):
            expected = [
                (to, -(step - distance[to][origin] + 1), origin)
                for to in range(self.n)
                for origin in range(self.n)
                if 0 < distance[to][origin] <= min(self.ttl, step + 1)
            ]
            columns = (inbox.to, -inbox.born[inbox.row], inbox.said.who[inbox.row])
            letters = list(zip(*(column.tolist() for column in columns), strict=True))
            assert letters == sorted(expected)

    def test_what_is_under_way_is_a_copy(self):
        """The crowd speaks from one buffer; what it said before must not follow what it says now."""
        crowd = Crowd(self.n)
        crowd.act(closed(self.graph, self.ttl), 5)
        for inbox in crowd.inboxes:
            np.testing.assert_array_equal(inbox.said.arrays["reward"], inbox.born)
            np.testing.assert_array_equal(inbox.said.arrays["arm"], inbox.said.who)

    def test_while_the_same_agents_speak_addresses_are_written_once(self):
        crowd = Crowd(self.n)
        crowd.act(closed(self.graph, self.ttl), 8)
        steady = crowd.inboxes[self.ttl - 1 :]
        assert len({id(inbox.to) for inbox in steady}) == len({id(inbox.row) for inbox in steady}) == 1
        assert not np.array_equal(crowd.inboxes[0].to, steady[0].to)
        with pytest.raises(ValueError, match="read-only"):
            steady[0].to[0] = 1

    def test_links_are_counted_exactly(self):
        crowd, ledger = Crowd(self.n), Ledger()
        crowd.act(closed(self.graph, self.ttl, ledger), 5)
        distance = dict(nx.all_pairs_shortest_path_length(self.graph))
        links = sum(
            self.graph.degree[v] * max(0, 5 - distance[u][v])
            for u in self.graph
            for v in self.graph
            if distance[u][v] < self.ttl
        )
        assert ledger.peer.messages == links
        assert ledger.peer.scalars == 2 * links
        assert ledger.syncs == 5

    def test_a_resumed_relay_goes_on(self):
        said = [{i: (0, float(step)) for i in range(0, self.n, step + 1)} for step in range(6)]
        relay, script = closed(self.graph, self.ttl), Script(said)
        script.act(relay, 3)
        resumed, other = closed(self.graph, self.ttl), Script(said)
        resumed.load(relay.state())
        other.step, other.heard = 3, list(script.heard)
        script.act(relay, 5)
        other.act(resumed, 5)
        assert script.heard == other.heard

    def test_nobody_hears_nothing(self):
        crowd = Crowd(3)
        crowd.act(closed(nx.empty_graph(3), 2), 4)
        assert crowd.inboxes == []


class TestDoor:
    path = nx.path_graph(3)

    def relay(self, wire=WIRE):
        return closed(self.path, 2, wire=wire)

    def test_messages_of_one_kind_are_alike(self):
        more = Utterance("told", "peer", (*TOLD.fields, WireField("more", optional=True)))

        class Changing(Script):
            def say(self, learned):
                said = super().say(learned)
                if self.step > 0:
                    said = [Message("told", one.who, {**one.arrays, "more": np.zeros(1)}) for one in said]
                return said

        relay, script = self.relay(Wire().speaking([more], {})), Changing([{0: (0, 1.0)}] * 2)
        script.act(relay, 1)
        before = relay.state()
        with pytest.raises(WireError, match=r"more float64\[\], reward float64\[\]\) while 'told' .* the same fields"):
            script.act(relay, 1)
        np.testing.assert_equal(relay.state(), before)

    def test_of_each_kind_there_is_one_message(self):
        class Stuttering(Script):
            def say(self, learned):
                return super().say(learned) * 2

        with pytest.raises(WireError, match="'told' twice"):
            Stuttering([{0: (0, 1.0)}]).act(self.relay(), 1)

    def test_what_was_not_declared_is_refused(self):
        for wire in (Wire().speaking([], {}), Wire()):
            with pytest.raises(WireError, match="never declared"):
                Script([{0: (0, 1.0)}]).act(self.relay(wire), 1)

    @pytest.mark.parametrize("who", [[0, 0], [0, 3], [-1, 0]])
    def test_who_speaks_is_checked(self, who):
        class Odd(Script):
            def say(self, _):
                return [Message("told", np.array(who), {"arm": np.zeros(2, dtype=np.int64), "reward": np.zeros(2)})]

        with pytest.raises(ValueError, match="who"):
            Odd([]).act(self.relay(), 1)

    def test_rounds_come_one_after_another(self):
        relay, script = self.relay(), Script([{0: (0, 1.0)}])
        script.act(relay, 1)
        script.step = 0
        with pytest.raises(ValueError, match="one after another"):
            script.act(relay, 1)

    def test_absence_is_not_for_the_closed_form(self):
        with pytest.raises(ValueError, match="out of reach"):
            Script([{}]).act(self.relay(), 1, [np.array([True, False, True])])
        Script([{}]).act(self.relay(), 1, [np.ones(3, dtype=bool)])

    @pytest.mark.parametrize("change", ["lacks", "unknown", "undeclared"])
    def test_a_snapshot_that_does_not_fit_changes_nothing(self, change):
        relay, script = self.relay(), Script([{0: (0, 1.0)}, {1: (0, 1.0)}])
        script.act(relay, 1)
        broken = relay.state()
        if change == "lacks":
            del broken["0.who"]
        elif change == "unknown":
            broken["1.born"] = np.array(3)
        else:
            broken["0.array.more"] = np.zeros(1)
        script.act(relay, 1)
        before = relay.state()
        with pytest.raises(ValueError, match=r"lacks|unknown|declared"):
            relay.load(broken)
        np.testing.assert_equal(relay.state(), before)


@pytest.mark.parametrize("n", [1, 8, 21])
@pytest.mark.parametrize("ttl", [1, 3])
def test_letters_are_listed_once_more_side_by_side(n, ttl):
    """Each receiver finds its letters in its column, in the order in which it gets them, and nothing behind them."""
    graph = nx.gnp_random_graph(n, 0.15, seed=n)
    relay, crowd = closed(graph, ttl), Crowd(n)
    crowd.act(relay, ttl + 1)
    (way,) = relay._ways.values()
    post = way.post(crowd.step, 3)
    side = post.abreast
    assert sorted(side.receivers) == list(range(n))
    lines = side.rows.reshape(-1, ABREAST)
    assert len(lines) == side.starts[-1]
    found = np.zeros_like(side.rows, dtype=bool).reshape(-1, ABREAST)
    for place, i in enumerate(side.receivers):
        behind = post.behind[post.starts[i] : post.starts[i + 1]]
        speaker = behind % n
        group, column = divmod(place, ABREAST)
        mine = slice(side.starts[group], side.starts[group] + len(behind))
        np.testing.assert_array_equal(lines[mine, column], 2 * speaker - behind)  # u - a n the other way round
        found[mine, column] = True
    assert (lines[~found] == ttl * n).all()
