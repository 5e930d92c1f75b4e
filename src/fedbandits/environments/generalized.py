"""Generalized linear rewards: clicks and counts, E[y | x] = mu(<theta, x>)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Link, Noise, Range
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.environments.laws import Law, law_of
from fedbandits.environments.linear import Linear

_SOURCE = "Li & Wang, Communication Efficient Federated Learning for Generalized Linear Bandits"
_SUB_GAUSSIAN = {"logistic": 0.5, "probit": 0.5, "poisson": 2.0}
"""Constants of the noise: 1/2 for anything in [0, 1]. Poisson noise is not sub-Gaussian; 2 covers its standard
deviation for means up to e."""


@parameters
class Logistic(Linear):
    """Clicks: y ~ Bernoulli(1/(1 + exp(-<theta, x>))), theta uniform on the unit sphere.

    The publication: n = 200, d = 10, K = 25 fresh arms on the unit sphere for every decision, T = 2000. Its released
    code shows arms from a pool whose last coordinate is a constant 1, of norm sqrt(2): ``spread="biased", pool=1000``.
    """

    clients: Annotated[int, Field(ge=1)] = 200
    dim: Annotated[int, Field(ge=1)] = 10
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """Only for the identity link; the noise of clicks and counts follows from their means."""

    link: ClassVar[Literal["logistic", "probit", "poisson", "identity"]] = "logistic"
    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="logistic",
        family="generalized",
        summary="clicks with logistic probabilities, one parameter for all agents",
        source=_SOURCE,
    )

    def _law(self) -> Law:
        return law_of(self.link, self.noise)

    def _problem(self, horizon: int) -> Problem:
        noise = _SUB_GAUSSIAN.get(self.link, self.noise)
        known = super()._problem(horizon).knowing(Noise(noise), Link(self.link))
        return known.knowing(Range(0.0, 1.0)) if self.link in ("logistic", "probit") else known


@parameters
class Probit(Logistic):
    """Clicks: y ~ Bernoulli(Phi(<theta, x>)), Phi the standard normal distribution function; else as `Logistic`."""

    link: ClassVar[Literal["logistic", "probit", "poisson", "identity"]] = "probit"
    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="probit", family="generalized", summary="clicks with probit probabilities", source=_SOURCE
    )


@parameters
class PoissonCounts(Logistic):
    """Counts: y ~ Poisson(exp(<theta, x>)), theta uniform on the unit sphere, as `Logistic` in everything else."""

    link: ClassVar[Literal["logistic", "probit", "poisson", "identity"]] = "poisson"
    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="poisson", family="generalized", summary="counts with log-linear means", source=_SOURCE
    )
