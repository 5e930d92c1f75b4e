"""How noisy sums are made, so that they protect people."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value

_Size = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@value
class Perturbation(Fact):
    """Sums over all agents arrive with Gaussian noise, of standard deviations that are at most these.

    Told by noise stages to whoever reads sums, or says how far estimates may be off (`models.noisy_sums`).
    """

    name: ClassVar[str] = "perturbation"

    matrix: _Size
    """Of a matrix's entries off the diagonal; those on it have sqrt(2) times as much."""
    vector: _Size
    """Of a vector's entries."""
    agents: Annotated[int, Field(ge=1)] = 1
    """Over how many agents sums are."""
    releases: Annotated[int, Field(ge=1)] = 1
    """How often each of them contributes to a sum."""
    printed: _Size = 0.0
    """Where the thesis' printed constants are used: sigma_N sqrt(2m) for one agent, with its logarithms; else 0."""
