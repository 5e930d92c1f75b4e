"""Noise for networks that everybody trains: answers share one budget, exactly; then agents leave themselves out."""

from __future__ import annotations

import dataclasses
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

import fedbandits as fb
from conformance.subjects import subject
from fedbandits.channel import Gaussian, through
from fedbandits.channel.scheduled import Scheduled
from fedbandits.contract.algorithm import posed_by
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Answers, Norms, Perturbation, Range
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.privacy import audit, gaussian_mu, gaussian_ratio
from fedbandits.testing.suite import PROMISES, Check

CUT, DIM = 0.5, 2
ALGORITHM = fb.algorithms.NeuralLinear(width=3, steps=5, cut=CUT)
FIRST = np.zeros(1, dtype=np.int64)


def problem_of(agents: int = 1, horizon: int = 12) -> Problem:
    return Problem(agents=agents, dim=DIM, arms=1, horizon=horizon).knowing(Norms(1.0, 1.5), Range(-1.0, 3.0))


def stage_of(**chosen) -> Gaussian:
    return Gaussian(**({"epsilon": 2.0, "uploads": 3, "first": 2, "last": 1.0, "queries": 6, "share": 0.6} | chosen))


def posed(stage: Gaussian, problem: Problem) -> Problem:
    return stage.poses(posed_by(ALGORITHM, problem))


def agents_of(stage: Gaussian, problem: Problem, n: int = 1, seed: int = 0):
    return through(ALGORITHM, [stage]).agents(problem, n, Streams(np.random.SeedSequence(seed), n))


def observe(agents, x, y) -> None:
    n = len(agents)
    who, picks = np.arange(n), np.zeros(n, dtype=np.int64)
    agents.learn(who, np.tile(np.asarray(x, dtype=float), (n, 1, 1)), picks, np.full(n, float(y)))


def question(kind: str, n: int) -> Message:
    """In an update: at a network whose last layer does nothing, so that a reward's sign is its gradient's."""
    q = ALGORITHM.width + 1
    inner = np.linspace(-1, 1, ALGORITHM.width * (DIM + 1))
    arrays = {"inner": inner, "head": np.zeros(q), "mean": 1.0, "deviation": 2.0}
    wanted = {"open": (), "slope": ("inner", "head", "mean", "deviation"), "layer": ("inner", "mean", "deviation")}
    return Message(
        kind, np.arange(n), {name: np.tile(arrays[name], (n, *[1] * np.ndim(arrays[name]))) for name in wanted[kind]}
    )


def update(agents) -> list[Message | None]:
    n = len(agents)
    return [agents.answer(question(kind, n)) for kind in ("open", "slope", "slope", "layer")]


class TestBudget:
    @pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
    def test_all_that_leaves_an_agent_is_one_gaussian_mechanism(self, adjacency):
        """Noise as it is, held against sensitivities that are worked out here, composed by somebody else."""
        stage, problem = stage_of(adjacency=adjacency), problem_of()
        end = agents_of(stage, problem).ends.stage0
        slope, statistics = (2.0, 2.0) if adjacency == "replace" else (1.0, math.sqrt(1.5))
        event = dp_accounting.ComposedDpEvent(
            [
                dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(end._deviations[0] / slope), 6),
                dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(end._deviations[1] / statistics), 3),
            ]
        )
        for one in (event, stage.event(posed(stage, problem))):
            assert PLDAccountant().compose(one).get_epsilon(1e-5) == pytest.approx(2.0, rel=2e-3)
        spent_on_slopes = 6 * (slope / end._deviations[0]) ** 2
        assert spent_on_slopes == pytest.approx(0.6 * gaussian_mu(2.0, 1e-5) ** 2)

    def test_what_is_spent_adds_up_to_the_budget_and_then_agents_are_left_out(self):
        agents, spent = agents_of(stage_of(), problem_of()), [0.0]
        assert agents.spent() == 0.0
        for _ in range(3):
            observe(agents, [1.0, 0.0], 1.0)
            observe(agents, [0.0, 1.0], 2.0)
            for reply in update(agents):
                assert reply is not None
                spent.append(float(agents.spent()[0]))
        assert np.all(np.diff(spent) >= 0)
        assert np.diff(spent).min() == 0.0, "how many observations there are is not protected"
        assert spent[-1] == pytest.approx(2.0, abs=1e-9)
        assert (agents.protection().releases[0], agents.protection().allowed) == (9, 9)
        assert update(agents) == [None, None, None, None]
        assert not agents.calling().any()
        assert agents.spent()[0] == spent[-1]

    def test_one_that_cannot_see_an_update_through_does_not_begin_it(self):
        """One more question than it was made for, in one update, is one too few in the last."""
        agents = agents_of(stage_of(), problem_of())
        observe(agents, [1.0, 0.0], 1.0)
        observe(agents, [0.0, 1.0], 2.0)
        update(agents)
        assert agents.answer(question("slope", 1)) is not None
        assert update(agents)[0] is not None
        assert update(agents)[0] is None
        assert agents.spent()[0] <= 2.0

    def test_acting_on_own_data_is_said_to_be_unprotected(self):
        agents = agents_of(stage_of(own="recent"), problem_of())
        observe(agents, [1.0, 0.0], 1.0)
        observe(agents, [0.0, 1.0], 1.0)
        update(agents)
        assert np.isinf(agents.spent()).all()
        assert 0 < agents.protection().spent[0] < 2.0


class TestNoise:
    def test_it_is_as_much_as_is_said_and_fresh_for_every_answer(self):
        stage, n = stage_of(), 3000
        problem = problem_of(agents=n)
        end = agents_of(stage, problem, n).ends.stage0
        p, q = ALGORITHM.network(problem).parameters, ALGORITHM.width + 1
        known = posed(stage, problem)
        slope, sums = known.get(Answers), known.get(Perturbation)
        assert slope.rounds == 2
        clean = Message("slope", np.arange(n), {"gradient": np.ones((n, p)), "count": np.full(n, 2.0)})
        first, second = (end.outgoing(clean).arrays["gradient"] - 1 for _ in range(2))
        for noise in (first, second):
            np.testing.assert_allclose(noise.std(axis=0) * math.sqrt(n), slope.slope, rtol=0.08)
            assert np.abs(noise.mean(axis=0)).max() < 5 * slope.slope / n
        assert abs(np.corrcoef(first[:, 0], second[:, 0])[0, 1]) < 0.1
        layer = {"gram": np.zeros((n, q, q)), "moment": np.zeros((n, q)), "count": np.full(n, 2.0)}
        said = end.outgoing(Message("layer", np.arange(n), layer)).arrays
        np.testing.assert_allclose(said["gram"][:, 1, 0].std() * math.sqrt(n), sums.matrix, rtol=0.08)
        np.testing.assert_allclose(said["gram"][:, 1, 1].std() * math.sqrt(n), sums.matrix * math.sqrt(2), rtol=0.08)
        np.testing.assert_allclose(said["moment"].std() * math.sqrt(n), sums.vector, rtol=0.08)
        np.testing.assert_array_equal(said["gram"], said["gram"].transpose(0, 2, 1))
        assert said["count"].tolist() == [2.0] * n
        assert len(np.unique(first[:, 0])) == n

    @pytest.mark.parametrize(("doubled", "exceeded"), [(False, False), (True, True)])
    def test_an_audit_finds_what_is_claimed_and_no_more(self, doubled, exceeded):
        """Two histories that differ in one reward by as much as they may: what an attacker who knows everything else
        can tell is nearly all of the budget. Where noise is half of what it should be, the audit says so.
        """
        stage = stage_of(epsilon=1.0, delta=0.05, adjacency="replace", uploads=2, queries=2, share=0.5)
        problem, runs = problem_of(horizon=6), 12_000
        ratios = []
        clean = [_answers(stage, problem, [first, 0.4]) for first in (3.0, -1.0)]
        for place in range(2):
            end = agents_of(stage, problem, runs, seed=7 + place).ends.stage0
            if doubled:
                end._deviations = tuple(one / 2 for one in end._deviations)
            outputs = []
            for message in clean[place]:
                rows = {name: np.repeat(array, runs, axis=0) for name, array in message.arrays.items()}
                outputs.append(_seen(stage, problem, end.outgoing(Message(message.kind, np.arange(runs), rows))))
            means = [np.concatenate([_seen(stage, problem, one) for one in said], axis=1) for said in clean]
            ratios.append(gaussian_ratio(np.concatenate(outputs, axis=1), *means, np.array(1.0))[:, None])
        found = audit(*ratios, delta=0.05).epsilon
        assert found > 0.5
        assert (found > 1.0) == exceeded


def _answers(stage: Gaussian, problem: Problem, rewards: list[float]) -> list[Message]:
    """What an agent would answer in two updates if there were no noise."""
    agents = agents_of(stage, problem)
    observe(agents, [1.0, 0.5], rewards[0])
    observe(agents, [0.2, -0.5], rewards[1])
    agents.inner.answer(question("open", 1))
    said = [agents.inner.answer(question(kind, 1)) for kind in ("slope", "layer") * 2]
    assert all(message is not None for message in said)
    return said  # type: ignore[return-value]


def _seen(stage: Gaussian, problem: Problem, message: Message) -> np.ndarray:
    """(w, k) the independent numbers of a message, in units of their noise."""
    slope, statistics = agents_of(stage, problem).ends.stage0._deviations
    if message.kind == "slope":
        return message.arrays["gradient"] / (slope * CUT)
    rows, columns = np.tril_indices(ALGORITHM.width + 1)
    entries = message.arrays["gram"][:, rows, columns] / np.where(rows == columns, math.sqrt(2), 1.0)
    return np.concatenate([entries / CUT**2, message.arrays["moment"] / CUT], axis=1) / statistics


class TestWhoIsServed:
    @pytest.mark.parametrize(
        ("algorithm", "chosen", "why"),
        [
            (fb.algorithms.NeuralLinear(), {}, "'rewards' of neural-linear is a total.*cut"),
            (fb.algorithms.NeuralLinear(training="averaged"), {}, "neural-linear"),
            (ALGORITHM, {"unit": "person"}, "can protect an 'observation'"),
            (ALGORITHM, {"unit": "agent"}, "can protect an 'observation'"),
            (ALGORITHM, {"own": "fused"}, "which is no sum"),
            (ALGORITHM, {"constants": "thesis", "mechanism": "tree"}, "no constants for neural-linear"),
        ],
    )
    def test_others_are_refused_and_told_why(self, algorithm, chosen, why):
        with pytest.raises(ConfigError, match=why):
            through(algorithm, [Gaussian(rewards=1.0, **chosen)])

    def test_networks_that_are_averaged_are_not_cut_down(self):
        with pytest.raises(ConfigError, match="cut: networks"):
            fb.algorithms.NeuralLinear(cut=1.0, training="averaged")

    def test_too_few_questions_are_refused(self):
        with pytest.raises(ConfigError, match="queries=2 are too few"):
            posed(stage_of(queries=2), problem_of())

    def test_rewards_have_to_be_known_to_be_bounded(self):
        with pytest.raises(ConfigError, match="range"):
            ALGORITHM.agents(Problem(agents=1, dim=2, arms=2, horizon=5), 1, Streams(np.random.SeedSequence(0), 1))


OFTEN = ("two worlds", "resumable", "calls", "bad input")
EXCUSED = {"adds": "every answer costs, asked again or not", "environment": "tried once for each environment"}


@pytest.mark.parametrize(
    "check",
    [pytest.param(one, marks=() if one in OFTEN else pytest.mark.slow) for one in PROMISES if one not in EXCUSED],
)
def test_the_pair_keeps_the_promises(check):
    one = subject("neural-linear")
    algorithm = through(dataclasses.replace(one.algorithm, cut=2.0), [Gaussian(rewards=1.0)])
    Check(check, dataclasses.replace(one, algorithm=algorithm, horizon=20 if check in OFTEN else one.horizon))()


def test_without_noise_answers_are_as_they_were():
    agents = agents_of(stage_of(), problem_of())
    agents.ends.stage0._deviations = (0.0, 0.0)
    observe(agents, [1.0, 0.0], 1.0)
    observe(agents, [0.0, 1.0], 2.0)
    for kind in ("open", "slope", "layer"):
        said, plain = agents.answer(question(kind, 1)), agents.inner.answer(question(kind, 1))
        assert {name: array.tobytes() for name, array in said.arrays.items()} == {
            name: array.tobytes() for name, array in plain.arrays.items()
        }


def test_the_twin_without_noise_trains_at_the_same_turns():
    problem = fb.environments.Cosine(clients=3, dim=4, arms=4)
    algorithm, stage = fb.algorithms.NeuralLinear(width=4, steps=2, cut=2.0), Gaussian(rewards=2.0, uploads=4, first=5)
    noisy, plain = (
        fb.simulate(through(dataclasses.replace(algorithm, cut=cut), [one]), problem, 60, seed=0).syncs
        for cut, one in ((2.0, stage), (None, Scheduled(stage)))
    )
    np.testing.assert_array_equal(noisy, plain)
    assert noisy[-1] == 4


def test_a_federation_trains_as_often_as_the_schedule_says_and_learns():
    """With a budget that leaves little noise, agents that act on what was released alone do better than at random."""
    problem = fb.environments.Cosine(clients=5, dim=5, arms=4)
    algorithm = fb.algorithms.NeuralLinear(width=10, cut=2.0)
    stage = Gaussian(epsilon=1000.0, rewards=2.0, uploads=6, first=10, queries=60, share=0.5)
    trace = fb.simulate(through(algorithm, [stage]), problem, 400, seed=0)
    assert trace.syncs[-1] == 6
    assert trace.regret[-1] < 0.8 * fb.simulate(fb.algorithms.Random(), problem, 400, seed=0).regret[-1]
    assert trace.epsilon[-1] == pytest.approx(1000.0, rel=1e-6)
