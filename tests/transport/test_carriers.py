"""Carriers: they deliver, count, refuse, and leave out whom they cannot reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.contract.ledger import Ledger, Tally
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.server import Server
from fedbandits.contract.wire import Free, Ragged, Utterance, Wire, WireError, WireField, vector
from fedbandits.transport.carriers import InProcess, Serialising, hold

SAYS = (
    Utterance("ask", "down"),
    Utterance("value", "up", (vector("v", 2), WireField("n"))),
    Utterance("tell", "down", (vector("v", 2),)),
)


class Echoes:
    """Agents with a number each: tell it when asked, add what they are told."""

    def __init__(self, values):
        self.values = np.array(values, dtype=float)

    def answer(self, request):
        if request.kind == "ask":
            held = self.values[request.who]
            return Message("value", request.who, {"v": np.stack([held, -held], axis=1), "n": held})
        self.values[request.who] += request.arrays["v"][:, 0]
        return None


class Adder:
    """Asks everybody, then tells everybody the sum."""

    def __init__(self, n):
        self.everybody = np.arange(n)
        self.replies = []

    def converse(self, callers):
        if len(callers) == 0:
            return
        reply = yield Message("ask", self.everybody)
        self.replies.append(reply)
        if len(reply.who) == 0:
            return
        total = reply.arrays["v"].sum(axis=0)
        self.replies.append(
            (yield Message("tell", self.everybody, {"v": np.broadcast_to(total, (len(self.everybody), 2))}))
        )


def wire():
    return Wire().speaking(SAYS, {})


def carriers():
    together = Echoes([1, 2, 4])
    apart = [Echoes([1]), Echoes([2]), Echoes([4])]
    return (
        (InProcess(together, Ledger(), wire()), lambda: together.values.tolist()),
        (Serialising(apart, Ledger(), wire()), lambda: [one.values[0] for one in apart]),
    )


@pytest.mark.parametrize("kind", [0, 1], ids=["in process", "serialising"])
class TestBoth:
    def test_a_conversation(self, kind):
        carrier, values = carriers()[kind]
        server = Adder(3)
        hold(server, np.array([1]), carrier)
        assert values() == [8, 9, 11]
        ledger = carrier.ledger
        one = carrier.wire.size(server.replies[0], "up")
        assert ledger.up == Tally(messages=3, signals=1, scalars=9, bytes=3 * one.bytes)
        assert (ledger.down.messages, ledger.down.signals, ledger.down.scalars) == (3, 3, 6)
        assert ledger.syncs == 1
        np.testing.assert_array_equal(server.replies[0].who, [0, 1, 2])
        np.testing.assert_array_equal(server.replies[0].arrays["n"], [1, 2, 4])

    def test_a_server_with_nothing_to_say(self, kind):
        carrier, values = carriers()[kind]
        hold(Adder(3), np.array([], dtype=np.int64), carrier)
        assert values() == [1, 2, 4]
        assert not carrier.ledger.counts.any()
        assert carrier.ledger.syncs == 0

    def test_whom_it_cannot_reach_it_leaves_out(self, kind):
        carrier, values = carriers()[kind]
        carrier.reachable = np.array([True, False, True])
        server = Adder(3)
        hold(server, np.array([0]), carrier)
        assert values() == [6, 2, 9]
        for reply in server.replies:
            np.testing.assert_array_equal(reply.who, [0, 2])
        assert (carrier.ledger.up.messages, carrier.ledger.down.messages, carrier.ledger.down.signals) == (2, 2, 2)

    def test_nobody_in_reach(self, kind):
        carrier, values = carriers()[kind]
        carrier.reachable = np.zeros(3, dtype=bool)
        hold(Adder(3), np.array([0]), carrier)
        assert values() == [1, 2, 4]
        assert carrier.ledger.down == Tally(0, 0, 0, 0)
        assert carrier.ledger.up == Tally(0, 1, 0, 0)

    def test_what_was_not_declared_is_refused_before_it_is_counted_or_delivered(self, kind):
        carrier, values = carriers()[kind]
        for request in (
            Message("shout", np.arange(3)),
            Message("value", np.arange(3), {"v": np.zeros((3, 2)), "n": np.zeros(3)}),
            Message("tell", np.arange(3), {"v": np.zeros((3, 3))}),
        ):
            with pytest.raises(WireError):
                carrier.carry(request)
        assert values() == [1, 2, 4]
        assert not carrier.ledger.counts.any()

    def test_an_undeclared_reply_is_refused(self, kind):
        carrier, _ = carriers()[kind]
        carrier.wire = Wire().speaking(SAYS[:1], {})
        with pytest.raises(WireError, match="value"):
            carrier.carry(Message("ask", np.arange(3)))
        assert carrier.ledger.up.messages == 0

    def test_requests_may_name_agents_in_any_order(self, kind):
        carrier, _ = carriers()[kind]
        reply = carrier.carry(Message("ask", np.array([2, 0])))
        np.testing.assert_array_equal(reply.who, [2, 0])
        np.testing.assert_array_equal(reply.arrays["n"], [4, 1])


def test_bytes_seen_are_the_bytes_counted():
    carrier, _ = carriers()[1]
    hold(Adder(3), np.array([1]), carrier)
    assert carrier.bytes_seen == carrier.ledger.up.bytes + carrier.ledger.down.bytes > 0


def test_a_serialised_agent_shares_no_memory_with_the_server():
    """What an agent gets is its own: changing it changes nobody else's."""
    kept = []

    class Keeper:
        def answer(self, request):
            request.arrays["v"][:] += 1
            kept.append(request.arrays["v"])

    told = np.zeros((2, 2))
    Serialising([Keeper(), Keeper()], Ledger(), wire()).carry(Message("tell", np.arange(2), {"v": told}))
    assert not told.any()
    assert not np.shares_memory(kept[0], kept[1])


POINTS = (
    Utterance("ask", "down", (WireField("of", (Free("k"),), dtype="i8"),)),
    Utterance(
        "points",
        "up",
        (
            WireField("x", (Ragged("m"), 2)),
            WireField("gram", (Ragged("m"), Ragged("m")), symmetric=True),
            WireField("seen", (Free("k"),), dtype="i8"),
        ),
    ),
    Utterance("tell", "down", (WireField("x", (Ragged("m"), 2)), WireField("weights", (Free("k"), "d")))),
)


class Collectors(Population):
    """Agents with points: each has as many as its number, and keeps what it is told."""

    def __init__(self, numbers):
        super().__init__(len(numbers))
        self.points = [np.arange(2.0 * number).reshape(number, 2) + number for number in numbers]
        self.told = [np.zeros((0, 2))] * len(numbers)

    def choose(self, who, arms): ...

    def learn(self, who, arms, picks, rewards): ...

    def answer(self, request):
        if request.kind == "tell":
            for row, agent in enumerate(request.who):
                self.told[agent] = request.arrays["x"][row, : request.lengths["m"][row]]
            return None
        lengths = np.array([len(self.points[i]) for i in request.who])
        room = lengths.max(initial=0)
        x = np.zeros((len(lengths), room, 2))
        for row, i in enumerate(request.who):
            x[row, : lengths[row]] = self.points[i]
        arrays = {"x": x, "gram": x @ x.transpose(0, 2, 1), "seen": request.arrays["of"] + 1}
        return Message("points", request.who, arrays, {"m": lengths})


class Spreader(Server):
    """Asks for points and tells everybody those of the agent before it."""

    def __init__(self, n):
        self.n = n
        self.reply = None

    def converse(self, callers):
        everybody = np.arange(self.n)
        self.reply = yield Message("ask", everybody, {"of": np.tile(np.arange(3), (self.n, 1))})
        if len(self.reply.who) < self.n:
            return
        before = np.roll(everybody, 1)
        x, lengths = self.reply.arrays["x"][before], self.reply.lengths["m"][before]
        yield Message("tell", everybody, {"x": x, "weights": np.ones((self.n, 2, 4))}, {"m": lengths})


@pytest.mark.parametrize("packed", [False, True])
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_what_agents_send_more_or_less_of_is_the_same_in_both_worlds(packed, numbers, data):
    """Same replies, same state and same ledger, whose bytes are those that were sent."""
    n = len(numbers)
    wire = Wire(packed=packed).speaking(POINTS, {"d": 4})
    together, apart = Collectors(numbers), [Collectors([number]) for number in numbers]
    carriers = InProcess(together, Ledger(), wire), Serialising(apart, Ledger(), wire)
    servers = Spreader(n), Spreader(n)
    reachable = data.draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n).map(np.array))
    for carrier, server in zip(carriers, servers, strict=True):
        carrier.reachable = reachable
        hold(server, np.arange(1), carrier)
    np.testing.assert_array_equal(carriers[0].ledger.counts, carriers[1].ledger.counts)
    assert carriers[1].bytes_seen == carriers[1].ledger.up.bytes + carriers[1].ledger.down.bytes
    one, other = (server.reply for server in servers)
    np.testing.assert_array_equal(one.who, other.who)
    assert one.arrays.keys() == other.arrays.keys()
    for name in one.arrays:
        np.testing.assert_array_equal(one.arrays[name], other.arrays[name])
    for name in one.lengths:
        np.testing.assert_array_equal(one.lengths[name], other.lengths[name])
    for i in range(n):
        np.testing.assert_array_equal(together.told[i], apart[i].told[0])
    reached = np.array(numbers) if reachable is None else np.array(numbers)[reachable]
    square = reached * (reached + 1) // 2 if packed else reached**2
    assert carriers[0].ledger.up.scalars == (2 * reached + square + 3).sum()


def test_agents_that_answer_in_different_ways_are_told_apart():
    says = (Utterance("ask", "down"), Utterance("one", "up"), Utterance("other", "up"))

    class Agent(Echoes):
        def answer(self, request):
            return Message("one" if self.values[0] else "other", request.who)

    carrier = Serialising([Agent([0]), Agent([1])], Ledger(), Wire().speaking(says, {}))
    with pytest.raises(WireError, match="different ways: one, other"):
        carrier.carry(Message("ask", np.arange(2)))


def test_lengths_that_are_missing_or_wrong_are_refused_in_both_worlds():
    wire = Wire().speaking([Utterance("ask", "down"), POINTS[1]], {})

    class Careless(Collectors):
        lengths = None

        def answer(self, request):
            reply = super().answer(Message("ask", request.who, {"of": np.zeros((len(request.who), 1), dtype=np.int64)}))
            return Message(reply.kind, reply.who, reply.arrays, self.lengths or {})

    for lengths in (None, {"m": np.array([3])}, {"m": np.array([-1])}, {"m": np.array([2, 2])}, {"m": np.array([2.0])}):
        Careless.lengths = lengths
        for carrier in (InProcess(Careless([2]), Ledger(), wire), Serialising([Careless([2])], Ledger(), wire)):
            with pytest.raises(WireError, match="points"):
                carrier.carry(Message("ask", np.arange(1)))
