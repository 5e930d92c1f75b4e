"""One posterior over agents and points: exactly, by a factor that grows; or by sums over features beyond a capacity.

Observations are (v, x, y): agent v took x and got y. With K over pairs (v, x), see `models.agent_kernels`,

    mu(v, x) = k^T (K + lambda I)^-1 y,      sigma^2(v, x) = K((v, x), (v, x)) - k^T (K + lambda I)^-1 k,

k being K between (v, x) and all that was observed. Exactly: L with L L^T = K + lambda I is kept in packed rows, with
z = L^-1 y. A batch of m observations adds m rows by Schur's complement, for m t^2/2 products, and the result is the
same, to the last bit, however observations are divided into batches. With features psi: V = lambda I + sum psi psi^T
and b = sum y psi give mu = <psi, V^-1 b> and sigma^2 = lambda psi^T V^-1 psi, at the same cost whatever the number of
observations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.errors import ConfigError
from fedbandits.linalg import kernels as linalg
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.triangular import forward
from fedbandits.models.agent_kernels import Composition, JointFeatures
from fedbandits.models.kernels import Kernel, cross, own

_FIRST = 32
"""Observations that there is room for at the beginning."""
_LANES = 64
"""Points that the kernel is computed for at once: always so many, so that none depends on how many there are."""
_AT_ONCE = 256
"""Observations that are taken in at once: what they need in between is so many columns."""


@dataclass(frozen=True, eq=False)
class JointModel:
    """What all processes of a population are made of.

    `features` None: exact ones that hold `capacity` observations and no more. `same`: K_z is 1 for all. `extra`: how
    many numbers an observation has that tell of K_z, where that is estimated.
    """

    kernel: Kernel
    composition: Composition
    ridge: float
    capacity: int
    features: JointFeatures | None
    same: bool
    extra: int

    @property
    def sums(self) -> bool:
        """Whether K is a sum."""
        return self.composition == "sum"


class Observations(NamedTuple):
    """k observations: `points` (k, d), `rewards` (k,), the rounds `born` (k,), `contexts` (k, extra), and, where
    somebody has computed them, the features of the points (k, size).
    """

    points: FloatArray
    rewards: FloatArray
    born: IntArray
    contexts: FloatArray
    features: FloatArray | None = None

    def of(self, rows: IntArray) -> Observations:
        """Some of them."""
        features = None if self.features is None else self.features[rows]
        return Observations(self.points[rows], self.rewards[rows], self.born[rows], self.contexts[rows], features)


class JointProcess:
    """The posterior of agents within `reach` (m,), identities ascending, whose K_z is `table` (m, m).

    `sources` (t,) are the places of observations' agents in `reach`. What is `summed` has forgotten its factor; it
    keeps its observations for as long as K_z may change.
    """

    def __init__(self, model: JointModel, reach: IntArray, table: FloatArray) -> None:
        self.model = model
        self.reach = reach
        self.table = table
        self.revision = 0
        """How often K_z has been estimated."""
        self.count = 0
        self.kept = 0
        """Of `count` observations, how many are held."""
        self._points = np.zeros((_FIRST, model.kernel.dim))
        self._sources = np.zeros(_FIRST, dtype=np.int64)
        self._rewards = np.zeros(_FIRST)
        self._born = np.zeros(_FIRST, dtype=np.int64)
        self._contexts = np.zeros((_FIRST, model.extra))
        self._factor = np.zeros(0)
        self._solved = np.zeros(0)
        self._logdet = 0.0
        self._factored = 0
        """Of `count` observations, how many are in the factor: after a restart it is computed when it is needed."""
        self._gram: FloatArray | None = None
        """sum psi psi^T, of which only the upper triangle counts."""
        self.moment = np.zeros(0)
        self._mixing: FloatArray | None = None
        self._root: FloatArray | None = None
        self._theta = np.zeros(0)
        if model.features is not None and model.features.exact(len(reach), model.same):
            self._begin_sums()

    @property
    def summed(self) -> bool:
        """Whether it rests on sums over features."""
        return self._gram is not None

    @property
    def gram(self) -> FloatArray | None:
        """sum psi psi^T, where it rests on that."""
        return None if self._gram is None else np.triu(self._gram) + np.triu(self._gram, 1).T

    @property
    def held(self) -> tuple[Observations, IntArray]:
        """The observations that are held, and the places of their agents."""
        one = slice(0, self.kept)
        found = Observations(self._points[one], self._rewards[one], self._born[one], self._contexts[one])
        return found, self._sources[one]

    @property
    def logdet(self) -> float:
        """log det(I + K/lambda)."""
        if self.summed:
            self._solve()
        else:
            self._append(self._factored, self.count)
        return self._logdet

    def copy(self) -> JointProcess:
        """Another one that knows the same."""
        other = object.__new__(JointProcess)
        other.__dict__.update(
            {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in self.__dict__.items()}
        )
        return other

    # learning

    def check(self, more: int) -> None:
        """Raise unless there is room for so many more."""
        model = self.model
        if not self.summed and model.features is None and self.count + more > model.capacity:
            raise ConfigError(
                f"capacity: an agent would know {self.count + more} observations, and exact processes keep "
                f"{model.capacity} here; raise capacity, whose memory grows with its square, or say features=256, on "
                "which agents then go on"
            )

    def learn(self, sources: IntArray, new: Observations, *, more_to_come: bool) -> None:
        """Take in k observations of the agents at `sources` (k,), in that order.

        `more_to_come`: whether K_z will be estimated again, so that they have to be kept.
        """
        model, after = self.model, self.count + len(sources)
        if not self.summed and after > model.capacity:
            self._keep(sources, new)
            self._begin_sums()
            self._sum_up(*self._all())
        elif self.summed:
            self._sum_up(sources, new)
            if more_to_come:
                self._keep(sources, new)
        else:
            self._keep(sources, new)
            self._append(self._factored, after)
        self.count = after
        if self.summed and not more_to_come:
            self._forget()

    def revise(self, table: FloatArray, features: FloatArray | None, *, more_to_come: bool) -> None:
        """Take another K_z for the true one, and go over all observations again; `features` (kept, size) of points."""
        self.table = table
        self.revision += 1
        if not self.summed:
            self._factored, self._logdet = 0, 0.0
            return
        sources, held = self._all()
        self._begin_sums()
        self._sum_up(sources, held._replace(features=features))
        if not more_to_come:
            self._forget()

    def restore(
        self, sources: IntArray, held: Observations, count: int, sums: tuple[FloatArray, FloatArray] | None
    ) -> None:
        """Become what held these observations, or had these sums, of `count` observations."""
        self.kept = 0
        self._keep(sources, held)
        self.count = count
        self._gram = None
        if sums is None:
            self._factored, self._logdet = 0, 0.0
        else:
            self._begin_sums()
            self._gram, self.moment = np.ascontiguousarray(sums[0]), sums[1]

    def _all(self) -> tuple[IntArray, Observations]:
        held, sources = self.held
        return sources, held

    def _keep(self, sources: IntArray, new: Observations) -> None:
        first, last = self.kept, self.kept + len(sources)
        if last > len(self._rewards):
            room = max(2 * len(self._rewards), last)
            for name in ("_points", "_sources", "_rewards", "_born", "_contexts"):
                held = getattr(self, name)
                grown = np.zeros((room, *held.shape[1:]), held.dtype)
                grown[:first] = held[:first]
                setattr(self, name, grown)
        one = slice(first, last)
        self._points[one], self._sources[one], self._rewards[one] = new.points, sources, new.rewards
        self._born[one], self._contexts[one] = new.born, new.contexts
        self.kept = last

    def _forget(self) -> None:
        self.kept = 0
        for name in ("_points", "_sources", "_rewards", "_born", "_contexts"):
            setattr(self, name, getattr(self, name)[:1].copy())

    # exactly

    def _append(self, first: int, last: int) -> None:
        """Rows of the factor for observations `first` to `last`."""
        if last == first:
            return
        if last * (last + 1) // 2 > len(self._factor):
            room = min(max(2 * last, _FIRST), max(self.model.capacity, last))
            factor, solved = np.zeros(room * (room + 1) // 2), np.zeros(room)
            factor[: first * (first + 1) // 2] = self._factor[: first * (first + 1) // 2]
            solved[:first] = self._solved[:first]
            self._factor, self._solved = factor, solved
        model = self.model
        code, rates = model.kernel.code, model.kernel.rates
        points = np.zeros((-(-last // _LANES) * _LANES, model.kernel.dim))
        points[:last] = self._points[:last]
        blocks = np.ascontiguousarray(points.reshape(-1, _LANES, model.kernel.dim).swapaxes(1, 2))
        for start in range(first, last, _AT_ONCE):
            end = min(start + _AT_ONCE, last)
            work, itself = np.empty((end, end - start)), np.empty(end - start)
            _columns(code, rates, model.sums, self.table, self._points, blocks, self._sources, start, work, itself)
            self._logdet = _append(
                model.ridge, self._logdet, self._factor, self._solved, self._rewards, start, work, itself
            )
        self._factored = last

    # by features

    def _begin_sums(self) -> None:
        features = self.model.features
        assert features is not None
        self._mixing = features.mixing(None if self.model.same else self.table)
        probe = features.joined(np.zeros((1, features.size)), self._rows(np.zeros(1, dtype=np.int64)))
        self._gram, self.moment = np.zeros((probe.shape[1], probe.shape[1])), np.zeros(probe.shape[1])
        self._root = None
        self._factor = self._solved = np.zeros(0)

    def _rows(self, places: IntArray) -> FloatArray | None:
        return None if self._mixing is None else self._mixing[places]

    def _sum_up(self, sources: IntArray, new: Observations) -> None:
        features = self.model.features
        assert features is not None
        assert self._gram is not None
        seen = features.of_points(new.points) if new.features is None else new.features
        psi = features.joined(seen, self._rows(sources))
        self._gram = blas.dsyrk(1.0, psi.T, beta=1.0, c=self._gram.T, lower=1, overwrite_c=1).T
        self.moment += psi.T @ new.rewards
        self._root = None

    def _solve(self) -> None:
        if self._root is not None:
            return
        assert self._gram is not None
        ridge, size = self.model.ridge, len(self.moment)
        matrix = self._gram.copy()
        matrix[np.diag_indices(size)] += ridge
        root, failed = lapack.dpotrf(matrix.T, lower=1, overwrite_a=1, clean=0)
        if failed:
            raise np.linalg.LinAlgError(f"sums over {self.count} observations are not positive definite")
        self._theta = lapack.dpotrs(root, self.moment, lower=1)[0]
        self._logdet = float(2 * np.log(np.diag(root)).sum() - size * np.log(ridge))
        self._root = root

    # asking

    def posterior(
        self, places: IntArray, arms: FloatArray, features: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """For agents at `places` (w,) of `reach`, and arms (w, K, d): mu and sigma, (w, K) each. `features`
        (w, K, size) of the arms, where somebody has computed them.
        """
        model = self.model
        mean, deviation = np.empty((2, len(places), arms.shape[1]))
        if not self.summed:
            self._append(self._factored, self.count)
            _ask(
                model.kernel.code,
                model.kernel.rates,
                model.sums,
                self.table,
                self._points,
                self._sources,
                self._factor,
                self._solved,
                self.count,
                places,
                linalg.as_lanes(arms),
                mean,
                deviation,
            )
            return mean, deviation
        self._solve()
        assert model.features is not None
        for one, place in enumerate(places):  # one product each, of the same shape whoever else asks
            seen = model.features.of_points(arms[one]) if features is None else features[one]
            psi = model.features.joined(seen, self._rows(np.full(len(seen), place)))
            half = lapack.dtrtrs(self._root, psi.T, lower=1)[0]
            mean[one] = psi @ self._theta
            deviation[one] = np.sqrt(model.ridge * (half * half).sum(axis=0))
        return mean, deviation


@jit_part
def _weigh(sums: bool, weight: float, value: float) -> float:
    return 0.5 * (weight + value) if sums else weight * value


@jit
def _columns(
    code: int,
    rates: FloatArray,
    sums: bool,
    table: FloatArray,
    points: FloatArray,
    blocks: FloatArray,
    sources: IntArray,
    first: int,
    work: FloatArray,
    itself: FloatArray,
) -> None:
    """K between all points up to the i-th new one and that one -> column i of `work`; K of it and itself. `blocks`
    (B, d, lanes) are all points.
    """
    lanes = blocks.shape[2]
    out, lane, one = np.empty((1, lanes)), np.empty((points.shape[1], 1)), np.empty(1)
    for i in range(work.shape[1]):
        at = first + i
        lane[:, 0] = points[at]
        own(code, lane, one)
        itself[i] = _weigh(sums, table[sources[at], sources[at]], one[0])
        for b in range((at + lanes - 1) // lanes):
            cross(code, rates, points[at : at + 1], 1, blocks[b], out)
            for s in range(b * lanes, min((b + 1) * lanes, at)):
                work[s, i] = _weigh(sums, table[sources[s], sources[at]], out[0, s - b * lanes])


@jit
def _append(
    ridge: float,
    logdet: float,
    factor: FloatArray,
    solved: FloatArray,
    rewards: FloatArray,
    first: int,
    work: FloatArray,
    itself: FloatArray,
) -> float:
    """Rows of the factor for the new points; returns what has become of log det(I + K/lambda)."""
    forward(factor, first, work)
    for i in range(work.shape[1]):
        used = first + i
        column = np.ascontiguousarray(work[:, i : i + 1])
        forward(factor, used, column, first)
        start = used * (used + 1) // 2
        left = itself[i] + ridge
        rest = rewards[used]
        for s in range(used):
            left -= column[s, 0] * column[s, 0]
            rest -= column[s, 0] * solved[s]
            factor[start + s] = column[s, 0]
        left = max(left, ridge)  # which it is but for rounding
        root = np.sqrt(left)
        factor[start + used] = root
        solved[used] = rest / root
        logdet += np.log(left / ridge)
    return logdet


@jit
def _ask(
    code: int,
    rates: FloatArray,
    sums: bool,
    table: FloatArray,
    points: FloatArray,
    sources: IntArray,
    factor: FloatArray,
    solved: FloatArray,
    count: int,
    places: IntArray,
    lanes: FloatArray,
    mean: FloatArray,
    deviation: FloatArray,
) -> None:
    width = lanes.shape[2]
    work = np.empty((count, width))
    for a in range(len(places)):
        cross(code, rates, points, count, lanes[a], work)
        for s in range(count):
            weight = table[sources[s], places[a]]
            for k in range(width):
                work[s, k] = _weigh(sums, weight, work[s, k])
        forward(factor, count, work)
        own(code, lanes[a], deviation[a])
        for k in range(width):
            deviation[a, k] = _weigh(sums, table[places[a], places[a]], deviation[a, k])
            mean[a, k] = 0.0
        for s in range(count):
            z = solved[s]
            for k in range(width):
                mean[a, k] += z * work[s, k]
                deviation[a, k] -= work[s, k] * work[s, k]
        for k in range(width):
            deviation[a, k] = np.sqrt(max(deviation[a, k], 0.0))
