"""How agents choose: what they compare and with which chances they draw is what they tell those who look on."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.population import Population
from fedbandits.contract.streams import Streams
from fedbandits.contract.world import turn_for
from fedbandits.deploy.embedded.parts import names_within
from fedbandits.testing.breach import difference, require
from fedbandits.testing.subject import Subject

_LOOKS = 4
"""In how many turns of a run, evenly spread and the first among them, agents are asked."""
_DRAWS = 150
"""How often the same choice is drawn anew where agents draw."""
_DEVIATIONS, _SLACK = 5.0, 0.01
"""How far frequencies may be off: standard deviations, and beyond them what the chances may be rounded by."""


def told(subject: Subject) -> None:
    """`choose` takes the first highest of `scores`, draws with `chances`, and otherwise follows from what is known."""
    world, agents = subject.world(), subject.population()
    every = max(subject.horizon // _LOOKS, 1)
    for step in range(subject.horizon):
        turn = turn_for(world, step, agents)
        if step % every == 0 and len(turn.who):
            _look(subject, agents, turn.who, turn.arms, f"in step {step}")
        picks = agents.choose(turn.who, turn.arms)
        agents.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)


def _look(subject: Subject, agents: Population, who: IntArray, arms: FloatArray, when: str) -> None:
    before = agents.state()
    scores, chances = agents.scores(who, arms), agents.chances(who, arms)
    changed = difference(before, agents.state())
    require(not changed, f"looking at scores and chances {when}: {changed}", "let both change nothing")
    for name, found in (("scores", scores), ("chances", chances)):
        require(
            found is None or (found.shape == arms.shape[:2] and found.dtype == np.float64),
            f"{name}() is {None if found is None else (found.dtype, found.shape)} for arms {arms.shape} {when}",
            f"return (w, K) float64 from {name}(), or None",
        )
    plain, telling = _copy(subject, before), _copy(subject, before)
    picks = plain.choose(who, arms)
    if scores is not None:
        _compared(scores, picks, when)
    told = telling.choose_and_tell(who, arms)
    apart = difference(plain.state(), telling.state())
    require(
        not apart and np.array_equal(picks, told.picks) and _same(scores, told.scores) and _same(chances, told.chances),
        f"choose_and_tell() {when} is not choose() with scores() and chances(): {apart or 'what it returns differs'}",
        "leave choose_and_tell() to Population, or let it do the same",
    )
    if chances is None and subject.topology == "graph":
        return  # agents on a graph are not deployed, so that nobody evaluates what they drew
    others = [_copy(subject, _elsewhere(agents, before, seed)) for seed in range(1 if chances is None else _DRAWS)]
    drawn = np.array([other.choose(who, arms) for other in others])
    if chances is None:
        require(
            np.array_equal(drawn[0], picks),
            f"agents whose streams alone differ choose differently {when}",
            "say in chances() with which probability each arm is taken",
        )
    else:
        _drawn_with(chances, drawn, when)


def _same(told: FloatArray | None, again: FloatArray | None) -> bool:
    return told is again or (told is not None and again is not None and np.array_equal(told, again, equal_nan=True))


def _compared(scores: FloatArray, picks: IntArray, when: str) -> None:
    compared = ~np.isnan(scores).any(axis=1)
    best = scores[compared].argmax(axis=1)
    require(
        np.array_equal(picks[compared], best),
        f"agents choose arms {picks[compared][:5].tolist()} {when}, the highest scores are of {best[:5].tolist()}",
        "return from scores() what choose() compares, and NaN in rows of agents who compare nothing",
    )


def _drawn_with(chances: FloatArray, drawn: IntArray, when: str) -> None:
    require(
        (chances >= 0).all() and np.allclose(chances.sum(axis=1), 1.0),
        f"chances {when} are negative, or do not sum to 1",
    )
    frequencies = (drawn[:, :, None] == np.arange(chances.shape[1])).mean(axis=0)
    allowed = _DEVIATIONS * np.sqrt(np.clip(chances * (1 - chances), 1 / _DRAWS, None) / _DRAWS) + _SLACK
    off = np.abs(frequencies - chances) - allowed
    row, arm = np.unravel_index(off.argmax(), off.shape)
    require(
        off.max() <= 0,
        f"arm {arm} was drawn {frequencies[row, arm]:.0%} of {_DRAWS} times {when}, its chance is said to be "
        f"{chances[row, arm]:.0%}",
        "return from chances() with which probability choose() takes each arm",
    )


def _elsewhere(agents: Population, state: State, seed: int) -> State:
    """`state` as it would be had the streams of the agents been others."""
    rng = np.random.default_rng(seed)
    words = {
        name: rng.integers(1, 2**63, size=state[name].shape, dtype=np.uint64)
        for name in names_within(agents, Streams)
        if name.endswith("words")
    }
    return state | words


def _copy(subject: Subject, state: State) -> Population:
    found = subject.population()
    found.load(state)
    return found
