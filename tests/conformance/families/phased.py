"""The phased family: what its agents pull follows from a design, and is recomputed in `tests/algorithms/phased`."""

from __future__ import annotations

from conformance.family import Family

FAMILY = Family(
    small={"linear-fixed": {"clients": 6, "dim": 5, "arms": 7}},
    confident=({}, {"share": 0.0}, {"share": 0.4}),
)
