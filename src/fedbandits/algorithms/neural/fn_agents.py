"""Agents of FN-UCB: optimism in tangent features over everybody's data, mixed with a network and its own doubts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.algorithms.neural.fn_indices import mixed_indices
from fedbandits.algorithms.neural.fn_messages import COLLECT, Pooling
from fedbandits.contract.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_arms,
    check_feedback,
    check_finite,
    shown_to,
)
from fedbandits.contract.messages import Closing, Message, Opening
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.linalg.jit import jit
from fedbandits.linalg.recycled import read_only
from fedbandits.models.diagonal import DiagonalModels
from fedbandits.models.features.tangent import MovingTangent
from fedbandits.models.judging import IndexAgents
from fedbandits.models.networks import outputs
from fedbandits.models.networks.evaluation import lanes_of
from fedbandits.models.observations import Observations
from fedbandits.models.pooled import PooledModels
from fedbandits.models.shared_rows import Told
from fedbandits.models.spreads import Spreads, lengths
from fedbandits.models.triggers import Trigger, both

if TYPE_CHECKING:
    from fedbandits.algorithms.neural.fn_ucb import FNUCB


class FNAgents(IndexAgents):
    """n agents, p being the number of parameters of a network.

    `tangent` is the point (n, p) at which features are taken, theta_0 for ever unless one network is passed on; `pool`
    what is known of everybody's rewards in features, `own` V_local; `average` and `network` (n, p) theta_sync and the
    agents' own; `before` (n, p) the latter as it was before it was last trained; `told` the mean inverse, (p, p), or
    everybody's, (N, p, p), or diagonals of them; `alpha` (n,) as told; `data` all observations.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        "tangent",
        "pool",
        "own",
        "average",
        "network",
        "before",
        "told",
        "alpha",
        "data",
    )

    def __init__(self, parameters: FNUCB, problem: Problem, n: int, rng: Streams) -> None:
        super().__init__(n)
        self._parameters = parameters
        self._network = parameters.network(problem)
        self._beginning = parameters.beginning(problem, rng)
        self._anchor = parameters.anchor(self._beginning)
        self.tangent = MovingTangent(self._network, self._beginning, n, parameters.divisor)
        p = self._network.parameters
        self._diagonal = parameters.matrix == "diagonal"
        self.pool: PooledModels | DiagonalModels
        self.own: Spreads | DiagonalModels
        if self._diagonal:
            self.pool, self.own = (DiagonalModels(n, p, parameters.ridge) for _ in range(2))
        else:
            self.pool = PooledModels(n, p, parameters.ridge, patient=parameters.ceaseless)
            self.own = Spreads(n, p, parameters.ridge)
        self.average, self.network, self.before = (np.repeat(self._beginning[None], n, axis=0) for _ in range(3))
        one = np.full(p, 1 / parameters.ridge) if self._diagonal else np.eye(p) / parameters.ridge
        self.told = Told(n, one if parameters.less else np.repeat(one[None], problem.agents, axis=0))
        self.alpha = np.zeros(n)
        self.data = Observations(n, problem.dim, problem.horizon)
        self._trigger = parameters.paced(Trigger(both, parameters.threshold, strict=True))
        self._probes = parameters.probes_of(problem, rng)

    # choosing

    def _indices(self, who: IntArray, arms: FloatArray) -> FloatArray:
        check_arms(who, arms, self._n, self.tangent.dim)
        weights = self.weights(who)
        if isinstance(self.pool, PooledModels) and not self.pool.waits(who):
            return self._indices_at_once(who, arms, weights, self.pool)
        phi, alpha = self.tangent.of(who, arms), weights[:, None]
        found = np.zeros(arms.shape[:2])
        if (alpha < 1).any():
            found += (1 - alpha) * self.pooled_index(who, phi)
        if (alpha > 0).any():
            found += alpha * self.network_index(who, arms, phi)
        return found

    def _indices_at_once(self, who: IntArray, arms: FloatArray, alpha: FloatArray, pool: PooledModels) -> FloatArray:
        """The same, over full matrices in which all is known that an agent has observed."""
        lanes = lanes_of(arms)
        if not _are_finite(lanes):
            check_finite("arms", who, arms)  # a rectifier would make a number of anything
        parameters, network, told = self._parameters, self._network, read_only(self.told.values)
        root = math.sqrt(parameters.ridge)
        return mixed_indices(
            network.sizes,
            int(network.biased),
            network.scale,
            parameters.divisor,
            self.tangent.theta,
            self._judging(),
            who,
            lanes,
            alpha,
            pool.inverse,
            pool.theta,
            pool.row[who],
            parameters.nu_all * root,
            told[:, None] if parameters.less else told,
            self.told.row[who],
            parameters.nu_own * root,
        )

    def _judging(self) -> FloatArray:
        """(n, p) the networks of UCBb."""
        return self.average if self._parameters.averaged else self.network

    def weights(self, who: IntArray) -> FloatArray:
        """(w,) the mixing weight alpha of the next decision."""
        parameters = self._parameters
        if isinstance(parameters.mixing, float):
            return np.full(len(who), parameters.mixing)
        if parameters.mixing == "linear":
            return _risen(self.data.count, who, parameters.ramp)
        first = self.pool.since[who] == 0
        return np.where(first | (parameters.mixing == "theory"), self.alpha[who], 0.0)

    def pooled_index(self, who: IntArray, phi: FloatArray) -> FloatArray:
        """(w, K) <phi, theta> + nu_all sqrt(lambda) ||phi||_{V^-1}, over all that an agent knows."""
        parameters, pool = self._parameters, self.pool
        width = parameters.nu_all * np.sqrt(parameters.ridge)
        if isinstance(pool, PooledModels):
            return pool.scores(who, phi, width)
        means = np.einsum("wkp,wp->wk", phi, pool.estimates(who))
        if parameters.rescaled:
            low, high = means.min(axis=1, keepdims=True), means.max(axis=1, keepdims=True)
            means = np.divide(means - low, high - low, out=np.zeros_like(means), where=high > low)
        return np.asarray(means + width * _lengths(phi, 1 / pool.diagonals(who), np.arange(len(who))))

    def network_index(self, who: IntArray, arms: FloatArray, phi: FloatArray) -> FloatArray:
        """(w, K) f(x) + nu_own sqrt(lambda) times what agents doubt on average, at the last round."""
        parameters = self._parameters
        found = outputs(self._network, self._judging(), who, arms)
        width = parameters.nu_own * np.sqrt(parameters.ridge)
        told, rows = self.told.values, self.told.row[who]
        if parameters.less:
            return np.asarray(found + width * _lengths(phi, told, rows))
        others, flat = told.shape[1], told.reshape(-1, *told.shape[2:])
        doubts = [_lengths(phi, flat, others * rows + other) for other in range(others)]
        return np.asarray(found + width * np.mean(doubts, axis=0))

    # learning

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`."""
        check_feedback(who, arms, picks, rewards, self._n, self.tangent.dim)
        x, phi = self.tangent.taken(who, arms, picks)
        self.pool.learn_chosen(who, phi, rewards)
        if isinstance(self.own, Spreads):
            self.own.learn(who, phi)
        else:
            self.own.learn_chosen(who, phi, np.zeros(len(who)))
        self.data.keep(who, x, rewards)

    def calling(self) -> BoolArray:
        """Whose turns since the last round, times the growth of the log-determinant, exceed D; or by a schedule."""
        if isinstance(self.pool, PooledModels) and self._parameters.by_any_growth:
            return self.pool.stirred()
        return self._trigger.fired(self.pool.since, self._growth())

    def urgency(self) -> FloatArray | None:
        """How far each agent's trigger has come; see `Population`."""
        return self._trigger.urgency(self.pool.since, self._growth())

    def _growth(self) -> FloatArray:
        pool, parameters = self.pool, self._parameters
        if parameters.every is not None:
            return np.zeros(self._n)
        if isinstance(pool, PooledModels) and parameters.by_any_growth:
            return np.where(pool.stirred(), 1.0, 0.0)
        if isinstance(pool, DiagonalModels):
            base, fresh = pool.base.gram, pool.fresh.gram
        elif parameters.determinant == "full":
            return pool.growth
        else:
            base, fresh = pool.diagonals()
        return np.asarray(np.log1p(fresh / (base + parameters.ridge)).sum(axis=1))

    # talking

    def answer(self, request: Message) -> Message | None:
        """Hand over what is new, with a network trained on all own data; train one that is passed on; or take in."""
        who, arrays, parameters = request.who, request.arrays, self._parameters
        if request.kind == COLLECT.kind:
            return Message("handed", who, self._handed(who))
        if request.kind == "train" and parameters.passed_on:
            return Message("trained", who, {"network": self._trained(who, np.array(arrays["network"]))})
        if request.kind != "model":
            return super().answer(request)
        self.pool.replace(who, arrays["gram"], arrays["moment"], arrays["count"])
        self.told.tell(who, arrays["inverse"] if parameters.less else arrays["inverses"])
        if "network" in arrays:
            self.average[who] = arrays["network"]
            if parameters.passed_on:
                self.tangent.theta[who] = self.network[who] = arrays["network"]
        if "alpha" in arrays:
            self.alpha[who] = arrays["alpha"]
        return None

    def pursue(self, opening: Opening) -> Closing | None:
        """Everybody hands over one observation, of which nothing is written down but what becomes of it."""
        course, pool, own, who = opening.course, self.pool, self.own, opening.who
        if not isinstance(course, Pooling) or isinstance(pool, DiagonalModels) or not isinstance(own, Spreads):
            return None
        handed = pool.handed_to(course.before, course.gram, who)
        if handed is None:
            return None
        handed |= shown_to(len(who), {"gram": course.gram[None]})
        if self._parameters.less:
            own.mean_into(course.inverses)
        else:
            own.copy_into(course.inverses)
        return Closing("handed", who, self._with_inverses(who, handed))

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over is new again, and networks are as they were before they were trained for it."""
        if sent.kind != "handed":
            super().restore(sent, observed)
        arrays = sent.arrays
        self.pool.unsettle(sent.who, arrays["gram"], arrays["moment"], arrays["count"])
        self.data.take_back(sent.who, arrays["count"])
        if self._parameters.needs_network and not self._parameters.passed_on:
            self.network[sent.who] = self.before[sent.who]

    def _handed(self, who: IntArray) -> dict[str, FloatArray]:
        return self._with_inverses(who, self.pool.handed(who))

    def _with_inverses(self, who: IntArray, handed: dict[str, FloatArray]) -> dict[str, FloatArray]:
        """What is handed over besides sums; the round is about all data up to here."""
        parameters, own = self._parameters, self.own
        if isinstance(own, Spreads):
            handed["inverse"] = own.shown(who)
        else:
            handed["inverse"] = 1 / own.diagonals(who)
        if parameters.by_theory:
            handed["alpha"] = self._certainty(who)
        self.data.give(who)
        if parameters.needs_network and not parameters.passed_on:
            self.before[who] = self.network[who]
            start = {"own": self.network[who], "average": self.average[who]}
            begin = start.get(parameters.start, np.repeat(self._beginning[None], len(who), axis=0))
            self.network[who] = self._trained(who, begin.copy())
            handed["network"] = self.network[who]
        return handed

    def _trained(self, who: IntArray, theta: FloatArray) -> FloatArray:
        """(w, p) trained on all own data that a round is about, where an agent has any and has not had enough."""
        count = self.data.given[who]
        if _all_within(count, self._parameters.until):
            self._parameters.train(self._network, theta, self.data, who, count, self._anchor)
            return theta
        training = (count > 0) & (count <= self._parameters.until)
        if training.any():
            some = theta[training]
            self._parameters.train(self._network, some, self.data, who[training], count[training], self._anchor)
            theta[training] = some
        return theta

    def _certainty(self, who: IntArray) -> FloatArray:
        """(w,) the least doubt over the largest, among probing contexts: alpha in (0, 1]."""
        probes = np.broadcast_to(self._probes, (len(who), *self._probes.shape))
        phi, own = self.tangent.of(who, probes), self.own
        if isinstance(own, Spreads):
            doubts = own.lengths(who, phi)
        else:
            doubts = _lengths(phi, 1 / own.diagonals(who), np.arange(len(who)))
        return np.asarray(doubts.min(axis=1) / np.maximum(doubts.max(axis=1), np.finfo(np.float64).tiny))


@jit
def _risen(count: IntArray, who: IntArray, ramp: int) -> FloatArray:
    """(w,) what rises from 0 to 1 over `ramp` turns, from the fourth on."""
    found = np.empty(len(who))
    for a in range(len(who)):
        found[a] = min(max(count[who[a]] - 3, 0) / ramp, 1.0)
    return found


@jit
def _are_finite(lanes: FloatArray) -> bool:
    found = True
    for value in lanes.flat:
        found = found and bool(abs(value) < np.inf)
    return found


@jit
def _all_within(count: IntArray, most: int) -> bool:
    """Whether all numbers lie in 1..most."""
    found = True
    for number in count:
        found &= 0 < number <= most
    return found


def _lengths(phi: FloatArray, inverse: FloatArray, rows: IntArray) -> FloatArray:
    """(w, K) sqrt(phi^T M phi) of phi (w, K, p), for M among (m, p, p) or diagonals (m, p), in the given rows (w,)."""
    if inverse.ndim == 2:
        return np.asarray(np.sqrt(np.einsum("wkp,wp->wk", phi**2, inverse[rows])))
    return lengths(inverse, rows, phi)
