"""The server's book knows what each agent has contributed: once, whatever is killed, also in books of before."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from deployed_algorithms import home, talkative
from flower_worlds import Deployed

from fedbandits.contract.state import to_bytes
from fedbandits.contract.wire import Wire
from fedbandits.deploy.errors import SettingsError
from fedbandits.deploy.flower.book.book import Book, TurnRecord
from fedbandits.deploy.flower.book.contributions import Contribution, Handed, _read, _state
from fedbandits.deploy.flower.book.sightings import Sighting

FILES = Path(__file__).parent / "fixtures"


@pytest.fixture
def book(tmp_path):
    with Book(tmp_path / "server.db") as opened:
        yield opened


def handed(value: float) -> Handed:
    return Handed("fresh", {"gram": np.eye(2) * value}, {"level": np.array(value)}, observations=value)


def concluded(book: Book, turn: int, by: dict[int, Handed]) -> None:
    book.conclude(turn, TurnRecord(tuple(by), tuple(by), dict.fromkeys(by, b"")), handed=by)


def test_books_that_did_not_count_uploads_are_read():
    """Contributions of before have no such number; they count from now on."""
    state = to_bytes(
        {"sum fresh.gram": np.eye(2), "observations": np.array(3.0), "replies": np.array(2), "uncounted": np.array(0)}
    )
    held = _read(state)
    assert (held.observations, held.replies, held.uploads) == (3.0, 2, 0)
    later = held.plus(handed(1.0)).plus(Handed("fresh", {"gram": np.zeros((2, 2))}))
    assert (later.replies, later.uploads) == (4, 1), "one of the two held anything"
    assert _read(to_bytes(_state(later))).uploads == 1


def test_contributions_add_up_and_those_of_a_conversation_can_be_taken_back(book):
    book.begin("one", [0], [0, 1])
    concluded(book, 0, {0: handed(1.0), 1: handed(2.0)})
    concluded(book, 1, {0: handed(3.0), 1: Handed("nothing")})
    assert book.contributions.settled() == {}
    book.finish()
    np.testing.assert_array_equal(book.contributions.of(0).sums["fresh.gram"], 4 * np.eye(2))
    assert book.contributions.of(0).totals["fresh.level"] == 3.0
    assert [(held.observations, held.replies) for held in book.contributions.all().values()] == [(4.0, 2), (2.0, 1)]
    assert book.contributions.of(7) == Contribution()

    book.begin("two", [0], [0, 1, 2])
    concluded(book, 0, {0: handed(0.1), 2: handed(5.0)})
    concluded(book, 1, {0: handed(0.2)})
    assert book.contributions.settled()[0].observations == 4.0
    with book._writing():
        book.contributions.undo()
    assert sorted(book.contributions.all()) == [0, 1]
    np.testing.assert_array_equal(book.contributions.of(0).sums["fresh.gram"], 4 * np.eye(2))
    with book._writing():
        book.contributions.undo()  # there is nothing left to take back
    assert book.contributions.of(0).observations == 4.0


def test_everybody_is_seen_when_the_server_rings(book):
    book.rang([0, 1], 100.0)
    book.rang([1], 160.0)
    book.rang([1], 50.0)  # the clock was set back
    assert book.sightings.all() == {0: Sighting(100.0, 100.0), 1: Sighting(100.0, 160.0)}
    assert (book.fact("present"), book.fact("rang_at")) == (1, 50.0)


@pytest.mark.parametrize("name", ["dislinucb", "fedglb-ucb"])
def test_they_are_what_agents_have_sent_over_kills_and_late_answers(tmp_path, name):
    deployed = Deployed(tmp_path, talkative(name), home(name, clients=3), 40)

    def fate(who, letter):
        return "unanswered" if who == 1 and letter.turn == 0 and len(deployed.post.carried) % 3 == 0 else "delivered"

    class KilledError(Exception):
        pass

    conclude = Book.conclude
    rng = np.random.default_rng(0)

    def killed(self, *args, **kwargs):
        if rng.random() < 0.1:
            raise KilledError
        conclude(self, *args, **kwargs)
        if rng.random() < 0.1:
            raise KilledError

    deployed.post.fate = fate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Book, "conclude", killed)
        for step in range(1, 31):
            deployed.live(step)
            try:
                deployed.coordinator.step()
            except KilledError:
                deployed.book.close()
                deployed.restart()
    deployed.post.fate = lambda who, letter: "delivered"
    for _ in range(3):
        deployed.coordinator.step()
    sent = {}
    for who, letter, answer in deployed.post.carried:
        if answer.content is not None:
            _, arrays = Wire.decode(answer.content)
            if "gram" in arrays:
                sent[who, letter.conversation, letter.turn] = arrays["gram"]
    for who, held in deployed.book.contributions.settled().items():
        expected = sum(gram for (sender, *_), gram in sent.items() if sender == who)
        (found,) = [array for key, array in held.sums.items() if key.endswith(".gram")]
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert held.replies == sum(sender == who for sender, *_ in sent)
    assert sorted(deployed.book.sightings.all()) == [0, 1, 2]


@pytest.mark.parametrize("name", ["0.1.0/federation", "0.1.0/federation-debts"])
def test_books_of_before_are_brought_forward_and_say_since_when_they_know(tmp_path, name):
    shutil.copy(FILES / name / "server.db", tmp_path / "server.db")
    with Book(tmp_path / "server.db") as book:
        before = (book.cut(), sorted(book.owed()), book.ledger().counts.tolist(), book.bound())
        since = book.fact("contributions_since")
        assert since > 0
        assert book.contributions.all() == {}
    with Book(tmp_path / "server.db") as book:
        assert (book.cut(), sorted(book.owed()), book.ledger().counts.tolist(), book.bound()) == before
        assert book.fact("contributions_since") == since


def test_a_new_book_knows_everything_and_a_file_of_somebody_else_is_refused(tmp_path, book):
    assert book.fact("contributions_since") == 0
    shutil.copy(FILES / "0.1.0" / "dislinucb-killed.db", tmp_path / "agent.db")
    with pytest.raises(SettingsError, match="is a database, but not a server's book"):
        Book(tmp_path / "agent.db")
