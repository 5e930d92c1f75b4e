"""Bad input gets a `ValueError` that names what is wrong, before anything has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.population import Population
from fedbandits.contract.world import turn_for
from fedbandits.testing.breach import Breach, difference, require
from fedbandits.testing.subject import Subject

_CHECKED = "check the arguments first: contract.arrays has check_arms, check_feedback and check_finite"
_NOT_FINITE = (np.nan, np.inf, -np.inf)


@dataclass(frozen=True)
class _Scene:
    """A population with some experience, and one well-formed step for three of its agents."""

    agents: Population
    who: IntArray
    arms: FloatArray
    picks: IntArray
    rewards: FloatArray


def bad_input(subject: Subject) -> None:
    """What cannot be is refused by choose, learn and load; the population stays as it is."""
    scene = _scene(subject)
    for what, named, call in _refusals(scene):
        _refused(scene.agents, what, named, call)
    _nobody_awake(scene)
    _snapshots(subject, scene.agents)
    chosen = scene.agents.choose(scene.who, scene.arms)
    wanted = (len(scene.who),)
    require(
        chosen.shape == wanted and chosen.dtype == np.int64,
        f"choose returns {chosen.dtype} of shape {chosen.shape} for {len(scene.who)} agents",
        "return one int64 index for each of who",
    )
    scene.agents.learn(scene.who, scene.arms, scene.picks, scene.rewards)


def _scene(subject: Subject) -> _Scene:
    world, agents = subject.world(), subject.population()
    last = min(4, subject.horizon - 1)
    for step in range(last):
        turn = turn_for(world, step, agents)
        picks = agents.choose(turn.who, turn.arms)
        agents.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
    turn = world.turn(last)
    paid = world.pay(last, np.zeros(len(turn.who), dtype=np.int64)).rewards
    rows = np.arange(len(turn.who))[::-2][:3]
    arms = np.ascontiguousarray(turn.arms[rows])
    return _Scene(agents, turn.who[rows], arms, np.arange(len(rows)) % arms.shape[1], np.ascontiguousarray(paid[rows]))


def _refusals(scene: _Scene) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """What is spoilt, what the error has to name, and the call."""
    agents, who, arms, picks, rewards = scene.agents, scene.who, scene.arms, scene.picks, scene.rewards
    n = len(agents)
    for what, spoilt in {
        "two-dimensional": who[:, None],
        "not integers": who.astype(float),
        "negative": who - n,
        "beyond the population": who + n,
        "an agent twice": np.repeat(who[:1], len(who)) if len(who) > 1 else np.repeat(who, 2),
    }.items():
        yield f"choose with who {what}", "who", partial(agents.choose, spoilt, arms)
        yield f"learn with who {what}", "who", partial(agents.learn, spoilt, arms, picks, rewards)
    for what, bad_arms in {
        "of one agent": arms[0],
        "for too many agents": np.concatenate([arms, arms]),
        "of too low dimension": arms[:, :, :-1],
        "of too high dimension": np.concatenate([arms, arms], axis=2),
        "none at all": arms[:, :0],
        "in single precision": arms.astype(np.float32),
        "complex": arms.astype(complex),
        "objects": arms.astype(object),
    }.items():
        yield f"choose from arms {what}", "arm", partial(agents.choose, who, bad_arms)
        yield f"learn of arms {what}", "arm", partial(agents.learn, who, bad_arms, picks, rewards)
    last = len(who) - 1
    for value in _NOT_FINITE:
        for place in sorted({0, arms.shape[1] // 2, arms.shape[1] - 1}):
            shown = _with(arms, (last // 2, place, -1), value)
            yield f"choose with {value} in arm {place}", "finite", partial(agents.choose, who, shown)
        taken = _with(arms, (last, int(picks[last]), 0), value)
        yield f"learn of an arm with {value}", "finite", partial(agents.learn, who, taken, picks, rewards)
        told = _with(rewards, (last // 2,), value)
        yield f"learn of the reward {value}", "reward", partial(agents.learn, who, arms, picks, told)
    for what, bad_picks in {
        "negative": picks - arms.shape[1],
        "beyond the shown arms": picks + arms.shape[1],
        "too many": np.concatenate([picks, picks]),
        "two-dimensional": picks[:, None],
        "not integers": picks.astype(float),
    }.items():
        yield f"learn with picks {what}", "picks", partial(agents.learn, who, arms, bad_picks, rewards)
    for what, bad_rewards in {
        "too many": np.concatenate([rewards, rewards]),
        "two-dimensional": rewards[:, None],
        "complex": rewards.astype(complex),
        "text": rewards.astype(str),
        "objects": rewards.astype(object),
    }.items():
        yield f"learn with rewards {what}", "rewards", partial(agents.learn, who, arms, picks, bad_rewards)


def _with(array: FloatArray, place: tuple[int, ...], value: float) -> FloatArray:
    spoilt = array.copy()
    spoilt[place] = value
    return spoilt


def _refused(agents: Population, what: str, named: str, call: Callable[[], object]) -> None:
    before = agents.state()
    try:
        call()
    except ValueError as error:
        require(named in str(error), f"{what}: the error does not speak of {named!r}: {error}", _CHECKED)
    except Exception as error:
        raise Breach(f"{what}: {type(error).__name__} instead of ValueError: {error}", _CHECKED) from error
    else:
        raise Breach(f"{what}: nothing is raised", _CHECKED)
    changed = difference(before, agents.state())
    require(not changed, f"{what}: refused, and yet {changed}", "check everything before anything is changed or drawn")


def _nobody_awake(scene: _Scene) -> None:
    before = scene.agents.state()
    chosen = scene.agents.choose(scene.who[:0], scene.arms[:0])
    scene.agents.learn(scene.who[:0], scene.arms[:0], scene.picks[:0], scene.rewards[:0])
    require(chosen.shape == (0,), f"choose for nobody returns shape {chosen.shape}", "return an empty array")
    changed = difference(before, scene.agents.state())
    require(not changed, f"a step in which nobody is awake: {changed}", "change those alone who are in who")


def _snapshots(subject: Subject, agents: Population) -> None:
    good = agents.state()
    for name, array in good.items():
        lacking = {key: value for key, value in good.items() if key != name}
        _refused(agents, f"load without {name}", name, partial(agents.load, lacking))
        other = array[:-1] if array.ndim and len(array) else np.zeros((1, *array.shape[1:]), array.dtype)
        for bad in (other, array.astype(np.float32)):
            spoilt = good | {name: bad}
            what = f"load of {name} as {bad.dtype} of shape {bad.shape}"
            _refused(agents, what, name, partial(agents.load, spoilt))
    surplus = good | {"surplus": np.zeros(1)}
    _refused(agents, "load of an unknown array", "surplus", partial(agents.load, surplus))
    if good and subject.problem.agents >= 3:
        small, large = subject.population(2), subject.population(3)
        _refused(small, "load of a larger population", "snapshot", partial(small.load, large.state()))
