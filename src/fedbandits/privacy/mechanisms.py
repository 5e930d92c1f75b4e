"""Mechanisms: what stands between an agent's rewards and everything that leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.state import Stateful
from fedbandits.contract.streams import Streams
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit, jit_inside
from fedbandits.linalg.simd import muladd
from fedbandits.privacy.accountant import event
from fedbandits.privacy.schedules import Releases

if TYPE_CHECKING:
    from dp_accounting import DpEvent


class IntervalArrays(NamedTuple):
    """What `IntervalMeans` learn into, for compiled loops."""

    sums: FloatArray
    counts: IntArray
    means: FloatArray
    counts_released: IntArray
    releases: IntArray
    schedule: IntArray
    due: IntArray
    """(n,) the arm of each agent whose mean is to be released, or -1."""


class IntervalMeans(Stateful):
    """n agents times K arms: running means of which noisy versions are released at scheduled pull counts.

    When agent i has pulled arm k for the n-th time and n is in the schedule, `means[i, k]` becomes the mean of those n
    rewards plus Laplace noise of scale n^(v/2 - 1), and stays until the next release: noise is never drawn anew for the
    same data, and nothing is released after the last count of the schedule. Rewards are clipped to [0, 1], because the
    sensitivity 1/n of the mean rests on it. `sums` and `counts` are clean; whoever lets them, or anything that
    depends on `sums`, leave the agent has no guarantee.

    Protected is one reward of one agent, against whoever sees all releases. Not protected: a person who gives many
    rewards (the loss of k rewards of one arm is up to k times that of one); the time it takes to compute; and
    the last bits of the noise. Doubles that can occur as mean plus noise differ between neighbouring histories, which
    in principle reveals them (Mironov 2012); the bounds here are for real numbers.
    """

    keeps: ClassVar[tuple[str, ...]] = ("sums", "counts", "means", "counts_released", "releases", "rng")

    def __init__(self, n: int, arms: int, schedule: Releases, rng: Streams) -> None:
        self._schedule = schedule
        self._scales = schedule.scales
        self.rng = rng
        self.sums = np.zeros((n, arms))
        """(n, K) sums of clipped rewards."""
        self.counts = np.zeros((n, arms), dtype=np.int64)
        """(n, K) pulls."""
        self.means = np.zeros((n, arms))
        """(n, K) the last released noisy mean; 0 before the first."""
        self.counts_released = np.zeros((n, arms), dtype=np.int64)
        """(n, K) the pulls that the last released mean is over; 0 before the first."""
        self.releases = np.zeros((n, arms), dtype=np.int64)
        """(n, K) how often a mean was released."""
        self._due = np.full(n, -1, dtype=np.int64)

    def observe(self, who: IntArray, arms: IntArray, rewards: FloatArray) -> BoolArray:
        """Take in one reward for each of `who`, of arm `arms` (w,); returns (w,) who has released a mean."""
        due = _observe(self.arrays(), who, arms, rewards)
        rows = np.flatnonzero(due)
        if len(rows):
            self._release(who[rows], arms[rows])
        return due

    def arrays(self) -> IntervalArrays:
        """What compiled loops learn into, by reference."""
        return IntervalArrays(
            self.sums,
            self.counts,
            self.means,
            self.counts_released,
            self.releases,
            self._schedule.counts,
            self._due,
        )

    def tend(self) -> None:
        """Release what compiled loops have found to be due."""
        speakers = np.flatnonzero(self._due >= 0)
        if len(speakers):
            self._release(speakers, self._due[speakers])
            self._due[speakers] = -1

    def _release(self, speakers: IntArray, arms: IntArray) -> None:
        uniforms = self.rng.secret.uniform(speakers)
        _release(
            self.sums,
            self.counts,
            self.means,
            self.counts_released,
            self.releases,
            self._scales,
            speakers,
            arms,
            uniforms,
        )

    def told(self, who: IntArray, *, current: bool) -> tuple[FloatArray, IntArray]:
        """(w, K) released means, and counts to weigh them with: of all pulls so far, or of those in the mean.

        Both are 0 where nothing was released.
        """
        released = self.counts_released[who]
        return self.means[who], np.where(released > 0, self.counts[who], 0) if current else released

    def events(self, agent: int) -> tuple[DpEvent, ...]:
        """For each arm, everything that was released about one of its rewards, as one composed event."""
        losses = self._schedule.losses
        return tuple(event(losses[:made]) for made in self.releases[agent])

    def most_releases(self) -> IntArray:
        """(n,) releases of the arm that each agent has released most often: one reward belongs to one arm."""
        return np.asarray(self.releases.max(axis=1))


@jit
def _observe(own: IntervalArrays, who: IntArray, arms: IntArray, rewards: FloatArray) -> BoolArray:
    own = borrowed(own)
    due = np.zeros(len(who), np.bool_)
    for i in range(len(who)):
        due[i] = observe_one(own, who[i], arms[i], rewards[i])
    return due


@jit_inside
def observe_one(own: IntervalArrays, a: int, k: int, reward: float) -> bool:
    """Agent a has one reward more of arm k; whether a mean is to be released."""
    own.sums[a, k] += min(max(reward, 0.0), 1.0)
    own.counts[a, k] += 1
    following = own.releases[a, k]
    # not only then: a schedule may have become denser since the state was saved (and is no dearer, being late)
    return bool(following < len(own.schedule) and own.counts[a, k] >= own.schedule[following])


@jit
def _release(
    sums: FloatArray,
    counts: IntArray,
    means: FloatArray,
    counts_released: IntArray,
    releases: IntArray,
    scales: FloatArray,
    who: IntArray,
    arms: IntArray,
    uniforms: FloatArray,
) -> None:
    for i in range(len(who)):
        a, k, u = who[i], arms[i], uniforms[i]
        # inversion: the quantile function of the standard Laplace distribution at u in (0, 1)
        noise = np.log(2 * u) if u < 0.5 else -np.log(2 * (1 - u))
        means[a, k] = muladd(scales[releases[a, k]], noise, sums[a, k] / counts[a, k])
        counts_released[a, k] = counts[a, k]
        releases[a, k] += 1
