"""Hyper-parameters and constants of the generalized linear family."""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedbandits.contract.problem import Problem
from fedbandits.linalg.links import Link, LinkName

Width = Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory"]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class GLMParameters:
    """What all algorithms of the family take: ridge lambda, confidence delta, link and width.

    `width` is a constant, or ``"theory"``; the theory's is multiplied by `scale`, since it is enormous (in the hundreds
    for clicks): the publication's runs use 0.1 for those with local updates. `link` None takes what the problem says.
    """

    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.01
    width: Width = "theory"
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    link: LinkName | None = None

    def constants(self, problem: Problem) -> Constants:
        """The constants of the analysis for `problem`."""
        link = Link(self.link or problem.link, problem.bound * problem.arm_norm)
        return Constants(
            link=link,
            c=link.flattest,
            k=link.steepest,
            R=problem.noise,
            S=problem.bound,
            ridge=self.ridge,
            delta=self.delta,
            d=problem.dim,
            N=problem.agents,
            reach=problem.arm_norm,
        )


@plain_dataclass(frozen=True, slots=True)
class Constants:
    """Symbols as in the publication: c and k bound the slope of mu, R the noise, S the parameter's norm."""

    link: Link
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
