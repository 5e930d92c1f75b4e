"""Expelled agents: not let in, and out of what everybody knows where statistics add up."""

from __future__ import annotations

import numpy as np
import pytest
from deployed_algorithms import SMALL, STAR, home, talkative, typical
from flower_worlds import AT_ONCE, Deployed, settings_of

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.channel import Quantise, Through
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.conversation.expelling import is_left, retracts
from fedbandits.models.features import Identity

LINEAR = fb.environments.Linear(clients=3, dim=3, arms=5)
LIAR = 2
ALONE = np.array([0])
RETRACTING = {
    "dislinucb": "models.fresh.gram",
    "async-linucb": "models.fresh.gram",
    "central-linucb": "models.fresh.gram",
    "fedlinucb-async": "fresh.gram",
    "fclub-dc": "models.fresh.gram",
    "hetofedbandit-e": "aside.gram",
    "hetofedbandit-dr": "aside.gram",
    "hetofedbandit-async": "aside.gram",
    "fedglb-ucb": "models.fresh.gram",
    "fedglb-ucb-1": "fresh.gram",
    "fedglb-ucb-2": "models.fresh.gram",
    "fedglb-newton": "models.fresh.gram",
    "one-ucb-glm": "fresh.gram",
    "async-linucb-am": "common.fresh.gram",
    "dis-kernel-features": "models.fresh.gram",
}
"""Algorithms out of which an agent can be taken, and where agents have what they have not handed over."""
LASTING = ["club", "dyclu", "hetofedbandit", "hetofedbandit-pq", "fedglb-ucb-3"]
"""Algorithms that keep what does not add up."""


class KilledError(Exception):
    """The server's end."""


class Noted(Deployed):
    """A federation in which the observations of each agent are noted."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.features = getattr(self.settings.population(), "features", Identity(self.settings.dim))
        self.grams = np.zeros((self.settings.agents, self.features.size, self.features.size))

    def live(self, step):
        turn, picks = self.world.turn(step), super().live(step)
        for who, arms, pick in zip(turn.who, turn.arms, picks, strict=True):
            seen = self.features.of(ALONE, arms[None, pick][None])[0, 0]
            self.grams[who] += np.outer(seen, seen)
        return picks

    def run(self, steps):
        for step in steps:
            self.live(step)
            self.coordinator.step()

    def honest(self):
        """What all but the liar have observed, of what is shared."""
        shared = len(self.pool())
        return self.grams[np.arange(len(self.grams)) != LIAR].sum(axis=0)[:shared, :shared]

    def unsent(self, name):
        held = [agent.state()[RETRACTING[name]][0] for who, agent in enumerate(self.agents) if who != LIAR]
        return sum(held)

    def pool(self):
        """What the server has of everybody."""
        state = self.coordinator.server.state()
        key = next(name for name in ("pool.gram", "own.gram", "gram") if name in state)
        return state[key].sum(axis=0)


def test_these_are_all():
    claiming = set()
    for name in STAR:
        about = ALGORITHMS[name].about
        if name == "oracle-clusters" or about.environment not in SMALL or about.private:
            continue  # of noisy sums, see test_private_federation
        world = home(name, clients=3).world(10, np.random.SeedSequence(0))
        claiming |= {name} if retracts(settings_of(talkative(name), world, 0)) else set()
    assert claiming == set(RETRACTING)


@pytest.mark.parametrize("name", typical(RETRACTING))
def test_the_pool_is_that_of_a_federation_without_the_agent(name, tmp_path):
    federation = Noted(tmp_path, talkative(name), home(name, clients=3), 36)
    assert retracts(federation.settings)
    federation.run(range(12))
    assert not np.allclose(federation.pool() + federation.unsent(name), federation.honest())
    assert federation.book.expel(LIAR, 0.0)
    assert not federation.book.expel(LIAR, 1.0)
    federation.run(range(12, 20))
    np.testing.assert_allclose(federation.pool() + federation.unsent(name), federation.honest(), rtol=1e-8, atol=1e-8)
    assert not is_left(federation.book.contributions.of(LIAR))
    federation.post.carried.clear()
    federation.run(range(20, 28))
    np.testing.assert_allclose(federation.pool() + federation.unsent(name), federation.honest(), rtol=1e-8, atol=1e-8)
    assert {who for who, _, _ in federation.post.carried} == {0, 1}
    assert federation.book.rejections() == []


@pytest.mark.parametrize("name", typical(["dislinucb", "async-linucb", "central-linucb"]))
def test_agents_know_nothing_of_it_after_the_next_conversation(name, tmp_path):
    federation = Noted(tmp_path, talkative(name), LINEAR, 40)
    federation.run(range(12))
    federation.book.expel(LIAR, 0.0)
    federation.coordinator.step()
    for who in (0, 1):
        state = federation.agents[who].state()
        known = state["models.base.gram"][0] + state["models.fresh.gram"][0]
        np.testing.assert_allclose(known, federation.pool() + state["models.fresh.gram"][0], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(state["models.logdet"][0], np.linalg.slogdet(known + np.eye(3))[1], rtol=1e-8)
    federation.run(range(12, 30))
    assert federation.book.rejections() == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in LASTING])
def test_what_does_not_add_up_stays_and_the_others_go_on(name, tmp_path):
    federation = Noted(tmp_path, talkative(name), home(name, clients=3), 36)
    assert not retracts(federation.settings)
    federation.run(range(10))
    left = federation.book.contributions.of(LIAR)
    federation.book.expel(LIAR, 0.0)
    spoken = int(federation.coordinator.ledger.conversations)
    federation.post.carried.clear()
    federation.run(range(10, 22))
    assert int(federation.coordinator.ledger.conversations) > spoken
    assert {who for who, _, _ in federation.post.carried} == {0, 1}
    for key, array in federation.book.contributions.of(LIAR).sums.items():
        np.testing.assert_array_equal(array, left.sums[key])


def test_stages_are_not_undone(tmp_path):
    federation = Noted(tmp_path, Through(fb.algorithms.DisLinUCB(threshold=0.5), (Quantise(),)), LINEAR, 30)
    assert not retracts(federation.settings)


@pytest.mark.parametrize("letters", [2, 5, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 3, 4, 6))])
def test_a_server_killed_at_any_letter_takes_out_everything_once(letters, tmp_path):
    federation = Noted(tmp_path, talkative("dislinucb"), LINEAR, 36)
    federation.run(range(10))
    federation.book.expel(LIAR, 0.0)
    left = [letters]

    def killing(who, letter):
        left[0] -= 1
        if left[0] == 0:
            raise KilledError
        return "delivered"

    federation.post.fate = killing
    for step in range(10, 16):
        federation.live(step)
        try:
            federation.coordinator.step()
        except KilledError:
            federation.restart()
    assert left[0] <= 0
    np.testing.assert_allclose(
        federation.pool() + federation.unsent("dislinucb"), federation.honest(), rtol=1e-8, atol=1e-8
    )


def test_answers_that_it_still_owed_are_not_taken_in(tmp_path):
    """A late answer, held when its agent is expelled, is out again."""
    federation = Noted(tmp_path, talkative("dislinucb"), LINEAR, 40)
    federation.run(range(6))
    federation.post.fate = lambda who, letter: "unanswered" if who == LIAR else "delivered"
    federation.run(range(6, 12))
    assert LIAR in federation.book.owed()
    federation.post.fate = lambda who, letter: "delivered"
    federation.book.expel(LIAR, 0.0)
    federation.run(range(12, 20))
    np.testing.assert_allclose(
        federation.pool() + federation.unsent("dislinucb"), federation.honest(), rtol=1e-8, atol=1e-8
    )


def test_who_is_suspended_can_be_expelled(tmp_path):
    federation = Noted(tmp_path, talkative("dislinucb"), LINEAR, 30)
    federation.run(range(8))
    federation.book.quarantine.suspend(LIAR, 0.0, 1)
    federation.book.expel(LIAR, 0.0)
    federation.run(range(8, 14))
    assert not is_left(federation.book.contributions.of(LIAR))


def test_who_was_readmitted_takes_part_again(tmp_path):
    """What was taken out stays out; what it hands over from then on is taken in."""
    federation = Noted(tmp_path, talkative("dislinucb"), LINEAR, 40)
    federation.run(range(10))
    federation.book.expel(LIAR, 0.0)
    federation.run(range(10, 16))
    taken_out = federation.grams[LIAR] - federation.agents[LIAR].state()["models.fresh.gram"][0]
    assert federation.book.readmit(LIAR)
    assert not federation.book.readmit(LIAR)
    federation.run(range(16, 26))
    fresh = sum(agent.state()["models.fresh.gram"][0] for agent in federation.agents)
    np.testing.assert_allclose(
        federation.pool() + fresh, federation.grams.sum(axis=0) - taken_out, rtol=1e-8, atol=1e-8
    )


def test_neither_the_identity_nor_the_key_is_let_in(tmp_path):
    with Book(tmp_path / "book.db") as book:
        assert book.admit(0, "key-0", 0) is None
        assert book.admit(1, "key-1", 0) is None
        book.expel(1, 5.0)
        book.expel(2, 6.0)
        assert book.admit(0, "key-0", 0) is None
        for identity, key in ((1, "key-1"), (1, "another"), (2, "key-2"), (0, "key-1"), (3, "key-1")):
            assert book.admit(identity, key, 0) == ", which was expelled"
        book.readmit(1)
        assert book.admit(1, "key-1", 0) is None


def test_over_flower_its_node_is_refused_and_the_others_go_on(tmp_path):
    grid = pytest.importorskip("flower_grids", reason="needs the extra fedbandits[deploy]")
    from fedbandits.deploy.flower.conversation.coordinator import Coordinator
    from fedbandits.deploy.flower.conversation.desk import fingerprint
    from fedbandits.deploy.flower.conversation.grid import FlowerPost

    federation = Noted(tmp_path, talkative("dislinucb"), LINEAR, 30)
    nodes = {who: grid.at_desk(desk) for who, desk in federation.post.desks.items()}
    post = FlowerPost(grid.LocalGrid(nodes), federation.book, 3, fingerprint(federation.settings))
    federation.coordinator = Coordinator(federation.settings, post, federation.book, AT_ONCE)
    federation.run(range(8))
    federation.book.expel(LIAR, 0.0)
    letters = federation.agents[LIAR].status().letters
    federation.run(range(8, 14))
    assert federation.agents[LIAR].status().letters == letters
    assert [rejection.why for rejection in federation.book.rejections()] == [
        "node 2 claims to be agent 2, which was expelled"
    ]
    np.testing.assert_allclose(
        federation.pool() + federation.unsent("dislinucb"), federation.honest(), rtol=1e-8, atol=1e-8
    )
