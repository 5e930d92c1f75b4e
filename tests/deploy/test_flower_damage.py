"""A book that is damaged, somebody else's or of another version is told in one line, and nothing prints variables."""

from __future__ import annotations

import sqlite3
import sys

import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from flower_worlds import Deployed

import fedbandits as fb
from fedbandits.cli import app
from fedbandits.deploy.errors import CorruptError
from fedbandits.deploy.flower import server_app
from fedbandits.deploy.flower.book.book import Book

COMMANDS = [["federation", "status"], ["federation", "status", "--json"], ["federation", "release", "0"]]


def command(arguments, where):
    first, second, *rest = arguments
    return [first, second, str(where), *rest]


def damaged(where, how):
    path = where / "server.db"
    path.touch(mode=0o600)
    if how == "noise":
        path.write_bytes(b"no database at all" * 500)
        return
    if how == "foreign":
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE cats (name TEXT)")
        return
    path.unlink()
    deployed = Deployed(where, fb.algorithms.DisLinUCB(threshold=0.5), fb.environments.Linear(clients=2, dim=3), 20)
    for step in range(6):
        deployed.live(step)
        deployed.coordinator.step()
    deployed.book._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    deployed.book.close()
    content = bytearray(path.read_bytes())
    if how == "pages":
        content[4096:] = b"\x55" * (len(content) - 4096)
    if how == "cut":
        del content[6000:]
    if how == "state":
        with sqlite3.connect(path) as db:
            db.execute("UPDATE snapshot SET state = X'00112233' WHERE part = 'ledger'")
        return
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["noise", "foreign", "pages", "cut", "state"])
def test_a_damaged_book_is_one_line(how, tmp_path):
    damaged(tmp_path, how)
    before = (tmp_path / "server.db").read_bytes()
    for arguments in COMMANDS if how != "state" else COMMANDS[:2]:
        shown = CliRunner().invoke(app, command(arguments, tmp_path))
        assert shown.exit_code in (1, 2), arguments
        assert shown.stdout == ""
        assert len(shown.stderr.splitlines()) == 1, shown.stderr
        assert "server.db" in shown.stderr
    if how != "state":  # SQLite reads the others' pages; a book that it can read it may tidy up
        assert (tmp_path / "server.db").read_bytes() == before, "nothing was changed in it"


class Context:
    def __init__(self, directory):
        self.run_id = 1
        self.run_config = {"directory": str(directory)}


def test_the_servers_log_names_a_damaged_book_in_one_line(tmp_path):
    damaged(tmp_path, "noise")
    (tmp_path / "federation.json").write_text("{}")
    with pytest.raises(CorruptError):
        server_app.app(None, Context(tmp_path))
    (line,) = (tmp_path / "server.log").read_text().splitlines()
    assert "ERROR" in line
    assert "server.db" in line


def test_a_book_that_is_only_read_is_not_changed(tmp_path):
    Book(tmp_path / "server.db").close()
    with Book(tmp_path / "server.db", read_only=True) as book, pytest.raises(sqlite3.OperationalError):
        book.note(present=1)


def test_a_defect_never_prints_local_variables(capsys):
    @app.command()
    def fails() -> None:
        token = "hunt" + "er2"
        raise RuntimeError(f"a defect of {len(token)} letters")

    before = sys.excepthook
    try:
        with pytest.raises(RuntimeError) as raised:
            app(["fails"])
        sys.excepthook(raised.type, raised.value, raised.tb)  # typer's own, which `app` has put there
    finally:
        app.registered_commands.pop()
        sys.excepthook = before
    printed = "".join(capsys.readouterr())
    assert "a defect of 7 letters" in printed
    assert "hunter2" not in printed
