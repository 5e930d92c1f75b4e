"""What algorithms in a space of features have in common: which features, and how far off they may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import RKHS, Embedding, Fact, Norms, Ridge
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.models.features import QuadratureFeatures, quadrature_features
from fedbandits.models.noisy_sums import Regularised, reading
from fedbandits.models.optimistic import OptimisticAgents, WidthRule
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.triggers import Trigger

Lengthscale = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
"""In place of the lengthscales that the problem tells."""


def smoothness(problem: Problem, lengthscale: Lengthscale, by: About) -> RKHS:
    """What is known of how smooth mean rewards are, with a length scale of the algorithm's own where it has one."""
    known = problem.need(RKHS, by=by)
    return known if lengthscale is None else replace(known, lengthscales=lengthscale)


@parameters
class FeatureParameters(LinearParameters):
    """Optimism in a space of quadrature features, as many as an error of `error` in the kernel takes.

    With features phi of an error e, f is within B e of some <theta, phi(x)> with ||theta|| <= B wherever f is a mixture
    of kernels sum alpha_i k(c_i, x) with sum |alpha_i| <= B (theta = sum alpha_i phi(c_i)). So rewards are those of a
    linear model, each off by at most B e, and t of them move an estimate, in the norm of V, by at most

        ||sum_s e_s phi_s||_{V^-1} <= B e sqrt(t),

    since Phi V^-1 Phi^T <= I. That is added to the theory width. The thesis (Dubey 2022, theorem 7.1) has
    t B e / sqrt(lambda_min) instead, which is what ``constants="thesis"`` adds where there is a choice. Predictions
    are off by another B e, the same for every arm.
    """

    error: Annotated[float, Field(gt=0, lt=1)] = 1e-3
    lengthscale: Lengthscale = None

    about: ClassVar[About]

    def known(self, problem: Problem) -> RKHS:
        """How smooth mean rewards are."""
        return smoothness(problem, self.lengthscale, self.about)

    def features(self, problem: Problem) -> tuple[QuadratureFeatures, float]:
        """The features, and by how much their inner products may be off."""
        return quadrature_features(self.known(problem), problem.dim, self.error)

    def sizes(self, problem: Problem) -> dict[str, int]:
        """p, the number of features."""
        return {"p": self.features(problem)[0].size}

    def assumes(self, problem: Problem) -> tuple[Fact, ...]:  # type: ignore[override]
        """What models see of arms: p features of norm 1, and a parameter of norm B at most."""
        size, bound = self.sizes(problem)["p"], self.known(problem).bound
        arms = problem.get(Norms, Norms()).arms
        return Ridge(self.ridge), Embedding(size, 1.0), Norms(parameter=bound, arms=arms)

    def widths(self, problem: Problem, dim: int) -> WidthRule:
        """Those of linear models, and what features may be off by."""
        plain = super().widths(problem, dim)
        if isinstance(self.width, float):
            return plain
        off = self.known(problem).bound * self.features(problem)[1]
        noisy = reading(problem, dim)

        def rule(logdet: FloatArray, count: FloatArray) -> FloatArray:
            observed = self.observed(problem, count)
            if isinstance(noisy, Regularised):
                least = noisy.told.agents * noisy.bound()
                return np.asarray(plain(logdet, count) + off * observed / np.sqrt(least))
            return np.asarray(plain(logdet, count) + off * np.sqrt(observed))

        return rule

    def observed(self, problem: Problem, count: FloatArray) -> FloatArray:
        """(w,) how many observations an agent's statistics may rest on, `count` (w,) of which it knows of."""
        return count

    def models(self, problem: Problem, n: int) -> RidgeModels:
        """n regressions on features that know nothing yet."""
        return RidgeModels(n, self.sizes(problem)["p"], self.ridge)

    def optimists(self, problem: Problem, n: int, trigger: Trigger | None = None) -> OptimisticAgents:
        """n agents that act on features, and call when `trigger` fires."""
        problem = problem.knowing(*self.assumes(problem))
        features, models = self.features(problem)[0], self.models(problem, n)
        rule = self.widths(problem, models.dim)
        return OptimisticAgents(models, rule, trigger, features=features, counted=self.tells_counts)
