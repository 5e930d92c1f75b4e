"""Centralised clustering: every observation goes up at once, every agent gets the sum over its own group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.sharing import COLLECT, POOL, told
from fedbandits.models.statistics import Statistics
from fedbandits.models.triggers import ALWAYS


@parameters
class GroupingParameters(LinearParameters):
    """Algorithms whose agents report every observation; the server weighs models by their counts."""

    @property
    def tells_counts(self) -> bool:
        """Counts travel with statistics."""
        return True

    def agents(self, problem: Problem, n: int, rng: Streams) -> OptimisticAgents:
        """n agents that report every observation."""
        return self.optimists(problem, n, ALWAYS)


class GroupingServer(Server, ABC):
    """Keeps each agent's own statistics and a graph; after every step the agents whose group has news are told its sum.

    `group` (n, n) says whose observations count for whom, always including one's own.
    """

    keeps: ClassVar[tuple[str, ...]] = ("own", "group")
    waits: ClassVar[bool] = True

    def __init__(self, n: int, dim: int) -> None:
        self.own = Statistics(n, dim)
        self.group: BoolArray = np.ones((n, n), dtype=np.bool_)

    def converse(self, callers: IntArray) -> Conversation:
        """Collect the step's observations, regroup, tell everybody concerned."""
        if len(callers) == 0:
            return
        fresh = yield Message(COLLECT.kind, callers)
        if len(fresh.who) == 0:
            return
        self._take_in(fresh.who, *told(fresh))
        before = self.group
        self.group = self._regroup(fresh.who)
        concerned = self.group[:, fresh.who].any(axis=1) | (self.group != before).any(axis=1)
        who = np.flatnonzero(concerned)
        yield Message(POOL.kind, who, self._sums(who))

    def portrait(self) -> State:
        """Who learns with whom, apart from oneself."""
        return {"graph": self.group & ~np.eye(len(self.group), dtype=np.bool_)}

    def _take_in(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        self.own.merge(who, gram, moment, count)

    @abstractmethod
    def _regroup(self, changed: IntArray) -> BoolArray:
        """The groups, given that the statistics of `changed` are new."""

    def _sums(self, who: IntArray) -> dict[str, FloatArray]:
        weights = self.group[who].astype(np.float64)
        n, dim = self.own.moment.shape
        return {
            "gram": (weights @ self.own.gram.reshape(n, dim * dim)).reshape(len(who), dim, dim),
            "moment": weights @ self.own.moment,
            "count": weights @ self.own.count,
        }


def components(adjacent: BoolArray) -> IntArray:
    """(n,) labels of the connected components of a graph."""
    labels: IntArray = connected_components(csr_array(adjacent.astype(np.int64)), directed=False)[1].astype(np.int64)
    return labels


def shrinking(count: FloatArray) -> FloatArray:
    """f(m) = sqrt((1 + log(1 + m)) / (1 + m)), how far an estimate from m observations may be off."""
    return np.asarray(np.sqrt((1 + np.log1p(count)) / (1 + count)))


def distances(theta: FloatArray) -> FloatArray:
    """(n, n) Euclidean distances between rows."""
    squares = (theta**2).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * theta @ theta.T, 0.0)))
