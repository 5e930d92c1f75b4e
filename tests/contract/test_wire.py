"""The wire: what was declared survives the round trip to the last bit, and nothing else gets through."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedbandits.algorithms import AsyncLinUCBAM, DisLinUCB
from fedbandits.contract.algorithm import sizes_of
from fedbandits.contract.facts import Shared
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import (
    VERSION,
    Free,
    Ragged,
    Size,
    Utterance,
    Wire,
    WireError,
    WireField,
    matrix,
    vector,
)

DTYPES = ("f8", "i8", "f4", "i4", "u1", "b1", "i2", "i1")
FIXED = {"d": 3, "K": 1}
names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)


@st.composite
def spoken(draw):
    """A message of some agents with its declaration: every type, symmetric, free and ragged sizes, few bits."""
    agents = draw(st.integers(1, 4))
    lengths = {name: draw(hnp.arrays(np.int64, agents, elements=st.integers(0, 4))) for name in ("m", "p")}
    free = {name: draw(st.integers(0, 4)) for name in ("k", "q")}
    room = {name: int(held.max()) + draw(st.integers(0, 2)) for name, held in lengths.items()}
    ragged, loose, named = map(Ragged, lengths), map(Free, free), list(FIXED)
    sizes = st.sampled_from([*ragged, *loose, *named]) | st.integers(0, 5)
    fields, arrays = [], {}
    for name in draw(st.lists(names, max_size=4, unique=True)):
        bits = draw(st.none() | st.integers(1, 16))
        dtype = draw(st.sampled_from(DTYPES)) if bits is None else "i1" if bits <= 8 else "i2"
        symmetric = draw(st.booleans())
        shape = (draw(sizes),) * 2 if symmetric else tuple(draw(st.lists(sizes, max_size=3)))
        held = tuple(_held(size, free, room) for size in shape)
        numbers = None if bits is None else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        array = draw(hnp.arrays(np.dtype(dtype), (agents, *held), elements=numbers))
        for axis, size in enumerate(shape):
            if isinstance(size, Ragged):
                beyond = np.arange(held[axis]) >= lengths[size.name][:, None]
                array = np.moveaxis(array, 1 + axis, 1)
                array[beyond] = 0
                array = np.moveaxis(array, 1, 1 + axis)
        if symmetric:
            lower = np.tril(np.ones(held, dtype=bool))
            array = np.where(lower, array, array.swapaxes(1, 2))
        fields.append(WireField(name, shape, dtype, symmetric=symmetric, bits=bits))
        arrays[name] = array
    used = {size.name for item in fields for size in item.shape if isinstance(size, Ragged)}
    message = Message(draw(names), np.arange(agents), arrays, {name: lengths[name] for name in sorted(used)})
    return message, Utterance(message.kind, "up", tuple(fields))


def _held(size, free, room):
    if isinstance(size, Free):
        return free[size.name]
    if isinstance(size, Ragged):
        return room[size.name]
    return FIXED[size] if isinstance(size, str) else size


def own(message, utterance, row):
    """One agent's arrays without what they are padded with."""
    shares = {}
    for item in utterance.fields:
        shares[item.name] = message.arrays[item.name][row]
        for place, size in item.ragged:
            shares[item.name] = shares[item.name].take(range(message.lengths[size][row]), place)
    return shares


def bound(utterance, packed=False):
    return Wire(packed=packed).speaking([utterance], FIXED)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@given(spoken())
def test_round_trip(packed, case):
    """Kind, names, types, shapes and every bit survive; the size is known without encoding."""
    message, utterance = case
    wire = bound(utterance, packed)
    wire.check(message, "up")
    scalars, weights = wire.sizes_of(message, "up")
    for row in range(len(message.who)):
        data = wire.encode(message, row, "up")
        kind, arrays = Wire.decode(data)
        assert kind == message.kind
        assert list(arrays) == list(message.arrays)
        for name, array in own(message, utterance, row).items():
            assert arrays[name].dtype == array.dtype
            assert arrays[name].shape == array.shape
            assert arrays[name].tobytes() == array.tobytes()
            assert arrays[name].flags.writeable
        size = wire.size(message, "up", row)
        assert size == Size(scalars[row], weights[row])
        if arrays:
            assert size.bytes == len(data)
        else:
            assert size == Size(0, 0)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@given(spoken(), st.data())
def test_what_agents_sent_each_is_gathered_again(packed, case, data):
    """The inverse of encoding, whoever sent and in whatever order; rows are padded to the longest of them."""
    message, utterance = case
    wire = bound(utterance, packed)
    rows = data.draw(st.lists(st.sampled_from(range(len(message.who))), min_size=1, unique=True))
    shares = [Wire.decode(wire.encode(message, row, "up"))[1] for row in rows]
    gathered = wire.gathered(message.kind, message.who[rows], shares, "up")
    wire.check(gathered, "up")
    expected = message.of(np.array(rows))
    np.testing.assert_array_equal(gathered.who, expected.who)
    for name, held in gathered.lengths.items():
        np.testing.assert_array_equal(held, expected.lengths[name])
    for item in utterance.fields:
        array = gathered.arrays[item.name]
        for place, size in item.ragged:
            assert array.shape[1 + place] == gathered.lengths[size].max()
        room = tuple(slice(size) for size in array.shape)
        assert array.dtype == expected.arrays[item.name].dtype
        np.testing.assert_array_equal(array, expected.arrays[item.name][room])


@given(spoken())
def test_scalars_are_the_numbers_sent(case):
    message, utterance = case
    triangles = {field.name for field in utterance.fields if field.symmetric}
    for row in range(len(message.who)):
        sent = own(message, utterance, row)
        plain = sum(array.size for array in sent.values())
        saved = sum(
            array.size - len(array) * (len(array) + 1) // 2 for name, array in sent.items() if name in triangles
        )
        assert bound(utterance).size(message, "up", row).scalars == plain
        assert bound(utterance, packed=True).size(message, "up", row).scalars == plain - saved


def test_packing_a_matrix_halves_it_exactly():
    """d = 7: 28 instead of 49 numbers, the same bits back."""
    square = np.random.default_rng(0).standard_normal((1, 7, 7))
    square += square.swapaxes(1, 2).copy()
    message = Message("m", np.arange(1), {"gram": square})
    wire = Wire(packed=True).speaking([Utterance("m", "up", (matrix("gram", 7),))], {})
    data = wire.encode(message, 0, "up")
    assert len(data) == 1 + 2 + 1 + (5 + 3 + 8) + 28 * 8
    assert Wire.decode(data)[1]["gram"].tobytes() == square.tobytes()


def test_the_format_is_what_the_documentation_says():
    message = Message("ab", np.arange(1), {"x": np.array([[1.5, -2.0]])})
    expected = bytes([VERSION, 2]) + b"ab" + bytes([1, 1]) + b"x" + bytes([0, 0, 1])
    expected += struct.pack("<I", 2) + struct.pack("<2d", 1.5, -2.0)
    assert Wire().encode(message, 0, "up") == expected


def test_numbers_are_little_endian_whatever_they_were():
    big = Message("m", np.arange(1), {"x": np.arange(3, dtype=">f8")[None]})
    little = Message("m", np.arange(1), {"x": np.arange(3, dtype="<f8")[None]})
    assert Wire().encode(big, 0, "up") == Wire().encode(little, 0, "up")


def test_a_view_is_sent_like_its_copy():
    """A pool shown to everybody is one row with stride 0; transposed views occur too."""
    shown = np.broadcast_to(np.arange(6.0).reshape(1, 2, 3), (4, 2, 3)).transpose(0, 2, 1)
    view, copy = (Message("m", np.arange(4), {"x": array}) for array in (shown, shown.copy()))
    assert Wire().encode(view, 3, "up") == Wire().encode(copy, 3, "up")


@given(st.binary(max_size=200))
def test_junk_is_refused_and_nothing_else_happens(data):
    """Any bytes at all: a message, or `WireError`."""
    try:
        kind, arrays = Wire.decode(data)
    except WireError:
        return
    alone = Message(kind, np.arange(1), {name: array[None] for name, array in arrays.items()})
    assert len(Wire().encode(alone, 0, "up")) >= 3


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@given(spoken(), st.data())
def test_a_damaged_message_is_read_or_refused(packed, case, data):
    """Any byte of a real message changed to any other, bytes taken out or put in: a message, or `WireError`, also where
    it is gathered with what others sent; and memory is not taken for more than there is.
    """
    message, utterance = case
    wire = bound(utterance, packed)
    contents = [bytearray(wire.encode(message, row, "up")) for row in range(len(message.who))]
    for _ in range(data.draw(st.integers(1, 3))):
        content = contents[data.draw(st.integers(0, len(contents) - 1))]
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        content[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    kinds, shares = [], []
    for content in contents:
        try:
            kind, arrays = Wire.decode(bytes(content))
        except WireError:
            return
        assert sum(array.nbytes for array in arrays.values()) <= 16 * len(content)
        kinds.append(kind)
        shares.append(arrays)
    with contextlib.suppress(WireError):
        gathered = wire.gathered(kinds[0], message.who, shares, "up")
        wire.check(gathered, "up")
        for row in range(len(message.who)):
            wire.encode(gathered, row, "up")


def peak(data):
    """The most memory that reading `data` took at any time."""
    tracemalloc.start()
    try:
        with contextlib.suppress(WireError):
            Wire.decode(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "item",
    [
        WireField("x", (Free("k"),)),
        WireField("x", (Free("k"),), dtype="u1"),
        WireField("x", (Free("k"),), dtype="b1"),
        WireField("x", (Free("k"), Free("k")), dtype="u1", symmetric=True),
        WireField("x", (Free("k"),), dtype="i1", bits=1),
        WireField("x", (Free("k"),), dtype="i1", bits=7),
        WireField("x", (Free("k"),), dtype="i2", bits=9),
        WireField("x", (Free("k"), Free("k")), dtype="i1", symmetric=True, bits=1),
    ],
    ids=str,
)
def test_reading_takes_a_small_multiple_of_the_memory_of_the_bytes(item):
    """A number of one bit becomes a byte, and a triangle a square: no more than 16 times the bytes, and some copies."""
    side = 1000 if item.symmetric else 400_000
    values = np.zeros((1, side, side) if item.symmetric else (1, side), item.dtype)
    data = bound(Utterance("k", "up", (item,)), packed=True).encode(Message("k", np.arange(1), {"x": values}), 0, "up")
    assert peak(data) <= 40 * len(data) + 500_000
    assert peak(data[:-1]) <= 500_000 + len(data)


@given(st.binary(max_size=300))
def test_junk_takes_no_memory(data):
    assert peak(bytes([VERSION, 1]) + b"k" + data) < 200_000


@given(spoken(), st.data())
def test_a_truncated_or_padded_message_is_refused(case, data):
    message, utterance = case
    original = bound(utterance, packed=data.draw(st.booleans())).encode(message, 0, "up")
    with pytest.raises(WireError):
        Wire.decode(original[: data.draw(st.integers(0, len(original) - 1))])
    with pytest.raises(WireError, match="too many"):
        Wire.decode(original + b"\0")


class TestGathered:
    wire = Wire().speaking(
        [
            Utterance(
                "k", "up", (WireField("x", (Ragged("m"),)), WireField("y", (Ragged("m"), Free("f")), optional=True))
            )
        ],
        {},
    )
    two = np.arange(2)

    @pytest.mark.parametrize(
        ("shares", "match"),
        [
            ([{"x": np.zeros(2)}, {}], "different fields"),
            ([{"x": np.zeros(2)}, {"x": np.zeros(2), "y": np.zeros((2, 1))}], "different fields"),
            ([{"x": np.zeros(2)}, {"x": np.zeros(())}], "needs 1 dimensions"),
            ([{"x": np.zeros(2)}, {"x": np.zeros((2, 2))}], "needs 1 dimensions"),
            ([{"x": np.zeros(2), "y": np.zeros((1, 3))}] * 2, "disagrees with others on 'm'"),
            ([{"x": np.zeros(i), "y": np.zeros((i, i))} for i in (1, 2)], "differs in shape"),
            ([{"x": np.zeros(2)}, {"x": np.zeros(2, dtype=np.int64)}], "differs in shape or type"),
            ([{"z": np.zeros(2)}] * 2, "carries 'z'"),
        ],
    )
    def test_what_cannot_be_one_message_is_refused(self, shares, match):
        with pytest.raises(WireError, match=match):
            self.wire.gathered("k", self.two, shares, "up")

    def test_nobody_sent_anything(self):
        assert self.wire.gathered("k", self.two[:0], [], "up").arrays == {}
        assert self.wire.gathered("k", self.two, [{}, {}], "up").arrays == {}

    def test_a_wire_that_is_not_bound_pads_nothing(self):
        with pytest.raises(WireError, match="differs in shape"):
            Wire().gathered("k", self.two, [{"x": np.zeros(1)}, {"x": np.zeros(2)}], "up")


def field_bytes(name=b"x", code=0, packed=0, shape=(1,), data=bytes(8)):
    head = bytes([len(name)]) + name + bytes([code, packed, len(shape)])
    return head + struct.pack(f"<{len(shape)}I", *shape) + data


def message_bytes(*fields, version=VERSION, kind=b"k"):
    return bytes([version, len(kind)]) + kind + bytes([len(fields)]) + b"".join(fields)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        message_bytes(version=VERSION + 1),
        message_bytes(kind=b"\xff"),
        message_bytes(field_bytes(name=b"\x80")),
        message_bytes(field_bytes(code=8)),
        message_bytes(field_bytes(packed=2)),
        message_bytes(field_bytes(code=1, packed=2)),
        message_bytes(field_bytes(code=7, packed=2 * 9)),
        message_bytes(field_bytes(code=6, packed=2 * 17)),
        message_bytes(field_bytes(code=7, packed=2 * 3, shape=(2,), data=b"\xff")),
        message_bytes(field_bytes(packed=1)),
        message_bytes(field_bytes(packed=1, shape=(1, 2))),
        message_bytes(field_bytes(), field_bytes()),
        message_bytes(field_bytes(shape=(2**32 - 1, 2**32 - 1))),
        message_bytes(field_bytes(packed=1, shape=(2**32 - 1, 2**32 - 1))),
        message_bytes(field_bytes(shape=(1,) * 65)),
        message_bytes(field_bytes(shape=(1,) * 255)),
        message_bytes(field_bytes(shape=(0,) + (2**32 - 1,) * 3, data=b"")),
        message_bytes(field_bytes(code=5, data=b"\x02")),
    ],
    ids=[
        "nothing",
        "another version",
        "kind not ASCII",
        "name not ASCII",
        "unknown type",
        "unknown packing",
        "few bits of a large type",
        "more bits than the type has",
        "more bits than there are",
        "bits beyond the last number",
        "packed vector",
        "packed oblong",
        "field twice",
        "more than there is",
        "more than there is, packed",
        "65 dimensions",
        "255 dimensions",
        "empty but enormous",
        "neither true nor false",
    ],
)
def test_hostile_bytes(data):
    with pytest.raises(WireError):
        Wire.decode(data)


class TestDeclarations:
    utterance = Utterance("k", "up", (vector("v", 3), WireField("extra", optional=True)))
    wire = Wire().speaking([utterance], {"d": 4})
    good = Message("k", np.arange(2), {"v": np.zeros((2, 3))})

    def test_optional_fields_may_be_left_out_or_sent(self):
        self.wire.check(self.good, "up")
        self.wire.check(Message("k", np.arange(2), {"v": np.zeros((2, 3)), "extra": np.zeros(2)}), "up")

    def test_what_a_share_weighs_is_said_with_the_verdict(self):
        for _ in range(2):  # looked up the second time
            assert self.wire.check(self.good, "up") == self.wire.size(self.good, "up")
        other = Message("k", np.arange(2), {"v": np.zeros((2, 3)), "extra": np.zeros(2)})
        assert self.wire.check(other, "up") == self.wire.size(other, "up") != self.wire.size(self.good, "up")
        assert Wire().check(self.good, "up") is None

    @pytest.mark.parametrize("direction", ["down", "peer"])
    def test_the_direction_belongs_to_the_declaration(self, direction):
        with pytest.raises(WireError, match="never declared"):
            self.wire.check(self.good, direction)

    @pytest.mark.parametrize(
        "arrays",
        [
            {},
            {"w": np.zeros((2, 3))},
            {"v": np.zeros((2, 3)), "w": np.zeros(2)},
            {"v": np.zeros((2, 4))},
            {"v": np.zeros(2)},
        ],
    )
    def test_fields_and_shapes_must_fit(self, arrays):
        with pytest.raises(WireError, match="'k'"):
            self.wire.check(Message("k", np.arange(2), arrays), "up")

    def test_sizes_have_names(self):
        wire = Wire().speaking([Utterance("k", "down", (matrix("gram"),))], {"d": 4})
        wire.check(Message("k", np.arange(2), {"gram": np.zeros((2, 4, 4))}), "down")
        with pytest.raises(WireError, match=r"\(4, 4\)"):
            wire.check(Message("k", np.arange(2), {"gram": np.zeros((2, 5, 5))}), "down")

    def test_a_wire_that_is_not_bound_lets_everything_pass(self):
        Wire().check(Message("anything", np.arange(1), {"x": np.zeros((1, 9))}), "peer")

    def test_types_that_cannot_travel_are_refused(self):
        for array in (np.zeros((1, 2), complex), np.array([["a"]]), np.zeros((1, 1), object)):
            with pytest.raises(WireError, match="type"):
                Wire().encode(Message("k", np.arange(1), {"x": array}), 0, "up")

    @pytest.mark.parametrize("name", ["x" * 256, "naïve"])
    def test_names_that_cannot_travel_are_refused(self, name):
        with pytest.raises(WireError):
            Wire().encode(Message(name, np.arange(1), {}), 0, "up")
        with pytest.raises(WireError):
            Wire().encode(Message("k", np.arange(1), {name: np.zeros(1)}), 0, "up")

    def test_words(self):
        field = WireField("gram", ("d", "d"), symmetric=True, optional=True)
        assert str(field) == "gram (d×d symmetric at times)"
        assert (
            str(Utterance("k", "up", (field, WireField("y", raw=True))))
            == "up: gram (d×d symmetric at times), y (1 raw)"
        )
        assert str(Utterance("k", "down")) == "down: signal"
        assert str(WireField("x", (Ragged("m"), Free("k"), 2), "i8")) == "x (m of each agent×k of any length×2 i8)"
        assert str(WireField("q", ("d",), "i1", bits=4)) == "q (d of 4 bits)"

    @pytest.mark.parametrize(("dtype", "bits"), [("f8", 8), ("i8", 4), ("i1", 9), ("i2", 8), ("i2", 17), ("i1", 0)])
    def test_few_bits_have_the_smallest_type(self, dtype, bits):
        with pytest.raises(WireError, match=f"cannot have {bits} bits"):
            WireField("q", (), dtype, bits=bits)

    @pytest.mark.parametrize("shape", [("d",), ("d", "K"), ("d", "d", "d"), (Ragged("m"), Free("m"))])
    def test_what_is_symmetric_is_square(self, shape):
        with pytest.raises(WireError, match="cannot be symmetric"):
            WireField("x", shape, symmetric=True)

    def test_types_are_checked(self):
        with pytest.raises(WireError, match="is of type int64, declared is float64"):
            self.wire.check(Message("k", np.arange(2), {"v": np.zeros((2, 3), dtype=np.int64)}), "up")

    def test_a_free_size_is_one_within_a_message(self):
        wire = Wire().speaking([Utterance("k", "up", (WireField("x", (Free("k"),)), WireField("y", (Free("k"),))))], {})
        wire.check(Message("k", np.arange(2), {"x": np.zeros((2, 3)), "y": np.zeros((2, 3))}), "up")
        with pytest.raises(WireError, match="k of any length"):
            wire.check(Message("k", np.arange(2), {"x": np.zeros((2, 3)), "y": np.zeros((2, 4))}), "up")

    def test_numbers_that_need_more_bits_are_refused(self):
        wire = Wire().speaking([Utterance("k", "up", (WireField("q", (), "i1", bits=4),))], {})
        wire.encode(Message("k", np.arange(1), {"q": np.array([7], dtype=np.int8)}), 0, "up")
        for number in (8, -9):
            with pytest.raises(WireError, match="do not fit into 4 bits"):
                wire.encode(Message("k", np.arange(1), {"q": np.array([number], dtype=np.int8)}), 0, "up")


def test_sizes_of_an_algorithm():
    problem = Problem(agents=3, dim=5, arms=7, horizon=10).knowing(Shared(2))
    assert sizes_of(DisLinUCB(), problem) == {"d": 5, "K": 7, "n": 3}
    assert sizes_of(AsyncLinUCBAM(), problem) == {"d": 5, "K": 7, "n": 3, "g": 2}


def test_a_message_has_one_row_for_each_agent():
    with pytest.raises(ValueError, match="one row for each of 2 agents"):
        Message("k", np.arange(2), {"x": np.zeros((3, 4))})
    with pytest.raises(ValueError, match="'x'"):
        Message("k", np.arange(2), {"x": np.zeros(())})
