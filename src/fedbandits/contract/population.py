"""A population: n agents that decide, learn and talk, held as arrays with a leading axis n."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State
from fedbandits.contract.messages import Closing, Inbox, Message, Opening
from fedbandits.contract.protection import Protection
from fedbandits.contract.room import Room
from fedbandits.contract.state import Stateful
from fedbandits.contract.wire import WireError

Ellipsoids = tuple[FloatArray, FloatArray, FloatArray]
"""Centres (n, d), matrices V (n, d, d), widths (n,): agent i believes that ||theta_i - centre_i||_{V_i} <= width_i."""


class Choices(NamedTuple):
    """What agents chose, (w,), and what they compared and with which chances, (w, K) each where they tell it."""

    picks: IntArray
    scores: FloatArray | None
    chances: FloatArray | None


class Population(Stateful):
    """n agents. Subclasses say how they `choose` and `learn`, and what of the rest is not as it is here.

    `who` (w,) are the agents awake in this step, each at most once. In a simulation n is everybody, and one call moves
    all of them; inside one product n is 1. What an agent computes must not depend on who else is in the population, to
    the last bit. What makes up the state is named by `keeps`; see `Stateful`.

    Agents that talk to a server say when (`calling`) and what (`answer`); agents that talk to each other, what they say
    (`say`) and what they make of what they hear (`hear`). The other methods are for those who look on.
    """

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    @abstractmethod
    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """(w,), (w, K, d) -> (w,) index of the arm each agent takes. Exact ties: lowest index."""
        raise NotImplementedError

    def propose(self, who: IntArray, arms: FloatArray, room: Room) -> FloatArray | None:
        """(w,), (w, K, d) -> (w, slots, d) points that the agents would like to choose from in place of the last of
        `arms`; where one has nothing to propose, these themselves. None where nobody has. Changes nothing, and each
        row depends on nobody else. Whoever asks may cut points to the `room`.
        """
        return None

    @abstractmethod
    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """Take in one observation for each agent in `who`."""
        raise NotImplementedError

    def attribute(self, who: IntArray, persons: IntArray) -> None:
        """What each of `who` learns next is about a person: `persons` (w,) are numbers that stand for them, the same
        one for the same person. Only those who protect persons want to know.
        """

    # without the interpreter

    def compiled(self) -> Any:
        """The arrays these agents are made up of, by reference, in a named tuple for which compiled functions stand
        (`contract.compiled`); None where there are none, or where these agents do not do now what those would do.
        Asked for again whenever anything but those functions may have changed the agents.
        """
        return None

    def corresponding(self, letters: IntArray) -> int:
        """Agents are about to talk to each other without the interpreter (`contract.post`), `letters` (n,) being how
        many each of them gets in a round: how many numbers one takes. 0 where they have to be asked (`say`, `hear`).
        """
        return 0

    def tend(self) -> None:
        """Do what compiled functions leave to be done after a step that they played."""

    def answering(self) -> Any:
        """The arrays that `answer` reads and writes, by reference, in a named tuple of a type that says how: for
        servers that talk to these agents without the interpreter (`Server.compiled`). None where they have to be asked.
        """
        return None

    # in episodes

    @property
    def stages(self) -> int | None:
        """How many decisions an episode has at most, for agents who plan (the fact `Episodes`); None where each
        decision stands for itself.
        """
        return None

    def situate(self, who: IntArray, stages: IntArray) -> None:
        """Each of `who` is asked in that stage of an episode (w,), from 0, until it learns something. Agents who plan
        count the turns of one episode after the other; whoever has several under way at once, and lets an agent learn
        one of them whole when it is over, says which stage a choice is for.
        """

    def standing(self, who: IntArray) -> IntArray | None:
        """(w,) the stage that each of `who` would choose in now; None where each decision stands for itself."""
        return None

    def truncate(self, who: IntArray, arms: FloatArray) -> None:
        """The running episode of each of `who` is followed no further, though it need not be over: `arms` (w, K, d) are
        where its last choice has led. What is known of it counts; nothing where it has not begun.
        """

    # with a server

    def calling(self) -> BoolArray:
        """(n,) whose trigger has fired: who asks the server for a conversation. Nobody, unless a subclass says so."""
        return np.zeros(self._n, dtype=np.bool_)

    def answer(self, request: Message) -> Message | None:
        """Do what `request` says to its addressees; None where there is nothing to send back."""
        raise WireError(f"{type(self).__name__} do not understand {request.kind!r}")

    def pursue(self, opening: Opening) -> Closing | None:
        """What `answer` would say to the last request of a course, all of whose rounds are played; None where these
        agents do not know such a course, or would not answer now as those do who know it.
        """
        return None

    def ponder(self, request: Message) -> Callable[[], Message] | None:
        """How to find what `answer` would say to `request` now, where that changes nothing and may take long; None
        where `answer` itself has to be asked, as always unless a subclass says otherwise.

        The work rests on what is known at this moment: it may be done in another thread while the agents go on learning
        and choosing, and comes to the same bits. Whoever has done it need not call `answer`.
        """
        return None

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What the agents handed over in `sent`, their latest such answer, was not taken in: it is theirs again.

        `observed` (w,) is how many observations each of them had made since the answer before it: counts need not be
        part of a message. Increments then count as not handed over, and are sent with whatever else is new when the
        server asks the next time; until then the agents go on as if they had not been asked. Agents that hand over
        increments say how; others have nothing to take back. Raises `WireError` before anything has changed.
        """
        raise WireError(f"{type(self).__name__} cannot take back {sent.kind!r}")

    # with each other

    def say(self, learned: IntArray) -> Sequence[Message]:
        """What agents send to their neighbours in this round: at most one message of each declared kind.

        `learned` are those who have just learned something. Others may speak as well: the senders are `Message.who`,
        who have to be reachable to be heard.
        """
        return ()

    def hear(self, inbox: Inbox) -> None:
        """Take in what the relay delivers at the end of the round, once for each kind of message, in declared order."""
        raise WireError(f"{type(self).__name__} do not understand {inbox.said.kind!r}")

    # for those who look on

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """(w,), (w, K, d) -> (w, K) what `choose` would compare now, the highest being chosen, the first of equals;
        NaN in the rows of agents who compare nothing in this turn, None where nobody does. Changes nothing.
        """
        return None

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """(w,), (w, K, d) -> (w, K) with which probability `choose` would take each arm now, all that was learned being
        what it is; None where it does not draw for any of `who`. Changes nothing, streams included.
        """
        return None

    def choose_and_tell(self, who: IntArray, arms: FloatArray) -> Choices:
        """`choose`, with what `scores` and `chances` say right before. The same as the three calls, to the last bit;
        subclasses whose choices follow from their scores may do it at the cost of one.
        """
        scores, chances = self.scores(who, arms), self.chances(who, arms)
        return Choices(self.choose(who, arms), scores, chances)

    def urgency(self) -> FloatArray | None:
        """(n,) how close each agent is to calling: 0 after a conversation, 1 where it does; None without a trigger."""
        return None

    def preparing(self) -> BoolArray | None:
        """(n,) who is still in a first phase, in which it only gathers what it will act on later; None where there is
        no such phase.
        """
        return None

    def ellipsoids(self) -> Ellipsoids | None:
        """What each agent believes of its parameter; None where it has no confidence ellipsoid."""
        return None

    @property
    def delta(self) -> float:
        """The delta at which `spent` holds."""
        return 0.0

    def spent(self) -> FloatArray | None:
        """(n,) epsilon of differential privacy spent so far, infinite where what an agent does is not private; None
        where nothing is claimed.
        """
        return None

    def protection(self) -> Protection | None:
        """The budget that agents keep, and what they have spent of it; None where none was set. `spent` follows."""
        return None

    def portrait(self) -> State:
        """Named arrays for people to look at; see `portrait`. Copies."""
        return {}
