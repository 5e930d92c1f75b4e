"""When agents call, who can be reached, and what is observed meanwhile."""

from __future__ import annotations

from collections import Counter

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.messages import Message
from fedbandits.testing.attendance import ATTENDANCES
from fedbandits.testing.breach import close, difference, require
from fedbandits.testing.recording import Event, Recording, reversed_rewards
from fedbandits.testing.subject import Subject, converse, play
from fedbandits.testing.worlds import Together
from fedbandits.transport.carriers import hold

_TURNS = 3


def calls(subject: Subject) -> None:
    """Whoever is "scheduled" to speak does so at the same moments whatever the rewards; who speaks "never", never."""
    declared = subject.algorithm.about.calls
    if declared == "data":
        return
    others = list(subject.recorded(told=reversed_rewards(subject.problem)))
    for event, other in zip(subject.events, others, strict=True):
        for kind, speaks, instead in _moments(event, other):
            who, others_do = np.flatnonzero(speaks).tolist(), np.flatnonzero(instead).tolist()
            if declared == "never":
                require(not who, f'step {event.step}: agents {who} {kind}, and about.calls is "never"')
            require(
                np.array_equal(speaks, instead),
                f"step {event.step}: agents {who} {kind}, with other rewards {others_do}; about.calls is {declared!r}",
            )


def _moments(event: Event, other: Event) -> list[tuple[str, BoolArray, BoolArray]]:
    """What is done, and (n,) who does it in the one run and in the other."""
    n = len(event.calling)
    kinds = sorted({message.kind for one in (event, other) for way, message in one.crossed if way == "peer"})
    return [
        ("call", event.calling, other.calling),
        *((f"say {kind!r}", _speakers(event, kind, n), _speakers(other, kind, n)) for kind in kinds),
    ]


def _speakers(event: Event, kind: str, n: int) -> BoolArray:
    speaking = np.zeros(n, dtype=np.bool_)
    for direction, message in event.crossed:
        if direction == "peer" and message.kind == kind:
            speaking[message.who] = True
    return speaking


def urgency(subject: Subject) -> None:
    """An agent calls where its urgency reaches 1; who calls at all tells how close it is."""
    if subject.topology != "star":
        return
    for attendance in ATTENDANCES:
        events = subject.events if attendance == "as it is" else list(subject.recorded(attendance))
        for event in events:
            where = f"step {event.step} ({attendance})"
            level = event.urgency
            if level is None:
                require(not event.calling.any(), f"{where}: agents call, and urgency() is None")
                continue
            require(level.shape == event.calling.shape, f"{where}: urgency() has shape {level.shape}", "return (n,)")
            require((level >= 0).all(), f"{where}: urgency() is {level.min()}", "let it begin at 0")
            low, high = level[event.calling], level[~event.calling & np.isin(np.arange(len(level)), event.who)]
            require((low >= 1 - 1e-9).all(), f"{where}: an agent calls with urgency {low.min(initial=1)}")
            # whoever has nothing new does not call, however urgent it may be
            require((high <= 1 + 1e-9).all(), f"{where}: an agent with urgency {high.max(initial=0)} does not call")


def reach(subject: Subject) -> None:
    """A server copes with silence, and a conversation touches those alone who can be reached."""
    if subject.topology != "star":
        return
    _silence(subject)
    side, world = subject.side("come and go"), subject.world("come and go")
    for step in range(subject.horizon):
        turn = play(side, world, step)
        before = side.states()
        side.talk(turn, step)
        for agent, (new, old) in enumerate(zip(side.states(), before, strict=True)):
            there = turn.reachable is None or turn.reachable[agent]
            found = "" if there else difference(old, new)
            require(not found, f"step {step}: agent {agent} cannot be reached, and a conversation changed it: {found}")


def _silence(subject: Subject) -> None:
    side = subject.side()
    assert side.server is not None
    side.carrier.reachable = np.zeros(subject.problem.agents, dtype=np.bool_)
    before = side.server.state()
    hold(side.server, np.arange(subject.problem.agents)[:3:2], side.carrier)
    counts = side.ledger.counts[:, [0]].sum() + side.ledger.counts[1].sum()
    require(counts == 0, "nobody can be reached, and yet something is counted", "talk through what is yielded alone")
    after = side.server.state()
    for name in before.keys() & after.keys():
        if name.endswith(("gram", "moment")):
            found = difference({name: before[name]}, {name: after[name]})
            require(not found, f"nobody answered, and the server's statistics changed: {found}")


def meanwhile(subject: Subject) -> None:
    """What an agent observes after it has handed over, and before it is told, counts as observed afterwards.

    Deployed agents go on deciding while the server speaks. A simulation never shows it, since nobody acts then.
    """
    if subject.topology != "star":
        return
    kinds = {item.kind for item in subject.algorithm.about.says if item.direction == "up" and item.hands_over}
    world, after, during = subject.world(), subject.side(), subject.side()
    rng, tried = np.random.default_rng(subject.seed), 0
    for step in range(subject.horizon):
        turn = play(after, world, step)
        during.load(after.state())
        recording = converse(after, Recording(after.agents, after.ledger, after.wire))
        last = Counter(
            int(agent)
            for direction, message in recording.crossed
            if direction == "up" and message.kind in kinds
            for agent in message.who
        )
        if not last:
            continue
        tried += 1
        shown = turn.arms[rng.integers(len(turn.arms), size=(_TURNS, subject.problem.agents))]
        picks = rng.integers(shown.shape[2], size=shown.shape[:2])
        rewards = np.stack([_rewards(subject, rng) for _ in range(_TURNS)])
        observations = _Observations(shown, picks, rewards)
        observations.told_to(after, np.array(sorted(last)))
        converse(during, _Meanwhile(during, last, observations, kinds))
        for what, mine, other in (
            ("the server", during.server, after.server),
            ("the agents", during.agents, after.agents),
        ):
            assert mine is not None
            assert other is not None
            found = close(mine.state(), other.state(), subject.ignored)
            require(not found, f"step {step}: {what}, observing during a conversation and after it: {found}")
    require(
        tried or not kinds,
        f"nobody has handed anything over in {subject.horizon} steps, which shows nothing",
        "give a longer horizon, or parameters under which it talks often",
    )


def _rewards(subject: Subject, rng: np.random.Generator) -> FloatArray:
    """Rewards that somebody has seen in the run."""
    seen = np.concatenate([event.rewards for event in subject.events])
    return np.asarray(rng.choice(seen, subject.problem.agents))


class _Observations:
    """`_TURNS` observations for every agent: arms (turns, n, K, d), picks and rewards (turns, n)."""

    def __init__(self, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        self._arms, self._picks, self._rewards = arms, picks, rewards

    def told_to(self, side: Together, who: IntArray) -> None:
        """Let each of `who` observe."""
        for arms, picks, rewards in zip(self._arms, self._picks, self._rewards, strict=True):
            side.agents.learn(who, np.ascontiguousarray(arms[who]), picks[who], rewards[who])


class _Meanwhile(Recording):
    """Lets each agent observe something as soon as it has handed over for the last time."""

    def __init__(self, side: Together, last: Counter[int], observations: _Observations, kinds: set[str]) -> None:
        super().__init__(side.agents, side.ledger, side.wire)
        self._side = side
        self._left = Counter(last)
        self._observations = observations
        self._kinds = kinds

    def _deliver(self, request: Message) -> Message | None:
        reply = super()._deliver(request)
        if reply is not None and reply.kind in self._kinds:
            reply = self.crossed[-1][1]  # a copy, which does not change when agents learn
            self._left.subtract(reply.who.tolist())
            done = np.array([self._left[int(agent)] == 0 for agent in reply.who])
            self._observations.told_to(self._side, reply.who[done])
        return reply
