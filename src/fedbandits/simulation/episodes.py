"""Whose episode is how far in a run, and what the finished ones brought."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.facts import Episodes
from fedbandits.contract.problem import Problem
from fedbandits.contract.state import Stateful
from fedbandits.contract.world import Outcome, Turn
from fedbandits.linalg.jit import jit

_RECENT = 50
"""Episodes of an agent that returns are a mean over."""


class Pages(NamedTuple):
    """What an `EpisodeBook` is written into."""

    stage: IntArray
    running: FloatArray
    totals: FloatArray
    finished: IntArray
    returns: FloatArray
    length: int


class EpisodeBook(Stateful):
    """Counts episodes by the rule of the fact `Episodes`: by each agent's own turns, a turn of zero arms being the end.

    `stage` (n,) is how many turns of its running episode an agent has had, and `running` (n, 2) the reward and the
    regret in it. Of finished episodes, `totals` (3,) are their number, their reward and their regret, all agents
    together; `count` (n,) is the number of each agent's, and `returns` (n, 50) the rewards of its last ones, zero where
    there are not as many.
    """

    keeps: ClassVar[tuple[str, ...]] = ("stage", "running", "totals", "count", "returns")

    def __init__(self, agents: int, length: int) -> None:
        self.length = length
        self.stage = np.zeros(agents, dtype=np.int64)
        self.running = np.zeros((agents, 2))
        self.totals = np.zeros(3)
        self.count = np.zeros(agents, dtype=np.int64)
        self.returns = np.zeros((agents, _RECENT))

    @classmethod
    def of(cls, problem: Problem) -> EpisodeBook | None:
        """That of a run in `problem`; None where there are no episodes."""
        known = problem.get(Episodes)
        return None if known is None else cls(problem.agents, known.length)

    def note(self, turn: Turn, outcome: Outcome) -> None:
        """Everybody in `turn` has had it."""
        over = np.logical_not(turn.arms.any(axis=(1, 2)))
        _note(self._pages(), turn.who, over, outcome.rewards, outcome.regrets)

    def follow(self, who: IntArray, over: BoolArray, rewards: FloatArray, regrets: FloatArray, start: int) -> int:
        """Note turns that were played one after the other, rows `start` and after of arrays (B, w), up to one in which
        an episode ended; returns the row after the last one that was noted.
        """
        return _follow(self._pages(), who, over, rewards, regrets, start)

    def recent(self) -> float:
        """The mean return of the last 50 episodes of each agent, or of those there were; NaN before there was one."""
        kept = int(np.minimum(self.count, _RECENT).sum())
        return float(self.returns.sum() / kept) if kept else np.nan

    def _pages(self) -> Pages:
        return Pages(self.stage, self.running, self.totals, self.count, self.returns, self.length)


@jit
def _note(book: Pages, who: IntArray, over: BoolArray, rewards: FloatArray, regrets: FloatArray) -> None:
    """Note one turn of each of `who`, (w,) `over` saying whose arms were all zero."""
    for i in range(len(who)):
        a = who[i]
        if not over[i]:
            book.running[a, 0] += rewards[i]
            book.running[a, 1] += regrets[i]
            book.stage[a] += 1
        if book.stage[a] == book.length or (over[i] and book.stage[a] > 0):
            book.totals[0] += 1.0
            book.totals[1] += book.running[a, 0]
            book.totals[2] += book.running[a, 1]
            book.returns[a, book.finished[a] % book.returns.shape[1]] = book.running[a, 0]
            book.finished[a] += 1
            book.running[a] = 0.0
            book.stage[a] = 0


@jit
def _follow(book: Pages, who: IntArray, over: BoolArray, rewards: FloatArray, regrets: FloatArray, start: int) -> int:
    before = book.totals[0]
    for s in range(start, len(who)):
        _note(book, who[s], over[s], rewards[s], regrets[s])
        if book.totals[0] != before:
            return s + 1
    return len(who)
