"""LinUCB under local privacy: every observation gets noise of its own before the agent sees it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from fedbandits.algorithms.private import theory
from fedbandits.algorithms.private.parameters import ActingParameters, Budget
from fedbandits.algorithms.private.pooled import Pooled
from fedbandits.channel.composition import SelfServed, entry
from fedbandits.channel.gaussian import Gaussian
from fedbandits.channel.through import Through
from fedbandits.contract.algorithm import Algorithm, Bounds
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.protection import Adjacency

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@parameters
class LDPLinUCB(SelfServed, ActingParameters):
    """LinUCB alone, whose agents are not trusted by the people they serve (Zheng et al., NeurIPS 2020).

    x x^T and y x of every single turn get Gaussian noise of their own, and agents act on sums of those after every
    turn. Each of these is (`epsilon`, `delta`)-differentially private by itself, whatever is made of it later. Noise of
    t turns adds up: its standard deviation grows with sqrt(t), where that of released sums does not.

    Who draws the noise is a person's own device in that setting. Here it is the agent's end of the stage, which also
    holds clean sums: this measures what local privacy costs, and is none where an agent's files are not trusted.

    `epsilon` None, in files "none": the same without noise.
    """

    epsilon: Budget = 1.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    adjacency: Adjacency = "add-remove"
    arms: _Positive | None = None
    rewards: _Positive | None = None

    about: ClassVar[About] = entry(
        Through(Pooled(scale=0.01), (Gaussian(mechanism="fresh", every=1),)),
        name="ldp-linucb",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        source="Zheng, Cai, Huang, Li & Wang, NeurIPS 2020",
        environment="gap",
    )

    @model_validator(mode="after")
    def _fits(self) -> LDPLinUCB:
        _ = self.composed  # refuses what the stage cannot serve
        return self

    def compose(self) -> Algorithm:
        """See `Composition`."""
        if self.epsilon is None:
            return self.star()
        given = {name: getattr(self, name) for name in ("epsilon", "delta", "adjacency", "arms", "rewards")}
        return Through(self.star(), (Gaussian(mechanism="fresh", every=1, **given),))

    def bounds(self, problem: Problem, means: FloatArray | None) -> Bounds | None:
        """Theorem 6.4; see `theory`."""
        return theory.alone(problem, self.epsilon)
