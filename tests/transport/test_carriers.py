"""Carriers: they deliver, count, refuse, and leave out whom they cannot reach."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.contract.ledger import Ledger, Tally
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Field, Utterance, Wire, WireError, vector
from fedbandits.transport.carriers import InProcess, Serialising, hold

SAYS = (
    Utterance("ask", "down"),
    Utterance("value", "up", (vector("v", 2), Field("n"))),
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
