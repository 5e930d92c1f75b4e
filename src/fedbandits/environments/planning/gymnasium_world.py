"""Environments of Gymnasium, one for each agent, as a world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field

from fedbandits.contract.arrays import Array, FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.extras import require
from fedbandits.contract.facts import Episodes, Norms, Range
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import Outcome, Turn, World
from fedbandits.environments.planning.mdp import MDPs


class GymnasiumWorld(World):
    """Agent i plays episodes of at most H steps in `environments[i]`; `states` turns an observation into p features.

    The arms are A blocks of p numbers, of which action a fills its own: d = A p. Every episode is begun with a seed of
    its own, so that the world is saved as what was done in the running episodes, `actions` (n, H), and loaded by doing
    it again: an environment that does not repeat itself under one seed cannot be loaded, which is said. `over` (n,)
    says whose episode is over early, which the next turn shows as zero arms.

    Where the environment tells its table (`P`, as the text games do), regret is exact, for episodes of H steps;
    elsewhere nobody knows it, and it is 0.
    """

    keeps: ClassVar[tuple[str, ...]] = ("episode", "stage", "actions", "over", "shown")

    def __init__(self, problem: Problem, environments: list[Any], states: Any, seed: np.random.SeedSequence) -> None:
        self.problem = problem
        n, length = problem.agents, problem.get(Episodes, Episodes(1)).length
        self._games = environments
        self._states = states
        self._seed = seed
        self._everybody = np.arange(n)
        self._length = length
        self._table = _table(environments[0], length)
        self.value_regret = self._table is not None
        self.episode = np.zeros(n, dtype=np.int64)
        self.stage = np.zeros(n, dtype=np.int64)
        self.actions = np.zeros((n, length), dtype=np.int64)
        self.over = np.zeros(n, dtype=np.bool_)
        self.shown = np.zeros((n, problem.dim // problem.arms))
        """(n, p) the features of the states that agents are in."""
        self._seen: list[Any] = [None] * n
        for i in range(n):
            self._begin(i)

    def turn(self, step: int) -> Turn:
        """Everybody is awake; see `World`."""
        n, actions, size = len(self._everybody), self.problem.arms, self.shown.shape[1]
        arms = np.zeros((n, actions, actions, size))
        alive = np.flatnonzero(~self.over)
        for action in range(actions):
            arms[alive, action, action] = self.shown[alive]
        return Turn(self._everybody, arms.reshape(n, actions, -1))

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """What the environments pay; see `World`."""
        rewards, regrets, chance = (np.zeros(len(picks)) for _ in range(3))
        for i, action in enumerate(picks.tolist()):
            if self.over[i]:
                self.over[i] = False
                self._next(i)
                continue
            if self._table is not None:
                values, quality, paid = self._table
                state, h = int(self._seen[i]), int(self.stage[i])
                regrets[i] = max(values[h, state] - quality[h, state, action], 0.0)
                chance[i] = paid[state].mean()
            observation, reward, terminated, truncated, _ = self._games[i].step(action)
            rewards[i] = reward
            self.actions[i, self.stage[i]] = action
            self.stage[i] += 1
            if self.stage[i] == self._length:
                self._next(i)
            elif terminated or truncated:
                self.over[i] = True
            else:
                self._see(i, observation)
        return Outcome(rewards, regrets, chance)

    def _next(self, agent: int) -> None:
        self.episode[agent] += 1
        self.stage[agent] = 0
        self.actions[agent] = 0
        self._begin(agent)

    def _begin(self, agent: int) -> None:
        key = (*self._seed.spawn_key, agent, int(self.episode[agent]))
        seed = int(np.random.SeedSequence(self._seed.entropy, spawn_key=key).generate_state(1)[0])
        self._see(agent, self._games[agent].reset(seed=seed)[0])

    def _see(self, agent: int, observation: Any) -> None:
        self._seen[agent] = observation
        self.shown[agent] = self._states(observation)

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        super()._take(state, prefix)
        for i in range(len(self._everybody)):
            self._begin(i)
            for action in self.actions[i, : self.stage[i]].tolist():
                observation, *_ = self._games[i].step(action)
                if not self.over[i]:
                    self._see(i, observation)
        if not np.array_equal(self.shown[~self.over], state[f"{prefix}shown"][~self.over]):
            raise ValueError(
                f"the snapshot's {prefix}shown is not what the environment shows after the same seeds and actions: it "
                "does not repeat itself, and cannot be resumed"
            )


def _pairs(told: Any) -> Any:
    """A mapping as pairs, which do not change."""
    return tuple(sorted(told.items())) if isinstance(told, Mapping) else told


@parameters
class Gymnasium:
    """`clients` copies of the Gymnasium environment `id`, in episodes of at most `length` H steps; needs the extra
    `gymnasium`. `options`, a mapping or pairs, are handed to `gymnasium.make`.

    Observations that are numbered are shown as a table, one unit vector each. Others, which are vectors, are shown as
    `waves` random Fourier features of lengthscale `scale`, of coordinates divided by `reach` (by their bounds, where
    they have any); a map of your own is a subclass with `_map`. Actions have to be numbered.

    `low` and `high` say where rewards lie; those of environments with a table are known. Planners take values to be
    linear in what is shown, which is true of tables, and an approximation of the others.
    """

    id: str = "FrozenLake-v1"
    clients: Annotated[int, Field(ge=1)] = 4
    length: Annotated[int, Field(ge=1)] = 20
    options: Annotated[tuple[tuple[str, Any], ...], BeforeValidator(_pairs)] = ()
    waves: Annotated[int, Field(ge=1)] = 30
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.5
    reach: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3.0
    low: Annotated[float, Field(allow_inf_nan=False)] | None = None
    high: Annotated[float, Field(allow_inf_nan=False)] | None = None

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="gymnasium",
        family="planning",
        summary="an environment of Gymnasium for every agent, states as a table or by random features",
        source="Towers et al. (2024), Gymnasium",
    )

    def world(self, horizon: int, seed: np.random.SeedSequence) -> GymnasiumWorld:
        """The instance that `seed` stands for."""
        require("gymnasium", "gymnasium")
        import gymnasium

        try:
            games = [gymnasium.make(self.id, **dict(self.options)) for _ in range(self.clients)]
        except gymnasium.error.Error as error:
            raise ConfigError(f"gymnasium: id={self.id}: {error}") from None
        one = games[0]
        if not isinstance(one.action_space, gymnasium.spaces.Discrete):
            raise ConfigError(f"gymnasium: actions of {self.id} are not numbered, but {one.action_space}")
        size, states = self._map(one.observation_space)
        actions = int(one.action_space.n)
        problem = Problem(agents=self.clients, dim=actions * size, arms=actions, horizon=horizon)
        problem = problem.knowing(Episodes(self.length), Norms(parameter=float(np.sqrt(actions * size)), arms=1.0))
        known = self._range(one)
        return GymnasiumWorld(problem if known is None else problem.knowing(known), games, states, seed)

    def _map(self, space: Any) -> tuple[int, Any]:
        """p, and what turns an observation into p features of norm 1 at most."""
        import gymnasium

        if isinstance(space, gymnasium.spaces.Discrete):
            table = np.eye(int(space.n))
            return len(table), lambda seen: table[int(seen)]
        if not isinstance(space, gymnasium.spaces.Box):
            raise ConfigError(
                f"gymnasium: {self.id} shows {space}; say in a subclass with _map how that becomes a vector"
            )
        bounds = np.minimum(np.maximum(np.abs(space.low), np.abs(space.high)).ravel(), self.reach)
        rng = np.random.default_rng(0)  # the map is known beforehand, and no part of what is drawn
        slopes = rng.standard_normal((self.waves, len(bounds))) / self.scale
        shifts = rng.uniform(0, 2 * np.pi, self.waves)

        def waves(seen: Any) -> FloatArray:
            scaled = np.clip(np.asarray(seen, dtype=np.float64).ravel() / bounds, -1, 1)
            return np.asarray(np.cos(slopes @ scaled + shifts) / np.sqrt(self.waves))

        return self.waves, waves

    def _range(self, game: Any) -> Range | None:
        table = getattr(game.unwrapped, "P", None)
        if self.low is not None and self.high is not None:
            return Range(self.low, self.high)
        if table is None:
            return None
        paid = [reward for row in table.values() for after in row.values() for _, _, reward, _ in after]
        low, high = float(min(paid)), float(max(paid))
        return Range(low, high) if low < high else None


def _table(game: Any, length: int) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """V* (H + 1, S), Q* (H, S, A) and expected rewards (S, A) of an environment that tells its table."""
    told = getattr(game.unwrapped, "P", None)
    if told is None:
        return None
    states, actions = len(told), len(told[0])
    moves, pays = np.zeros((states, actions, states + 1)), np.zeros((states, actions))
    for x, row in told.items():
        for a, after in row.items():
            for chance, into, reward, over in after:
                moves[x, a, states if over else into] += chance
                pays[x, a] += chance * reward
    moves = np.concatenate([moves, np.zeros((1, actions, states + 1))])
    moves[states, :, states] = 1.0
    starts, ends = np.eye(states + 1)[0], np.arange(states + 1) == states
    paid = np.vstack([pays, np.zeros((1, actions))])
    values, quality = MDPs(moves[None, None], paid[None, None], starts, ends, length).best
    return values[0], quality[0], pays
