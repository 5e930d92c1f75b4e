"""The wire: what an algorithm may say, and the bytes it becomes.

An algorithm declares its *utterances*: for each kind of message its direction and its named fields, of which it says
what they are (`WireField`). A `Wire` turns one agent's share of a message into bytes and back, knows the size of those
bytes without producing them, and refuses what was not declared. The format is self-describing and small:

    1 byte version | kind | 1 byte number of fields | fields
    field = name | 1 byte type | 1 byte packing | 1 byte ndim | 4 bytes per dimension | little-endian data

where kind and name are one length byte and ASCII text. Packing is 2 b + t: t = 1 where a symmetric matrix is sent as
its lower triangle, b > 0 where whole numbers are sent in b bits each. Reading needs no trust in the sender: it executes
nothing, allocates no more than a small multiple of what it was given and rejects whatever does not fit to the last
byte.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fedbandits.contract.arrays import Array, IntArray
from fedbandits.contract.messages import Message

if TYPE_CHECKING:
    from fedbandits.contract.problem import Problem

VERSION = 1
_TYPES = ("<f8", "<i8", "<f4", "<i4", "|u1", "|b1", "<i2", "|i1")
_CODES = {np.dtype(name): code for code, name in enumerate(_TYPES)}

Direction = Literal["up", "down", "peer"]
DType = Literal["f8", "i8", "f4", "i4", "u1", "b1", "i2", "i1"]
Adds = Literal["increment", "total", "query"]
"""What the sender's share is of: what is new since its last such message, everything it has so far, or a sum over all
its data again, at a point that the question names."""


class WireError(ValueError):
    """A message that was not declared, or bytes that are no message."""


@dataclass(frozen=True, slots=True)
class Free:
    """A size that differs from message to message: one length for all agents of a message."""

    name: str

    def __str__(self) -> str:
        return f"{self.name} of any length"


@dataclass(frozen=True, slots=True)
class Ragged:
    """A size that differs from agent to agent: `Message.lengths` has one length for each. In memory rows are padded
    with zeros to the longest; on the wire they are not.
    """

    name: str

    def __str__(self) -> str:
        return f"{self.name} of each agent"


@dataclass(frozen=True, slots=True)
class Bound:
    """What honest senders keep to: a field's norm is at most `limit` for each observation in the message.

    `limit(problem, asked)` is that number, `asked` being the arrays of the question that is answered, and `problem` as
    the algorithm poses it (`contract.algorithm.posed_by`), its `horizon` being how many observations an agent can have
    made by then: the same or more in a federation that outlives what it was made for. The norm is the trace of a
    semidefinite matrix and the Euclidean norm of anything else. With `within`, the name of a semidefinite field G of
    the same message, it is x^T G^+ x <= m limit^2 for m observations, as Cauchy-Schwarz has it for x = sum y a and
    G = sum a a^T with |y| <= limit. A bound that is not `per_observation` holds for the whole field.
    """

    limit: Callable[[Problem, Mapping[str, Array]], float]
    within: str | None = None
    per_observation: bool = True
    low: float = -math.inf
    """Below which no number of the field lies."""


@dataclass(frozen=True, slots=True)
class WireField:
    """A named array of a message, and what it is.

    `shape` mixes numbers, names of sizes that the problem or the algorithm fixes, as in `("d", "d")`, and sizes that it
    does not fix: `Free` and `Ragged`.
    """

    name: str
    shape: tuple[int | str | Free | Ragged, ...] = ()
    dtype: DType = "f8"
    symmetric: bool = False
    semidefinite: bool = False
    """Whether a symmetric matrix has no negative eigenvalue."""
    raw: bool = False
    """True for raw observations, which only an algorithm that says so may send."""
    optional: bool = False
    """True for what some hyper-parameters need and others do not."""
    adds: Adds | None = None
    """For what adds up over agents: what the share is of. Statistics that are new (`"increment"`) count as handed over
    once they were sent, so that a late answer is kept; other answers lose their meaning with their question."""
    pooled: bool = False
    """Whether the server uses nothing of the field but its sum over those who sent it."""
    apart: bool = False
    """Whether every observation adds to it what follows from that observation and from what the server has told, and
    from no other observation: a sum of which the sensitivity is known. What is kept private rests on it."""
    counts: bool = False
    """Whether it is the number of observations that the other fields of its message are over."""
    bound: Bound | None = None
    """What honest senders keep to; None where nothing is known."""
    bits: int | None = None
    """How many bits each number has on the wire, for whole numbers between -2^(bits-1) and 2^(bits-1) - 1: up to 8 for
    the type i1, up to 16 for i2. None: as many as its type."""

    def __post_init__(self) -> None:
        if self.symmetric and (len(self.shape) != 2 or self.shape[0] != self.shape[1]):
            raise WireError(f"{self.name!r} cannot be symmetric: its shape {self.shape} is not that of a square matrix")
        if self.bits is not None and not _is_packable(np.dtype(self.dtype), self.bits):
            raise WireError(
                f"{self.name!r} cannot have {self.bits} bits and the type {self.dtype}; up to 8 bits are of type i1, "
                "up to 16 of type i2"
            )

    def __str__(self) -> str:
        notes = [" symmetric"] * self.symmetric + [" raw"] * self.raw + [" at times"] * self.optional
        notes += [f" of {self.bits} bits"] if self.bits else [f" {self.dtype}"] * (self.dtype != "f8")
        return f"{self.name} ({'×'.join(map(str, self.shape)) or '1'}{''.join(notes)})"

    @property
    def ragged(self) -> tuple[tuple[int, str], ...]:
        """The places in `shape` whose sizes differ from agent to agent, each with the name of that size."""
        return tuple((place, size.name) for place, size in enumerate(self.shape) if isinstance(size, Ragged))


@dataclass(frozen=True, slots=True)
class Utterance:
    """One kind of message an algorithm sends: up to the server, down to agents, or among peers."""

    kind: str
    direction: Direction
    fields: tuple[WireField, ...] = ()

    def __str__(self) -> str:
        return f"{self.direction}: {', '.join(map(str, self.fields)) or 'signal'}"

    @property
    def hands_over(self) -> bool:
        """Whether its sender counts what it sent as handed over."""
        return any(item.adds == "increment" for item in self.fields)


def hand_overs(says: Iterable[Utterance]) -> frozenset[str]:
    """The kinds of replies after which the agent counts what it sent as handed over: those with increments."""
    return frozenset(utterance.kind for utterance in says if utterance.direction == "up" and utterance.hands_over)


def matrix(
    name: str,
    size: int | str = "d",
    *,
    adds: Adds | None = None,
    pooled: bool = False,
    apart: bool = False,
    bound: Bound | None = None,
) -> WireField:
    """A positive semidefinite matrix field of the given size."""
    what = {"adds": adds, "pooled": pooled, "apart": apart, "bound": bound}
    return WireField(name, (size, size), symmetric=True, semidefinite=True, **what)  # type: ignore[arg-type]


def vector(
    name: str,
    size: int | str = "d",
    *,
    adds: Adds | None = None,
    pooled: bool = False,
    apart: bool = False,
    bound: Bound | None = None,
) -> WireField:
    """A vector field of the given size."""
    return WireField(name, (size,), adds=adds, pooled=pooled, apart=apart, bound=bound)


@dataclass(frozen=True, slots=True)
class Size:
    """What one agent's share of a message weighs; a signal carries no scalars and weighs nothing."""

    scalars: int
    bytes: int


@dataclass(frozen=True)
class Wire:
    """Encodes, decodes, measures and checks messages.

    `packed` sends symmetric matrices as their lower triangle, d(d+1)/2 numbers instead of d². What may be
    packed is what the algorithm declared symmetric. `sizes` gives the lengths that the declared shapes name.
    """

    packed: bool = False
    utterances: tuple[Utterance, ...] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def speaking(self, utterances: Iterable[Utterance], sizes: Mapping[str, int]) -> Wire:
        """The same wire, bound to what one algorithm declares."""
        return Wire(self.packed, tuple(utterances), dict(sizes))

    def check(self, message: Message, direction: Direction) -> Size | None:
        """Raise `WireError` unless `message` is one of the declared utterances. Returns what every agent's share weighs
        where that is known by now, and the same for all.
        """
        if self.utterances is None:
            return None
        known = self._known_form(message, direction)
        if known is not None:
            return known.size
        declared = self.declared(message.kind, direction)
        required = {name for name, item in declared.items() if not item.optional}
        if not required <= message.arrays.keys() <= declared.keys():
            raise WireError(
                f"message {message.kind!r} ({direction}) carries {sorted(message.arrays)}, "
                f"declared are {sorted(declared)}"
            )
        free: dict[str, int] = {}
        for name, array in message.arrays.items():
            item = declared[name]
            if array.dtype != np.dtype(item.dtype):
                raise WireError(
                    f"{name!r} of message {message.kind!r} ({direction}) is of type {array.dtype}, declared is "
                    f"{np.dtype(item.dtype)}"
                )
            if not self._fits(item, array, message, free):
                raise WireError(
                    f"{name!r} of message {message.kind!r} ({direction}) has shape {array.shape[1:]} "
                    f"per agent, declared is {self._expected(item)}"
                )
        if message.lengths:
            return None
        size = self._measure(message, direction, 0)
        self._remember(message, direction, size)
        return size

    def size(self, message: Message, direction: Direction, row: int = 0) -> Size:
        """Scalars and bytes of one agent's share of `message`, without encoding it."""
        if not message.arrays:
            return Size(0, 0)
        known = self._known_form(message, direction)
        return self._measure(message, direction, row) if known is None else known.size

    def passed(self, kind: str, direction: Direction) -> Size | None:
        """What a share of the last message of this kind weighed that was checked; None before the first, and where
        shares differ from agent to agent.
        """
        known = self._passed.get((kind, direction))
        return None if known is None else known.size

    def _known_form(self, message: Message, direction: Direction) -> _Form | None:
        """What a message of this kind looked like that has passed, if this one looks like it; None where shares differ
        from agent to agent.
        """
        known = self._passed.get((message.kind, direction))
        if known is None or message.lengths or known.parts.keys() != message.arrays.keys():
            return None
        for name, array in message.arrays.items():
            dtype, shape = known.parts[name]
            if array.dtype != dtype or array.shape[1:] != shape:
                return None
        return known

    def _remember(self, message: Message, direction: Direction, size: Size) -> None:
        """An algorithm says few things, over and over: what they are is looked up once."""
        parts = {name: (array.dtype, array.shape[1:]) for name, array in message.arrays.items()}
        self._passed[message.kind, direction] = _Form(parts, size)

    def _measure(self, message: Message, direction: Direction, row: int) -> Size:
        scalars = 0
        total = 3 + len(message.kind)
        for name, array in message.arrays.items():
            item = self._item(message.kind, direction, name)
            shape = self._shape(item, array, message, row)
            count = _entries(shape, self._triangular(item))
            scalars += count
            total += 4 + len(name) + 4 * len(shape) + _length(count, array.dtype, item.bits if item else None)
        return Size(scalars, total) if message.arrays else Size(0, 0)

    def sizes_of(self, message: Message, direction: Direction) -> tuple[IntArray, IntArray]:
        """(w,) scalars and bytes of every agent's share of `message`."""
        if message.lengths:
            shares = [self.size(message, direction, row) for row in range(len(message.who))]
        else:
            shares = [self.size(message, direction)] * len(message.who)
        return (
            np.array([share.scalars for share in shares], dtype=np.int64),
            np.array([share.bytes for share in shares], dtype=np.int64),
        )

    def encode(self, message: Message, row: int, direction: Direction) -> bytes:
        """The bytes of agent `message.who[row]`'s share."""
        parts = [bytes([VERSION]), _text(message.kind), bytes([len(message.arrays)])]
        for name, array in message.arrays.items():
            item = self._item(message.kind, direction, name)
            value = array[row][tuple(slice(size) for size in self._shape(item, array, message, row))]
            dtype = value.dtype.newbyteorder("<")
            if dtype not in _CODES:
                raise WireError(f"{name!r} of message {message.kind!r} has type {value.dtype}")
            triangular, bits = self._triangular(item), item.bits if item else None
            parts += [_text(name), bytes([_CODES[dtype], triangular + 2 * (bits or 0), value.ndim])]
            parts.append(struct.pack(f"<{value.ndim}I", *value.shape))
            flat = np.ascontiguousarray(_lower(value) if triangular else value, dtype)
            parts.append(flat.tobytes() if bits is None else _in_bits(flat.ravel(), bits, name))
        return b"".join(parts)

    @staticmethod
    def decode(data: bytes) -> tuple[str, dict[str, Array]]:
        """The kind and arrays of one agent's share; raises `WireError` on anything malformed."""
        reader = _Reader(data)
        if reader.byte() != VERSION:
            raise WireError(f"bytes are not a message of wire version {VERSION}")
        kind = reader.text()
        arrays: dict[str, Array] = {}
        for _ in range(reader.byte()):
            name = reader.text()
            if name in arrays:
                raise WireError(f"field {name!r} appears twice")
            code, packing, ndim = reader.byte(), reader.byte(), reader.byte()
            triangular, bits = bool(packing & 1), packing >> 1 or None
            if code >= len(_TYPES):
                raise WireError(f"field {name!r} has an unknown type or packing")
            dtype = np.dtype(_TYPES[code])
            if bits is not None and not _is_packable(dtype, bits):
                raise WireError(f"field {name!r} has an unknown type or packing")
            shape = struct.unpack(f"<{ndim}I", reader.take(4 * ndim))
            if triangular and (ndim != 2 or shape[0] != shape[1]):
                raise WireError(f"field {name!r} of shape {shape} cannot be packed")
            count = _entries(shape, triangular)
            content = reader.take(_length(count, dtype, bits))
            flat = np.frombuffer(content, dtype) if bits is None else _from_bits(content, count, bits, dtype, name)
            if dtype == np.bool_ and (flat.view(np.uint8) > 1).any():
                raise WireError(f"field {name!r} holds bytes that are neither true nor false")
            try:
                arrays[name] = _unpack(flat, shape[0]) if triangular else flat.reshape(shape).copy()
            except ValueError:  # more dimensions, or an empty array of larger ones, than numpy can hold
                raise WireError(f"field {name!r} has an impossible shape of {ndim} dimensions") from None
        reader.end()
        return kind, arrays

    def gathered(self, kind: str, who: IntArray, shares: list[dict[str, Array]], direction: Direction) -> Message:
        """One message of what `who` sent each: `shares[i]` are the arrays of agent `who[i]`; the inverse of `encode`.

        Where agents sent more or less of something that is ragged, rows are padded to the longest. What cannot be one
        message raises `WireError`; whether it was declared is for `check` to say.
        """
        if not shares:
            return Message(kind, who)
        if any(share.keys() != shares[0].keys() for share in shares):
            raise WireError(f"shares of message {kind!r} ({direction}) carry different fields")
        arrays: dict[str, Array] = {}
        lengths: dict[str, IntArray] = {}
        for name in shares[0]:
            rows = [share[name] for share in shares]
            item = self._item(kind, direction, name)
            ragged = () if item is None else item.ragged
            if ragged and item is not None and any(row.ndim != len(item.shape) for row in rows):
                raise WireError(f"{name!r} of message {kind!r} ({direction}) needs {len(item.shape)} dimensions")
            for place, size in ragged:
                held = np.array([row.shape[place] for row in rows], dtype=np.int64)
                if not np.array_equal(lengths.setdefault(size, held), held):
                    raise WireError(f"{name!r} of message {kind!r} ({direction}) disagrees with others on {size!r}")
            rows = [_padded(row, {place: int(lengths[size].max()) for place, size in ragged}) for row in rows]
            if len({(row.shape, row.dtype) for row in rows}) > 1:
                raise WireError(f"{name!r} of message {kind!r} ({direction}) differs in shape or type between agents")
            arrays[name] = np.stack(rows)
        return Message(kind, who, arrays, lengths)

    def declared(self, kind: str, direction: Direction) -> Mapping[str, WireField]:
        """The fields that were declared for messages of a kind; raises `WireError` if there is no such kind."""
        try:
            return self._declared[kind, direction]
        except KeyError:
            raise WireError(f"message {kind!r} ({direction}) was never declared") from None

    @cached_property
    def _declared(self) -> dict[tuple[str, Direction], dict[str, WireField]]:
        return {
            (utterance.kind, utterance.direction): {item.name: item for item in utterance.fields}
            for utterance in self.utterances or ()
        }

    @cached_property
    def _passed(self) -> dict[tuple[str, Direction], _Form]:
        """What the latest message of every kind looked like that was found to be as declared, and what it weighs."""
        return {}

    def _item(self, kind: str, direction: Direction, name: str) -> WireField | None:
        """What was declared of a field; None on a wire that is bound to no algorithm."""
        if self.utterances is None:
            return None
        declared = self.declared(kind, direction)
        if name not in declared:
            raise WireError(f"message {kind!r} ({direction}) carries {name!r}, declared are {sorted(declared)}")
        return declared[name]

    def _triangular(self, item: WireField | None) -> bool:
        return self.packed and item is not None and item.symmetric

    def _expected(self, item: WireField) -> tuple[int | str, ...]:
        return tuple(
            size if isinstance(size, int) else self.sizes[size] if isinstance(size, str) else str(size)
            for size in item.shape
        )

    def _fits(self, item: WireField, array: Array, message: Message, free: dict[str, int]) -> bool:
        """Whether an array has the declared shape; `free` are the lengths that the message was seen to have."""
        if array.ndim != 1 + len(item.shape):
            return False
        for size, held in zip(item.shape, array.shape[1:], strict=True):
            if isinstance(size, Free):
                if free.setdefault(size.name, held) != held:
                    return False
            elif isinstance(size, Ragged):
                lengths = message.lengths.get(size.name)
                if lengths is None or lengths.shape != message.who.shape or lengths.dtype != np.int64:
                    return False
                if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= held:
                    return False
            elif held != (size if isinstance(size, int) else self.sizes[size]):
                return False
        return True

    def _shape(self, item: WireField | None, array: Array, message: Message, row: int) -> tuple[int, ...]:
        """The shape of one agent's share, without what it is padded with."""
        if item is None or not message.lengths:
            return array.shape[1:]
        return tuple(
            int(message.lengths[size.name][row]) if isinstance(size, Ragged) else held
            for size, held in zip(item.shape, array.shape[1:], strict=True)
        )


_PIECE = 4096


class _Form(NamedTuple):
    """All that checking and weighing depend on: the type of every array and the shape of a share of it."""

    parts: dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
    size: Size


def _is_packable(dtype: np.dtype[np.generic], bits: int) -> bool:
    """Whether numbers of `bits` bits have this type in memory: the smallest, so that few bytes never become many."""
    return 1 <= bits <= 16 and dtype == np.dtype("i1" if bits <= 8 else "i2")


def _entries(shape: tuple[int, ...], triangular: bool) -> int:
    return shape[0] * (shape[0] + 1) // 2 if triangular else math.prod(shape)


def _length(count: int, dtype: np.dtype[np.generic], bits: int | None) -> int:
    return count * dtype.itemsize if bits is None else (count * bits + 7) // 8


def _in_bits(flat: Array, bits: int, name: str) -> bytes:
    """Whole numbers in `bits` bits each, in the order of their significance, counted from the lowest number."""
    shifted = flat.astype(np.int64) + (1 << (bits - 1))
    if len(shifted) and not 0 <= shifted.min() <= shifted.max() < 1 << bits:
        raise WireError(f"{name!r} holds numbers that do not fit into {bits} bits")
    spread = (shifted[:, None] >> np.arange(bits)) & 1
    return np.packbits(spread.astype(np.uint8).ravel(), bitorder="little").tobytes()


def _from_bits(content: bytes, count: int, bits: int, dtype: np.dtype[np.generic], name: str) -> Array:
    packed = np.frombuffer(content, np.uint8)
    weights = 1 << np.arange(bits)
    numbers = np.empty(count, dtype)
    # piece by piece, each of whole bytes: one number for every bit would take many times the memory of the content
    for first in range(0, count, _PIECE):
        last = min(first + _PIECE, count)
        spread = np.unpackbits(packed[first * bits // 8 : (last * bits + 7) // 8], bitorder="little")
        if spread[(last - first) * bits :].any():
            raise WireError(f"field {name!r} has bits beyond its last number")
        numbers[first:last] = spread[: (last - first) * bits].reshape(-1, bits) @ weights - (1 << (bits - 1))
    return numbers


class _Reader:
    """Reads forward through bytes that nobody vouches for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise WireError("the message ends too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

    def text(self) -> str:
        try:
            return self.take(self.byte()).decode("ascii")
        except UnicodeDecodeError:
            raise WireError("a name is not ASCII") from None

    def end(self) -> None:
        if self._at != len(self._data):
            raise WireError(f"{len(self._data) - self._at} bytes too many")


def _text(text: str) -> bytes:
    if not text.isascii():
        raise WireError(f"the name {text[:20]!r} is not ASCII")
    data = text.encode("ascii")
    if len(data) > 255:
        raise WireError(f"the name {text[:20]}... is longer than 255 characters")
    return bytes([len(data)]) + data


def _lower(square: Array) -> Array:
    return square[np.tril_indices(len(square))]


def _unpack(flat: Array, size: int) -> Array:
    square = np.zeros((size, size), flat.dtype)
    first = 0
    for row in range(size):  # indices of all entries would take many times the memory of small ones
        last = first + row + 1
        square[row, : row + 1] = square[: row + 1, row] = flat[first:last]
        first = last
    return square


def _padded(row: Array, sizes: Mapping[int, int]) -> Array:
    """`row`, with zeros behind it up to the given sizes of some of its axes."""
    shape = tuple(sizes.get(axis, held) for axis, held in enumerate(row.shape))
    if shape == row.shape:
        return row
    padded = np.zeros(shape, row.dtype)
    padded[tuple(slice(held) for held in row.shape)] = row
    return padded
