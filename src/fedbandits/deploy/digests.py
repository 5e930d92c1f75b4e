"""Checksums of what is on record: a damaged row is noticed, whatever column was hit.

They are against accidents (bits that flip, pages that are lost), not against people who can write to the file.
"""

from __future__ import annotations

import hashlib
import struct
import zlib

Value = int | float | str | bytes | None
"""What a column of SQLite holds."""

_pack_int, _pack_float, _pack_kind = struct.Struct("<cq").pack, struct.Struct("<cd").pack, struct.Struct("<cQ").pack


def digest(*values: Value) -> int:
    """CRC-32 of the values of a row, their types and their lengths.

    It differs after any change within 32 neighbouring bits of one value, and but for one in 2^32 after all others. 1
    and 1.0 differ; a value that SQLite's types turn into another (an int in a REAL column) has to be given as that.

    >>> digest(1, "a", b"b", None) == digest(1, "a", b"b", None), digest(1) == digest(1.0)
    (True, False)
    """
    crc, checksum = 0, zlib.crc32
    for value in values:
        if value is None:
            crc = checksum(b"n", crc)
        elif isinstance(value, float):
            crc = checksum(_pack_float(b"r", value), crc)
        elif isinstance(value, int):
            crc = checksum(_pack_int(b"i", value), crc)
        else:
            kind, content = (b"t", value.encode()) if isinstance(value, str) else (b"b", value)
            crc = checksum(content, checksum(_pack_kind(kind, len(content)), crc))
    return crc


def sha(content: bytes | None) -> bytes:
    """SHA-256 of a letter, or of none."""
    return hashlib.sha256(content or b"").digest()


def snapshot_digest(entry: int, counts: str, state: bytes) -> bytes:
    """SHA-256 of a snapshot."""
    return hashlib.sha256(b"%d %b %b" % (entry, counts.encode(), state)).digest()
