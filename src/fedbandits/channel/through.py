"""An algorithm whose messages go through stages: itself an algorithm, run, metered and deployed like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedbandits.channel.stage import End, Stage
from fedbandits.contract.algorithm import Algorithm, sizes_of
from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.catalogue import About
from fedbandits.contract.description import describe
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Direction
from fedbandits.contract.wrapping import Wrapping


@dataclass(frozen=True)
class Through:
    """`algorithm`, whose messages go through `stages`, the first of them next to it.

    >>> from fedbandits.algorithms import DisLinUCB
    >>> from fedbandits.channel import Quantise
    >>> Through(DisLinUCB(threshold=2.0), (Quantise(bits=8),)).about.name
    'dislinucb|quantise'
    """

    algorithm: Algorithm
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigError("through: no stage is given; leave it out, or name one, as in quantise:bits=8")
        needing, hiding = ([stage.about.name for stage in self.stages if stage.about.rows == rows] for rows in _AT_ODDS)
        if needing and hiding:
            raise ConfigError(
                f"through: {needing[0]} looks at what each agent sends, and {hiding[0]} hides that; leave one out"
            )
        self.about  # noqa: B018  refuses stages that cannot serve the algorithm

    @cached_property
    def about(self) -> About:
        """The algorithm's entry in the catalogue, as the stages leave it."""
        return self._layers[-1]

    @cached_property
    def _layers(self) -> list[About]:
        """What is said before the first stage, and after each of them."""
        layers = [self.algorithm.about]
        for stage in self.stages:
            layers.append(stage.declares(layers[-1]))
        return layers

    def agents(self, problem: Problem, n: int, rng: Streams) -> Population:
        """n agents, and the stages' ends at their side."""
        inner = self.algorithm.agents(self._posed(problem), n, rng)
        return StagedAgents(inner, Ends(self._ends("up", problem, n, rng)))

    def server(self, problem: Problem, n: int, rng: Streams) -> Server | None:
        """The server, and the stages' ends at its side."""
        inner = self.algorithm.server(self._posed(problem), n, rng)
        return None if inner is None else StagedServer(inner, Ends(self._ends("down", problem, n, rng)))

    def sizes(self, problem: Problem) -> dict[str, int]:
        """The sizes that declared shapes name."""
        return sizes_of(self.algorithm, self._posed(problem))

    def described(self) -> dict[str, Any]:
        """The algorithm in plain values, and what it goes through."""
        return {**describe(self.algorithm), "through": [describe(stage) for stage in self.stages]}

    def opened(self, problem: Problem, message: Message, direction: Direction) -> Message:
        """What the algorithm itself will be told where `message`, which goes in `direction`, arrives first of all."""
        return _heard(Ends(self._ends("down" if direction == "up" else "up", problem, 1, _NOBODY)), message)

    def _posed(self, problem: Problem) -> Problem:
        for stage in self.stages:
            problem = stage.poses(problem)
        return problem

    def _ends(self, away: Direction, problem: Problem, n: int, rng: Streams) -> list[End]:
        sizes = self.sizes(problem)
        return [
            stage.ends(said.says, away, n, sizes, rng.apart("stage", place))
            for place, (stage, said) in enumerate(zip(self.stages, self._layers, strict=False))
        ]


_AT_ODDS = ("needs", "hides")
_NOBODY = Streams(np.random.SeedSequence(0), 1)


def through(algorithm: Algorithm, stages: Sequence[Stage]) -> Algorithm:
    """`algorithm` with its messages going through `stages`; itself where there are none."""
    if not stages:
        return algorithm
    if isinstance(algorithm, Through):
        return Through(algorithm.algorithm, (*algorithm.stages, *stages))
    return Through(algorithm, tuple(stages))


class Ends(End):
    """The ends of several stages at one side, as one: what leaves goes through the first stage first."""

    def __init__(self, ends: Sequence[End]) -> None:
        self._names = tuple(f"stage{place}" for place in range(len(ends)))
        for name, end in zip(self._names, ends, strict=True):
            setattr(self, name, end)
        self._all = tuple(ends)

    @property
    def keeps(self) -> tuple[str, ...]:  # type: ignore[override]
        """One part for each stage."""
        return self._names

    def outgoing(self, message: Message) -> Message:
        """See `End`."""
        for end in self._all:
            message = end.outgoing(message)
        return message

    def incoming(self, message: Message) -> Message:
        """See `End`."""
        for end in reversed(self._all):
            message = end.incoming(message)
        return message

    def returned(self, message: Message) -> Message:
        """See `End`."""
        for end in reversed(self._all):
            message = end.returned(message)
        return message

    def reached(self, who: IntArray) -> None:
        """See `End`."""
        for end in self._all:
            end.reached(who)


class StagedAgents(Wrapping):
    """`inner` agents whose messages go through `ends`. What a stage makes of a message costs no privacy beyond it."""

    keeps: ClassVar[tuple[str, ...]] = ("inner", "ends")

    def __init__(self, inner: Population, ends: Ends) -> None:
        super().__init__(inner)
        self.ends = ends

    def answer(self, request: Message) -> Message | None:
        """What the inner agents answer, through the stages."""
        reply = self.inner.answer(_heard(self.ends, request))
        if reply is None:
            return None
        sent = _sent(self.ends, reply)
        self.ends.reached(sent.who)
        return sent

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """The inner agents take back what the server would have heard."""
        self.inner.restore(self.ends.returned(sent), observed)


class StagedServer(Server):
    """An `inner` server whose messages go through `ends`."""

    keeps: ClassVar[tuple[str, ...]] = ("inner", "ends")

    def __init__(self, inner: Server, ends: Ends) -> None:
        self.inner = inner
        self.ends = ends

    def converse(self, callers: IntArray) -> Conversation:
        """What the inner server says, through the stages."""
        conversation = self.inner.converse(callers)
        try:
            request = next(conversation)
            while True:
                reply = yield _sent(self.ends, request)
                self.ends.reached(reply.who)
                request = conversation.send(_heard(self.ends, reply))
        except StopIteration:
            return

    def portrait(self) -> State:
        """As the inner server shows."""
        return self.inner.portrait()


def _sent(ends: Ends, message: Message) -> Message:
    """A signal has nothing that a stage could change."""
    return ends.outgoing(message) if message.arrays else message


def _heard(ends: Ends, message: Message) -> Message:
    return ends.incoming(message) if message.arrays else message
