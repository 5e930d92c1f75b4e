"""Noise with the constants that the thesis prints for Gaussian processes (Dubey 2022, section 7.5)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

from fedbandits.algorithms.private.parameters import BudgetParameters
from fedbandits.channel.gaussian import Gaussian
from fedbandits.channel.sensitivity import NoisyField
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Perturbation
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.models.limits import largest_reward, longest
from fedbandits.privacy.spectrum import depth

Constants = Literal["exact", "thesis"]


@parameters
class PrintedGaussian(Gaussian):
    """The stage `gaussian`, with as much noise as the thesis prints, and the regulariser it prints for that.

    With a tree (lemmas 7.2 and 7.3): sigma = 4 sqrt(n) (1 + B^2) log(10/delta) / epsilon for each of the n = 1 +
    ceil(log2 T) nodes over an observation, and Lambda = sigma sqrt(2n) (4 sqrt(p) + 2 log(2T/zeta)); what is printed
    lacks the square of the bracket in one place and epsilon in another. Rewards are bounded here, so that the bracket
    is that of bounded rewards.

    With noise of its own for every observation (lemmas 7.5 and 7.6): sigma_u = sqrt(8 log(5/delta)) / epsilon, and
    Lambda = sigma_X sqrt(T) (4 sqrt(p) + 2 log(2T/zeta)) with sigma_X = sqrt(8 log(5/(2 delta))) / epsilon. The matrix
    gets noise of sigma_u, too, which is about a tenth more than sigma_X.

    Either way 2 Lambda is added to the diagonal, as the lemmas need and the pseudocode lacks. What is spent is computed
    exactly, from the noise there is.
    """

    def noise(self, problem: Problem, fields: tuple[NoisyField, ...] | None = None) -> float:
        """sigma, in units of one observation's bound."""
        if self.mechanism == "fresh":
            return math.sqrt(8 * math.log(5 / self.delta)) / self.epsilon
        squared = longest(problem) ** 2
        size = (squared + largest_reward(problem) ** 2) / squared
        return 4 * math.sqrt(depth(self.turns(problem)[1])) * size * math.log(10 / self.delta) / self.epsilon

    def perturbation(self, problem: Problem) -> Perturbation:
        """What is told of the noise, Lambda over its last bracket included."""
        plain, squared = super().perturbation(problem), longest(problem) ** 2
        if self.mechanism == "fresh":
            alone = math.sqrt(8 * math.log(5 / (2 * self.delta)) * plain.releases) / self.epsilon
        else:
            alone = self.noise(problem) * math.sqrt(2 * depth(plain.releases))
        return dataclasses.replace(plain, printed=alone * squared)


def budgeted(given: BudgetParameters, constants: Constants, **changes: Any) -> Gaussian:
    """The noise stage of an algorithm's parameters, with `changes` in their place and the `constants` asked for."""
    if given.arms is not None:
        raise ConfigError(f"arms={given.arms:g}: features have norm 1, however long arms are; leave it out")
    if constants == "exact":
        return given.noise(**changes)
    stage = given.noise(**({"mechanism": given.mechanism or "tree"} | changes))
    return printed(stage)


def printed(stage: Gaussian) -> PrintedGaussian:
    """`stage` with printed constants."""
    if stage.mechanism == "toeplitz" or stage.unit != "observation":
        raise ConfigError(
            "constants='thesis': these are for its tree, or for noise on every observation, and for single "
            "observations; say mechanism=tree and unit=observation, or leave constants='thesis' out"
        )
    return PrintedGaussian(**{field.name: getattr(stage, field.name) for field in dataclasses.fields(stage)})
