"""Linear rewards: y = <theta_i, x> + noise.

Source of the setting: the publications of the linear family. `LinearWorld` serves every environment with linear
mean rewards; an environment only says how the parameters are drawn.
"""

from __future__ import annotations

from copy import copy
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.compiled import Block, untouched
from fedbandits.contract.facts import Noise, Norms, Range, Shared, Truth
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import Outcome, Turn, World, parts_of
from fedbandits.environments import attendance, hashed_arms
from fedbandits.environments.arms import ArmSource, FreshArms, OneSetOfArms, PoolArms, Spread
from fedbandits.environments.attendance import Attendance
from fedbandits.environments.hashed_arms import HashedArms
from fedbandits.environments.laws import Gaussian, Law, Uniform, in_block
from fedbandits.linalg.jit import jit
from fedbandits.linalg.links import MeanFunction

_BLOCK = 2**18
"""Numbers drawn at once; part of what a seed means, since every block has its own generator."""


class _Drawn(NamedTuple):
    """A block of steps: who (B, w) is awake, the shocks of their rewards, the arms they see (B, w, d, K), their mean
    rewards (B, w, K), the highest and the mean of these (B, w), and who is there (B, n), unless everybody is.
    """

    who: IntArray
    shocks: FloatArray
    lanes: FloatArray
    means: FloatArray
    best: FloatArray
    chance: FloatArray
    there: BoolArray | None


class LinearWorld(World):
    """Rewards that depend on an arm by <theta_i, x> and a `law`; one shock for each decision (t, i).

    `theta` is (n, d), or (1, d) when all agents share it. Block b of steps is drawn from a generator of its own,
    so any step can be visited at any time. `presence` (n,) is the chance that an agent is there in a step at all:
    whoever is not neither decides nor can be reached.
    """

    def __init__(
        self,
        problem: Problem,
        theta: FloatArray,
        source: ArmSource,
        schedule: Attendance,
        seed: np.random.SeedSequence,
        law: Law,
        presence: FloatArray | None = None,
        truth: Truth | None = None,
    ) -> None:
        self.problem = problem
        self._law = law
        self.theta = theta
        self._source = source
        self._schedule = schedule
        self._seed = seed
        self._presence = presence
        self._truth = truth
        awake = attendance.awake_per_step(schedule, problem.agents)
        self._steps = max(1, _BLOCK // (awake * source.size))
        self._block = -1
        self._drawn: _Drawn | None = None
        self._handed_over: Block | None = None
        self._kept: dict[int, _Drawn] = {}
        self._room = 0

    def with_parameters(self, theta: FloatArray) -> LinearWorld:
        """The same arms, noise and presence under other parameters."""
        return LinearWorld(
            self.problem, theta, copy(self._source), self._schedule, self._seed, self._law, self._presence, self._truth
        )

    def truth(self, step: int = 0) -> Truth | None:
        """Who is alike; see `World`."""
        return self._truth

    def parameters(self) -> FloatArray | None:
        """The parameters; see `World`."""
        return self.theta

    def turn(self, step: int) -> Turn:
        """Who is awake, and what they see; see `World`."""
        drawn, at = self._seek(step)
        who, lanes = drawn.who[at], drawn.lanes[at]
        if drawn.there is None:
            return Turn(who, lanes.transpose(0, 2, 1))
        there = drawn.there[at]
        shown = there[who]
        return Turn(who[shown], _rows(lanes, shown).transpose(0, 2, 1), reachable=there)

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """Rewards and pseudo-regrets; see `World`."""
        drawn, at = self._seek(step)
        means, shocks, best, chance = drawn.means[at], drawn.shocks[at], drawn.best[at], drawn.chance[at]
        if drawn.there is not None:
            shown = drawn.there[at][drawn.who[at]]
            means, shocks, best, chance = _rows(means, shown), shocks[shown], best[shown], chance[shown]
        earned = means[np.arange(len(picks)), picks]
        return Outcome(self._law.rewards(earned, shocks), best - earned, chance)

    def means_at(self, step: int) -> FloatArray:
        """(w, K) the mean rewards of what is drawn for `step`, whether or not everybody is there to see it."""
        drawn, at = self._seek(step)
        return np.asarray(drawn.means[at])

    def block(self, step: int) -> Block | None:
        """See `World`: where everybody is there, and rewards are made of a mean and one shock."""
        if self._presence is not None or not untouched(self, LinearWorld, "turn", "pay"):
            return None
        if isinstance(self._source, HashedArms):
            return self._hashed_block(step, self._source)
        drawn, _ = self._seek(step)
        if self._handed_over is None:
            earned = in_block(self._law, drawn.shocks)
            if earned is None:
                return None
            self._handed_over = Block(
                first=self._block * self._steps,
                who=_writable(drawn.who),
                arms=_lines(drawn.lanes),
                means=_lines(drawn.means),
                best=_writable(drawn.best),
                chance=_writable(drawn.chance),
                **earned,
            )
        return self._handed_over

    def remember(self, size: int) -> None:
        """See `World`: blocks of steps, the first ones."""
        self._room = size
        if size == 0:
            self._kept.clear()

    def _hashed_block(self, step: int, source: HashedArms) -> Block | None:
        """The turns around `step`, of which arms are found one decision at a time."""
        first = step - step % self._steps
        if self._handed_over is None or self._handed_over.first != first:
            rng = self._generator(first // self._steps)
            who = attendance.draw(self._schedule, self.problem.agents, first, self._steps, rng)
            earned = in_block(self._law, self._law.shocks(rng, who.shape))
            if earned is None:
                return None
            link = MeanFunction(getattr(self._law, "link", "identity")).code
            self._handed_over = Block(
                first=first,
                who=_writable(who),
                arms=np.empty((1, source.dim, source.arms)),
                means=np.empty((1, source.arms)),
                best=np.empty(who.shape),
                chance=np.empty(who.shape),
                **earned,
                source=source.compiled(self.theta, link),
            )
        return self._handed_over

    def _draw(self, first: int, rng: np.random.Generator) -> _Drawn:
        """Steps `first` and those after it."""
        who = attendance.draw(self._schedule, self.problem.agents, first, self._steps, rng)
        shocks = self._law.shocks(rng, who.shape)
        if isinstance(self._source, HashedArms):
            lanes, scores = self._source.show(first, who, self.theta)
            means = self._law.means(scores)
            best, chance = hashed_arms.outlook(means)
        else:
            lanes, scores = self._source.draw(who, self.theta, rng)
            means = self._law.means(scores)
            best, chance = outlook(means)
        there = None
        if self._presence is not None:
            there = rng.random((self._steps, self.problem.agents)) < self._presence
        return _Drawn(who, shocks, lanes, means, best, chance, there)

    def _generator(self, block: int) -> np.random.Generator:
        key = (*self._seed.spawn_key, block)
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence(self._seed.entropy, spawn_key=key)))

    def _seek(self, step: int) -> tuple[_Drawn, int]:
        block, at = divmod(step, self._steps)
        if self._drawn is None or block != self._block:
            # room for arms is used again if nobody holds them
            self._drawn = self._handed_over = None
            if block in self._kept:
                self._drawn = self._kept[block]
            else:
                self._drawn = self._draw(block * self._steps, self._generator(block))
                self._keep(block, self._drawn)
            self._block = block
        return self._drawn, at

    def _keep(self, block: int, drawn: _Drawn) -> None:
        size = sum(array.nbytes for array in drawn if array is not None)
        if size <= self._room:
            self._kept[block] = drawn
            self._room -= size


def _rows(array: FloatArray, shown: BoolArray) -> FloatArray:
    """The rows `shown` (w,) of `array` (w, ...), without a copy where all rows are one and the same in memory."""
    return array[: np.count_nonzero(shown)] if array.strides[0] == 0 else array[shown]


def _writable(array: Array) -> Array:
    """The same, contiguous: for arrays that cannot be written to, loops would be compiled once more."""
    return np.require(array, requirements=["C", "W"])


def _lines(array: FloatArray) -> FloatArray:
    """(B, w, ...) -> (B w, ...), or (1, ...) where all rows are one and the same in memory."""
    if array.strides[:2] == (0, 0):
        return array[0, :1].copy()
    return np.ascontiguousarray(array).reshape(-1, *array.shape[2:])


def outlook(means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(B, w, K) mean rewards -> (B, w) the highest of every decision, and what a uniformly random choice brings."""
    best, chance = _outlook(_lines(means))
    if len(best) == 1:
        return np.broadcast_to(best, means.shape[:2]), np.broadcast_to(chance, means.shape[:2])
    return best.reshape(means.shape[:2]), chance.reshape(means.shape[:2])


@jit
def _outlook(means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(m, K) -> (m,) maxima and means."""
    highest = np.empty(len(means))
    chance = np.empty(len(means))
    for i in range(len(means)):
        best = means[i, 0]
        total = means[i, 0]
        for k in range(1, means.shape[1]):
            best = max(best, means[i, k])
            total += means[i, k]
        highest[i] = best
        chance[i] = total / means.shape[1]
    return highest, chance


@parameters
class Linear:
    """All agents share one parameter, uniform on the unit sphere.

    Each awake agent sees `arms` arms of dimension `dim` and unit norm: fresh at every turn, or drawn without
    replacement from a fixed pool of `pool`. Rewards carry Gaussian noise of standard deviation `noise`. A share
    `stragglers` of the agents, chosen at random, is there in a step only with probability `presence`; the others always
    are.

    `draws` says where fresh arms come from: ``"sequence"``, drawn one after the other by a generator; or ``"hash"``, a
    hash of (seed, step, agent), several times as fast and without memory for them (`environments.hashed_arms`). The
    distribution is the same, the arms are not: a seed stands for one instance under one, and for another under the
    other.
    """

    clients: Annotated[int, Field(ge=1)] = 50
    dim: Annotated[int, Field(ge=1)] = 25
    arms: Annotated[int, Field(ge=1)] = 25
    pool: Annotated[int, Field(ge=1)] | None = None
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    spread: Spread = "sphere"
    schedule: Attendance = "all"
    stragglers: Annotated[float, Field(ge=0, le=1)] = 0.0
    presence: Annotated[float, Field(gt=0, le=1)] = 0.1
    draws: Literal["sequence", "hash"] = "sequence"

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="linear",
        family="linear",
        summary="one parameter for all agents, unit-norm arms, fresh or from a pool",
        source="setting of Wang, Hu, Chen & Wang (ICLR 2020) and Li & Wang (AISTATS 2022)",
    )

    _shows_fresh_arms: ClassVar[bool] = True
    """Whether arms are new at every turn where there is no pool."""

    @model_validator(mode="after")
    def _pool_is_large_enough(self) -> Linear:
        if self.pool is not None and self.pool < self.arms:
            raise ValueError(
                f"pool={self.pool} cannot show arms={self.arms} without replacement; raise pool or lower arms"
            )
        if self.draws == "hash" and (self.pool is not None or not self._shows_fresh_arms):
            raise ValueError(
                "draws='hash' is for arms that are fresh at every turn; leave it out, or leave the pool out (pool=None)"
            )
        return self

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
        instance, turns = parts_of(seed, 2)
        rng = np.random.default_rng(instance)
        theta = self._parameters(rng)
        problem = self._problem(horizon)
        return LinearWorld(problem, theta, self._source(rng), self.schedule, turns, self._law(), self._presence(rng))

    def _law(self) -> Law:
        return Gaussian(self.noise)

    def _source(self, rng: np.random.Generator) -> ArmSource:
        if self.draws == "hash":
            return HashedArms.drawn(self.arms, self.dim, self.spread, rng)
        if self.pool is None:
            return FreshArms(self.arms, self.dim, self.spread)
        return PoolArms(self.arms, self.pool, self.dim, self.spread, rng)

    def _presence(self, rng: np.random.Generator) -> FloatArray | None:
        return presences(self.clients, self.stragglers, self.presence, rng)

    def _problem(self, horizon: int) -> Problem:
        longest = float(np.sqrt(2.0)) if self.spread == "biased" else 1.0
        sizes = Problem(agents=self.clients, dim=self.dim, arms=self.arms, horizon=horizon)
        return sizes.knowing(Noise(self.noise), Norms(arms=longest))

    def _parameters(self, rng: np.random.Generator) -> FloatArray:
        return unit_rows(rng, 1, self.dim)


@parameters
class LinearBounded(Linear):
    """As `Linear`, with noise that is uniform in [-sqrt(3) noise, sqrt(3) noise], hence of the same standard deviation:
    rewards have a range, and a budget of privacy holds without cutting any of them down.
    """

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="linear-bounded",
        family="linear",
        summary="one parameter for all agents, unit-norm arms, rewards in a known range",
        source="setting of Wang, Hu, Chen & Wang (ICLR 2020), with bounded noise",
    )

    def _law(self) -> Law:
        return Uniform(self.noise)

    def _problem(self, horizon: int) -> Problem:
        known = super()._problem(horizon)
        most = known.get(Norms, Norms()).arms + Uniform(self.noise).reach
        return known.knowing(Range(-most, most))


@parameters
class LinearFixed(Linear):
    """As `Linear`, with one set of arms, in one order, for everybody and every turn: what arm k is stays what it is."""

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="linear-fixed",
        family="linear",
        summary="one parameter for all agents, and the same arms for all of them at every turn",
        source="setting of Mitra, Adibi, Pappas & Hassani (NeurIPS 2022)",
    )
    _shows_fresh_arms: ClassVar[bool] = False

    @model_validator(mode="after")
    def _has_no_pool(self) -> LinearFixed:
        if self.pool is not None:
            raise ValueError(f"pool={self.pool}: the arms are always the same ones; leave it out")
        return self

    def _source(self, rng: np.random.Generator) -> ArmSource:
        return OneSetOfArms(self.arms, self.dim, self.spread, rng)


@parameters
class LinearShared(Linear):
    """theta_i = [theta_global; theta_local,i]: the first `shared` coordinates are common, the rest are each
    agent's own. Both blocks are uniform directions scaled so that every theta_i has unit norm and each
    coordinate the same expected square. The publication shares 16 of 25 coordinates.
    """

    shared: Annotated[int, Field(ge=1)] = 16

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="linear-shared",
        family="linear",
        summary="agents share the leading coordinates of their parameters, the rest is their own",
        source="Li & Wang (AISTATS 2022), heterogeneous clients",
    )

    @model_validator(mode="after")
    def _shares_less_than_everything(self) -> LinearShared:
        if self.shared >= self.dim:
            raise ValueError(f"shared={self.shared} must be below dim={self.dim}; use 'linear' to share everything")
        return self

    def _problem(self, horizon: int) -> Problem:
        return super()._problem(horizon).knowing(Shared(self.shared))

    def _parameters(self, rng: np.random.Generator) -> FloatArray:
        own = self.dim - self.shared
        common = unit_rows(rng, 1, self.shared) * np.sqrt(self.shared / self.dim)
        local = unit_rows(rng, self.clients, own) * np.sqrt(own / self.dim)
        return np.hstack([np.repeat(common, self.clients, axis=0), local])


def presences(clients: int, stragglers: float, presence: float, rng: np.random.Generator) -> FloatArray | None:
    """(n,) the chance that each agent is there in a step: `presence` for a share `stragglers`, 1 for the others.

    None where nobody ever stays away.
    """
    if stragglers == 0:
        return None
    late = rng.permutation(clients)[: round(stragglers * clients)]
    chances = np.ones(clients)
    chances[late] = presence
    return chances


def unit_rows(rng: np.random.Generator, rows: int, dim: int) -> FloatArray:
    """(rows, dim) directions uniform on the unit sphere."""
    drawn = rng.standard_normal((rows, dim))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
