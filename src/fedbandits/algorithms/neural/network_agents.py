"""Agents whose network is trained by everybody together, and who act on its last layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.algorithms.neural.exploring import ExploringAgents
from fedbandits.algorithms.neural.messages import (
    ASK_LAYER,
    ASK_SLOPE,
    ASK_TRAINED,
    LAYER,
    MODEL,
    OPEN,
    SLOPE,
    TALLY,
    TRAINED,
)
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, check_feedback
from fedbandits.contract.facts import Norms
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.features.last_layer import LastLayer
from fedbandits.models.networks import Adam, descended, feature_sums, gradient_sums
from fedbandits.models.networks.cut_sums import cut_feature_sums, cut_gradient_sums
from fedbandits.models.observations import Observations
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.triggers import urgencies

if TYPE_CHECKING:
    from fedbandits.algorithms.neural.neural_linear import NeuralLinear

LEAST = 2
"""Observations from which on an agent takes part: the sum over a single one would be what was observed."""
_TOTALS = ("rewards", "squares", "lengths")


class NetworkAgents(ExploringAgents):
    """`data` are all observations, which stay; `features` the network's last layer, and `models` the regression on it.

    `totals` (n, 3) are the sums of rewards, of their squares, and of ||x||^2; `mean` and `deviation` (n,) the units of
    rewards that were told last; `inside` (n,) how many of its own observations the model of an agent is made of, and
    `pooled` (n,) how many of everybody's. What it has observed since is taken in at once, at the layer as it is.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        *ExploringAgents.keeps,
        "data",
        "totals",
        "mean",
        "deviation",
        "inside",
        "pooled",
    )

    def __init__(self, parameters: NeuralLinear, problem: Problem, n: int, rng: Streams) -> None:
        network = parameters.network(problem)
        longest = problem.get(Norms, Norms()).arms
        features = LastLayer(network, parameters.beginning(problem, rng, longest**2), n, parameters.cut or np.inf)
        super().__init__(
            RidgeModels(n, network.features, parameters.ridge),
            features,
            rng,
            explore=parameters.explore,
            width=parameters.nu * np.sqrt(parameters.ridge),
            focus=parameters.focus,
        )
        self._network = network
        self._layer = features
        self._parameters = parameters
        self._agents = problem.agents
        self.data = Observations(n, problem.dim, problem.horizon)
        self.totals = np.zeros((n, 3))
        mean, deviation = parameters.units(problem)
        self.mean, self.deviation = np.full(n, mean), np.full(n, deviation)
        self.inside = np.zeros(n, dtype=np.int64)
        self.pooled = np.zeros(n)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`: kept, and taken into the regression."""
        check_feedback(who, arms, picks, rewards, self._n, self.features.dim)
        x = self.data.add(who, arms, picks, rewards)
        self.totals[who] += np.stack([rewards, rewards**2, (x**2).sum(axis=1)], axis=1)
        self._take_in(who, x, rewards)

    def _take_in(self, who: IntArray, x: FloatArray, rewards: FloatArray) -> None:
        z = self.features.of(who, x[:, None])
        standard = (rewards - self.mean[who]) / self.deviation[who]
        self.models.learn(who, z, np.zeros(len(who), dtype=np.int64), standard)

    def calling(self) -> BoolArray:
        """Who has had a share of new observations that calls for another synchronisation."""
        return np.asarray((self._level() >= 1) & (self.data.count >= LEAST))

    def urgency(self) -> FloatArray | None:
        """How far that share has come."""
        return np.asarray(np.where(self.data.count >= LEAST, self._level(), np.minimum(self._level(), 0.5)))

    def _level(self) -> FloatArray:
        # in own turns, held against an agent's share of everybody's: turns alone, whatever was observed in them
        share = np.maximum(1.0, self._parameters.growth * self.pooled / self._agents)
        return urgencies((self.data.count - self.inside).astype(np.float64), share)

    def answer(self, request: Message) -> Message | None:
        """Tell sums over what was observed before the synchronisation began, or take in its result."""
        if request.kind == OPEN.kind:
            return self._tally(request.who)
        if request.kind == MODEL.kind:
            self._replace(request)
            return None
        work = self.ponder(request)
        return Population.answer(self, request) if work is None else work()

    def ponder(self, request: Message) -> Callable[[], Message] | None:
        """Sums over data that a synchronisation is about; see `Population`."""
        found = {ASK_SLOPE.kind: self._sloping, ASK_TRAINED.kind: self._trained, ASK_LAYER.kind: self._layered}
        if request.kind not in found:
            return None
        return partial(found[request.kind], request, self.data.so_far())

    def _tally(self, who: IntArray) -> Message:
        self.data.give(who[self.data.count[who] >= LEAST])
        ready = self.data.given[who] > 0
        if self._parameters.cut is not None:
            return Message(TALLY.kind, who, {"count": _given(self.data, who)})
        told = {name: np.where(ready, self.totals[who, place], 0.0) for place, name in enumerate(_TOTALS)}
        return Message(TALLY.kind, who, {"count": _given(self.data, who), **told})

    def _told(self, request: Message) -> FloatArray:
        """(1, p) or (w, p) the parameters that were asked at."""
        return np.concatenate([_one(request.arrays["inner"]), _one(request.arrays["head"])], axis=1)

    def _sloping(self, request: Message, data: Observations) -> Message:
        slope = self._slope(request, data, self._told(request))
        return Message(SLOPE.kind, request.who, {"gradient": slope, "count": _given(data, request.who)})

    def _slope(self, request: Message, data: Observations, theta: FloatArray) -> FloatArray:
        who, end, cut, units = request.who, data.given[request.who], self._parameters.cut, _units(request)
        if cut is not None:
            return cut_gradient_sums(self._network, theta, data, who, end, cut=cut, **units)
        return gradient_sums(self._network, theta, data, who, end, **units)

    def _trained(self, request: Message, data: Observations) -> Message:
        """Own steps from where everybody was told to begin."""
        who = request.who
        count = _given(data, who)
        begin = np.broadcast_to(self._told(request), (len(who), self._network.parameters)).copy()
        some = np.maximum(count, 1)[:, None]
        found = descended(
            begin,
            lambda theta: (2 * self._slope(request, data, theta) + self._parameters.decay * theta) / some,
            Adam(self._parameters.rate, begin.shape),
            self._parameters.steps,
        )
        return Message(TRAINED.kind, who, {"weighted": count[:, None] * found, "count": count})

    def _layered(self, request: Message, data: Observations) -> Message:
        who, end, cut, units = request.who, data.given[request.who], self._parameters.cut, _units(request)
        inner = _one(request.arrays["inner"])
        theta = np.zeros((len(inner), self._network.parameters))  # the last layer's own weights do not matter
        theta[:, : inner.shape[1]] = inner
        if cut is not None:
            gram, moment = cut_feature_sums(self._network, theta, data, who, end, cut=cut, **units)
        else:
            gram, moment = feature_sums(self._network, theta, data, who, end, **units)
        return Message(LAYER.kind, who, {"gram": gram, "moment": moment, "count": _given(data, who)})

    def _replace(self, request: Message) -> None:
        """The result of a synchronisation, and on top of it what was observed since it began."""
        who, arrays = request.who, request.arrays
        self.models.replace(who, arrays["gram"], arrays["moment"], arrays["count"], alone=True)
        inner = arrays["inner"].shape[1]
        self._layer.theta[who, :inner] = arrays["inner"]
        self._layer.theta[who, inner:] = self.models.theta[who]
        self.mean[who], self.deviation[who] = arrays["mean"], arrays["deviation"]
        self.inside[who] = self.data.given[who]
        self.pooled[who] = arrays["count"]
        for late, x, rewards in self.data.since(who):
            self._take_in(late, x, rewards)


def _given(data: Observations, who: IntArray) -> FloatArray:
    """(w,) how many observations of each were given."""
    return data.given[who].astype(np.float64)


def _units(request: Message) -> dict[str, FloatArray]:
    """The units of rewards that were asked in."""
    return {"shift": request.arrays["mean"], "spread": request.arrays["deviation"]}


def _one(rows: FloatArray) -> FloatArray:
    """Rows as they came, or the one that is shown to all."""
    return np.ascontiguousarray(rows[:1] if len(rows) and rows.strides[0] == 0 else rows)
