"""Who may read what is written: modes are looked at, since whoever runs this may be allowed to read everything."""

from __future__ import annotations

import logging
import os
import stat

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.deploy import Agent
from fedbandits.deploy.backup import back_up
from fedbandits.deploy.storage.files import claim, open_to_everybody, private, private_directory, write_private

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(directory) -> dict[str, int]:
    return {path.name: mode(path) for path in directory.iterdir()}


def test_an_agents_file_its_logs_and_its_backup_are_their_owners_alone(tmp_path, umask):
    (where := tmp_path / "site").mkdir(mode=0o700)
    where.chmod(0o700)
    path = where / "agent.db"
    with Agent.open(path, algorithm=fb.algorithms.DisLinUCB(), dim=2, warm=False) as agent:
        agent.reward(agent.decide(np.eye(2)).id, 1.0)
        back_up(path, where / "copy.db")
        assert {"agent.db", "agent.db-wal", "agent.db-shm", "copy.db"} <= modes(where).keys()
        assert set(modes(where).values()) == {0o600}


def test_a_servers_book_is_its_owners_alone(tmp_path, umask):
    pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")
    from fedbandits.deploy.flower.book.book import Book

    tmp_path.chmod(0o700)
    with Book(tmp_path / "server.db"):
        assert modes(tmp_path) == dict.fromkeys(("server.db", "server.db-wal", "server.db-shm"), 0o600)


def test_what_is_written_or_added_to_is_private(tmp_path, umask):
    tmp_path.chmod(0o700)
    write_private(tmp_path / "key", b"secret")
    with open(tmp_path / "log", "ab", opener=private) as log:
        log.write(b"line")
    private_directory(tmp_path / "kept")
    assert modes(tmp_path) == {"key": 0o600, "log": 0o600, "kept": 0o700}


def test_what_is_written_anew_does_not_keep_the_mode_it_had(tmp_path):
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert (path.read_text(), mode(path)) == ("new", 0o600)


def test_a_database_at_the_end_of_a_link_is_private(tmp_path, umask):
    (tmp_path / "link.db").symlink_to(tmp_path / "there.db")
    claim(tmp_path / "link.db")
    assert mode(tmp_path / "there.db") == 0o600


@pytest.mark.parametrize(("given", "told"), [(0o644, True), (0o602, True), (0o660, False), (0o600, False)], ids=oct)
def test_files_that_exist_keep_their_mode_and_those_open_to_everybody_are_named_once(tmp_path, caplog, given, told):
    """A product and its node may share a file as two users of a group."""
    path = tmp_path / f"agent-{given:o}.db"
    path.touch()
    path.chmod(given)
    with caplog.at_level(logging.WARNING):
        claim(path)
        claim(path)
    assert mode(path) == given
    assert caplog.text.count(f"chmod 600 {path}") == told


def test_who_can_read_a_file_is_told(tmp_path):
    path = tmp_path / "token"
    path.touch()
    told = []
    for given in (0o600, 0o640, 0o604, 0o602):
        path.chmod(given)
        told.append(open_to_everybody(path))
    assert told == [False, False, True, True]
