"""What a reader would wonder about, explained where the results at hand show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fedbandits.report.private_peers import private_with_less_regret
from fedbandits.report.remark import Remark

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

REMARKS: list[Callable[[Results], list[Remark]]] = [private_with_less_regret]


def remarks(results: Results) -> list[Remark]:
    """Everything that is to be said beside the pictures; mostly nothing."""
    return [found for look in REMARKS for found in look(results)]
