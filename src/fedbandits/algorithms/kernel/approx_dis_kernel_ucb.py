"""ApproxDisKernelUCB: a dictionary of everybody's points, and sums in terms of it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedbandits.algorithms.kernel.dictionary_agents import DictionaryAgents, DictionaryServer
from fedbandits.algorithms.kernel.dictionary_widths import (
    DictionaryWidth,
    constant,
    proved,
    published,
    published_oversampling,
)
from fedbandits.algorithms.kernel.messages import DRAW, DRAWN, EMBED, EMBEDDED, FITTED
from fedbandits.algorithms.kernel.parameters import KernelParameters, Positive, norm_of
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Embedding, Noise, Norms, Ridge
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

    `width` is a number or, for f of norm at most `bound` B (None: what the problem tells) and kernels with k(x, x) = 1,

    - ``"theory"``: what is proved of any dictionary (`dictionary_widths`), with delta / (nT), for all agents and for
      whichever turn was that of the last synchronisation, which data decide;
    - ``"published"``: (1/sqrt(r) + 1) sqrt(lambda) B + 2R sqrt(log(n/delta) + gamma), r = 1/(1 + D (1+eps)/(1-eps)) -
      eps, for dictionaries of `accuracy` eps, with what it rests on: D = 1/n and q = 6 (1+eps)/(1-eps) log(4nT/delta) /
      eps^2. A smaller q is refused, and so is a schedule. That q is of the order of a thousand: nearly every point is
      drawn until all are known well.

    `threshold` and `oversampling` None are those of the published width with it, else 1 and 4.

    Guarantee: none for a constant width. With the theory width |f(x) - mean(x)| <= width sqrt(var(x)) for all x, agents
    and turns at once with probability 1 - delta, where all are always there; of regret nothing is claimed. With the
    published one the publication has the same, regret O(sqrt(nT) (B sqrt(gamma) + gamma)) and communication
    O(n^2 gamma^3), gamma being the information gain of nT observations; that the turn of the last synchronisation
    depends on data is not accounted for in it.
    """

    ridge: Positive = 1.0
    width: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory", "published"] = 1.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    bound: Positive | None = None
    accuracy: Annotated[float, Field(gt=0, lt=1)] = 1 / 3
    threshold: Annotated[float, Field(ge=0)] | None = None
    oversampling: Positive | None = None
    quorum: Annotated[float, Field(ge=0, le=1)] = 0.5
    capacity: Annotated[int, Field(ge=1)] = 2000

    about: ClassVar[About] = depending(
        About(
            name="approx-dis-kernel-ucb",
            family="kernel",
            topology="star",
            talks="everybody, when the variances of what one agent has observed since add up to more than D",
            says=(DRAW, DRAWN, EMBED, EMBEDDED, FITTED),
            guarantee="none for a constant width; bands with the theory width; regret O(sqrt(nT) (B sqrt(gamma_nT) + "
            "gamma_nT)) with the published one",
            source="Li, Wang, Wang & Wang, NeurIPS 2022",
            environment="cosine",
        ),
        by_schedule,
    )

    @model_validator(mode="after")
    def _widths_have_what_they_rest_on(self) -> Self:
        if self.width == "published" and self.every is not None:
            raise ValueError("width=published is for synchronisations by data; leave every out, or say width=theory")
        if isinstance(self.width, str) and self.kernel == "linear":
            raise ValueError(f"width={self.width} is for kernels with k(x, x) = 1; with kernel=linear use dislinucb")
        return self

    def agents(self, problem: Problem, n: int, rng: Streams) -> DictionaryAgents:
        """n agents with the event trigger, or a schedule."""
        threshold = self.trigger(problem)
        return DictionaryAgents(
            DictionaryModels(n, self.kernel_for(problem), self.ridge),
            rng,
            horizon=problem.horizon,
            width=self.widths(problem, threshold),
            oversampling=self.drawing(problem),
            trigger=self.paced(Trigger(grown, threshold, strict=True)),
        )

    def trigger(self, problem: Problem) -> float:
        """D."""
        default = 1 / problem.agents if self.width == "published" else 1.0
        return default if self.threshold is None else self.threshold

    def drawing(self, problem: Problem) -> float:
        """q."""
        if self.width != "published":
            return 4.0 if self.oversampling is None else self.oversampling
        n, turns = problem.agents, problem.horizon
        least = published_oversampling(accuracy=self.accuracy, agents=n, horizon=turns, delta=self.delta)
        if self.oversampling is not None and self.oversampling < least:
            raise ConfigError(
                f"approx-dis-kernel-ucb: oversampling={self.oversampling:g} is less than the {least:.6g} that "
                f"width=published rests on with {n} agents and {turns} turns; leave it out, or say width=theory"
            )
        return least if self.oversampling is None else self.oversampling

    def widths(self, problem: Problem, threshold: float) -> DictionaryWidth:
        """How far estimates may be off, in units of sqrt(var)."""
        if not isinstance(self.width, str):
            return constant(self.width)
        n, bound, noise = problem.agents, norm_of(problem, self.bound), problem.get(Noise, Noise()).sigma
        if self.width == "theory":
            return proved(ridge=self.ridge, bound=bound, noise=noise, delta=self.delta / (n * problem.horizon))
        return published(
            accuracy=self.accuracy,
            threshold=threshold,
            agents=n,
            ridge=self.ridge,
            bound=bound,
            noise=noise,
            delta=self.delta,
        )

    def server(self, problem: Problem, n: int, rng: Streams) -> DictionaryServer:
        """A server that keeps nothing of what it hears."""
        return DictionaryServer(n, quorum=self.quorum, capacity=self.capacity)

    def assumes(self, problem: Problem) -> tuple[Ridge, Embedding]:
        """What bounds of messages rest on: ||z||^2 <= k(x, x)."""
        longest = problem.get(Norms, Norms()).arms if self.kernel == "linear" else 1.0
        return Ridge(self.ridge), Embedding(self.capacity, longest)
