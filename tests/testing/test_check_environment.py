"""The public suite passes environments that keep the contract, and catches those that do not."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.facts import Norms, Range
from fedbandits.contract.problem import Problem
from fedbandits.contract.room import Room
from fedbandits.contract.world import Outcome, Turn, World
from fedbandits.environments import AboutEnvironment
from fedbandits.testing import BrokenPromiseError, check_algorithm, check_environment

N, K = 4, 3


class Restless(World):
    """Somebody else's world: arms that tire when they are taken, and recover."""

    keeps = ("tired",)

    def __init__(self, horizon, seed):
        self.problem = Problem(agents=N, dim=K, arms=K, horizon=horizon).knowing(Range(-3, 3), Norms(arms=1.0))
        self.means = np.random.default_rng(seed).random((N, K))
        self.noise = np.random.default_rng(seed).normal(0, 0.1, (horizon, N)).clip(-1, 1)
        self.tired = np.zeros((N, K))

    def turn(self, step):
        return Turn(np.arange(N), np.broadcast_to(np.eye(K), (N, K, K)))

    def pay(self, step, picks):
        means = self.means - self.tired
        earned = means[np.arange(N), picks]
        self.tired *= 0.9
        self.tired[np.arange(N), picks] += 0.1
        return Outcome(earned + self.noise[step], means.max(axis=1) - earned, means.mean(axis=1))


@dataclass(frozen=True)
class Environment:
    """An environment that makes worlds of one class."""

    made: type[World] = Restless
    about = AboutEnvironment("restless", "armed", "arms that tire", "test")

    def world(self, horizon, seed):
        return self.made(horizon, seed)


def broken(environment, **options) -> BrokenPromiseError:
    with pytest.raises(BrokenPromiseError) as caught:
        check_environment(environment, **options)
    assert "environment 'restless' breaks the promise" in str(caught.value)
    return caught.value


def test_an_environment_of_somebody_else():
    check_environment(Environment())
    check_environment("linear:clients=4,dim=3,arms=5", horizon=7, seed=4)


def test_algorithms_can_be_tried_in_a_world_that_moves():
    """Each of the two worlds has one of its own, and it is saved and resumed with the run."""
    check_algorithm(fb.algorithms.UCB1(), Environment())
    check_algorithm(fb.algorithms.CentralLinUCB(), Environment())


def test_a_plain_class_without_an_entry():
    class Plain:
        def world(self, horizon, seed):
            return Restless(horizon, seed)

    check_environment(Plain())


def test_algorithms_are_not_tried_in_an_environment_that_is_broken():
    with pytest.raises(BrokenPromiseError, match="environment 'restless' breaks the promise 'repeatable world'"):
        check_algorithm(fb.algorithms.UCB1(), Environment(Restive))


_CALLS = itertools.count()


class Restive(Restless):
    def turn(self, step):
        turn = super().turn(step)
        return Turn(np.roll(turn.who, next(_CALLS) // 100), turn.arms)


def test_turns_that_depend_on_hidden_global_state():
    found = broken(Environment(Restive))
    assert found.check == "repeatable world"
    assert "turn(" in found.found
    assert "one after the other" in found.found
    assert "globals" in found.mend


class Gambling(Restless):
    def pay(self, step, picks):
        outcome = super().pay(step, picks)
        return Outcome(outcome.rewards + 1e-9 * np.random.random(), outcome.regrets, outcome.chance)  # noqa: NPY002


def test_rewards_from_numpys_global_generator():
    found = broken(Environment(Gambling))
    assert found.check == "repeatable world"
    assert "other rewards" in found.found


@dataclass(frozen=True)
class Spawning(Environment):
    def world(self, horizon, seed):
        return Restless(horizon, seed.spawn(1)[0])


def test_a_seed_that_is_used_up():
    """`seed.spawn` gives other seeds at every call; `parts_of` does not."""
    assert broken(Spawning()).check == "repeatable world"


@dataclass(frozen=True)
class Deaf(Environment):
    def world(self, horizon, seed):
        return Restless(horizon, np.random.SeedSequence(1))


def test_a_seed_that_is_not_heard():
    found = broken(Deaf())
    assert found.check == "repeatable world"
    assert "two seeds" in found.found


class Forgetful(Restless):
    keeps = ()


def test_a_world_that_moves_and_does_not_say_so():
    found = broken(Environment(Forgetful))
    assert found.check == "own noise"
    assert "keeps" in found.mend


class Partial(Restless):
    keeps = ("tired",)

    def __init__(self, horizon, seed):
        super().__init__(horizon, seed)
        self.steps = 0

    def pay(self, step, picks):
        self.steps += 1
        outcome = super().pay(step, picks)
        return Outcome(outcome.rewards / self.steps, outcome.regrets, outcome.chance)


def test_a_world_that_keeps_half_of_what_it_needs():
    found = broken(Environment(Partial))
    assert found.check == "resumable world"
    assert "keeps" in found.mend


class Loud(Restless):
    def turn(self, step):
        self.tired += 0.01
        return super().turn(step)


def test_a_turn_that_changes_the_world():
    assert broken(Environment(Loud)).check == "quiet turns"


class Coupled(Restless):
    keeps = ()

    def pay(self, step, picks):
        means = self.means
        earned = means[np.arange(N), picks]
        return Outcome(earned - 0.1 * len(np.unique(picks)), means.max(axis=1) - earned, means.mean(axis=1))


def test_rewards_that_depend_on_what_others_choose():
    found = broken(Environment(Coupled))
    assert found.check == "own noise"
    assert "when others choose otherwise" in found.found


def changed(**outcome):
    """A world whose outcomes, or turns, are changed on the way."""

    class Changed(Restless):
        def turn(self, step):
            turn = super().turn(step)
            arms = outcome["arms"](turn.arms) if "arms" in outcome else turn.arms
            who = outcome["who"](turn.who) if "who" in outcome else turn.who
            return Turn(who, arms, outcome.get("reachable"))

        def pay(self, step, picks):
            paid = super().pay(step, picks)
            held = {name: getattr(paid, name) for name in ("rewards", "regrets", "chance")}
            return Outcome(**{name: outcome[name](array) if name in outcome else array for name, array in held.items()})

    return Environment(Changed)


@pytest.mark.parametrize(
    ("outcome", "named"),
    [
        ({"who": lambda who: who.astype(np.int32)}, "who is int32"),
        ({"who": lambda who: np.zeros_like(who)}, "once at most"),
        ({"arms": lambda arms: arms[:, :-1]}, "show float64"),
        ({"arms": lambda arms: 2 * arms}, "Norms"),
        ({"arms": lambda arms: arms * np.nan}, "not finite"),
        ({"reachable": np.zeros(N, dtype=bool)}, "cannot be reached"),
        ({"reachable": np.zeros(2, dtype=bool)}, "reachable is bool of shape (2,)"),
        ({"rewards": lambda rewards: rewards[:-1]}, "rewards is float64 of shape (3,)"),
        ({"rewards": lambda rewards: rewards + 10}, "Range"),
        ({"regrets": lambda regrets: regrets - 1}, "regrets has"),
        ({"chance": lambda chance: chance * np.inf}, "chance is not finite"),
    ],
)
def test_shapes_types_and_limits(outcome, named):
    found = broken(changed(**outcome))
    assert found.check == "shapes"
    assert named in str(found)


class Careless(Restless):
    def parameters(self):
        return np.zeros((N, K + 1))


class Pessimist(Restless):
    keeps = ()

    def pay(self, step, picks):
        zeros = np.zeros(N)
        return Outcome(self.noise[step], zeros + 1, zeros)


@pytest.mark.parametrize("made", [Careless, Pessimist])
def test_what_nobody_may_know_fits_the_problem(made):
    assert broken(Environment(made)).check == "measurable"


class Roomy(Restless):
    """Agents may put points of the cube in place of the last arm; a point pays as much of each arm as it has of it."""

    offered = None

    def turn(self, step):
        arms = np.array(np.broadcast_to(np.eye(K), (N, K, K)))
        if self.offered is not None and self.offered[0] == step:
            arms[:, -1:] = self.offered[1]
        return Turn(np.arange(N), arms, room=Room(np.zeros(K), np.full(K, 0.5), 1))

    def offer(self, step, proposed):
        turn = self.turn(step)
        self.offered = step, turn.room.fit(turn.who, proposed)

    def pay(self, step, picks):
        shown = self.turn(step).arms
        means = np.einsum("nkd,nd->nk", shown, self.means - self.tired)
        best = (self.means - self.tired).clip(0).max(axis=1) + 2
        earned = means[np.arange(N), picks]
        self.tired *= 0.9
        self.tired += 0.1 * shown[np.arange(N), picks]
        self.offered = None
        return Outcome(earned + self.noise[step], best - earned, means.mean(axis=1))


class Unheeding(Roomy):
    """Shows what it likes, whatever is proposed."""

    def offer(self, step, proposed):
        self.turn(step).room.fit(np.arange(N), proposed)


class Boundless(Roomy):
    """Shows points beyond its box."""

    def offer(self, step, proposed):
        self.turn(step).room.fit(np.arange(N), proposed)
        self.offered = step, proposed


class Gullible(Roomy):
    """Takes what is no point."""

    def offer(self, step, proposed):
        self.offered = step, np.nan_to_num(proposed[:, :1]).clip(0, 0.5)


class Absent(Roomy):
    """Has arms taken that are not those it shows when it is asked again."""

    def turn(self, step):
        turn = super().turn(step)
        self.offered = None
        return turn


def test_worlds_with_room_for_proposals():
    check_environment(Environment(Roomy))


@pytest.mark.parametrize("made", [Unheeding, Boundless, Gullible, Absent])
def test_what_is_proposed_is_shown(made):
    assert broken(Environment(made)).check in ("room", "shapes", "quiet turns")


def test_no_world_at_all():
    @dataclass(frozen=True)
    class Nothing(Environment):
        made: type = field(default=dict)

        def world(self, horizon, seed):
            return {}

    assert "returns dict" in broken(Nothing()).found
