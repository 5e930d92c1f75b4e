"""Agents and servers whose messages go through the ends of stages."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.channel.ends import Ends
from fedbandits.channel.pace import Pace, learn_through, lets_call
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State, check_arms, check_feedback
from fedbandits.contract.compiled import calls, choose, learn, stands_for, untouched
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.population import Choices, Ellipsoids, Population
from fedbandits.contract.protection import Protection
from fedbandits.contract.room import Room
from fedbandits.contract.server import Server, patience_of
from fedbandits.contract.streams import Streams, WordArray
from fedbandits.contract.wrapping import Wrapping
from fedbandits.linalg.jit import jit_inside
from fedbandits.models import untold


class Staged(NamedTuple):
    """`StagedAgents` for compiled loops."""

    inner: Any
    pace: Pace


@stands_for(choose, Staged)
@jit_inside
def _choose(agents: Staged, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    return choose(agents.inner, i, arms, row, room)


@stands_for(learn, Staged)
@jit_inside
def _learn(agents: Staged, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    return learn_through(agents.pace, agents.inner, i, arms, row, pick, reward, room)


@stands_for(calls, Staged)
@jit_inside
def _calls(agents: Staged, i: int) -> bool:
    return lets_call(agents.pace, i, calls(agents.inner, i))


class Blind(NamedTuple):
    """`BlindAgents` for compiled loops."""

    inner: Any
    acting: Any
    pace: Pace
    told: BoolArray
    words: WordArray


@stands_for(choose, Blind)
@jit_inside
def _choose_blindly(agents: Blind, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    return choose(agents.acting, i, arms, row, room) if agents.told[i] else untold.drawn(agents.words, i, arms, row)


@stands_for(learn, Blind)
@jit_inside
def _learn_blindly(
    agents: Blind, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> bool:
    return learn_through(agents.pace, agents.inner, i, arms, row, pick, reward, room)


@stands_for(calls, Blind)
@jit_inside
def _calls_blindly(agents: Blind, i: int) -> bool:
    return lets_call(agents.pace, i, calls(agents.inner, i))


_SPOKEN_FOR = ("choose", "learn", "calling")


class StagedAgents(Wrapping):
    """`inner` agents whose messages go through `ends`. What a stage makes of a message costs no privacy beyond it."""

    keeps: ClassVar[tuple[str, ...]] = ("inner", "ends")

    def __init__(self, inner: Population, ends: Ends, dim: int) -> None:
        super().__init__(inner)
        self.ends = ends
        self._dim = dim

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """What the stages make of the observation."""
        check_feedback(who, arms, picks, rewards, len(self), self._dim)  # before a stage has taken note of it
        self.inner.learn(who, *self.ends.observing(who, arms, picks, rewards))

    def compiled(self) -> Any:
        """See `Population`: where those inside have compiled functions, and the stages a pace; of agents to whom all
        decisions are alike.
        """
        if not untouched(self, StagedAgents, *_SPOKEN_FOR) or self.inner.stages is not None:
            return None
        inner, pace = self.inner.compiled(), self.ends.pace(len(self), self._dim)
        return None if inner is None or pace is None else Staged(inner, pace)

    def tend(self) -> None:
        """As the inner agents do."""
        self.inner.tend()

    def attribute(self, who: IntArray, persons: IntArray) -> None:
        """As the stages want to know."""
        self.inner.attribute(who, persons)
        self.ends.attributed(who, persons)

    def calling(self) -> BoolArray:
        """As the stages let the inner agents do."""
        return self.ends.calling(self.inner.calling())

    def urgency(self) -> FloatArray | None:
        """As the stages let the inner agents be."""
        return self.ends.urgency(self.inner.urgency())

    def answer(self, request: Message) -> Message | None:
        """What the inner agents answer, through the stages."""
        reply = self.inner.answer(heard(self.ends, request))
        return None if reply is None else self._sent(reply)

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """The inner agents take back what the server would have heard, unless a stage keeps it."""
        left = self.ends.returned(sent)
        if left is not None:
            self.inner.restore(left, observed)

    @property
    def delta(self) -> float:
        """That of the stage that protects, or of the inner agents."""
        found = self.ends.protection()
        return self.inner.delta if found is None else found.delta

    def spent(self) -> FloatArray | None:
        """What the stage that protects has spent, by the strict definition, or the inner agents."""
        found = self.ends.protection()
        return self.inner.spent() if found is None else found.strictly

    def protection(self) -> Protection | None:
        """That of the stages, or of the inner agents."""
        found = self.ends.protection()
        return self.inner.protection() if found is None else found

    def portrait(self) -> State:
        """As the inner agents show, and the stages."""
        return {**self.inner.portrait(), **self.ends.portrait()}

    def _sent(self, reply: Message) -> Message | None:
        """What leaves; nothing where all of them decline."""
        sent = self.ends.outgoing(reply) if reply.arrays else reply
        self.ends.reached(sent.who)
        return sent if len(sent.who) else None


class BlindAgents(StagedAgents):
    """Agents that learn, and others that act: what `inner` agents observe moves no choice but through the server.

    `acting` agents never learn; they are told what the server tells everybody, and choose. Whatever leaves an agent,
    its choices included, then follows from what was released before: that is all its privacy rests on, whatever the
    algorithm. Until they are told something they choose at random, each from its own stream. Memory and what it costs
    to take in a message are twice those of agents who see.
    """

    keeps: ClassVar[tuple[str, ...]] = ("inner", "ends", "acting", "told", "rng")

    def __init__(self, inner: Population, acting: Population, ends: Ends, dim: int, rng: Streams) -> None:
        super().__init__(inner, ends, dim)
        self.acting = acting
        self.told = np.zeros(len(inner), dtype=np.bool_)
        """(n,) who has been told anything."""
        self.rng = rng

    def situate(self, who: IntArray, stages: IntArray) -> None:
        """Both are."""
        self.inner.situate(who, stages)
        self.acting.situate(who, stages)

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """What acting agents choose; at random where nothing is known."""
        check_arms(who, arms, len(self), self._dim)
        self._stand(who)
        return untold.choices(self.told[who], who, arms, self.acting.choose, self.rng)

    def compiled(self) -> Any:
        """See `StagedAgents`."""
        if not untouched(self, BlindAgents, *_SPOKEN_FOR) or self.inner.stages is not None:
            return None
        inner, acting, pace = self.inner.compiled(), self.acting.compiled(), self.ends.pace(len(self), self._dim)
        if inner is None or acting is None or pace is None or not untouched(self.rng, Streams, "uniform"):
            return None
        return Blind(inner, acting, pace, self.told, self.rng.words)

    def propose(self, who: IntArray, arms: FloatArray, room: Room) -> FloatArray | None:
        """What acting agents propose; nothing where choices are random."""
        check_arms(who, arms, len(self), self._dim)
        self._stand(who)
        found = self.acting.propose(who, arms, room)
        told = self.told[who][:, None, None]
        return None if found is None else np.where(told, found, arms[:, -room.slots :])

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """Those of acting agents; NaN where choices are random."""
        self._stand(who)
        found = self.acting.scores(who, arms)
        return None if found is None else untold.compared(self.told[who], found)

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """Those of acting agents; all the same where choices are random."""
        self._stand(who)
        told, found = self.told[who], self.acting.chances(who, arms)
        scores = self.acting.scores(who, arms) if found is None and not told.all() else None
        return untold.chances(told, who, found, scores)

    def choose_and_tell(self, who: IntArray, arms: FloatArray) -> Choices:
        """See `Population`."""
        check_arms(who, arms, len(self), self._dim)
        if self.told[who].all():
            self._stand(who)
            return self.acting.choose_and_tell(who, arms)
        return Population.choose_and_tell(self, who, arms)

    def answer(self, request: Message) -> Message | None:
        """Learning agents hand over what they have; both are told what the server tells."""
        told = heard(self.ends, request)
        reply = self.inner.answer(told)
        if reply is not None:
            return self._sent(reply)
        self.acting.answer(told)
        self.told[request.who] = True
        return None

    def ellipsoids(self) -> Ellipsoids | None:
        """As acting agents tell."""
        return self.acting.ellipsoids()

    def _stand(self, who: IntArray) -> None:
        """Acting agents never learn, so that they do not count: learning ones know which stage each of `who` is in."""
        standing = self.inner.standing(who)
        if standing is not None:
            self.acting.situate(who, standing)

    def portrait(self) -> State:
        """As acting agents show, and the stages."""
        return {**self.acting.portrait(), **self.ends.portrait()}


class StagedServer(Server):
    """An `inner` server whose messages go through `ends`."""

    keeps: ClassVar[tuple[str, ...]] = ("inner", "ends")

    def __init__(self, inner: Server, ends: Ends) -> None:
        self.inner = inner
        self.ends = ends

    @property
    def retracts(self) -> bool:  # type: ignore[override]
        """As the inner server, if that hears what is sent as it is."""
        return self.inner.retracts and self.ends.passes

    def converse(self, callers: IntArray) -> Conversation:
        """What the inner server says, through the stages."""
        conversation = self.inner.converse(callers)
        try:
            request = next(conversation)
            while True:
                reply = yield self.ends.outgoing(request) if request.arrays else request
                self.ends.reached(reply.who)
                request = conversation.send(heard(self.ends, reply))
        except StopIteration:
            return

    def patience(self) -> int:
        """As the inner server has."""
        return patience_of(self.inner)

    def passed(self, steps: int) -> None:
        """As the inner server is told."""
        self.inner.passed(steps)

    def portrait(self) -> State:
        """As the inner server shows."""
        return self.inner.portrait()


def heard(ends: Ends, message: Message) -> Message:
    """What arrives, through `ends`; a signal has nothing that a stage could change."""
    return ends.incoming(message) if message.arrays else message
