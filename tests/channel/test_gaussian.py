"""Noise on sums: it telescopes, it is as much as is said, nobody's data move releases by more, and it ends."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noisy_agents import ARM, REWARD, Noiseless, agents_of, collect, numbers, observe, problem_of, seen, tell, uploads

import fedbandits as fb
from fedbandits.channel import Gaussian, stages_of, through
from fedbandits.contract.algorithm import wire_of
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Norms, Perturbation, Range
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.sharing import COLLECT
from fedbandits.privacy import gaussian_mu
from fedbandits.testing.suite import Check, subject_of
from fedbandits.transport.carriers import InProcess, hold

MECHANISMS = ["toeplitz", "tree", "fresh"]
DIS = fb.algorithms.DisLinUCB()
BOUNDED = fb.environments.LinearBounded(clients=5, dim=3, arms=4)
FEW = {"first": 3, "last": 1.0, "uploads": 5}


class TestReleases:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_a_server_that_adds_up_has_the_mechanisms_prefix_sums(self, mechanism):
        """Through a real server, in a run whose clean sums and noise are known."""
        stage, horizon = Gaussian(mechanism=mechanism, **FEW), 40
        algorithm, world = through(DIS, [stage]), BOUNDED.world(horizon, np.random.SeedSequence(1))
        problem, n = world.problem, world.problem.agents
        agents = algorithm.agents(problem, n, Streams(np.random.SeedSequence(2), n))
        server = algorithm.server(problem, n, Streams(np.random.SeedSequence(3), 1))
        carrier = InProcess(agents, Ledger(), wire_of(algorithm, problem))
        secret, z = Streams(np.random.SeedSequence(2), n).apart("stage", 0).secret, []
        gram, moment, synchronised = np.zeros((3, 3)), np.zeros(3), 0
        B, sigma = stage.sums(stage.poses(problem)).noise, stage.noise(stage.poses(problem))
        reach, size = problem.need(Norms, by=DIS.about).arms, problem.need(Range, by=DIS.about).largest
        for step in range(horizon):
            turn = world.turn(step)
            picks = agents.choose(turn.who, turn.arms)
            rewards = world.pay(step, picks).rewards
            agents.learn(turn.who, turn.arms, picks, rewards)
            x = turn.arms[np.arange(n), picks]
            gram, moment = gram + x.T @ x, moment + rewards @ x
            if not agents.calling().any():
                continue
            hold(server, np.flatnonzero(agents.calling()), carrier)
            synchronised += 1
            z.append(sigma * secret.normal(np.arange(n), 9))
            noise = np.einsum("j,jnp->p", B[synchronised - 1, :synchronised], np.stack(z))
            rows, columns = np.tril_indices(3)
            drawn = np.zeros((3, 3))
            drawn[rows, columns] = noise[:6] * np.where(rows == columns, math.sqrt(2), 1.0)
            drawn = np.tril(drawn) + np.tril(drawn, -1).T
            pool, close = server.state(), {"rtol": 1e-12, "atol": 1e-12 * sigma}
            np.testing.assert_allclose(pool["inner.pool.gram"][0], gram + reach**2 * drawn, **close)
            np.testing.assert_allclose(pool["inner.pool.moment"][0], moment + reach * size * noise[6:], **close)
        assert synchronised == 5

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_releases_vary_as_is_told(self, mechanism):
        """Over many agents: each entry of the k-th noisy sum, and what readers are told of sums over everybody."""
        n, stage = 3000, Gaussian(mechanism=mechanism, every=2, uploads=4)
        problem = problem_of(dim=2, horizon=8, agents=n)
        posed = stage.poses(problem)
        xs, ys = np.tile([[0.3, -0.5]], (8, 1)), np.ones(8)
        nobody = np.zeros(8, dtype=np.int64)
        said = uploads(stage, agents_of(stage, n, 5, problem), xs, ys, nobody)
        clean = uploads(stage, agents_of(Noiseless(every=2, uploads=4), 1, 0, problem), xs, ys, nobody)
        noise = np.cumsum(said - clean, axis=1)  # (n, m, p), each number of variance sigma^2 v_k
        expected = stage.noise(posed) ** 2 * stage.sums(posed).variances
        error = 5 * math.sqrt(2 / n)
        np.testing.assert_allclose(noise.var(axis=0), np.tile(expected[:, None], (1, 5)), rtol=error)
        assert (np.abs(noise.mean(axis=0)) < 5 * np.sqrt(expected[:, None] / n)).all()
        told = posed.need(Perturbation, by=DIS.about)
        assert told.matrix == pytest.approx(ARM**2 * math.sqrt(n * expected.max()))
        assert told.vector == pytest.approx(ARM * REWARD * math.sqrt(n * expected.max()))
        # releases of one agent are independent of those of another
        assert abs(np.corrcoef(noise[::2, -1, 0], noise[1::2, -1, 0])[0, 1]) < 5 / math.sqrt(n / 2)

    def test_noise_is_the_same_in_every_basis(self):
        """Twice the variance on the diagonal: a rotated matrix varies in the same way."""
        n, stage = 4000, Gaussian(every=1, uploads=1)
        problem = problem_of(dim=2, horizon=2, agents=n)
        agents = agents_of(stage, n, 6, problem)
        observe(agents, np.zeros(2), 0.0)
        gram = agents.answer(Message(COLLECT.kind, np.arange(n))).arrays["gram"]
        turn = np.array([[0.6, -0.8], [0.8, 0.6]])
        for entries in (gram, turn @ gram @ turn.T):
            expected = (stage.noise(stage.poses(problem)) * ARM**2) ** 2
            np.testing.assert_allclose(entries.var(axis=0), expected * np.array([[2, 1], [1, 2]]), rtol=0.15)


WILD = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1e-200, 1e200, -1e200])
OBSERVATIONS = st.lists(st.tuples(WILD, WILD, WILD), min_size=6, max_size=6)


class TestSensitivity:
    """By how much neighbouring histories move C s, choices being fixed: never by more than noise is made for."""

    PROBLEM = problem_of(dim=2, horizon=6)

    def moved(self, stage, first, second, persons=(0, 0, 1, 2, 2, 3)):
        told = [
            seen(stage, self.PROBLEM, uploads(stage, agents_of(stage, 1, 0, self.PROBLEM), xs, ys, np.array(persons)))
            for xs, ys in ((history[:, :2], history[:, 2]) for history in (first, second))
        ]
        return float(np.linalg.norm(told[0] - told[1]))

    def most(self, stage):
        posed = stage.poses(self.PROBLEM)
        return Gaussian(**dataclasses.asdict(stage)).noise(posed) * gaussian_mu(stage.epsilon, stage.delta)

    @settings(max_examples=60)
    @given(
        OBSERVATIONS,
        st.tuples(WILD, WILD, WILD),
        st.integers(0, 5),
        st.sampled_from(MECHANISMS),
        st.sampled_from(["add-remove", "replace"]),
        st.integers(1, 3),
    )
    def test_of_one_observation(self, history, other, place, mechanism, adjacency, every):
        stage = Noiseless(mechanism=mechanism, adjacency=adjacency, every=every)
        first = np.array(history)
        second = first.copy()
        second[place] = other if adjacency == "replace" else 0.0
        assert self.moved(stage, first, second) <= self.most(stage) * (1 + 1e-9)

    @settings(max_examples=60)
    @given(OBSERVATIONS, OBSERVATIONS, st.sampled_from(MECHANISMS), st.sampled_from(["add-remove", "replace"]))
    def test_of_everything_an_agent_contributes(self, history, others, mechanism, adjacency):
        stage = Noiseless(mechanism=mechanism, adjacency=adjacency, every=2, unit="agent", most=1)
        second = np.array(others) if adjacency == "replace" else np.zeros((6, 3))
        assert self.moved(stage, np.array(history), second) <= self.most(stage) * (1 + 1e-9)

    @settings(max_examples=60)
    @given(
        OBSERVATIONS,
        OBSERVATIONS,
        st.lists(st.integers(0, 1), min_size=6, max_size=6),
        st.sampled_from(MECHANISMS),
        st.sampled_from(["add-remove", "replace"]),
    )
    def test_of_a_person(self, history, others, persons, mechanism, adjacency):
        """Whatever person 0 does, as often as they come."""
        stage = Noiseless(mechanism=mechanism, adjacency=adjacency, every=2, unit="person", most=2)
        first, second = np.array(history), np.array(history)
        theirs = np.array(persons) == 0
        second[theirs] = np.array(others)[theirs] if adjacency == "replace" else 0.0
        assert self.moved(stage, first, second, persons) <= self.most(stage) * (1 + 1e-9)

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_it_is_reached(self, mechanism):
        """So that no budget is wasted: in the first upload, by the longest arm and the largest reward."""
        whole = np.zeros((6, 3))
        nothing, flipped = whole.copy(), whole.copy()
        whole[0], flipped[0] = (ARM, 0, REWARD), (ARM, 0, -REWARD)
        for adjacency, second in (("add-remove", nothing), ("replace", flipped)):
            stage = Noiseless(mechanism=mechanism, adjacency=adjacency, every=1)
            assert self.moved(stage, whole, second) == pytest.approx(self.most(stage), rel=1e-12)
        stage = Noiseless(mechanism=mechanism, every=1, unit="agent", most=1)
        everything = np.tile([ARM, 0, REWARD], (6, 1))
        assert self.moved(stage, everything, nothing) == pytest.approx(self.most(stage), rel=1e-12)

    def test_without_clipping_it_would_be_exceeded(self, monkeypatch):
        monkeypatch.setattr(
            "fedbandits.channel.releasing.clipped", lambda problem, arms, picks, rewards, _: (arms, picks, rewards)
        )
        stage = Noiseless(every=1)
        first = np.zeros((6, 3))
        second = first.copy()
        first[2] = (3 * ARM, 0, REWARD)
        assert self.moved(stage, first, second) > 5 * self.most(stage)


class TestTheEnd:
    def test_after_the_last_upload_nothing_is_released(self):
        stage = Gaussian(every=1, uploads=2)
        agents = agents_of(stage, 2, 0, problem_of(horizon=9))
        sent = []
        for turn in range(5):
            observe(agents, np.array([1.0, 0.0, 0.0]), 1.0)
            assert agents.calling().all() == (turn < 2)
            sent.append(collect(agents))
        assert all(said.any() for said in sent[:2])
        assert not np.concatenate(sent[2:]).any()
        found = agents.protection()
        assert found.allowed == 2
        assert found.releases.tolist() == [2, 2]
        np.testing.assert_allclose(found.spent, 1.0)
        np.testing.assert_array_equal(agents.spent(), found.spent)

    def test_an_algorithm_that_asks_more_often_gets_no_more(self):
        """Scheduled calls of the algorithm itself, more of them than there are uploads."""
        algorithm = through(fb.algorithms.CentralLinUCB(), [Gaussian(when="algorithm", uploads=3)])
        run = fb.Simulation(algorithm, BOUNDED, horizon=20, seed=1)
        run.run()
        trace = run.trace()
        assert run.agents.protection().releases.tolist() == [3] * 5
        np.testing.assert_allclose(trace.epsilon[-1], 1.0)
        assert trace.syncs[-1] == 3

    def test_turns_that_passed_unseen_are_one_release(self):
        """An agent that nobody could reach releases once, and not an empty sum for every turn it missed."""
        stage = Gaussian(every=2, uploads=4)
        agents = agents_of(stage, 1, 0, problem_of(horizon=8))
        for _ in range(6):
            observe(agents, np.ones(3) / 2, 1.0)
        assert agents.calling().all()
        collect(agents)
        assert not agents.calling().any()
        assert agents.protection().releases.tolist() == [1]
        observe(agents, np.ones(3) / 2, 1.0)
        assert not agents.calling().any()
        observe(agents, np.ones(3) / 2, 1.0)
        assert agents.calling().all()

    @pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (50.0, 0.99), (1000.0, 0.1)])
    def test_printed_constants_spend_no_more_than_is_said(self, epsilon, delta, adjacency):
        """Where the thesis' noise would be too little for its budget there is more."""
        stage = Gaussian(
            epsilon=epsilon, delta=delta, mechanism="tree", constants="thesis", adjacency=adjacency, every=1, uploads=8
        )
        agents = agents_of(stage, 1, 0, problem_of(horizon=8))
        for _ in range(8):
            observe(agents, np.ones(3) / 2, 1.0)
            collect(agents)
        assert agents.protection().releases.tolist() == [8]
        assert 0 < agents.spent()[0] <= epsilon * (1 + 1e-9)

    def test_what_is_spent_grows_with_releases(self):
        stage = Gaussian(every=1, uploads=4, epsilon=2.0)
        agents = agents_of(stage, 1, 0, problem_of(horizon=8))
        spent = [agents.spent()[0]]
        for _ in range(4):
            observe(agents, np.ones(3) / 2, 1.0)
            collect(agents)
            spent.append(agents.spent()[0])
        assert spent[0] == 0.0
        assert (np.diff(spent) > 0).all()
        assert spent[-1] == pytest.approx(2.0)


class TestWhatComesBack:
    def test_it_is_sent_again_as_it_is(self):
        """Never with new noise for the same data; and it calls for a server although nothing is due."""
        stage = Gaussian(every=2, uploads=2)
        agents = agents_of(stage, 2, 0, problem_of(horizon=8))
        for _ in range(2):
            observe(agents, np.ones(3) / 2, 1.0)
        sent = agents.answer(Message(COLLECT.kind, np.arange(2)))
        assert not agents.calling().any()
        agents.restore(sent.of(np.array([1])), np.array([2.0]))
        assert agents.calling().tolist() == [False, True]
        assert agents.urgency()[1] >= 1
        again = agents.answer(Message(COLLECT.kind, np.arange(2)))
        for name, said in sent.arrays.items():
            np.testing.assert_array_equal(again.arrays[name][1], said[1])
            assert not again.arrays[name][0].any()
        assert agents.protection().releases.tolist() == [1, 1]

    def test_it_comes_with_what_is_released_next(self):
        stage = Gaussian(every=1, uploads=3)
        lost, plain = (agents_of(stage, 1, 4, problem_of(horizon=8)) for _ in range(2))
        total = np.zeros((1, 9))
        for turn in range(3):
            for agents in (lost, plain):
                observe(agents, np.ones(3) / 2, 1.0)
            total = total + collect(plain)
            sent = lost.answer(Message(COLLECT.kind, np.arange(1)))
            if turn < 2:
                lost.restore(sent, np.array([1.0]))
        np.testing.assert_allclose(numbers(sent.arrays), total, atol=1e-12)


class TestWhatAgentsActOn:
    def test_blind_agents_choose_by_releases_alone(self):
        """Clean data of their own, however many, move no choice."""
        stage, problem = Gaussian(every=50, uploads=1), problem_of(dim=3, horizon=90)
        problem = dataclasses.replace(problem, arms=6)
        arms = np.random.default_rng(0).standard_normal((40, 1, 6, 3))
        chosen = []
        for sign in (1.0, -1.0):
            agents = agents_of(stage, 1, 0, problem)
            tell(agents, 400.0 * np.eye(3), np.array([300.0, 0.0, 0.0]))
            chosen.append([])
            for shown in arms:
                (pick,) = agents.choose(np.arange(1), shown)
                agents.learn(np.arange(1), shown, np.array([pick]), np.array([sign]))
                chosen[-1].append(pick)
        assert chosen[0] == chosen[1]

    def test_until_they_are_told_anything_they_choose_at_random(self):
        n, problem = 4000, dataclasses.replace(problem_of(horizon=9), arms=5)
        agents = agents_of(Gaussian(), n, 0, problem)
        arms = np.random.default_rng(0).standard_normal((1, 5, 3)).repeat(n, axis=0)
        picks = agents.choose(np.arange(n), arms)
        np.testing.assert_allclose(np.bincount(picks, minlength=5) / n, 0.2, atol=5 * math.sqrt(0.16 / n))
        np.testing.assert_allclose(agents.chances(np.arange(n), arms), 0.2)
        assert np.isnan(agents.scores(np.arange(n), arms)).all()

    @pytest.mark.parametrize(("own", "strict"), [("released", True), ("fused", False), ("recent", False)])
    def test_definitions_are_told_apart(self, own, strict):
        agents = agents_of(Gaussian(every=1, uploads=1, own=own), 1, 0, problem_of(horizon=8))
        np.testing.assert_array_equal(agents.spent(), 0.0)
        observe(agents, np.ones(3) / 2, 1.0)
        collect(agents)
        found = agents.protection()
        assert found.spent[0] == pytest.approx(1.0)
        assert np.isfinite(agents.spent()[0]) == strict
        assert found.definition == ("transcript" if strict else "fixed histories")

    @pytest.mark.parametrize("own", ["released", "fused", "recent"])
    @pytest.mark.parametrize("unit", ["observation", "agent"])
    def test_two_worlds(self, own, unit):
        algorithm = through(DIS, [Gaussian(own=own, unit=unit, mechanism="tree", **FEW)])
        Check("two worlds", subject_of(algorithm, BOUNDED, horizon=25, seed=4))()


class TestOrders:
    """What stands where among stages: rounding and judging follow noise, and nothing comes between it and clipping."""

    @pytest.mark.parametrize("stages", [["gaussian", "quantise"], ["robust", "gaussian"]], ids=str)
    @pytest.mark.parametrize("promise", ["two worlds", "resumable"])
    def test_what_makes_sense_keeps_the_promises(self, stages, promise):
        Check(promise, subject_of(through(DIS, stages_of(stages)), BOUNDED, horizon=20, seed=3))()

    def test_rounded_releases_are_as_private(self):
        """What is rounded was released before: the same is spent."""
        run = fb.simulate(
            through(DIS, stages_of(["gaussian:first=3,last=1,uploads=5", "quantise:bits=12"])), BOUNDED, 40, seed=1
        )
        plain = fb.simulate(through(DIS, stages_of(["gaussian:first=3,last=1,uploads=5"])), BOUNDED, 40, seed=1)
        assert run.bytes[-1] < 0.8 * plain.bytes[-1]
        np.testing.assert_array_equal(run.epsilon[-1], plain.epsilon[-1])

    def test_a_filter_looks_at_noisy_sums(self):
        algorithm = through(DIS, stages_of(["robust", "gaussian:first=3,last=1,uploads=5,epsilon=50"]))
        run = fb.simulate(algorithm, BOUNDED, 60, seed=1, attack=fb.Attack(how="inflate", share=0.2))
        assert np.isfinite(run.regret).all()
        np.testing.assert_allclose(run.epsilon[-1], 50.0)

    @pytest.mark.parametrize(
        ("stages", "reason"),
        [
            (["quantise", "gaussian"], r"noise comes first.*\|gaussian\|quantise"),
            (["robust", "quantise", "gaussian"], "noise comes first"),
            (["gaussian", "robust"], r"\|robust\|gaussian"),
            (["gaussian", "gaussian"], "protected by noise already"),
        ],
        ids=str,
    )
    def test_what_makes_no_sense_is_refused_with_a_reason(self, stages, reason):
        with pytest.raises(ConfigError, match=reason):
            through(DIS, stages_of(stages))


class TestRefusals:
    @pytest.mark.parametrize(
        ("stage", "reason"),
        [
            ({"when": "algorithm", "uploads": 3}, "leaky=true"),
            ({"when": "algorithm", "every": 3, "leaky": True}, "leave one of them out"),
            ({"epsilon": 1e-12, "delta": 1e-12}, "allows no release.*raise epsilon"),
            ({"constants": "thesis"}, "mechanism=tree"),
            ({"constants": "thesis", "mechanism": "tree", "unit": "agent"}, "unit=observation"),
        ],
        ids=str,
    )
    def test_what_contradicts_itself_or_leaks(self, stage, reason):
        with pytest.raises(ConfigError, match=reason):
            through(DIS, [Gaussian(**stage)])

    @pytest.mark.parametrize(
        "stage", [{"epsilon": 0.0}, {"epsilon": math.inf}, {"delta": 0.0}, {"delta": 1.0}, {"uploads": 0}, {"most": 0}]
    )
    def test_what_is_no_budget(self, stage):
        with pytest.raises(ConfigError, match=next(iter(stage))):
            Gaussian(**stage)

    @pytest.mark.parametrize(
        ("facts", "stage", "reason"),
        [
            ((Norms(),), {}, "gaussian:rewards=1"),
            ((Range(0, 1),), {}, "gaussian:arms=1"),
            ((Norms(), Range(0, 1)), {"every": 60}, "every=60 allows no upload within 50"),
            ((Norms(), Range(0, 1)), {"when": "algorithm", "leaky": True}, "gaussian:uploads=32"),
        ],
    )
    def test_what_the_problem_does_not_allow(self, facts, stage, reason):
        algorithm = through(DIS, [Gaussian(**stage)])
        problem = Problem(agents=2, dim=3, arms=4, horizon=50).knowing(*facts)
        with pytest.raises(ConfigError, match=reason):
            algorithm.agents(problem, 2, Streams(np.random.SeedSequence(0), 2))

    def test_clips_that_are_given_serve_where_nothing_is_told(self):
        run = fb.simulate(
            through(DIS, [Gaussian(arms=1.0, rewards=2.0)]), fb.environments.Linear(clients=3, dim=3, arms=4), 30
        )
        np.testing.assert_allclose(run.epsilon[-1], 1.0)

    def test_persons_have_to_be_told(self):
        agents = agents_of(Gaussian(unit="person"), 1, 0, problem_of())
        shown = np.ones((1, 1, 3))
        with pytest.raises(ConfigError, match="whom each observation is about"):
            agents.learn(np.arange(1), shown, np.zeros(1, dtype=np.int64), np.ones(1))
        assert agents.state()["ends.stage0.observed"].tolist() == [0]

    def test_a_data_dependent_trigger_is_leaky_and_says_so(self):
        algorithm = through(fb.algorithms.DisLinUCB(threshold=0.5), [Gaussian(when="algorithm", uploads=9, leaky=True)])
        assert algorithm.about.calls == "data"
        assert "no privacy is claimed" in algorithm.about.guarantee
        run = fb.Simulation(algorithm, BOUNDED, horizon=30, seed=1)
        run.run()
        assert np.isinf(run.agents.spent()).all()
        assert np.isinf(run.agents.protection().spent).all()


class TestBounds:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("unit", ["observation", "agent"])
    def test_honest_noise_keeps_to_the_declared_bound(self, mechanism, unit):
        """Over many agents; and it is a bound: no more than some fifty times what is ever sent."""
        n, stage = 2000, Gaussian(mechanism=mechanism, unit=unit, every=1, uploads=8)
        problem = problem_of(horizon=8, agents=n)
        posed = stage.poses(problem)
        (up,) = (one for one in through(DIS, [stage]).about.says if one.direction == "up")
        limits = {item.name: item.bound.limit(posed, {}) for item in up.fields if not item.counts}
        agents, largest = agents_of(stage, n, 9, problem), dict.fromkeys(limits, 0.0)
        for _ in range(8):
            observe(agents, np.array([ARM, 0.0, 0.0]), REWARD)
            arrays = agents.answer(Message(COLLECT.kind, np.arange(n))).arrays
            for name in limits:
                norms = np.linalg.norm(arrays[name].reshape(n, -1), axis=1)
                largest[name] = max(largest[name], norms.max())
        for name, limit in limits.items():
            assert largest[name] < limit < 50 * largest[name]
