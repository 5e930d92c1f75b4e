"""FedLinUCB, private: everybody's sums in one pool, each with noise that keeps a budget."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator

from fedbandits.algorithms.private import theory
from fedbandits.algorithms.private.parameters import ActingParameters, BudgetParameters
from fedbandits.algorithms.private.pooled import Pooled, Threshold
from fedbandits.channel.composition import Composition, entry
from fedbandits.channel.gaussian import Gaussian
from fedbandits.channel.scheduled import Scheduled
from fedbandits.channel.through import Through
from fedbandits.contract.algorithm import Algorithm, Bounds
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem

_ASKED = 64
"""How often an agent may upload where data say when, unless told otherwise."""


@parameters
class FedLinUCBPrivate(Composition, BudgetParameters, ActingParameters):
    """FedLinUCB in a star (Dubey 2022, thesis, algorithm 9), with exact accounting and without its leaks.

    Agent i hands over noisy sums of x x^T and y x; the server adds them up and tells everybody; agents play

        argmax_x <theta, x> + scale radius ||x||_{V^-1}

    on what they were told. Noise is that of the stage `gaussian`, and so is the schedule: few uploads, early and
    geometric, or after `every` so many turns.

    `own` is what agents act on. **"released"**, the default: on what the server tells alone, and at random before;
    everything that leaves an agent is then (`epsilon`, `delta`)-differentially private in one observation, its choices
    included. ``"fused"``: noisy sums of the others with clean data of their own. ``"recent"``, as in the thesis: noisy
    sums of everybody, and clean own data since. Both let clean data shape later uploads: the budget then holds for
    fixed histories only, which is the thesis' definition 6.1, and strictly `spent` is infinite. Without a budget there
    is nothing to hide, and agents act on all they know.

    `threshold`: the thesis' trigger by its number D, or by name (see `Pooled`). It depends on data, and tells of them,
    whatever noise: with a budget it is refused unless `leaky`, and then `spent` is infinite. "every-round" does not.

    ``clip="learned"``: noise is made for what observations are like, as earlier releases tell, and not for all that is
    declared to be possible (`models.frames`); each upload then has noise of its own. Where agents act in step and
    arms have a mean, half of the regret at the same budget (`private-bars-tuned`); without one it may be more.
    `width` 0 suits it.

    ``constants="thesis"``: tree, sigma_N and a shift of 2 Lambda for each agent, as printed. They over-protect, and
    drown everything in runs of ordinary length.

    Guarantee: privacy as above. Of regret none is proved for the default: theorem 6.2 (O(sigma sqrt(nT) (d Phi +
    sqrt(d) kappa))) is about the trigger that leaks, the printed constants and the whole width, and drops a factor
    sqrt(n) on the way.
    """

    own: Literal["released", "fused", "recent"] = "released"
    threshold: Threshold | None = None
    clip: Literal["declared", "learned"] = "declared"
    constants: Literal["exact", "thesis"] = "exact"
    leaky: bool = False

    about: ClassVar[About] = entry(
        Through(Pooled(scale=0.01), (Gaussian(),)),
        name="fedlinucb-private",
        talks="everybody, after a few turns that are fixed beforehand",
        source="Dubey (2022), thesis, algorithm 9",
        environment="gap",
    )

    @model_validator(mode="after")
    def _fits(self) -> FedLinUCBPrivate:
        if self.threshold is not None and self.every is not None:
            raise ValueError("threshold and every both say when agents call; leave one out")
        if self.epsilon is not None and self._inner.calls == "data" and not self.leaky:
            raise ValueError(
                "threshold: when agents call then depends on data, and tells of them, whatever noise; leave it out for "
                "a fixed schedule, or say leaky=true: then no privacy is claimed"
            )
        _ = self.composed  # refuses what the stage cannot serve
        return self

    @property
    def _inner(self) -> Pooled:
        return self.star(None if self._always else self.threshold)

    @property
    def _always(self) -> bool:
        return self.threshold in (0, "every-round")

    def compose(self) -> Algorithm:
        """See `Composition`."""
        inner, asks = self._inner, self._inner.threshold is not None
        if asks and self.epsilon is None:
            return inner
        when = {"when": "algorithm", "uploads": self.uploads or _ASKED, "leaky": self.leaky} if asks else {}
        every = 1 if self._always else self.every
        if self.clip == "learned":
            when |= {"clip": "learned", "mechanism": self.mechanism or "fresh"}
        noise = self.noise(own=self.own, constants=self.constants, every=every, **when)
        return Through(inner, (Scheduled(noise) if self.epsilon is None else noise,))

    def bounds(self, problem: Problem, means: FloatArray | None) -> Bounds | None:
        """Theorem 6.5; see `theory`."""
        return theory.federated(problem, self.epsilon)
