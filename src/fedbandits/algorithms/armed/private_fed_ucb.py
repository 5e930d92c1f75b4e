"""Private FedUCB: agents tell each other noisy means at scheduled pull counts, within a total privacy budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from fedbandits.algorithms.armed.releasing import ReleasingAgents
from fedbandits.algorithms.armed.tally import check_unit_range
from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Place
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.portrait import KNOWN
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Bound, Utterance, WireField
from fedbandits.linalg.jit import jit
from fedbandits.models import limits
from fedbandits.models.latest import Latest
from fedbandits.privacy.budget import PrivacyParameters
from fedbandits.privacy.schedules import broadcast

MEAN = WireField("mean", ("K",))
COUNT = WireField("count", ("K",), dtype="i8", bound=Bound(limits.none, per_observation=False, low=0.0))
RELEASED = Utterance("released", "peer", (MEAN, COUNT))
"""The last released mean of every arm, and the pulls it stands for; both 0 where nothing was released yet."""


@parameters
class PrivateFedUCB(PrivacyParameters):
    """UCB1 on own and heard means, where means leave an agent only with noise, at scheduled pull counts.

    After the n-th pull of an arm, if n is in the broadcast schedule with parameter s, an agent releases the mean of its
    n rewards plus Laplace(n^(v/2 - 1)). Messages carry, for every arm, the last released mean and a count; they
    live for gamma hops. Listeners keep the latest message of every agent within reach. After K ceil(1/s) turns, in
    which all arms are taken in turn, everybody plays

        argmax_k  (sum_j n_jk m_jk) / N_k + sqrt(2 log t / N_k),    N_k = sum_j n_jk,

    over itself and all within reach: m_jk and n_jk are mean and count that j told last. s follows from the total budget
    `epsilon` at `delta` (see `PrivacyParameters`), or is the publication's `schedule`; v is `rate`.

    `own` says what an agent uses of itself. **"released"**, the default: what it would tell others. Then all choices,
    hence all counts and the moments of all messages, follow from released means; by adaptive composition over the
    releases of one arm, everything anybody can see is (`epsilon`, `delta`)-differentially private in any one
    reward. **"clean"**: its exact rewards, as published. Then choices depend on rewards without noise, counts tell of
    choices, and the transcript has no guarantee at all: a single reward can decide with certainty which arm is
    pulled next. Lemma 3.3 of the publication counts the released means alone. `spent` is infinite from the first such
    choice on, and an audit finds the leak in the counts.

    `counts`: whether messages tell "current" pull counts, as published, or those "at-release" of the mean. `talk`:
    "every-round", as in the pseudocode, or only "at-release", when a mean of the sender is new, which costs listeners
    nothing but fresh counts.

    Guarantee: privacy as above, if rewards lie in [0, 1]; see `IntervalMeans` for what is not protected. Regret
    (theorem 3.2, own = "clean"): O(chi(G_gamma) sum_k log T / Delta_k + M (1/s + gamma) sum_k Delta_k), chi the clique
    cover number, gamma < 1/s. None is proved for "released". It does better in our runs (40 agents, 600 rounds, s = 1,
    40 seeds: 257 against 749): an agent that sees its own noise pulls an arm until that is low, so that poor arms are
    left alone early; by the same token a good one may be. The first K ceil(1/s) turns cost M ceil(1/s) sum_k Delta_k,
    which dominates under small budgets. No guarantee of regret when messages are lost, corrupted or late; that of
    privacy stays.
    """

    own: Literal["released", "clean"] = "released"
    counts: Literal["current", "at-release"] = "current"
    talk: Literal["every-round", "at-release"] = "every-round"

    about: ClassVar[About] = About(
        name="private-fed-ucb",
        family="armed",
        topology="graph",
        talks="after every pull, or after every release, to all within gamma hops",
        says=(RELEASED,),
        # means are released at scheduled pull counts, and which arms are pulled follows from rewards
        calls="data",
        guarantee="messages (epsilon, delta)-differentially private in one reward, counts too, unless own is clean; "
        "if it is, regret O(chi(G_gamma) sum_k log T / Delta_k + M/s sum_k Delta_k), chi the clique cover number",
        source="Dubey (2022), thesis, chapter 3",
        private=True,
        environment="bernoulli",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> PrivateFedUCBAgents:
        """n agents that tell noisy means."""
        check_unit_range(self.about.name, problem)
        return PrivateFedUCBAgents(self, problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Agents talk to each other."""


class PrivateFedUCBAgents(ReleasingAgents):
    """Agents who tell what they have released and remember the latest that each neighbour told."""

    keeps: ClassVar[tuple[str, ...]] = (*ReleasingAgents.keeps, "heard", "untold")

    def __init__(self, parameters: PrivateFedUCB, problem: Problem, n: int, rng: Streams) -> None:
        super().__init__(parameters, broadcast, problem, n, rng)
        self._clean = parameters.own == "clean"
        self._current = parameters.counts == "current"
        self._chatty = parameters.talk == "every-round"
        per_arm = (problem.arms,)
        place = problem.get(Place)
        self.heard = Latest(place, rng.identities, {"means": (per_arm, "f8"), "counts": (per_arm, "i8")})
        self.untold = np.zeros(n, dtype=np.bool_)
        """(n,) who has released a mean and not told it yet."""

    def say(self, learned: IntArray) -> Sequence[Message]:
        """What each agent that has just learned has released; nobody speaks who has nothing to say."""
        speakers = learned if self._chatty else learned[self.untold[learned]]
        means, counts = self.own.told(speakers, current=self._current)
        self.untold[speakers] = False
        return (Message(RELEASED.kind, speakers, {MEAN.name: means, COUNT.name: counts}),)

    def hear(self, inbox: Inbox) -> None:
        """Keep the latest of every neighbour."""
        arrays = inbox.said.arrays
        self.heard.take(inbox, means=arrays[MEAN.name], counts=arrays[COUNT.name])

    def portrait(self) -> State:
        """How many pulls stand behind the means that each agent acts on; see `portrait`."""
        return {KNOWN: self._known(np.arange(self._n))[1].sum(axis=1)}

    def spent(self) -> FloatArray:
        """(n,) epsilon that each agent has spent on one reward; infinite once it has acted on clean rewards."""
        spent = super().spent()
        return np.where(self.turns > self._in_turn, np.inf, spent) if self._clean else spent

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        self.untold[who] |= self.own.observe(who, picks, rewards)

    def _known(self, who: IntArray) -> tuple[FloatArray, FloatArray]:
        if self._clean:
            totals, weights = self.own.sums[who], self.own.counts[who].astype(np.float64)
        else:
            means, counts = self.own.told(who, current=self._current)
            totals, weights = means * counts, counts.astype(np.float64)
        _add_heard(self.heard.starts, self.heard.kept["means"], self.heard.kept["counts"], who, totals, weights)
        return totals, weights


@jit
def _add_heard(
    starts: IntArray, means: FloatArray, counts: IntArray, who: IntArray, totals: FloatArray, weights: FloatArray
) -> None:
    """Add sums of count times mean, and of counts, over all that each of `who` has heard, to `totals` and `weights`
    (w, K).
    """
    for i in range(len(who)):
        for e in range(starts[who[i]], starts[who[i] + 1]):
            for k in range(means.shape[1]):
                totals[i, k] += counts[e, k] * means[e, k]
                weights[i, k] += counts[e, k]
