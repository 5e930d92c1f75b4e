"""What is kept of one simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from fedbandits.contract.arrays import FloatArray, State


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What is kept of one simulation."""

    frame: pd.DataFrame
    """`Trace.frame`, thinned as the task says."""
    regret_by_client: FloatArray
    """(n,) pseudo-regret of each agent at the end."""
    seconds: float
    portrait: State = field(default_factory=dict)
    """`Trace.portrait`, without what is too large to be kept; see `portrait`."""
