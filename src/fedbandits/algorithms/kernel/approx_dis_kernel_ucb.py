"""ApproxDisKernelUCB: a dictionary of everybody's points, and sums in terms of it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.algorithms.kernel.dictionary_agents import DictionaryAgents, DictionaryServer
from fedbandits.algorithms.kernel.messages import DRAW, DRAWN, EMBED, EMBEDDED, FITTED
from fedbandits.algorithms.kernel.parameters import KernelParameters, Positive
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.facts import Embedding, Norms, Ridge
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.dictionary_models import DictionaryModels
from fedbandits.models.paced import Paced, by_schedule
from fedbandits.models.triggers import Trigger, grown


@parameters
class ApproxDisKernelUCB(Paced, KernelParameters):
    """argmax mean(x) + width sqrt(var(x)), both in terms of a dictionary S that all agents have in common
    (`models.dictionary_models`): everybody's observations up to the last synchronisation, and the agent's own since
    (Li, Wang, Wang & Wang 2022).

    Agent i calls when the variances that its observations since then had, as everybody saw it then, add up to more than
    D = `threshold`; with `every` b after b of them instead (`models.paced`). Then (1) each agent draws every point it
    has ever observed with probability min(1, q var(x)), q = `oversampling`, and sends **those points as they were
    observed**; (2) the server tells S, all of them, each once; (3) agents send sums of z z^T and y z over all their
    observations; (4) the server adds them up and tells S and the totals. With M points in S: d scalars up for each
    point drawn, M^2 + M + 1 up and M^2 + M + 1 + 2dM down for each agent. The publication tells S once, dM fewer; here
    whoever has only answered a question stays as it was.

    Rewards do not cross one by one, points do: raw data of some agents are then in every agent's file. Where that may
    not be, `dis-kernel-features` sends sums alone. Who is away is left out; where those who are there have less than
    `quorum` of what was known, nothing happens.

    An arm that was played m times has about q m/(m + lambda) copies drawn: a q below 1 loses arms from S, whose mean is
    then 0 whatever was seen of them. A dictionary of more than `capacity` points is an error.

    Guarantee: none for a constant width. The publication has regret O(sqrt(nT) (B sqrt(gamma) + gamma)) and
    communication O(n^2 gamma^3) for D = 1/n, q of O(log(nT/delta)), and a width of its own; gamma is the information
    gain of nT observations.
    """

    ridge: Positive = 1.0
    width: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    threshold: Annotated[float, Field(ge=0)] = 1.0
    oversampling: Positive = 4.0
    quorum: Annotated[float, Field(ge=0, le=1)] = 0.5
    capacity: Annotated[int, Field(ge=1)] = 2000

    about: ClassVar[About] = depending(
        About(
            name="approx-dis-kernel-ucb",
            family="kernel",
            topology="star",
            talks="everybody, when the variances of what one agent has observed since add up to more than D",
            says=(DRAW, DRAWN, EMBED, EMBEDDED, FITTED),
            guarantee="none for a constant width",
            source="Li, Wang, Wang & Wang, NeurIPS 2022",
            environment="cosine",
        ),
        by_schedule,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> DictionaryAgents:
        """n agents with the event trigger, or a schedule."""
        return DictionaryAgents(
            DictionaryModels(n, self.kernel_for(problem), self.ridge),
            rng,
            horizon=problem.horizon,
            width=self.width,
            oversampling=self.oversampling,
            trigger=self.paced(Trigger(grown, self.threshold, strict=True)),
        )

    def server(self, problem: Problem, n: int, rng: Streams) -> DictionaryServer:
        """A server that keeps nothing of what it hears."""
        return DictionaryServer(n, quorum=self.quorum, capacity=self.capacity)

    def assumes(self, problem: Problem) -> tuple[Ridge, Embedding]:
        """What bounds of messages rest on: ||z||^2 <= k(x, x)."""
        longest = problem.get(Norms, Norms()).arms if self.kernel == "linear" else 1.0
        return Ridge(self.ridge), Embedding(self.capacity, longest)
