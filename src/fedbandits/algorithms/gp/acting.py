"""What algorithms that act on sums of features, noisy or not, have in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from fedbandits.algorithms.gp.parameters import Lengthscale
from fedbandits.algorithms.gp.pooled import PooledFeatures
from fedbandits.algorithms.private.parameters import ActingParameters, BudgetParameters
from fedbandits.channel.gaussian import Gaussian
from fedbandits.channel.through import Through
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem

FEW = 0.1
"""The error of features under noise, by default: there every feature has noise of its own, and few are better than
many."""
SCALE = 0.03
"""The share of the radius that agents act on by default: three times that of linear models."""
UPLOADS = 16
"""How often agents release by default, alone."""


@parameters
class FeatureActing(ActingParameters):
    """How agents act on sums over features: `error` says how many there are (`models.features.quadrature`), and
    `lengthscale` takes the place of what the problem tells of the kernel.
    """

    scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] = SCALE
    error: Annotated[float, Field(gt=0, lt=1)] = FEW
    lengthscale: Lengthscale = None

    def inner(self, kind: type[PooledFeatures] = PooledFeatures) -> PooledFeatures:
        """The star without noise."""
        return kind(
            ridge=self.ridge,
            width=self.width,
            scale=self.scale,
            delta=self.alpha,
            error=self.error,
            lengthscale=self.lengthscale,
        )

    def pooled(self, problem: Problem) -> int:
        """p, the dimension of the sums."""
        return self.inner().size(problem)


@parameters
class LoneBudget(BudgetParameters):
    """A budget that is spent on more releases than in a federation, and until the end: `uploads` None are 16,
    geometrically up to the share `last` of the horizon. Whoever learns alone has few observations early on.
    """

    last: Annotated[float, Field(gt=0, le=1)] = 1.0

    def noise(self, **changes: Any) -> Gaussian:
        """See `BudgetParameters`."""
        geometric = changes.get("every", self.every) is None
        default = {"uploads": UPLOADS} if self.uploads is None and geometric else {}
        return super().noise(**(default | changes))


def noisy(acting: FeatureActing, budget: BudgetParameters) -> Through:
    """The star with noise that keeps the budget."""
    return Through(acting.inner(), (budget.noise(),))
