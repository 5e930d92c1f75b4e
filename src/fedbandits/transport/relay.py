"""The relay: what peers say travels hop by hop, lives for a number of hops, and is counted on every link.

Which relay is a matter of cost alone: where nothing goes wrong, the closed form delivers what flooding would.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from fedbandits.contract.arrays import Array, BoolArray, IntArray, State
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.population import Peers
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Wire
from fedbandits.graphs.network import Faults
from fedbandits.transport.closed_form import ClosedForm
from fedbandits.transport.flooding import Flooding


class Relay(Protocol):
    """Carries messages between peers."""

    def round(self, peers: Peers, who: IntArray, step: int, reachable: BoolArray | None = None) -> None:
        """Let the agents in `who` speak, move everything one hop, and deliver.

        `reachable` (n,): who can send and receive in this round; None: everybody. Rounds are called one after another.
        """

    def state(self) -> State:
        """Everything that is under way, as named arrays."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Take up what was under way; raises before anything has changed."""


def relay_for(
    problem: Problem, faults: Faults, absences: bool, ledger: Ledger, wire: Wire, seed: np.random.SeedSequence
) -> Relay:
    """The relay for the network of `problem` under `faults`; `absences`: whether agents may be out of reach."""
    if problem.network is None:
        raise ValueError("a relay needs a problem with a network")
    if faults.any or absences:
        return Flooding(problem.network, problem.ttl, faults, absences, problem.arms, ledger, wire, seed)
    return ClosedForm(problem.network, problem.ttl, ledger, wire)
