"""What was handed over and not taken in comes back: agents go on as if they had not been asked."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import WireError, hand_overs
from fedbandits.testing.breach import Breach, close, difference, require
from fedbandits.testing.recording import Crossed, Recording, copied
from fedbandits.testing.subject import Subject, converse, play
from fedbandits.testing.worlds import ALONE, Together

_CONVERSATIONS = 4
"""In how many conversations answers are given back."""
_TURNS = 3
"""How many observations agents make after they were given something back."""


def returned(subject: Subject) -> None:
    """Increments that are given back are sent again when they are asked for again, and the conversation ends as it
    would have; what an agent does with what it is given back depends on nobody else, to the last bit.
    """
    kinds, tried = _handing_over(subject), 0
    if not kinds:
        return
    world, plain, disturbed = subject.world(), subject.side(), subject.side()
    since = np.zeros(subject.problem.agents)
    for step in range(subject.horizon):
        since[play(plain, world, step).who] += 1
        disturbed.load(plain.state())
        crossed = converse(plain, Recording(plain.agents, plain.ledger, plain.wire)).crossed
        handed = [message for direction, message in crossed if direction == "up" and message.kind in kinds]
        if handed:
            tried += 1
            converse(disturbed, _GivingBack(subject, disturbed, kinds, since.copy(), step))
            for what, mine, other in (
                ("the server", disturbed.server, plain.server),
                ("the agents", disturbed.agents, plain.agents),
            ):
                assert mine is not None
                assert other is not None
                found = close(mine.state(), other.state(), subject.ignored)
                require(not found, f"step {step}: {what}, after answers were given back and asked for again: {found}")
        for message in handed:
            since[message.who] = 0
        if tried == _CONVERSATIONS:
            return
    _require_any(tried, subject)


def never_asked(subject: Subject) -> None:
    """Agents that were given back what they sent choose, learn, call and answer from then on as if nobody had asked."""
    kinds, tried = _handing_over(subject), 0
    if not kinds:
        return
    world, plain, asked, unasked = subject.world(), subject.side(), subject.side(), subject.side()
    since, rng = np.zeros(subject.problem.agents), np.random.default_rng(subject.seed)
    for step in range(subject.horizon):
        turn = play(plain, world, step)
        since[turn.who] += 1
        before = plain.state()
        crossed = converse(plain, Recording(plain.agents, plain.ledger, plain.wire)).crossed
        request = _first_question(crossed, kinds)
        if request is not None:
            tried += 1
            for side in (asked, unasked):
                side.load(before)
            reply = asked.agents.answer(request)
            assert reply is not None
            _give_back(asked.agents, copied(reply), since[reply.who])
            shown = turn.arms[rng.integers(len(turn.arms), size=(_TURNS, len(request.who)))]
            rewards = rng.choice(np.concatenate([event.rewards for event in subject.events]), shown.shape[:2])
            _compare(f"step {step}", subject, asked.agents, unasked.agents, request, shown, np.asarray(rewards))
        for direction, message in crossed:
            if direction == "up" and message.kind in kinds:
                since[message.who] = 0
        if tried == _CONVERSATIONS:
            return
    _require_any(tried, subject)


class _GivingBack(Recording):
    """Gives back every answer that hands something over, and asks again."""

    def __init__(self, subject: Subject, side: Together, kinds: frozenset[str], since: FloatArray, step: int) -> None:
        super().__init__(side.agents, side.ledger, side.wire)
        self._subject = subject
        self._kinds = kinds
        self._since = since
        self._step = step

    def _deliver(self, request: Message) -> Message | None:
        agents = self._agents
        alone = [_alone(self._subject, agents, int(agent)) for agent in request.who]
        reply = super()._deliver(request)
        if reply is None or reply.kind not in self._kinds:
            return reply
        where = f"step {self._step}: {reply.kind!r}"
        sent = copied(reply)
        observed = self._since[sent.who]
        odd = np.arange(len(sent.who)) % 2 == 1
        for rows in (odd, ~odd):  # in two parts: what comes back to one is nobody else's business
            _give_back(agents, sent.of(rows), observed[rows])
        for row, (agent, population) in enumerate(zip(request.who, alone, strict=True)):
            own = population.answer(_to_one(request, row))
            if own is None:
                raise Breach(f"{where}: nothing is answered by an agent alone")
            _give_back(population, copied(own), observed[row : row + 1])
            found = difference(population.share(0), agents.share(int(agent)))
            require(not found, f"{where}, given back to an agent alone, and to one among others: {found}")
        again = agents.answer(request)
        if again is None:
            raise Breach(f"{where}: nothing is answered after it was given back")
        found = close(_increments(self._subject, again), _increments(self._subject, sent), self._subject.ignored)
        require(not found, f"{where}, given back and asked for again: {found}")
        self._since[sent.who] = 0
        return again


def _give_back(agents: Population, sent: Message, observed: FloatArray) -> None:
    try:
        agents.restore(sent, observed)
    except WireError as error:
        raise Breach(str(error), "override restore(), which says how what was sent becomes new again") from error


def _alone(subject: Subject, agents: Population, agent: int) -> Population:
    """One agent of a population, as a population of its own."""
    streams = Streams(subject.seeds.agents, identities=np.array([agent]), common=subject.seeds.common)
    population = subject.algorithm.agents(subject.problem, 1, streams)
    population.load(agents.share(agent))
    return population


def _compare(
    where: str,
    subject: Subject,
    asked: Population,
    unasked: Population,
    request: Message,
    shown: FloatArray,
    rewards: FloatArray,
) -> None:
    """Both go on in the same way, and are asked in the end."""
    who = request.who
    for turn in range(len(shown)):
        arms = np.ascontiguousarray(shown[turn])
        picks, others = asked.choose(who, arms), unasked.choose(who, arms)
        require(np.array_equal(picks, others), f"{where}: given back what they sent, agents choose otherwise")
        for agents in (asked, unasked):
            agents.learn(who, arms, others, rewards[turn])
        require(
            np.array_equal(asked.calling(), unasked.calling()),
            f"{where}: given back what they sent, {_named(asked.calling())} call, and never asked "
            f"{_named(unasked.calling())}",
        )
        found = close(_told(asked), _told(unasked), subject.ignored)
        require(not found, f"{where}: given back what they sent, and never asked: {found}")
    replies = asked.answer(request), unasked.answer(request)
    found = close(_increments(subject, replies[0]), _increments(subject, replies[1]), subject.ignored)
    require(not found, f"{where}: what is handed over after something was given back, and if never asked: {found}")


def _told(agents: Population) -> dict[str, Array]:
    """What agents believe, and how close they are to calling."""
    told: dict[str, Array] = {}
    if (urgency := agents.urgency()) is not None:
        told["urgency"] = urgency
    if (ellipsoids := agents.ellipsoids()) is not None:
        told |= dict(zip(("centre", "matrix", "width"), ellipsoids, strict=True))
    return told


def _handing_over(subject: Subject) -> frozenset[str]:
    if subject.topology != "star":
        return frozenset()
    return hand_overs(subject.algorithm.about.says)


def _first_question(crossed: Crossed, kinds: frozenset[str]) -> Message | None:
    """The first request of a conversation whose answer hands something over."""
    asked: Message | None = None
    for direction, message in crossed:
        if direction == "down":
            asked = message
        elif message.kind in kinds:
            return asked
    return None


def _increments(subject: Subject, reply: Message | None) -> dict[str, Array]:
    assert reply is not None
    declared = subject.wire.declared(reply.kind, "up")
    return {name: np.array(held) for name, held in reply.arrays.items() if declared[name].adds == "increment"}


def _to_one(request: Message, row: int) -> Message:
    """The share of one agent, who is alone in its population."""
    share = request.of(np.array([row]))
    return Message(share.kind, ALONE, share.arrays, share.lengths)


def _named(who: Array) -> IntArray:
    return np.flatnonzero(who)


def _require_any(tried: int, subject: Subject) -> None:
    require(
        tried,
        f"nobody has handed anything over in {subject.horizon} steps, which shows nothing",
        "give a longer horizon, or parameters under which it talks often",
    )
