"""What private algorithms have in common: a budget, how it is spent, and how agents act on noisy sums."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from fedbandits.algorithms.private.pooled import Pooled, Threshold
from fedbandits.channel.gaussian import Gaussian
from fedbandits.contract.parameters import parameters
from fedbandits.contract.protection import Adjacency, Unit
from fedbandits.models.width import Width
from fedbandits.privacy.prefix_sums import MechanismName

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Budget = Annotated[_Positive | None, BeforeValidator(lambda given: None if given == "none" else given)]
"""Files have no other way than the word to say that there is none."""


@parameters
class BudgetParameters:
    """A budget and how it is spent, in the terms of the noise stage (`channel.gaussian`), which says what they mean.

    `epsilon` None, in files "none", is no budget at all: the twin that protects nothing, with the same schedule and
    without noise.
    """

    epsilon: Budget = 1.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    mechanism: MechanismName | None = None
    """None: "toeplitz", or "tree" where the thesis' constants are asked for."""
    uploads: Annotated[int, Field(ge=1)] | None = None
    first: Annotated[int, Field(ge=1)] = 40
    last: Annotated[float, Field(gt=0, le=1)] = 1 / 3
    every: Annotated[int, Field(ge=1)] | None = None
    unit: Unit = "observation"
    most: Annotated[int, Field(ge=1)] = 10
    adjacency: Adjacency = "add-remove"
    arms: _Positive | None = None
    rewards: _Positive | None = None

    def noise(self, **changes: Any) -> Gaussian:
        """The stage that keeps the budget; without one, a stage with the same schedule. `changes` are its parameters in
        place of those here.
        """
        shared = ("epsilon", "delta", "mechanism", "uploads", "first", "last", "every", "unit", "most", "adjacency")
        given = {name: getattr(self, name) for name in (*shared, "arms", "rewards")} | changes
        if given["epsilon"] is None:
            given["epsilon"] = 1.0
        if given["mechanism"] is None:
            given["mechanism"] = "tree" if given.get("constants") == "thesis" else "toeplitz"
        return Gaussian(**given)


@parameters
class ActingParameters:
    """How agents act on sums, and how far those may be off.

    `ridge` is lambda, added once to what everybody knows. Estimates lie within the radius of `models.noisy_sums` with
    probability 1 - `alpha`, and that is what confidence sets tell. Agents act on less: on `width`, or, where that is
    ``"theory"``, on `scale` times the radius. Radii bound the worst that noise can do in every direction at once; what
    is worth exploring is far below.
    """

    ridge: _Positive = 1.0
    width: Width = "theory"
    scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.1

    def star(self, threshold: Threshold | None = None) -> Pooled:
        """The star without noise whose agents act so."""
        return Pooled(ridge=self.ridge, width=self.width, scale=self.scale, delta=self.alpha, threshold=threshold)
