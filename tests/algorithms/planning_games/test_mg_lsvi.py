"""MG-LSVI against its text, against LSVI-UCB, and against looking at all joint actions."""

import math

import networkx as nx
import numpy as np
import pytest

import fedbandits as fb
from algorithms.planning_games.plainly import Team
from fedbandits.contract.facts import Game, Place
from fedbandits.contract.streams import seeds_of
from fedbandits.graphs.network import Given
from fedbandits.linalg import joint_iteration
from fedbandits.simulation.loop import Simulation


def team_run(episodes, seed=1, clients=2, network=None, **parameters):
    env = fb.environments.TeamMDP(clients=clients)
    network = network or Given.of(nx.complete_graph(clients))
    return Simulation(fb.algorithms.MGLSVI(**parameters), env, episodes * env.length, seed, network=network)


@pytest.mark.parametrize("joint", ["sum", "product"])
@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_every_decision_is_that_of_the_text(joint, ratio):
    """Where two joint actions are equally good up to rounding, either may be taken."""
    run = team_run(15, threshold=ratio, joint=joint, width=1.0, ridge=0.7)
    problem, agents = run.world.problem, run.agents
    team = Team(
        problem.get(Game).pays, 4, 0.7, 1.0, 4.0 - np.arange(4), ratio, joint == "product",
        lambda t: agents.preference(0, t),
    )  # fmt: skip
    varied = set()
    for step in range(run.horizon):
        turn = run.world.turn(step)
        blocks = turn.arms[0].reshape(2, 2, -1).swapaxes(0, 1)
        actions, index = team.act(blocks)
        taken = tuple(agents.choose(turn.who, turn.arms))
        assert index[actions.index(taken)] >= index.max() - 1e-9
        varied.add(taken)
        place = int(run.world.place)
        run.run(1)
        team.learn(blocks, taken, run.world.pays[place, actions.index(taken)])
    assert len(varied) > 1
    assert run.ledger.syncs == team.syncs > 0


def test_members_agree_and_plan_with_the_same():
    run = team_run(20, clients=3, width=1.0)
    run.run()
    agents = run.agents
    assert (agents.history.fate[:, :19] == 1).any()
    for name in ("seen", "did", "reward", "fate", "told"):
        held = getattr(agents.history, name)[:, : agents.history.count[0]]
        if name != "reward":
            assert (held == held[0]).all(), name
    used = agents.history.fate[0, : agents.history.count[0]] == 1
    rewards = agents.history.reward[:, : agents.history.count[0]][:, used]
    assert (rewards == rewards[0]).all()


def test_a_team_of_one_is_lsvi_ucb_on_stacked_features():
    """Phi is [f; g] / sqrt(2): LSVI-UCB with twice the ridge."""
    env = fb.environments.TeamMDP(clients=1, states=4, arms=3, length=5)
    runs = [
        Simulation(fb.algorithms.MGLSVI(threshold=1, width=1.5, ridge=0.5), env, 200, 3, network=nx.empty_graph(1)),
        Simulation(fb.algorithms.LSVIUCB(width=1.5, ridge=1.0), env, 200, 3),
    ]
    for run in runs:
        run.run()
    np.testing.assert_allclose(*(run.regret for run in runs))
    assert runs[0].ledger.peer.messages == 0
    assert len(np.unique(runs[0].regret.round(9))) > 3


def test_a_fixed_scalarisation_finds_the_best_policy_for_it():
    for preferences, weights in (("average", [0.5, 0.5]), ((9.0, 1.0), [0.9, 0.1])):
        run = team_run(150, joint="product", width=0.4, ridge=0.01, threshold=1, preferences=preferences)
        run.run()
        best = run.world.solved(np.array(weights))[0][0, 0]
        late = run.world.returns[-30:] @ weights
        assert late.max() == pytest.approx(best)
        assert late.mean() == pytest.approx(best, rel=0.05)


def test_scalarisations_are_common_and_rescaled_within_the_team():
    run = team_run(2, clients=3, network=Given.of(nx.Graph([(0, 1), (2, 2)])))
    assert sorted(map(len, run.agents._teams)) == [1, 2, 2]
    drawn = [run.agents._given.scalarisation(run.agents._rng, t, 3) for t in range(2)]
    assert not np.allclose(drawn[0], drawn[1])
    for agent, team in enumerate(run.agents._teams):
        share = run.agents.preference(agent, 1)
        np.testing.assert_allclose(share, drawn[1][team] / drawn[1][team].sum())
        assert share.sum() == pytest.approx(1)
    common = seeds_of(1).common
    assert run.agents._rng._common.entropy == common.entropy


@pytest.mark.parametrize("ratio", [2.0, 3.0])
def test_synchronisations_stay_within_the_lemma(ratio):
    """At most chi (p H log_S(1 + T n_max / p) + H): lemma 10.2, lambda = 1."""
    episodes, clients = 60, 3
    run = team_run(episodes, clients=clients, threshold=ratio, width=1.0)
    run.run()
    p, length = run.agents.models.dim, 4
    bound = p * length * math.log(1 + episodes * clients / p, ratio) + length
    assert 0 < run.ledger.syncs <= min(bound, episodes)
    rare, often = (team_run(episodes, clients=clients, threshold=s, width=1.0) for s in (50.0, 1.0))
    for other in (rare, often):
        other.run()
    assert rare.ledger.syncs < run.ledger.syncs < often.ledger.syncs == episodes


def test_only_rewards_cross():
    run = team_run(10, threshold=1.0)
    run.run()
    assert run.ledger.peer.messages == 20
    assert run.ledger.peer.scalars == 20 * (1 + 4)


def test_coordinate_ascent_beside_looking_at_all():
    """On random states and regressions: never above, a maximum for each member alone, and nearly always the largest."""
    rng = np.random.default_rng(0)
    hits, worst = 0, 1.0
    trials = 200
    for _ in range(trials):
        m, actions, pays, rest = 3, 5, 5, 6
        blocks = np.zeros((m, actions, pays + rest))
        blocks[:, np.arange(actions), np.arange(actions)] = 1.0
        np.put_along_axis(blocks[:, :, pays:], rng.integers(rest, size=(m, actions, 1)), 1.0, axis=2)
        form = (pays, False, *joint_iteration.sizes(m, pays + rest, pays, False))
        p = m * form[2] + form[3]
        data = rng.standard_normal((40, p)) * (rng.random(p) < 0.5)
        inverse = np.linalg.inv(np.eye(p) + data.T @ data)
        weights, share = rng.standard_normal(p), rng.dirichlet(np.ones(m))

        def index(acts, given=(blocks, weights, inverse, share, form)):
            shown, w, held, v, made = given
            return joint_iteration.joint_index(shown, np.array(acts), w, held, 2.0, v, made)

        every = [(a, b, c) for a in range(actions) for b in range(actions) for c in range(actions)]
        exact = joint_iteration.choose_jointly(blocks, weights, inverse, 2.0, share, form, 125)
        found = joint_iteration.choose_jointly(blocks, weights, inverse, 2.0, share, form, 124)
        best = max(map(index, every))
        assert index(exact) == best
        value = index(found)
        assert value <= best
        for u in range(m):
            assert all(index([*found[:u], k, *found[u + 1 :]]) <= value for k in range(actions))
        hits += value == best
        worst = min(worst, value / best)
    assert hits >= 0.8 * trials
    assert worst > 0.8


def test_the_bonus_is_the_root_of_a_spectral_norm():
    rng = np.random.default_rng(1)
    for m in (1, 2, 3, 5):
        for _ in range(20):
            half = rng.standard_normal((m, m + 2))
            held = half @ half.T
            assert joint_iteration._largest_eigenvalue(held.copy()) == pytest.approx(np.linalg.norm(held, 2), rel=1e-12)


def test_lost_rewards_cost_episodes_and_nothing_else():
    run = team_run(40, clients=3, threshold=1.0, network=Given.of(nx.complete_graph(3), loss=0.3))
    run.run()
    fate = run.agents.history.fate[:, :39]
    assert (fate == 2).any()
    assert (fate == 1).any()
    assert np.isfinite(run.agents.covariance).all()


def test_teams_are_cliques_of_those_who_see_each_other():
    env = fb.environments.GridExplore(size=3, clients=5, length=3, visibility="partial")
    world = env.world(6, np.random.SeedSequence(2))
    algorithm = fb.algorithms.MGLSVI()
    problem = world.problem.knowing(Place(nx.complete_graph(5)))
    assert sorted(map(len, algorithm.teams(problem))) == [2, 3]
    for team in algorithm.teams(problem):
        assert set(team) == set(world.problem.get(Game).sees[team[0]])
    assert sorted(map(len, algorithm.teams(world.problem.knowing(Place(nx.empty_graph(5)))))) == [1] * 5


def test_what_does_not_fit_is_refused():
    with pytest.raises(fb.ConfigError, match="needs to know the fact 'game'"):
        fb.simulate("mg-lsvi", "riverswim:clients=3", 20, network="complete")
    with pytest.raises(fb.ConfigError, match="2 agents need as many numbers"):
        team_run(1, preferences=(1.0, 2.0, 3.0))
    with pytest.raises(fb.ConfigError, match="joint='sum'"):
        fb.simulate("mg-lsvi:joint=product", "grid-explore:size=5,clients=4,length=3", 3, network="complete")
