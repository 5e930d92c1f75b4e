"""Claims from the plain values of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from fedbandits.findings.claims.between import Between
from fedbandits.findings.claims.frontier import Frontier
from fedbandits.findings.claims.growth import Growth
from fedbandits.findings.claims.less import Less
from fedbandits.findings.claims.monotone import Monotone

Claim = Annotated[Less | Monotone | Growth | Frontier | Between, Field(discriminator="kind")]


def parse_claims(claims: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Claims from plain values."""
    return TypeAdapter(list[Claim]).validate_python(claims)
