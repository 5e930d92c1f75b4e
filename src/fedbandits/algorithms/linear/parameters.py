"""What optimistic linear algorithms have in common: ridge, width rule and confidence."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedbandits.contract.facts import Noise, Norms, Ridge
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.models.limits import longest
from fedbandits.models.noisy_sums import reading
from fedbandits.models.optimistic import OptimisticAgents, WidthRule
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.triggers import Trigger
from fedbandits.models.width import Width, radius


@parameters
class LinearParameters:
    """Hyper-parameters of every optimistic linear algorithm: ridge lambda, width rule and confidence delta."""

    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    width: Width = "theory"
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1

    def widths(self, problem: Problem, dim: int) -> WidthRule:
        """The exploration widths of models of dimension `dim`; see `models.width`."""
        noise, bound = problem.get(Noise, Noise()).sigma, problem.get(Norms, Norms()).parameter
        noisy = reading(problem, dim)
        if noisy is None or isinstance(self.width, float):
            return radius(self.width, noise=noise, bound=bound, ridge=self.ridge, delta=self.delta, dim=dim)
        return noisy.rule(self.delta, self.ridge, problem.horizon * longest(problem) ** 2)

    def models(self, problem: Problem, n: int) -> RidgeModels:
        """n regressions that know nothing yet."""
        return RidgeModels(n, problem.dim, self.ridge)

    def optimists(self, problem: Problem, n: int, trigger: Trigger | None = None) -> OptimisticAgents:
        """n agents that act on the arms as they are, and call when `trigger` fires."""
        rule = self.widths(problem, problem.dim)
        return OptimisticAgents(self.models(problem, n), rule, trigger, counted=self.tells_counts)

    def assumes(self, problem: Problem) -> tuple[Ridge]:
        """What bounds of messages may rest on."""
        return (Ridge(self.ridge),)

    @property
    def tells_counts(self) -> bool:
        """Whether counts travel with the statistics: only the loose width needs them."""
        return self.width == "loose"
