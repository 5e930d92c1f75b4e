"""How much memory regressions take: matrices of each agent's own, or what was told alike once."""

from __future__ import annotations

from typing import Literal

from fedbandits.contract.parameters import parameters
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.shared_ridge import SharedRidge, numbers_held

_OWN = 4e9
"""Bytes that matrices of each agent's own may take, before they are shared."""

_LETTERS = 2**18
"""Numbers of matrices that are handed over at once where they are shared: a cache full."""


@parameters
class Keeping:
    """`memory`: ``"own"``, matrices of its own for each agent (`models.ridge`), 24 n d^2 bytes; ``"shared"``, one for
    all who were told the same, and own observations one by one (`models.shared_ridge`), about 32 n d bytes: for those
    of whom everybody is told everything now and then. ``"auto"`` shares where own matrices would take more than 4 GB
    for all n agents of the problem, whatever the machine has. Decisions are the same, but where rounding decides.
    """

    memory: Literal["auto", "own", "shared"] = "auto"

    def shares(self, agents: int, dim: int) -> bool:
        """Whether matrices are shared among `agents` agents."""
        return self.memory == "shared" or (self.memory == "auto" and 24 * agents * dim**2 > _OWN)

    def regressions(self, agents: int, n: int, dim: int, ridge: float) -> RidgeModels:
        """n regressions that know nothing yet, of a problem of `agents` agents."""
        return (SharedRidge if self.shares(agents, dim) else RidgeModels)(n, dim, ridge)

    def portion(self, agents: int, dim: int) -> int | None:
        """How many of `agents` agents are asked for matrices at once; None for all of them."""
        return max(1, _LETTERS // dim**2) if self.shares(agents, dim) else None

    def numbers_held(self, agents: int, dim: int) -> int:
        """How many numbers `agents` agents keep at the very least."""
        return agents * numbers_held(dim) + 3 * dim**2 if self.shares(agents, dim) else agents * 2 * dim**2
