"""RCLB: phased elimination on a common design, by medians of everybody's estimates; a few may lie."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.algorithms.phased.agents import ESTIMATES, NEXT, PHASE, TOLERANCE, PhasedAgents
from fedbandits.contract.arrays import Array, IntArray, shown_to
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Norms
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.linalg.medians import median_width


@parameters
class RCLB:
    """Robust collaborative phased elimination (Mitra, Adibi, Pappas & Hassani, NeurIPS 2022).

    For K arms that are the same at every turn and for everybody, and M agents of whom a share of at most `share` lies.
    Phase l = 1, 2, ... has the accuracy e_l = S L 2^-l. Every agent computes a G-optimal design pi on the arms A_l that
    are left, of which r are independent, and pulls arm a

        max(2, ⌈pi(a) r sigma^2 z_0^2 / e_l^2⌉) times,

    then tells the means <theta_i, a> of its least squares estimate from this phase alone, cut to [-S L, S L]: K
    numbers. The server takes the median mu(a) over agents and keeps the arms with mu(a) >= max mu - 2 g_l,

        g_l = sqrt(1.05) (z_share/z_0) e_l,

    where z_share is such that the median of M normal variables, of which a share may be anything, is off by more than
    that many standard deviations with probability d_l = delta/(K l (l + 1)) (`linalg.medians.median_width`, exact). It
    does not wait for more than a share 1 - `share` of the agents: who is silent counts as one that lies.

    Guarantee, from the abstract: regret O((share + 1/sqrt(M)) sqrt(d T)) per honest agent, up to logarithms. That the
    best arm survives with probability 1 - delta follows from the two formulas above for Gaussian noise: with V >= N
    V(pi), N = r sigma^2 z_0^2/e_l^2, an estimate of a mean has a standard deviation of at most sqrt(1.05) e_l/z_0.
    Phases, design, medians and the factor 1 + C share sqrt(M) = O(z_share/z_0) in g_l are the publication's, *as
    remembered*; the constants are ours. Not covered: noise that is not Gaussian (least squares over many pulls are
    nearly so), and arms that differ between agents or turns, which are refused. An estimate of few pulls tells much of
    the rewards in it: the algorithm is not private.
    """

    share: Annotated[float, Field(ge=0, lt=0.5)] = 0.2
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1

    about: ClassVar[About] = About(
        name="rclb",
        family="phased",
        topology="star",
        talks="everybody, when nearly all have done the pulls of a phase; about log T phases",
        says=(PHASE, ESTIMATES, NEXT),
        guarantee="regret ~O((share + 1/sqrt(n)) sqrt(dT)) per honest agent, fixed arms, Gaussian noise",
        source="Mitra, Adibi, Pappas & Hassani, NeurIPS 2022",
        environment="linear-fixed",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> PhasedAgents:
        """n agents that pull what the design says."""

        def accuracy(phase: int) -> float:
            """e_l / z_0."""
            return first_accuracy(problem) * 2.0**-phase / self.width(problem, phase, problem.agents, 0)

        return PhasedAgents(problem, n, accuracy)

    def server(self, problem: Problem, n: int, rng: Streams) -> EliminationServer:
        """A server that eliminates arms."""
        return EliminationServer(self, problem, n)

    def liars(self, n: int) -> int:
        """How many of n agents may lie."""
        return int(self.share * n + 1e-9)  # a share that is whole but for its last bit stays whole

    def width(self, problem: Problem, phase: int, present: int, liars: int) -> float:
        """z of a phase, with so many estimates present of which so many may be lies."""
        return median_width(present, liars, self.delta / (problem.arms * phase * (phase + 1)))


def first_accuracy(problem: Problem) -> float:
    """S L, the largest size of a mean reward."""
    norms = problem.get(Norms, Norms())
    return norms.parameter * norms.arms


class EliminationServer(Server):
    """`active` (K,) are the arms left in phase `phase` (), `best` () is the one with the highest median so far."""

    keeps: ClassVar[tuple[str, ...]] = ("phase", "active", "best")
    waits: ClassVar[bool] = True

    def __init__(self, parameters: RCLB, problem: Problem, n: int) -> None:
        self._parameters = parameters
        self._problem = problem
        self._everybody = np.arange(n)
        self._liars = parameters.liars(n)
        self.phase = np.ones((), dtype=np.int64)
        self.active = np.ones(problem.arms, dtype=np.bool_)
        self.best = np.zeros((), dtype=np.int64)

    def converse(self, callers: IntArray) -> Conversation:
        """The end of a phase: estimates, medians, and what is left for the next one."""
        if len(callers) < max(1, len(self._everybody) - self._liars):
            return
        told = yield self._message(PHASE.kind, phase=self.phase)
        if len(told.who) == 0:
            return
        ready = told.arrays["ready"] > 0
        width = self._width(int(ready.sum()))
        if math.isfinite(width):
            self._eliminate(told.arrays["means"][ready], width)
        # who missed the last phase is told of this one, too
        yield self._message(NEXT.kind, phase=self.phase, active=self.active, best=self.best)

    def _width(self, present: int) -> float:
        """g_l, where so many agents have told their estimates; infinite where they are too few to trust."""
        phase, problem = int(self.phase), self._problem
        z = self._parameters.width(problem, phase, present, self._liars) if present else math.inf
        plain = self._parameters.width(problem, phase, problem.agents, 0)
        return math.sqrt(1 + TOLERANCE) * z / plain * first_accuracy(problem) * 2.0**-phase

    def _eliminate(self, means: Array, width: float) -> None:
        medians = np.where(self.active, np.median(means, axis=0), -np.inf)
        self.best[...] = medians.argmax()
        self.active &= medians >= medians.max() - 2 * width
        self.phase += 1

    def _message(self, kind: str, **told: Array) -> Message:
        """To everybody, what the arrays hold now."""
        rows = {name: np.array(array)[None] for name, array in told.items()}
        return Message(kind, self._everybody, shown_to(len(self._everybody), rows))
