"""Noise for algorithms that ask: one budget for increments and answers, exactly; then agents decline."""

from __future__ import annotations

import math
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.channel import Gaussian, through
from fedbandits.contract.algorithm import posed_by, wire_of
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Answers, Link, Noise, Norms, Perturbation, Range
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.objectives import ASK_CURVATURE, ASK_GRADIENT
from fedbandits.models.sharing import COLLECT
from fedbandits.privacy import gaussian_mu
from fedbandits.transport.carriers import InProcess, hold

ARM, S, DIM = 1.5, 2.0, 3
FIRST = np.zeros(1, dtype=np.int64)
ASKING = {
    "fedglb-ucb": ASK_GRADIENT,
    "fedglb-ucb-1": ASK_GRADIENT,
    "fedglb-ucb-2": ASK_GRADIENT,
    "fedglb-newton": ASK_CURVATURE,
    "one-ucb-glm": ASK_CURVATURE,
}


def problem_of(agents=1, horizon=12):
    told = Norms(S, ARM), Range(0.0, 1.0), Noise(0.5), Link("logistic")
    return Problem(agents=agents, dim=DIM, arms=1, horizon=horizon).knowing(*told)


def staged(stage, name="fedglb-ucb-2"):
    return through(fb.algorithms.ALGORITHMS[name](width=1.0), [stage])


def posed(stage, problem, name="fedglb-ucb-2"):
    return stage.poses(posed_by(fb.algorithms.ALGORITHMS[name](), problem))


def agents_of(stage, problem, n=1, seed=0, name="fedglb-ucb-2"):
    return staged(stage, name).agents(problem, n, Streams(np.random.SeedSequence(seed), n))


def observe(agents, x, y, who=None):
    who = np.arange(len(agents)) if who is None else np.asarray(who)
    agents.attribute(who, np.zeros(len(who), dtype=np.int64))
    agents.learn(
        who,
        np.tile(np.asarray(x, dtype=float), (len(who), 1, 1)),
        np.zeros(len(who), dtype=np.int64),
        np.full(len(who), y),
    )


def ask(agents, theta, kind=ASK_GRADIENT.kind, who=None):
    who = np.arange(len(agents)) if who is None else np.asarray(who)
    return agents.answer(Message(kind, who, {"theta": np.tile(np.asarray(theta, dtype=float), (len(who), 1))}))


def collect(agents, who=None):
    return agents.answer(Message(COLLECT.kind, np.arange(len(agents)) if who is None else np.asarray(who)))


class TestBudget:
    @pytest.mark.parametrize(
        ("name", "adjacency", "chosen"),
        [
            ("fedglb-ucb-2", "add-remove", {}),
            ("fedglb-ucb-2", "replace", {"share": 0.3, "queries": 9, "mechanism": "tree"}),
            ("fedglb-newton", "add-remove", {"unit": "person", "most": 3}),
            ("fedglb-newton", "replace", {"queries": 4}),
        ],
    )
    def test_all_that_leaves_an_agent_is_one_gaussian_mechanism(self, name, adjacency, chosen):
        """Noise as it is, held against sensitivities that are worked out here, composed by somebody else."""
        stage = Gaussian(epsilon=2.0, uploads=3, first=2, last=1.0, adjacency=adjacency, **chosen)
        problem = problem_of()
        known, end = posed(stage, problem, name), agents_of(stage, problem, name=name).ends.stage0
        matrix, other = (1.0, 4.0) if adjacency == "replace" else (0.5, 1.0)
        most = chosen.get("most", 1)
        increment = most * math.sqrt(matrix) * np.linalg.norm(stage.sums(known).data, axis=0).max()
        answer = most * math.sqrt(other if name == "fedglb-ucb-2" else 2 * other + matrix)
        event = dp_accounting.ComposedDpEvent(
            [
                dp_accounting.GaussianDpEvent(end._deviation / increment),
                dp_accounting.SelfComposedDpEvent(
                    dp_accounting.GaussianDpEvent(end._spread / answer), chosen.get("queries", 6)
                ),
            ]
        )
        assert PLDAccountant().compose(event).get_epsilon(1e-5) == pytest.approx(2.0, rel=2e-3)
        expected, found = (RdpAccountant().compose(one).get_epsilon(1e-5) for one in (event, stage.event(known)))
        assert found == pytest.approx(expected, rel=1e-9)
        assert found >= 2.0

    def test_what_is_spent_adds_up_to_the_budget_and_not_beyond(self):
        stage = Gaussian(epsilon=1.0, uploads=3, first=2, last=1.0, queries=7, share=0.6)
        agents, spent = agents_of(stage, problem_of()), [0.0]
        assert agents.spent() == 0.0
        for upload in range(3):
            observe(agents, np.eye(DIM)[upload], 1.0)
            assert collect(agents) is not None
            spent.append(float(agents.spent()[0]))
            for _ in range(2 if upload < 2 else 3):
                assert ask(agents, np.zeros(DIM)) is not None
                spent.append(float(agents.spent()[0]))
        assert np.all(np.diff(spent) >= 0)
        assert spent[-1] == pytest.approx(1.0, abs=1e-9)
        assert spent[-1] <= 1.0 + 1e-12
        assert ask(agents, np.zeros(DIM)) is None
        assert agents.spent()[0] == spent[-1]
        found = agents.protection()
        assert (found.releases[0], found.allowed) == (10, 10)

    def test_acting_on_own_data_is_said_to_be_unprotected(self):
        stage = Gaussian(uploads=2, first=2, last=1.0, own="recent")
        agents = agents_of(stage, problem_of())
        observe(agents, np.eye(DIM)[0], 1.0)
        collect(agents)
        ask(agents, np.zeros(DIM))
        assert np.isinf(agents.spent()).all()
        assert 0 < agents.protection().spent[0] < 1.0


class TestNoise:
    def test_it_is_as_much_as_is_said_and_fresh_for_every_answer(self):
        """3000 agents that have seen the same, asked twice at the same point."""
        stage, n, problem = Gaussian(uploads=2, first=2, last=1.0), 3000, problem_of(3000)
        agents = agents_of(stage, problem, n)
        observe(agents, [1.0, 0.5, 0.0], 1.0)
        collect(agents)
        theta = np.array([0.2, -0.1, 0.4])
        first, second = (ask(agents, theta).arrays["gradient"] for _ in range(2))
        clean = agents.inner.data.gradients(agents.inner._s.link, FIRST, theta[None], given=True)
        told = posed(stage, problem).get(Answers)
        mu = gaussian_mu(1.0, 1e-5) * math.sqrt(stage.share)
        assert told.slope == pytest.approx(ARM * math.sqrt(4) / mu * math.sqrt(n))  # |mu - y| <= 1, four answers
        assert told.rounds == 2
        for answers in (first, second):
            noise = answers - clean
            assert np.abs(noise.mean(axis=0)).max() < 5 * told.slope / n
            np.testing.assert_allclose(noise.std(axis=0) * math.sqrt(n), told.slope, rtol=0.07)
        assert abs(np.corrcoef(first[:, 0], second[:, 0])[0, 1]) < 0.1
        assert len(np.unique(first[:, 0])) == n

    def test_hessians_stay_symmetric(self):
        stage = Gaussian(uploads=2, first=2, last=1.0)
        agents = agents_of(stage, problem_of(), name="fedglb-newton")
        observe(agents, [1.0, 0.5, 0.0], 1.0)
        collect(agents)
        said = ask(agents, np.zeros(DIM), ASK_CURVATURE.kind).arrays
        assert set(said) == {"loss", "gradient", "hessian"}
        np.testing.assert_array_equal(said["hessian"], np.swapaxes(said["hessian"], 1, 2))
        assert not np.allclose(said["hessian"], 0.25 * np.outer([1, 0.5, 0], [1, 0.5, 0]))

    def test_what_is_told_is_what_the_server_and_the_widths_go_by(self):
        stage, problem = Gaussian(uploads=4, first=2, last=1.0), problem_of(10)
        known = posed(stage, problem)
        assert known.get(Perturbation).vector == known.get(Answers).slope
        exact, noisy = (fb.algorithms.FedGLBUCB1().constants(one) for one in (problem, known))
        assert (exact.answered, noisy.answered) == (False, True)


vectors = st.lists(st.floats(-3, 3), min_size=DIM, max_size=DIM)
histories = st.lists(st.tuples(vectors, st.floats(-2, 2)), min_size=1, max_size=4)


class TestSensitivity:
    @settings(max_examples=12, deadline=None)
    @given(history=histories, place=st.integers(0, 3), other=st.tuples(vectors, st.floats(-2, 2)), theta=vectors)
    @pytest.mark.parametrize("name", ["fedglb-ucb-2", "fedglb-newton"])
    def test_no_observation_moves_an_answer_by_more_than_noise_is_made_for(self, name, history, place, other, theta):
        """Clean answers of neighbouring histories, in units of the noise; arms and rewards of any size."""
        place %= len(history)
        theta = np.array(theta)
        theta *= min(1.0, S / max(np.linalg.norm(theta), 1e-9))
        replaced = [*history[:place], other, *history[place + 1 :]]
        removed = [*history[:place], *history[place + 1 :]]
        for adjacency, neighbour in (("replace", replaced), ("add-remove", removed)):
            stage = Gaussian(uploads=2, first=2, last=1.0, adjacency=adjacency)
            first, second = (self.answer(stage, name, seen, theta) for seen in (history, neighbour))
            end = agents_of(stage, problem_of(), name=name).ends.stage0
            (fields,) = end._asked_for.values()
            moved = sum(float(field.weight(first[field.name] - second[field.name])[0]) for field in fields)
            assert math.sqrt(moved) <= end._each * end._spread * (1 + 1e-9)

    @staticmethod
    def answer(stage, name, history, theta):
        agents = agents_of(stage, problem_of(), name=name)
        for x, y in history:
            observe(agents, x, y)
        collect(agents)
        who = np.arange(1)
        return agents.inner.answer(Message(ASKING[name].kind, who, {"theta": theta[None]})).arrays

    def test_a_point_beyond_bounds_is_not_answered(self):
        """There one observation may weigh more; it costs nothing."""
        agents = agents_of(Gaussian(uploads=2, first=2, last=1.0), problem_of())
        observe(agents, np.eye(DIM)[0], 1.0)
        collect(agents)
        before = agents.spent()
        for theta in ([S * (1 + 1e-9), 0, 0], [np.nan, 0, 0], [np.inf, 0, 0]):
            assert ask(agents, theta) is None
        np.testing.assert_array_equal(agents.spent(), before)
        assert ask(agents, [S, 0, 0]) is not None


class TestDeclining:
    def test_who_has_answered_all_is_left_out(self):
        stage = Gaussian(uploads=1, first=2, last=1.0, queries=2)
        agents = agents_of(stage, problem_of(3), n=3)
        observe(agents, np.eye(DIM)[0], 1.0)
        collect(agents)
        for _ in range(2):
            assert ask(agents, np.zeros(DIM), who=[1]).who.tolist() == [1]
        assert ask(agents, np.zeros(DIM)).who.tolist() == [0, 2]
        assert ask(agents, np.zeros(DIM), who=[1]) is None
        assert (agents.spent() <= 1.0 + 1e-12).all()

    def test_the_server_gives_up_and_goes_on_with_what_it_has(self):
        stage = Gaussian(uploads=2, first=2, last=1.0, queries=4)
        algorithm, problem = staged(stage), problem_of(3)
        agents = agents_of(stage, problem, n=3)
        server = algorithm.server(problem, 3, Streams(np.random.SeedSequence(1), 1))
        carrier = InProcess(agents, Ledger(), wire_of(algorithm, problem))
        observe(agents, np.eye(DIM)[0], 1.0)
        hold(server, np.arange(3), carrier)
        found = server.inner.theta.copy()
        assert found.any()
        assert (server.inner.rounds, server.inner.uncertified) == (2, 1)
        ask(agents, np.zeros(DIM), who=[2])  # somebody else has asked
        ask(agents, np.zeros(DIM), who=[2])
        observe(agents, np.eye(DIM)[1], 0.0)
        hold(server, np.arange(3), carrier)
        np.testing.assert_array_equal(server.inner.theta, found)
        assert server.inner.rounds == 2
        assert (agents.spent() <= 1.0 + 1e-12).all()

    def test_after_the_last_update_nobody_calls(self):
        stage, environment = Gaussian(uploads=3, first=4, last=0.5), fb.environments.Logistic(clients=4, dim=3, arms=3)
        trace = fb.simulate(staged(stage), environment, horizon=40, seed=1)
        when = 1 + np.flatnonzero(np.diff(trace.syncs, prepend=0))
        np.testing.assert_array_equal(when, [4, 9, 20])
        assert trace.epsilon[-1] == pytest.approx(1.0, abs=1e-9)


class TestTurns:
    """Whoever calls has everybody asked."""

    def lead(self, turns, stage, n=3):
        """Agents take `turns`, lists of who acts in each step; when there was a conversation, and the agents."""
        algorithm, problem = staged(stage), problem_of(n, horizon=20)
        agents = agents_of(stage, problem, n=n)
        server = algorithm.server(problem, n, Streams(np.random.SeedSequence(1), 1))
        carrier = InProcess(agents, Ledger(), wire_of(algorithm, problem))
        when = []
        for step, who in enumerate(turns):
            if who:
                observe(agents, np.eye(DIM)[step % DIM], float(step % 2), who)
            callers = np.flatnonzero(agents.calling())
            if len(callers):
                hold(server, callers, carrier)
                when.append(step + 1)
        return when, agents, server

    def test_the_fastest_leads_and_nobody_pays_for_more_updates_than_there_are(self):
        stage = Gaussian(uploads=3, first=2, last=0.5)  # after 2, 4 and 10 of 20 turns
        turns = [[0], [0, 1], [0], [0, 1, 2], *([[0, 1]] * 8), *([[1, 2]] * 8)]
        when, agents, server = self.lead(turns, stage)
        assert when == [2, 4, 10]
        end = agents.ends.stage0
        np.testing.assert_array_equal(end.answered, 6)
        np.testing.assert_array_equal(end.joined[:, 0], 3)
        assert server.inner.rounds == 6
        assert end.steps.made.tolist() == [3, 3, 1]  # where agent 2 had nothing new, it released nothing
        assert (agents.spent() <= 1.0 + 1e-12).all()
        assert agents.spent()[2] < agents.spent()[0]

    def test_turns_that_passed_while_nobody_heard_are_one_update(self):
        stage = Gaussian(uploads=3, first=2, last=0.5)
        agents = agents_of(stage, problem_of(1, horizon=20))
        for step in range(11):
            observe(agents, np.eye(DIM)[step % DIM], 0.0)
        assert agents.calling().all()
        collect(agents)
        assert not agents.calling().any()

    def test_what_was_not_taken_in_is_called_for_again_with_the_same_noise(self):
        stage = Gaussian(uploads=3, first=2, last=0.5)
        agents = agents_of(stage, problem_of(1, horizon=20))
        observe(agents, np.eye(DIM)[0], 0.0)
        observe(agents, np.eye(DIM)[1], 0.0)
        assert agents.calling().all()
        sent = collect(agents)
        assert not agents.calling().any()
        agents.restore(sent, sent.arrays["count"])
        assert agents.calling().all()
        np.testing.assert_array_equal(collect(agents).arrays["gram"], sent.arrays["gram"])
        assert agents.ends.stage0.steps.made.tolist() == [1]

    def test_moments_depend_on_turns_alone(self):
        environment = fb.environments.Logistic(clients=5, dim=3, arms=3, schedule="random")
        stage = Gaussian(uploads=4, first=2, last=0.3)
        assert staged(stage).about.calls == "scheduled"
        traces = [fb.simulate(staged(replace(stage, epsilon=e)), environment, horizon=60, seed=3) for e in (0.5, 50.0)]
        np.testing.assert_array_equal(traces[0].syncs, traces[1].syncs)
        assert not np.array_equal(traces[0].reward, traces[1].reward)
        assert 0 < traces[0].syncs[-1] <= 4


class TestRefusals:
    @pytest.mark.parametrize("name", sorted(ASKING))
    def test_who_asks_is_served(self, name):
        about = staged(Gaussian(), name).about
        assert about.private
        assert about.calls == "scheduled"
        assert "differentially private" in about.guarantee

    @pytest.mark.parametrize(
        ("chosen", "said"),
        [
            ({"own": "fused"}, "own='fused' adds .* no sum; use own='released'"),
            ({"unit": "agent"}, "unit='agent' .* can protect an 'observation' or a 'person'"),
            ({"constants": "thesis", "mechanism": "tree"}, "no constants for fedglb-ucb-2, which asks"),
        ],
    )
    def test_what_cannot_be_protected_is_refused(self, chosen, said):
        with pytest.raises(ConfigError, match=said):
            staged(Gaussian(**chosen))

    def test_questions_need_somebody_who_asks(self):
        with pytest.raises(ConfigError, match="dislinucb asks nothing, so that queries=5"):
            through(fb.algorithms.DisLinUCB(), [Gaussian(queries=5)])

    def test_too_few_questions_are_refused(self):
        with pytest.raises(ConfigError, match="queries=2 are too few for 3 uploads"):
            agents_of(Gaussian(uploads=3, first=2, last=1.0, queries=2), problem_of())

    def test_a_trigger_by_data_is_refused_and_a_schedule_is_not(self):
        by_data, by_turns = fb.algorithms.FedGLBUCB(), fb.algorithms.FedGLBUCB(every=5)
        with pytest.raises(ConfigError, match="when fedglb-ucb uploads depends on data"):
            through(by_data, [Gaussian(when="algorithm", uploads=4)])
        assert through(by_turns, [Gaussian(when="algorithm", uploads=4)]).about.calls == "scheduled"

    def test_one_that_does_not_say_what_it_asks_for_is_refused(self):
        class Silent(fb.algorithms.FedGLBUCB2):
            questions = None

        with pytest.raises(ConfigError, match="does not say what for; let it assume the fact questions"):
            through(Silent(), [Gaussian(uploads=2)]).agents(problem_of(), 1, Streams(np.random.SeedSequence(0), 1))

    def test_gradients_of_which_nobody_knows_how_they_add_up_are_refused(self):
        with pytest.raises(ConfigError, match="'gradient' of fedglb-ucb-3 is no sum"):
            staged(Gaussian(), "fedglb-ucb-3")


def test_company_is_worth_its_noise():
    """At a generous budget thirty agents learn more from each other's noisy answers than each from its own data."""
    environment = fb.environments.Logistic(clients=30, dim=4, arms=8)
    private = fb.simulate(staged(Gaussian(epsilon=5.0)), environment, horizon=600, seed=4)
    alone = fb.simulate(fb.algorithms.NOnsGLM(width=1.0), environment, horizon=600, seed=4)
    assert private.regret[-1] < 0.8 * alone.regret[-1]
