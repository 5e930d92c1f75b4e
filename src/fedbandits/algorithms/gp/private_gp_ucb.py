"""GP-UCB that keeps a budget on its own: an agent acts on what it would release."""

from __future__ import annotations

from typing import ClassVar

from pydantic import model_validator

from fedbandits.algorithms.gp.acting import FeatureActing, LoneBudget, noisy
from fedbandits.algorithms.gp.printed import Constants, budgeted
from fedbandits.channel.composition import SelfServed, entry
from fedbandits.channel.through import Through
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters


@parameters
class PrivateGPUCB(FeatureActing, SelfServed, LoneBudget):
    """GP-UCB alone with joint privacy (Dubey 2022, thesis, algorithms 12 and 13): choices rest on noisy sums of own
    features.

    An agent adds noise to the sums of phi phi^T and y phi at scheduled turns and acts on the last of these releases, at
    random before the first. What it shows to everybody but the person concerned is then (`epsilon`, `delta`)-
    differentially private in what that person contributed.

    The thesis releases after every turn by a binary tree, ``every=1, mechanism="tree"``, and so do its
    ``constants="thesis"`` unless `every` says otherwise; the default is 16 releases with less noise. With printed
    constants and 50 features the shift alone is larger than T at every budget that the thesis tries.

    Guarantee: privacy as above. Of regret, none is proved for the default; corollary 7.2, O(sqrt(T gamma_T / epsilon))
    up to logarithms, is about the printed constants, releases after every turn, and the whole width (``scale=1``).
    ``epsilon=None`` is GP-UCB on features of all that an agent has observed.
    """

    constants: Constants = "exact"

    about: ClassVar[About] = entry(
        noisy(FeatureActing(), LoneBudget()),
        name="private-gp-ucb",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        source="Dubey (2022), thesis, algorithms 12 and 13",
    )

    @model_validator(mode="after")
    def _fits(self) -> PrivateGPUCB:
        _ = self.composed  # refuses what the stage cannot serve
        return self

    def compose(self) -> Algorithm:
        """See `Composition`."""
        if self.epsilon is None:
            return self.inner()
        every = 1 if self.constants == "thesis" and self.every is None else self.every
        return Through(self.inner(), (budgeted(self, self.constants, every=every),))
