"""Mishaps: what befalls one transmission, as a pure function of what is sent by whom to whom.

No draw is taken from a stream. Each one is a hash (a chain of SplitMix64 steps) of a key, which a
`numpy.random.SeedSequence` provides for each purpose, and of the whole numbers that name the occasion: the message by
its origin and the round it was said in, the transmission by its sender and receiver besides. An agent sends a message
over a link at most once, so whatever befalls a transmission is its own. It does not depend on the order of events:
simulations that visit transmissions in different orders agree to the bit, and two algorithms under one seed meet the
same failures. Messages of different kinds meet failures that are independent of each other.

The uniform numbers are exact multiples of 2^-53, hence the same in compiled code, whatever is fused there, and outside.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.streams import WordArray
from fedbandits.graphs.network import Faults
from fedbandits.linalg.jit import jit, jit_part

LOSS, DELAY, TRANSIT, SOURCE, OUTLIER, BYZANTINE = range(6)
"""Purposes of draws: the places of their keys in `Mishaps.keys`."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Mishaps(NamedTuple):
    """What decides, in a form that compiled code takes: `keys` (6,), the chance of `loss`, the law of delays.

    `tails` (delay_max,): entry k - 1 is P(delay >= k); empty where nothing is delayed.
    """

    keys: WordArray
    loss: float
    tails: FloatArray


def mishaps_of(faults: Faults, seed: np.random.SeedSequence, place: int = 0) -> Mishaps:
    """The mishaps that `seed` stands for, under `faults`, for the kind of message in the given place among those that
    are declared. Who is byzantine is so in all kinds.
    """
    keys = seed.generate_state(6, np.uint64).astype(np.uint64)
    if place > 0:
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, place))
        others = np.arange(len(keys)) != BYZANTINE
        keys[others] = own.generate_state(6, np.uint64)[others]
    return Mishaps(keys, faults.loss, tails_of(faults.delay, faults.delay_max))


def tails_of(mean: float, longest: int) -> FloatArray:
    """(longest,) P(D >= k) for k = 1..longest, of a geometric delay D that is cut off and has the given mean.

    D = min(G, longest) with P(G >= k) = q^k, where q solves E[D] = q + q^2 + ... + q^longest = mean. With
    mean = longest this is q = 1: every delay is the longest. Mean 0 gives an empty array: nothing is delayed.

    >>> tails_of(1.5, 2).round(4).tolist()
    [0.8229, 0.6771]
    """
    if mean == 0:
        return np.zeros(0)
    powers = np.arange(1, longest + 1)
    ratio = 1.0 if mean >= longest else brentq(lambda q: (q**powers).sum() - mean, 0.0, 1.0, xtol=1e-15)
    return np.asarray(ratio**powers, dtype=np.float64)


@jit_part
def _absorbed(word: np.uint64, number: int) -> np.uint64:
    z = word + np.uint64(number) + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit_part
def _as_uniform(word: np.uint64) -> float:
    # 52 bits, centred in their cell: neither 0 nor 1 can occur, not even by rounding
    return (float(word >> np.uint64(12)) + 0.5) * 2.0**-52


@jit
def uniform(key: np.uint64, occasion: tuple[int, ...]) -> float:
    """The number in the open unit interval that belongs to `occasion`."""
    word = key
    for number in occasion:
        word = _absorbed(word, number)
    return _as_uniform(word)


@jit
def uniforms(key: np.uint64, occasions: IntArray) -> FloatArray:
    """(m, k) -> (m,): `uniform` of every row."""
    drawn = np.empty(len(occasions))
    for i in range(len(occasions)):
        word = key
        for j in range(occasions.shape[1]):
            word = _absorbed(word, occasions[i, j])
        drawn[i] = _as_uniform(word)
    return drawn


@jit
def lost(mishaps: Mishaps, origin: int, born: int, sender: int, to: int) -> bool:
    """Whether the transmission fails."""
    return mishaps.loss > 0 and uniform(mishaps.keys[LOSS], (origin, born, sender, to)) < mishaps.loss


@jit
def delayed(mishaps: Mishaps, origin: int, born: int, sender: int, to: int) -> int:
    """How many extra rounds the transmission takes."""
    rounds = 0
    if len(mishaps.tails):
        drawn = uniform(mishaps.keys[DELAY], (origin, born, sender, to))
        while rounds < len(mishaps.tails) and drawn < mishaps.tails[rounds]:
            rounds += 1
    return rounds


def byzantine(mishaps: Mishaps, share: float, n: int) -> BoolArray:
    """(n,) who is byzantine: the given share of the agents, rounded down, namely those whose own draw is lowest.

    Who is byzantine at some share is so at every larger one.
    """
    count = int(share * n + 1e-9)  # a share that is whole but for its last bit stays whole
    drawn = uniforms(mishaps.keys[BYZANTINE], np.arange(n)[:, None])
    chosen = np.zeros(n, dtype=np.bool_)
    chosen[np.argsort(drawn, kind="stable")[:count]] = True
    return chosen
