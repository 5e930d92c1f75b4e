"""Checksums of what is on record: a damaged row is noticed, whatever column was hit.

They are against accidents (bits that flip, pages that are lost), not against people who can write to the file.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from functools import cache

Value = int | float | str | bytes | None
"""What a column of SQLite holds."""
_KINDS: dict[type, str] = {float: "r", int: "i", str: "t", bytes: "b", type(None): "n"}
_PACKED = str.maketrans({"r": "d", "i": "q", "t": "Q", "b": "Q", "n": ""})


def digest(*values: Value) -> int:
    """CRC-32 of the values of a row, their types and their lengths.

    It differs after any change within 32 neighbouring bits of one value, and but for one in 2^32 after all others. 1
    and 1.0 differ; a value that SQLite's types turn into another (an int in a REAL column) has to be given as that.

    >>> digest(1, "a", b"b", None) == digest(1, "a", b"b", None), digest(1) == digest(1.0)
    (True, False)
    """
    crc, pack = _layout(tuple(map(type, values)))
    numbers: list[float] = []
    for value in values:
        if isinstance(value, str):
            value = value.encode()
        if isinstance(value, bytes):
            crc = zlib.crc32(value, crc)
            numbers.append(len(value))
        elif value is not None:
            numbers.append(value)
    return zlib.crc32(pack(*numbers), crc)


@cache
def _layout(types: tuple[type, ...]) -> tuple[int, Callable[..., bytes]]:
    """For rows of these types: what their checksum begins with, and how their numbers and lengths become bytes."""
    kinds = "".join(next(kind for known, kind in _KINDS.items() if issubclass(one, known)) for one in types)
    return zlib.crc32(kinds.encode()), struct.Struct("<" + kinds.translate(_PACKED)).pack


def sha(content: bytes | None) -> bytes:
    """SHA-256 of a letter, or of none."""
    return hashlib.sha256(content or b"").digest()


def snapshot_digest(entry: int, counts: str, state: bytes) -> bytes:
    """SHA-256 of a snapshot."""
    return hashlib.sha256(b"%d %b %b" % (entry, counts.encode(), state)).digest()
