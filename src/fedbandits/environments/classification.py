"""Classification as a bandit: guess the class of a case, and learn only whether the guess was right.

A case x with d' features and K possible classes becomes K arms of dimension K d': arm k has x in its k-th block and
zeros elsewhere, and pays 1 where k is the class of the case, else 0. `regret` is 1 - reward: a realised one, and the
best rule of a kind need not bring it to 0. Source: the setting of Zhou, Li & Gu (ICML 2020) and of Dai, Shu, Verma,
Fan, Low & Jaillet (ICLR 2023), whose preprocessing this is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Noise, Norms, Range
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import Outcome, Turn, World, parts_of
from fedbandits.data.tables import Table, magic, shuttle
from fedbandits.environments import attendance
from fedbandits.environments.attendance import Attendance
from fedbandits.environments.linear import presences
from fedbandits.linalg.kernels import aligned

Contexts = Literal["standardised", "unit"]
"""How cases are prepared: every row scaled to norm 1, then every column to mean 0 and variance 1, as in the
publication's released code; or, on top of it, scaled to norm 1 and doubled, [x; x]/sqrt(2), as its theory assumes."""

_SOURCE = "UCI Machine Learning Repository; Dai, Shu, Verma, Fan, Low & Jaillet (ICLR 2023)"


class ClassificationWorld(World):
    """Cases that each agent sees in an order of its own, without repetition until all have been seen.

    In step t agent i sees case number t of its order, whether it was there before or not. Arms are in random order:
    ties go to the first, and some classes are more frequent than others.
    """

    def __init__(
        self,
        problem: Problem,
        table: Table,
        schedule: Attendance,
        presence: float,
        late: float,
        seed: np.random.SeedSequence,
    ) -> None:
        self.problem = problem
        self._features, self._classes = table.features, table.classes
        orders, turns, places = parts_of(seed, 3)
        n, horizon = problem.agents, problem.horizon
        rng = np.random.default_rng(turns)
        self._who = attendance.draw(schedule, n, 0, horizon, rng)
        chances = presences(n, late, presence, rng)
        self._there = None if chances is None else rng.random((horizon, n)) < chances
        self._cases = _orders(orders, n, horizon, len(table.classes))
        self._places = places

    def turn(self, step: int) -> Turn:
        """Who is awake, and what they see; see `World`."""
        who, shown = self._shown(step)
        x = self._features[self._cases[who, step]]
        lanes = aligned((len(who), self.problem.dim, self.problem.arms))
        arms = self.problem.arms
        times = self.problem.dim // (arms * x.shape[1])
        blocks = lanes.reshape(len(who), times, arms, x.shape[1], arms)
        blocks[np.arange(len(who))[:, None], :, shown, :, np.arange(arms)] = x[:, None, None]
        reachable = None if self._there is None else self._there[step]
        return Turn(who, lanes.transpose(0, 2, 1), reachable)

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """1 for the class of the case; see `World`."""
        who, shown = self._shown(step)
        right = shown[np.arange(len(who)), picks] == self._classes[self._cases[who, step]]
        rewards = right.astype(np.float64)
        return Outcome(rewards, 1.0 - rewards, np.full(len(who), 1 / self.problem.arms))

    def _shown(self, step: int) -> tuple[IntArray, IntArray]:
        """Who is awake (w,), and the classes behind their arms (w, K)."""
        who = self._who[step]
        drawn = np.random.SeedSequence(self._places.entropy, spawn_key=(*self._places.spawn_key, step))
        order = np.random.Generator(np.random.SFC64(drawn)).random((len(who), self.problem.arms)).argsort(axis=1)
        if self._there is None:
            return who, order
        awake = self._there[step][who]
        return who[awake], order[awake]


def _orders(seed: np.random.SeedSequence, agents: int, horizon: int, cases: int) -> IntArray:
    """(n, T) the case that each agent sees in each step: one shuffle after the other."""
    passes = -(-horizon // cases)
    found = np.empty((agents, horizon), dtype=np.int64)
    for agent in range(agents):
        rng = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, agent)))
        found[agent] = np.concatenate([rng.permutation(cases) for _ in range(passes)])[:horizon]
    return found


@parameters
class Classifying(ABC):
    """`clients` agents that guess classes of cases from one table, prepared as `contexts` says.

    A share `stragglers` of the agents, chosen at random, is there in a step only with probability `presence`.
    """

    clients: Annotated[int, Field(ge=1)] = 5
    contexts: Contexts = "standardised"
    schedule: Attendance = "all"
    stragglers: Annotated[float, Field(ge=0, le=1)] = 0.0
    presence: Annotated[float, Field(gt=0, le=1)] = 0.1

    about: ClassVar[AboutEnvironment]

    @abstractmethod
    def read(self) -> Table:
        """The table; the same object or an equal one at every call."""

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
        table = self.read()
        features = prepared(table.features, self.contexts)
        classes = int(table.classes.max()) + 1
        sizes = Problem(
            agents=self.clients,
            dim=features.shape[1] * classes * (2 if self.contexts == "unit" else 1),
            arms=classes,
            horizon=horizon,
        )
        halves = np.sqrt(2.0) if self.contexts == "unit" else 1.0
        longest = float(np.linalg.norm(features, axis=1).max())
        problem = sizes.knowing(Noise(0.5), Norms(arms=longest), Range(0.0, 1.0))
        shown = Table(features / halves, table.classes)
        return ClassificationWorld(problem, shown, self.schedule, self.presence, self.stragglers, seed)


@parameters
class Classification(Classifying):
    """Any table of your own.

    >>> import numpy as np
    >>> import fedbandits as fb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((200, 3))
    >>> table = Table(x, (x[:, 0] > 0).astype(int))
    >>> trace = fb.simulate(fb.algorithms.DisLinUCB(), Classification(table=table, clients=2), horizon=50)
    >>> bool(trace.regret[-1] < 0.4 * trace.decisions[-1])
    True
    """

    table: Table

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="classification",
        family="neural",
        summary="a table of features and classes: guess the class, and learn whether it was right",
        source="setting of Zhou, Li & Gu (ICML 2020)",
    )

    def read(self) -> Table:
        """The table given."""
        return self.table


@parameters
class Shuttle(Classifying):
    """Statlog shuttle: 9 features and 7 classes, contexts of dimension 63; always guessing the first is right in 78 %
    of cases.
    """

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="shuttle",
        family="neural",
        summary="guess one of 7 classes from 9 measurements of a space shuttle's radiators",
        source=_SOURCE,
    )

    def read(self) -> Table:
        """The table, parsed once per process."""
        return shuttle()


@parameters
class Magic(Classifying):
    """MAGIC gamma telescope: 10 features and 2 classes, contexts of dimension 20; always guessing the more frequent one
    is right in 65 % of cases.
    """

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="magic",
        family="neural",
        summary="tell showers of gamma rays from those of hadrons by 10 measurements",
        source=_SOURCE,
    )

    def read(self) -> Table:
        """The table, parsed once per process."""
        return magic()


def prepared(features: FloatArray, contexts: Contexts) -> FloatArray:
    """(rows, d') cases as `contexts` says, but for the doubling; columns and rows without extent become 0."""
    found = _divided(features, np.linalg.norm(features, axis=1, keepdims=True))
    found = _divided(found - found.mean(axis=0), found.std(axis=0))
    return found if contexts == "standardised" else _divided(found, np.linalg.norm(found, axis=1, keepdims=True))


def _divided(values: FloatArray, by: FloatArray) -> FloatArray:
    return np.divide(values, by, out=np.zeros_like(values), where=np.broadcast_to(by > 0, values.shape))
