"""The small parts: who may speak for whom, certificates and keys, stopping programs, the operator's commands."""

from __future__ import annotations

import sqlite3
import ssl
import stat
import sys

import numpy as np
import pytest
from flower_worlds import Deployed, open_agent, wait_for

import fedbandits as fb
from fedbandits.contract.catalogue import ConfigError
from fedbandits.deploy.flower.book.book import Book, TurnRecord
from fedbandits.deploy.flower.conversation.desk import Desk, fingerprint
from fedbandits.deploy.flower.machine.processes import Programs
from fedbandits.deploy.flower.machine.traffic import drive, world_of
from fedbandits.deploy.flower.operating import operate
from fedbandits.deploy.flower.post import Letter
from fedbandits.deploy.settings import Settings, stored

SETTINGS = Settings(algorithm=fb.algorithms.DisLinUCB(threshold=0.5), dim=3, agents=3)
LETTER = Letter("c", 0, b"content")


def test_the_first_key_to_speak_for_an_agent_keeps_it_until_it_is_released(tmp_path):
    with Book(tmp_path / "server.db") as book:
        assert book.admit(0, "a", 0) is None
        assert book.admit(0, "a", 0) is None
        assert "another key" in book.admit(0, "b", 0)
        assert "another agent" in book.admit(1, "a", 0), "one key, one agent"
    with Book(tmp_path / "server.db") as book:
        assert "another key" in book.admit(0, "b", 0)
        assert book.release(0)
        assert book.admit(0, "b", 0) is None
        assert book.bound() == {0: "b"}


def test_an_agent_that_has_forgotten_letters_is_not_admitted_until_it_is_released(tmp_path):
    with Book(tmp_path / "server.db") as book:
        assert book.admit(0, "a", 3) is None
        assert book.admit(1, "b", 3) is None
        assert book.admit(0, "a", 4) is None
        book.begin("c", [0], [0, 1])
        book.conclude(0, TurnRecord((0, 1), (0, 1), {}), letters={0: 5, 1: 4})
        assert "2 letters ago" in book.admit(0, "a", 3)
        assert book.admit(0, "a", 5) is None
        assert book.admit(1, "b", 4) is None
        book.release(0)
        assert book.admit(0, "a", 3) is None


def test_the_book_of_another_version_is_not_touched(tmp_path):
    Book(tmp_path / "server.db").close()
    with sqlite3.connect(tmp_path / "server.db") as db:
        db.execute("PRAGMA user_version = 99")
    before = (tmp_path / "server.db").read_bytes()
    with pytest.raises(ConfigError, match="has format 99, this version of fedbandits reads"):
        Book(tmp_path / "server.db")
    assert (tmp_path / "server.db").read_bytes() == before


def test_a_book_remembers_a_conversation_that_was_cut(tmp_path):
    with Book(tmp_path / "server.db") as book:
        book.begin("c", [1], [0, 1, 2])
        record = TurnRecord((0, 1, 2), (2, 0), {2: b"two", 0: b"zero"})
        book.conclude(0, record, owed={1: LETTER})
    with Book(tmp_path / "server.db") as book:
        cut = book.cut()
        assert (cut.conversation, cut.callers, cut.reachable) == ("c", (1,), (0, 1, 2))
        assert book.turn(0) == record
        assert book.turn(1) is None
        assert book.owed()[1].letter == LETTER
        book.finish(server={"x": np.arange(3)})
        assert book.cut() is None
        assert book.turn(0) is None
        assert book.parts()["server"]["x"].tolist() == [0, 1, 2]
        assert book.owed().keys() == {1}, "debts outlive the conversation"


def test_agents_of_one_federation_have_one_fingerprint(tmp_path):
    same = [open_agent(tmp_path / f"{identity}.db", SETTINGS, identity) for identity in range(2)]
    other = Settings(algorithm=fb.algorithms.DisLinUCB(threshold=0.6), dim=3, agents=3)
    assert fingerprint(same[0].settings) == fingerprint(same[1].settings) == fingerprint(SETTINGS)
    assert fingerprint(other) != fingerprint(SETTINGS)
    with pytest.raises(ValueError, match="is agent 1, but the node is configured as identity 0"):
        Desk(same[1], 0)


def test_keys_and_certificates(tmp_path):
    certificates = pytest.importorskip(
        "fedbandits.deploy.flower.machine.certificates", reason="needs fedbandits[deploy]"
    )
    certificates.make_certificates(tmp_path, ["127.0.0.1", "localhost"])
    authority = (tmp_path / "ca.crt").read_bytes()
    certificates.make_certificates(tmp_path, ["localhost"])
    assert (tmp_path / "ca.crt").read_bytes() == authority, "nodes keep their authority"
    for secret in ("ca.key", "server.key"):
        assert stat.S_IMODE((tmp_path / secret).stat().st_mode) == 0o600
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    client = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    assert handshake(server, client, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client, "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, ssl.create_default_context(), "localhost")
    public = certificates.make_key(tmp_path / "agent-0")
    assert public.read_text().startswith("ecdsa-sha2-nistp384 ")
    assert stat.S_IMODE((tmp_path / "agent-0").stat().st_mode) == 0o600


def handshake(server, client, name):
    """Both ends of TLS in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname=name)
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (here, there):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return here.version() == "TLSv1.3"


CHILD = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print("started", flush=True)
time.sleep(60)
"""


def test_programs_are_stopped_with_what_has_left_their_group(tmp_path):
    processes = Programs("test", {}, tmp_path)
    processes.start("parent", [sys.executable, "-c", CHILD])
    wait_for(lambda: "started" in processes.last_words("parent"), 20.0)
    assert len(processes._survivors("parent")) == 2
    processes.stop()
    assert processes._survivors("parent") == []
    assert not processes.alive("parent")


POLITE = """
import signal, sys, time
def leave(*_):
    print("told", flush=True)
    time.sleep(0.5)
    print("gone in good order", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, leave)
print("started", flush=True)
time.sleep(60)
"""


def test_programs_are_told_once_and_may_end_in_good_order(tmp_path):
    processes = Programs("test", {}, tmp_path)
    processes.start("polite", [sys.executable, "-c", POLITE])
    wait_for(lambda: "started" in processes.last_words("polite"), 20.0)
    processes.stop("polite")
    assert processes.last_words("polite").splitlines() == ["started", "told", "gone in good order"]


def test_traffic_is_what_the_simulation_sees(tmp_path):
    environment = fb.environments.Linear(clients=3, dim=3, arms=5)
    deployed = Deployed(tmp_path, SETTINGS.algorithm, environment, 20)
    alone = fb.simulate(fb.algorithms.DisLinUCB(threshold=np.inf), environment, 20, 0)
    regrets = [sum(drive(agent, world_of(environment, 20, 0), 20)) for agent in deployed.agents]
    np.testing.assert_allclose(regrets, alone.regret_by_client)


def test_what_the_server_is_told_of_its_agents(tmp_path, capsys):
    open_agent(tmp_path / "agent.db", SETTINGS, 2).close()
    operate.describe(tmp_path / "agent.db")
    assert fingerprint(stored(capsys.readouterr().out, {})) == fingerprint(SETTINGS)


def test_what_operators_see(tmp_path, capsys):
    deployed = Deployed(tmp_path, SETTINGS.algorithm, fb.environments.Linear(clients=3, dim=3, arms=5), 20)
    for step in range(8):
        deployed.live(step)
        deployed.coordinator.step()
    deployed.book.admit(1, "key", 0)
    deployed.book.reject(2, LETTER, "too large")
    with pytest.raises(ConfigError, match=r"holds no server\.db"):
        operate.status(tmp_path / "elsewhere")
    told = operate.status(tmp_path)
    ledger = deployed.coordinator.ledger
    assert told["conversations"] == ledger.conversations > 0
    assert told["bytes"] == {"up": ledger.up.bytes, "down": ledger.down.bytes}
    assert (told["present"], told["known"], told["last_rejected"]) == (3, [1], "agent 2: too large")
    operate.release(tmp_path, 1)
    assert capsys.readouterr().out == "released\n"
    assert deployed.book.bound() == {}
