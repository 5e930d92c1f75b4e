"""DP-UCB-INT: a private UCB by every agent alone, with means released at regular intervals."""

from __future__ import annotations

from typing import ClassVar

from fedbandits.algorithms.armed.releasing import ReleasingAgents
from fedbandits.algorithms.armed.tally import check_unit_range
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.privacy.budget import PrivacyParameters
from fedbandits.privacy.schedules import regular


@parameters
class DPUCBInt(PrivacyParameters):
    """UCB1 on noisy means: each arm f = ceil(1/s) times in turn, then argmax_k m_k + sqrt(2 log t / n_k).

    n_k are the pulls of arm k, and its mean is released whenever f divides n_k:

        m_k = (sum of its rewards) / n_k + Laplace(n_k^(v/2 - 1)).

    s follows from the budget `epsilon` at `delta`, or is `schedule`; v is `rate`. The mean is frozen between releases
    and noise is never drawn anew for the same data, on which the budget rests; t and n_k in the width are current,
    which is safe because choices follow from what was released. The publication can also be read as freezing the width;
    this is the reading chosen.

    Guarantee: whoever sees all actions of an agent learns at most (`epsilon`, `delta`) about one of its rewards, by
    adaptive composition over the releases of one arm; rewards must lie in [0, 1]. See `IntervalMeans` for what is not
    protected. Tossou & Dimitrakakis prove regret O(1/s + sum_k log T / Delta_k); the width does not grow with the
    noise, whose scale n^(v/2 - 1) falls more slowly than n^(-1/2).
    """

    about: ClassVar[About] = About(
        name="dp-ucb-int",
        family="armed",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="actions (epsilon, delta)-differentially private in one reward; regret O(1/s + sum_k log T/Delta_k)",
        source="Tossou & Dimitrakakis, AAAI 2016",
        private=True,
        environment="bernoulli",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> ReleasingAgents:
        """n private agents on their own."""
        check_unit_range(self.about.name, problem)
        return ReleasingAgents(self, regular, problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""
