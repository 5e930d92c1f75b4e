"""GridExplore: agents on a board that they uncover together."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import BoolArray, IntArray, State
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Episodes, Game, Noise, Norms, Range
from fedbandits.contract.parameters import parameters
from fedbandits.contract.portrait import BOARD, PATHS
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import Outcome, Turn, World, parts_of

Visibility = Literal["full", "partial", "self"]
_MOVES = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j])
"""(8, 2) left, right, up, down and the four between them."""


@parameters
class GridExplore:
    """`clients` agents on a board of `size` x `size` cells, of which none is explored when an episode begins.

    In every stage an agent moves to one of the eight cells around it, or as far towards it as the border lets it. It
    observes the cells at most `radius` away from where it comes to, and earns 1 for each that is new. With `credit`
    "team" a cell is new until anybody has observed it (two who come upon it in the same stage both earn it), with
    "own" until the agent itself has: then agents have nothing to do with each other. Agents begin in cells drawn for
    them, the same in every episode or, with `placed` "anew", others each time.

    `visibility`: an agent sees everybody ("full"), those in its half, agents being divided at random ("partial"), or
    itself alone ("self"). In the block of an agent that is seen (the fact `Game`) the first eight numbers say which
    action it is, the others to which cell it leads. What was explored nobody sees: rewards depend on more than arms
    tell, so that no policy over them is optimal and linear models are wrong.

    A decision's regret is myopic: how many more cells the best single move would have uncovered.

    Left open by the source: how far agents observe, whether a cell pays once or once for each agent (the figures that
    it reports exceed what eight agents can earn of 100 cells that pay once), how agents are placed, and which half is
    seen, which is mutual here.
    """

    size: Annotated[int, Field(ge=2)] = 10
    clients: Annotated[int, Field(ge=1)] = 8
    length: Annotated[int, Field(ge=1)] = 200
    visibility: Visibility = "full"
    radius: Annotated[int, Field(ge=0)] = 0
    credit: Literal["team", "own"] = "team"
    placed: Literal["once", "anew"] = "once"

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="grid-explore",
        family="planning",
        summary="agents uncover the cells of a board together, and see all, half or none of the others",
        source="Dubey (2022), thesis, section 10.6",
    )

    def world(self, horizon: int, seed: np.random.SeedSequence) -> GridWorld:
        """The instance that `seed` stands for."""
        instance, places = parts_of(seed, 2)
        rng = np.random.default_rng(instance)
        moves = rng.permutation(_MOVES)
        group = self._groups(rng)
        cells = self.size**2
        sees = group[:, None] == group
        most = float(min((2 * self.radius + 1) ** 2, cells))
        problem = Problem(
            agents=self.clients, dim=self.clients * (len(moves) + cells), arms=len(moves), horizon=horizon
        ).knowing(
            Episodes(self.length),
            Game(len(moves), tuple(tuple(np.flatnonzero(row).tolist()) for row in sees), (self.size, self.size)),
            Noise(0.0),
            Norms(arms=float(np.sqrt(2 * sees.sum(axis=1).max()))),
            Range(0.0, most),
        )
        return GridWorld(self, problem, moves, sees, places)

    def _groups(self, rng: np.random.Generator) -> IntArray:
        """(M,) who is in one group sees each other."""
        if self.visibility == "full":
            return np.zeros(self.clients, dtype=np.int64)
        order = rng.permutation(self.clients)
        return order if self.visibility == "self" else np.asarray(order % 2)


class GridWorld(World):
    """A board: `cell` (M,) where agents are, `explored` (M, cells) what counts as observed for each of them, `stage` ()
    how far the episode is and `episode` () which it is; `path` (M, H + 1) is the way of each in the last whole one, of
    which `trail` is the running one's.
    """

    keeps: ClassVar[tuple[str, ...]] = ("cell", "explored", "stage", "episode", "trail", "path")

    def __init__(
        self,
        given: GridExplore,
        problem: Problem,
        moves: IntArray,
        sees: BoolArray,
        seed: np.random.SeedSequence,
    ) -> None:
        self.problem = problem
        self._given = given
        self._sees = sees
        self._seed = seed
        size, n, cells = given.size, given.clients, given.size**2
        row, column = np.divmod(np.arange(cells), size)
        ahead = np.stack([row, column], axis=1)[:, None] + moves
        self._target: IntArray = np.clip(ahead, 0, size - 1) @ np.array([size, 1])
        """(cells, 8) where each move leads."""
        apart = np.maximum(abs(row[:, None] - row), abs(column[:, None] - column))
        self._observed: BoolArray = apart <= given.radius
        """(cells, cells) what is observed from each cell."""
        self._blocks = np.zeros((cells, len(moves), len(moves) + cells))
        self._blocks[:, np.arange(len(moves)), np.arange(len(moves))] = 1.0
        np.put_along_axis(self._blocks, len(moves) + self._target[..., None], 1.0, axis=2)
        self.cell = np.zeros(n, dtype=np.int64)
        self.explored = np.zeros((n, cells), dtype=np.bool_)
        self.stage = np.zeros((), dtype=np.int64)
        self.episode = np.zeros((), dtype=np.int64)
        self.trail = np.zeros((n, given.length + 1), dtype=np.int64)
        self.path = np.zeros((n, given.length + 1), dtype=np.int64)
        self._begin()

    def turn(self, step: int) -> Turn:
        """Everybody, and what the moves of those whom it sees mean; see `World`."""
        n, (_, moves, b) = len(self.cell), self._blocks.shape
        shown = self._blocks[self.cell].swapaxes(0, 1)  # (K, M, b)
        arms = np.where(self._sees[:, None, :, None], shown, 0.0).reshape(n, moves, n * b)
        return Turn(np.arange(n), arms)

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """What was uncovered; see `World`."""
        rows = np.arange(len(self.cell))
        fresh = (self._observed[self._target[self.cell]] & ~self.explored[:, None]).sum(axis=2).astype(np.float64)
        rewards = fresh[rows, picks]
        self.cell = self._target[self.cell, picks]
        self._observe()
        self.stage += 1
        self.trail[:, self.stage] = self.cell
        if self.stage == self._given.length:
            self.path[:] = self.trail
            self.episode += 1
            self.stage[...] = 0
            self._begin()
        return Outcome(rewards, fresh.max(axis=1) - rewards, fresh.mean(axis=1))

    def portrait(self) -> State:
        """The board, and the ways of the last whole episode; see `portrait`."""
        return {BOARD: np.array([self._given.size, self._given.size]), PATHS: self.path.copy()}

    def _begin(self) -> None:
        """Place everybody; what is observed from there counts as explored, and pays nobody."""
        key = (*self._seed.spawn_key, int(self.episode) if self._given.placed == "anew" else 0)
        rng = np.random.default_rng(np.random.SeedSequence(self._seed.entropy, spawn_key=key))
        self.cell = rng.integers(self._given.size**2, size=len(self.cell))
        self.explored[:] = False
        self._observe()
        self.trail[:, 0] = self.cell

    def _observe(self) -> None:
        seen = self._observed[self.cell]
        self.explored |= seen if self._given.credit == "own" else seen.any(axis=0)
