"""What agents are asked again and again."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value


@value
class Questions(Fact):
    """Beside handing over the gram matrix of what is new, agents are asked for the `wanted` of their loss over all they
    have observed: its ``"slope"``, or its ``"curvature"``, which is its value, slope and Hessian.

    Agents who plan hand over such a matrix for each of the `stages` H of an episode, and are asked for ``"targets"``,
    once in each update for every stage: sums of phi (r + V), where |r + V| <= (H - h) R in stage h = 0, ..., H - 1.

    Told by algorithms of themselves (`contract.algorithm.posed_by`) to stages that divide a budget between what is
    handed over once and what is asked for again and again; no configuration file holds it.
    """

    name: ClassVar[str] = "questions"

    wanted: Literal["slope", "curvature", "targets"] = "slope"
    stages: Annotated[int, Field(ge=1)] = 1
