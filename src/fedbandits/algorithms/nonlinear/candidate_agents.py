"""Phase II where candidates are common: beliefs about them in place of matrices of the model's dimension."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np

from fedbandits.algorithms.nonlinear.languages import Language, Prior
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, check_arms, check_feedback
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.models.candidates import Belief, CandidateModels
from fedbandits.models.judging import JudgingAgents
from fedbandits.models.places import Places
from fedbandits.models.sharing import COLLECT
from fedbandits.models.triggers import Trigger


class CandidateAgents(JudgingAgents):
    """Agents whose index of candidate j is m_j + width unit sqrt(C_jj) (`models.candidates`), `unit` (n,) being that of
    their rewards.

    `w` (n, p) is what they were told of their model, of which `prior` makes what they believe of the candidates before
    anything is observed; the same for those who were told the same. A decision takes K^2 operations, whatever p is.
    """

    keeps: ClassVar[tuple[str, ...]] = ("w", "unit", "models")

    def __init__(
        self,
        points: FloatArray,
        n: int,
        size: int,
        prior: Callable[[FloatArray], Prior],
        language: Language,
        *,
        width: float,
        trigger: Trigger | None,
        keep: bool,
    ) -> None:
        super().__init__(n)
        self._places = Places(points)
        self._prior = prior
        self._language = language
        self._width = width
        self._trigger = trigger
        self._keep = keep
        self._priors: dict[bytes, Prior] = {}
        self.w, self.unit = np.zeros((n, size)), np.ones(n)
        self.models = CandidateModels(n, len(points))

    def begin(self, who: IntArray, w: FloatArray) -> None:
        """Phase II begins for `who`, with a row of `w` (w, p) each. What was counted before is kept if it is to be."""
        self.w[who] = w
        priors = [self.prior_of(agent) for agent in who]  # raises before anything else has changed
        if not self._keep:
            self.models.fresh.clear(who)
        self.unit[who] = [prior.unit for prior in priors]
        self.models.tell(who, [prior.belief for prior in priors])

    def prior_of(self, agent: int) -> Prior:
        """What its model says of the candidates."""
        key = self.w[agent].tobytes()
        if key not in self._priors:
            if len(self._priors) >= len(self):
                self._priors.clear()
            self._priors[key] = self._prior(self.w[agent])
        return self._priors[key]

    def _judged(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        check_arms(who, arms, self._n, self._places.points.shape[1])
        means = self.models.mean[who]
        deviations = (self._width * self.unit[who])[:, None] * self.models.deviations(who)
        if self._places.in_order(arms):
            return means, deviations
        rows, places = np.arange(len(who))[:, None], self._places.of(who, arms)
        return means[rows, places], deviations[rows, places]

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`."""
        check_feedback(who, arms, picks, rewards, self._n, self._places.points.shape[1])
        places = picks
        if not self._places.in_order(arms):
            places = self._places.of(who, arms[np.arange(len(who)), picks][:, None])[:, 0]
        self.models.learn(who, places, rewards)

    def calling(self) -> BoolArray:
        """Whose trigger has fired."""
        if self._trigger is None:
            return super().calling()
        return self._trigger.fired(self.models.fresh.count.sum(axis=1), self.models.growth)

    def urgency(self) -> FloatArray | None:
        """How far each agent's trigger has come; see `Population`."""
        if self._trigger is None:
            return None
        return self._trigger.urgency(self.models.fresh.count.sum(axis=1), self.models.growth)

    def answer(self, request: Message) -> Message | None:
        """Hand over what is new, or take in what the server tells."""
        who, language = request.who, self._language
        if request.kind == COLLECT.kind:
            handed = zip(who, *self.models.hand_over(who), strict=True)
            said = [language.said(partial(self.prior_of, agent), count, total) for agent, count, total in handed]
            return Message(language.up, who, {name: np.array([one[name] for one in said]) for name in said[0]})
        if request.kind != language.down:
            return super().answer(request)
        alike = all(array.strides[0] == 0 for array in request.arrays.values())
        beliefs: dict[tuple[int, int], tuple[Belief, float]] = {}
        told = []
        for row, agent in enumerate(who):
            prior = self.prior_of(agent)
            key = (0 if alike else row, id(prior))
            if key not in beliefs:
                beliefs[key] = language.heard(prior, {name: array[row] for name, array in request.arrays.items()})
            told.append(beliefs[key])
        self.models.tell(who, [belief for belief, _ in told])
        self.unit[who] = [unit for _, unit in told]
        return None

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over is new again; see `Population`."""
        if sent.kind != self._language.up:
            Population.restore(self, sent, observed)
        self.models.take_back(sent.who)
