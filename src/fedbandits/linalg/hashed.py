"""Random numbers as a hash of where they stand: no generator, no order, no state.

Words are Threefry-2x32 with 13 rounds (Salmon, Moraes, Dror & Shaw, SC 2011): an enciphered counter, of additions,
rotations and exclusive ors alone, hence as many at once as a vector register has places. Normal numbers follow from
pairs of words by Box and Muller, in single precision, with polynomials in place of the logarithm, sine and cosine.
Every operation is done as it is written, none is fused and no library is asked: the numbers are the same on every
machine.

What a normal number of these is not: it is one of at most 2^54 or so, never larger than 6.7 in size, and off by up to
3e-5 where it is tiny because the radius is (single precision near a radius of 0); elsewhere by a few units of 2^-22.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit_inside

Words = NDArray[np.uint32]
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]

REGISTER = 8
"""Singles, or words, per register: rooms are multiples of it."""

_PARITY = np.uint32(0x1BD11BDA)
_ONE, _TWO, _THREE = np.uint32(1), np.uint32(2), np.uint32(3)
_ROOT_HALF = np.uint32(0x3F3504F3)
"""sqrt(1/2) as a single."""
_EXPONENT = np.int32(-0x00800000)
_EIGHTH, _QUARTERS, _SIGN, _ODD = (np.uint32(place) for place in (0x20000000, 0xC0000000, 0x80000000, 0x40000000))
_TURN = np.float32(2 * math.pi / 2**32)
_LOG_TWO = np.float32(math.log(2))
_F0, _HALF, _F1, _MINUS_TWO, _BITS = (np.float32(number) for number in (0.0, 0.5, 1.0, -2.0, 31.0))
# (log(1 + f) - f + f^2/2)/f^3 on [sqrt(1/2) - 1, sqrt(2) - 1]
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = (
    np.float32(number)
    for number in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
)
# (sin(t) - t)/t^3 and (cos(t) - 1 + t^2/2)/t^4 on [-pi/4, pi/4], in t^2
_S0, _S1, _S2 = (np.float32(number) for number in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1))
_C0, _C1, _C2 = (np.float32(number) for number in (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2))


@jit_inside
def _round(x0: np.uint32, x1: np.uint32, by: int) -> tuple[np.uint32, np.uint32]:
    x0 = np.uint32(x0 + x1)
    x1 = np.uint32((x1 << np.uint32(by)) | (x1 >> np.uint32(32 - by)))
    return x0, np.uint32(x1 ^ x0)


@jit_inside
def hashed(k0: np.uint32, k1: np.uint32, x0: np.uint32, x1: np.uint32) -> tuple[np.uint32, np.uint32]:
    """The counter (x0, x1), enciphered by the key (k0, k1): for every key a permutation of all pairs."""
    k2 = np.uint32(k0 ^ k1 ^ _PARITY)
    x0, x1 = np.uint32(x0 + k0), np.uint32(x1 + k1)
    x0, x1 = _round(x0, x1, 13)
    x0, x1 = _round(x0, x1, 15)
    x0, x1 = _round(x0, x1, 26)
    x0, x1 = _round(x0, x1, 6)
    x0, x1 = np.uint32(x0 + k1), np.uint32(x1 + k2 + _ONE)
    x0, x1 = _round(x0, x1, 17)
    x0, x1 = _round(x0, x1, 29)
    x0, x1 = _round(x0, x1, 16)
    x0, x1 = _round(x0, x1, 24)
    x0, x1 = np.uint32(x0 + k2), np.uint32(x1 + k0 + _TWO)
    x0, x1 = _round(x0, x1, 13)
    x0, x1 = _round(x0, x1, 15)
    x0, x1 = _round(x0, x1, 26)
    x0, x1 = _round(x0, x1, 6)
    x0, x1 = np.uint32(x0 + k0), np.uint32(x1 + k1 + _THREE)
    return _round(x0, x1, 17)


class Room(NamedTuple):
    """Where `hashed_normals` writes. Arrays of their own, since the compiler cannot tell rows of one array apart."""

    first: Words
    second: Words
    radius: Singles
    normals: Floats


def room_for_normals(count: int) -> Room:
    """Room for `count` numbers, and perhaps a few more."""
    pairs = (count + 2 * REGISTER - 1) // (2 * REGISTER) * REGISTER
    first, second = (np.empty(pairs, np.uint32) for _ in range(2))
    return Room(first, second, np.empty(pairs, np.float32), np.empty(2 * pairs))


@jit_inside
def hashed_normals(k0: np.uint32, k1: np.uint32, salt: np.uint32, room: Room) -> None:
    """Fill `room.normals` (2m,) with independent normal numbers that (k0, k1) and `salt` stand for.

    Number j and number m + j come from the words of counter (j, salt): sqrt(-2 log u) times the cosine and the sine of
    an angle, the quarters of the circle being taken in another order than usual, which needs fewer signs.
    """
    ones, others, radii, out = room
    m = len(ones)
    for j in range(m):
        ones[j], others[j] = hashed(k0, k1, np.uint32(j), salt)
    for j in range(m):
        # u = (w + 1/2) 2^-31, w having 31 bits; as 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2))
        bits = np.float32(np.float32(np.int32(ones[j] >> _ONE)) + _HALF).view(np.uint32)
        over = np.int32(np.uint32(bits - _ROOT_HALF))
        exponent = np.float32(np.int32(over >> np.int32(23)))
        f = np.uint32(np.int32(bits) - np.int32(over & _EXPONENT)).view(np.float32) - _F1
        square = f * f
        p = _L0 * f + _L1
        p = p * f + _L2
        p = p * f + _L3
        p = p * f + _L4
        p = p * f + _L5
        p = p * f + _L6
        p = p * f + _L7
        p = p * f + _L8
        log = f + (p * f * square - _HALF * square) + (exponent - _BITS) * _LOG_TWO
        radii[j] = math.sqrt(max(_MINUS_TWO * log, _F0))
    for j in range(m):
        radius, word = radii[j], others[j]
        quarter = np.uint32(np.uint32(word + _EIGHTH) & _QUARTERS)
        t = np.float32(np.int32(np.uint32(word - quarter))) * _TURN
        square = t * t
        sine = ((_S0 * square + _S1) * square + _S2) * square * t + t
        cosine = ((_C0 * square + _C1) * square + _C2) * square * square - _HALF * square + _F1
        odd, sign = np.uint32(quarter & _ODD) != np.uint32(0), np.uint32(quarter & _SIGN)
        first = np.float32(radius * (sine if odd else cosine)).view(np.uint32)
        second = np.float32(radius * (cosine if odd else sine)).view(np.uint32)
        out[j] = np.float64(np.uint32(first ^ sign).view(np.float32))
        out[m + j] = np.float64(np.uint32(second ^ sign).view(np.float32))
