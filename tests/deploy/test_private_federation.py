"""Noise as a stage in a deployed federation: as in a simulation, within its bounds, and never beyond its budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flower_worlds import Deployed, Simulated, assert_alike

pytest.importorskip("cryptography", reason="needs the extra 'deploy'")

import fedbandits as fb
from fedbandits.channel import Gaussian, Quantise, Through
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.wire import Wire
from fedbandits.deploy.embedded import replica
from fedbandits.deploy.flower.conversation.expelling import StandIns
from fedbandits.deploy.flower.operating import membership
from fedbandits.deploy.flower.operating.influence import influences
from fedbandits.deploy.flower.post import Answer, Letter
from fedbandits.deploy.flower.trust.inspection import Inspector, RejectedError
from fedbandits.deploy.flower.trust.past import Past
from fedbandits.deploy.settings import Settings

ALONE = np.zeros(1, dtype=np.int64)
ENV = fb.environments.LinearBounded(clients=4, dim=3, arms=5)
HORIZON = 24
FEW = Gaussian(epsilon=5.0, uploads=4, first=2, last=0.75)


def private(stage: Gaussian = FEW, **parameters: Any) -> Algorithm:
    return Through(fb.algorithms.DisLinUCB(**({"threshold": 0.5} | parameters)), (stage,))


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents draw their noise as a simulation does, from the seed."""

    def population(settings: Settings) -> tuple[Population, None]:
        return settings.population(), None

    monkeypatch.setattr(replica, "population_with_secret", population)


def lived(deployed: Deployed, steps: int = HORIZON) -> Deployed:
    for step in range(steps):
        deployed.live(step)
        deployed.coordinator.step()
    return deployed


def budgets(deployed: Deployed) -> list[Any]:
    return [agent.status().budget for agent in deployed.agents]


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    "algorithm",
    [
        private(),
        private(Gaussian(epsilon=5.0, every=4, own="fused")),
        private(Gaussian(epsilon=5.0, every=4, clip="learned", mechanism="fresh")),
        Through(fb.algorithms.DisLinUCB(), (FEW, Quantise(bits=16))),
        Through(fb.algorithms.AsyncLinUCB(), (Gaussian(epsilon=5.0, every=3, mechanism="tree"),)),
        pytest.param(
            private(Gaussian(epsilon=5.0, uploads=6, when="algorithm", leaky=True, own="recent")),
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda algorithm: "|".join(f"{stage}" for stage in algorithm.stages)[:60],
)
def test_given_the_same_draws_a_deployed_federation_is_that_of_the_simulation(algorithm, tmp_path):
    deployed = Deployed(tmp_path, algorithm, ENV, HORIZON)
    simulated = Simulated(deployed)
    assert_alike(deployed, simulated, HORIZON)
    assert deployed.book.rejections() == []
    assert deployed.coordinator.ledger.conversations > 1
    for agent, here in zip(deployed.agents, simulated.states(), strict=True):
        there = agent.state()
        assert here.keys() - there.keys() == {name for name in here if name.endswith("steps.drawn")}
        for name, array in there.items():
            np.testing.assert_allclose(array, here[name], rtol=1e-9, atol=1e-9, err_msg=name)
    assert all(budget.releases > 0 for budget in budgets(deployed))


# what the server lets in


def forging(deployed: Deployed, change: Any, whom: int = 0) -> None:
    """From now on what agent `whom` hands over arrives as `change` makes it."""
    wire = deployed.settings.wire

    def forged(who: int, letter: Any, answer: Answer) -> Answer:
        if who != whom or answer.content is None:
            return answer
        kind, held = Wire.decode(answer.content)
        changed = change({name: value[None] for name, value in held.items()})
        return Answer(wire.encode(Message(kind, ALONE, changed), 0, "up"), letters=answer.letters)

    deployed.post.forged = forged


def honest(arrays: Any) -> Any:
    return arrays


@pytest.mark.parametrize(
    ("algorithm", "mechanism", "clip"),
    [
        ("dislinucb", "toeplitz", "declared"),
        ("fclub-dc", "tree", "declared"),
        ("dislinucb", "fresh", "learned"),
        pytest.param("dislinucb", "fresh", "declared", marks=pytest.mark.slow),
        pytest.param("async-linucb", "toeplitz", "declared", marks=pytest.mark.slow),
    ],
)
def test_honest_uploads_are_let_in_however_much_noise_they_carry(algorithm, mechanism, clip, tmp_path):
    """Noise of hundreds of times what is observed; also of servers that look at single agents."""
    inner = fb.algorithms.ALGORITHMS[algorithm]()
    stage = Gaussian(epsilon=0.05, every=3, mechanism=mechanism, clip=clip)
    deployed = lived(Deployed(tmp_path, Through(inner, (stage,)), ENV, HORIZON))
    assert deployed.book.rejections() == []
    assert {budget.releases for budget in budgets(deployed)} == {HORIZON // 3}


@pytest.mark.parametrize("allowed", [HORIZON, 10 * HORIZON, 10**7])
def test_agents_that_outlive_their_horizon_are_let_in(allowed, tmp_path):
    """How many observations an agent can have made has no say in how much noise its schedule meant."""
    deployed = Deployed(tmp_path, private(Gaussian(epsilon=0.5, every=1)), ENV, HORIZON)
    inspector = Inspector(deployed.settings.algorithm, deployed.settings.problem, deployed.settings.wire)
    letter = deployed.settings.wire.encode(Message("collect", ALONE), 0, "down")
    deployed.live(0)
    reply = deployed.agents[0].answer(letter, "c", 0)
    inspector.read(reply, letter, Past(allowed))
    worse = {name: 1e4 * allowed * value[None] for name, value in Wire.decode(reply)[1].items()}
    with pytest.raises(RejectedError, match="honest observations reach"):
        inspector.read(deployed.settings.wire.encode(Message("fresh", ALONE, worse), 0, "up"), letter, Past(allowed))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda arrays: arrays | {"gram": arrays["gram"] + 1e6 * np.eye(3)}, "the norm of 'gram' is"),
        (lambda arrays: arrays | {"moment": arrays["moment"] - 1e6}, "the norm of 'moment' is"),
        pytest.param(
            lambda arrays: arrays | {"gram": arrays["gram"] + np.tri(3)},
            "'gram' is not symmetric",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_absurd_uploads_are_refused_and_what_was_released_is_sent_again_as_it_is(change, told, tmp_path):
    deployed = Deployed(tmp_path, private(), ENV, HORIZON)
    forging(deployed, change)
    lived(deployed, 6)
    assert told in deployed.book.rejections()[0].why
    assert "fresh.gram" not in deployed.book.contributions.of(0).sums
    forging(deployed, lambda arrays: arrays)
    for step in range(6, HORIZON):
        deployed.live(step)
        deployed.coordinator.step()
    assert budgets(deployed)[0] == budgets(deployed)[1], "it has cost nothing"
    assert budgets(deployed)[0].releases == 4
    assert_pooled(deployed)


def assert_pooled(deployed: Deployed) -> None:
    """What the server has of each agent is what that has released: nothing less, nothing twice."""
    for identity, agent in enumerate(deployed.agents):
        state, taken_in = agent.state(), deployed.book.contributions.of(identity).sums
        for name in ("gram", "moment"):
            sent, owed = (state[f"ends.stage0.{kept}.fresh-{name}"][0] for kept in ("sent", "owed"))
            np.testing.assert_allclose(taken_in[f"fresh.{name}"], sent, rtol=1e-9, atol=1e-9)
            assert not owed.any()
    pool = deployed.coordinator.server.inner.pool.gram[0]
    total = sum(deployed.book.contributions.of(who).sums["fresh.gram"] for who in range(len(deployed.agents)))
    np.testing.assert_allclose(pool, total, rtol=1e-9, atol=1e-9)


def test_a_liar_cannot_claim_the_bound_again_and_again(tmp_path):
    """What is let in of one agent is bounded in all, not only each time."""
    deployed = Deployed(tmp_path, private(Gaussian(epsilon=5.0, every=2)), ENV, HORIZON)
    deployed.coordinator._carrier._pasts._pace = 0.0  # the horizon is all that it can have observed
    forging(deployed, lambda arrays: arrays | {"gram": arrays["gram"] * 0 + 30 * np.eye(3)})
    lived(deployed)
    assert "'gram' so far" in deployed.book.rejections()[-1].why
    assert np.trace(deployed.book.contributions.of(0).sums["fresh.gram"]) < 250, "of 1080 that were claimed"


@pytest.mark.parametrize("lost", [0.4, pytest.param(0.7, marks=pytest.mark.slow)])
def test_answers_that_get_lost_cost_nothing(lost, tmp_path):
    """Asked again, an agent gives the same answer: noise is drawn once for each release, and all of them arrive."""
    deployed = Deployed(tmp_path, private(Gaussian(epsilon=5.0, every=3)), ENV, HORIZON)
    rng = np.random.default_rng(0)
    deployed.post.fate = lambda who, letter: "unanswered" if rng.random() < lost else "delivered"
    lived(deployed)
    deployed.post.fate = lambda who, letter: "delivered"
    for _ in range(3):
        deployed.coordinator.step()
    answers: dict[Any, set[bytes | None]] = {}
    for who, letter, answer in deployed.post.carried:
        answers.setdefault((who, letter.conversation, letter.turn), set()).add(answer.content)
    assert max(map(len, answers.values())) == 1
    assert len(deployed.post.carried) > len(answers), "some were asked again"
    assert {budget.releases for budget in budgets(deployed)} == {HORIZON // 3}
    assert_pooled(deployed)


# members who do harm


def test_an_expelled_agent_is_taken_out_of_the_pool_with_its_noise(tmp_path):
    deployed = lived(Deployed(tmp_path, private(), ENV, HORIZON), 12)
    (tmp_path / "federation.json").write_text(deployed.settings.text())
    assert "takes it out of the pool" in membership.expel(tmp_path, 0)
    deployed.coordinator.step()
    rest = sum(deployed.book.contributions.of(who).sums["fresh.gram"] for who in (1, 2, 3))
    np.testing.assert_allclose(deployed.coordinator.server.inner.pool.gram[0], rest, rtol=1e-9, atol=1e-6)
    told = {one.agent: one for one in influences(deployed.book, deployed.settings)}
    assert told[0].standing == "removed"
    assert all(one.distance is None for one in told.values()), "noise has no distance from the others"
    assert sum(one.share or 0.0 for one in told.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("when", ["geometric", "algorithm"])
def test_who_stands_in_for_an_expelled_agent_adds_no_noise(when, tmp_path):
    """Its noise would protect nobody, and with every conversation the pool would get more of the same."""
    stage = Gaussian(epsilon=0.1, uploads=6, when=when, leaky=when == "algorithm", first=2, last=0.75)
    deployed = Deployed(tmp_path, private(stage), ENV, HORIZON)
    (tmp_path / "federation.json").write_text(deployed.settings.text())
    membership.expel(tmp_path, 0)
    lived(deployed)
    assert not any(array.any() for array in deployed.book.contributions.of(0).sums.values())
    rest = sum(deployed.book.contributions.of(who).sums["fresh.gram"] for who in (1, 2, 3))
    np.testing.assert_allclose(deployed.coordinator.server.inner.pool.gram[0], rest, rtol=1e-9, atol=1e-9)


def test_an_expelled_agent_is_taken_out_where_gradients_are_asked_for(tmp_path):
    """Who stands in for it answers as one that has seen nothing: no noise, and no gradient."""
    environment = fb.environments.Logistic(clients=3, dim=3, arms=4)
    algorithm = Through(fb.algorithms.FedGLBUCB(), (Gaussian(epsilon=5.0, every=4),))
    deployed = lived(Deployed(tmp_path, algorithm, environment, HORIZON), 8)
    (tmp_path / "federation.json").write_text(deployed.settings.text())
    before = deployed.book.contributions.of(0).sums
    membership.expel(tmp_path, 0)
    for step in range(8, HORIZON):
        deployed.live(step)
        deployed.coordinator.step()
    stand_in = StandIns(deployed.post, deployed.settings, deployed.book.expelled, deployed.book.contributions)
    asked = deployed.settings.wire.encode(Message("gradient", ALONE, {"theta": np.zeros((1, 3))}), 0, "down")
    answer = stand_in.ask({0: Letter("c", 0, asked)}, 0.0)[0]
    assert not any(array.any() for array in Wire.decode(answer.content)[1].values())
    assert any(array.any() for array in before.values())
    assert all(np.abs(array).max() < 1e-9 for array in deployed.book.contributions.of(0).sums.values())
    assert deployed.book.rejections() == []


@pytest.mark.usefixtures("seeded")
def test_gradients_with_noise_are_those_of_the_simulation(tmp_path):
    environment = fb.environments.Logistic(clients=3, dim=3, arms=4)
    algorithm = Through(fb.algorithms.FedGLBUCB(), (Gaussian(epsilon=5.0, every=4),))
    deployed = Deployed(tmp_path, algorithm, environment, HORIZON)
    assert_alike(deployed, Simulated(deployed), HORIZON)
    assert deployed.book.rejections() == []
    assert {budget.releases for budget in budgets(deployed)} == {18}, "six uploads, twelve answers"


def test_an_agent_that_has_used_up_its_answers_declines_and_is_not_blamed(tmp_path, caplog):
    """Somebody has asked agent 0 as often as it answers; the others have their budgets still."""
    environment = fb.environments.Logistic(clients=3, dim=3, arms=4)
    deployed = Deployed(
        tmp_path, Through(fb.algorithms.FedGLBUCB(), (Gaussian(epsilon=5.0, every=4),)), environment, HORIZON
    )
    question = deployed.settings.wire.encode(Message("gradient", ALONE, {"theta": np.zeros((1, 3))}), 0, "down")
    answers = [deployed.agents[0].answer(question, f"somebody's {number}", 0) for number in range(13)]
    assert [answer is None for answer in answers] == [False] * 12 + [True]
    with caplog.at_level("INFO", logger="fedbandits.deploy"):
        lived(deployed, 8)
    declined = [record for record in caplog.records if "agent 0 declines turn" in record.getMessage()]
    assert declined
    assert all("its budget of privacy allows no more answers" in record.getMessage() for record in declined)
    assert {record.levelname for record in declined} == {"INFO"}
    assert deployed.book.rejections() == []
    assert [budget.releases > 0 for budget in budgets(deployed)] == [True] * 3


def test_who_has_no_budget_cannot_decline(tmp_path):
    deployed = Deployed(
        tmp_path, fb.algorithms.FedGLBUCB(threshold=0.5), fb.environments.Logistic(clients=3, dim=3, arms=4), HORIZON
    )
    deployed.post.forged = lambda who, letter, answer: Answer(letters=answer.letters) if who == 0 else answer
    lived(deployed, 8)
    assert {(found.identity, found.why) for found in deployed.book.rejections()} == {
        (0, "a question was answered with nothing")
    }


# features of a kernel


GP = fb.algorithms.FedGPUCB(error=0.5, epsilon=5.0, uploads=4)
SMOOTH = fb.environments.RKHSMixture(clients=3, arms=5)


@pytest.mark.usefixtures("seeded")
def test_sums_of_features_with_noise_are_those_of_the_simulation(tmp_path):
    deployed = Deployed(tmp_path, GP, SMOOTH, HORIZON)
    assert_alike(deployed, Simulated(deployed), HORIZON)
    assert deployed.coordinator.ledger.conversations > 1
    assert deployed.book.rejections() == []
    assert {budget.releases for budget in budgets(deployed)} == {4}


def test_agents_of_smooth_functions_draw_noise_of_their_own_and_keep_to_their_budget(tmp_path):
    deployed = lived(Deployed(tmp_path, GP, SMOOTH, 2 * HORIZON), 2 * HORIZON)
    assert deployed.book.rejections() == []
    for budget in budgets(deployed):
        assert (budget.releases, budget.allowed) == (4, 4)
        assert budget.spent == budget.strictly == pytest.approx(5.0, abs=1e-6)
    matrix = next(name for name in deployed.agents[0].state() if name.endswith("sent.fresh-gram"))
    sent = np.stack([agent.state()[matrix][0] for agent in deployed.agents])
    clean = np.stack([agent.state()[matrix.replace("sent", "own")][0] for agent in deployed.agents])
    noise = sent - clean
    assert all(np.abs(noise[i] - noise[j]).max() > 1.0 for i in range(3) for j in range(i)), "each its own"
    pool = sum(deployed.book.contributions.of(identity).sums["fresh.gram"] for identity in range(3))
    np.testing.assert_allclose(pool, sent.sum(axis=0), rtol=1e-9, atol=1e-9)


def test_where_a_server_looks_at_single_agents_what_was_expelled_stays(tmp_path):
    algorithm = Through(fb.algorithms.FCLUBDC(), (Gaussian(every=4),))
    deployed = lived(Deployed(tmp_path, algorithm, ENV, HORIZON), 8)
    (tmp_path / "federation.json").write_text(deployed.settings.text())
    assert "stays in what fclub-dc|gaussian knows" in membership.expel(tmp_path, 0)
