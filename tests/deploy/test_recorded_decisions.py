"""What is on record of a decision: score, propensity, whom it was about; and that logs can be judged by it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.deploy import Agent, CorruptError, InputError
from fedbandits.facts import Range

DIM, ARMS = 3, 4
LINUCB = fb.algorithms.DisLinUCB(threshold=2.0)


@pytest.fixture
def opened(tmp_path):
    agents: list[Agent] = []

    def open_(name="agent.db", algorithm=LINUCB, dim=DIM, **settings):
        agents.append(Agent.open(tmp_path / name, algorithm, dim, **({"durable": False, "warm": False} | settings)))
        return agents[-1]

    yield open_
    for agent in agents:
        agent.close()


def arms_of(number: int, count: int = ARMS, dim: int = DIM) -> np.ndarray:
    return np.random.default_rng(number).normal(size=(count, dim)) / math.sqrt(dim)


def binomial(count: int, chance: float) -> tuple[float, float]:
    """Bounds that a binomial count exceeds less than once in 10^9 runs."""
    spread = 6.2 * math.sqrt(count * chance * (1 - chance)) + 3
    return count * chance - spread, count * chance + spread


# score, propensity, who


def test_score_and_propensity_of_every_decision(opened):
    agent = opened()
    population = agent.settings.population()
    for i in range(5):
        scores = population.scores(np.zeros(1, dtype=np.int64), arms_of(i)[None])[0]
        decision = agent.decide(arms_of(i), who=f"person {i}")
        assert (decision.score, decision.propensity) == (scores.max(), 1.0)
        assert decision.index == scores.argmax()
    lines = list(agent.log())
    assert [line.who for line in lines] == [f"person {i}" for i in range(5)]
    assert all(line.propensity == 1.0 and line.score is not None and line.chosen_by == "algorithm" for line in lines)


@pytest.mark.parametrize(
    ("algorithm", "facts"),
    [
        (fb.algorithms.IndependentLinTS(nu=0.5), ()),
        (fb.algorithms.Random(), ()),
        (fb.algorithms.ThompsonBeta(), (Range(0.0, 1.0),)),
        (fb.algorithms.HetoFedBandit(explore=50), ()),
    ],
)
def test_algorithms_that_draw_tell_with_which_chance(opened, algorithm, facts):
    agent = opened(algorithm=algorithm, facts=facts)
    decision = agent.decide(np.eye(DIM))
    assert decision.score is None
    assert 0 < decision.propensity < 1


@pytest.mark.parametrize("who", ["", "x" * 201, 7, "\ud800"])
def test_persons_are_short_text(opened, who):
    agent = opened()
    with pytest.raises(InputError, match="who"):
        agent.decide(arms_of(0), who=who)
    assert agent.status().decisions == 0


# exploring


def test_exploration_is_uniform_and_its_propensity_is_recorded(opened):
    agent, n, explore = opened(explore=0.4, keep_shown=True), 1500, 0.4
    for i in range(n):
        agent.decide(arms_of(i % 7))
    lines = list(agent.log(shown=True))
    population = agent.settings.population()
    best = [int(population.choose(np.zeros(1, dtype=np.int64), arms_of(i)[None])[0]) for i in range(7)]
    taken = np.array([line.index for line in lines])
    own = np.array([best[i % 7] for i in range(n)])
    by_chance = np.array([line.chosen_by == "chance" for line in lines])
    low, high = binomial(n, explore)
    assert low <= by_chance.sum() <= high
    assert (taken[~by_chance] == own[~by_chance]).all()
    for arm in range(ARMS):
        low, high = binomial(int(by_chance.sum()), 1 / ARMS)
        assert low <= (taken[by_chance] == arm).sum() <= high
    expected = np.where(taken == own, explore / ARMS + 1 - explore, explore / ARMS)
    assert [line.propensity for line in lines] == pytest.approx(expected)


def test_the_algorithm_goes_on_as_without_exploration(opened):
    """Nobody is rewarded: what moves is the algorithm's own stream alone, and it moves as it would."""
    draws = fb.algorithms.IndependentLinTS()
    agent, calm = opened(algorithm=draws, explore=0.7), opened("calm.db", algorithm=draws)
    own = [(agent.decide(arms_of(i)), calm.decide(arms_of(i)))[1].index for i in range(40)]
    lines = list(agent.log())
    assert [line.index for line, pick in zip(lines, own, strict=True) if line.chosen_by == "algorithm"] == [
        pick for line, pick in zip(lines, own, strict=True) if line.chosen_by == "algorithm"
    ]
    assert {line.chosen_by for line in lines} == {"algorithm", "chance"}
    assert all(np.array_equal(array, calm.state()[name]) for name, array in agent.state().items())


def test_exploration_is_done_again_by_processes_and_after_a_crash(opened, tmp_path):
    """Two openings hold the same state whoever drew, and an opening that starts from the file verifies all of it."""
    first, second = opened(explore=0.5), opened()
    for i in range(30):
        decision = (first if i % 2 else second).decide(arms_of(i))
        (second if i % 3 else first).reward(decision.id, 0.1 * decision.index)
    third = opened()  # nothing was saved yet: everything is done again
    assert third.settings.explore == 0.5
    for one in (second, third):
        assert all(np.array_equal(array, one.state()[name]) for name, array in first.state().items())


def test_exploring_may_begin_in_an_agent_that_exists(opened):
    opened().close()
    assert opened(explore=0.2).settings.explore == 0.2
    assert opened().settings.explore == 0.2
    assert opened(explore=0.0).settings.explore == 0.0


@pytest.mark.parametrize("explore", [-0.1, 1.1, math.nan, "often"])
def test_explore_is_a_probability(opened, explore):
    with pytest.raises(fb.ConfigError, match="explore"):
        opened(explore=explore)


def test_agents_of_a_federation_may_explore_differently():
    from fedbandits.deploy.flower.conversation.desk import fingerprint
    from fedbandits.deploy.settings import made

    plain = {"algorithm": LINUCB, "dim": 3}
    assert fingerprint(made(plain)) == fingerprint(
        made(plain | {"explore": 0.1, "keep_shown": True, "missing": "zero"})
    )
    assert fingerprint(made(plain)) != fingerprint(made(plain | {"features": ("a", "b", "c")}))


def test_what_another_rule_would_have_earned_is_estimated_from_the_log(opened):
    """Inverse propensities: the first arm always, on people who differ; the truth is within five standard errors."""
    agent = opened(
        algorithm=fb.algorithms.IndependentLinUCB(width=0.5), explore=0.3, keep_shown=True, snapshot_every=97
    )
    rng, theta, n = np.random.default_rng(4), np.array([0.5, -0.2, 0.3]), 1200
    truth = 0.0
    for i in range(n):
        shown = arms_of(i)
        decision = agent.decide(shown)
        means = shown @ theta
        truth += means[0] / n
        agent.reward(decision.id, means[decision.index] + 0.1 * rng.normal())
    terms = []
    for line in agent.log(shown=True):
        assert line.reward is not None
        assert len(line.shown) == ARMS
        terms.append(line.reward / line.propensity if line.index == 0 else 0.0)
    error = np.std(terms) / math.sqrt(n)
    assert abs(np.mean(terms) - truth) < 5 * error
    assert error < 0.2


# the log


def test_arms_are_kept_after_the_reward_if_asked_for(opened):
    for keep in (False, True):
        agent = opened(f"{keep}.db", keep_shown=keep, snapshot_every=2)
        ids = [agent.decide({"a": [1.0, 0, 0], "b": [0, 1.0, 0]}).id for _ in range(6)]
        agent.rewards([(name, 1.0) for name in ids[:4]])
        agent.decide(arms_of(0))
        lines = list(agent.log(shown=True))
        assert [line.reward for line in lines] == [1.0] * 4 + [None] * 3
        assert [line.shown is not None for line in lines] == [keep] * 4 + [True] * 3
        assert lines[5].names == ["a", "b"]
        assert agent.forget(lines[-1].at.timestamp() + 1) == 7
        assert list(agent.log(shown=True)) == []


def test_a_long_log_is_read_in_pages(opened):
    agent = opened()
    agent.decide_many([arms_of(i % 5) for i in range(2100)])
    assert len(list(agent.log())) == 2100
    assert len({line.decision for line in agent.log()}) == 2100


def test_a_damaged_line_is_not_told(opened):
    agent = opened()
    agent.decide(arms_of(0), who="one")
    with agent._journal.connection as db:
        db.execute("UPDATE decisions SET who = 'another'")
    with pytest.raises(CorruptError, match="the decision of entry 1 is damaged"):
        list(agent.log())


# in batches


def test_a_batch_decides_as_one_by_one(opened):
    draws = fb.algorithms.IndependentLinTS()
    one, many = opened(algorithm=draws), opened("many.db", algorithm=draws)
    expected = [one.decide(arms_of(i), who=str(i)) for i in range(9)]
    found = many.decide_many([arms_of(i) for i in range(9)], who=[str(i) for i in range(9)])
    assert [(d.arm, d.propensity) for d in found] == [(d.arm, d.propensity) for d in expected]
    assert [line.who for line in many.log()] == [str(i) for i in range(9)]
    assert many.rewards([(decision.id, 1.0) for decision in found]) == 9


def test_a_batch_is_decided_or_not_at_all(opened):
    agent = opened()
    with pytest.raises(InputError, match="decision 1: arms must have shape"):
        agent.decide_many([arms_of(0), [[1.0]]])
    with pytest.raises(InputError, match="2 decisions are about 1 persons"):
        agent.decide_many([arms_of(0), arms_of(1)], who=["a"])
    assert agent.decide_many([]) == []
    assert agent.status().decisions == 0


# named features


def test_features_by_name(opened):
    agent, plain = opened(dim=None, features=["age", "new", "near"]), opened("plain.db")
    assert agent.settings.dim == 3
    told = {"call": {"new": 0.2, "near": 0.7, "age": 1.0}, "mail": {"age": 0.5, "near": 0.0, "new": 1.0}}
    rows = {"call": [1.0, 0.2, 0.7], "mail": [0.5, 1.0, 0.0]}
    found, expected = agent.decide(told), plain.decide(rows)
    assert (found.arm, found.score) == (expected.arm, expected.score)
    assert agent.decide(list(told.values())).index == plain.decide(rows).index
    assert agent.decide(rows).arm == plain.decide(rows).arm


@pytest.mark.parametrize(
    ("arms", "complaint"),
    [
        (
            {"a": {"agee": 1.0, "new": 0, "near": 0}},
            "arm 'a' has a feature 'agee' that is not known; did you mean 'age'",
        ),
        ({"a": {"age": 1.0}}, r"arm 'a' lacks 2 of 3 features: 'new', 'near'; tell them, or open .* missing=\"zero\""),
        ([{0: 1.0, 1: 1.0, 2: 1.0}], "arm 0 has a feature 0 that is not known"),
        ({"a": {"age": "old", "new": 0, "near": 0}}, "rows of 3 numbers"),
        ({"a": {"age": math.nan, "new": 0, "near": 0}}, r"\['a'\] are not finite"),
    ],
)
def test_features_that_were_not_declared_or_not_told(opened, arms, complaint):
    agent = opened(dim=None, features=["age", "new", "near"])
    with pytest.raises(InputError, match=complaint):
        agent.decide(arms)
    assert agent.status().decisions == 0


def test_what_is_not_told_counts_as_zero_if_asked_for(opened):
    agent = opened(dim=None, features=["age", "new", "near"], missing="zero", keep_shown=True)
    agent.decide({"a": {"age": 1.0}, "b": {}})
    assert next(agent.log(shown=True)).shown == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_sparse_features_by_place(opened):
    agent = opened(dim=1000, algorithm=fb.algorithms.Random(), missing="zero")
    agent.decide([{3: 0.5, 999: 1.0}, {"3": 0.25}])
    shown = np.array(next(agent.log(shown=True)).shown)
    assert (shown[0, [3, 999]] == [0.5, 1.0]).all()
    assert shown[1, 3] == 0.25
    assert np.count_nonzero(shown) == 3
    for bad in ({1000: 1.0}, {-1: 1.0}, {True: 1.0}, {"x": 1.0}, {None: 1.0}):
        with pytest.raises(InputError, match="places from 0 to 999"):
            agent.decide([bad])
    with pytest.raises(InputError, match="twice"):
        agent.decide([{3: 0.5, "3": 0.5}])


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"features": ["a", "a"]}, "each once"),
        ({"features": ["a", ""]}, "not empty"),
        ({"features": ["a", "b"], "dim": 3}, "features are 2 names, dim is 3"),
        ({"features": ["a", "b"], "arm_names": ["x", "y", "z"]}, "arm_names are 3 names, dim is 2"),
    ],
)
def test_names_of_features_that_make_no_sense(opened, settings, complaint):
    with pytest.raises(fb.ConfigError, match=complaint):
        opened(**({"dim": None} | settings))


def test_features_are_part_of_the_agent(opened):
    opened(dim=None, features=["age", "new", "near"]).close()
    assert opened(dim=None, algorithm=None).settings.features == ("age", "new", "near")
    with pytest.raises(fb.ConfigError, match="features"):
        opened(dim=None, features=["age", "new", "far"])
