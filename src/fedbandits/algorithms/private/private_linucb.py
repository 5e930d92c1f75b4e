"""LinUCB that keeps a budget on its own: an agent acts on what it would release."""

from __future__ import annotations

from typing import ClassVar

from pydantic import model_validator

from fedbandits.algorithms.private import theory
from fedbandits.algorithms.private.parameters import ActingParameters, BudgetParameters
from fedbandits.algorithms.private.pooled import Pooled
from fedbandits.channel.composition import SelfServed, entry
from fedbandits.channel.gaussian import Gaussian
from fedbandits.channel.through import Through
from fedbandits.contract.algorithm import Algorithm, Bounds
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem


@parameters
class PrivateLinUCB(SelfServed, BudgetParameters, ActingParameters):
    """LinUCB alone with joint privacy (Shariff & Sheffet, NeurIPS 2018): choices rest on noisy sums of own data.

    An agent adds noise to the sums of x x^T and y x at scheduled turns and acts on the last of these releases, at
    random before the first. What it shows to everybody but the person concerned is then (`epsilon`, `delta`)-
    differentially private in what that person contributed.

    The publication releases after every turn, by a binary tree: ``every=1, mechanism="tree"``. The default is a few
    releases with less noise. Its regret bound, O(sqrt(T) (d + d^(3/4)/sqrt(epsilon))) up to logarithms, is about that
    and about the whole width (``scale=1``). ``epsilon=None`` is LinUCB on all that an agent has observed.
    """

    about: ClassVar[About] = entry(
        Through(Pooled(scale=0.01), (Gaussian(),)),
        name="private-linucb",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        source="Shariff & Sheffet, NeurIPS 2018",
        environment="gap",
    )

    @model_validator(mode="after")
    def _fits(self) -> PrivateLinUCB:
        _ = self.composed  # refuses what the stage cannot serve
        return self

    def compose(self) -> Algorithm:
        """See `Composition`."""
        return self.star() if self.epsilon is None else Through(self.star(), (self.noise(),))

    def bounds(self, problem: Problem, means: FloatArray | None) -> Bounds | None:
        """Theorem 6.4; see `theory`."""
        return theory.alone(problem, self.epsilon)
