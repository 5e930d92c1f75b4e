"""Optimists in a feature space: what linear, kernel, neural and other agents have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_arms,
    check_feedback,
    decided,
    first_highest,
)
from fedbandits.contract.compiled import calls, choose, learn, stands_for, untouched
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Choices, Ellipsoids
from fedbandits.contract.wire import WireError
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit_inside
from fedbandits.models.climbing import Climbing
from fedbandits.models.differences import Steep
from fedbandits.models.features import Features, Identity
from fedbandits.models.ridge import RidgeArrays, RidgeModels, learn_one
from fedbandits.models.shared_ridge import SharedRidge
from fedbandits.models.sharing import COLLECT, FRESH, NEWS, POOL, handed_over, told
from fedbandits.models.triggers import Trigger, Watch, fires, watch_of
from fedbandits.models.width import Radius, width_at

_SPOKEN_FOR = ("choose", "learn", "width", "calling")

WidthRule = Callable[[FloatArray, FloatArray], FloatArray] | Radius
"""Log-determinants (w,) and numbers of observations (w,) -> widths (w,)."""


class Optimists(NamedTuple):
    """`OptimisticAgents` that act on the arms as they are, for compiled loops."""

    models: RidgeArrays
    width: Radius
    watch: Watch


@stands_for(choose, Optimists)
@jit_inside
def choose_one(agents: Optimists, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    """The optimistic arm of agent i."""
    models = agents.models
    width = width_at(agents.width, models.logdet[i], models.settled[i] + models.seen[i])
    return kernels.pick_one(models.inverse, models.theta, i, width, arms, row, room)


@stands_for(learn, Optimists)
@jit_inside
def _learn(agents: Optimists, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    return learn_one(agents.models, i, arms, row, pick, reward, room)


@stands_for(calls, Optimists)
@jit_inside
def _calls(agents: Optimists, i: int) -> bool:
    return fires(agents.watch, agents.models.seen[i], agents.models.growth[i])


class OptimisticAgents(Climbing):
    """Agents that act optimistically on all they know, in the space of their `features`.

    Their index of an arm x is offset(x) + <theta, phi(x)> + width ||phi(x)||_{V^-1}, theta and V being those of a ridge
    regression of y - offset on phi. They call when their `trigger` fires (None: never), hand over what is new when
    asked (`collect`) and take in what the server knows (`pool`, in place; `news`, on top); estimates are refreshed at
    once. `counted` says whether counts travel with the statistics.

    `features` None are the arms themselves, at no cost.
    """

    keeps: ClassVar[tuple[str, ...]] = ("models", "features")

    def __init__(
        self,
        models: RidgeModels,
        width: WidthRule | None = None,
        trigger: Trigger | None = None,
        *,
        features: Features | None = None,
        counted: bool = False,
    ) -> None:
        super().__init__(len(models))
        self.models = models
        self.features = Identity(models.dim) if features is None else features
        if self.features.size != models.dim:
            raise ValueError(f"features of size {self.features.size} need models of that size, not of {models.dim}")
        self._rule = width
        self._trigger = trigger
        self._counted = counted

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The optimistic arm of each agent in `who`."""
        features, models = self.features, self.models
        check_arms(who, arms, self._n, features.dim)
        width = self.width(who)
        if isinstance(features, Identity):
            return decided(who, models.choose(who, arms, width))
        shown, offsets = features.of(who, arms), features.offsets(who, arms)
        if offsets is None:
            return decided(who, models.choose(who, shown, width))
        return first_highest(who, offsets + models.scores(who, shown, width))

    def compiled(self) -> Any:
        """See `Population`: on the arms as they are, with a width and a trigger that compiled loops know."""
        if not untouched(self, OptimisticAgents, *_SPOKEN_FOR):
            return None
        watch, rule = watch_of(self._trigger), self._rule
        if type(self.models) is SharedRidge and isinstance(self.features, Identity):
            return self.models.optimists(rule, watch) if watch is not None and isinstance(rule, Radius) else None
        return self.optimists()

    def optimists(self) -> Optimists | None:
        """These agents for compiled loops, whatever a subclass adds; None where features, width or trigger are unknown
        to them.
        """
        watch = watch_of(self._trigger)
        known = type(self.models) is RidgeModels and isinstance(self.features, Identity)
        if not known or watch is None or not isinstance(self._rule, Radius):
            return None
        return Optimists(self.models.arrays(), self._rule, watch)

    def answering(self) -> Any:
        """See `Population`."""
        known = type(self.models) is RidgeModels and untouched(self, OptimisticAgents, "answer", "calling")
        return self.models.sharers(counted=self._counted) if known else None

    def tend(self) -> None:
        """See `Population`."""
        self.models.refresh()

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm; see `Population`."""
        features, models = self.features, self.models
        check_arms(who, arms, self._n, features.dim)
        found = models.scores(who, features.of(who, arms), self.width(who))
        offsets = features.offsets(who, arms)
        return found if offsets is None else offsets + found

    def steep(self, who: IntArray, points: FloatArray, reach: FloatArray) -> Steep:
        """See `Climbing`: with phi at a point and u = theta + width V^-1 phi / ||phi||_{V^-1}, which is what the index
        is made of there, it is the gradient of offset(x) + <phi(x), u>.
        """
        if not untouched(self, OptimisticAgents, "scores"):
            return super().steep(who, points, reach)
        phi, offsets = self.features.of(who, points), self.features.offsets(who, points)
        values, along = self.models.leaning(who, phi, self.width(who))
        slopes = self.features.slopes(who, points, along, reach)
        return values if offsets is None else offsets + values, slopes

    def choose_and_tell(self, who: IntArray, arms: FloatArray) -> Choices:
        """See `Population`; indices are computed once, unless agents draw."""
        chances = self.chances(who, arms)
        scores = self.scores(who, arms) if chances is None else None
        if scores is None:
            return super().choose_and_tell(who, arms)
        return Choices(first_highest(who, scores), scores, None)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`."""
        features = self.features
        check_feedback(who, arms, picks, rewards, self._n, features.dim)
        if isinstance(features, Identity):
            self.models.learn(who, arms, picks, rewards)
            return
        chosen = arms[np.arange(len(who)), picks][:, None]  # features of the others are not needed
        offsets = features.offsets(who, chosen)
        left = rewards if offsets is None else rewards - offsets[:, 0]
        self.models.learn(who, features.of(who, chosen), np.zeros(len(who), dtype=np.int64), left)

    def width(self, who: IntArray) -> FloatArray:
        """(w,) how far, in the norm of V, theta may be off."""
        if self._rule is None:
            raise NotImplementedError("give a width rule, or say the width in a subclass")
        models = self.models
        return self._rule(models.logdet[who], models.observed(who))

    def ellipsoids(self) -> Ellipsoids | None:
        """What each agent believes of theta; see `Population`."""
        return self.models.theta, self.models.matrices(), self.width(np.arange(self._n))

    def calling(self) -> BoolArray:
        """Whose trigger has fired."""
        if self._trigger is None:
            return super().calling()
        return self._trigger.fired(self.models.since, self.models.growth)

    def urgency(self) -> FloatArray | None:
        """How far each agent's trigger has come; see `Population`."""
        if self._trigger is None:
            return None
        return self._trigger.urgency(self.models.since, self.models.growth)

    def answer(self, request: Message) -> Message | None:
        """Hand over what is new, or take in what the server tells."""
        models, who = self.models, request.who
        if request.kind == COLLECT.kind:
            return Message(FRESH.kind, who, models.hand_over(who).named(counted=self._counted))
        if request.kind == POOL.kind:
            models.replace(who, *told(request))
        elif request.kind == NEWS.kind:
            models.absorb(who, *told(request))
        else:
            raise WireError(f"{type(self).__name__} do not understand {request.kind!r}")
        return None

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over is new again; see `Population`."""
        if sent.kind != FRESH.kind:
            super().restore(sent, observed)
        self.models.unsettle(sent.who, *handed_over(sent, observed))
