"""Agents around agents: a population that is another one but for what a subclass changes."""

from __future__ import annotations

from typing import ClassVar

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Choices, Ellipsoids, Population
from fedbandits.contract.protection import Protection
from fedbandits.contract.room import Room


class Wrapping(Population):
    """`inner` agents, for subclasses that change what they learn or say to a server."""

    keeps: ClassVar[tuple[str, ...]] = ("inner",)

    def __init__(self, inner: Population) -> None:
        super().__init__(len(inner))
        self.inner = inner

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """As the inner agents do."""
        return self.inner.choose(who, arms)

    def propose(self, who: IntArray, arms: FloatArray, room: Room) -> FloatArray | None:
        """As the inner agents do."""
        return self.inner.propose(who, arms, room)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """As the inner agents do."""
        self.inner.learn(who, arms, picks, rewards)

    def attribute(self, who: IntArray, persons: IntArray) -> None:
        """As the inner agents do."""
        self.inner.attribute(who, persons)

    @property
    def stages(self) -> int | None:
        """As the inner agents have."""
        return self.inner.stages

    def situate(self, who: IntArray, stages: IntArray) -> None:
        """As the inner agents are."""
        self.inner.situate(who, stages)

    def standing(self, who: IntArray) -> IntArray | None:
        """As the inner agents do."""
        return self.inner.standing(who)

    def truncate(self, who: IntArray, arms: FloatArray) -> None:
        """As the inner agents do."""
        self.inner.truncate(who, arms)

    def calling(self) -> BoolArray:
        """As the inner agents do."""
        return self.inner.calling()

    def answer(self, request: Message) -> Message | None:
        """As the inner agents do."""
        return self.inner.answer(request)

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """As the inner agents do."""
        self.inner.restore(sent, observed)

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """As the inner agents tell."""
        return self.inner.scores(who, arms)

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """As the inner agents tell."""
        return self.inner.chances(who, arms)

    def choose_and_tell(self, who: IntArray, arms: FloatArray) -> Choices:
        """As the inner agents do."""
        return self.inner.choose_and_tell(who, arms)

    def urgency(self) -> FloatArray | None:
        """As the inner agents tell."""
        return self.inner.urgency()

    def preparing(self) -> BoolArray | None:
        """As the inner agents tell."""
        return self.inner.preparing()

    def ellipsoids(self) -> Ellipsoids | None:
        """As the inner agents tell."""
        return self.inner.ellipsoids()

    @property
    def delta(self) -> float:
        """As the inner agents tell."""
        return self.inner.delta

    def spent(self) -> FloatArray | None:
        """As the inner agents tell."""
        return self.inner.spent()

    def protection(self) -> Protection | None:
        """As the inner agents tell."""
        return self.inner.protection()

    def portrait(self) -> State:
        """As the inner agents show."""
        return self.inner.portrait()
