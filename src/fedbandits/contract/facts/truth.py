"""What only oracles are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedbandits.contract.facts.fact import Fact


@dataclass(frozen=True)
class Truth(Fact):
    """What a world knows and everybody else has to find out: `clusters`, the cluster that each agent belongs to.

    No problem that an environment poses holds it. It is what `World.truth` tells, handed on to algorithms that say of
    themselves that they are oracles (`About.oracle`), and to portraits, which show it beside what was found out.
    """

    name: ClassVar[str] = "truth"

    clusters: tuple[int, ...]
