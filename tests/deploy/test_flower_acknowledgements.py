"""Nothing honest is lost: what a server does not take in is its agent's again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from deployed_algorithms import home, talkative
from flower_worlds import AT_ONCE, Deployed, open_agent
from toy_algorithms import Points

import fedbandits as fb
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire
from fedbandits.deploy import Agent
from fedbandits.deploy.embedded.acknowledgements import Verdict
from fedbandits.deploy.errors import ConflictError, LetterError
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.conversation.desk import Desk, fingerprint
from fedbandits.deploy.flower.post import Answer

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from flower_grids import LocalGrid, at_desk

from fedbandits.deploy.flower import messages
from fedbandits.deploy.flower.conversation import grid
from fedbandits.deploy.flower.conversation.coordinator import Coordinator

LINEAR = fb.environments.Linear(clients=3, dim=3, arms=5)
DISLINUCB = fb.algorithms.DisLinUCB(threshold=0.5)
UNSENT = {
    "dislinucb": "models.fresh.gram",
    "async-linucb": "models.fresh.gram",
    "central-linucb": "models.fresh.gram",
    "fclub-dc": "models.fresh.gram",
    "fedlinucb-async": "fresh.gram",
    "hetofedbandit": "models.fresh.gram",
    "hetofedbandit-e": "aside.gram",
    "hetofedbandit-async": "aside.gram",
    "fedglb-ucb": "models.fresh.gram",
    "fedglb-ucb-1": "fresh.gram",
    "fedglb-ucb-3": "models.fresh.gram",
}
"""Where agents have what they have not handed over: one algorithm for each way of sharing."""
TYPICAL = ("dislinucb", "hetofedbandit-e", "fedglb-ucb")
"""The others are tried in the slow part of the suite."""


class KilledError(Exception):
    """The server's end."""


class Noted(Deployed):
    """A federation in which every observation is noted."""

    def __init__(self, where, algorithm, environment, horizon, seed=0, planned=None):
        self.planned = planned or horizon
        """What the agents take for their horizon."""
        super().__init__(where, algorithm, environment, horizon, seed)
        self.gram = np.zeros((self.settings.dim, self.settings.dim))

    def open(self, identity):
        self.settings = replace(self.settings, horizon=self.planned)
        return super().open(identity)

    def live(self, step):
        turn, picks = self.world.turn(step), super().live(step)
        chosen = turn.arms[np.arange(len(picks)), picks]
        self.gram += np.einsum("wi,wj->ij", chosen, chosen)
        return picks

    def reopen(self, identity):
        """The agent's process was killed; another one takes its place."""
        self.agents[identity] = self.open(identity)
        self.post.desks[identity] = Desk(self.agents[identity])

    def unsent(self, name):
        return sum(agent.state()[UNSENT[name]][0] for agent in self.agents)

    def taken_in(self):
        """What the server has taken in of everybody."""
        held = self.book.contributions.all().values()
        return sum(array for one in held for key, array in one.sums.items() if key.endswith(".gram"))


def spoilt(content):
    """A reply that no server takes in: what it hands over is not finite."""
    kind, arrays = Wire.decode(content)
    name = max(arrays, key=lambda name: arrays[name].size)
    spoiled = {**arrays, name: np.full_like(arrays[name], np.nan)}
    return Wire().encode(
        Message(kind, np.zeros(1, np.int64), {key: held[None] for key, held in spoiled.items()}), 0, "up"
    )


def spoiling(post, wanted):
    """Answers are spoilt on their way where `wanted`."""

    def forged(who, letter, answer):
        return Answer(spoilt(answer.content), letters=answer.letters) if answer.content and wanted(who) else answer

    post.forged = forged


def settle(federation, steps):
    """All is well for a while."""
    federation.post.fate = lambda who, letter: "delivered"
    federation.post.forged = lambda who, letter, answer: answer
    federation.post.away = set()
    for step in steps:
        federation.live(step)
        federation.coordinator.step()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in TYPICAL else pytest.mark.slow) for name in UNSENT]
)
def test_what_is_rejected_is_handed_over_again(name, tmp_path):
    federation = Noted(tmp_path, talkative(name), home(name, clients=3), 24)
    rng = np.random.default_rng(0)
    spoiling(federation.post, lambda who: rng.random() < 0.4)
    federation.coordinator._carrier._limit = 0.05  # also where everybody is needed, nobody is waited for
    for step in range(16):
        federation.live(step)
        federation.coordinator.step()
    assert federation.book.rejections()
    settle(federation, range(16, 24))
    np.testing.assert_allclose(federation.taken_in() + federation.unsent(name), federation.gram, rtol=1e-8)
    if "pool.gram" in (state := federation.coordinator.server.state()):
        np.testing.assert_allclose(state["pool.gram"][0] + federation.unsent(name), federation.gram, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["dislinucb", "async-linucb", "hetofedbandit", "hetofedbandit-e", "fedlinucb-async"])
def test_nothing_is_lost_or_counted_twice_whatever_fails(name, seed, tmp_path):
    """Letters and answers are lost or spoilt, agents are away, agents and the server are killed."""
    federation = Noted(tmp_path, talkative(name), home(name, clients=3), 60, seed)
    rng = np.random.default_rng(seed)

    def fate(who, letter):
        if rng.random() < 0.03:
            raise KilledError
        if rng.random() < 0.1:
            federation.reopen(who)
        return ("lost", "unanswered", "delivered", "delivered")[rng.integers(4)]

    for step in range(40):
        federation.live(step)
        federation.post.fate = fate
        federation.post.away = {1} if 10 <= step < 20 else set()
        spoiling(federation.post, lambda who: rng.random() < 0.2)
        try:
            federation.coordinator.step()
        except KilledError:
            federation.restart()
        if rng.random() < 0.1:
            federation.reopen(int(rng.integers(3)))
    settle(federation, range(40, 60))
    np.testing.assert_allclose(federation.taken_in() + federation.unsent(name), federation.gram, rtol=1e-8)
    assert federation.book.owed() == {}
    assert all(agent.status().unacknowledged <= 1 for agent in federation.agents)


def test_a_horizon_that_agents_outlive_costs_nothing(tmp_path):
    """Horizon 50; one agent is away for 70 decisions, and has more to hand over than the horizon."""
    federation = Noted(tmp_path, fb.algorithms.DisLinUCB(threshold=20.0), LINEAR, 90, planned=50)
    for step in range(90):
        federation.live(step)
        federation.post.away = {1} if 10 <= step < 80 else set()
        federation.coordinator.step()
    np.testing.assert_allclose(federation.taken_in() + federation.unsent("dislinucb"), federation.gram, rtol=1e-8)
    assert np.trace(federation.unsent("dislinucb")) < 0.2 * np.trace(federation.gram)


def test_lists_are_handed_over_again(tmp_path):
    federation = Deployed(tmp_path, Points(every=2), LINEAR, 40)
    rng = np.random.default_rng(1)
    spoiling(federation.post, lambda who: rng.random() < 0.4)
    for step in range(20):
        federation.live(step)
        federation.coordinator.step()
    assert federation.book.rejections()
    federation.post.forged = lambda who, letter, answer: answer
    for step in range(20, 30):
        federation.live(step)
        federation.coordinator.step()
    held = sum(agent.state()["counts"].sum() for agent in federation.agents)
    assert federation.coordinator.server.state()["total"][0] + held == 90


# the agent's side


@pytest.fixture
def agent(tmp_path):
    agent = Agent.open(tmp_path / "agent.db", DISLINUCB, 3, agents=3, durable=False, warm=False)
    observe(agent, 5)
    return agent


COLLECT = Wire().encode(Message("collect", np.zeros(1, np.int64)), 0, "down")


def observe(agent, turns):
    rng = np.random.default_rng(agent.status().decisions)
    for _ in range(turns):
        agent.reward(agent.decide(rng.standard_normal((4, 3))).id, float(rng.standard_normal()))


def moment(reply):
    return Wire.decode(reply)[1]["moment"]


def assert_same_state(agent, state):
    for name, array in agent.state().items():
        np.testing.assert_allclose(array, state[name], rtol=1e-10, atol=1e-12, err_msg=name)


def test_what_was_declined_goes_with_the_next_answer(agent):
    before = agent.state()
    first = agent.answer(COLLECT, "a", 0, ())
    assert agent.status().unacknowledged == 1
    assert agent.unacknowledged() == [("a", 0)]
    again = agent.answer(COLLECT, "b", 0, [Verdict("a", 0, False)])
    np.testing.assert_allclose(moment(again), moment(first), rtol=1e-12)
    assert agent.unacknowledged() == [("b", 0)]
    observe(agent, 3)
    last = agent.answer(COLLECT, "c", 0, [Verdict("b", 0, True)])
    assert not np.allclose(moment(last), moment(first))
    assert agent.unacknowledged() == [("c", 0)]
    total = agent.state()["models.base.gram"]
    assert np.trace(total[0]) > np.trace(before["models.fresh.gram"][0])


def test_triggers_go_on_from_where_they_were(agent):
    level, state = agent.status().level, agent.state()
    agent.answer(COLLECT, "a", 0, ())
    assert agent.status().level == 0
    empty = Wire().encode(
        Message("pool", np.zeros(1, np.int64), {"gram": np.zeros((1, 3, 3)), "moment": np.zeros((1, 3))}), 0, "down"
    )
    agent.answer(empty, "b", 0, [Verdict("a", 0, False)])
    assert agent.status().level == pytest.approx(level)
    assert_same_state(agent, state | {"models.updates": agent.state()["models.updates"]})


@pytest.mark.parametrize("snapshots", [1, 1000])
def test_a_killed_agent_knows_what_it_was_told(agent, tmp_path, snapshots):
    """Opened without having been closed: what was taken back is taken back again, or is part of a snapshot."""
    agent = Agent.open(agent.path, durable=False, warm=False, snapshot_every=snapshots)
    agent.answer(COLLECT, "a", 0, ())
    observe(agent, 2)
    second = agent.answer(COLLECT, "b", 0, [Verdict("a", 0, False)])
    observe(agent, 2)
    agent.answer(COLLECT, "c", 0, [Verdict("b", 0, False)])
    state, status = agent.state(), agent.status()
    with Agent.open(agent.path, durable=False, warm=False) as again:
        assert_same_state(again, state)
        assert again.status() == status
        third = again.answer(COLLECT, "d", 0, [Verdict("c", 0, False)])
        assert not np.allclose(moment(third), moment(second))
    assert status.unacknowledged == 1


def test_a_verdict_is_taken_in_with_its_letter_or_not_at_all(agent, monkeypatch):
    agent.answer(COLLECT, "a", 0, ())
    before = agent.state()
    with pytest.raises(LetterError):
        agent.answer(b"nonsense", "b", 0, [Verdict("a", 0, False)])
    wrong = Wire().encode(
        Message("pool", np.zeros(1, np.int64), {"gram": -9 * np.eye(3)[None], "moment": np.zeros((1, 3))}), 0, "down"
    )
    with pytest.raises(LetterError):
        agent.answer(wrong, "b", 0, [Verdict("a", 0, False)])
    assert_same_state(agent, before)
    monkeypatch.setattr(type(agent._journal), "commit", lambda journal: (_ for _ in ()).throw(KilledError))
    with pytest.raises(KilledError):
        agent.answer(COLLECT, "b", 0, [Verdict("a", 0, False)])
    monkeypatch.undo()
    assert_same_state(agent, before)
    assert agent.unacknowledged() == [("a", 0)]


def test_a_verdict_told_again_changes_nothing(agent):
    agent.answer(COLLECT, "a", 0, ())
    told = [Verdict("a", 0, False)]
    agent.answer(COLLECT, "b", 0, told * 2)
    state = agent.state()
    reply = agent.answer(COLLECT, "c", 0, told)
    assert not moment(reply).any()
    assert_same_state(agent, state)


def test_a_letter_that_comes_again_with_other_verdicts_changes_nothing(agent):
    agent.answer(COLLECT, "a", 0, ())
    reply = agent.answer(COLLECT, "b", 0, ())
    state = agent.state()
    assert agent.answer(COLLECT, "b", 0, [Verdict("a", 0, False)]) == reply
    assert_same_state(agent, state)
    assert agent.unacknowledged() == [("a", 0), ("b", 0)]


@pytest.mark.parametrize("first", [True, False])
def test_a_contradiction_is_refused_with_its_letter(agent, first):
    agent.answer(COLLECT, "a", 0, ())
    with pytest.raises(ConflictError, match="was said to be"):
        agent.answer(COLLECT, "b", 0, [Verdict("a", 0, first), Verdict("a", 0, not first)])
    agent.answer(COLLECT, "b", 0, [Verdict("a", 0, first)])
    state = agent.state()
    with pytest.raises(ConflictError, match="turn 0 of conversation 'a' was"):
        agent.answer(COLLECT, "c", 0, [Verdict("a", 0, not first)])
    assert_same_state(agent, state)
    assert agent.status().letters == 2


def test_verdicts_about_what_was_never_handed_over_mean_nothing(agent):
    told = [Verdict("never", 3, False), Verdict("a", 2**62, True), Verdict("", 0, False)]
    reply = agent.answer(COLLECT, "a", 0, told)
    assert moment(reply).any()
    assert not moment(agent.answer(COLLECT, "b", 0, told)).any()


@pytest.mark.parametrize("verdict", [Verdict("a", -1, True), Verdict("a", 2**64, False), Verdict("\ud800", 0, False)])
def test_verdicts_that_cannot_be_read_are_refused(agent, verdict):
    with pytest.raises(LetterError, match="a verdict"):
        agent.answer(COLLECT, "b", 0, [verdict])
    assert agent.status().letters == 0


def test_a_server_that_never_tells_is_believed(agent):
    agent.answer(COLLECT, "a", 0)
    assert agent.status().unacknowledged == 0
    assert agent.unacknowledged() == []


def test_replies_are_kept_until_their_fate_is_known(agent):
    """Through snapshots, other conversations and forgetting."""
    handed = moment(agent.answer(COLLECT, "a", 0, ()))
    for number in range(5):
        agent.answer(COLLECT, f"b{number}", 0, ())
    agent.forget(before=1e12)
    agent.close()
    with Agent.open(agent.path, durable=False, warm=False) as again:
        assert ("a", 0) in again.unacknowledged()
        told = [Verdict("a", 0, False), *(Verdict(f"b{number}", 0, True) for number in range(5))]
        np.testing.assert_allclose(moment(again.answer(COLLECT, "z", 0, told)), handed, rtol=1e-12)
        assert again.unacknowledged() == [("z", 0)]


# the server's side


def test_a_server_from_a_backup_asks_for_what_it_no_longer_knows(tmp_path, caplog):
    """What was handed over to the book that is lost is handed over to the one that takes its place."""
    federation = Noted(tmp_path, DISLINUCB, LINEAR, 60)
    for step in range(12):
        federation.live(step)
        federation.coordinator.step()
    federation.book.close()
    shutil.copy(tmp_path / "server.db", tmp_path / "backup.db")
    federation.restart()
    spoken = int(federation.coordinator.ledger.conversations)
    step = 12
    while int(federation.coordinator.ledger.conversations) == spoken:
        federation.live(step)
        federation.coordinator.step()
        step += 1
    federation.book.close()
    for ending in ("", "-wal", "-shm"):
        (tmp_path / f"server.db{ending}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", tmp_path / "server.db")
    federation.restart()
    settle(federation, range(step, step + 10))
    np.testing.assert_allclose(federation.taken_in() + federation.unsent("dislinucb"), federation.gram, rtol=1e-8)
    assert "of which this book knows nothing" in caplog.text


def test_an_agent_that_takes_the_place_of_another_is_told_nothing_of_its_answers(tmp_path):
    federation = Noted(tmp_path, DISLINUCB, LINEAR, 60)
    for step in range(10):
        federation.live(step)
        federation.coordinator.step()
    assert 1 in federation.book.verdicts.to_tell([0, 1, 2])
    federation.book.release(1)
    assert 1 not in federation.book.verdicts.to_tell([0, 1, 2])
    federation.agents[1] = open_agent(tmp_path / "new.db", federation.settings, 1)
    federation.post.desks[1] = Desk(federation.agents[1])
    settle(federation, range(10, 20))
    assert federation.book.rejections() == []


def test_verdicts_are_forgotten_when_they_have_arrived(tmp_path):
    federation = Noted(tmp_path, DISLINUCB, LINEAR, 60)
    for step in range(30):
        federation.live(step)
        federation.coordinator.step()
    assert all(len(told) <= 2 for told in federation.book.verdicts.to_tell([0, 1, 2]).values())
    assert max(agent.status().unacknowledged for agent in federation.agents) <= 1


def book_of(tmp_path):
    return Book(tmp_path / "book.db")


def test_a_verdict_lasts_until_its_agent_knows(tmp_path):
    with book_of(tmp_path) as book:
        book.verdicts.begin({1: ("a", 0), 2: ("a", 0)})
        assert book.verdicts.to_tell([1, 2]) == {}
        assert book.acknowledged({1: [("a", 0)], 2: []}) == {}
        book.verdicts.complete()
        book.verdicts.decline({1: ("a", 3)})
        assert book.verdicts.to_tell([1]) == {1: (Verdict("a", 0, True), Verdict("a", 3, False))}
        assert book.acknowledged({1: [("a", 3)], 2: [("a", 0)]}) == {}
        assert book.verdicts.to_tell([1, 2]) == {1: (Verdict("a", 3, False),), 2: (Verdict("a", 0, True),)}
    with book_of(tmp_path) as book:
        assert book.acknowledged({1: [("b", 0)]}) == {1: [("b", 0)]}
        assert book.verdicts.to_tell([1]) == {1: (Verdict("b", 0, False),)}


def test_what_is_expected_or_held_is_not_declined(tmp_path):
    with book_of(tmp_path) as book:
        book.begin("now", [0], [0, 1])
        book.verdicts.hold({0: ("held", 1)})
        assert book.acknowledged({0: [("now", 4), ("held", 1)]}) == {}
        assert book.verdicts.to_tell([0]) == {}
        book.verdicts.decline({0: ("held", 1)})
        assert book.verdicts.to_tell([0]) == {0: (Verdict("held", 1, False),)}


def test_agents_of_an_earlier_version_are_told_the_latest_verdicts(tmp_path):
    """They never say what they know: some are kept for them, not all."""
    with book_of(tmp_path) as book:
        for number in range(150):
            book.verdicts.accept({0: (f"c{number}", 0)})
        book.acknowledged({0: None})
        told = book.verdicts.to_tell([0])[0]
        assert len(told) == 100
        assert told[-1] == Verdict("c149", 0, True)


# on Flower


def over_flower(federation, nodes):
    """The same federation, whose letters are Flower's messages."""
    post = grid.FlowerPost(LocalGrid(nodes), federation.book, 3, fingerprint(federation.settings))
    federation.coordinator = Coordinator(federation.settings, post, federation.book, AT_ONCE)


def spoiling_node(desk, wanted):
    """A node whose answers are spoilt where `wanted`."""

    def answer(message):
        reply = at_desk(desk)(message)
        record = reply.content.config_records[messages.RECORD]
        if "letter" in record and wanted():
            record["letter"] = spoilt(record["letter"])
        return reply

    return answer


def test_verdicts_arrive_over_flower(tmp_path):
    federation = Noted(tmp_path, DISLINUCB, LINEAR, 40)
    spoil = [True]
    desks = federation.post.desks
    over_flower(federation, {0: at_desk(desks[0]), 1: spoiling_node(desks[1], lambda: spoil[0]), 2: at_desk(desks[2])})
    for step in range(10):
        federation.live(step)
        federation.coordinator.step()
    assert federation.book.rejections()
    spoil[0] = False
    for step in range(10, 20):
        federation.live(step)
        federation.coordinator.step()
    np.testing.assert_allclose(federation.taken_in() + federation.unsent("dislinucb"), federation.gram, rtol=1e-8)
    assert federation.agents[1].status().unacknowledged <= 1


def former_node(desk):
    """A node of a version that knows of no verdicts."""

    def answer(message):
        record = message.content.config_records[messages.RECORD]
        record.pop(messages.VERDICTS, None)
        reply = at_desk(desk)(message)
        reply.content.config_records[messages.RECORD].pop(messages.UNACKNOWLEDGED, None)
        return reply

    return answer


def test_nodes_of_an_earlier_version_work_as_before(tmp_path):
    """And so does a new node with an earlier server: what it hands over counts as taken in."""
    federation = Noted(tmp_path, DISLINUCB, LINEAR, 40)
    over_flower(federation, {who: former_node(desk) for who, desk in federation.post.desks.items()})
    for step in range(15):
        federation.live(step)
        federation.coordinator.step()
    np.testing.assert_allclose(federation.taken_in() + federation.unsent("dislinucb"), federation.gram, rtol=1e-8)
    assert all(agent.status().unacknowledged == 0 for agent in federation.agents)
    over_flower(federation, {who: at_desk(desk) for who, desk in federation.post.desks.items()})
    for step in range(15, 25):
        federation.live(step)
        federation.coordinator.step()
    np.testing.assert_allclose(federation.taken_in() + federation.unsent("dislinucb"), federation.gram, rtol=1e-8)
    assert federation.book.rejections() == []


@pytest.mark.parametrize("told", ["", "[", "{}x", "[[1]]", '[["a", -1, true]]', '[["a", 1.5, true]]', "[" * 10**5, 7])
def test_verdicts_that_are_none_are_refused(told):
    with pytest.raises(ValueError, match="cannot be read"):
        messages.verdicts_in(told)


@pytest.mark.parametrize(
    "told",
    [
        *(
            None,
            7,
            b"[]",
            "",
            "[",
            "{}x",
            "[[1, 2]]",
            '[["a", -1]]',
            '[["a", 1e3]]',
            '[["\\u001b[2J", 1]]',
            '[["é", 1]]',
        ),
        *(json.dumps([["a" * 101, 0]]), json.dumps([["a", 0]] * 5000), "[" * 9000),
    ],
)
def test_what_cannot_be_believed_of_a_node_is_as_if_it_had_not_been_said(told):
    """Then nothing is declined, and nothing is forgotten."""
    assert messages.unacknowledged_in(told) is None
