"""Phase II for any arms: the linear family on gradients of a model at a point."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_arms, check_feedback, first_highest
from fedbandits.contract.messages import Message
from fedbandits.models.climbing import Climbing
from fedbandits.models.differences import Steep
from fedbandits.models.differentiable import Model
from fedbandits.models.features.linearised import Linearised
from fedbandits.models.inner_maxima import centred, one_step, refined
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.sharing import COLLECT
from fedbandits.models.triggers import Trigger

Inner = Literal["linear", "one-step", "refined", "centre"]
"""How the most that f can be in the ellipsoid is found: of the model made linear at w_0, in closed form; f itself at
the point where that is largest; the best of an ascent from there; or of the model made linear at the estimate."""


class LinearisedAgents(OptimisticAgents):
    """Ridge regressions of y - f(x; w_0) on g(x) = grad f(x; w_0), hence on w - w_0, and optimism as `inner` says.

    Where they are `moving`, an observation is taken in at the estimate w of that moment: its gradient there, and
    <g, w - w_0> + y - f(x; w) in place of the reward, as in GO-UCB for a single agent.

    `handed` (n,) is how many observations an agent handed over the last time.
    """

    keeps: ClassVar[tuple[str, ...]] = (*OptimisticAgents.keeps, "handed")

    def __init__(
        self,
        model: Model,
        n: int,
        dim: int,
        ridge: float,
        *,
        width: float,
        trigger: Trigger | None,
        inner: Inner,
        moving: bool,
    ) -> None:
        features = Linearised(model, n, dim)
        super().__init__(
            RidgeModels(n, features.size, ridge),
            lambda logdet, count: np.full(len(count), width),
            trigger,
            features=features,
        )
        self._point = features
        self._model = model
        self._inner = inner
        self._moving = moving
        self.handed = np.zeros(n)

    def begin(self, who: IntArray, w: FloatArray) -> None:
        """Phase II begins for `who`, at their rows of `w` (w, p)."""
        self._point.w[who] = w

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The optimistic arm of each agent in `who`."""
        if self._inner == "linear":
            return super().choose(who, arms)
        return first_highest(who, self._most(who, arms))

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm; see `Population`."""
        return super().scores(who, arms) if self._inner == "linear" else self._most(who, arms)

    def steep(self, who: IntArray, points: FloatArray, reach: FloatArray) -> Steep:
        """See `Climbing`: where the index is of a model made linear, at w_0 or at the estimate, its gradient is that of
        f + <grad f, u>, u being how far the best parameter of the ellipsoid is from there.
        """
        if self._inner not in ("linear", "centre"):
            return Climbing.steep(self, who, points, reach)
        centred = self._inner == "centre"
        w, rows = self.estimates(who) if centred else self._point.w[who], np.arange(len(who))
        values, along = self.models.leaning(who, self._model.tangents(w, rows, points), self.width(who))
        if centred:  # the ellipsoid is around the estimate: what leads there from w_0 does not count
            theta = self.models.theta[who][:, None]
            gradients = self._model.tangents(w, rows, points)
            values, along = values - np.einsum("wkp,wip->wk", gradients, theta), along - theta
        return self._model.outputs(w, rows, points) + values, self._model.inclines(w, rows, points, along, reach)

    def _most(self, who: IntArray, arms: FloatArray) -> FloatArray:
        check_arms(who, arms, self._n, self.features.dim)
        found = np.empty(arms.shape[:2])
        for row, (agent, radius) in enumerate(zip(who, self.width(who), strict=True)):
            known = (self.estimates(agent), self.models.inverse[agent], float(radius), np.ascontiguousarray(arms[row]))
            if self._inner == "centre":
                found[row] = centred(self._model, *known)
            else:
                found[row] = (one_step if self._inner == "one-step" else refined)(self._model, *known)[0]
        return found

    def estimates(self, who: IntArray | int) -> FloatArray:
        """w, of an agent or of `who`."""
        return np.asarray(self._point.w[who] + self.models.theta[who])

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`."""
        if not self._moving:
            super().learn(who, arms, picks, rewards)
            return
        check_feedback(who, arms, picks, rewards, self._n, self.features.dim)
        chosen, rows = arms[np.arange(len(who)), picks][:, None], np.arange(len(who))
        w = self.estimates(who)
        gradients = self._model.tangents(w, rows, chosen)[:, 0]
        along = np.einsum("wp,wp->w", gradients, self.models.theta[who])
        self.models.learn_chosen(who, gradients, along + rewards - self._model.outputs(w, rows, chosen)[:, 0])

    def answer(self, request: Message) -> Message | None:
        """Hand over what is new, or take in what the server tells."""
        if request.kind == COLLECT.kind:
            self.handed[request.who] = self.models.fresh.count[request.who]
        return super().answer(request)

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over is new again, and no more than that: not all that was observed is in statistics."""
        super().restore(sent, np.minimum(observed, self.handed[sent.who]))
