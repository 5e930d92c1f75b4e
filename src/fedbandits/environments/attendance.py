"""Who is awake when.

Every way of attending fills a block of consecutive steps at once: row s of the result are the agents of step
`start + s`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedbandits.contract.arrays import IntArray

Attendance = Literal["all", "round-robin", "random"]
"""All agents every step; one agent per step in turn; one uniformly random agent per step."""


def awake_per_step(schedule: Attendance, agents: int) -> int:
    """How many agents are awake in each step."""
    return agents if schedule == "all" else 1


def draw(schedule: Attendance, agents: int, start: int, steps: int, rng: np.random.Generator) -> IntArray:
    """(steps, w) the agents awake in steps `start`, `start + 1`, ..."""
    if schedule == "all":
        return np.broadcast_to(np.arange(agents), (steps, agents))
    if schedule == "round-robin":
        return (np.arange(start, start + steps) % agents)[:, None]
    return rng.integers(agents, size=(steps, 1))
