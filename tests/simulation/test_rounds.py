"""Turns played by compiled functions are the turns that Python would have played."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from conformance.typical import typical_first
from fedbandits.algorithms.linear.dislinucb import DisLinUCB
from fedbandits.algorithms.linear.servers import PoolServer
from fedbandits.contract.compiled import untouched
from fedbandits.contract.messages import Message
from fedbandits.contract.server import patience_of
from fedbandits.environments.linear import LinearWorld
from fedbandits.environments.recommendation import Log, Recommendation
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.ridge import REFRESH_EVERY
from fedbandits.simulation.gauges import Epsilon

CLUSTERS = "clustered-linear:clients=8,clusters=2,dim=5,arms=6"
CLICKS = "logistic:clients=4,dim=5,arms=6"
BOUNDED = "linear-bounded:clients=6,dim=9,arms=6"
COINS = "bernoulli:clients=6,arms=5"
PLAYED = {
    "independent-linucb": "linear",
    "independent-linucb:width=0.3": "linear",
    "dislinucb:threshold=0.5": "linear",
    "dislinucb:threshold=0.5,width=loose": "linear",
    "dislinucb:every=7": "linear",
    "central-linucb": "linear",
    "async-linucb:gamma_up=1.3,gamma_down=1.3": "linear",
    "fedlinucb-async:growth=0.5": "linear",
    "hetofedbandit:explore=12": CLUSTERS,
    "hetofedbandit-e": CLUSTERS,
    "hetofedbandit-async:explore=9": CLUSTERS,
    "oracle-clusters": CLUSTERS,
    "fclub-dc:width=0.5": CLUSTERS,
    "fclub-dc:width=published": CLUSTERS,
    "dyclu": CLUSTERS,
    "fedglb-ucb:scale=0.1": CLICKS,
    "fedglb-ucb:width=0.3,every=9": CLICKS,
    "fedglb-ucb-1:updates=20,scale=0.1": CLICKS,
    "fedglb-ucb-2:updates=20,scale=0.1,momentum=strong": CLICKS,
    "fedglb-ucb-3:updates=20,scale=0.1": CLICKS,
    "fedglb-newton:scale=0.1": CLICKS,
    "one-ucb-glm:scale=0.1": CLICKS,
    "n-ucb-glm:scale=0.1": CLICKS,
    "n-ons-glm:scale=0.1": CLICKS,
    "fedlinucb-private": BOUNDED,
    "fedlinucb-private:own=fused,every=9": BOUNDED,
    "fedlinucb-private:epsilon=none": BOUNDED,
    "fedlinucb-private:threshold=20,leaky=true,own=recent": BOUNDED,
    "private-linucb": BOUNDED,
    "private-linucb:width=0.3,every=6": BOUNDED,
    "dislinucb:every=8|gaussian": BOUNDED,
    "dislinucb:threshold=0.3|gaussian:when=algorithm,leaky=true,uploads=5": BOUNDED,
    "dislinucb:threshold=0.3|gaussian:arms=0.7,rewards=0.5": BOUNDED,  # arms and rewards are cut down
    "async-linucb:gamma_up=1.3|gaussian:own=recent": BOUNDED,
    "dislinucb:threshold=0.3|quantise": BOUNDED,
    "dislinucb:threshold=0.3|gaussian|quantise": BOUNDED,
    "dislinucb:threshold=0.3|robust": BOUNDED,
    "fedglb-ucb:scale=0.1|gaussian": CLICKS,
    "ucb1": COINS,
    "ucb1:scale=0.3": "gaussian:clients=8,arms=5",
    "kl-ucb:c=0": COINS,
    "thompson-beta": COINS,
    "thompson-gaussian": "gaussian:clients=8,arms=5",
    "dp-ucb-int:epsilon=20": COINS,
    "random": "linear",
    "independent-lints": "linear",
    "independent-lints:nu=0": "linear",
    "gp-ucb": "rkhs-mixture:clients=4,arms=6",
    "kernel-ucb:capacity=300": "cosine:clients=4,dim=3,arms=6",
    "kernel-ucb:keep=20,kernel=rbf": "cosine:clients=4,dim=3,arms=6",
    "igp-ucb:scale=0.1": "cosine:clients=4,dim=3,arms=6",
    "kernel-ts": "cosine:clients=4,dim=3,arms=6",
}


def runs(algorithm, environment, horizon, *, pieces=()):
    """The same run twice: played by compiled functions, perhaps in pieces, and step by step."""
    played, stepped = (fb.Simulation(algorithm, environment, horizon, seed=3) for _ in range(2))
    played.compiled = True
    for steps in pieces:
        played.run(steps)
    played.run()
    stepped.compiled = False
    stepped.run()
    return played, stepped


def same(played, stepped):
    one, other = played.state(), stepped.state()
    assert one.keys() == other.keys()
    assert not [name for name in one if not np.array_equal(one[name], other[name], equal_nan="gauge" in name)]


@pytest.mark.parametrize("schedule", ["all", "random", "round-robin"])
@pytest.mark.parametrize("algorithm", typical_first(PLAYED, playing=True))
def test_both_ways_make_one_run(algorithm, schedule):
    environment = PLAYED[algorithm]
    small = ":clients=8,dim=5,arms=6" if environment == "linear" else ""
    horizon = 60 if schedule == "all" else 300
    world = f"{environment}{small},schedule={schedule}"
    played, stepped = runs(algorithm, world, horizon, pieces=(1, 2, 13, 1))
    assert played.played >= horizon - 1
    assert stepped.played == 0
    same(played, stepped)


@pytest.mark.parametrize(
    "environment",
    [
        "linear:clients=3,dim=3,arms=2",  # fewer arms than a register has lanes
        "linear:clients=3,dim=4,arms=5,pool=9",
        "linear-fixed:clients=3,dim=4,arms=5",  # one set of arms for everybody
        "linear-bounded:clients=3,dim=4,arms=5",
        "logistic:clients=3,dim=4,arms=5",  # rewards are 0 or 1
        "bernoulli:clients=3,arms=4",
        "hard-heavy-tailed:clients=3,arms=4",  # rewards are 0 or large
        "bernoulli:clients=3,arms=4,contamination=0.2",
        "gaussian:clients=3,arms=4,contamination=0.2,outliers=cauchy,outlier=3",
        "linear:clients=3,dim=4,arms=5,stragglers=0.5",  # not everybody is there: step by step
        "poisson:clients=3,dim=4,arms=5",  # compiled loops cannot count: step by step
    ],
)
def test_in_every_world(environment):
    algorithm = "ucb1" if "contamin" in environment or "hard" in environment else "dislinucb:threshold=0.2"
    played, stepped = runs(algorithm, environment, 80)
    assert played.played == (0 if "stragglers" in environment or "poisson" in environment else 80)
    same(played, stepped)


@pytest.mark.parametrize("schedule", ["all", "random"])
def test_who_has_to_look_first_is_asked_itself(schedule):
    """Agents of `rclb` remember the arms of a first turn, which comes in the middle of a block."""
    environment = f"linear-fixed:clients=5,dim=3,arms=4,noise=0.5,schedule={schedule}"
    played, stepped = runs("rclb", environment, 400, pieces=(1, 2, 13, 1))
    assert 300 < played.played < 400
    assert played.ledger.syncs > 0
    same(played, stepped)


def log(events):
    rng = np.random.default_rng(4)
    users = np.concatenate([np.repeat(np.arange(4), 5), rng.integers(0, 4, events - 20)])
    return Log(rng.standard_normal((30, 3)), users, rng.integers(0, 9, events))


@pytest.mark.parametrize("schedule", ["one", "all"])
def test_logs(schedule):
    environment = Recommendation(log=log(90), arms=5, schedule=schedule)
    steps = 90 if schedule == "one" else 12
    played, stepped = runs(DisLinUCB(threshold=0.2), environment, steps, pieces=(1, 5))
    assert played.played == steps or schedule == "all"
    same(played, stepped)


def test_a_world_that_changes():
    environment = "clustered-drift:clients=8,clusters=2,dim=5,arms=6"
    played, stepped = runs("dislinucb:threshold=0.3", environment, 80, pieces=(1, 2, 33))
    assert played.played == 80
    assert 0 < played.world.change < 80
    same(played, stepped)


def test_models_are_refreshed_in_time():
    played, stepped = runs("independent-linucb", "linear:clients=2,dim=2,arms=3", REFRESH_EVERY + 40)
    assert (played.agents.models.updates < 60).all()
    same(played, stepped)


def test_a_run_is_resumed_between_blocks():
    straight, _ = runs("async-linucb:gamma_up=1.2", "linear:clients=4,dim=3,arms=4,schedule=random", 90)
    first = fb.Simulation("async-linucb:gamma_up=1.2", "linear:clients=4,dim=3,arms=4,schedule=random", 90, seed=3)
    first.run(41)
    second = fb.Simulation("async-linucb:gamma_up=1.2", "linear:clients=4,dim=3,arms=4,schedule=random", 90, seed=3)
    second.load(first.state())
    second.run()
    same(straight, second)


def test_gauges_are_read_after_every_step():
    small = "linear:clients=4,dim=3,arms=4"
    watched = fb.simulate("dislinucb:threshold=0.2", small, 50, coverage=True)
    assert np.isfinite(watched.gauges["coverage"]).all()
    assert np.array_equal(watched.regret, fb.simulate("dislinucb:threshold=0.2", small, 50).regret)


def test_gauges_that_rest_are_not_read_after_every_step(monkeypatch):
    reads = []
    read = Epsilon.read
    monkeypatch.setattr(Epsilon, "read", lambda self, step: reads.append(step) or read(self, step))
    played = fb.Simulation("private-linucb", "linear-bounded:clients=2,dim=3,arms=4", 60)
    played.compiled = True
    played.run()
    shown = played.trace().gauges["epsilon"]
    assert len(reads) < 30
    assert len(np.unique(shown)) > 3
    assert (np.diff(shown) >= 0).all()


class Shy(OptimisticAgents):
    """Agents that have another idea of learning, and tell nobody."""

    def learn(self, who, arms, picks, rewards):
        super().learn(who, arms, picks, np.zeros_like(rewards))


class Silent(OptimisticAgents):
    """Agents that have nothing of their own."""


def test_who_changes_a_method_is_not_spoken_for():
    agents = fb.Simulation("dislinucb", "linear:clients=4,dim=3,arms=4", 10).agents
    shy, silent = (kind(agents.models, agents._rule) for kind in (Shy, Silent))
    assert shy.compiled() is None
    assert silent.compiled() is not None
    silent.choose = lambda who, arms: np.zeros(len(who), dtype=np.int64)
    assert silent.compiled() is None
    assert not untouched(shy, OptimisticAgents, "learn")


class Restless(PoolServer):
    """A server that asks without having been called."""

    def converse(self, callers):
        yield Message("collect", np.arange(4))


def test_a_server_that_has_changed_its_ways_is_given_the_floor():
    problem = fb.environments.Linear(clients=4, dim=3, arms=4).world(10, np.random.SeedSequence(0)).problem
    assert patience_of(DisLinUCB().server(problem, 4, None)) > 10
    restless = Restless(DisLinUCB(), 4, 3, collects="everybody", tells="everybody")
    assert patience_of(restless) == 0


@pytest.mark.parametrize("horizon", [1, 2, 3, 6, 7, 8, 40])
def test_phases_end_when_they_end(horizon):
    same(*runs("fclub-dc:width=0.5,gamma_up=1000", CLUSTERS, horizon))


def test_what_is_not_finite_stops_the_run(monkeypatch):
    simulation = fb.Simulation("dislinucb", "linear:clients=4,dim=3,arms=4", 10)
    drawn = LinearWorld._draw

    def spoiled(self, first, rng):
        block = drawn(self, first, rng)
        block.lanes[5, 2, 0, 1] = np.nan
        return block

    monkeypatch.setattr(LinearWorld, "_draw", spoiled)
    with pytest.raises(ValueError, match=r"step 5: what agent 2 sees"):
        simulation.run()


def descended(how=lambda agents: None):
    """A run of global updates by descent, and how often agents were asked for gradients one by one."""
    run = fb.Simulation("fedglb-ucb-1:updates=3,scale=0.1", CLICKS, 30, seed=1)
    how(run.agents)
    asked = []
    answer = type(run.agents).answer

    def noted(request):
        asked.append(request.kind)
        return answer(run.agents, request)

    return run, asked, noted


def test_rounds_of_a_descent_are_played_at_once_and_all_counted():
    played, _, _ = descended()
    played.run()
    watched, asked, noted = descended()
    watched.agents.answer = noted  # somebody looks on
    watched.run()
    same(played, watched)
    assert asked.count("gradient") == int(watched.server.rounds) > 3 * 3
    assert played.ledger.up.messages == 4 * (int(played.server.rounds) + 3)


def test_answers_that_others_have_a_hand_in_are_not_played_at_once():
    run = fb.Simulation("fedglb-ucb-1:updates=3,scale=0.1", CLICKS, 30, attack="flip:share=0.25")
    assert run.agents.pursue(None) is None
    run.run()
    assert run.ledger.up.messages == 4 * (int(run.server.rounds) + 3)


def test_storage_that_is_full_is_enlarged_step_by_step():
    """Capacity is the horizon: an agent that has used it up plays its next turn in Python."""
    played, stepped = (fb.Simulation("n-ons-glm", CLICKS, 30, seed=3) for _ in range(2))
    for run in (played, stepped):
        run.agents.data.arms = run.agents.data.arms[:, :, :4].copy()
        run.agents.data.rewards = run.agents.data.rewards[:, :4].copy()
    played.compiled, stepped.compiled = True, False
    for run in (played, stepped):
        run.run()
    assert played.agents.data.rewards.shape == (4, 32)
    same(played, stepped)
