"""What a measurement needs compiled is compiled before it, however short it is."""

from __future__ import annotations

from typing import Any

import fedbandits as fb


def warm_up(algorithm: Any, environment: Any, steps: int, **options: Any) -> None:
    """Run a few steps by compiled functions, which runs that follow in this process then find at hand."""
    # not `simulate`, which refuses a network that is not used: some stand here to be compared with
    run = fb.Simulation(algorithm, environment, steps, **options)
    run.compiled = True
    run.run()
