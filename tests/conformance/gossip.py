"""A sample tenant of the say/hear contract, so that the suite covers agents that talk on a graph."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.contract.arrays import IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Utterance, matrix, vector
from fedbandits.models.optimistic import OptimisticAgents

FRESH = Utterance("fresh", "peer", (matrix("gram", adds="increment"), vector("moment", adds="increment")))


@parameters
class GossipLinUCB(LinearParameters):
    """Every agent tells its neighbours what it has just observed and acts on all it has heard of."""

    about: ClassVar[About] = About(
        name="sample-gossip",
        family="linear",
        topology="graph",
        talks="after every observation, to the neighbours",
        says=(FRESH,),
        calls="scheduled",
        guarantee="none",
        source="test",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> GossipAgents:
        return GossipAgents(self.models(problem, n), self.widths(problem, problem.dim))

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        return None


class GossipAgents(OptimisticAgents):
    """LinUCB on the sum of own and heard statistics."""

    def say(self, learned: IntArray) -> list[Message]:
        fresh = self.models.fresh
        said = Message("fresh", learned, {"gram": fresh.gram[learned], "moment": fresh.moment[learned]})
        self.models.settle(learned)
        return [said]

    def hear(self, inbox: Inbox) -> None:
        base = self.models.base
        gram, moment = np.zeros_like(base.gram), np.zeros_like(base.moment)
        np.add.at(gram, inbox.to, inbox.said.arrays["gram"][inbox.row])
        np.add.at(moment, inbox.to, inbox.said.arrays["moment"][inbox.row])
        listeners = np.unique(inbox.to)
        self.models.absorb(listeners, gram[listeners], moment[listeners], np.zeros(len(listeners)))
