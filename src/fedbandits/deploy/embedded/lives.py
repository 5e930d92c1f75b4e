"""What a file that was restored from a backup has to answer for: what the one before it released since.

A copy knows nothing of what its original has released after it was made, and no two of them draw the same noise. Both
are then mechanisms on the same data. Gaussian ones compose exactly, mu^2 being the sum of theirs (`privacy.gaussian`),
so that an agent with c backups behind it has spent at most what a Gaussian mechanism has with

    mu^2 = c mu(epsilon, delta)^2 + mu(spent, delta)^2:

each file before it may have used its whole budget, and what they had in common is counted for each. `back_up` marks
copies; who copies a file otherwise is found out by the federation's server alone, which turns the agent away.
"""

from __future__ import annotations

import math
from dataclasses import replace

from fedbandits.contract.budget import Budget
from fedbandits.contract.protection import Protection
from fedbandits.privacy.gaussian import gaussian_epsilon, gaussian_mu

COPIES = "copies"
"""The name, among an agent's counters, of how many backups lie between the agent that was made and this one."""


def over_all_lives(protection: Protection | None, copies: int) -> Budget | None:
    """The budget of an agent, with what the files before it may have spent of theirs; None where there is none."""
    if protection is None:
        return None
    budget = Budget.of(protection)
    if copies == 0:
        return budget
    return replace(
        budget,
        copies=copies,
        spent=_composed(budget, budget.spent, copies),
        strictly=math.inf if budget.definition != "transcript" else _composed(budget, budget.strictly, copies),
    )


def _composed(budget: Budget, spent: float, copies: int) -> float:
    if math.isinf(spent):
        return spent
    whole = gaussian_mu(budget.epsilon, budget.delta)
    own = gaussian_mu(spent, budget.delta) if spent > 0 else 0.0
    return gaussian_epsilon(math.sqrt(copies * whole**2 + own**2), budget.delta)
