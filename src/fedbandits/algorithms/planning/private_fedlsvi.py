"""FedLSVI, private: one plan for everybody, made of sums with noise that keeps a budget."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from fedbandits.algorithms.planning.fedlsvi_rare import FedLSVIRare
from fedbandits.algorithms.private.parameters import Budget
from fedbandits.channel.composition import Composition, entry
from fedbandits.channel.gaussian import Gaussian
from fedbandits.channel.scheduled import Scheduled
from fedbandits.channel.through import Through
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.protection import Adjacency
from fedbandits.privacy.prefix_sums import MechanismName

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_FEW = 2
"""Synchronisations, unless said otherwise: targets of all transitions are told anew in each."""


@parameters
class PrivateFedLSVI(Composition):
    """FedLSVI by rare communication through the noise stage `gaussian`: what the thesis says it has (section 1.2.5),
    and does not contain.

    Few synchronisations, after turns that are fixed beforehand: `uploads` of them from turn `first` to the share `last`
    of the horizon, or after `every` so many turns, each put off to the end of an episode. In each an agent hands over
    sum phi phi^T of what is new, with noise of prefix sums, and, stage by stage, sum phi (r + V(x')) over all it has
    done, with fresh noise: targets change with every plan, so that they are told anew, and each time costs. Arms and
    rewards are cut down to the norms that are known, and values to [0, (H - h) R], so that sensitivities are exact
    (`channel.planning`), and so is what is `spent`. Agents act on what was released alone, and at random before: all
    that leaves an agent, its choices included, is (`epsilon`, `delta`)-differentially private.

    `unit` is what is protected. ``"episode"``, the default: everything that one person went through, where each episode
    is somebody else. ``"observation"``: one transition (x, a, r, x') as a record by itself, of which a person may have
    H. The first costs sqrt(H) times the noise. Whoever has several episodes is protected in each of them, and not in
    all together.

    `width` is RARE's bonus, and 0: agents explore by acting at random before the first synchronisation, and of a few
    later ones a bonus could make little use. `share` of the budget (of mu^2) goes to targets, the rest to matrices.
    `epsilon` None, in files "none", is no budget: the same schedule without noise. What else there is, is the stage's,
    and RARE's.

    Guarantee: privacy as above; of regret none. Theorem 9.2 is about the trigger, which depends on data and tells of
    them, and about sums without noise.
    """

    epsilon: Budget = 1.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    unit: Literal["episode", "observation"] = "episode"
    adjacency: Adjacency = "add-remove"
    uploads: Annotated[int, Field(ge=1)] | None = None
    first: Annotated[int, Field(ge=1)] = 100
    last: Annotated[float, Field(gt=0, le=1)] = 0.2
    every: Annotated[int, Field(ge=1)] | None = None
    mechanism: MechanismName = "toeplitz"
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    arms: _Positive | None = None
    rewards: _Positive | None = None
    ridge: _Positive = 1.0
    width: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory"] = 0.0
    scale: _Positive = 1.0

    about: ClassVar[About] = entry(
        Through(FedLSVIRare(width=0.0), (Gaussian(unit="episode", uploads=_FEW, first=100, last=0.2, share=0.5),)),
        name="private-fedlsvi",
        talks="everybody, after a few episodes that are fixed beforehand",
        source="beyond Dubey (2022), thesis, algorithm 19, which has no noise",
    )

    @model_validator(mode="after")
    def _fits(self) -> PrivateFedLSVI:
        _ = self.composed  # refuses what the stage cannot serve
        return self

    def compose(self) -> Algorithm:
        """See `Composition`."""
        inner = FedLSVIRare(ridge=self.ridge, width=self.width, scale=self.scale)
        shared = ("delta", "unit", "adjacency", "first", "last", "every", "mechanism", "share", "arms", "rewards")
        given = {name: getattr(self, name) for name in shared}
        few = self.uploads or (None if self.every is not None else _FEW)
        noise = Gaussian(epsilon=1.0 if self.epsilon is None else self.epsilon, uploads=few, **given)
        return Through(inner, (Scheduled(noise) if self.epsilon is None else noise,))
