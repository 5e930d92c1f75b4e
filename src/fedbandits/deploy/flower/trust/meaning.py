"""What a message means to the algorithm itself: without what stages did to it on its way.

This is the one place where deployment looks through stages; everything else carries what they make of messages. What a
noise stage has added stays: nobody but the sender knows what was said without it, and what such a stage declares of its
messages is what can be held against them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedbandits.channel import Through, through
from fedbandits.channel.composition import laid_open
from fedbandits.channel.stage import Stage
from fedbandits.contract.algorithm import Algorithm, posed_by, wire_of
from fedbandits.contract.arrays import Array
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Direction, WireField


class Meaning:
    """Reads messages as the innermost algorithm hears them, or as they leave the stage that adds noise."""

    def __init__(self, algorithm: Algorithm, problem: Problem) -> None:
        core, stages = laid_open(algorithm)
        inside = _up_to_noise(core, stages)
        inner, outer = through(core, stages[:inside]), stages[inside:]
        self.noisy = inside > 0
        """Whether what is read carries the noise of a stage."""
        self._through = Through(inner, outer) if outer else None
        self._sent_about = problem
        self.problem = posed_by(core, problem)
        """What is known, also of what stages do to sums (`Distortion`, `Perturbation`)."""
        for stage in stages:
            self.problem = stage.poses(self.problem)
        self._declared = wire_of(inner, problem if self.noisy else self.problem)

    def fields(self, kind: str, direction: Direction) -> Mapping[str, WireField]:
        """What is declared of messages of a kind."""
        return self._declared.declared(kind, direction)

    def arrays(self, message: Message, direction: Direction) -> dict[str, Array]:
        """What the only agent of `message` says, or is told."""
        if self._through is not None:
            message = self._through.opened(self._sent_about, message, direction)
        return {name: array[0] for name, array in message.arrays.items()}


def _up_to_noise(core: Algorithm, stages: Sequence[Stage]) -> int:
    """How many of the `stages`, from the innermost, there are up to the last one that makes what is said private."""
    about, found = core.about, 0
    for number, stage in enumerate(stages, 1):
        said = stage.declares(about)
        if said.private and not about.private:
            found = number
        about = said
    return found
