"""The server that trains a network over everybody's data and pools the statistics of its last layer."""

from __future__ import annotations

import copy
from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.algorithms.neural.messages import ASK_LAYER, ASK_SLOPE, ASK_TRAINED, MODEL, OPEN
from fedbandits.contract.arrays import FloatArray, IntArray, shown_to
from fedbandits.contract.facts import Answers, Noise
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.models.limits import longest
from fedbandits.models.networks import Adam
from fedbandits.models.noisy_sums import Reading, reading
from fedbandits.models.objectives import SomebodyIsAwayError
from fedbandits.models.ridge import solve

if TYPE_CHECKING:
    from fedbandits.algorithms.neural.neural_linear import NeuralLinear

_SQUARE = 0.99
"""Where training goes on, squares of gradients are remembered for some hundred steps: three synchronisations."""
_ROUNDING = 1e-12
"""As which share of the mean square a variance may come from rounding."""


class NetworkServer(Server):
    """`theta` (p,) is the network as it was trained last, `adam` what its training remembers, and `most` how many
    observations a synchronisation ever had.

    A synchronisation is of those who answer its first question, over their data. It is given up where one of them falls
    silent, and where they have less than the share `quorum` of `most`: those who are there would forget what all
    others have seen. Then nothing has changed, and the next caller brings it about again.
    """

    keeps: ClassVar[tuple[str, ...]] = ("theta", "adam", "most")
    waits: ClassVar[bool] = True

    def __init__(self, parameters: NeuralLinear, problem: Problem, n: int, rng: Streams) -> None:
        self._parameters = parameters
        self._everybody = np.arange(n)
        self._network = parameters.network(problem)
        self._problem, self._rng = problem, rng
        self._inner = self._network.parameters - self._network.features
        self._reading = _reading(problem, self._network.features)
        self.theta = np.zeros(self._network.parameters)
        self.adam = Adam(parameters.rate, self.theta.shape, square=_SQUARE)
        self.most = np.zeros(1)

    def converse(self, callers: IntArray) -> Conversation:
        """One synchronisation."""
        if len(callers) == 0:
            return
        tally = yield Message(OPEN.kind, self._everybody)
        count = float(tally.arrays["count"].sum()) if len(tally.who) else 0.0
        if count < 1 or count < self._parameters.quorum * self.most[0]:
            return
        units, length = self._measured(count, tally)
        begin = self.theta.copy() if self.most[0] else self._parameters.beginning(self._problem, self._rng, length)
        try:
            theta, adam = yield from self._trained(tally.who, begin, units, count)
            layer = yield from _all_of(self._asking(ASK_LAYER.kind, tally.who, theta, units, head=False))
        except SomebodyIsAwayError:
            return
        sums = {name: layer.arrays[name].sum(axis=0, keepdims=True) for name in ("gram", "moment")}
        if self._reading is not None:
            sums["gram"], sums["moment"] = self._reading.read(sums["gram"], sums["moment"])
        theta[self._inner :] = solve(sums["gram"], sums["moment"], self._parameters.ridge)[1][0]
        self.theta[:] = theta
        self.adam.load(adam.state())
        self.most[0] = max(self.most[0], count)
        told = {"inner": theta[None, : self._inner], **units, **sums, "count": np.array([count])}
        yield Message(MODEL.kind, tally.who, shown_to(len(tally.who), told))

    def _measured(self, count: float, tally: Message) -> tuple[dict[str, FloatArray], float]:
        """The units of rewards, and the mean squared length of contexts: as everybody's are, or as they are known."""
        if self._parameters.cut is not None:
            mean, deviation = self._parameters.units(self._problem)
            return {"mean": np.array([mean]), "deviation": np.array([deviation])}, longest(self._problem) ** 2
        told = {name: float(tally.arrays[name].sum()) for name in ("rewards", "squares", "lengths")}
        return _units(count, told["rewards"], told["squares"]), told["lengths"] / count

    def _trained(
        self, who: IntArray, theta: FloatArray, units: dict[str, FloatArray], count: float
    ) -> Generator[Message, Message, tuple[FloatArray, Adam]]:
        """A better network, and what there is to remember of the way to it."""
        parameters = self._parameters
        adam = Adam(parameters.rate, theta.shape) if count < parameters.settled else copy.deepcopy(self.adam)
        if parameters.training == "averaged":
            for _ in range(parameters.rounds):
                extra = {"steps": np.array([float(parameters.steps)]), "rate": np.array([parameters.rate])}
                reply = yield from _all_of(self._asking(ASK_TRAINED.kind, who, theta, units | extra))
                theta = reply.arrays["weighted"].sum(axis=0) / reply.arrays["count"].sum()
            return theta, adam
        told = self._problem.get(Answers)
        for _ in range(parameters.steps if told is None else min(parameters.steps, told.rounds)):
            reply = yield from _all_of(self._asking(ASK_SLOPE.kind, who, theta, units))
            slope = 2 * reply.arrays["gradient"].sum(axis=0) + parameters.decay * theta
            slope /= reply.arrays["count"].sum()
            theta = adam.step(theta, slope)
        return theta, adam

    def _asking(
        self, kind: str, who: IntArray, theta: FloatArray, told: dict[str, FloatArray], *, head: bool = True
    ) -> Message:
        parts = {"inner": theta[None, : self._inner]} | ({"head": theta[None, self._inner :]} if head else {})
        return Message(kind, who, shown_to(len(who), parts | told))


def _reading(problem: Problem, size: int) -> Reading | None:
    """How sums of z z^T and y z are read that carry noise; None where they are exact. What a network does not explain
    of rewards that are at most 1 counts as noise of deviation 1.
    """
    return reading(problem.knowing(Noise(1.0)), size)


def _all_of(request: Message) -> Generator[Message, Message, Message]:
    """The answers of all who are asked; `SomebodyIsAwayError` where one is missing."""
    reply = yield request
    if len(reply.who) < len(request.who):
        raise SomebodyIsAwayError
    return reply


def _units(count: float, total: float, squares: float) -> dict[str, FloatArray]:
    """Mean and standard deviation of all rewards; rewards that do not differ have a deviation of 1."""
    mean = total / count
    variance = squares / count - mean**2
    deviation = np.sqrt(variance) if variance > _ROUNDING * squares / count else 1.0
    return {"mean": np.array([mean]), "deviation": np.array([float(deviation)])}
