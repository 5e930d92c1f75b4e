"""GP-UCB federated and private at once: sums of features in one pool, each with noise that keeps a budget."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator

from fedbandits.algorithms.gp.acting import FeatureActing, noisy
from fedbandits.algorithms.gp.printed import Constants, budgeted
from fedbandits.algorithms.private.parameters import BudgetParameters
from fedbandits.channel.composition import Composition, entry
from fedbandits.channel.scheduled import Scheduled
from fedbandits.channel.through import Through
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters


@parameters
class FedGPUCB(FeatureActing, Composition, BudgetParameters):
    """GP-UCB of a federation with one smooth function in common, private in every observation.

    Each agent hands over noisy sums of phi phi^T and y phi over p quadrature features; the server adds them up and
    tells everybody; agents play

        argmax_x <theta, phi(x)> + scale radius ||phi(x)||_{V^-1}

    on what they were told. It is what the thesis announces (section 7.1) and does not develop: the techniques of its
    chapter 6, in the space of its chapter 7. Features have norm 1 whatever the arm, so that nothing of them is cut
    down; noise and schedule are those of the stage `gaussian`.

    `own`, `constants` and the budget mean what they mean for `fedlinucb-private`. ``epsilon=None`` is the twin that
    protects nothing: the same schedule and features, no noise, and agents act on all they know.

    Guarantee: the whole transcript is (`epsilon`, `delta`)-differentially private in one observation with
    ``own="released"``; uploads alone, for fixed histories, with the others. Of regret, none is proved.
    """

    own: Literal["released", "fused", "recent"] = "released"
    constants: Constants = "exact"

    about: ClassVar[About] = entry(
        noisy(FeatureActing(), BudgetParameters()),
        name="fed-gp-ucb",
        talks="everybody, after a few turns that are fixed beforehand",
        source="announced in Dubey (2022), thesis, section 7.1; chapters 6 and 7 together",
    )

    @model_validator(mode="after")
    def _fits(self) -> FedGPUCB:
        _ = self.composed  # refuses what the stage cannot serve
        return self

    def compose(self) -> Algorithm:
        """See `Composition`."""
        noise = budgeted(self, self.constants, own=self.own)
        return Through(self.inner(), (Scheduled(noise) if self.epsilon is None else noise,))
