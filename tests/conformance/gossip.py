"""A sample tenant of the say/hear contract, so that the suite covers agents that talk on a graph."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedbandits.algorithms.linear.agents import LinearParameters, LinUCBAgents
from fedbandits.contract.arrays import IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Utterance, matrix, vector

FRESH = Utterance("fresh", "peer", (matrix("gram"), vector("moment")))


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class GossipLinUCB(LinearParameters):
    """Every agent tells its neighbours what it has just observed and acts on all it has heard of."""

    about: ClassVar[About] = About(
        name="sample-gossip",
        family="linear",
        topology="graph",
        talks="after every observation, to the neighbours",
        says=(FRESH,),
        guarantee="none",
        source="test",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> GossipAgents:
        return GossipAgents(self, problem, n)

    def server(self, problem: Problem, n: int) -> None:
        return None


class GossipAgents(LinUCBAgents):
    """LinUCB on the sum of own and heard statistics."""

    def say(self, who: IntArray) -> Message:
        fresh = self.models.fresh
        said = Message("fresh", who, {"gram": fresh.gram[who], "moment": fresh.moment[who]})
        self.models.settle(who)
        return said

    def hear(self, inbox: Inbox) -> None:
        base = self.models.base
        gram, moment = np.zeros_like(base.gram), np.zeros_like(base.moment)
        np.add.at(gram, inbox.to, inbox.said.arrays["gram"][inbox.row])
        np.add.at(moment, inbox.to, inbox.said.arrays["moment"][inbox.row])
        listeners = np.unique(inbox.to)
        self.models.absorb(listeners, gram[listeners], moment[listeners], np.zeros(len(listeners)))
