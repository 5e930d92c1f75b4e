"""Packing as Unix `compress` does, for tests of what unpacks it."""

from __future__ import annotations


def packed(content: bytes, widest: int = 16, empty_at: tuple[int, ...] = ()) -> bytes:
    """As `compress -b widest`, emptying the dictionary before the bytes at the positions `empty_at`."""
    out, bits, held = bytearray(b"\x1f\x9d" + bytes([128 | widest])), 0, 0
    known, width, written = {bytes([v]): v for v in range(256)}, 9, 0

    def write(code):
        nonlocal bits, held, written
        bits |= code << held
        held += width
        written += 1
        while held >= 8:
            out.append(bits & 255)
            bits, held = bits >> 8, held - 8

    def pad():
        nonlocal written
        while written % 8:
            write(0)
        written = 0

    free, word = 257, b""
    for place, byte in enumerate(content):
        longer = word + bytes([byte])
        emptied = place in empty_at and word
        if longer in known and not emptied:
            word = longer
            continue
        write(known[word])
        if emptied:
            write(256)
            pad()
            known, free, width = {bytes([v]): v for v in range(256)}, 257, 9
        else:
            if free < 1 << widest:
                known[longer] = free
                free += 1
            # a reader is one entry behind: it widens after the code that follows
            if free > 1 << width and width < widest:
                pad()
                width += 1
        word = bytes([byte])
    if word:
        write(known[word])
    if held:
        out.append(bits & 255)
    return bytes(out)
