"""Noise for agents who plan: one exact budget for matrices and targets of all stages, of a transition or an episode."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.algorithms.planning.rare_messages import ASK, COLLECT, POOL, SUMS
from fedbandits.channel import Gaussian, through
from fedbandits.contract.algorithm import posed_by
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Episodes, Norms, Range
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.privacy import audit

ARM, H, DIM = 1.5, 3, 2
RARE = fb.algorithms.FedLSVIRare(width=0.5)


def problem_of(agents=1, horizon=12 * H):
    return Problem(agents=agents, dim=DIM, arms=2, horizon=horizon).knowing(
        Episodes(H), Norms(1.0, ARM), Range(0.0, 1.0)
    )


def agents_of(stage, n=1, seed=0, problem=None):
    return through(RARE, [stage]).agents(problem or problem_of(n), n, Streams(np.random.SeedSequence(seed), n))


def live(agents, turns):
    """Everybody makes the same turns: pairs of arms, the pick and what it pays."""
    who = np.arange(len(agents))
    for arms, pick, paid in turns:
        shown = np.tile(np.asarray(arms, dtype=float), (len(who), 1, 1))
        agents.learn(who, shown, np.full(len(who), pick), np.full(len(who), float(paid)))


def update(agents, weights=None):
    """One whole update of every agent for itself; what each has said: matrices, and targets by stage."""
    who = np.arange(len(agents))
    reply = agents.answer(Message(COLLECT.kind, who))
    gram = reply.arrays["gram"]
    agents.answer(Message(POOL.kind, who, {"gram": gram}))
    said = {}
    for stage in reversed(range(H)):
        about = np.full(len(who), stage, dtype=np.int32)
        answer = agents.answer(Message(ASK.kind, who, {"stage": about}))
        if answer is None:
            return gram, said
        said[stage] = answer.arrays["moment"]
        told = said[stage] if weights is None else np.tile(weights[stage], (len(who), 1))
        agents.answer(Message(SUMS.kind, who, {"stage": about, "moment": told}))
    return gram, said


def episode(rng):
    return [(rng.uniform(-1, 1, (2, DIM)), int(rng.integers(2)), rng.random()) for _ in range(H)]


class TestBudget:
    @pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
    @pytest.mark.parametrize("unit", ["observation", "episode"])
    def test_all_that_leaves_an_agent_is_one_gaussian_mechanism(self, unit, adjacency):
        """Noise as it is, held against sensitivities that are worked out here, composed by somebody else."""
        stage = Gaussian(epsilon=2.0, uploads=3, first=3, last=1.0, unit=unit, adjacency=adjacency, share=0.6)
        end = agents_of(stage).ends.stage0
        known = stage.poses(posed_by(RARE, problem_of()))
        matrix, vector = (1.0, 2.0) if adjacency == "replace" else (math.sqrt(0.5), 1.0)
        stages = H if unit == "episode" else 1
        increment = math.sqrt(stages) * matrix * np.linalg.norm(stage.sums(known).data, axis=0).max()
        event = dp_accounting.ComposedDpEvent(
            [
                dp_accounting.GaussianDpEvent(end._deviation / increment),
                dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(end._spread / vector), 3 * stages),
            ]
        )
        assert PLDAccountant().compose(event).get_epsilon(1e-5) == pytest.approx(2.0, rel=2e-3)
        assert PLDAccountant().compose(stage.event(known)).get_epsilon(1e-5) == pytest.approx(2.0, rel=2e-3)

    @pytest.mark.parametrize("unit", ["observation", "episode"])
    def test_what_is_spent_adds_up_to_the_budget_and_not_beyond(self, unit):
        agents, spent = agents_of(Gaussian(uploads=3, first=3, last=1.0, unit=unit)), [0.0]
        rng = np.random.default_rng(0)
        for _ in range(3):
            live(agents, episode(rng))
            update(agents)
            spent.append(float(agents.spent()[0]))
        assert np.all(np.diff(spent) > 0)
        assert spent[-1] == pytest.approx(1.0, abs=1e-9)
        assert spent[-1] <= 1.0 + 1e-12
        live(agents, episode(rng))
        gram, said = update(agents)
        assert not gram.any()
        assert said == {}
        assert agents.spent()[0] == spent[-1]
        assert (agents.protection().releases[0], agents.protection().allowed) == (3 + 3 * H, 3 + 3 * H)

    def test_noise_is_as_much_as_is_said(self):
        """4000 agents that have seen the same; targets of later stages are smaller, and so is their noise."""
        stage, n = Gaussian(uploads=2, first=3, last=1.0, unit="episode"), 4000
        agents = agents_of(stage, n)
        live(agents, episode(np.random.default_rng(1)))
        end = agents.ends.stage0
        clean = agents.inner.models.fresh.gram.reshape(n, H, DIM, DIM).copy()
        gram, said = update(agents)
        noise = gram - clean
        np.testing.assert_array_equal(noise, np.swapaxes(noise, 2, 3))
        for stage_at in range(H):
            one = noise[:, stage_at]
            first = end._deviation * ARM**2 * end.steps._sums.noise[0, 0]
            np.testing.assert_allclose(one[:, 0, 1].std(), first, rtol=0.05)
            np.testing.assert_allclose(one[:, 0, 0].std(), math.sqrt(2) * first, rtol=0.05)
        last = said[H - 1]
        np.testing.assert_allclose(last.std(axis=0), end._spread * ARM, rtol=0.05)
        assert said[0].std(axis=0).min() > 2 * last.std(axis=0).max()


vectors = st.lists(st.floats(-3, 3), min_size=DIM, max_size=DIM)
turns = st.tuples(st.lists(vectors, min_size=2, max_size=2), st.integers(0, 1), st.floats(-1, 2))
episodes = st.lists(turns, min_size=H, max_size=H)


class TestSensitivity:
    @settings(max_examples=15, deadline=None)
    @given(
        history=st.lists(episodes, min_size=1, max_size=3),
        other=episodes,
        weights=st.lists(st.lists(st.floats(-50, 50), min_size=DIM, max_size=DIM), min_size=H, max_size=H),
    )
    @pytest.mark.parametrize("unit", ["observation", "episode"])
    def test_nothing_moves_by_more_than_noise_is_made_for(self, unit, history, other, weights):
        """Clean sums of neighbouring histories, in units of the noise, whatever the plan: arms and rewards of any size.

        An episode is another one, or its last transition is: where that leads is the end in either case, and where it
        comes from is told by the arms of a turn, which the transition before it ends in, and so are left as they are.
        """
        changed = [*history[:-1], other]
        if unit == "observation":
            arms, _, _ = history[-1][-1]
            changed[-1] = [*history[-1][:-1], (arms, other[-1][1], other[-1][2])]
        stage = Gaussian(uploads=2, first=3, last=1.0, adjacency="replace", unit=unit)
        sums = [self.sums(stage, seen, weights) for seen in (history, changed)]
        end = agents_of(stage).ends.stage0
        matrices = ((sums[0][0] - sums[1][0]) ** 2).sum() / 2 / ARM**4
        assert math.sqrt(matrices) <= stage.weight(end._fields) * (1 + 1e-9)
        targets = [
            np.linalg.norm(sums[0][1][h] - sums[1][1][h]) / (ARM * (H - h)) / (end._each * end._spread)
            for h in range(H)
        ]
        assert max(targets) <= 1 + 1e-9
        if unit == "observation":
            assert max(targets[:-1]) <= 1e-9

    @staticmethod
    def sums(stage, history, weights):
        agents = agents_of(stage)
        for one in history:
            live(agents, one)
        gram = agents.inner.models.fresh.gram.reshape(H, DIM, DIM).copy()
        who = np.zeros(1, dtype=np.int64)
        agents.answer(Message(COLLECT.kind, who))
        agents.answer(Message(POOL.kind, who, {"gram": np.zeros((1, H, DIM, DIM))}))
        found = {}
        for at in reversed(range(H)):
            about = np.full(1, at, dtype=np.int32)
            found[at] = agents.inner.targets(who, at)[0]
            told = 100 * np.asarray(weights[at])[None]
            agents.answer(Message(SUMS.kind, who, {"stage": about, "moment": told}))
        return gram, found

    @pytest.mark.parametrize("unit", ["observation", "episode"])
    def test_the_audit_stays_below_what_is_spent(self, unit):
        """Agents who went the one way or the opposite one: answers in that direction, each weighed by its noise."""
        stage, n = Gaussian(uploads=1, first=3, last=1.0, delta=0.05, unit=unit, adjacency="replace"), 4000
        found = []
        for seed, way in ((1, ARM), (2, -ARM)):
            agents = agents_of(stage, n, seed)
            ways = [way if unit == "episode" or h == H - 1 else ARM for h in range(H)]
            live(agents, [(np.tile([one, 0.0], (2, 1)), 0, 1.0) for one in ways])
            said = update(agents)[1]
            found.append(sum(said[h][:, 0] / (H - h) for h in range(H)) if unit == "episode" else said[H - 1][:, 0])
        epsilon = audit(found[0][:, None], found[1][:, None], delta=0.05).epsilon
        assert 0.2 < epsilon < agents.spent()[0] <= 1.0 + 1e-12


class TestActing:
    def test_agents_act_on_what_was_released_alone(self):
        """Two histories, one noise: before an update nothing tells them apart, and choices are random."""
        rng = np.random.default_rng(3)
        one, other = agents_of(Gaussian(first=30)), agents_of(Gaussian(first=30))
        for _ in range(4):
            seen = episode(rng)
            live(one, seen)
            live(other, [(arms, 1 - pick, 1 - paid) for arms, pick, paid in seen])
        arms = rng.normal(size=(40, 1, 2, DIM))
        who = np.zeros(1, dtype=np.int64)
        picks = [[int(agents.choose(who, shown)[0]) for shown in arms] for agents in (one, other)]
        assert picks[0] == picks[1]
        assert set(picks[0]) == {0, 1}

    def test_they_act_in_the_stage_they_are_in(self):
        """Acting agents never learn; the stage is what learning ones have counted."""
        agents, who = agents_of(Gaussian(uploads=1, first=3, last=1.0)), np.zeros(1, dtype=np.int64)
        rng = np.random.default_rng(4)
        live(agents, episode(rng))
        update(agents, weights=[np.array([1e9, 0.0]), np.array([-1e9, 0.0]), np.array([0.0, 1e9])])
        arms = np.array([[[1.0, 0.0], [0.0, 1.0]]])
        found = []
        for _ in range(2 * H):
            pick = agents.choose(who, arms)
            found.append(int(pick[0]))
            agents.learn(who, arms, pick, np.zeros(1))
        assert found[:H] == found[H:] == [0, 1, 1]

    def test_an_update_waits_for_the_end_of_an_episode(self):
        stage = Gaussian(uploads=3, first=4, last=0.5)
        turns = stage.turns(posed_by(RARE, problem_of(horizon=60)))[0]
        assert (turns % H == 0).all()
        trace = fb.simulate(
            through(RARE, [stage]), fb.environments.LinearMDP(clients=4, length=H, dim=3), horizon=60, seed=1
        )
        np.testing.assert_array_equal(1 + np.flatnonzero(np.diff(trace.syncs, prepend=0)), turns)
        assert trace.epsilon[-1] == pytest.approx(1.0, abs=1e-9)

    def test_by_the_algorithms_own_schedule(self):
        """`every` counts episodes there; how many updates there may be has to be said."""
        algorithm = through(
            fb.algorithms.FedLSVIRare(every=5, width=0.5), [Gaussian(when="algorithm", uploads=3, unit="episode")]
        )
        assert algorithm.about.calls == "scheduled"
        trace = fb.simulate(algorithm, fb.environments.LinearMDP(clients=3, length=H, dim=3), horizon=30 * H, seed=1)
        np.testing.assert_array_equal(1 + np.flatnonzero(np.diff(trace.syncs, prepend=0)), 5 * H * np.arange(1, 4))
        assert trace.epsilon[-1] == pytest.approx(1.0, abs=1e-9)

    def test_nearly_no_noise_is_nearly_the_twin_without(self):
        mdp = fb.environments.LinearMDP(clients=4, length=3, dim=3)
        private = fb.algorithms.PrivateFedLSVI(epsilon=1e7, unit="episode", width=0.0, first=30, last=0.5)
        twin = fb.algorithms.PrivateFedLSVI(epsilon=None, width=0.0, first=30, last=0.5)
        rewards = [fb.simulate(one, mdp, horizon=600, seed=2).reward[-1] for one in (private, twin)]
        assert rewards[0] == pytest.approx(rewards[1], rel=0.05)


class TestRefusals:
    @pytest.mark.parametrize(
        ("stage", "said"),
        [
            ({"unit": "person"}, "episode"),
            ({"queries": 4}, "uploads"),
            ({"own": "fused"}, "fused"),
            ({"constants": "thesis", "mechanism": "tree"}, "thesis"),
        ],
    )
    def test_what_has_no_meaning_there(self, stage, said):
        with pytest.raises(ConfigError, match=said):
            agents_of(Gaussian(**stage))

    def test_episodes_are_for_those_who_plan(self):
        with pytest.raises(ConfigError, match="fedlsvi-rare"):
            fb.simulate("dislinucb|gaussian:unit=episode,rewards=1", "linear:clients=2", horizon=5, seed=0)

    def test_a_trigger_tells(self):
        with pytest.raises(ConfigError, match="depends on data"):
            through(fb.algorithms.FedLSVIRare(), [Gaussian(when="algorithm", uploads=3)])
