"""The wire: what an algorithm may say, and the bytes it becomes.

An algorithm declares its *utterances*: for each kind of message its direction and its named fields with
their shapes. A `Wire` turns one agent's share of a message into bytes and back, knows the size of those
bytes without producing them, and refuses what was not declared. The format is self-describing and small:

    1 byte version | kind | 1 byte number of fields | fields
    field = name | 1 byte type | 1 byte packing | 1 byte ndim | 4 bytes per dimension | raw little-endian data

where kind and name are one length byte and ASCII text. Reading needs no trust in the sender: it executes
nothing, allocates no more than it was given and rejects whatever does not fit to the last byte.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fedbandits.contract.arrays import Array
from fedbandits.contract.messages import Message

VERSION = 1
_TYPES = ("<f8", "<i8", "<f4", "<i4", "|u1", "|b1")
_CODES = {np.dtype(name): code for code, name in enumerate(_TYPES)}

Direction = Literal["up", "down", "peer"]


class WireError(ValueError):
    """A message that was not declared, or bytes that are no message."""


@dataclass(frozen=True, slots=True)
class Field:
    """A named array of a message; `shape` mixes numbers and the names of sizes, as in `("d", "d")`."""

    name: str
    shape: tuple[int | str, ...] = ()
    symmetric: bool = False
    raw: bool = False
    """True for raw observations, which only an algorithm that says so may send."""
    optional: bool = False
    """True for what some hyper-parameters need and others do not."""

    def __str__(self) -> str:
        notes = [" symmetric"] * self.symmetric + [" raw"] * self.raw + [" at times"] * self.optional
        return f"{self.name} ({'×'.join(map(str, self.shape)) or '1'}{''.join(notes)})"


@dataclass(frozen=True, slots=True)
class Utterance:
    """One kind of message an algorithm sends: up to the server, down to agents, or among peers."""

    kind: str
    direction: Direction
    fields: tuple[Field, ...] = ()

    def __str__(self) -> str:
        return f"{self.direction}: {', '.join(map(str, self.fields)) or 'signal'}"


def matrix(name: str, size: int | str = "d") -> Field:
    """A symmetric matrix field of the given size."""
    return Field(name, (size, size), symmetric=True)


def vector(name: str, size: int | str = "d") -> Field:
    """A vector field of the given size."""
    return Field(name, (size,))


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

    def check(self, message: Message, direction: Direction) -> None:
        """Raise `WireError` unless `message` is one of the declared utterances."""
        if self.utterances is None:
            return
        declared = self._declared(message.kind, direction)
        required = {name for name, item in declared.items() if not item.optional}
        if not required <= message.arrays.keys() <= declared.keys():
            raise WireError(
                f"message {message.kind!r} ({direction}) carries {sorted(message.arrays)}, "
                f"declared are {sorted(declared)}"
            )
        for name, array in message.arrays.items():
            expected = tuple(size if isinstance(size, int) else self.sizes[size] for size in declared[name].shape)
            if array.shape[1:] != expected:
                raise WireError(
                    f"{name!r} of message {message.kind!r} ({direction}) has shape {array.shape[1:]} "
                    f"per agent, declared is {expected}"
                )

    def size(self, message: Message, direction: Direction) -> Size:
        """Scalars and bytes of each agent's share of `message`, without encoding it."""
        if not message.arrays:
            return Size(0, 0)
        symmetric = self._symmetric(message.kind, direction)
        scalars = 0
        total = 3 + len(message.kind)
        for name, array in message.arrays.items():
            shape = array.shape[1:]
            count = math.prod(shape)
            if name in symmetric:
                count = shape[0] * (shape[0] + 1) // 2
            scalars += count
            total += 4 + len(name) + 4 * len(shape) + count * array.dtype.itemsize
        return Size(scalars, total)

    def encode(self, message: Message, row: int, direction: Direction) -> bytes:
        """The bytes of agent `message.who[row]`'s share."""
        symmetric = self._symmetric(message.kind, direction)
        parts = [bytes([VERSION]), _text(message.kind), bytes([len(message.arrays)])]
        for name, array in message.arrays.items():
            value = array[row]
            dtype = value.dtype.newbyteorder("<")
            if dtype not in _CODES:
                raise WireError(f"{name!r} of message {message.kind!r} has type {value.dtype}")
            packed = name in symmetric
            parts += [_text(name), bytes([_CODES[dtype], packed, value.ndim])]
            parts.append(struct.pack(f"<{value.ndim}I", *value.shape))
            parts.append(np.ascontiguousarray(_lower(value) if packed else value, dtype).tobytes())
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
            code, packed, ndim = reader.byte(), reader.byte(), reader.byte()
            if code >= len(_TYPES) or packed > 1:
                raise WireError(f"field {name!r} has an unknown type or packing")
            shape = struct.unpack(f"<{ndim}I", reader.take(4 * ndim))
            if packed and (ndim != 2 or shape[0] != shape[1]):
                raise WireError(f"field {name!r} of shape {shape} cannot be packed")
            count = shape[0] * (shape[0] + 1) // 2 if packed else math.prod(shape)
            dtype = np.dtype(_TYPES[code])
            flat = np.frombuffer(reader.take(count * dtype.itemsize), dtype)
            if dtype == np.bool_ and (flat.view(np.uint8) > 1).any():
                raise WireError(f"field {name!r} holds bytes that are neither true nor false")
            try:
                arrays[name] = _unpack(flat, shape[0]) if packed else flat.reshape(shape).copy()
            except ValueError:  # more dimensions, or an empty array of larger ones, than numpy can hold
                raise WireError(f"field {name!r} has an impossible shape of {ndim} dimensions") from None
        reader.end()
        return kind, arrays

    def _declared(self, kind: str, direction: Direction) -> dict[str, Field]:
        for utterance in self.utterances or ():
            if utterance.kind == kind and utterance.direction == direction:
                return {item.name: item for item in utterance.fields}
        raise WireError(f"message {kind!r} ({direction}) was never declared")

    def _symmetric(self, kind: str, direction: Direction) -> frozenset[str]:
        if not self.packed or self.utterances is None:
            return frozenset()
        declared = self._declared(kind, direction)
        return frozenset(name for name, item in declared.items() if item.symmetric)


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
    rows, columns = np.tril_indices(size)
    square[rows, columns] = flat
    square[columns, rows] = flat
    return square
