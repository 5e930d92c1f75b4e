"""Files packed by Unix `compress` (.Z), which no module of Python's library reads.

The format: bytes 1F 9D; a byte with the largest width of codes in its lower five bits, and the highest bit set where a
code 256 empties the dictionary; then codes, lowest bit first, of 9 bits to begin with and of one more each time the
dictionary outgrows them. Codes are written eight at a time: where their width changes, or the dictionary is emptied,
what is left of the eight is padding.
"""

from __future__ import annotations

_MAGIC = b"\x1f\x9d"
_LEAST, _MOST = 9, 16
_EMPTY = 256
_SINGLE = [bytes([value]) for value in range(256)]


def unpacked(packed: bytes, limit: int) -> bytes:
    """The contents of a .Z file; raises `ValueError` if it is none, is damaged, or holds more than `limit` bytes."""
    if packed[:2] != _MAGIC or len(packed) < 3 or not _LEAST <= packed[2] & 31 <= _MOST:
        raise ValueError("not a file that was packed by compress")
    widest, empties = packed[2] & 31, bool(packed[2] & 128)
    fresh = [*_SINGLE, b""] if empties else _SINGLE  # 256 is no entry where it is the sign to begin anew
    known, width, begin, read = fresh.copy(), _LEAST, 8 * 3, 0
    before, out, size = b"", bytearray(), 8 * len(packed)
    while True:
        if len(known) >= 1 << width and width < widest:
            begin, read, width = _next_eight(begin, read, width), 0, width + 1
        at = begin + read * width
        if at + width > size:
            return bytes(out)
        read += 1
        code = int.from_bytes(packed[at >> 3 : (at + width + 7) >> 3], "little") >> (at & 7) & (1 << width) - 1
        if empties and code == _EMPTY:
            begin, read, width = _next_eight(begin, read, width), 0, _LEAST
            known, before = fresh.copy(), b""
            continue
        if code > len(known) or (code == len(known) and not before):
            raise ValueError(f"damaged: code {code} where {len(known)} are known")
        # a code that is only about to be known is what came before, and its first byte once more
        word = known[code] if code < len(known) else before + before[:1]
        if before and len(known) < 1 << widest:
            known.append(before + word[:1])
        before = word
        out += word
        if len(out) > limit:
            raise ValueError(f"holds more than {limit} bytes")


def _next_eight(begin: int, read: int, width: int) -> int:
    """The bit behind the eight codes of which the last that was read is one."""
    return begin + -(-read // 8) * 8 * width
