"""The real thing on bad days: a supervised server whose processes are killed, and a node whose clock is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from flower_worlds import live, settings_of, wait_for
from node_with_a_wrong_clock import ahead_file

import fedbandits as fb
from fedbandits.deploy.flower.conversation.carrier import Patience
from fedbandits.deploy.flower.machine.launch import Federation

pytestmark = pytest.mark.slow
LINEAR = fb.environments.Linear(clients=2, dim=3, arms=5)
PATIENCE = Patience(ring=5.0, answer=8.0, everybody=None, repeat=4.0)


@pytest.fixture
def federation(tmp_path):
    """All but the server."""
    world = LINEAR.world(4000, np.random.SeedSequence(0))
    settings = settings_of(fb.algorithms.DisLinUCB(threshold=0.01), world, 0)
    federation = Federation(tmp_path, settings, interval=0.5, patience=PATIENCE, lasting=True)
    federation.world = world
    try:
        federation.start_superlink()
        federation.register(*(federation.key_path(i).with_suffix(".pub") for i in range(2)))
        for identity in range(2):
            federation.start_node(identity)
        yield federation
    finally:
        federation.stop()


class Supervised:
    """`fedbandits federation serve` as a process of its own, as systemd runs it."""

    def __init__(self, federation):
        self.federation = federation
        self.book = federation.book
        self.start()

    def start(self):
        where = self.federation.directory
        authority = where / "tls" / "ca.crt"
        command = [sys.executable, "-m", "fedbandits", "federation", "serve", str(where)]
        command += ["--superlink", self.federation.control, "--root-certificates", str(authority), "--interval", "0.5"]
        command += ["--wait-for-rings", "5", "--wait-for-answers", "8", "--repeat-after", "4"]
        self.federation.processes.start("supervisor", command)

    def everybody_rings(self, since):
        return self.book.fact("rang_at") > since and self.book.fact("present") == 2

    def wait(self, since, seconds=180.0):
        try:
            wait_for(lambda: self.everybody_rings(since), seconds)
        except AssertionError:
            words = self.federation.processes.last_words
            raise AssertionError("\n".join(words(name) for name in ("supervisor", "superlink", "node-0"))) from None


def test_nobody_has_to_start_the_server_again(federation):
    """The server, the SuperLink and the supervisor are killed in turn, with nodes alive: each time all ring again, and
    in the end no observation is missing.
    """
    supervised = Supervised(federation)
    supervised.wait(0.0)
    agents = [federation.open_agent(identity, durable=False) for identity in range(2)]
    steps = iter(range(4000))

    def synchronise():
        before = federation.book.ledger().conversations
        until = time.monotonic() + 120
        while federation.book.ledger().conversations == before:
            assert time.monotonic() < until, "no conversation"
            live(agents, federation.world, next(steps))
            time.sleep(0.1)

    synchronise()
    killed = time.time()
    federation.kill_server()
    supervised.wait(killed, 60.0)
    assert time.time() - killed < 50, "sooner than Flower itself notices"
    synchronise()

    federation.processes.stop("superlink", kill=True)
    time.sleep(3.0)
    killed = time.time()
    federation.start_superlink()
    supervised.wait(killed)
    synchronise()

    federation.processes.stop("supervisor", kill=True)
    run = federation.book.words("run")
    supervised.start()
    time.sleep(8.0)
    supervised.wait(time.time())
    assert federation.book.words("run") == run, "the run that was there is looked after, not replaced"
    synchronise()
    assert federation.book.fact("restarts") >= 2

    federation.processes.stop("supervisor")
    ended = time.time()
    time.sleep(10.0)
    assert federation.book.fact("rang_at") < ended + 5, "a supervisor that is told to stop stops the server"
    told = federation.book.parts()["server"]["pool.gram"][0]
    fresh = sum(agent.state()["models.fresh.gram"][0] for agent in agents)
    assert np.trace(told + fresh) == pytest.approx(sum(agent.status().rewards for agent in agents))
    for agent in agents:
        agent.close()


def test_a_node_with_a_wrong_clock_says_so_and_comes_back_when_it_is_set(federation):
    processes = federation.processes
    processes.stop("node-1")
    clock = ahead_file(federation.agent_path(1))
    clock.write_text("400")
    federation.start_node(1, name="early", program=[str(Path(__file__).with_name("node_with_a_wrong_clock.py"))])
    refused = "seconds ahead, by the SuperLink's, which refuses it: set it; trying again"
    wait_for(lambda: refused in processes.last_words("early", 1000), 90.0)
    assert re.search("the clock of this machine is (398|399|400) seconds ahead", processes.last_words("early", 1000))
    clock.write_text("0")
    wait_for(lambda: "SuperNode ID" in processes.last_words("early", 1000), 60.0)
    clock.write_text("-1000")
    wait_for(lambda: "seconds behind, by the SuperLink's" in processes.last_words("early", 1000), 60.0)


def test_the_supervisor_needs_a_federation(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fedbandits", "federation", "serve", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "federation.json" in done.stderr
    assert len(done.stderr.splitlines()) == 1
