"""Reading SQLite's write-ahead log by ourselves, to notice what SQLite passes over in silence.

SQLite takes the log as far as its checksums hold, and what comes after that has not happened for it: right after a
crash in the middle of a write, but if a bit has flipped in an early transaction, all later ones are lost without a
word. Here they are found.

The log is a header of 32 bytes and frames, each a header of 24 bytes and a page (https://sqlite.org/fileformat2.html).
A frame's checksum continues that of the frame before. Over pairs (a, b) of 32-bit words, modulo 2^32,

    s <- M s + B (a, b),    M = [[1, 1], [1, 2]],    B = [[1, 0], [1, 1]],

which is linear: what a frame adds is a matrix product over all frames at once, and a single flipped bit is found by the
difference that it makes.

What is not told from a crash: damage of more than one bit in the last transaction of the log. It counts as one that
was being written when the process or the power went.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fedbandits.contract.arrays import Array
from fedbandits.deploy.errors import CorruptError

log = logging.getLogger(__name__)
_HEADER, _FRAME = 32, 24
_MAGIC = {0x377F0682: "<u4", 0x377F0683: ">u4"}
"""The byte order of the words that checksums are over, by the first word."""
_MASK = 0xFFFFFFFF
_BLOCK = 1024
"""Frames that are read at once."""
_SECOND_LOOK = 0.05
"""Seconds until a frame that looked damaged is looked at again: another process may just have been writing it."""


@dataclass(frozen=True, slots=True)
class LogDamage:
    """Where a log stops being readable.

    `frame` is the first one that does not hold (-1: the header), of `frames`. `lost` is how many transactions from
    there on were written completely once. `certain`: a flipped bit was found, so that it is no trace of a crash.
    """

    frame: int
    frames: int
    lost: int
    certain: bool

    def __str__(self) -> str:
        where = "at its beginning" if self.frame < 1 else f"after {self.frame} of {self.frames} pages"
        return f"the log is damaged {where}; {self.lost or 'no'} complete transactions from there on cannot be read"


def log_of(path: str | PathLike[str]) -> Path:
    """The write-ahead log of the database at `path`."""
    return Path(f"{Path(path).resolve()}-wal")


def log_damage(path: str | PathLike[str]) -> LogDamage | None:
    """What is wrong with the log of the database at `path`; None if nothing is, or if it ends in a transaction that a
    crash may have interrupted.

    Opens nothing but the log itself, and changes nothing. Others may be writing meanwhile.
    """
    found = _damage(log_of(path))
    if found is not None:
        time.sleep(_SECOND_LOOK)
        again = _damage(log_of(path))
        if again is None or again.frame != found.frame:
            return None
    return found


def refuse_damaged_log(path: str | PathLike[str], *, durable: bool = True) -> None:
    """Raise `CorruptError` if the log holds complete transactions that SQLite would pass over.

    If commits did not wait for the disk (not `durable`), a power failure may have left it like that: then a warning is
    logged, unless a flipped bit is found. Before the database is opened: SQLite throws away what it cannot read.
    """
    damage = log_damage(path)
    if damage is None:
        return
    if durable or damage.certain:
        raise CorruptError(
            f"{path}: {damage}; restore the file and its log from a backup, or go on without them: copy what can be "
            "read by `fedbandits agent backup --salvage`"
        )
    log.warning("%s: %s: a power failure, or damage", path, damage)


def _damage(place: Path) -> LogDamage | None:
    try:
        with place.open("rb") as file:
            return _damage_in(file)
    except FileNotFoundError:
        return None


def _damage_in(file: BinaryIO) -> LogDamage | None:
    start = file.read(_HEADER)
    if len(start) < _HEADER or not any(start):  # all zeros: it did not reach the disk, nor did anything after it
        return None
    header = np.frombuffer(start, ">u4").astype(np.int64)
    order, size = _MAGIC.get(int(header[0])), int(header[2])
    known = order is not None and 512 <= size <= 65536 and size & (size - 1) == 0
    if order is None or not known or _sum(start[:24], order) != (int(header[6]), int(header[7])):
        anything = file.seek(0, os.SEEK_END) > _HEADER
        return LogDamage(-1, 0, int(anything), certain=True) if anything else None
    weights, ahead = _weights((8 + size) // 8)
    heads, added = _frames(file, size, order, weights)
    salts, state = (int(header[4]), int(header[5])), (int(header[6]), int(header[7]))
    # plain numbers: a comparison of small arrays costs as much as summing up a page
    for frame, ((*_, salt, pepper, one, other), more) in enumerate(zip(heads.tolist(), added.tolist(), strict=True)):
        state = _onward(ahead, state, more)
        if (salt, pepper) == salts and (one, other) == state:
            continue
        alike = (heads[frame:, 2:4] == salts).any(axis=1)  # frames of the log's earlier use differ in both salts
        lost = int((alike & (heads[frame:, 1] != 0)).sum())
        flipped = _is_one_bit(heads[frame], salts, state, weights)
        return LogDamage(frame, len(heads), lost, flipped) if flipped or lost > 1 else None
    return None


def _frames(file: BinaryIO, size: int, order: str, weights: Array) -> tuple[Array, Array]:
    """The heads of all complete frames, (n, 6): page, size of the database after a commit (else 0), two salts, two
    sums; and what each adds to the sums, (n, 2).
    """
    heads, added = [np.empty((0, 6), np.int64)], [np.empty((0, 2), np.uint32)]
    length = _FRAME + size
    while count := len(block := file.read(_BLOCK * length)) // length:
        frames = np.frombuffer(block, np.uint8, count * length).reshape(count, length)
        heads.append(np.frombuffer(frames[:, :_FRAME].tobytes(), ">u4").reshape(count, 6).astype(np.int64))
        summed = np.concatenate([frames[:, :8], frames[:, _FRAME:]], axis=1).tobytes()
        added.append(np.frombuffer(summed, order).reshape(count, -1).astype(np.uint32) @ weights)
        if len(block) < _BLOCK * length:  # the end, maybe in the middle of a frame: another process may write on
            break
    return np.concatenate(heads), np.concatenate(added)


def _is_one_bit(head: Array, salts: tuple[int, int], state: tuple[int, int], weights: Array) -> bool:
    """Whether a frame holds but for one bit: of its salts, of its sums, or of what they are over."""
    wrong_salts = [int(bits).bit_count() for bits in head[2:4] ^ np.array(salts)]
    wrong_sums = [(int(held) ^ computed).bit_count() for held, computed in zip(head[4:6], state, strict=True)]
    if sum(wrong_salts) + sum(wrong_sums) == 1:
        return True
    if sum(wrong_salts):
        return False
    differs = np.array([int(held) - computed & _MASK for held, computed in zip(head[4:6], state, strict=True)])
    made = (weights[:, None, :].astype(np.int64) << np.arange(32)[None, :, None]) & _MASK
    return bool(((made == differs).all(axis=2) | ((-made & _MASK) == differs).all(axis=2)).any())


def _weights(pairs: int) -> tuple[Array, tuple[int, int, int]]:
    """What each word adds to the sums after `pairs` of them, (2 pairs, 2); and M^pairs as (top left, off the diagonal,
    bottom right): all powers of M are symmetric.
    """
    weights = np.empty((2 * pairs, 2), np.uint32)
    power = (1, 0, 1)
    for pair in reversed(range(pairs)):
        one, other, last = power
        weights[2 * pair] = ((one + other) & _MASK, (other + last) & _MASK)
        weights[2 * pair + 1] = (other, last)
        power = ((one + other) & _MASK, (one + 2 * other) & _MASK, (other + 2 * last) & _MASK)
    return weights, power


def _onward(ahead: tuple[int, int, int], state: tuple[int, int], added: list[int]) -> tuple[int, int]:
    one, other, last = ahead
    return (
        (one * state[0] + other * state[1] + added[0]) & _MASK,
        (other * state[0] + last * state[1] + added[1]) & _MASK,
    )


def _sum(content: bytes, order: str) -> tuple[int, int]:
    words = np.frombuffer(content, order).astype(np.uint32)
    weights, _ = _weights(len(words) // 2)
    first, second = words @ weights
    return int(first), int(second)
