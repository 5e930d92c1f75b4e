"""Hyper-parameters and constants of the generalized linear family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedbandits.contract.facts import Answers, Fact, Link, Noise, Norms, Questions
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.linalg.links import LinkName, MeanFunction

Width = Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory"]


@parameters
class GLMParameters:
    """What all algorithms of the family take: ridge lambda, confidence delta, link and width.

    `width` is a constant, or ``"theory"``; the theory's is multiplied by `scale`, since it is enormous (in the hundreds
    for clicks): the publication's runs use 0.1 for those with local updates. `link` None takes what the problem says.

    `curvature` is c, a lower bound on the slope of mu at all <theta, x> with ||theta|| <= S and ||x|| <= L; None takes
    the largest there is, mu'(SL). The publication's code takes mu'(1), 0.197 for clicks. With S = 1 that is no bound
    for arms longer than 1, and no theorem covers it: its own arms have norm sqrt(2), for which c is 0.158.
    """

    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.01
    width: Width = "theory"
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    link: LinkName | None = None
    curvature: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    questions: ClassVar[Questions | None] = None
    """What agents are asked."""

    def assumes(self, problem: Problem) -> tuple[Fact, ...]:
        """What bounds and stages may rest on: the link, where it is not the problem's, and what is asked."""
        own = () if self.link is None else (Link(self.link),)
        return own if self.questions is None else (*own, self.questions)

    def constants(self, problem: Problem) -> Constants:
        """The constants of the analysis for `problem`."""
        norms = problem.get(Norms, Norms())
        link = MeanFunction(self.link or problem.get(Link, Link()).function, norms.parameter * norms.arms)
        return Constants(
            link=link,
            c=link.flattest if self.curvature is None else self.curvature,
            k=link.steepest,
            R=problem.get(Noise, Noise()).sigma,
            S=norms.parameter,
            ridge=self.ridge,
            delta=self.delta,
            d=problem.dim,
            N=problem.agents,
            reach=norms.arms,
            answered=problem.get(Answers) is not None,
        )


@dataclass(frozen=True, slots=True)
class Constants:
    """Symbols as in the publication: c and k bound the slope of mu, R the noise, S the parameter's norm."""

    link: MeanFunction
    c: float
    k: float
    R: float
    S: float
    ridge: float
    delta: float
    d: int
    N: int
    reach: float
    """Bound on the norm of arms."""
    answered: bool = False
    """Whether global updates rest on answers with noise; see `noisy_answers`."""
