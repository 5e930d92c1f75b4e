"""Regressions on Nystrom features whose dictionary a server tells, and tells anew.

With a dictionary S, features z (`models.features.nystrom`), and A = sum z z^T + lambda I and b = sum y z over what is
known,

    mean(x) = z^T A^-1 b,      var(x) = (k(x, x) - ||z||^2) / lambda + z^T A^-1 z,

the first part of the variance being what S cannot see (Li, Wang, Wang & Wang 2022). Without a dictionary the mean is 0
and the variance k(x, x) / lambda. What is held of A is its Cholesky factor R, and w = R^-1 b; another observation
rotates both, for M^2 products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray, State
from fedbandits.contract.state import Stateful
from fedbandits.linalg import kernels as linalg
from fedbandits.linalg.jit import jit
from fedbandits.models.features.nystrom import NystromFeatures, embed, packed_root
from fedbandits.models.kernels import Kernel, own
from fedbandits.models.processes import forward, packed

_BLOCK = 256
"""Observations that are embedded together."""


class Told:
    """What was told at once: a dictionary (M, d), everybody's `gram` (M, M) and `moment` (M,) in terms of it."""

    def __init__(
        self, kernel: Kernel, ridge: float, dictionary: FloatArray, gram: FloatArray, moment: FloatArray
    ) -> None:
        self.features = NystromFeatures(kernel, dictionary)
        self.gram = np.array(gram)
        self.moment = np.array(moment)
        self.root = packed_root(self.gram, ridge)
        """The rows of R as it was told, one after the other."""
        self.weights = self.moment[:, None].copy()
        forward(self.root, len(self.moment), self.weights)

    def __len__(self) -> int:
        return len(self.moment)


class DictionaryModels(Stateful):
    """n regressions: agent i acts on what it was told last, which is kept once for all who were told the same, and on
    what it has learned since. Before anybody has told it anything its dictionary is empty.

    `drift` (n,) is the sum of the variances of what it has learned since, each as it was when it was told.
    """

    keeps: ClassVar[tuple[str, ...]] = ()

    def __init__(self, n: int, kernel: Kernel, ridge: float) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.row = np.zeros(n, dtype=np.int64)
        self.told = [Told(kernel, ridge, np.zeros((0, kernel.dim)), np.zeros((0, 0)), np.zeros(0))]
        self.drift = np.zeros(n)
        self.roots = np.zeros((n, 0))
        """(n, M (M + 1)/2) the rows of R, and (n, M) w, as far as each has any; they are part of the state, since they
        follow from what was learned in its order."""
        self.weights = np.zeros((n, 0))

    def __len__(self) -> int:
        return len(self.row)

    @property
    def sizes(self) -> IntArray:
        """(n,) M."""
        return np.array([len(told) for told in self.told], dtype=np.int64)[self.row]

    def judge(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w,), (w, K, d) -> mean and var, (w, K) each."""
        mean, variance = np.empty((2, *arms.shape[:2]))
        lanes = linalg.as_lanes(arms)
        for told, rows in self._groups(who):
            features = told.features
            _judge(
                features.kernel.code,
                features.rates,
                features.points,
                features.factor,
                self.roots,
                self.weights,
                self.ridge,
                who[rows],
                rows,
                lanes,
                mean,
                variance,
            )
        return mean, variance

    def learn(self, who: IntArray, points: FloatArray, rewards: FloatArray) -> None:
        """One observation for each of `who`: `points` (w, d) and `rewards` (w,)."""
        lanes = np.ascontiguousarray(points[:, :, None])
        for told, rows in self._groups(who):
            features = told.features
            _learn(
                features.kernel.code,
                features.rates,
                features.points,
                features.factor,
                told.root,
                self.roots,
                self.weights,
                self.drift,
                self.ridge,
                who[rows],
                rows,
                lanes,
                np.ascontiguousarray(rewards),
            )

    def doubts(self, agent: int, points: FloatArray) -> FloatArray:
        """(m, d) -> (m,) var of points as it was when `agent` was told, whatever it has learned since."""
        told = self.told[self.row[agent]]
        mean, variance = np.empty((2, 1, len(points)))
        if len(points):
            lanes = np.ascontiguousarray(points.T)[None]
            features, nobody = told.features, np.zeros(1, dtype=np.int64)
            _judge(
                features.kernel.code,
                features.rates,
                features.points,
                features.factor,
                told.root[None],
                told.weights.T.copy(),
                self.ridge,
                nobody,
                nobody,
                lanes,
                mean,
                variance,
            )
        return np.asarray(variance[0])

    def tell(self, who: IntArray, dictionary: FloatArray, gram: FloatArray, moment: FloatArray) -> None:
        """Let `who` know `dictionary` (w, M, d), `gram` (w, M, M) and `moment` (w, M), in place of all they knew; a
        single one that is shown to all (stride 0) is kept once. Raises before anything has changed.
        """
        if len(who) == 0:
            return
        once = all(array.strides[0] == 0 for array in (dictionary, gram, moment))
        shown = [0] if once else range(len(who))
        told = [Told(self.kernel, self.ridge, dictionary[row], gram[row], moment[row]) for row in shown]
        size = dictionary.shape[1]
        self._make_room(size)
        for place, one in enumerate(told):
            some = who if once else who[place : place + 1]
            self.row[some] = len(self.told)
            self.told.append(one)
            self.roots[some] = 0.0
            self.roots[some, : packed(size)] = one.root
            self.weights[some] = 0.0
            self.weights[some, :size] = one.weights[:, 0]
        self.drift[who] = 0.0
        self._tidy()

    def _make_room(self, size: int) -> None:
        if size > self.weights.shape[1]:
            wider = np.zeros((len(self), packed(size)))
            wider[:, : self.roots.shape[1]] = self.roots
            self.roots = wider
            wider = np.zeros((len(self), size))
            wider[:, : self.weights.shape[1]] = self.weights
            self.weights = wider

    def _groups(self, who: IntArray) -> list[tuple[Told, IntArray]]:
        """For all who were told the same: what, and their places in `who`."""
        rows = self.row[who]
        return [(self.told[one], np.flatnonzero(rows == one)) for one in np.unique(rows)]

    def _tidy(self) -> None:
        """Forget what nobody knows any more; what is left stands in the order of those who know it."""
        used, first = np.unique(self.row, return_index=True)
        order = used[np.argsort(first)]
        place = np.zeros(len(self.told), dtype=np.int64)
        place[order] = np.arange(len(order))
        self.told = [self.told[one] for one in order]
        self.row = place[self.row]

    # snapshots

    def _arrays(self, prefix: str = "") -> State:
        return self._packed(prefix, self.told, self.row, slice(None), int(self.sizes.max(initial=0)))

    def _share(self, agent: int, prefix: str) -> State:
        """What the agent knows: others may know more, and have more room."""
        told = self.told[self.row[agent]]
        return self._packed(prefix, [told], np.zeros(1, dtype=np.int64), slice(agent, agent + 1), len(told))

    def _packed(self, prefix: str, told: list[Told], row: IntArray, who: slice, size: int) -> State:
        lower = [one.gram[np.tril_indices(len(one))] for one in told]
        found: State = {
            "row": row,
            "sizes": np.array([len(one) for one in told], dtype=np.int64),
            "dictionary": np.concatenate([one.features.points for one in told]),
            "gram": np.concatenate(lower),
            "moment": np.concatenate([one.moment for one in told]),
            "roots": self.roots[who, : packed(size)],
            "weights": self.weights[who, :size],
            "drift": self.drift[who],
        }
        return {prefix + name: array for name, array in found.items()}

    def _growing(self, prefix: str = "") -> set[str]:
        return {prefix + name for name in ("sizes", "dictionary", "gram", "moment", "roots", "weights")}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Raise unless all that was told is there, and somebody knows it."""
        row, sizes = state[f"{prefix}row"], state[f"{prefix}sizes"]
        if not np.array_equal(np.unique(row), np.arange(len(sizes))) or sizes.min(initial=0) < 0:
            raise ValueError(f"the snapshot's {prefix}sizes does not tell how much each agent was told")
        total, most, n = int(sizes.sum()), int(sizes.max(initial=0)), len(self)
        needed = {
            "dictionary": (total, self.kernel.dim),
            "gram": (int((sizes * (sizes + 1) // 2).sum()),),
            "moment": (total,),
            "roots": (n, packed(most)),
            "weights": (n, most),
        }
        for name, shape in needed.items():
            if state[prefix + name].shape != shape:
                given = state[prefix + name].shape
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this population needs {shape}")

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        sizes = state[f"{prefix}sizes"]
        ends, squares = np.cumsum(sizes), np.cumsum(sizes * (sizes + 1) // 2)
        self.told = []
        for size, end, square in zip(sizes, ends, squares, strict=True):
            gram = np.zeros((size, size))
            gram[np.tril_indices(size)] = state[f"{prefix}gram"][square - packed(int(size)) : square]
            gram += np.tril(gram, -1).T
            held = slice(end - size, end)
            dictionary, moment = state[f"{prefix}dictionary"][held], state[f"{prefix}moment"][held]
            self.told.append(Told(self.kernel, self.ridge, np.array(dictionary), gram, moment))
        self.row, self.drift = np.array(state[f"{prefix}row"]), np.array(state[f"{prefix}drift"])
        self.roots, self.weights = np.array(state[f"{prefix}roots"]), np.array(state[f"{prefix}weights"])


def embedded_sums(features: NystromFeatures, points: FloatArray, rewards: FloatArray) -> tuple[FloatArray, FloatArray]:
    """sum z z^T (M, M) and sum y z (M,) over `points` (m, d) and `rewards` (m,)."""
    gram, moment = np.zeros((features.size, features.size)), np.zeros(features.size)
    lanes = np.ascontiguousarray(points.T)
    code = features.kernel.code
    _add_sums(code, features.rates, features.points, features.factor, lanes, np.array(rewards), gram, moment)
    return gram, moment


@jit
def _judge(
    code: int,
    rates: FloatArray,
    points: FloatArray,
    factor: FloatArray,
    roots: FloatArray,
    weights: FloatArray,
    ridge: float,
    who: IntArray,
    rows: IntArray,
    lanes: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    size, width = len(points), lanes.shape[2]
    z = np.empty((size, width))
    for a in range(len(who)):
        agent, row = who[a], rows[a]
        embed(code, rates, points, factor, lanes[row], z)
        own(code, lanes[row], variance[row])
        for s in range(size):
            for k in range(width):
                variance[row, k] -= z[s, k] * z[s, k]
        for k in range(width):
            mean[row, k] = 0.0
            variance[row, k] = max(variance[row, k], 0.0) / ridge
        forward(roots[agent], size, z)
        for s in range(size):
            w = weights[agent, s]
            for k in range(width):
                mean[row, k] += w * z[s, k]
                variance[row, k] += z[s, k] * z[s, k]


@jit
def _learn(
    code: int,
    rates: FloatArray,
    points: FloatArray,
    factor: FloatArray,
    root: FloatArray,
    roots: FloatArray,
    weights: FloatArray,
    drift: FloatArray,
    ridge: float,
    who: IntArray,
    rows: IntArray,
    lanes: FloatArray,
    rewards: FloatArray,
) -> None:
    size = len(points)
    z, then, itself = np.empty((size, 1)), np.empty((size, 1)), np.empty(1)
    cosine, sine = np.empty(size), np.empty(size)
    for a in range(len(who)):
        agent, row = who[a], rows[a]
        embed(code, rates, points, factor, lanes[row], z)
        own(code, lanes[row], itself)
        for s in range(size):
            itself[0] -= z[s, 0] * z[s, 0]
            then[s, 0] = z[s, 0]
        forward(root, size, then)
        doubt = max(itself[0], 0.0) / ridge
        for s in range(size):
            doubt += then[s, 0] * then[s, 0]
        drift[agent] += doubt
        # R R^T + z z^T, a row at a time: each is rotated with z by all columns before its own
        start = 0
        for i in range(size):
            x = z[i, 0]
            for k in range(i):
                rotated = (roots[agent, start + k] + sine[k] * x) / cosine[k]
                x = cosine[k] * x - sine[k] * rotated
                roots[agent, start + k] = rotated
            held = roots[agent, start + i]
            grown = np.sqrt(held * held + x * x)
            cosine[i], sine[i] = grown / held, x / held
            roots[agent, start + i] = grown
            start += i + 1
        y = rewards[row]
        for k in range(size):
            rotated = (weights[agent, k] + sine[k] * y) / cosine[k]
            y = cosine[k] * y - sine[k] * rotated
            weights[agent, k] = rotated


@jit
def _add_sums(
    code: int,
    rates: FloatArray,
    points: FloatArray,
    factor: FloatArray,
    lanes: FloatArray,
    rewards: FloatArray,
    gram: FloatArray,
    moment: FloatArray,
) -> None:
    size = len(points)
    for begin in range(0, lanes.shape[1], _BLOCK):
        end = min(begin + _BLOCK, lanes.shape[1])
        z = np.empty((size, end - begin))
        embed(code, rates, points, factor, np.ascontiguousarray(lanes[:, begin:end]), z)
        for i in range(size):
            for j in range(i + 1):
                total = 0.0
                for k in range(end - begin):
                    total += z[i, k] * z[j, k]
                gram[i, j] += total
            total = 0.0
            for k in range(end - begin):
                total += z[i, k] * rewards[begin + k]
            moment[i] += total
    for i in range(size):
        for j in range(i):
            gram[j, i] = gram[i, j]
