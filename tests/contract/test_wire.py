"""The wire: what was declared survives the round trip to the last bit, and nothing else gets through."""

from __future__ import annotations

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedbandits.algorithms import AsyncLinUCBAM, DisLinUCB
from fedbandits.contract.algorithm import sizes_of
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import VERSION, Field, Size, Utterance, Wire, WireError, matrix, vector

DTYPES = [np.dtype(name) for name in ("f8", "i8", "f4", "i4", "u1", "?")]
names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)


@st.composite
def spoken(draw):
    """A message of some agents with its declaration, symmetric fields included."""
    agents = draw(st.integers(1, 4))
    fields, arrays = [], {}
    for name in draw(st.lists(names, max_size=4, unique=True)):
        dtype = draw(st.sampled_from(DTYPES))
        symmetric = draw(st.booleans())
        shape = (
            (draw(st.integers(0, 5)),) * 2 if symmetric else draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
        )
        array = draw(hnp.arrays(dtype, (agents, *shape)))
        if symmetric:
            lower = np.tril(np.ones(shape, dtype=bool))
            array = np.where(lower, array, array.swapaxes(1, 2))
        fields.append(Field(name, shape, symmetric=symmetric))
        arrays[name] = array
    message = Message(draw(names), np.arange(agents), arrays)
    return message, Utterance(message.kind, "up", tuple(fields))


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@given(spoken())
def test_round_trip(packed, case):
    """Kind, names, types, shapes and every bit survive; the size is known without encoding."""
    message, utterance = case
    wire = Wire(packed=packed).speaking([utterance], {})
    wire.check(message, "up")
    size = wire.size(message, "up")
    for row in range(len(message.who)):
        data = wire.encode(message, row, "up")
        kind, arrays = Wire.decode(data)
        assert kind == message.kind
        assert list(arrays) == list(message.arrays)
        for name, array in message.arrays.items():
            assert arrays[name].dtype == array.dtype
            assert arrays[name].shape == array[row].shape
            assert arrays[name].tobytes() == array[row].tobytes()
            assert arrays[name].flags.writeable
        if arrays:
            assert size.bytes == len(data)
        else:
            assert size == Size(0, 0)


@given(spoken())
def test_scalars_are_the_numbers_sent(case):
    message, utterance = case
    triangles = {field.name for field in utterance.fields if field.symmetric}
    plain = sum(array[0].size for array in message.arrays.values())
    saved = sum(
        array[0].size - len(array[0]) * (len(array[0]) + 1) // 2
        for name, array in message.arrays.items()
        if name in triangles
    )
    assert Wire().speaking([utterance], {}).size(message, "up").scalars == plain
    assert Wire(packed=True).speaking([utterance], {}).size(message, "up").scalars == plain - saved


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


@given(spoken(), st.data())
def test_a_damaged_message_is_read_or_refused(case, data):
    """Any byte of a real message changed to any other: a message, or `WireError`."""
    message, utterance = case
    original = bytearray(Wire(packed=True).speaking([utterance], {}).encode(message, 0, "up"))
    for _ in range(data.draw(st.integers(1, 3))):
        original[data.draw(st.integers(0, len(original) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        Wire.decode(bytes(original))


@given(spoken(), st.data())
def test_a_truncated_or_padded_message_is_refused(case, data):
    message, _ = case
    original = Wire().encode(message, 0, "up")
    with pytest.raises(WireError):
        Wire.decode(original[: data.draw(st.integers(0, len(original) - 1))])
    with pytest.raises(WireError, match="too many"):
        Wire.decode(original + b"\0")


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
        message_bytes(field_bytes(code=6)),
        message_bytes(field_bytes(packed=2)),
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
    utterance = Utterance("k", "up", (vector("v", 3), Field("extra", optional=True)))
    wire = Wire().speaking([utterance], {"d": 4})
    good = Message("k", np.arange(2), {"v": np.zeros((2, 3))})

    def test_optional_fields_may_be_left_out_or_sent(self):
        self.wire.check(self.good, "up")
        self.wire.check(Message("k", np.arange(2), {"v": np.zeros((2, 3)), "extra": np.zeros(2)}), "up")

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
        field = Field("gram", ("d", "d"), symmetric=True, optional=True)
        assert str(field) == "gram (d×d symmetric at times)"
        assert (
            str(Utterance("k", "up", (field, Field("y", raw=True)))) == "up: gram (d×d symmetric at times), y (1 raw)"
        )
        assert str(Utterance("k", "down")) == "down: signal"


def test_sizes_of_an_algorithm():
    problem = Problem(agents=3, dim=5, arms=7, horizon=10, shared=2)
    assert sizes_of(DisLinUCB(), problem) == {"d": 5, "K": 7, "n": 3}
    assert sizes_of(AsyncLinUCBAM(), problem) == {"d": 5, "K": 7, "n": 3, "g": 2}


def test_a_message_has_one_row_for_each_agent():
    with pytest.raises(ValueError, match="one row for each of 2 agents"):
        Message("k", np.arange(2), {"x": np.zeros((3, 4))})
    with pytest.raises(ValueError, match="'x'"):
        Message("k", np.arange(2), {"x": np.zeros(())})
