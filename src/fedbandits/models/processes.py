"""Gaussian processes, exactly: all observations are kept, and a Cholesky factor that grows by a row with each.

With points X = (x_1, ..., x_t), rewards y and K = k(X, X), the posterior of f under the prior GP(0, k) and noise of
variance lambda is

    mu(x) = k(x, X) (K + lambda I)^-1 y,      sigma^2(x) = k(x, x) - k(x, X) (K + lambda I)^-1 k(X, x).

Held are L with L L^T = K + lambda I and z = L^-1 y, so that mu(x) = <v, z> and sigma^2(x) = k(x, x) - ||v||^2 with
v = L^-1 k(X, x). Another observation adds a row (v, sqrt(k(x, x) + lambda - ||v||^2)) to L, by Schur's complement, and
a number to z: t^2/2 products for each point that is asked about, and nothing is ever inverted.

This is ridge regression in the kernel's space: sigma(x) / sqrt(lambda) is there ||phi(x)||_{V^-1}, and
log det(I + K/lambda) is log det V - log det lambda I.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray, State
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.state import Stateful
from fedbandits.linalg import kernels as linalg
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.triangular import forward
from fedbandits.models.kernels import Kernel, cross, own

_FIRST = 32
"""Observations that there is room for at the beginning; it is doubled when an agent has filled it."""


FEATURES = "use gp-ucb-features, whose memory does not grow"
"""What may be done instead of keeping everything."""


class Processes(Stateful):
    """n posteriors, of at most `capacity` observations each.

    `points` (n, C, d), `solved` (n, C) = z, `factor` (n, C (C+1)/2) = the rows of L one after the other, of which each
    agent has used `count` (n,); `logdet` (n,) = log det(I + K/lambda). Memory is 4 C^2 bytes an agent: 67 MB for 4096
    observations, 400 MB for 10,000.
    """

    keeps: ClassVar[tuple[str, ...]] = ("points", "solved", "factor", "count", "logdet")
    resizes: ClassVar[frozenset[str]] = frozenset({"points", "solved", "factor"})

    def __init__(self, n: int, kernel: Kernel, ridge: float, capacity: int) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.capacity = capacity
        self.count = np.zeros(n, dtype=np.int64)
        self.logdet = np.zeros(n)
        room = min(_FIRST, capacity)
        self.points = np.zeros((n, room, kernel.dim))
        self.solved = np.zeros((n, room))
        self.factor = np.zeros((n, packed(room)))
        self._rates = kernel.rates

    def __len__(self) -> int:
        return len(self.count)

    def posterior(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w,), (w, K, d) -> mu and sigma, (w, K) each."""
        lanes = linalg.as_lanes(arms)
        mean, deviation = np.empty((2, len(who), arms.shape[1]))
        _ask(self.arrays(), who, lanes, mean, deviation)
        return mean, deviation

    def learn(self, who: IntArray, points: FloatArray, rewards: FloatArray) -> None:
        """One observation for each of `who`: `points` (w, d) and `rewards` (w,). Raises before anything has changed."""
        if len(who) == 0:
            return
        self._make_room(who)
        _append(self.arrays(), who, np.ascontiguousarray(points[:, :, None]), np.ascontiguousarray(rewards))

    def arrays(self) -> ProcessArrays:
        """By reference."""
        known = self.points, self.factor, self.solved, self.count, self.logdet
        return ProcessArrays(self.kernel.code, self._rates, float(self.ridge), *known)

    def grow(self) -> None:
        """Make more room, up to `capacity`."""
        larger = min(2 * self.solved.shape[1], self.capacity)
        self.points = longer(self.points, larger)
        self.solved = longer(self.solved, larger)
        self.factor = longer(self.factor, packed(larger))

    def _make_room(self, who: IntArray) -> None:
        most = int(self.count[who].max())
        if most >= self.capacity:
            full = who[self.count[who] >= self.capacity]
            raise ConfigError(
                f"capacity: agents {full[:5].tolist()} have made {self.capacity} observations, which is all an exact "
                "process keeps here; raise capacity, whose memory grows with its square, or use gp-ucb-features, whose "
                "memory does not grow"
            )
        if most >= self.solved.shape[1]:
            self.grow()

    def _share(self, agent: int, prefix: str) -> State:
        """What the agent has used: how much room there is beyond depends on the others."""
        used, one = int(self.count[agent]), slice(agent, agent + 1)
        return {
            f"{prefix}points": self.points[one, :used],
            f"{prefix}solved": self.solved[one, :used],
            f"{prefix}factor": self.factor[one, : packed(used)],
            f"{prefix}count": self.count[one],
            f"{prefix}logdet": self.logdet[one],
        }

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Only the room may differ."""
        n, d = len(self), self.kernel.dim
        used, room = int(state[f"{prefix}count"].max(initial=0)), state[f"{prefix}solved"].shape[-1]
        room = max(used, room)
        for name, needed in {"points": (n, room, d), "solved": (n, room), "factor": (n, packed(room))}.items():
            given = state[prefix + name].shape
            if given != needed:
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this population needs {needed}")


def check_capacity(name: str, capacity: int, horizon: int, instead: str = FEATURES) -> None:
    """Refuse a horizon that is longer than the exact processes of the algorithm `name` may become."""
    if horizon > capacity:
        needed = 4 * horizon**2 / 1e9
        raise ConfigError(
            f"{name}: capacity={capacity} observations are fewer than an agent may make in {horizon} turns; raise "
            f"capacity ({needed:.2g} GB for an agent that is there in all), or {instead}"
        )


def packed(rows: int) -> int:
    """How many numbers a triangle of `rows` rows has."""
    return rows * (rows + 1) // 2


def longer(array: FloatArray, size: int) -> FloatArray:
    """(n, m, ...) -> (n, size, ...), the rest being zeros."""
    grown = np.zeros((len(array), size, *array.shape[2:]))
    grown[:, : array.shape[1]] = array
    return grown


class ProcessArrays(NamedTuple):
    """What `Processes` are made of, for compiled functions."""

    code: int
    rates: FloatArray
    ridge: float
    points: FloatArray
    factor: FloatArray
    solved: FloatArray
    held: IntArray
    """`count`, which tuples have as a method."""
    logdet: FloatArray


@jit_part
def ask_one(
    models: ProcessArrays,
    agent: int,
    lanes: FloatArray,
    row: int,
    work: FloatArray,
    mean: FloatArray,
    deviation: FloatArray,
) -> None:
    """mu and sigma (K,) of the agent at `lanes[row]` (d, K); `work` has a row of K for each of its observations."""
    used, width = models.held[agent], lanes.shape[2]
    cross(models.code, models.rates, models.points[agent], used, lanes[row], work)
    forward(models.factor[agent], used, work)
    own(models.code, lanes[row], deviation)
    for k in range(width):
        mean[k] = 0.0
    for s in range(used):
        z = models.solved[agent, s]
        for k in range(width):
            mean[k] += z * work[s, k]
            deviation[k] -= work[s, k] * work[s, k]
    for k in range(width):
        deviation[k] = np.sqrt(max(deviation[k], 0.0))


@jit_part
def append_one(models: ProcessArrays, agent: int, point: FloatArray, reward: float) -> None:
    """The agent has observed `reward` at `point` (d, 1), for which there is room."""
    used = models.held[agent]
    work = np.empty((used, 1))
    itself = np.empty(1)
    cross(models.code, models.rates, models.points[agent], used, point, work)
    forward(models.factor[agent], used, work)
    own(models.code, point, itself)
    left = itself[0] + models.ridge
    rest = reward
    start = used * (used + 1) // 2
    for s in range(used):
        left -= work[s, 0] * work[s, 0]
        rest -= work[s, 0] * models.solved[agent, s]
        models.factor[agent, start + s] = work[s, 0]
    left = max(left, models.ridge)  # which it is but for rounding: the posterior's variance, and that of noise
    root = np.sqrt(left)
    models.factor[agent, start + used] = root
    models.solved[agent, used] = rest / root
    for j in range(models.points.shape[2]):
        models.points[agent, used, j] = point[j, 0]
    models.logdet[agent] += np.log(left / models.ridge)
    models.held[agent] = used + 1


@jit
def _ask(models: ProcessArrays, who: IntArray, lanes: FloatArray, mean: FloatArray, deviation: FloatArray) -> None:
    most = 0
    for a in range(len(who)):
        most = max(most, models.held[who[a]])
    work = np.empty((most, lanes.shape[2]))
    for a in range(len(who)):
        ask_one(models, who[a], lanes, a, work, mean[a], deviation[a])


@jit
def _append(models: ProcessArrays, who: IntArray, points: FloatArray, rewards: FloatArray) -> None:
    for a in range(len(who)):
        append_one(models, who[a], points[a], rewards[a])
