"""Something in the results that calls for an explanation, and the explanation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Remark:
    """`what` is to be seen in the results at hand, and `why`: what was measured, or follows from a definition."""

    what: str
    why: str
