"""What the algorithms of the non-linear family have in common: a model, a first phase, and an oracle that fits it."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.nonlinear.candidate_agents import CandidateAgents
from fedbandits.algorithms.nonlinear.languages import Language, Prior
from fedbandits.algorithms.nonlinear.linearised_agents import Inner, LinearisedAgents
from fedbandits.algorithms.nonlinear.messages import radius
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.facts import Candidates
from fedbandits.contract.messages import Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.candidates import linear_prior
from fedbandits.models.differentiable import Model, model_of
from fedbandits.models.minimisers import Langevin, Minimum, walked
from fedbandits.models.networks import Adam
from fedbandits.models.networks.descent import Stepper
from fedbandits.models.objectives import Objective
from fedbandits.models.triggers import Trigger

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_FIRST = np.zeros(1, dtype=np.int64)


@parameters
class NonLinearParameters:
    """A `model` f(x; w), by name (``"sigmoid"``, ``"rectifier"``) or by the address of a class of your own
    (`models.differentiable`), with hidden layers of `width` units where it has any.

    Phase I: `explore` T_0 arms are tried at random, ``"theory"`` being sqrt(n T) for n agents with T turns each. Then w
    minimises the mean of (y - f)^2 over them: `rounds` steps from a common point of normals with deviation `spread`, by
    gradient Langevin dynamics of step `rate` (tau_1) and inverse `temperature` (tau_2, infinite for plain descent), or
    by Adam at that rate (`oracle`). The publication begins at 0, where all hidden units are the same and stay so but
    for noise; spread=0 does so.

    Phase II: with g(x) = grad f(x; w_0), V = lambda I + sum g g^T and w - w_0 = V^-1 sum (y - f(x; w_0)) g, an agent
    takes argmax_x max_w f(x; w) over ||w - w_i||_V <= sqrt(beta), lambda being the `ridge`; how, says `inner`
    (`linearised_agents`). With ``gradients="moving"`` an observation is taken in at the estimate of its moment, as in
    GO-UCB for a single agent. `keep` takes in what was observed in phase I, too; the publication throws it away.

    Where candidates are common (`Candidates`) and the index is the closed form, agents keep beliefs about the
    candidates in place of matrices of the model's dimension: the same choices, up to rounding.
    """

    model: str = "sigmoid"
    width: Annotated[int, Field(ge=1)] = 25
    layers: Annotated[int, Field(ge=1)] = 1
    explore: Annotated[int, Field(ge=1)] | Literal["theory"] = "theory"
    oracle: Literal["langevin", "adam"] = "langevin"
    rounds: Annotated[int, Field(ge=1)] = 1000
    rate: _Positive = 0.02
    temperature: Annotated[float, Field(gt=0)] = 1e6
    spread: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.0
    ridge: _Positive = 1.0
    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.0
    inner: Inner = "linear"
    gradients: Literal["fixed", "moving"] = "fixed"
    keep: bool = False

    def differentiable(self) -> Model:
        """The model."""
        return model_of(self.model, width=self.width, layers=self.layers)

    def size(self, problem: Problem) -> int:
        """p."""
        return self.differentiable().parameters(problem.dim)

    def beginning(self, problem: Problem, rng: Streams, number: int = 0) -> FloatArray:
        """(p,) where training begins, the same for everybody; training that is repeated begins at other points."""
        return self.differentiable().beginning(problem.dim, rng.common("model", number), self.spread)

    def trained(
        self, objective: Objective, start: FloatArray, rng: Streams, who: IntArray = _FIRST
    ) -> Generator[Message, Message, Minimum]:
        """The oracle, with draws from the stream of the one in `who` (1,)."""
        stepper: Stepper = Adam(self.rate, start.shape)
        if self.oracle == "langevin":
            stepper = Langevin(self.rate, self.temperature, lambda size: rng.normal(who, size)[0])
        return walked(objective, start, stepper, rounds=self.rounds, radius=radius(len(start)))

    def common(self, problem: Problem) -> Candidates | None:
        """The candidates, where they make an agent's work independent of p."""
        return problem.get(Candidates) if self.inner == "linear" and self.gradients == "fixed" else None

    def second(
        self, problem: Problem, n: int, trigger: Trigger | None, language: Language
    ) -> LinearisedAgents | CandidateAgents:
        """The agents of phase II."""
        model, width = self.differentiable(), math.sqrt(self.beta)
        known = self.common(problem)
        if known is None:
            return LinearisedAgents(
                model,
                n,
                problem.dim,
                self.ridge,
                width=width,
                trigger=trigger,
                inner=self.inner,
                moving=self.gradients == "moving",
            )
        points = known.table()

        def prior(w: FloatArray) -> Prior:
            features = model.gradients(w, points)
            return Prior(linear_prior(model.values(w, points), features, self.ridge), features, self.ridge)

        return CandidateAgents(
            points, n, self.size(problem), prior, language, width=width, trigger=trigger, keep=self.keep
        )
