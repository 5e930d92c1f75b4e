"""What a message means to the algorithm itself: without what stages did to it on its way.

This is the one place where deployment looks through stages; everything else carries what they make of messages.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedbandits.channel import Through
from fedbandits.contract.algorithm import Algorithm, posed_by, wire_of
from fedbandits.contract.arrays import Array
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Direction, WireField


class Meaning:
    """Reads messages as the innermost algorithm hears them."""

    def __init__(self, algorithm: Algorithm, problem: Problem) -> None:
        self._through = algorithm if isinstance(algorithm, Through) else None
        self._sent_about = problem
        self.problem = problem
        """What is known, also of what stages do to sums (`Distortion`)."""
        for stage in () if self._through is None else self._through.stages:
            self.problem = stage.poses(self.problem)
        inner = algorithm if self._through is None else self._through.algorithm
        self._declared = wire_of(inner, self.problem)
        self.problem = posed_by(inner, self.problem)

    def fields(self, kind: str, direction: Direction) -> Mapping[str, WireField]:
        """What the algorithm declares of messages of a kind."""
        return self._declared.declared(kind, direction)

    def arrays(self, message: Message, direction: Direction) -> dict[str, Array]:
        """What the only agent of `message` says, or is told."""
        if self._through is not None:
            message = self._through.opened(self._sent_about, message, direction)
        return {name: array[0] for name, array in message.arrays.items()}
