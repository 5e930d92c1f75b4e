"""Decisions in sequence: many episodes under way at once, each learned whole, once, when it is over."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_agent_durability import Ward, nursery

import fedbandits as fb
from fedbandits.contract.arrays import State
from fedbandits.contract.population import Population
from fedbandits.deploy import (
    Agent,
    CannotForgetError,
    ConflictError,
    ExpiredError,
    InputError,
    SettingsError,
    UnknownDecisionError,
    UnknownEpisodeError,
    check_file,
)
from fedbandits.deploy.settings import Settings
from fedbandits.facts import Episodes, Noise

ALONE = np.zeros(1, dtype=np.int64)
DIM, STAGES = 3, 3
SETTINGS = Settings(algorithm=fb.algorithms.LSVIUCB(width=0.4), dim=DIM, facts=(Episodes(STAGES),))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def opened(path: Path, **options: Any) -> Agent:
    made = {"algorithm": SETTINGS.algorithm, "dim": DIM, "facts": SETTINGS.facts}
    return Agent.open(path, **(made | {"durable": False, "warm": False} | options))


def arms_of(number: int) -> np.ndarray:
    return np.random.default_rng(number).normal(size=(4, DIM)) / 2


def same(left: State, right: State) -> bool:
    return left.keys() == right.keys() and all(left[name].tobytes() == right[name].tobytes() for name in left)


def taught(
    episodes: list[list[tuple[np.ndarray, int, float]]], *, ended: bool = False, then: np.ndarray | None = None
) -> Population:
    """A bare population that has lived through episodes one after the other, the last of which may have `ended` early,
    or be known no further than what it led to, `then`.
    """
    population = SETTINGS.population()
    for episode in episodes:
        for arms, pick, reward in episode:
            population.learn(ALONE, arms[None], np.array([pick]), np.array([reward]))
    if ended:
        population.learn(ALONE, np.zeros((1, 4, DIM)), np.array([0]), np.array([0.0]))
    if then is not None:
        population.truncate(ALONE, then[None])
    return population


class Episode:
    """What a product knows of one."""

    def __init__(self, agent: Agent, name: str) -> None:
        self.agent = agent
        self.name = name
        self.ids: list[str] = []
        self.steps: list[tuple[np.ndarray, int, float]] = []

    def decide(self, number: int) -> None:
        decision = self.agent.decide(arms_of(number), episode=self.name)
        self.ids.append(decision.id)
        self.steps.append((arms_of(number), decision.index, number / 100))

    def reward(self, stage: int) -> bool:
        return self.agent.reward(self.ids[stage], self.steps[stage][2])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def agent(tmp_path, clock) -> Agent:
    with opened(tmp_path / "agent.db", clock=clock, expire_after=100.0) as made:
        yield made


def test_an_episode_is_learned_when_its_last_reward_has_come(agent):
    episode = Episode(agent, "one")
    for number in range(STAGES):
        episode.decide(number)
    nothing = SETTINGS.population().state()
    for stage in (2, 0):
        assert episode.reward(stage)
        assert same(agent.state(), nothing)
    assert episode.reward(1)
    assert not episode.reward(1)
    assert same(agent.state(), taught([episode.steps]).state())
    standing = agent.status().episodes
    assert standing is not None
    assert (standing.open, standing.closed, standing.truncated) == (0, 1, 0)


def test_each_decision_is_that_of_its_stage(agent):
    first = Episode(agent, "first")
    for number in range(STAGES):
        first.decide(number)
        first.reward(number)
    population = taught([first.steps])
    others = [Episode(agent, f"patient-{number}") for number in range(3)]
    for stage in range(STAGES):
        for episode in others:
            episode.decide(10 + stage)
            scores = population.indices(ALONE, arms_of(10 + stage)[None], np.array([stage]))  # type: ignore[attr-defined]
            assert episode.steps[-1][1] == int(scores[0].argmax())


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_however_episodes_interleave_they_are_learned_in_the_order_of_their_completion(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("interleaved") / "agent.db"
    agent = opened(path, snapshot_every=data.draw(st.integers(1, 9)))
    running = [Episode(agent, f"patient-{number}") for number in range(data.draw(st.integers(1, 4)))]
    lengths = [data.draw(st.integers(1, STAGES)) for _ in running]
    finished = [length == STAGES for length in lengths]
    paid: list[set[int]] = [set() for _ in running]
    learned: list[int] = []
    number = 0
    while len(learned) < len(running):
        moves = [("decide", k, 0) for k, one in enumerate(running) if len(one.ids) < lengths[k]]
        moves += [("reward", k, h) for k, one in enumerate(running) for h in range(len(one.ids)) if h not in paid[k]]
        moves += [("finish", k, 0) for k, one in enumerate(running) if len(one.ids) == lengths[k] and not finished[k]]
        what, k, stage = data.draw(st.sampled_from(moves))
        number += 1
        if what == "decide":
            running[k].decide(number)
        elif what == "reward":
            assert running[k].reward(stage)
            paid[k].add(stage)
        else:
            assert agent.finish(running[k].name)
            assert not agent.finish(running[k].name)
            finished[k] = True
        if finished[k] and len(paid[k]) == lengths[k]:
            learned.append(k)
        if data.draw(st.integers(0, 4)) == 0:  # another process, which is killed: the file has to be enough
            agent = opened(path)
            for episode in running:
                episode.agent = agent
    population = SETTINGS.population()
    for k in learned:
        for arms, pick, reward in running[k].steps:
            population.learn(ALONE, arms[None], np.array([pick]), np.array([reward]))
        if lengths[k] < STAGES:
            population.learn(ALONE, np.zeros((1, 4, DIM)), np.array([0]), np.array([0.0]))
    assert same(agent.state(), population.state())
    agent.close()
    assert check_file(path).findings == ()


def test_a_finished_episode_waits_for_its_rewards(agent):
    episode = Episode(agent, "one")
    episode.decide(1)
    episode.decide(2)
    assert agent.finish("one")
    assert not agent.finish("one")
    standing = agent.status().episodes
    assert standing is not None
    assert (standing.open, standing.waiting) == (1, 1)
    again = Episode(agent, "one")  # the name is free for another one meanwhile
    again.decide(3)
    episode.reward(1)
    episode.reward(0)
    assert same(agent.state(), taught([episode.steps], ended=True).state())


def test_what_is_known_of_an_expired_episode_is_learned_and_the_rest_dropped(agent, clock):
    episode = Episode(agent, "one")
    for number in range(STAGES):
        episode.decide(number)
    episode.reward(0)
    episode.reward(2)
    clock.now += 99
    assert agent.status().episodes.open == 1
    clock.now += 2
    with pytest.raises(ExpiredError, match="episode"):
        episode.reward(1)
    assert same(agent.state(), taught([episode.steps[:1]], then=episode.steps[1][0]).state())
    status = agent.status()
    standing = status.episodes
    assert (standing.open, standing.closed, standing.truncated, standing.dropped) == (0, 1, 1, 2)
    assert (status.decisions, status.rewards, status.expired, status.awaiting, status.late) == (3, 2, 1, 0, 1)


def test_of_an_episode_that_was_left_the_last_decision_is_not_learned(agent, clock):
    """Where it has led is not known, and that it ended there would be a lie."""
    episode = Episode(agent, "one")
    episode.decide(1)
    episode.decide(2)
    episode.reward(0)
    episode.reward(1)
    clock.now += 101
    Episode(agent, "other").decide(3)
    assert same(agent.state(), taught([episode.steps[:1]], then=episode.steps[1][0]).state())
    transitions = agent.state()
    assert int(transitions["own.rows"].sum()) == 1


def test_an_episode_lives_on_with_every_decision(agent, clock):
    episode = Episode(agent, "one")
    for number in range(STAGES):
        episode.decide(number)
        clock.now += 80
    for stage in range(STAGES):
        episode.reward(stage)
    assert same(agent.state(), taught([episode.steps]).state())


def test_an_expired_episode_is_done_again_as_it_was(tmp_path, clock):
    path = tmp_path / "agent.db"
    agent = opened(path, clock=clock, expire_after=100.0)
    episode = Episode(agent, "one")
    episode.decide(1)
    episode.decide(2)
    episode.reward(0)
    clock.now += 101
    Episode(agent, "other").decide(3)
    learned = agent.state()
    with opened(path, clock=lambda: 0.0) as again:  # no snapshot, and a clock by which nothing has expired
        assert same(again.state(), learned)
        assert again.status().episodes == agent.status().episodes
    assert check_file(path).findings == ()


def test_rewards_and_decisions_of_several_processes(tmp_path):
    one, other = opened(tmp_path / "agent.db"), opened(tmp_path / "agent.db")
    episode = Episode(one, "one")
    for number in range(STAGES):
        episode.agent = (one, other)[number % 2]
        episode.decide(number)
    for stage in range(STAGES):
        episode.agent = (other, one)[stage % 2]
        episode.reward(stage)
    assert same(one.state(), taught([episode.steps]).state())
    assert same(one.state(), other.state())


def test_many_decisions_and_rewards_at_once(agent):
    decisions = agent.decide_many([arms_of(number) for number in range(6)], episodes=["a", "b", "a", "b", "a", "b"])
    agent.rewards({decision.id: number / 100 for number, decision in enumerate(decisions)})
    steps = [(arms_of(number), decision.index, number / 100) for number, decision in enumerate(decisions)]
    assert same(agent.state(), taught([steps[0::2], steps[1::2]]).state())
    with pytest.raises(InputError, match="2 decisions are part of 1 episodes"):
        agent.decide_many([arms_of(0)] * 2, episodes=["a"])


def test_chance_may_choose_in_episodes(tmp_path):
    with opened(tmp_path / "agent.db", explore=0.9) as agent:
        episode = Episode(agent, "one")
        for number in range(STAGES):
            episode.decide(number)
            episode.reward(number)
        assert same(agent.state(), taught([episode.steps]).state())


def test_what_cannot_be(agent, tmp_path):
    with pytest.raises(InputError, match="name the episode of each decision"):
        agent.decide(arms_of(0))
    with pytest.raises(InputError, match="say so by finish"):
        agent.decide(np.zeros((4, DIM)), episode="one")
    with pytest.raises(InputError, match="1 to 200 characters"):
        agent.decide(arms_of(0), episode="")
    with pytest.raises(UnknownEpisodeError, match="'two' is on record"):
        agent.finish("two")
    with pytest.raises(InputError, match="decisions that stand for themselves"):
        agent.import_log(b"x0,x1,x2,reward\n1,0,0,1\n")
    with Agent.open(tmp_path / "linear.db", fb.algorithms.IndependentLinUCB(), dim=DIM, warm=False) as linear:
        with pytest.raises(InputError, match="leave the episode out"):
            linear.decide(arms_of(0), episode="one")
        with pytest.raises(InputError, match="has no episodes"):
            linear.finish("one")
        assert linear.status().episodes is None
    with pytest.raises(SettingsError, match="episodes"):
        Agent.open(tmp_path / "other.db", SETTINGS.algorithm, dim=DIM, facts=[Noise(0.1)])


def test_an_episode_is_about_one_person(agent):
    agent.decide(arms_of(0), who="ada", episode="one")
    with pytest.raises(ConflictError, match="about somebody else"):
        agent.decide(arms_of(1), who="bob", episode="one")
    agent.decide(arms_of(1), episode="one")
    assert [(line.who, line.episode, line.stage) for line in agent.log()] == [("ada", "one", 0), ("ada", "one", 1)]


def test_open_episodes_are_forgotten_whole(tmp_path, clock):
    path = tmp_path / "agent.db"
    with opened(path, clock=clock) as agent:
        agent.reward(agent.decide(arms_of(0), who="ada", episode="a").id, 1.0)
        clock.now += 10
        later = agent.decide(arms_of(1), episode="a")
        other = agent.decide(arms_of(2), who="bob", episode="b")
        assert agent.forget(1005.0) == 2
        with pytest.raises(UnknownDecisionError):
            agent.reward(later.id, 1.0)
        with pytest.raises(UnknownEpisodeError):
            agent.finish("a")
        status = agent.status()
        assert (status.awaiting, status.episodes.open) == (1, 1)
        assert agent.reward(other.id, 0.5)
        assert agent.finish("b")
        with pytest.raises(CannotForgetError):  # it was learned, and is kept as it is
            agent.forget(who="bob")
    assert b"ada" not in path.read_bytes()
    assert check_file(path).findings == ()


def test_arms_are_kept_after_an_episode_where_that_is_wanted(tmp_path):
    with opened(tmp_path / "agent.db", keep_shown=True, snapshot_every=1) as agent:
        episode = Episode(agent, "one")
        for number in range(STAGES):
            episode.decide(number)
            episode.reward(number)
        shown = [line.shown for line in agent.log(shown=True)]
    assert shown == [arms.tolist() for arms, _, _ in episode.steps]


def test_a_file_of_the_format_before_episodes_is_brought_forward(tmp_path):
    path = tmp_path / "agent.db"
    linear = {"algorithm": fb.algorithms.IndependentLinUCB(), "facts": None}
    with opened(path, **linear) as agent:
        agent.reward(agent.decide(arms_of(0)).id, 1.0)
        waiting = agent.decide(arms_of(1))
        state = agent.state()
    with closing(sqlite3.connect(path)) as db:  # that format had everything but these
        db.executescript("DROP TABLE stages; DROP TABLE episodes; PRAGMA user_version = 3")
    assert check_file(path).findings == ()
    with opened(path, **linear) as again:
        assert same(again.state(), state)
        assert again.reward(waiting.id, 0.5)
    report = check_file(path)
    assert (report.format, report.findings) == (4, ())


# kill -9


class Mirror:
    """A bare population that learns the same episodes in the same order, and is never interrupted."""

    def __init__(self) -> None:
        self.population = SETTINGS.population()
        self.steps: list[tuple[np.ndarray, int]] = []
        self.rewards: dict[int, float] = {}
        self.running: dict[str, list[int]] = {}
        self.waiting: list[list[int]] = []

    def decide(self, arms: np.ndarray, who: None, episode: str) -> int:
        here = self.running.setdefault(episode, [])
        self.population.situate(ALONE, np.array([len(here)]))
        pick = int(self.population.choose(ALONE, arms[None])[0])
        here.append(len(self.steps))
        self.steps.append((arms, pick))
        if len(here) == STAGES:
            self.finish(episode)
        return pick

    def reward(self, number: int, value: float) -> None:
        self.rewards[number] = value
        self.learn()

    def finish(self, episode: str) -> None:
        self.waiting.append(self.running.pop(episode))
        self.learn()

    def learn(self) -> None:
        for over in [numbers for numbers in self.waiting if self.rewards.keys() >= set(numbers)]:
            self.waiting.remove(over)
            for number in over:
                arms, pick = self.steps[number]
                self.population.learn(ALONE, arms[None], np.array([pick]), np.array([self.rewards[number]]))
            if len(over) < STAGES:
                self.population.learn(ALONE, np.zeros((1, 4, DIM)), np.array([0]), np.array([0.0]))


class EpisodicWard(Ward):
    """Orders in three episodes at a time, some of which are ended early."""

    program = __file__

    def new_twin(self) -> Mirror:
        return Mirror()

    def order(self) -> tuple[tuple[Any, ...], Callable[[Any], None]]:
        self.orders += 1
        unpaid = [i for i, name in enumerate(self.ids) if name is not None and i not in self.values]
        kind = self.random.random()
        if kind < 0.45 and unpaid:
            return self.reward(self.random.choice(unpaid))
        if kind < 0.5 and self.values:
            return self.reward(self.random.choice(list(self.values)))
        if kind < 0.6 and self.twin.running:
            name = self.random.choice(sorted(self.twin.running))
            # told again after a crash, it may be over already
            return ("finish", name), lambda now: self.twin.finish(name)
        order = ("decide", arms_of(self.orders), None, f"patient-{self.random.randrange(3)}")

        def decided(decision: Any) -> None:
            assert decision.index == self.twin.decide(*order[1:])
            self.ids.append(decision.id)

        return order, decided


@pytest.mark.parametrize("kills", [25, pytest.param(300, marks=pytest.mark.slow)])
def test_killed_at_random_points_no_episode_is_lost_or_learned_twice(tmp_path, kills):
    path = tmp_path / "agent.db"
    ward = EpisodicWard(path, {"snapshot_every": 5}, seed=kills)
    try:
        for _ in range(kills):
            ward.live(ward.random.randrange(12))
    finally:
        ward.close()
    with opened(path) as agent:
        assert same(agent.state(), ward.twin.population.state())
        status = agent.status()
        assert (status.decisions, status.rewards) == (len(ward.ids), len(ward.values))
        assert status.episodes.open == len(ward.twin.running) + len(ward.twin.waiting)
        assert status.episodes.closed > 0
    assert 0 < ward.committed_unheard < kills
    assert check_file(path).findings == ()


def test_status_can_be_told(agent):
    agent.decide(arms_of(0), episode="one")
    told = agent.status().plain()["episodes"]
    assert json.loads(json.dumps(told))["left_at"] == "1970-01-01T00:16:40+00:00"
    assert str(agent.status().episodes).startswith("1 open (0 wait for rewards, left since 1970-01-01 00:16 UTC)")


if __name__ == "__main__":
    nursery(SETTINGS, opened)
