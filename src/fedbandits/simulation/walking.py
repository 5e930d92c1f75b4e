"""When a compiled loop over turns is worth its compiling, which takes longer than many a run does.

Step by step or in the loop a run is the same to the last bit (`contract.compiled`), so that this is about time alone. A
loop that is at hand, in this process or on disk, is taken at once. One that would have to be compiled first is done
without until that has taken, or will have taken by the end, about as long as compiling it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedbandits.linalg.shelf import is_at_hand, is_loaded, kinds_of

WORTH_SECONDS = 10.0
"""About what it takes to compile a loop, in seconds of a processor, as all others here: from 3 to 16."""
STEP_SECONDS, DECISION_SECONDS = 50e-6, 2e-6
"""What a step, and each decision in it, takes at least when Python goes through it."""
_FEW = 16
"""So many steps tell nothing of the others yet: each may be the first to do something, which has to be loaded."""


@dataclass
class Spent:
    """What all runs of this process that would use the same loop have spent for want of it."""

    seconds: float = 0.0


class Walk:
    """A run with `awake` decisions in a step that goes step by step for want of a loop."""

    def __init__(self, spent: Spent, awake: int) -> None:
        self._spent = spent
        self._least = STEP_SECONDS + DECISION_SECONDS * awake
        self._steps = 0
        self._quickest = math.inf

    def note(self, seconds: float) -> None:
        """Another step has been gone, in `seconds`."""
        self._steps += 1
        self._quickest = min(self._quickest, seconds)
        self._spent.seconds += seconds

    def is_enough(self, ahead: int) -> bool:
        """Whether what was spent and `ahead` more steps are worth compiling. Of the latter each counts as the quickest
        so far: others may have been kept by something that happens once.
        """
        pace = self._least if self._steps < _FEW else max(self._least, self._quickest)
        return self._spent.seconds + pace * ahead >= WORTH_SECONDS


_spent: dict[tuple[Any, ...], Spent] = {}


def walk_for_want_of(loop: Any, arguments: Sequence[Any], awake: int) -> Walk | None:
    """How to go on until `loop` has been compiled for such `arguments`; None where it is at hand. The disk is looked at
    once: what another process has put there since is found when it is worth compiling.
    """
    kinds = kinds_of(loop, arguments)
    spent = _spent.get((loop, *kinds))
    if is_at_hand(loop, kinds) if spent is None else is_loaded(loop, kinds):
        return None
    return Walk(_spent.setdefault((loop, *kinds), Spent()), awake)
