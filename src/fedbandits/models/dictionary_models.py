"""Regressions on Nystrom features whose dictionary a server tells, and tells anew.

With a dictionary S, features z (`models.features.nystrom`), and A = sum z z^T + lambda I and b = sum y z over what is
known,

    mean(x) = z^T A^-1 b,      var(x) = (k(x, x) - ||z||^2) / lambda + z^T A^-1 z,

the first part of the variance being what S cannot see (Li, Wang, Wang & Wang 2022). Without a dictionary the mean is 0
and the variance k(x, x) / lambda.

What was told, A_0 = R R^T and b_0, is factorised once for all who were told the same, and u(x) = R^-1 z(x) is M^2
products for each arm. What an agent has observed since, e points with features U = [u_1 .. u_e], corrects that by

    mean(x) = <u, R^-1 b_0> + <v, zeta>,      z^T A^-1 z = ||u||^2 - ||v||^2,      v = C^-1 U^T u,

with C C^T = I + U^T U and zeta = C^-1 (y - U^T R^-1 b_0), to which another observation adds a row.

What widths need of it: the volume log det A - log det lambda I, and what S misses of the observations, sum (k(x, x) -
||z(x)||^2) / lambda, which is (count - tr sum z z^T) / lambda where k(x, x) = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray, State
from fedbandits.contract.state import Stateful
from fedbandits.linalg import kernels as linalg
from fedbandits.linalg.jit import jit
from fedbandits.linalg.kernels import dot_at
from fedbandits.linalg.triangular import forward
from fedbandits.models.features.nystrom import NystromFeatures, embed, packed_root
from fedbandits.models.kernels import Kernel, own
from fedbandits.models.processes import longer, packed

_BLOCK = 256
"""Observations that are embedded together."""


class ToldArrays(NamedTuple):
    """`Told` for compiled loops: the kernel by its number and rates, S and the factor of its features, R, R^-1 b_0 and
    lambda.
    """

    code: int
    rates: FloatArray
    points: FloatArray
    factor: FloatArray
    root: FloatArray
    weights: FloatArray
    ridge: float


class Since(NamedTuple):
    """What n agents have learned since they were told, for compiled loops."""

    u: FloatArray
    """(n, E, M) the rows of U^T."""
    corners: FloatArray
    """(n, E (E+1)/2) those of C."""
    zeta: FloatArray
    """(n, E)."""
    made: IntArray
    """(n,) how many observations e."""
    drift: FloatArray
    """(n,) the sum of their variances, each as it was told."""
    gained: FloatArray
    """(n,) what they add to the volume."""
    unseen: FloatArray
    """(n,) what S misses of them."""


class Told:
    """What was told at once: a dictionary (M, d), everybody's `gram` (M, M) and `moment` (M,) in terms of it, over
    `count` observations.
    """

    def __init__(
        self, kernel: Kernel, ridge: float, dictionary: FloatArray, gram: FloatArray, moment: FloatArray, count: float
    ) -> None:
        self.features = NystromFeatures(kernel, dictionary)
        self.gram = np.array(gram)
        self.moment = np.array(moment)
        self.count = count
        self.root = packed_root(self.gram, ridge)
        """The rows of R, one after the other."""
        weights = self.moment[:, None].copy()
        forward(self.root, len(weights), weights)
        self.weights = np.ascontiguousarray(weights[:, 0])
        """R^-1 b_0."""
        diagonal = self.root[np.cumsum(np.arange(1, len(weights) + 1)) - 1]
        self.volume = float(2 * np.log(diagonal).sum() - len(weights) * np.log(ridge))
        self.missed = max(count - float(np.trace(self.gram)), 0.0) / ridge
        self._ridge = ridge

    def __len__(self) -> int:
        return len(self.moment)

    def doubts(self, points: FloatArray) -> FloatArray:
        """(q, d) -> (q,) var, as it was told."""
        mean, variance, unseen = np.empty((3, len(points)))
        u = np.empty((len(self), len(points)))
        _judge(self.parts, np.ascontiguousarray(points.T), mean, variance, unseen, u)
        return variance

    @property
    def parts(self) -> ToldArrays:
        """What compiled loops need of it."""
        features = self.features
        code, rates = features.kernel.code, features.rates
        return ToldArrays(code, rates, features.points, features.factor, self.root, self.weights, self._ridge)


class DictionaryModels(Stateful):
    """n regressions: agent i acts on what it was told last, which is kept once for all who were told the same, and on
    what it has learned since. Before anybody has told it anything its dictionary is empty.

    `row` (n,) says which of `told` is each agent's. What it has learned since is no part of the state: whoever keeps
    the observations teaches them anew. `drift` (n,) is the sum of their variances, each as it was told.

    For kernels with k(x, x) = 1, `volume` and `missed` (n,) are those of all that an agent knows.
    """

    keeps: ClassVar[tuple[str, ...]] = ()

    def __init__(self, n: int, kernel: Kernel, ridge: float) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.row = np.zeros(n, dtype=np.int64)
        self.told = [Told(kernel, ridge, np.zeros((0, kernel.dim)), np.zeros((0, 0)), np.zeros(0), 0.0)]
        self.drift = np.zeros(n)
        self._gained, self._unseen = np.zeros((2, n))
        self._forget(np.arange(n))

    def __len__(self) -> int:
        return len(self.row)

    def _forget(self, who: IntArray) -> None:
        """What `who` have learned since they were told."""
        n = len(self.row)
        if len(who) == n:
            self._made = np.zeros(n, dtype=np.int64)
            self._u = np.zeros((n, 1, max(len(told) for told in self.told)))
            self._corners, self._zeta = np.zeros((n, packed(1))), np.zeros((n, 1))
        self._made[who] = 0
        self.drift[who] = self._gained[who] = self._unseen[who] = 0.0

    @property
    def sizes(self) -> IntArray:
        """(n,) M."""
        return np.array([len(told) for told in self.told], dtype=np.int64)[self.row]

    @property
    def volume(self) -> FloatArray:
        """(n,) log det A - log det lambda I."""
        return np.array([told.volume for told in self.told])[self.row] + self._gained

    @property
    def missed(self) -> FloatArray:
        """(n,) sum (k(x, x) - ||z(x)||^2) / lambda."""
        return np.array([told.missed for told in self.told])[self.row] + self._unseen

    def judge(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w,), (w, K, d) -> mean and var, (w, K) each."""
        mean, variance = np.empty((2, *arms.shape[:2]))
        lanes = linalg.as_lanes(arms)
        for told, places in self._groups(who):
            _judge_all(told.parts, self._since, who[places], places, lanes, mean, variance)
        return mean, variance

    def learn(self, who: IntArray, points: FloatArray, rewards: FloatArray) -> None:
        """One observation for each of `who`: `points` (w, d) and `rewards` (w,)."""
        if len(who) == 0:
            return
        if self._made[who].max() >= self._zeta.shape[1]:
            room = 2 * self._zeta.shape[1]
            self._u, self._zeta = longer(self._u, room), longer(self._zeta, room)
            self._corners = longer(self._corners, packed(room))
        lanes, rewards = np.ascontiguousarray(points[:, :, None]), np.ascontiguousarray(rewards)
        for told, places in self._groups(who):
            _learn_all(told.parts, self._since, who[places], places, lanes, rewards)

    @property
    def _since(self) -> Since:
        """What compiled loops need of what was learned since."""
        return Since(self._u, self._corners, self._zeta, self._made, self.drift, self._gained, self._unseen)

    def doubts(self, agent: int, points: FloatArray) -> FloatArray:
        """(m, d) -> (m,) var of points as it was told to `agent`, whatever it has learned since."""
        told = self.told[self.row[agent]]
        return np.concatenate([told.doubts(some) for some in np.split(points, range(_BLOCK, len(points), _BLOCK))])

    def tell(
        self, who: IntArray, dictionary: FloatArray, gram: FloatArray, moment: FloatArray, count: FloatArray
    ) -> None:
        """Let `who` know `dictionary` (w, M, d), `gram` (w, M, M), `moment` (w, M) and `count` (w,), in place of all
        they knew; a single one that is shown to all (stride 0) is kept once. Raises before anything has changed.
        """
        if len(who) == 0:
            return
        once = all(array.strides[0] == 0 for array in (dictionary, gram, moment, count))
        shown = [0] if once else range(len(who))
        told = [
            Told(self.kernel, self.ridge, dictionary[row], gram[row], moment[row], float(count[row])) for row in shown
        ]
        for place, one in enumerate(told):
            self.row[who if once else who[place : place + 1]] = len(self.told)
            self.told.append(one)
        self._tidy()
        if (more := dictionary.shape[1] - self._u.shape[2]) > 0:
            self._u = np.concatenate([self._u, np.zeros((*self._u.shape[:2], more))], axis=2)
        self._forget(who)

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
        return _packed(prefix, self.told, self.row)

    def _share(self, agent: int, prefix: str) -> State:
        return _packed(prefix, [self.told[self.row[agent]]], np.zeros(1, dtype=np.int64))

    def _growing(self, prefix: str = "") -> set[str]:
        return {prefix + name for name in ("sizes", "counts", "dictionary", "gram", "moment")}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Raise unless all that was told is there, and somebody knows it."""
        row, sizes = state[f"{prefix}row"], state[f"{prefix}sizes"]
        if not np.array_equal(np.unique(row), np.arange(len(sizes))) or sizes.min(initial=0) < 0:
            raise ValueError(f"the snapshot's {prefix}sizes does not tell how much each agent was told")
        total = int(sizes.sum())
        needed = {
            "counts": sizes.shape,
            "dictionary": (total, self.kernel.dim),
            "gram": (int((sizes * (sizes + 1) // 2).sum()),),
            "moment": (total,),
        }
        for name, shape in needed.items():
            if state[prefix + name].shape != shape:
                given = state[prefix + name].shape
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this population needs {shape}")

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        sizes = state[f"{prefix}sizes"]
        ends, squares = np.cumsum(sizes), np.cumsum(sizes * (sizes + 1) // 2)
        self.told = []
        for size, end, square, count in zip(sizes, ends, squares, state[f"{prefix}counts"], strict=True):
            gram = np.zeros((size, size))
            gram[np.tril_indices(size)] = state[f"{prefix}gram"][square - packed(int(size)) : square]
            gram += np.tril(gram, -1).T
            held = slice(end - size, end)
            dictionary, moment = state[f"{prefix}dictionary"][held], state[f"{prefix}moment"][held]
            self.told.append(Told(self.kernel, self.ridge, np.array(dictionary), gram, moment, float(count)))
        self.row = np.array(state[f"{prefix}row"])
        self._forget(np.arange(len(self)))


def _packed(prefix: str, told: list[Told], row: IntArray) -> State:
    found: State = {
        "row": row,
        "sizes": np.array([len(one) for one in told], dtype=np.int64),
        "counts": np.array([one.count for one in told]),
        "dictionary": np.concatenate([one.features.points for one in told]),
        "gram": np.concatenate([one.gram[np.tril_indices(len(one))] for one in told]),
        "moment": np.concatenate([one.moment for one in told]),
    }
    return {prefix + name: array for name, array in found.items()}


def embedded_sums(features: NystromFeatures, points: FloatArray, rewards: FloatArray) -> tuple[FloatArray, FloatArray]:
    """sum z z^T (M, M) and sum y z (M,) over `points` (m, d) and `rewards` (m,)."""
    gram, moment = np.zeros((features.size, features.size)), np.zeros(features.size)
    lanes = np.ascontiguousarray(points.T)
    code = features.kernel.code
    _add_sums(code, features.rates, features.points, features.factor, lanes, np.array(rewards), gram, moment)
    return gram, moment


@jit
def _judge(
    told: ToldArrays, lanes: FloatArray, mean: FloatArray, variance: FloatArray, unseen: FloatArray, u: FloatArray
) -> None:
    size, width = u.shape
    embed(told.code, told.rates, told.points, told.factor, lanes, u)
    own(told.code, lanes, unseen)
    for s in range(size):
        for k in range(width):
            unseen[k] -= u[s, k] * u[s, k]
    for k in range(width):
        unseen[k] = max(unseen[k], 0.0) / told.ridge
        variance[k] = unseen[k]
        mean[k] = 0.0
    forward(told.root, size, u)
    weights = told.weights
    for s in range(size):
        for k in range(width):
            mean[k] += weights[s] * u[s, k]
            variance[k] += u[s, k] * u[s, k]


@jit
def _judge_all(
    told: ToldArrays,
    since: Since,
    who: IntArray,
    places: IntArray,
    lanes: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    """What was told of the arms of `who`, and what each has learned since."""
    seen, corners, zeta, made = since.u, since.corners, since.zeta, since.made
    size, width = len(told.points), lanes.shape[2]
    most = 0
    for a in range(len(who)):
        most = max(most, made[who[a]])
    u, v, unseen = np.empty((size, width)), np.empty((most, width)), np.empty(width)
    for a in range(len(who)):
        agent, row = who[a], places[a]
        _judge(told, lanes[row], mean[row], variance[row], unseen, u)
        start = 0
        for o in range(made[agent]):
            for k in range(width):
                v[o, k] = 0.0
            for s in range(size):
                c = seen[agent, o, s]
                for k in range(width):
                    v[o, k] += c * u[s, k]
            for q in range(o):
                c = corners[agent, start + q]
                for k in range(width):
                    v[o, k] -= c * v[q, k]
            for k in range(width):
                v[o, k] /= corners[agent, start + o]
                mean[row, k] += zeta[agent, o] * v[o, k]
                variance[row, k] -= v[o, k] * v[o, k]
            start += o + 1
        for k in range(width):
            variance[row, k] = max(variance[row, k], unseen[k])


@jit
def _learn_all(
    told: ToldArrays, since: Since, who: IntArray, places: IntArray, lanes: FloatArray, rewards: FloatArray
) -> None:
    """A row of U^T and of C for each of `who`."""
    seen, corners, zeta, made = since.u, since.corners, since.zeta, since.made
    size = len(told.points)
    u, unseen, mean, variance = np.empty((size, 1)), np.empty(1), np.empty(1), np.empty(1)
    for a in range(len(who)):
        agent, row = who[a], places[a]
        _judge(told, lanes[row], mean, variance, unseen, u)
        since.drift[agent] += variance[0]
        since.unseen[agent] += unseen[0]
        e, begins = made[agent], agent * seen.shape[1] * size
        left, y = 1.0, rewards[row] - mean[0]
        for s in range(size):
            seen[agent, e, s] = u[s, 0]
            left += u[s, 0] * u[s, 0]
        last = e * (e + 1) // 2
        start = 0
        for o in range(e):
            total = dot_at(seen, begins + o * size, seen, begins + e * size, size)
            for q in range(o):
                total -= corners[agent, start + q] * corners[agent, last + q]
            c = total / corners[agent, start + o]
            corners[agent, last + o] = c
            left -= c * c
            y -= c * zeta[agent, o]
            start += o + 1
        gone = np.sqrt(max(left, 1.0))  # which it is but for rounding
        corners[agent, last + e] = gone
        since.gained[agent] += 2 * np.log(gone)
        zeta[agent, e] = y / gone
        made[agent] = e + 1


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
        count = end - begin
        for i in range(size):
            for j in range(i + 1):
                gram[i, j] += dot_at(z, i * count, z, j * count, count)
            moment[i] += dot_at(z, i * count, rewards, begin, count)
    for i in range(size):
        for j in range(i):
            gram[j, i] = gram[i, j]
