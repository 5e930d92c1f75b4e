"""The federation's own logic, with a post that goes by calls and loses what it is told to lose."""

from __future__ import annotations

import numpy as np
import pytest
from deployed_algorithms import STAR, home, talkative, typical
from flower_worlds import Deployed, Simulated, assert_alike, assert_same, open_agent

import fedbandits as fb
from fedbandits.contract.wire import Wire, hand_overs
from fedbandits.deploy.flower.conversation.desk import Desk
from fedbandits.deploy.flower.post import Letter
from fedbandits.deploy.flower.trust.expected_answers import Newcomer

HORIZON = 24
LINEAR = fb.environments.Linear(clients=3, dim=3, arms=5)
DISLINUCB = fb.algorithms.DisLinUCB(threshold=0.5)
DEPLOYABLE = [name for name in STAR if name != "oracle-clusters"]
"""An oracle's agents would have to be told the truth."""


class KilledError(Exception):
    """The server's end."""


@pytest.fixture
def federation(tmp_path):
    return Deployed(tmp_path, DISLINUCB, LINEAR, 60)


@pytest.mark.parametrize("name", typical(DEPLOYABLE))
def test_equals_the_simulation(name, tmp_path):
    deployed = Deployed(tmp_path, talkative(name), home(name, clients=3), HORIZON)
    simulated = Simulated(deployed)
    assert_alike(deployed, simulated, HORIZON)
    assert_same(deployed.states(), simulated.states())
    ledger = deployed.coordinator.ledger
    assert ledger.conversations == simulated.ledger.conversations > 0
    assert deployed.post.bytes_seen == ledger.up.bytes + ledger.down.bytes > 0
    assert deployed.book.rejections() == []


@pytest.mark.parametrize("name", typical(DEPLOYABLE))
def test_a_newcomer_knows_questions_from_instructions(name, tmp_path):
    deployed = Deployed(tmp_path, talkative(name), home(name, clients=3), HORIZON)
    for step in range(HORIZON):
        deployed.live(step)
        deployed.coordinator.step()
    newcomer = Newcomer(deployed.settings.algorithm, deployed.settings.problem, deployed.settings.wire)
    kinds = set()
    for _, letter, answer in deployed.post.carried:
        form = newcomer.form(letter.content)
        assert (form is None) == (answer.content is None)
        if form is not None:
            kind, arrays = Wire.decode(answer.content)
            assert (form.kind, form.fields) == (kind, arrays.keys())
            kinds.add(kind)
    handed = hand_overs(deployed.settings.algorithm.about.says)
    assert kinds & handed if handed else kinds


@pytest.mark.parametrize("name", ["dislinucb", "async-linucb", "hetofedbandit", "fedglb-ucb", "hetofedbandit-e"])
def test_a_post_that_loses_a_third_of_everything_changes_nothing_if_the_server_is_patient(name, tmp_path):
    """Letters that are sent again are harmless: with enough patience the run is the simulation's."""
    deployed = Deployed(tmp_path, talkative(name), home(name, clients=3), HORIZON)
    simulated = Simulated(deployed)
    rng = np.random.default_rng(0)
    deployed.post.fate = lambda who, letter: ("lost", "unanswered", "delivered", "delivered")[rng.integers(4)]
    deployed.coordinator._carrier._limit = None
    assert_alike(deployed, simulated, HORIZON)
    assert_same(deployed.states(), simulated.states())
    assert deployed.coordinator._carrier.resent > 0


@pytest.mark.parametrize("name", typical(DEPLOYABLE))
def test_a_server_killed_at_any_letter_goes_on_as_if_nothing_had_happened(name, tmp_path):
    deployed = Deployed(tmp_path, talkative(name), home(name, clients=3), HORIZON)
    simulated = Simulated(deployed)
    rng = np.random.default_rng(1)

    def killing(who, letter):
        if rng.random() < 0.04:
            raise KilledError
        return "delivered"

    killed = 0
    deployed.post.fate = killing
    for step in range(HORIZON):
        assert deployed.live(step).tolist() == simulated.live(step).tolist()
        simulated.converse()
        done = False
        while not done:
            try:
                deployed.coordinator.step()
                done = True
            except KilledError:
                killed += 1
                deployed.restart()
        np.testing.assert_array_equal(deployed.coordinator.ledger.counts, simulated.ledger.counts)
    assert killed > 0
    assert_same(deployed.states(), simulated.states())


def observations(federation):
    """All observations of everybody, as gram matrix and moment."""
    gram = np.zeros((3, 3))
    moment = np.zeros(3)
    for agent in federation.agents:
        for _, arms, pick, reward in federation.told[agent.settings.identity]:
            gram += np.outer(arms[pick], arms[pick])
            moment += reward * arms[pick]
    return gram, moment


def live_and_note(federation, step):
    """As `live`, but remember every observation."""
    if not hasattr(federation, "told"):
        federation.told = {agent.settings.identity: [] for agent in federation.agents}
    turn = federation.world.turn(step)
    picks = federation.live(step)
    rewards = federation.world.pay(step, picks).rewards
    for who, arms, pick, reward in zip(turn.who, turn.arms, picks, rewards, strict=True):
        federation.told[int(who)].append((step, arms, pick, reward))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
@pytest.mark.parametrize("name", ["dislinucb", "async-linucb", "central-linucb"])
def test_nothing_is_lost_or_counted_twice_when_silent_agents_are_left_out(name, seed, tmp_path):
    """An impatient server, letters and answers lost at random, agents away for a while, the server killed now and then:
    once the network is sound again, the server holds exactly everybody's observations.
    """
    federation = Deployed(tmp_path, talkative(name), LINEAR, 60, seed)
    rng = np.random.default_rng(seed)
    federation.post.fate = lambda who, letter: ("lost", "unanswered", "delivered")[rng.integers(3)]
    for step in range(40):
        live_and_note(federation, step)
        federation.post.away = {1} if 10 <= step < 20 else set()
        if rng.random() < 0.2:
            federation.restart()
        federation.coordinator.step()
    federation.post.fate = lambda who, letter: "delivered"
    for step in range(40, 60):
        live_and_note(federation, step)
        federation.coordinator.step()
    gram, moment = observations(federation)
    fresh_gram = sum(agent.state()["models.fresh.gram"][0] for agent in federation.agents)
    fresh_moment = sum(agent.state()["models.fresh.moment"][0] for agent in federation.agents)
    pool = federation.coordinator.server.state()
    np.testing.assert_allclose(pool["pool.gram"][0] + fresh_gram, gram, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(pool["pool.moment"][0] + fresh_moment, moment, rtol=1e-9, atol=1e-9)
    assert federation.book.owed() == {}
    assert federation.book.undelivered() == {}


def test_the_silent_are_left_out_and_the_others_go_on(federation):
    federation.live(0)
    federation.post.fate = lambda who, letter: "lost" if who == 2 else "delivered"
    for step in range(1, 10):
        federation.live(step)
        federation.coordinator.step()
    kinds = [(who, Wire.decode(letter.content)[0]) for who, letter, _ in federation.post.carried]
    assert {"collect", "pool"} == {kind for who, kind in kinds if who == 0}
    assert 2 not in {who for who, _ in kinds}
    assert federation.book.owed().keys() == {2}


def test_what_needs_everybody_waits_for_everybody(tmp_path):
    deployed = Deployed(tmp_path, talkative("fedglb-ucb"), home("fedglb-ucb", clients=3), HORIZON)
    assert deployed.settings.algorithm.about.waits
    deployed.post.away = {1}
    for step in range(12):
        deployed.live(step)
        assert not deployed.coordinator.step()
    assert deployed.post.carried == []
    deployed.post.away = set()
    assert deployed.coordinator.step()


def test_an_agent_that_was_away_gets_what_it_was_told_before_anything_else(federation):
    def fate(who, letter):
        return "lost" if who == 1 and Wire.decode(letter.content)[0] == "pool" else "delivered"

    federation.post.fate = fate
    step = 0
    while not federation.book.undelivered():
        federation.live(step)
        federation.coordinator.step()
        step += 1
    (letter,) = federation.book.undelivered()[1]
    federation.post.fate = lambda who, letter: "delivered"
    federation.post.carried.clear()
    federation.coordinator.step()
    assert federation.post.carried[0][:2] == (1, letter)
    assert federation.book.undelivered() == {}


def test_a_letter_that_is_replayed_gets_the_same_answer_and_changes_nothing(federation):
    for step in range(10):
        federation.live(step)
        federation.coordinator.step()
    before = federation.states()
    replayed = list(federation.post.carried)
    assert replayed
    for who, letter, answer in replayed:
        again = federation.post.desks[who].answer(letter)
        assert (again.content, again.refused) == (answer.content, answer.refused)
    assert_same(federation.states(), before)


def test_another_letter_under_an_old_number_is_refused(federation):
    for step in range(10):
        federation.live(step)
        federation.coordinator.step()
    who, letter, _ = next(item for item in federation.post.carried if item[2].content is None)
    forged = Letter(letter.conversation, letter.turn, letter.content[:-1] + bytes([letter.content[-1] ^ 1]))
    assert "ConflictError" in federation.post.desks[who].answer(forged).refused


def test_new_conversations_of_a_server_restored_from_a_backup_have_new_names(federation):
    for step in range(10):
        federation.live(step)
        federation.coordinator.step()
    first = {letter.conversation for _, letter, _ in federation.post.carried}
    federation.post.carried.clear()
    federation.restart()
    for step in range(10, 20):
        federation.live(step)
        federation.coordinator.step()
    assert first.isdisjoint({letter.conversation for _, letter, _ in federation.post.carried})


@pytest.mark.parametrize("name", typical(DEPLOYABLE))
def test_a_new_agent_can_take_the_place_of_one_that_was_lost(name, tmp_path):
    deployed = Deployed(tmp_path, talkative(name), home(name, clients=3), HORIZON)
    for step in range(HORIZON // 2):
        deployed.live(step)
        deployed.coordinator.step()
    talks = int(deployed.coordinator.ledger.conversations)
    deployed.agents[1].close()
    deployed.agents[1] = open_agent(tmp_path / "new.db", deployed.settings, 1)
    deployed.post.desks[1] = Desk(deployed.agents[1])
    deployed.book.release(1)
    deployed.post.carried.clear()
    for step in range(HORIZON // 2, HORIZON):
        deployed.live(step)
        deployed.coordinator.step()
    assert deployed.coordinator.ledger.conversations > talks > 0
    assert deployed.book.rejections() == []
    assert any(who == 1 for who, _, _ in deployed.post.carried)


@pytest.mark.parametrize("name", ["dislinucb", "async-linucb", "central-linucb"])
def test_nothing_is_counted_twice_when_a_new_agent_takes_the_place_of_one_that_was_lost(name, tmp_path):
    """What the lost agent had not handed over is gone with it; everything else is there once."""
    federation = Deployed(tmp_path, talkative(name), LINEAR, HORIZON)
    for step in range(HORIZON // 2):
        live_and_note(federation, step)
        federation.coordinator.step()
    lost = federation.agents[1].state()["models.fresh.gram"][0]
    federation.agents[1] = open_agent(tmp_path / "new.db", federation.settings, 1)
    federation.post.desks[1] = Desk(federation.agents[1])
    for step in range(HORIZON // 2, HORIZON):
        live_and_note(federation, step)
        federation.coordinator.step()
    gram, _ = observations(federation)
    fresh = sum(agent.state()["models.fresh.gram"][0] for agent in federation.agents)
    pool = federation.coordinator.server.state()["pool.gram"][0]
    np.testing.assert_allclose(pool + fresh + lost, gram, rtol=1e-9, atol=1e-9)
