"""Uploads at fixed turns, and nothing else: what is left of a noise stage without the noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedbandits.channel.gaussian import Gaussian
from fedbandits.channel.pace import Pace, unhurried
from fedbandits.channel.repairing import Passing
from fedbandits.channel.stage import SPOKEN_FOR, End, Observed
from fedbandits.channel.training import openings
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.catalogue import About, AboutStage
from fedbandits.contract.compiled import untouched
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Direction, Utterance, hand_overs


@dataclass(frozen=True)
class Scheduled:
    """Agents call after the turns after which those of the stage `like` upload, and messages are as they are.

    The twin of a private algorithm that protects nothing: what noise costs is what lies between them.
    """

    like: Gaussian

    about: ClassVar[AboutStage] = AboutStage(
        name="scheduled",
        summary="uploads at the turns of a noise stage, as they are",
        source="ours",
    )

    def declares(self, about: About) -> About:
        """See `Stage`."""
        if self.like.when == "algorithm" and self.like.every is None:
            raise ConfigError("scheduled: the algorithm itself says when to call; leave the stage out")
        return replace(about, name=f"{about.name}|scheduled", calls="scheduled")

    def poses(self, problem: Problem) -> Problem:
        """See `Stage`: nothing is done to sums."""
        return problem

    def ends(
        self,
        says: tuple[Utterance, ...],
        away: Direction,
        n: int,
        sizes: Mapping[str, int],
        rng: Streams,
        problem: Problem,
    ) -> End:
        """See `Stage`."""
        turns = self.like.turns(problem)[0]
        assert turns is not None
        return Passing() if away == "down" else Waiting(turns, n, hand_overs(says) or openings(says))


class Waiting(Passing):
    """The agents' end: whoever has had a turn of `turns` since it handed anything over calls.

    `observed` (n,) counts turns; `heard` (n, 2) how many there were when an agent last handed over, and the time
    before that.
    """

    keeps: ClassVar[tuple[str, ...]] = ("observed", "heard")

    def __init__(self, turns: IntArray, n: int, kinds: frozenset[str]) -> None:
        self._turns = turns
        self._kinds = kinds
        self.observed = np.zeros(n, dtype=np.int64)
        self.heard = np.zeros((n, 2), dtype=np.int64)

    def observing(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> Observed:
        """One more turn."""
        self.observed[who] += 1
        return arms, picks, rewards

    def outgoing(self, message: Message) -> Message:
        """The same; noted, where it is handed over."""
        if message.kind in self._kinds:
            who = message.who
            self.heard[who] = np.stack([self.observed[who], self.heard[who, 0]], axis=1)
        return message

    def returned(self, message: Message) -> Message:
        """The same: as if it had never been asked for."""
        if message.kind in self._kinds:
            self.heard[message.who, 0] = self.heard[message.who, 1]
        return message

    def calling(self, would: BoolArray) -> BoolArray:
        """Who is due."""
        return np.asarray(self._passed(self.observed) > self._passed(self.heard[:, 0]))

    def pace(self, n: int, dim: int) -> Pace | None:
        """See `End`."""
        if not untouched(self, Waiting, *SPOKEN_FOR):
            return None
        place = self._passed(self.heard[:, 0])
        return unhurried(n, dim)._replace(observed=self.observed, scheduled=True, turns=self._turns, place=place)

    def urgency(self, would: FloatArray | None) -> FloatArray:
        """How far each agent has come towards its next call."""
        place = self._passed(self.heard[:, 0])
        ahead = np.append(self._turns, np.iinfo(np.int64).max)[place]
        behind = self.heard[:, 0]
        return np.asarray((self.observed - behind) / np.maximum(ahead - behind, 1))

    def _passed(self, turns: IntArray) -> IntArray:
        """(n,) how many of the scheduled turns are among the first `turns`."""
        return np.searchsorted(self._turns, turns, side="right")
