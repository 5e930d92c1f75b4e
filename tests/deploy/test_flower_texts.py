"""What nodes write is data: forged lines, escape sequences and floods reach neither log nor terminal nor disk."""

from __future__ import annotations

import json
import logging
from logging.handlers import RotatingFileHandler

import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from flower_grids import LocalGrid, at_desk, failing
from flower_worlds import Deployed
from flwr.app import ConfigRecord, Message, RecordDict

import fedbandits as fb
from fedbandits.cli import app
from fedbandits.deploy.flower.book import rejections
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.conversation.desk import Desk, fingerprint
from fedbandits.deploy.flower.conversation.grid import FlowerPost
from fedbandits.deploy.flower.conversation.server_log import log_to
from fedbandits.deploy.flower.messages import RECORD
from fedbandits.deploy.flower.post import Answer, Letter

FORGED = "no\n2026-11-16 12:00:00,000 INFO conversation all-is-well: 3 callers\x1b[2J\x1b[31m\u202e" + "x" * 5000
LETTER = Letter("c", 0, b"content")


@pytest.fixture
def server_log(tmp_path):
    ours = logging.getLogger("fedbandits")
    level, before = ours.level, list(ours.handlers)
    log_to(tmp_path / "server.log")
    yield tmp_path / "server.log"
    for handler in [handler for handler in ours.handlers if handler not in before]:
        ours.removeHandler(handler)
        assert isinstance(handler, RotatingFileHandler)
        handler.close()
    ours.setLevel(level)


def assert_harmless(path):
    text = path.read_text()
    assert text.strip(), "something was logged"
    for line in text.splitlines():
        assert line.isprintable(), line
        assert line[:2] == "20", "every line is a record of its own"
        assert " INFO conversation all-is-well" not in line[:60], "a forged line"
        assert len(line) < 2500


def test_reasons_claims_and_errors_of_nodes_are_harmless_in_the_log_and_in_status(tmp_path, server_log):
    deployed = Deployed(tmp_path, fb.algorithms.DisLinUCB(threshold=0.5), fb.environments.Linear(clients=3, dim=3), 20)

    def claiming(identity):
        told = {"identity": identity, "fingerprint": FORGED}
        return lambda message: Message(RecordDict({RECORD: ConfigRecord(told)}), reply_to=message)

    grid = LocalGrid({7: failing(FORGED), 8: claiming(FORGED), 9: claiming(1), 10: at_desk(Desk(deployed.agents[0]))})
    post = FlowerPost(grid, deployed.book, 3, fingerprint(deployed.settings))
    assert post.ring(0.01).keys() == {0}
    deployed.post.forged = lambda who, letter, answer: Answer(refused=FORGED) if who == 2 else answer
    for step in range(6):
        deployed.live(step)
        deployed.coordinator.step()
    assert_harmless(server_log)
    assert "refused it: no\\n2026" in server_log.read_text()
    for why in (rejection.why for rejection in deployed.book.rejections()):
        assert why.isprintable()
        assert len(why) <= 200
    for arguments in (["federation", "status", str(tmp_path)], ["federation", "status", str(tmp_path), "--json"]):
        shown = CliRunner().invoke(app, arguments)
        assert shown.exit_code == 0, shown.output
        assert all(line.isprintable() for line in shown.output.splitlines())
        assert "refused it: no\\" in " ".join(shown.output.split()).replace("\\\\", "\\")


def test_a_traceback_cannot_pass_for_a_record(server_log):
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("fedbandits.deploy").exception("a defect")
    first, *others = server_log.read_text().splitlines()
    assert first.endswith("ERROR a defect")
    assert all(line.startswith("    ") and line.isprintable() for line in others)


def test_a_reply_that_cannot_be_read_is_its_senders_fault_alone(tmp_path, caplog):
    deployed = Deployed(tmp_path, fb.algorithms.DisLinUCB(threshold=0.5), fb.environments.Linear(clients=3, dim=3), 20)

    def unreadable(message):
        raise ValueError(FORGED)

    grid = LocalGrid({7: unreadable, 8: at_desk(Desk(deployed.agents[1])), 9: at_desk(Desk(deployed.agents[2]))})
    post = FlowerPost(grid, deployed.book, 3, fingerprint(deployed.settings))
    post.ring(0.01)
    assert post.ring(0.01).keys() == {1, 2}, "from the second ring on the others are heard"
    assert "node 7: its reply cannot be read: ValueError: no\\n" in caplog.text


def test_rejections_are_counted_for_ever_and_kept_in_words_for_a_while(tmp_path):
    with Book(tmp_path / "server.db") as book:
        book.reject(1, LETTER, "the first of the quiet one")
        book.reject(None, None, "a stranger", "node")
        for number in range(3 * rejections.MOST_OF_ONE):
            book.reject(0, LETTER, f"{number}")
        kept = book.rejections()
        assert [entry.why for entry in kept if entry.identity != 0] == ["the first of the quiet one", "a stranger"]
        loud = [entry.why for entry in kept if entry.identity == 0]
        assert len(loud) == rejections.MOST_OF_ONE
        assert loud[-1] == f"{3 * rejections.MOST_OF_ONE - 1}"
        assert book.rejection_counts() == {
            ("reply", 0): 3 * rejections.MOST_OF_ONE,
            ("reply", 1): 1,
            ("node", None): 1,
        }


def test_the_table_of_rejections_is_bounded_however_many_agents_are_loud(tmp_path, monkeypatch):
    monkeypatch.setattr(rejections, "MOST", 30)
    with Book(tmp_path / "server.db") as book:
        for number in range(60):
            book.reject(number, LETTER, "nonsense")
        assert len(book.rejections()) == 30
        assert sum(book.rejection_counts().values()) == 60


def test_json_of_status_is_strict(tmp_path):
    with Book(tmp_path / "server.db") as book:
        book.reject(0, LETTER, FORGED)
    shown = CliRunner().invoke(app, ["federation", "status", str(tmp_path), "--json"])
    assert json.loads(shown.stdout)["rejected"] == 1
