"""The agents' end of a noise stage whose bounds are learned from what was released (`models.frames`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.channel.answering import asks
from fedbandits.channel.releasing import Post, Releasing
from fedbandits.channel.sensitivity import is_pooled
from fedbandits.channel.stage import Observed
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Embedding, Perturbation
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Utterance, hand_overs
from fedbandits.models.frames import Frames

if TYPE_CHECKING:
    from fedbandits.channel.gaussian import Gaussian


def check_framing(stage: Gaussian, name: str, says: tuple[Utterance, ...]) -> None:
    """Raise `ConfigError` where `stage` cannot learn bounds for the algorithm called `name`."""
    if stage.clip == "declared":
        return
    if stage.mechanism != "fresh":
        raise ConfigError(
            "gaussian: clip='learned' changes the shape of noise from one upload to the next, each of which is read by "
            f"itself, and what {stage.mechanism} noise has in common over uploads is of no use then; say "
            "mechanism=fresh"
        )
    if stage.unit == "agent":
        raise ConfigError(
            "gaussian: clip='learned' is about single observations, and unit='agent' cuts down whole uploads; leave "
            "one of them out, or use unit='person'"
        )
    if stage.constants == "thesis":
        raise ConfigError("gaussian: the thesis' constants are for declared bounds; leave clip='learned' out")
    uploads = [one for one in says if one.kind in hand_overs(says) and one.direction == "up"]
    if asks(says) or not all(is_pooled(one) for one in uploads):
        raise ConfigError(
            f"gaussian: clip='learned' needs sums over everybody, of arms and rewards alone, and {name} makes use of "
            "more; leave it out, or use fedlinucb-private or dislinucb"
        )


def check_plain(problem: Problem) -> None:
    """Raise `ConfigError` where models see something else than the arms, which alone are cut down here."""
    if problem.get(Embedding) is not None:
        raise ConfigError("gaussian: clip='learned' is about arms as they are, and these have features; leave it out")


class Framed(Releasing):
    """As `Releasing`, with observations cut down to each agent's frame, and noise in its shape.

    A frame follows from what the server told, and changes when an agent hears of the pool right after an upload of its
    own: observations that are still held were cut down to the frame before, and noise is made for that one.

    `turns` (n, 2) counts an agent's turns up to its last release, and up to the last change of its frame; `closed` (n,)
    its releases before that.
    """

    keeps: ClassVar[tuple[str, ...]] = (*Releasing.keeps, "frames", "turns", "closed")

    def __init__(self, post: Post) -> None:
        super().__init__(post)
        check_plain(post.problem)
        n, told = post.n, post.problem.get(Perturbation)
        assert told is not None
        (matrix,) = (field for field in self._fields if field.symmetric)
        (vector,) = (field for field in self._fields if not field.symmetric)
        self._vector = vector.name
        self.frames = Frames(post.problem, n, matrix.shape[0], told.agents, self._deviation)
        self.turns = np.zeros((n, 2), dtype=np.int64)
        self.closed = np.zeros(n, dtype=np.int64)

    def observing(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> Observed:
        """See `Releasing`; and cut down to the frame."""
        arms, picks, rewards = super().observing(who, arms, picks, rewards)
        rows = np.arange(len(picks))
        chosen, left = self.frames.cut(who, arms[rows, picks], rewards)
        arms = np.array(arms)
        arms[rows, picks] = chosen
        return arms, picks, left

    def outgoing(self, message: Message) -> Message:
        """See `Releasing`; who releases something holds nothing any more."""
        before = self.steps.made[message.who]
        sent = super().outgoing(message)
        released = message.who[self.steps.made[message.who] > before]
        self.turns[released, 0] = self.observed[released]
        return sent

    def _noise(self, who: IntArray) -> dict[str, FloatArray]:
        """See `Releasing`; in the shape of each agent's frame."""
        noise = super()._noise(who)
        matrix, vector = self.frames.shaped(who, noise[str(self._matrix)], noise[self._vector])
        return {str(self._matrix): matrix, self._vector: vector}

    def incoming(self, message: Message) -> Message:
        """Noisy sums, read as statistics, and a new frame for whoever has just released something."""
        told: Mapping[str, str] = self._told.get(message.kind, {})
        if self._matrix not in told:
            return message
        who, arrays, pair = message.who, dict(message.arrays), (str(self._matrix), self._vector)
        gram, moment = (self._total(who, name, told[name], arrays[name]) for name in pair)
        closing = (self.steps.made[who] > self.closed[who]) & (self.observed[who] == self.turns[who, 0])
        own = (self.observed[who] - self.turns[who, 1]).astype(np.float64)
        read = self.frames.read(who, gram, moment, own, closing)
        for name, value in zip(pair, read, strict=True):
            arrays[name] = self._handed_on(who, name, told[name], value)
        ending = who[closing]
        self.closed[ending] = self.steps.made[ending]
        self.turns[ending, 1] = self.observed[ending]
        return replace(message, arrays=arrays)
