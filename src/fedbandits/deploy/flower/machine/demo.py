"""A federation to watch, from its first moment: what needs no algorithm is started before they are imported."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fedbandits.deploy.flower.machine.switchboard import Switchboard

if TYPE_CHECKING:
    from fedbandits.deploy.flower.machine.demonstration import DemoResult


def run_demo(
    *,
    agents: int = 5,
    steps: int = 300,
    pace: float = 10.0,
    seed: int = 0,
    directory: Path | None = None,
    console: Console | None = None,
    alone: bool = False,
) -> DemoResult:
    """Deploy `agents` agents on this machine, let each take `steps` decisions at `pace` per second, show what happens.

    The traffic is that of a simulation under `seed`, and so is the comparison: the same agents with the same arms and
    noise, but without a federation. Rewards are noisy, which is where learning together pays. Decisions never wait for
    a synchronisation, so that regret depends a little on how fast the machine is. `directory`, which has to be new,
    keeps everything afterwards; without one, everything is removed. A process that is `alone` with this, without
    threads or open databases, is copied to become the nodes, which saves loading everything twice.
    """
    console = console or Console()
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="fedbandits-") as scratch:
            return _run(agents, steps, pace, seed, Path(scratch), console, alone)
    return _run(agents, steps, pace, seed, directory, console, alone)


def _run(agents: int, steps: int, pace: float, seed: int, directory: Path, console: Console, alone: bool) -> DemoResult:
    say = _clock(console)
    say(f"starting a SuperLink, its gate, {agents} nodes and the server")
    alone = alone and sys.platform == "linux"
    switchboard = Switchboard(directory, agents, executes=not alone)
    if alone:
        os.environ.update(switchboard.processes.environment)  # Flower reads it when it is imported
    try:
        switchboard.start()
        from fedbandits.deploy.flower.machine.demonstration import Demonstration  # takes as long as all the rest

        return Demonstration(switchboard, agents, steps, pace, seed, console, say).run(alone=alone)
    finally:
        switchboard.processes.stop()


def _clock(console: Console) -> Callable[[str], None]:
    """Says things with the seconds since now."""
    began = time.monotonic()

    def say(what: str) -> None:
        console.print(f"{time.monotonic() - began:6.1f} s  {what}")

    return say
