"""The server of FN-UCB: adds up statistics, averages networks or passes one on, and tells everybody."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.algorithms.neural.fn_messages import COLLECT, Pooling
from fedbandits.contract.arrays import Array, FloatArray, IntArray, places, shown_to
from fedbandits.contract.messages import Closing, Conversation, Message, Opening
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.linalg.recycled import Recycled, sealed
from fedbandits.linalg.totals import mean_of, total_of

if TYPE_CHECKING:
    from fedbandits.algorithms.neural.fn_ucb import FNUCB


class FNServer(Server):
    """`gram` (1, p, p) or (1, p), `moment` (1, p) and `count` (1,) of all that was handed over; `network` (1, p) the
    last average, or the one that is passed on; `inverses` of everybody, (1, N, ...), or (1, ...) their last mean.
    """

    keeps: ClassVar[tuple[str, ...]] = ("gram", "moment", "count", "network", "inverses")
    waits: ClassVar[bool] = True
    pursues: ClassVar[bool] = True

    def __init__(self, parameters: FNUCB, problem: Problem, n: int, rng: Streams) -> None:
        self._parameters = parameters
        self._everybody = np.arange(n)
        p = parameters.network(problem).parameters
        one = np.ones(p) if parameters.matrix == "diagonal" else np.eye(p)
        self.gram = np.zeros((1, *one.shape))
        self.moment, self.count = np.zeros((1, p)), np.zeros(1)
        self.network = parameters.beginning(problem, rng)[None].copy()
        self._grams, self._means = Recycled(rooms=2), Recycled(rooms=2)
        self.inverses = np.tile(one / parameters.ridge, (1, *(() if parameters.less else (n,)), *([1] * one.ndim)))

    def converse(self, callers: IntArray) -> Conversation:
        """One round, with all who can be reached."""
        if len(callers) == 0:
            return
        parameters = self._parameters
        gram, inverses = self._grams.empty(self.gram.shape), self._means.empty(self.inverses.shape)
        course = Pooling(self.gram[0], gram[0], inverses[0])
        new = yield Opening(COLLECT.kind, self._everybody, course=course)
        if len(new.who) == 0:
            return
        if not isinstance(new, Closing):
            self._pool(new, gram, inverses)
        # written elsewhere and never again: whoever was told the last ones may go on holding them
        self.gram, self.inverses = sealed(gram), sealed(inverses)
        total_of(self.moment[0], new.arrays["moment"], self.moment[0])
        self.count += new.arrays["count"].sum()
        told: dict[str, FloatArray] = {"gram": self.gram, "moment": self.moment, "count": self.count}
        told["inverse" if parameters.less else "inverses"] = self.inverses
        if parameters.passed_on:
            yield from self._passing(new.who)
        elif "network" in new.arrays:
            self.network[:] = new.arrays["network"].sum(axis=0) / len(new.who)
        if parameters.needs_network:
            told["network"] = self.network
        if "alpha" in new.arrays:
            told["alpha"] = new.arrays["alpha"].min(keepdims=True)
        yield Message("model", self._everybody, shown_to(len(self._everybody), told))

    def _pool(self, new: Message, gram: FloatArray, inverses: FloatArray) -> None:
        """Write what becomes of matrices that were handed over; see `Pooling`."""
        total_of(self.gram[0], new.arrays["gram"], gram[0])
        if self._parameters.less:
            mean_of(new.arrays["inverse"], inverses[0])
        else:
            if len(new.who) < len(self._everybody):
                inverses[:] = self.inverses
            inverses[0, places(new.who, len(self._everybody))] = new.arrays["inverse"]

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        self.gram, self.inverses = np.empty_like(self.gram), np.empty_like(self.inverses)
        super()._take(state, prefix)

    def _passing(self, who: IntArray) -> Generator[Message, Message, None]:
        """One network, from agent to agent: each trains it on its own data; who does not answer is passed over."""
        for agent in who:
            reply = yield Message("train", np.array([agent]), {"network": self.network.copy()})
            if len(reply.who):
                self.network[:] = reply.arrays["network"]
