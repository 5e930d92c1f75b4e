"""Algorithms whose statistics are not those of linear regression: deployment knows of them what they declare."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Norms
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Bound, Free, Ragged, Utterance, WireField, vector
from fedbandits.models import limits


def arm_norm(problem: Problem, asked: object) -> float:
    """L."""
    return problem.get(Norms, Norms()).arms


def entry(name: str, *says: Utterance, private: bool = False) -> About:
    """A catalogue entry with nothing in it but what deployment reads."""
    return About(
        name=name,
        family="toy",
        topology="star",
        talks="after every few observations",
        says=says,
        guarantee="none",
        source="here",
        private=private,
    )


class InTurn(Population):
    """Agents that take all arms in turn, and call after every few observations."""

    keeps: ClassVar[tuple[str, ...]] = ("turns", "new")

    def __init__(self, n: int, every: int) -> None:
        super().__init__(n)
        self._every = every
        self.turns = np.zeros(n, dtype=np.int64)
        self.new = np.zeros(n, dtype=np.int64)

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        self.turns[who] += 1
        return (self.turns[who] - 1) % arms.shape[1]

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        self.new[who] += 1
        self._observe(who, arms[np.arange(len(who)), picks], rewards)

    def calling(self) -> BoolArray:
        return self.new >= self._every

    def _observe(self, who: IntArray, chosen: FloatArray, rewards: FloatArray) -> None:
        raise NotImplementedError


class Collecting(Server):
    """Collects from everybody when somebody calls, adds up, and tells everybody how much there is."""

    keeps: ClassVar[tuple[str, ...]] = ("total",)

    def __init__(self, n: int, size: int) -> None:
        self._everybody = np.arange(n)
        self.total = np.zeros(size)

    def converse(self, callers: IntArray) -> Conversation:
        if len(callers) == 0:
            return
        reply = yield Message("collect", self._everybody)
        if reply.arrays:
            self._take_in(reply)
        yield Message(
            "known", self._everybody, {"total": np.broadcast_to(self.total, (len(self._everybody), len(self.total)))}
        )

    def _take_in(self, reply: Message) -> None:
        raise NotImplementedError


COLLECT = Utterance("collect", "down")


# points of a dictionary, as many as each agent has


@parameters
class Points:
    """Every distinct arm that was chosen since the last upload, how often it was, and what it brought in all."""

    every: int = 3

    about: ClassVar[About] = entry(
        "toy-points",
        COLLECT,
        Utterance(
            "points",
            "up",
            (
                WireField("points", (Ragged("m"), "d"), adds="increment", bound=Bound(arm_norm)),
                WireField("counts", (Ragged("m"),), dtype="i8", counts=True, adds="increment"),
                WireField("sums", (Ragged("m"),), adds="increment", bound=Bound(limits.reward)),
            ),
        ),
        Utterance("known", "down", (WireField("total", (2,)),)),
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> PointsAgents:
        return PointsAgents(n, self.every, problem)

    def server(self, problem: Problem, n: int, rng: Streams) -> PointsServer:
        return PointsServer(n, 2)


class PointsAgents(InTurn):
    """Their dictionaries have room for one point of each turn."""

    keeps: ClassVar[tuple[str, ...]] = (*InTurn.keeps, "points", "counts", "sums", "held")

    def __init__(self, n: int, every: int, problem: Problem) -> None:
        super().__init__(n, every)
        self.points = np.zeros((n, problem.horizon, problem.dim))
        self.counts = np.zeros((n, problem.horizon), dtype=np.int64)
        self.sums = np.zeros((n, problem.horizon))
        self.held = np.zeros(n, dtype=np.int64)

    def _observe(self, who: IntArray, chosen: FloatArray, rewards: FloatArray) -> None:
        for agent, arm, reward in zip(who, chosen, rewards, strict=True):
            self._put(agent, arm, 1, reward)

    def _put(self, agent: int, arm: FloatArray, count: int, total: float) -> None:
        known = (self.points[agent, : self.held[agent]] == arm).all(axis=1)
        place = int(np.argmax(known)) if known.any() else int(self.held[agent])
        self.held[agent] += not known.any()
        self.points[agent, place] = arm
        self.counts[agent, place] += count
        self.sums[agent, place] += total

    def restore(self, sent: Message, observed: FloatArray) -> None:
        self.new[sent.who] += observed.astype(np.int64)
        for row, agent in enumerate(sent.who):
            for place in range(sent.lengths["m"][row]):
                self._put(agent, *(sent.arrays[name][row, place] for name in ("points", "counts", "sums")))

    def answer(self, request: Message) -> Message | None:
        who = request.who
        if request.kind == "known":
            return None
        longest = int(self.held[who].max(initial=0))
        names = ("points", "counts", "sums")
        sent = {name: getattr(self, name)[who, :longest].copy() for name in names}
        reply = Message("points", who, sent, {"m": self.held[who].copy()})
        for name in (*names, "held", "new"):
            getattr(self, name)[who] = 0
        return reply


class PointsServer(Collecting):
    """`total` holds how many observations there were, and what they brought."""

    def _take_in(self, reply: Message) -> None:
        self.total += [reply.arrays["counts"].sum(), reply.arrays["sums"].sum()]


@parameters
class NumberedPoints(Points):
    """The same, but the server says with each question how often it has asked: no two questions are the same."""

    about: ClassVar[About] = entry(
        "toy-numbered-points", Utterance("collect", "down", (WireField("number"),)), *Points.about.says[1:]
    )

    def server(self, problem: Problem, n: int, rng: Streams) -> NumberingServer:
        return NumberingServer(n, 2)


class NumberingServer(PointsServer):
    """Counts its questions."""

    keeps: ClassVar[tuple[str, ...]] = ("total", "asked")

    def __init__(self, n: int, size: int) -> None:
        super().__init__(n, size)
        self.asked = np.zeros(1)

    def converse(self, callers: IntArray) -> Conversation:
        conversation = super().converse(callers)
        try:
            request = next(conversation)
            self.asked += 1
            numbers = np.broadcast_to(self.asked, (len(request.who),))
            reply = yield Message("collect", request.who, {"number": numbers})
            while True:
                reply = yield conversation.send(reply)
        except StopIteration:
            return


class Delicate(PointsServer):
    """Cannot bear it if `together` agents send 13 of anything."""

    together = 1

    def _take_in(self, reply: Message) -> None:
        unlucky = (reply.arrays["sums"].sum(axis=1) > 12.5).sum()
        super()._take_in(reply)
        if unlucky >= self.together:
            self.spoil(reply)

    def spoil(self, reply: Message) -> None:
        raise ZeroDivisionError("thirteen")


@parameters
class DelicatePoints(Points):
    """Points, for a server with a mistake in it."""

    about: ClassVar[About] = entry("toy-delicate-points", *Points.about.says)

    def server(self, problem: Problem, n: int, rng: Streams) -> Delicate:
        return Delicate(n, 2)


# totals


@parameters
class Totals:
    """What each arm brought so far, everything anew in each message."""

    every: int = 3

    about: ClassVar[About] = entry(
        "toy-totals",
        COLLECT,
        Utterance(
            "sums",
            "up",
            (
                vector("sums", "K", adds="total", bound=Bound(limits.reward)),
                WireField("pulls", ("K",), dtype="i8", counts=True, adds="total"),
            ),
        ),
        Utterance("known", "down", (vector("total", "K"),)),
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> TotalsAgents:
        return TotalsAgents(n, self.every, problem)

    def server(self, problem: Problem, n: int, rng: Streams) -> TotalsServer:
        return TotalsServer(n, problem.arms)


class TotalsAgents(InTurn):
    """Know arms by their place."""

    keeps: ClassVar[tuple[str, ...]] = (*InTurn.keeps, "sums", "pulls")

    def __init__(self, n: int, every: int, problem: Problem) -> None:
        super().__init__(n, every)
        self.sums = np.zeros((n, problem.arms))
        self.pulls = np.zeros((n, problem.arms), dtype=np.int64)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        self.new[who] += 1
        self.sums[who, picks] += rewards
        self.pulls[who, picks] += 1

    def answer(self, request: Message) -> Message | None:
        who = request.who
        if request.kind == "known":
            return None
        self.new[who] = 0
        return Message("sums", who, {"sums": self.sums[who].copy(), "pulls": self.pulls[who].copy()})


class TotalsServer(Collecting):
    """`total` is the sum over the last that everybody sent."""

    keeps: ClassVar[tuple[str, ...]] = ("total", "latest")

    def __init__(self, n: int, size: int) -> None:
        super().__init__(n, size)
        self.latest = np.zeros((n, size))

    def _take_in(self, reply: Message) -> None:
        self.latest[reply.who] = reply.arrays["sums"]
        self.total[...] = self.latest.sum(axis=0)


# as long as the server asks


@parameters
class Asked:
    """The server shows points, more each time, and agents tell how close they are to what they have seen."""

    every: int = 3

    about: ClassVar[About] = entry(
        "toy-asked",
        Utterance("collect", "down", (WireField("shown", (Free("m"), "d")),)),
        Utterance(
            "close",
            "up",
            (
                WireField("closeness", (Free("m"),), adds="query", bound=Bound(limits.none, low=0.0)),
                WireField("own", (Free("k"),), bound=Bound(limits.none, low=0.0)),
            ),
        ),
        Utterance("known", "down", (WireField("total", (1,)),)),
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> AskedAgents:
        return AskedAgents(n, self.every, problem)

    def server(self, problem: Problem, n: int, rng: Streams) -> AskedServer:
        return AskedServer(n, problem.dim, rng)


class AskedAgents(InTurn):
    """Keep the sum of the arms that they chose."""

    keeps: ClassVar[tuple[str, ...]] = (*InTurn.keeps, "seen")

    def __init__(self, n: int, every: int, problem: Problem) -> None:
        super().__init__(n, every)
        self.seen = np.zeros((n, problem.dim))

    def _observe(self, who: IntArray, chosen: FloatArray, rewards: FloatArray) -> None:
        self.seen[who] += chosen

    def answer(self, request: Message) -> Message | None:
        who = request.who
        if request.kind == "known":
            return None
        self.new[who] = 0
        close = np.abs((request.arrays["shown"] * self.seen[who][:, None, :]).sum(axis=2))
        return Message("close", who, {"closeness": close, "own": np.ones((len(who), 2))})


class AskedServer(Collecting):
    """Draws the points that it shows, one more in each conversation."""

    keeps: ClassVar[tuple[str, ...]] = ("total", "asked", "rng")

    def __init__(self, n: int, dim: int, rng: Streams) -> None:
        super().__init__(n, 1)
        self._dim = dim
        self.asked = np.zeros(1, dtype=np.int64)
        self.rng = rng

    def converse(self, callers: IntArray) -> Conversation:
        if len(callers) == 0:
            return
        everybody, self.asked[0] = self._everybody, self.asked[0] + 1
        shown = self.rng.normal(np.zeros(1, dtype=np.int64), int(self.asked[0]) * self._dim).reshape(1, -1, self._dim)
        shown += self.rng.common("points").uniform(size=self._dim)
        reply = yield Message(
            "collect", everybody, {"shown": np.broadcast_to(shown, (len(everybody), *shown.shape[1:]))}
        )
        if reply.arrays:
            self.total += reply.arrays["closeness"].sum()
        yield Message("known", everybody, {"total": np.broadcast_to(self.total, (len(everybody), 1))})


# private


@parameters
class NoisySums:
    """What each arm brought since the last upload, with noise."""

    every: int = 3

    about: ClassVar[About] = entry(
        "toy-noisy-sums",
        COLLECT,
        Utterance("sums", "up", (vector("sums", "K", adds="increment", pooled=True, bound=Bound(limits.reward)),)),
        Utterance("known", "down", (vector("total", "K"),)),
        private=True,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> NoisyAgents:
        return NoisyAgents(n, self.every, problem, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> NoisyServer:
        return NoisyServer(n, problem.arms, rng)


class NoisyAgents(InTurn):
    """Add standard normal noise to whatever they send."""

    keeps: ClassVar[tuple[str, ...]] = (*InTurn.keeps, "sums", "rng")

    def __init__(self, n: int, every: int, problem: Problem, rng: Streams) -> None:
        super().__init__(n, every)
        self.sums = np.zeros((n, problem.arms))
        self.rng = rng

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        self.new[who] += 1
        self.sums[who, picks] += rewards

    def answer(self, request: Message) -> Message | None:
        who = request.who
        if request.kind == "known":
            return None
        noisy = self.sums[who] + self.rng.secret.normal(who, self.sums.shape[1])
        self.new[who] = 0
        self.sums[who] = 0.0
        return Message("sums", who, {"sums": noisy})

    def restore(self, sent: Message, observed: FloatArray) -> None:
        self.new[sent.who] += observed.astype(np.int64)
        self.sums[sent.who] += sent.arrays["sums"]


class NoisyServer(Collecting):
    """Adds noise of its own to what it tells."""

    keeps: ClassVar[tuple[str, ...]] = ("total", "rng")

    def __init__(self, n: int, size: int, rng: Streams) -> None:
        super().__init__(n, size)
        self.rng = rng

    def _take_in(self, reply: Message) -> None:
        self.total += reply.arrays["sums"].sum(axis=0)
        self.total += self.rng.secret.normal(np.zeros(1, dtype=np.int64), len(self.total))[0]


class Forgetful(NoisyAgents):
    """Do not keep what they draw from."""

    keeps: ClassVar[tuple[str, ...]] = (*InTurn.keeps, "sums")


@parameters
class Undeclared(NoisySums):
    """Draws noise without saying that it is private."""

    about: ClassVar[About] = entry("careless", *NoisySums.about.says)


@parameters
class Unkept(NoisySums):
    """Says that it is private, but its agents do not keep what they draw from."""

    about: ClassVar[About] = entry("careless", *NoisySums.about.says, private=True)

    def agents(self, problem: Problem, n: int, rng: Streams) -> Forgetful:
        return Forgetful(n, self.every, problem, rng)
