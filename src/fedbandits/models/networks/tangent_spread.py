"""How far tangent features that stay may be off, in the space of observations: for networks larger than their data.

At a fixed theta_0 the gradient of a network with one hidden layer is a product: with x~ = [x; 1], a the hidden layer,
z = [a; 1] and u = scale w o 1[a > 0], it consists of u x~^T and scale z. Hence

    <phi(x), phi(x')> = (<x~, x~'> <u, u'> + scale^2 <z, z'>) / divisor^2

takes d + 2m products instead of p = m (d + 2) + 1, and ||phi||_{V^-1}, with V = lambda I + sum phi phi^T over t
observations, t (d + 2m) and t^2/2 more for each arm instead of p^2 (`models.processes` has the formulas).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray, State, check_finite
from fedbandits.contract.state import Stateful
from fedbandits.linalg.jit import jit
from fedbandits.linalg.triangular import forward
from fedbandits.models.networks.architecture import Architecture
from fedbandits.models.networks.evaluation import hidden
from fedbandits.models.processes import longer, packed

_FIRST = 32
"""Observations that there is room for at the beginning."""


class TangentSpread(Stateful):
    """n agents' V^-1, never written down.

    `inputs` (n, C, d + b), `units` (n, C, m) and `tops` (n, C, q) are x~, u / divisor and scale z / divisor of what
    each has observed, and `factor` (n, C (C+1)/2) the rows of L, L L^T = K + lambda I; each agent has used `count` (n,)
    of them. Memory: 4 C^2 bytes an agent, whatever p is.
    """

    keeps: ClassVar[tuple[str, ...]] = ("inputs", "units", "tops", "factor", "count")
    resizes: ClassVar[frozenset[str]] = frozenset({"inputs", "units", "tops", "factor"})

    def __init__(self, n: int, network: Architecture, theta: FloatArray, ridge: float, divisor: float) -> None:
        if len(network.hidden) != 1:
            raise ValueError(f"tangents factorise for one hidden layer, not for {len(network.hidden)}")
        self.ridge = ridge
        self._network, self._divisor = network, divisor
        self._theta = np.ascontiguousarray(theta)[None]
        self._head = network.matrices(theta)[-1][0, : network.hidden[0]]
        self.inputs = np.zeros((n, _FIRST, network.inputs + network.biased))
        self.units = np.zeros((n, _FIRST, network.hidden[0]))
        self.tops = np.zeros((n, _FIRST, network.features))
        self.factor = np.zeros((n, packed(_FIRST)))
        self.count = np.zeros(n, dtype=np.int64)

    def lengths(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w, K) ||phi||_{V^-1} of `arms` (w, K, d)."""
        check_finite("arms", who, arms)
        inputs, units, tops = self._parts(arms)
        out = np.empty(arms.shape[:2])
        _ask(self.inputs, self.units, self.tops, self.factor, self.count, who, inputs, units, tops, out)
        return np.sqrt(np.maximum(out, 0.0) / self.ridge)

    def learn(self, who: IntArray, x: FloatArray) -> None:
        """One observation for each of `who`: chosen arms (w, d)."""
        if len(who) == 0:
            return
        check_finite("arms", who, x)
        if self.count[who].max() >= self.inputs.shape[1]:
            larger = 2 * self.inputs.shape[1]
            for name in ("inputs", "units", "tops"):
                setattr(self, name, longer(getattr(self, name), larger))
            self.factor = longer(self.factor, packed(larger))
        inputs, units, tops = self._parts(x[:, None])
        left = np.empty((len(who), 1))
        rows = _ask(self.inputs, self.units, self.tops, self.factor, self.count, who, inputs, units, tops, left)
        _append(self.factor, self.count, who, rows, np.sqrt(np.maximum(left[:, 0], 0.0) + self.ridge))
        used = self.count[who]
        self.inputs[who, used], self.units[who, used], self.tops[who, used] = inputs[:, 0], units[:, 0], tops[:, 0]
        self.count[who] += 1

    def _parts(self, arms: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """x~ (w, K, d + b), u (w, K, m) and z (w, K, q), the latter two times scale and over the divisor."""
        network, factor = self._network, self._network.scale / self._divisor
        rows = np.zeros(len(arms), dtype=np.int64)
        top = np.ascontiguousarray(hidden(network, self._theta, rows, arms))
        ones = np.ones((*arms.shape[:2], int(network.biased)))
        units = factor * self._head * (top[:, :, : network.hidden[0]] > 0.0)
        return (
            np.ascontiguousarray(np.concatenate([arms, ones], axis=2)),
            np.ascontiguousarray(units),
            np.ascontiguousarray(factor * top),
        )

    def _share(self, agent: int, prefix: str) -> State:
        """What the agent has used: how much room there is beyond depends on the others."""
        used, one = int(self.count[agent]), slice(agent, agent + 1)
        found = {prefix + name: getattr(self, name)[one, :used] for name in ("inputs", "units", "tops")}
        return found | {f"{prefix}factor": self.factor[one, : packed(used)], f"{prefix}count": self.count[one]}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Only the room may differ."""
        n, used = len(self.count), int(state[f"{prefix}count"].max(initial=0))
        rooms = [state[prefix + name].shape[1] for name in ("inputs", "units", "tops")]
        room = max(used, int(np.median(rooms)))
        for name in ("inputs", "units", "tops", "factor"):
            rest = getattr(self, name).shape[2:]
            given, needed = state[prefix + name].shape, (n, packed(room) if name == "factor" else room, *rest)
            if given != needed:
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this population needs {needed}")


@jit
def _ask(
    held_inputs: FloatArray,
    held_units: FloatArray,
    held_tops: FloatArray,
    factor: FloatArray,
    count: IntArray,
    who: IntArray,
    inputs: FloatArray,
    units: FloatArray,
    tops: FloatArray,
    left: FloatArray,
) -> FloatArray:
    """Write k(x, x) - ||L^-1 k(X, x)||^2 of every arm to `left` (w, K); returns L^-1 k(X, x) of the first, (w, t)."""
    most, width = 0, left.shape[1]
    for a in range(len(who)):
        most = max(most, count[who[a]])
    first = np.zeros((len(who), most))
    for a in range(len(who)):
        i, used = who[a], count[who[a]]
        work = np.dot(held_inputs[i, :used], inputs[a].T) * np.dot(held_units[i, :used], units[a].T)
        work += np.dot(held_tops[i, :used], tops[a].T)
        forward(factor[i], used, work)
        for k in range(width):
            x, u, z = inputs[a, k], units[a, k], tops[a, k]
            left[a, k] = np.dot(x, x) * np.dot(u, u) + np.dot(z, z)
        for s in range(used):
            for k in range(width):
                left[a, k] -= work[s, k] * work[s, k]
            first[a, s] = work[s, 0]
    return first


@jit
def _append(factor: FloatArray, count: IntArray, who: IntArray, rows: FloatArray, corner: FloatArray) -> None:
    """Another row of L for each of `who`."""
    for a in range(len(who)):
        used = count[who[a]]
        start = used * (used + 1) // 2
        factor[who[a], start : start + used] = rows[a, :used]
        factor[who[a], start + used] = corner[a]
