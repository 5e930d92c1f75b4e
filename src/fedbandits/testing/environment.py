"""What every environment owes: a pure function of its seed and of what is chosen in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Norms, Range
from fedbandits.contract.problem import Problem
from fedbandits.contract.room import Room
from fedbandits.contract.world import Environment, Outcome, Turn, World
from fedbandits.simulation.arguments import EnvironmentLike, environment_of
from fedbandits.testing.breach import Breach, BrokenPromiseError, difference, require

_SLACK = 1e-9
_FROM_THE_SEED = "draw from generators made of the seed that world() is given, and keep nothing in globals"


@dataclass(frozen=True, slots=True)
class _Promise:
    text: str
    mend: str
    trial: Callable[[_Trial], None]


class _Trial:
    """An environment, a horizon and a seed."""

    def __init__(self, environment: Environment, horizon: int, seed: int) -> None:
        self.environment = environment
        self.horizon = horizon
        self.seed = np.random.SeedSequence(seed)

    def world(self, seed: np.random.SeedSequence | None = None) -> World:
        """A world of one's own."""
        world = self.environment.world(self.horizon, seed or self.seed)
        require(
            isinstance(world, World),
            f"world() returns {type(world).__name__}",
            "return a subclass of fedbandits.environments.World, with turn and pay",
        )
        return world

    def turn(self, world: World, step: int) -> Turn:
        """What is shown in `step`: now and then with proposals, the same in every world, where there is room."""
        turn = world.turn(step)
        if turn.room is None or step % 3 == 0:
            return turn
        world.offer(step, self.proposed(step, turn, turn.room))
        return world.turn(step)

    def proposed(self, step: int, turn: Turn, room: Room) -> FloatArray:
        """Points in the room, and some beyond it."""
        drawn = np.random.default_rng([step, 11]).uniform(-0.2, 1.2, (len(turn.who), room.slots, len(room.low)))
        return np.asarray(room.low + drawn * (room.high - room.low))

    def picks(self, step: int, turn: Turn) -> IntArray:
        """Some choice, the same in every world."""
        return np.random.default_rng([step, 7]).integers(turn.arms.shape[1], size=len(turn.who))


def check_environment(environment: EnvironmentLike, *, horizon: int = 40, seed: int = 0) -> None:
    """Hold `environment` to everything that the contract asks of one.

    Raises `BrokenPromiseError` at the first promise that is not kept: which one, in which step, and how to mend it.

    >>> import fedbandits as fb
    >>> from fedbandits.testing import check_environment
    >>> check_environment(fb.environments.Linear(clients=4, dim=3, arms=5))
    """
    keeps_to_the_contract(environment_of(environment), horizon, seed)


def keeps_to_the_contract(environment: Environment, horizon: int, seed: int) -> None:
    """`check_environment`, of what is one already."""
    about = getattr(environment, "about", None)
    name = getattr(about, "name", type(environment).__name__)
    for check, promise in _PROMISES.items():
        try:
            promise.trial(_Trial(environment, horizon, seed))
        except Breach as breach:
            mend = breach.mend or promise.mend
            raise BrokenPromiseError(f"environment {name!r}", check, promise.text, breach.found, mend) from None
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise BrokenPromiseError(f"environment {name!r}", check, promise.text, found, promise.mend) from error


def _entry(trial: _Trial) -> None:
    about = getattr(trial.environment, "about", None)
    require(
        about is None or isinstance(about, AboutEnvironment),
        f"about is {type(about).__name__}",
        "make it an AboutEnvironment, or leave it out",
    )
    problem = trial.world().problem
    require(isinstance(problem, Problem), f"world().problem is {type(problem).__name__}", "make it a Problem")
    for name in ("agents", "dim", "arms"):
        size = getattr(problem, name)
        require(size >= 1, f"problem.{name} is {size}", "give it at least 1")
    require(problem.horizon == trial.horizon, f"problem.horizon is {problem.horizon}, asked for was {trial.horizon}")


def _shapes(trial: _Trial) -> None:
    world = trial.world()
    problem = world.problem
    for step in range(trial.horizon):
        turn = trial.turn(world, step)
        _turn(turn, problem, f"turn({step})")
        _outcome(world.pay(step, trial.picks(step, turn)), turn, problem, f"pay({step}, ...)")


def _turn(turn: Turn, problem: Problem, where: str) -> None:
    who, arms, reachable = turn.who, turn.arms, turn.reachable
    n = problem.agents
    require(
        who.ndim == 1 and who.dtype == np.int64,
        f"{where}.who is {who.dtype} of shape {who.shape}",
        "make it int64 (w,)",
    )
    sound = len(np.unique(who)) == len(who) and (len(who) == 0 or (who.min() >= 0 and who.max() < n))
    require(sound, f"{where}.who is {who[:8].tolist()}", f"name each agent of 0..{n - 1} once at most")
    shape = (len(who), problem.arms, problem.dim)
    require(
        arms.shape == shape and arms.dtype == np.float64,
        f"{where}.arms is {arms.dtype} of shape {arms.shape}, with {len(who)} awake",
        f"show float64 (w, K, d) = {shape}",
    )
    require(np.isfinite(arms).all(), f"{where}.arms is not finite", "show finite arms")
    if reachable is not None:
        require(
            reachable.shape == (n,) and reachable.dtype == np.bool_,
            f"{where}.reachable is {reachable.dtype} of shape {reachable.shape}",
            f"make it bool ({n},)",
        )
        require(reachable[who].all(), f"{where}: somebody decides who cannot be reached", "wake those who are there")
    norms = problem.get(Norms)
    if norms is not None and arms.size:
        longest = float(np.linalg.norm(arms, axis=2).max())
        require(
            longest <= norms.arms + _SLACK,
            f"{where} shows an arm of norm {longest:.6g}, and the fact Norms says {norms.arms:.6g}",
            "tell Norms(arms=...) that hold, or none",
        )


def _outcome(outcome: Outcome, turn: Turn, problem: Problem, where: str) -> None:
    for name in ("rewards", "regrets", "chance"):
        held = getattr(outcome, name)
        require(
            held.shape == turn.who.shape and held.dtype == np.float64,
            f"{where}.{name} is {held.dtype} of shape {held.shape} for {len(turn.who)} agents",
            "return one float64 for each of who",
        )
        require(np.isfinite(held).all(), f"{where}.{name} is not finite", "return finite numbers")
    if len(turn.who) == 0:
        return
    lowest = float(outcome.regrets.min())
    require(
        lowest >= -_SLACK, f"{where}.regrets has {lowest:.6g}", "measure against the best of the arms that are shown"
    )
    known = problem.get(Range)
    if known is not None:
        low, high = float(outcome.rewards.min()), float(outcome.rewards.max())
        said = f"the fact Range says [{known.low:.6g}, {known.high:.6g}]"
        require(
            known.low - _SLACK <= low and high <= known.high + _SLACK,
            f"{where}.rewards lie in [{low:.6g}, {high:.6g}], and {said}",
            "tell a Range that holds, or none",
        )


def _repeatable(trial: _Trial) -> None:
    told = list(_story(trial, trial.world()))
    for step, ((turn, outcome), (other, instead)) in enumerate(zip(told, _story(trial, trial.world()), strict=True)):
        _same_turn(turn, other, f"turn({step}) of two worlds of one seed, one after the other")
        _same_outcome(outcome, instead, f"pay({step}, ...) of two worlds of one seed, one after the other")
    _other_seed(trial, told)


def _story(trial: _Trial, world: World) -> Iterator[tuple[Turn, Outcome]]:
    """What a world shows and pays, in copies."""
    for step in range(trial.horizon):
        turn = trial.turn(world, step)
        reachable = None if turn.reachable is None else turn.reachable.copy()
        shown = Turn(turn.who.copy(), turn.arms.copy(), reachable)
        outcome = world.pay(step, trial.picks(step, turn))
        yield shown, Outcome(outcome.rewards.copy(), outcome.regrets.copy(), outcome.chance.copy())


def _other_seed(trial: _Trial, told: list[tuple[Turn, Outcome]]) -> None:
    """Another seed is another world."""
    others = _story(trial, trial.world(np.random.SeedSequence(987654321)))
    for (turn, outcome), (other, instead) in zip(told, others, strict=True):
        shown = np.array_equal(turn.who, other.who) and np.array_equal(turn.arms, other.arms)
        if not shown or not np.array_equal(outcome.rewards, instead.rewards):
            return
    raise Breach("two seeds make the same world", "let arms or rewards follow from the seed that world() is given")


def _same_turn(turn: Turn, other: Turn, what: str) -> None:
    require(np.array_equal(turn.who, other.who), f"{what}: other agents are awake")
    require(np.array_equal(turn.arms, other.arms), f"{what}: other arms are shown")
    nobody = np.zeros(0, dtype=np.bool_)
    mine, instead = (nobody if one.reachable is None else one.reachable for one in (turn, other))
    require(np.array_equal(mine, instead), f"{what}: others can be reached")


def _same_outcome(outcome: Outcome, other: Outcome, what: str) -> None:
    for name in ("rewards", "regrets", "chance"):
        require(np.array_equal(getattr(outcome, name), getattr(other, name)), f"{what}: other {name}")


def _quiet(trial: _Trial) -> None:
    """Asking for a turn changes nothing."""
    world = trial.world()
    for step in range(min(5, trial.horizon)):
        before = world.state()
        turn = trial.turn(world, step)
        found = difference(before, world.state())
        require(not found, f"turn({step}) changes the world: {found}")
        _same_turn(turn, world.turn(step), f"turn({step}), asked for twice")
        world.pay(step, trial.picks(step, turn))


def _own_noise(trial: _Trial) -> None:
    """In a world that does not move, what an agent gets depends on its own choice alone."""
    world = trial.world()
    if world.state():
        return
    for step in range(trial.horizon):
        turn = world.turn(step)
        picks = trial.picks(step, turn)
        first = world.pay(step, picks)
        _same_outcome(first, world.pay(step, picks), f"pay({step}, ...) twice")
        if len(turn.who) < 2:
            continue
        others = (picks + 1) % turn.arms.shape[1]
        others[0] = picks[0]
        second = world.pay(step, others)
        for name in ("rewards", "regrets", "chance"):
            mine, instead = getattr(first, name)[0], getattr(second, name)[0]
            where = f"pay({step}, ...): {name} of agent {turn.who[0]}"
            require(mine == instead, f"{where} go from {mine!r} to {instead!r} when others choose otherwise")


def _resumable(trial: _Trial) -> None:
    straight, hopping = trial.world(), trial.world()
    for step in range(trial.horizon):
        turn, other = trial.turn(straight, step), trial.turn(hopping, step)
        _same_turn(turn, other, f"turn({step}) after a new start from a snapshot")
        picks = trial.picks(step, turn)
        _same_outcome(
            straight.pay(step, picks), hopping.pay(step, picks), f"pay({step}, ...) after a new start from a snapshot"
        )
        state = hopping.state()
        if state or step in (
            0,
            trial.horizon // 2,
        ):  # to make a world may be costly, and one that does not move is alike
            hopping = trial.world()
            hopping.load(state)


def _roomy(trial: _Trial) -> None:
    """What is proposed is shown, cut to the room, in place of the last arms, and nothing else changes."""
    world = trial.world()
    for step in range(min(5, trial.horizon)):
        turn = world.turn(step)
        room = turn.room
        if room is None:
            return
        shape = (turn.arms.shape[2],)
        require(
            room.low.shape == shape and room.high.shape == shape and bool((room.low <= room.high).all()),
            f"turn({step}).room goes from {room.low} to {room.high}",
            f"give two float64 of shape {shape}, the first nowhere above the second",
        )
        _refuses(world, step, np.full((len(turn.who), room.slots, *shape), np.nan), "points that are not finite")
        _refuses(world, step, np.zeros((len(turn.who), room.slots + 1, *shape)), "more points than it has room for")
        _same_turn(turn, world.turn(step), f"turn({step}) after proposals that were refused")
        proposed = trial.proposed(step, turn, room)
        world.offer(step, proposed[::-1])
        world.offer(step, proposed)
        wanted = turn.arms.copy()
        wanted[:, -room.slots :] = np.clip(proposed, room.low, room.high)
        _same_turn(Turn(turn.who, wanted, turn.reachable), world.turn(step), f"turn({step}), with proposals")
        world.pay(step, np.full(len(turn.who), turn.arms.shape[1] - 1))


def _refuses(world: World, step: int, proposed: FloatArray, what: str) -> None:
    try:
        world.offer(step, proposed)
    except ValueError:
        return
    raise Breach(f"offer({step}, ...) takes {what}", "let Room.fit look at proposals before anything changes")


def _measurable(trial: _Trial) -> None:
    """What nobody in the world may know fits the problem."""
    world = trial.world()
    problem = world.problem
    truth, theta, means = world.truth(), world.parameters(), world.mean_rewards()
    if truth is not None:
        count = len(truth.clusters)
        require(count == problem.agents, f"truth() tells clusters of {count} agents", "name one for each agent")
    if theta is not None:
        shapes = ((1, problem.dim), (problem.agents, problem.dim))
        require(theta.shape in shapes, f"parameters() has shape {theta.shape}", f"return one of {shapes}, or None")
    if means is not None:
        require(
            means.shape == (problem.arms,),
            f"mean_rewards() has shape {means.shape}",
            f"return ({problem.arms},), or None",
        )
    best = None
    if not world.state():
        turn = world.turn(0)
        regrets = [world.pay(0, np.full(len(turn.who), arm)).regrets for arm in range(turn.arms.shape[1])]
        if len(turn.who):
            best = float(np.min(regrets, axis=0).max())
    require(
        best is None or best <= _SLACK,
        f"in turn 0 every arm has a regret of at least {best} for somebody",
        "measure against the best of the arms that are shown",
    )


_PROMISES: dict[str, _Promise] = {
    "entry": _Promise(
        "world(horizon, seed) makes a World that poses a problem of the given horizon",
        "hand horizon on to the Problem",
        _entry,
    ),
    "shapes": _Promise(
        "turns and outcomes have the shapes, types and limits that the problem says",
        "return arrays as documented at Turn and Outcome",
        _shapes,
    ),
    "repeatable world": _Promise(
        "a world is a pure function of its seed and of what is chosen in it: same seed, same turns and rewards",
        _FROM_THE_SEED,
        _repeatable,
    ),
    "quiet turns": _Promise(
        "a turn may be asked for several times before it is paid: nothing changes by that",
        "change what the world keeps in pay alone",
        _quiet,
    ),
    "room": _Promise(
        "a turn with room shows what is proposed, cut to its box, in place of its last arms until it is paid",
        "keep what offer() is given until pay(), and change nothing else",
        _roomy,
    ),
    "own noise": _Promise(
        "noise belongs to the decision (step, agent), whatever others choose, in a world that does not move",
        "draw noise for (step, agent) before looking at picks; name what moves in keeps",
        _own_noise,
    ),
    "resumable world": _Promise(
        "a world that was saved, and loaded into one just made of the same seed, goes on as if nothing had been",
        "name in keeps every array that changes while the world lives",
        _resumable,
    ),
    "measurable": _Promise(
        "truth, parameters and mean rewards fit the problem, and the best arm has no regret",
        "return what is documented at World, or None",
        _measurable,
    ),
}
