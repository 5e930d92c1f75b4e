"""Exact processes on a pool of observations that a server tells of, and on what each agent has observed since.

Everybody's pool is the beginning of one and the same list, of which agents may have been told more or less. A Cholesky
factor of the beginning is the beginning of the factor: one factor, of the longest pool that anybody was told, serves
the whole population, and an agent alone computes the same bits. On top of it an agent has rows of its own, one for each
observation that is not in its pool yet. With t observations in the pool and e of its own, K arms cost K (t + e)^2/2
products, another observation (t + e)^2/2, and m more in the pool m t^2/2 for everybody together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray, State
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.state import Stateful
from fedbandits.contract.wire import WireError
from fedbandits.linalg import kernels as linalg
from fedbandits.linalg.jit import jit
from fedbandits.linalg.kernels import dot_at
from fedbandits.linalg.triangular import forward
from fedbandits.models.kernels import Kernel, cross, own
from fedbandits.models.processes import longer, packed

_FIRST = 32
"""Observations that there is room for at the beginning; it is doubled when it is full."""
INSTEAD = "use approx-dis-kernel-ucb or dis-kernel-features, which do not keep everything"


class PoolProcesses(Stateful):
    """n posteriors, of at most `capacity` observations each; see `models.processes` for what a posterior is.

    `points` (m, d) and `rewards` (m,) are the pool, of which agent i knows the first `known[i]`. `own_points` (n, E, d)
    and `own_rewards` (n, E) are what it has observed beyond, `made` (n,) of them, the first `given` (n,) of which it
    has handed over. Factors follow from these and are no part of the state: 8 bytes for every two pairs of
    observations in the pool, once for all, and 8 bytes for every pair of an own one and any other, for each agent.
    """

    keeps: ClassVar[tuple[str, ...]] = ("points", "rewards", "known", "own_points", "own_rewards", "made", "given")
    resizes: ClassVar[frozenset[str]] = frozenset({"points", "rewards", "own_points", "own_rewards"})

    def __init__(self, n: int, kernel: Kernel, ridge: float, capacity: int) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.capacity = capacity
        self.points = np.zeros((0, kernel.dim))
        self.rewards = np.zeros(0)
        self.known = np.zeros(n, dtype=np.int64)
        self.own_points = np.zeros((n, 1, kernel.dim))
        self.own_rewards = np.zeros((n, 1))
        self.made = np.zeros(n, dtype=np.int64)
        self.given = np.zeros(n, dtype=np.int64)
        self._rates = kernel.rates
        self._forget()

    def __len__(self) -> int:
        return len(self.known)

    def _forget(self) -> None:
        """Have no factors."""
        self._factored = 0
        self._room = np.zeros((_FIRST, self.kernel.dim))
        self._factor = np.zeros(packed(_FIRST))
        self._solved = np.zeros(_FIRST)
        self._volume = np.zeros(_FIRST + 1)
        """(C + 1,) log det(I + K/lambda) of the first 0, 1, ... observations of the pool."""
        n, room = self.own_rewards.shape
        self._rows = np.zeros((n, room, 1))
        self._own_solved = np.zeros((n, room))
        self._gains = np.zeros((n, room))

    @property
    def count(self) -> IntArray:
        """(n,) how many observations each agent knows."""
        return np.asarray(self.known + self.made)

    @property
    def fresh(self) -> FloatArray:
        """(n,) how many of them it has not handed over."""
        return np.asarray((self.made - self.given).astype(np.float64))

    @property
    def growth(self) -> FloatArray:
        """(n,) by how much these have raised log det(I + K/lambda)."""
        later = np.arange(self._gains.shape[1]) >= self.given[:, None]
        return np.asarray(_sums(self._gains, later, self.made))

    @property
    def logdet(self) -> FloatArray:
        """(n,) log det(I + K/lambda)."""
        every = np.ones(self._gains.shape, dtype=np.bool_)
        return np.asarray(self._volume[self.known] + _sums(self._gains, every, self.made))

    def posterior(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w,), (w, K, d) -> mu and sigma, (w, K) each."""
        mean, deviation = np.empty((2, len(who), arms.shape[1]))
        _ask(
            self.kernel.code,
            self._rates,
            self._room,
            self._factor,
            self._solved,
            self.known,
            self.own_points,
            self._rows,
            self._own_solved,
            self.made,
            who,
            linalg.as_lanes(arms),
            mean,
            deviation,
        )
        return mean, deviation

    def learn(self, who: IntArray, points: FloatArray, rewards: FloatArray) -> None:
        """One observation for each of `who`: `points` (w, d) and `rewards` (w,). Raises before anything has changed."""
        if len(who) == 0:
            return
        self._check_capacity(int(self.count[who].max()) + 1)
        if self.made[who].max() >= self.own_rewards.shape[1]:
            room = 2 * self.own_rewards.shape[1]
            self.own_points, self.own_rewards = longer(self.own_points, room), longer(self.own_rewards, room)
            self._own_solved, self._gains = longer(self._own_solved, room), longer(self._gains, room)
            self._rows = longer(self._rows, room)
        self.own_points[who, self.made[who]] = points
        self.own_rewards[who, self.made[who]] = rewards
        self.made[who] += 1
        self._add_rows(who, self.made[who] - 1)

    def new(self, who: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """What `who` have not handed over: points (w, m, d) and rewards (w, m), padded, and how many (w,)."""
        lengths = self.made[who] - self.given[who]
        most = int(lengths.max(initial=0))
        points, rewards = np.zeros((len(who), most, self.kernel.dim)), np.zeros((len(who), most))
        for row, agent in enumerate(who):
            held = slice(self.given[agent], self.made[agent])
            points[row, : lengths[row]], rewards[row, : lengths[row]] = (
                self.own_points[agent, held],
                self.own_rewards[agent, held],
            )
        return points, rewards, lengths

    def give(self, who: IntArray) -> None:
        """All that `who` have observed has been handed over."""
        self.given[who] = self.made[who]

    def take_back(self, who: IntArray, lengths: IntArray) -> None:
        """The last `lengths` (w,) of what was handed over was not taken in."""
        self.given[who] -= lengths

    def extend(self, who: IntArray, points: FloatArray, rewards: FloatArray, lengths: IntArray) -> None:
        """`who` are told what follows in the pool: the first `lengths` (w,) of `points` (w, m, d) and `rewards` (w, m).

        What they have handed over is part of it by now; what they have observed since stays on top.
        """
        if len(who) == 0:
            return
        ends = self.known[who] + lengths
        self._check_capacity(int((ends + self.made[who] - self.given[who]).max()))
        last = int(ends.argmax())
        more = max(int(ends[last]) - len(self.points), 0)
        all_points = np.concatenate([self.points, points[last, lengths[last] - more : lengths[last]]])
        all_rewards = np.concatenate([self.rewards, rewards[last, lengths[last] - more : lengths[last]]])
        shown_to_all = points.strides[0] == 0 and rewards.strides[0] == 0 and (ends == ends[0]).all()
        for row in [0] if shown_to_all else range(len(who)):
            held = slice(self.known[who[row]], ends[row])
            same = np.array_equal(all_points[held], points[row, : lengths[row]])
            if not same or not np.array_equal(all_rewards[held], rewards[row, : lengths[row]]):
                raise WireError("a pool is told that is not the one that others were told")
        self.points, self.rewards = all_points, all_rewards
        self._factorise()
        self.known[who] = ends
        self._drop(who)
        for row in range(int(self.made[who].max(initial=0))):
            some = who[self.made[who] > row]
            self._add_rows(some, np.full(len(some), row))

    def _drop(self, who: IntArray) -> None:
        """Own observations of `who` that were handed over are theirs no longer."""
        for agent in who[self.given[who] > 0]:
            left = slice(self.given[agent], self.made[agent])
            kept = self.made[agent] - self.given[agent]
            for array in (self.own_points, self.own_rewards):
                array[agent, :kept] = array[agent, left].copy()
                array[agent, kept:] = 0.0
        self.made[who] -= self.given[who]
        self.given[who] = 0

    def _check_capacity(self, needed: int) -> None:
        if needed > self.capacity:
            raise ConfigError(
                f"capacity: {needed} observations are more than the {self.capacity} that an exact process keeps here; "
                f"raise capacity, whose memory grows with its square, or {INSTEAD}"
            )

    def _factorise(self) -> None:
        """Add the rows of the pool's factor that are missing."""
        room = len(self._room)
        while room < len(self.points):
            room = min(2 * room, max(self.capacity, len(self.points)))
        if room > len(self._room):
            self._room, self._solved = _larger(self._room, room), _larger(self._solved, room)
            self._factor, self._volume = _larger(self._factor, packed(room)), _larger(self._volume, room + 1)
        _append(
            self.kernel.code,
            self._rates,
            self.ridge,
            self._room,
            self._factor,
            self._solved,
            self._volume,
            self._factored,
            self.points,
            self.rewards,
        )
        self._factored = len(self.points)

    def _add_rows(self, who: IntArray, place: IntArray) -> None:
        """The rows of own observations number `place` (w,)."""
        needed = int((self.known[who] + place).max(initial=0)) + 1
        if needed > self._rows.shape[2]:
            n, room, held = self._rows.shape
            grown = np.zeros((n, room, max(needed, min(2 * held, self.capacity))))
            grown[:, :, :held] = self._rows
            self._rows = grown
        _own_rows(
            self.kernel.code,
            self._rates,
            self.ridge,
            self._room,
            self._factor,
            self._solved,
            self.known,
            self.own_points,
            self.own_rewards,
            self._rows,
            self._own_solved,
            self._gains,
            who,
            place,
        )

    # snapshots

    def _arrays(self, prefix: str = "") -> State:
        """Without room that nobody uses."""
        found, made = super()._arrays(prefix), int(self.made.max(initial=0))
        for name in ("own_points", "own_rewards"):
            found[prefix + name] = found[prefix + name][:, :made]
        return found

    def _share(self, agent: int, prefix: str) -> State:
        """What the agent knows: others may have been told more, and have more room."""
        known, made, one = int(self.known[agent]), int(self.made[agent]), slice(agent, agent + 1)
        return {
            f"{prefix}points": self.points[:known],
            f"{prefix}rewards": self.rewards[:known],
            f"{prefix}known": self.known[one],
            f"{prefix}own_points": self.own_points[one, :made],
            f"{prefix}own_rewards": self.own_rewards[one, :made],
            f"{prefix}made": self.made[one],
            f"{prefix}given": self.given[one],
        }

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Only the length of the pool and the room for own observations may differ."""
        n, d = len(self), self.kernel.dim
        points, rewards = state[f"{prefix}points"], state[f"{prefix}rewards"]
        if points.shape != (len(rewards), d) or rewards.ndim != 1:
            raise ValueError(
                f"the snapshot's {prefix}points and {prefix}rewards have shapes {points.shape} and {rewards.shape}, of "
                f"which one pool of dimension {d} cannot be made"
            )
        if (known := int(state[f"{prefix}known"].max(initial=0))) > len(rewards):
            raise ValueError(f"the snapshot's {prefix}known is {known}, and {prefix}rewards has {len(rewards)}")
        room = max(int(state[f"{prefix}made"].max(initial=0)), state[f"{prefix}own_rewards"].shape[-1])
        for name, shape in {"own_points": (n, room, d), "own_rewards": (n, room)}.items():
            given = state[prefix + name].shape
            if given != shape:
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this population needs {shape}")

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        super()._take(state, prefix)
        if self.own_rewards.shape[1] == 0:
            self.own_points, self.own_rewards = longer(self.own_points, 1), longer(self.own_rewards, 1)
        self._forget()
        self._factorise()
        everybody = np.arange(len(self))
        for row in range(int(self.made.max(initial=0))):
            some = everybody[self.made > row]
            self._add_rows(some, np.full(len(some), row))


def _larger(array: FloatArray, size: int) -> FloatArray:
    grown: FloatArray = longer(array[None], size)[0]
    return grown


@jit
def _sums(gains: FloatArray, counted: Array, made: IntArray) -> FloatArray:
    """(n,) sums of those that are counted among the first `made`, in their order whatever room there is."""
    out = np.zeros(len(made))
    for i in range(len(made)):
        total = 0.0
        for e in range(made[i]):
            if counted[i, e]:
                total += gains[i, e]
        out[i] = total
    return out


@jit
def _append(
    code: int,
    rates: FloatArray,
    ridge: float,
    room: FloatArray,
    factor: FloatArray,
    solved: FloatArray,
    volume: FloatArray,
    first: int,
    points: FloatArray,
    rewards: FloatArray,
) -> None:
    """Add a row of L for every point from `first` on; `room` (C, d) holds those that have one."""
    d = points.shape[1]
    lane, itself = np.empty((d, 1)), np.empty(1)
    work = np.empty((len(points), 1))
    flat = work.reshape(work.size)
    for t in range(first, len(points)):
        for j in range(d):
            lane[j, 0] = points[t, j]
        cross(code, rates, room, t, lane, work)
        forward(factor, t, work)
        own(code, lane, itself)
        left, rest = itself[0] + ridge, rewards[t]
        start = t * (t + 1) // 2
        for s in range(t):
            v = flat[s]
            left -= v * v
            rest -= v * solved[s]
            factor[start + s] = v
        left = max(left, ridge)  # which it is but for rounding
        root = np.sqrt(left)
        factor[start + t] = root
        solved[t] = rest / root
        volume[t + 1] = volume[t] + np.log(left / ridge)
        for j in range(d):
            room[t, j] = points[t, j]


@jit
def _own_rows(
    code: int,
    rates: FloatArray,
    ridge: float,
    room: FloatArray,
    factor: FloatArray,
    solved: FloatArray,
    known: IntArray,
    own_points: FloatArray,
    own_rewards: FloatArray,
    rows: FloatArray,
    own_solved: FloatArray,
    gains: FloatArray,
    who: IntArray,
    place: IntArray,
) -> None:
    """Row `place[a]` of agent `who[a]`: (L^-1 k(pool, x), L_own^-1 ..., the root of what is left)."""
    d = own_points.shape[2]
    lane, itself = np.empty((d, 1)), np.empty(1)
    most = 0
    for a in range(len(who)):
        most = max(most, known[who[a]] + place[a])
    work = np.empty((most, 1))
    flat = work.reshape(work.size)
    for a in range(len(who)):
        agent, e = who[a], place[a]
        m, pitch = known[agent], rows.shape[2]
        begins = agent * rows.shape[1] * pitch
        for j in range(d):
            lane[j, 0] = own_points[agent, e, j]
        cross(code, rates, room, m, lane, work)
        forward(factor, m, work)
        cross(code, rates, own_points[agent], e, lane, work[m:])
        own(code, lane, itself)
        left, rest = itself[0] + ridge, own_rewards[agent, e]
        for s in range(m):
            v = flat[s]
            left -= v * v
            rest -= v * solved[s]
            rows[agent, e, s] = v
        for o in range(e):
            done = dot_at(rows, begins + o * pitch, rows, begins + e * pitch, m + o)
            v = (flat[m + o] - done) / rows[agent, o, m + o]
            left -= v * v
            rest -= v * own_solved[agent, o]
            rows[agent, e, m + o] = v
        left = max(left, ridge)
        root = np.sqrt(left)
        rows[agent, e, m + e] = root
        own_solved[agent, e] = rest / root
        gains[agent, e] = np.log(left / ridge)


@jit
def _ask(
    code: int,
    rates: FloatArray,
    room: FloatArray,
    factor: FloatArray,
    solved: FloatArray,
    known: IntArray,
    own_points: FloatArray,
    rows: FloatArray,
    own_solved: FloatArray,
    made: IntArray,
    who: IntArray,
    lanes: FloatArray,
    mean: FloatArray,
    deviation: FloatArray,
) -> None:
    width = lanes.shape[2]
    most = 0
    for a in range(len(who)):
        most = max(most, known[who[a]] + made[who[a]])
    work = np.empty((most, width))
    for a in range(len(who)):
        agent = who[a]
        m, e = known[agent], made[agent]
        cross(code, rates, room, m, lanes[a], work)
        forward(factor, m, work)
        cross(code, rates, own_points[agent], e, lanes[a], work[m:])
        for o in range(e):
            for s in range(m + o):
                c = rows[agent, o, s]
                for k in range(width):
                    work[m + o, k] -= c * work[s, k]
            for k in range(width):
                work[m + o, k] /= rows[agent, o, m + o]
        own(code, lanes[a], deviation[a])
        for k in range(width):
            mean[a, k] = 0.0
        for s in range(m + e):
            z = solved[s] if s < m else own_solved[agent, s - m]
            for k in range(width):
                mean[a, k] += z * work[s, k]
                deviation[a, k] -= work[s, k] * work[s, k]
        for k in range(width):
            deviation[a, k] = np.sqrt(max(deviation[a, k], 0.0))
