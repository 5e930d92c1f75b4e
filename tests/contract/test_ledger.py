"""The meter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.contract.ledger import DIRECTIONS, UNITS, Ledger, Tally
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Ragged, Utterance, Wire, WireField, matrix, vector

EMPTY = Tally(0, 0, 0, 0)


def test_starts_at_nothing():
    ledger = Ledger()
    assert (ledger.up, ledger.down, ledger.peer, ledger.syncs) == (EMPTY, EMPTY, EMPTY, 0)


def test_a_message_counts_once_for_each_agent():
    """Three agents, a 2 x 2 matrix and a 2-vector each: 3 messages, 18 numbers."""
    ledger, wire = Ledger(), Wire()
    message = Message("fresh", np.arange(3), {"gram": np.zeros((3, 2, 2)), "moment": np.zeros((3, 2))})
    ledger.record(message, "up", wire)
    length = len(wire.encode(message, 0, "up"))
    assert ledger.up == Tally(messages=3, signals=0, scalars=18, bytes=3 * length)
    assert ledger.down == ledger.peer == EMPTY


def test_a_packed_matrix_counts_its_triangle():
    ledger = Ledger()
    wire = Wire(packed=True).speaking([Utterance("m", "down", (matrix("gram", 4), vector("b", 4)))], {})
    message = Message("m", np.arange(2), {"gram": np.zeros((2, 4, 4)), "b": np.zeros((2, 4))})
    ledger.record(message, "down", wire)
    assert ledger.down.scalars == 2 * (10 + 4)
    assert ledger.down.bytes == 2 * len(wire.encode(message, 1, "down"))


def test_a_signal_weighs_nothing():
    ledger = Ledger()
    ledger.record(Message("collect", np.arange(5)), "down", Wire())
    ledger.call(2)
    assert ledger.down == Tally(0, 5, 0, 0)
    assert ledger.up == Tally(0, 2, 0, 0)


def test_copies_are_links_crossed():
    ledger = Ledger()
    ledger.record(Message("m", np.arange(2), {"x": np.zeros((2, 3))}), "peer", Wire(), copies=np.array([3, 4]))
    assert (ledger.peer.messages, ledger.peer.scalars) == (7, 21)


def test_rounds_that_look_alike_are_counted_at_once():
    wire = Wire().speaking([Utterance("m", "up", (vector("x", 3),)), Utterance("ask", "down")], {})
    told, ask = Message("m", np.arange(2), {"x": np.zeros((2, 3))}), Message("ask", np.arange(2))
    one, many = Ledger(), Ledger()
    for _ in range(5):
        one.record(told, "up", wire)
        one.record(ask, "down", wire)
    many.record(told, "up", wire, rounds=5, size=wire.check(told, "up"))
    many.record(ask, "down", wire, rounds=5, size=wire.check(ask, "down"))
    np.testing.assert_array_equal(one.counts, many.counts)


def test_rounds_of_shares_that_differ_are_counted_at_once():
    wire = Wire().speaking([Utterance("m", "up", (WireField("x", (Ragged("k"),)),))], {})
    told = Message("m", np.arange(2), {"x": np.zeros((2, 3))}, {"k": np.array([1, 3])})
    one, many = Ledger(), Ledger()
    for _ in range(5):
        one.record(told, "up", wire)
    assert wire.check(told, "up") is None
    many.record(told, "up", wire, rounds=5)
    np.testing.assert_array_equal(one.counts, many.counts)
    assert many.up.scalars == 5 * 4


def test_copies_need_one_number_for_each_agent():
    ledger = Ledger()
    with pytest.raises(ValueError, match="one number for each of 2 agents"):
        ledger.record(Message("m", np.arange(2), {"x": np.zeros((2, 3))}), "peer", Wire(), copies=np.array([7]))
    assert not ledger.counts.any()


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=6), st.booleans())
def test_each_agent_pays_for_what_it_sends(shares, copied):
    """Rows of different lengths, each crossing a different number of links: the bytes are those of each row."""
    wire = Wire().speaking([Utterance("points", "peer", (WireField("x", (Ragged("m"), 2)), WireField("y")))], {})
    lengths, copies = (np.array([share[i] for share in shares], dtype=np.int64) for i in (0, 1))
    x = np.zeros((len(shares), lengths.max(initial=0), 2))
    message = Message("points", np.arange(len(shares)), {"x": x, "y": np.zeros(len(shares))}, {"m": lengths})
    wire.check(message, "peer")
    ledger = Ledger()
    ledger.record(message, "peer", wire, copies if copied else None)
    times = copies if copied else np.ones(len(shares), dtype=np.int64)
    sizes = np.array([len(wire.encode(message, row, "peer")) for row in range(len(shares))], dtype=np.int64)
    assert ledger.peer == Tally(times.sum(), 0, (times * (2 * lengths + 1)).sum(), (times * sizes).sum())


def test_a_message_to_nobody_counts_nothing():
    ledger = Ledger()
    ledger.record(Message("m", np.arange(0), {"x": np.zeros((0, 3))}), "up", Wire())
    assert not ledger.counts.any()


def test_a_message_that_was_not_declared_is_not_counted_by_a_packed_wire():
    ledger = Ledger()
    wire = Wire(packed=True).speaking([], {})
    with pytest.raises(ValueError, match="never declared"):
        ledger.record(Message("m", np.arange(1), {"x": np.zeros((1, 3))}), "up", wire)
    assert not ledger.counts.any()


@given(st.lists(st.tuples(st.sampled_from(DIRECTIONS), st.integers(0, 4), st.integers(0, 3)), max_size=12))
def test_counts_add_up_and_never_fall(records):
    """Totals equal the sum over messages, each encoded for real; directions do not mix."""
    ledger, wire = Ledger(), Wire()
    expected = {direction: np.zeros(len(UNITS), dtype=np.int64) for direction in DIRECTIONS}
    for direction, agents, size in records:
        arrays = {"x": np.zeros((agents, size))} if size else {}
        message = Message("k", np.arange(agents), arrays)
        before = ledger.counts.copy()
        ledger.record(message, direction, wire)
        assert (ledger.counts >= before).all()
        for row in range(agents):
            bits = len(wire.encode(message, row, direction)) if size else 0
            expected[direction] += (size > 0, size == 0, size, bits)
    for way, direction in enumerate(DIRECTIONS):
        np.testing.assert_array_equal(ledger.counts[way], expected[direction])


def test_a_ledger_is_part_of_a_snapshot():
    ledger = Ledger()
    ledger.record(Message("m", np.arange(2), {"x": np.zeros((2, 3))}), "up", Wire())
    ledger.synchronised()
    copy = Ledger()
    copy.load(ledger.state())
    assert (copy.up, copy.syncs) == (ledger.up, 1)
