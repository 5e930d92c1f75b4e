"""Whether a run can fit into memory, told from its parameters alone: before anything is drawn.

What is counted is what every run holds at least, 8 bytes a number:

- the arms of one step, w K d for w agents awake, or K where arms are just numbered; of one decision where they are
  hashed;
- what agents have learned, 2 d² each (a Gram matrix and an inverse), or 2 K where arms are numbered; nothing of agents
  that do not learn, and what an algorithm says of itself (`numbers_held`), where it may share matrices;
- a pool of arms, if there is one, and the trace, a few numbers a step.

A run may need several times as much: this refuses what is hopeless, such as a number with three zeros too many.
"""

from __future__ import annotations

import os
from pathlib import Path

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.ledger import DIRECTIONS, UNITS
from fedbandits.contract.world import Environment
from fedbandits.environments.attendance import awake_per_step

_NUMBER = 8
_WITHOUT_MATRICES = ("any", "phased", "kernel")
"""Families whose agents keep no matrix each."""
_PER_STEP = 5 + len(DIRECTIONS) * len(UNITS)
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container says how much of the machine it may use."""


def check_memory(algorithm: Algorithm, environment: Environment, horizon: int) -> None:
    """Raise `ConfigError`, with what it would take, unless the run can fit into this machine's memory."""
    available = machine_memory()
    if available is None:
        return
    trace, world = horizon * _PER_STEP * _NUMBER, least_memory(algorithm, environment)
    if trace + world <= available:
        return
    has = f"and this machine has {_shown(available)}"
    if trace > world:
        raise ConfigError(f"horizon: the trace of {horizon:,} steps needs at least {_shown(trace)} of memory, {has}")
    given = {name: getattr(environment, name, None) for name in ("clients", "dim", "arms", "pool")}
    told = ", ".join(f"{name}={value:,}" for name, value in given.items() if isinstance(value, int))
    raise ConfigError(
        f"{environment.about.name}: {told} needs at least {_shown(world)} of memory, {has}; take smaller ones"
    )


def least_memory(algorithm: Algorithm, environment: Environment) -> int:
    """Bytes that agents and arms take at the very least; 0 where the environment's parameters do not tell."""
    clients, dim, arms, pool = (_size(environment, name) for name in ("clients", "dim", "arms", "pool"))
    awake = awake_per_step(getattr(environment, "schedule", "all"), clients)
    shown = awake * arms * max(dim, 1) if getattr(environment, "draws", None) != "hash" else arms * dim
    return (shown + pool * dim + _learned(algorithm, clients, dim, arms)) * _NUMBER


def _learned(algorithm: Algorithm, clients: int, dim: int, arms: int) -> int:
    """Numbers that agents keep."""
    if algorithm.about.family in _WITHOUT_MATRICES:
        return 0
    said = getattr(algorithm, "numbers_held", None)
    if said is not None and dim:
        return int(said(clients, dim))
    return clients * (2 * dim**2 if dim else 2 * arms)


def machine_memory() -> int | None:
    """Bytes of memory that this machine, or the container this runs in, has; None where it does not say."""
    try:
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return None
    for limit in _LIMITS:
        try:
            sizes.append(int(limit.read_text()))
        except (OSError, ValueError):  # no container, or one without a limit
            continue
    return min(sizes)


def _size(environment: Environment, name: str) -> int:
    value = getattr(environment, name, None)
    return value if isinstance(value, int) else 0


def _shown(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size < 1e12 else f"{size / 1e9:,.0f} GB"
