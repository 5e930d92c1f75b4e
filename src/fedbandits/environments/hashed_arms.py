"""Fresh arms that no generator draws: what agent i sees in step t is a hash of (seed, t, i).

Any decision's arms can be found at any time, alone or with others, in any order, to the last bit: nothing has to be
drawn beforehand, and compiled loops find the arms of one decision in the cache right before it is taken. A step of a
million agents therefore takes no memory for arms.

The arms are those of `arms.FreshArms` in distribution, and others in every instance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.compiled import Block, show, stands_for
from fedbandits.environments.arms import Spread, deviations
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.directions import unit_lanes
from fedbandits.linalg.hashed import Room, hashed, hashed_normals, room_for_normals
from fedbandits.linalg.jit import jit, jit_inside
from fedbandits.linalg.links import to_means
from fedbandits.linalg.recycled import Recycled

Key = tuple[np.uint32, np.uint32, np.uint32]

_IDENTITY = 3
"""The link under which mean rewards are the scores (`linalg.links`)."""


class Hashed(NamedTuple):
    """`HashedArms` for compiled loops."""

    first: np.uint32
    second: np.uint32
    salt: np.uint32
    """Three parts of the seed."""
    scale: FloatArray
    """(d,) standard deviations of coordinates, before arms are scaled to unit norm."""
    biased: bool
    theta: FloatArray
    """(n, d), or (1, d) of all agents."""
    link: int
    """By which number `linalg.links` knows how scores become mean rewards."""
    room: Room


@jit_inside
def _show(arms: Hashed, step: int, i: int, lanes: FloatArray, means: FloatArray, row: int) -> None:
    """Write what agent i sees in `step` into `lanes[row]` (d, K), and the scores <theta_i, x> into `means[row]`."""
    _, dim, count = lanes.shape
    own = i if arms.theta.shape[0] > 1 else 0
    # a permutation of all (i, step): no two decisions of a seed have the same key
    key = hashed(arms.first, arms.second, np.uint32(i), np.uint32(step))
    hashed_normals(key[0], key[1], arms.salt, arms.room)
    unit_lanes(arms.room.normals, arms.scale, arms.theta, own, lanes, means, row)
    if arms.biased:
        for k in range(count):
            lanes[row, dim - 1, k] = 1.0
            means[row, k] += arms.theta[own, dim - 1]


@jit_inside
def _look_out(means: FloatArray, row: int) -> tuple[float, float]:
    """The highest of `means[row]` (K,), and their mean."""
    best, total = means[row, 0], means[row, 0]
    for k in range(1, means.shape[1]):
        best = max(best, means[row, k])
        total += means[row, k]
    return best, total / means.shape[1]


@stands_for(show, Hashed)
@jit_inside
def _show_in_block(arms: Hashed, block: Block, s: int, a: int, i: int) -> int:
    _show(arms, block.first + s, i, block.arms, block.means, 0)
    if arms.link != _IDENTITY:
        to_means(arms.link, block.means[0], block.means.shape[1])
    block.best[s, a], block.chance[s, a] = _look_out(block.means, 0)
    return 0


@jit
def _show_all(arms: Hashed, first: int, who: IntArray, lanes: FloatArray, means: FloatArray) -> None:
    arms = borrowed(arms)
    steps, awake = who.shape
    for s in range(steps):
        for a in range(awake):
            _show(arms, first + s, who[s, a], lanes, means, s * awake + a)


@jit
def _look_out_all(means: FloatArray, best: FloatArray, chance: FloatArray) -> None:
    for row in range(len(means)):
        best[row], chance[row] = _look_out(means, row)


class HashedArms:
    """K new arms for every decision, `key` being what is random about them."""

    def __init__(self, arms: int, dim: int, spread: Spread, key: Key) -> None:
        self.arms, self.dim = arms, dim
        self.size = arms * dim
        self._biased = spread == "biased"
        self._scale = deviations(dim, spread)
        self._key = key
        self._room = room_for_normals(arms * dim)
        self._lanes, self._means = Recycled(lines=True), Recycled()

    @classmethod
    def drawn(cls, arms: int, dim: int, spread: Spread, rng: np.random.Generator) -> HashedArms:
        """With a key that `rng` draws."""
        first, second, salt = rng.integers(2**32, size=3, dtype=np.uint32)
        return cls(arms, dim, spread, (first, second, salt))

    def compiled(self, theta: FloatArray, link: int = _IDENTITY) -> Hashed:
        """For compiled loops."""
        return Hashed(*self._key, self._scale, self._biased, theta, link, self._room)

    def show(self, first: int, who: IntArray, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """For `who` (B, w) awake in steps `first`, `first` + 1, ...: lanes (B, w, d, K) and scores (B, w, K)."""
        lanes = self._lanes.empty((*who.shape, self.dim, self.arms))
        means = self._means.empty((*who.shape, self.arms))
        flat = lanes.reshape(-1, self.dim, self.arms), means.reshape(-1, self.arms)
        _show_all(self.compiled(theta), first, np.ascontiguousarray(who), *flat)
        return lanes, means

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Refused: there is nothing to draw."""
        raise NotImplementedError("hashed arms belong to steps: ask `show`")


def outlook(means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(B, w, K) mean rewards -> (B, w) the highest of every decision, and their mean, as compiled loops find them."""
    best, chance = np.empty(means.shape[:2]), np.empty(means.shape[:2])
    _look_out_all(np.ascontiguousarray(means).reshape(-1, means.shape[2]), best.reshape(-1), chance.reshape(-1))
    return best, chance
