"""A conversation that the server cannot complete is set apart, whoever has spoilt it is named, and all others go on."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployed_algorithms import STAR, home, talkative
from flower_worlds import AT_ONCE, Deployed, DeskPost, live
from misbehaving_node import PILLS, told
from toy_algorithms import Delicate, Points, PointsServer
from typer.testing import CliRunner, Result

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.cli.app import app
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire
from fedbandits.deploy import Agent
from fedbandits.deploy.embedded.acknowledgements import Verdict
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.conversation.coordinator import Coordinator
from fedbandits.deploy.flower.conversation.desk import Desk
from fedbandits.deploy.flower.operating.server_status import server_status
from fedbandits.deploy.flower.trust.inspection import Inspector
from fedbandits.deploy.flower.trust.past import Trust
from fedbandits.deploy.settings import stored

POISONED = Path(__file__).parent / "fixtures" / "poisoned"
LINEAR = fb.environments.Linear(clients=4, dim=3, arms=4)
HORIZON = 60


# a book of before, with a poison pill in it


def test_a_server_that_raised_at_every_start_goes_on(tmp_path):
    """The version before let a gradient of 1e8 in and recorded it: from then on it raised, for ever."""
    where = tmp_path / "poisoned"
    shutil.copytree(POISONED, where)
    settings = stored((where / "federation.json").read_text(), {})
    agents = [Agent.open(where / f"agent-{who}.db", verify=False, warm=False) for who in range(3)]
    post = DeskPost({who: Desk(agent) for who, agent in enumerate(agents)})
    world = fb.environments.Logistic(clients=3, dim=3, arms=4).world(60, np.random.SeedSequence(0).spawn(4)[0])
    with Book(where / "server.db") as book:
        cut = book.cut()
        before = book.parts()["server"]
        coordinator = Coordinator(settings, post, book, AT_ONCE)
        assert coordinator.step()
        (entry,) = book.quarantine.entries()
        assert (entry.guilty, entry.sure, entry.state) == ((1,), True, "declined")
        assert entry.conversation == cut.conversation
        assert "positive definite" in entry.error
        assert [said.identity for said in book.quarantine.spoken(entry.id)] == [0, 1, 2]
        assert book.cut() is None
        held = book.parts()["server"]
        assert all(np.isfinite(array).all() for array in held.values())
        expected = before["gram"][0] + sum(
            Wire.decode(said.reply)[1]["gram"] for said in book.quarantine.spoken(entry.id) if not said.guilty
        )
        np.testing.assert_allclose(held["gram"][0], expected)
        assert sorted(book.contributions.all()) == [0, 2]
        for step in range(15, 30):
            live(agents, world, step)
            coordinator.step()
        assert len(book.quarantine.entries()) == 1
        assert np.trace(book.parts()["server"]["gram"][0]) > np.trace(held["gram"][0])
    for agent in agents:
        agent.close()


def test_the_pill_itself_is_not_let_in_any_more(tmp_path):
    deployed = Deployed(tmp_path, talkative("fedglb-ucb-3"), home("fedglb-ucb-3", clients=3), HORIZON)
    deployed.post.forged = lambda who, letter, answer: told(answer, PILLS["gradient"]) if who == 1 else answer
    for step in range(6):
        deployed.live(step)
        deployed.coordinator.step()
    assert {rejection.identity for rejection in deployed.book.rejections()} == {1}
    assert "the norm of 'gradient'" in deployed.book.rejections()[0].why
    assert deployed.book.quarantine.entries() == []
    assert sorted(deployed.book.contributions.all()) == [0, 2]


# servers that cannot bear certain numbers


class DelicateTogether(Delicate):
    """Bears one."""

    together = 2


class Infected(Delicate):
    """Raises nothing, and has no number for its total afterwards."""

    def spoil(self, reply: Message) -> None:
        self.total *= np.nan


class Enormous(Delicate):
    """Raises nothing, and would raise ever after."""

    def spoil(self, reply: Message) -> None:
        self.total *= 1e200


class Hopeless(Delicate):
    """Raises whatever it is told."""

    def converse(self, callers: Any) -> Conversation:
        if len(callers):
            yield Message("collect", self._everybody)
            raise ZeroDivisionError("always")


class Speechless(PointsServer):
    """Raises before it has said anything."""

    def converse(self, callers: Any) -> Conversation:
        raise ZeroDivisionError("never a word")
        yield


def served_by(server: type[PointsServer]) -> Points:
    @dataclasses.dataclass(frozen=True)
    class Served(Points):
        def server(self, problem: Any, n: int, rng: Streams) -> PointsServer:
            return server(n, 2)

    return Served()


def unlucky(*who: int, when: Callable[[], bool] = lambda: True) -> Callable[..., Any]:
    """Replies of some agents say that they had 13 observations, of reward 1."""

    def forged(agent: int, letter: Any, answer: Any) -> Any:
        return told(answer, PILLS["thirteen"]) if agent in who and when() else answer

    return forged


def federation(where: Path, server: type[PointsServer], **trust: Any) -> Deployed:
    deployed = Deployed(where, served_by(server), LINEAR, HORIZON)
    deployed.coordinator = Coordinator(
        deployed.settings, deployed.post, deployed.book, AT_ONCE, trust=Trust(**trust) if trust else None
    )
    return deployed


def run(deployed: Deployed, first: int, last: int) -> None:
    for step in range(first, last):
        deployed.live(step)
        deployed.coordinator.step()


def sent(deployed: Deployed) -> int:
    """How many observations agents have sent, whether they were taken in or not."""
    return sum(agent.status().rewards - int(agent.state()["new"][0]) for agent in deployed.agents)


def observed(deployed: Deployed) -> float:
    return float(deployed.coordinator.server.state()["total"][0])


@pytest.mark.parametrize("server", [Delicate, Infected, Enormous])
def test_who_spoils_a_conversation_is_found_and_left_out_of_it(server, tmp_path):
    deployed = federation(tmp_path, server)
    deployed.post.forged = unlucky(2)
    run(deployed, 0, 3)
    (entry,) = deployed.book.quarantine.entries()
    assert (entry.guilty, entry.sure, entry.state, entry.turn) == ((2,), True, "declined", 0)
    assert observed(deployed) == 9.0, "three of each of the others, asked for once"
    assert deployed.book.contributions.of(2).replies == 0
    asked = [who for who, letter, _ in deployed.post.carried if Wire.decode(letter.content)[0] == "collect"]
    assert sorted(asked) == [0, 1, 2, 3]
    rejection = deployed.book.rejections()[-1]
    assert (rejection.identity, rejection.turn) == (2, 0)
    assert "it has spoilt the conversation" in rejection.why


def test_two_that_spoil_it_together_are_found(tmp_path):
    deployed = federation(tmp_path, DelicateTogether)
    deployed.post.forged = unlucky(1, 3)
    run(deployed, 0, 3)
    (entry,) = deployed.book.quarantine.entries()
    assert len(entry.guilty) == 1
    assert set(entry.guilty) <= {1, 3}, "without either of them it goes on"
    assert observed(deployed) == 6.0 + 13.0


def test_each_of_several_is_found(tmp_path):
    deployed = federation(tmp_path, Delicate)
    deployed.post.forged = unlucky(0, 1, 3)
    run(deployed, 0, 3)
    (entry,) = deployed.book.quarantine.entries()
    assert entry.guilty == (0, 1, 3)
    assert observed(deployed) == 3.0


def test_what_nobody_explains_is_given_up_and_nobody_loses_anything(tmp_path):
    deployed = federation(tmp_path, Hopeless)
    run(deployed, 0, 6)
    entries = deployed.book.quarantine.entries()
    assert entries
    assert all(entry.guilty == () and not entry.sure for entry in entries)
    assert observed(deployed) == 0.0
    assert deployed.book.cut() is None
    assert deployed.book.contributions.all() == {}
    assert deployed.book.quarantine.suspended() == {}


def test_a_server_that_cannot_begin_to_speak_is_told_of_once(tmp_path):
    deployed = federation(tmp_path, Speechless)
    run(deployed, 0, 6)
    (entry,) = deployed.book.quarantine.entries()
    assert entry.times == 6
    assert "never a word" in entry.error


# killed in between


def test_a_server_that_is_killed_while_it_sets_something_apart_does_it_again(tmp_path, monkeypatch):
    deployed = federation(tmp_path, Delicate)
    deployed.post.forged = unlucky(2)

    class KilledError(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> None:
        raise KilledError

    for method in ("undo", "begin", "conclude"):
        with monkeypatch.context() as patch:
            whole = getattr(Book, method)

            def kill(self: Book, *args: Any, whole: Any = whole, **kwargs: Any) -> None:
                # only what happens within the transaction that sets a conversation apart
                if self._db.in_transaction:
                    raise KilledError
                whole(self, *args, **kwargs)

            patch.setattr(Book, method, kill)
            with pytest.raises(KilledError):
                run(deployed, 0, 3) if deployed.book.cut() is None else deployed.coordinator.step()
        assert deployed.book.quarantine.entries() == []
        deployed.book.close()
        deployed.restart()
    deployed.coordinator.step()
    (entry,) = deployed.book.quarantine.entries()
    assert entry.guilty == (2,)
    assert observed(deployed) == 9.0


# again and again


def test_repeated_offenders_are_left_out_until_the_operator_acts(tmp_path):
    deployed = federation(tmp_path, Delicate, strikes=3)
    deployed.post.forged = unlucky(2)
    run(deployed, 0, 24)
    entries = deployed.book.quarantine.entries()
    assert [entry.state for entry in entries] == ["declined", "declined", "held"]
    assert list(deployed.book.quarantine.suspended()) == [2]
    heard = [who for who, *_ in deployed.post.carried]
    last = max(place for place, who in enumerate(heard) if who == 2)
    assert 0 in heard[last + 1 :], "the others go on"
    with deployed.book.writing():
        deployed.book.quarantine.decide(entries[-1].id, "dropped")
    assert deployed.book.quarantine.suspended() == {}
    deployed.post.forged = lambda who, letter, answer: answer
    before = len(deployed.post.carried)
    run(deployed, 24, 33)
    assert 2 in [who for who, *_ in deployed.post.carried[before:]]


def test_old_strikes_are_forgiven(tmp_path):
    deployed = federation(tmp_path, Delicate, strikes=2, forgiven_after=0.0)
    deployed.post.forged = unlucky(2)
    run(deployed, 0, 24)
    assert len(deployed.book.quarantine.entries()) > 3
    assert deployed.book.quarantine.suspended() == {}


# algorithms of the catalogue


@pytest.mark.parametrize(
    "name",
    [
        "async-linucb",
        "fedglb-ucb",
        *(pytest.param(name, marks=pytest.mark.slow) for name in STAR if not ALGORITHMS[name].about.oracle),
    ],
)
def test_numbers_that_inspection_would_let_in_cannot_stop_anybody(name, tmp_path, monkeypatch):
    """Suppose bounds did not exist: whatever is sent, the server does not raise, and others are served."""
    monkeypatch.setattr(Inspector, "_check_meaning", lambda *_: None)
    deployed = Deployed(tmp_path, talkative(name), home(name, clients=4), HORIZON)
    rng = np.random.default_rng(0)

    def poisoned(who: int, letter: Any, answer: Any) -> Any:
        if who != 1 or answer.content is None or rng.random() < 0.3:
            return answer
        size = 10.0 ** rng.integers(5, 308)
        return told(answer, lambda held: {key: value * size + size for key, value in held.items()})

    deployed.post.forged = poisoned
    for step in range(20):
        deployed.live(step)
        deployed.coordinator.step()
    entries = deployed.book.quarantine.entries()
    assert {who for entry in entries for who in entry.guilty if entry.sure} <= {1}
    assert all(
        np.isfinite(state).all() for state in deployed.coordinator.server.state().values() if state.dtype == "f8"
    )


# what operators do


def operate(where: Path, *words: object) -> Result:
    return CliRunner().invoke(app, ["federation", "quarantine", words[0], str(where), *map(str, words[1:])])


@pytest.fixture
def suspended(tmp_path: Path) -> Deployed:
    """Agent 2 has spoilt its third conversation."""
    deployed = federation(tmp_path, Delicate)
    (tmp_path / "federation.json").write_text(dataclasses.replace(deployed.settings, algorithm=Points()).text())
    deployed.post.forged = unlucky(2)
    run(deployed, 0, 15)
    assert list(deployed.book.quarantine.suspended()) == [2]
    return deployed


def test_operators_list_and_look_into_it(suspended):
    where = suspended.where
    lines = operate(where, "list").stdout.splitlines()
    assert [line.split("  ")[2:4] for line in lines] == [["declined", "agent 2"]] * 2 + [["suspended", "agent 2"]]
    assert json.loads(operate(where, "list", "--json").stdout)[2]["guilty"] == [2]
    told = operate(where, "show", 3).stdout
    assert "thirteen" in told
    assert re.search(r"guilty  agent 2, turn 0 of \w+-\d+, \d+ bytes\n +points.points 1x3: norm 1, largest 1", told)
    shown = json.loads(operate(where, "show", 3, "--json").stdout)
    assert shown["left_out"] == [2]
    assert {reply["agent"] for reply in shown["replies"]} == {0, 1, 2, 3}
    assert operate(where, "show", 9).exit_code != 0


def test_what_is_dropped_is_given_back(suspended):
    assert "agent 2 gets back what it handed over" in operate(suspended.where, "drop", 3).stdout
    assert suspended.book.quarantine.suspended() == {}
    suspended.post.forged = lambda who, letter, answer: answer
    run(suspended, 15, 27)
    assert observed(suspended) == sent(suspended)
    assert operate(suspended.where, "drop", 1).exit_code == 0
    assert [entry.state for entry in suspended.book.quarantine.entries()] == ["dropped", "declined", "dropped"]


def test_what_is_retried_is_taken_up(suspended, monkeypatch):
    """As after an update: the server bears thirteen now."""
    monkeypatch.setattr(Delicate, "spoil", lambda self, reply: None)
    assert "taken up in the next conversation" in operate(suspended.where, "retry", 3).stdout
    (held,) = [said for said in suspended.book.quarantine.spoken(3) if said.identity == 2]
    suspended.post.forged = lambda who, letter, answer: answer
    before = suspended.book.contributions.of(2).replies
    run(suspended, 15, 27)
    assert suspended.book.contributions.of(2).replies > before
    assert suspended.book.verdicts.held(2) == set()
    told = [verdict for _, letter, _ in suspended.post.carried for verdict in letter.verdicts or ()]
    assert Verdict(held.letter.conversation, held.letter.turn, True) in told
    lied = 13 - sum(  # the node said 13 for what its agent had handed over
        Wire.decode(answer.content)[1]["counts"].sum()
        for who, letter, answer in suspended.post.carried
        if who == 2 and (letter.conversation, letter.turn) == (held.letter.conversation, held.letter.turn)
    )
    assert observed(suspended) == sent(suspended) + lied


def test_what_is_not_honest_is_not_retried(suspended):
    with suspended.book.writing():
        suspended.book._db.execute("UPDATE quarantined SET reply = ? WHERE identity = 2", (b"nonsense",))
    result = operate(suspended.where, "retry", 3)
    assert result.exit_code == 2
    assert "3: agent 2: bytes are not a message" in result.stderr
    assert list(suspended.book.quarantine.suspended()) == [2]
    assert "unreadable" in operate(suspended.where, "show", 3).stdout
    for number in (1, 7):
        assert operate(suspended.where, "retry", number).exit_code == 2


def test_status_names_who_is_left_out(suspended):
    told = server_status(suspended.book)
    assert told["suspended"] == [2]
    assert told["quarantined"] == {"declined": 2, "held": 1}
