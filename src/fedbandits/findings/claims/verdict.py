"""What was found about a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Finding = Literal["holds", "fails", "undecided"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, whether it holds, and the figures that say so."""

    text: str
    verdict: Finding
    measured: str
    """The figures in words."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The figures as plain values."""


def all_of(found: Sequence[Finding]) -> Finding:
    """Whether all hold: fails if one fails, undecided if one is."""
    return "fails" if "fails" in found else "undecided" if "undecided" in found else "holds"
