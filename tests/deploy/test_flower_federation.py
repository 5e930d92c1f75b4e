"""The real thing: SuperLink with TLS, authenticated nodes and the server as processes of their own, on loopback.

Everything here starts at least five processes and takes minutes; the federation's own logic is tested without them in
`test_flower_coordinator`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from deployed_algorithms import home
from flower_worlds import Federated, Simulated, assert_same, live, wait_for
from misbehaving_node import LIES, LOSES, REPLAYS, behave
from toy_algorithms import DelicatePoints

import fedbandits as fb
from fedbandits.deploy.backup import back_up
from fedbandits.deploy.flower.conversation.carrier import Patience
from fedbandits.deploy.flower.machine.certificates import make_key
from fedbandits.deploy.flower.machine.launch import Federation
from fedbandits.deploy.flower.operating.sifting import drop

pytestmark = pytest.mark.slow
LINEAR = fb.environments.Linear(clients=3, dim=3, arms=5)
DISLINUCB = fb.algorithms.DisLinUCB(threshold=0.5)
PATIENCE = Patience(ring=8.0, answer=8.0, everybody=None, repeat=4.0)


class Run(Federated):
    """A federation on loopback, its agents opened here as products would, and the same in a simulation."""

    def __init__(self, where, algorithm, environment, horizon, **how):
        super().__init__(algorithm, environment, horizon)
        self.federation = Federation(where, self.settings, **({"interval": -1, "patience": PATIENCE} | how))
        self.simulated = Simulated(self)

    def __enter__(self):
        self.federation.__enter__()
        self.agents = [self.federation.open_agent(i, durable=False) for i in range(self.settings.agents)]
        return self

    def __exit__(self, *exception):
        for agent in self.agents:
            agent.close()
        self.federation.__exit__(*exception)

    def step(self, step):
        """Everybody decides here and in the simulation, then both servers have the floor."""
        self.live(step)
        self.federation.floor()
        self.simulated.converse()

    def live(self, step):
        assert live(self.agents, self.world, step).tolist() == self.simulated.live(step).tolist()

    def until_somebody_calls(self):
        step = 0
        while not self.simulated.calling().size:
            self.live(step)
            step += 1

    @property
    def ledger(self):
        return self.federation.book.parts()["ledger"]

    def assert_equal(self):
        assert_same([agent.state() for agent in self.agents], self.simulated.states())
        np.testing.assert_array_equal(self.ledger["counts"], self.simulated.ledger.counts)
        assert self.ledger["conversations"] == self.simulated.ledger.conversations

    @property
    def talks(self):
        return int(self.simulated.ledger.conversations)


ALGORITHMS = {
    "dislinucb": (DISLINUCB, LINEAR, 4),
    "hetofedbandit": (fb.algorithms.HetoFedBandit(threshold=0.5, explore=2), home("hetofedbandit", clients=3), 5),
    "fedglb-ucb": (
        fb.algorithms.FedGLBUCB(threshold=0.5, scale=0.1, momentum="strong", cap=4),
        home("fedglb-ucb", clients=3),
        3,
    ),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_equals_the_simulation(name, tmp_path):
    algorithm, environment, horizon = ALGORITHMS[name]
    with Run(tmp_path, algorithm, environment, horizon) as run:
        for step in range(horizon):
            run.step(step)
            run.assert_equal()
        assert run.talks > 0
        assert run.federation.book.rejections() == []


def test_flowers_own_node_serves_the_same_application(tmp_path):
    """It starts a process for every message: slower, and with the same result."""
    patience = Patience(ring=60.0, answer=90.0, everybody=None, repeat=90.0)
    with Run(tmp_path, DISLINUCB, LINEAR, 4, patience=patience) as run:
        run.federation.processes.stop("node-1")
        own = str(Path(sys.executable).with_name("flower-supernode"))
        run.federation.start_node(1, name="flowers-own", program=[own])
        wait_for(lambda: "SuperNode ID" in run.federation.processes.last_words("flowers-own", 1000), 90.0)
        step = 0
        while run.talks == 0:
            run.step(step)
            step += 1
        run.assert_equal()
        assert run.agents[1].status().letters == 2


def started(path: Path) -> list[int]:
    """The processes that know of a directory by their command lines."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(path).encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def test_a_node_killed_in_the_middle_of_a_conversation_and_restarted(tmp_path):
    """It is killed between the question and its answer; the conversation waits, and ends as if nothing had happened."""
    algorithm, environment, _ = ALGORITHMS["fedglb-ucb"]
    with Run(tmp_path, algorithm, environment, 6) as run:
        run.until_somebody_calls()
        granted = run.federation.book.grant()
        wait_for(lambda: run.federation.book.cut() is not None)
        run.federation.processes.stop("node-1", kill=True)
        time.sleep(2.0)
        assert run.federation.book.cut() is not None, "the conversation ended without one that it needs"
        run.federation.start_node(1)
        wait_for(lambda: run.federation.book.fact("taken") >= granted, 120.0)
        run.simulated.converse()
        run.assert_equal()


def test_the_server_killed_in_the_middle_of_a_conversation_and_restarted(tmp_path):
    algorithm, environment, _ = ALGORITHMS["fedglb-ucb"]
    with Run(tmp_path, algorithm, environment, 6) as run:
        run.until_somebody_calls()
        run.federation.book.grant()
        wait_for(lambda: run.federation.book.turn(0) is not None)
        run.federation.kill_server()
        assert run.federation.book.cut() is not None
        run.federation.start_server()
        # nodes wait for the rest of what the server was about to say, and give up on it only after a while
        wait_for(lambda: run.federation.book.cut() is None, 120.0)
        run.simulated.converse()
        run.assert_equal()


def test_a_node_cut_off_for_several_rounds(tmp_path):
    """The others go on without it; when it is back it takes part again, and no observation is missing."""
    with Run(tmp_path, DISLINUCB, LINEAR, 12) as run:
        run.federation.processes.stop("node-2", kill=True)
        (run.federation.directory / "logs" / "node-2.log").unlink()
        for step in range(4):
            live(run.agents, run.world, step)
            run.federation.floor()
        before = run.ledger["conversations"]
        assert before > 0
        assert run.agents[2].status().letters == 0
        run.federation.start_node(2)
        wait_for(lambda: run.federation.processes.last_words("node-2").count("SuperNode ID") == 1, 90.0)
        for step in range(4, 8):
            live(run.agents, run.world, step)
            run.federation.floor()
        assert run.ledger["conversations"] > before
        assert run.agents[2].status().letters > 0
        told = run.federation.book.parts()["server"]["pool.gram"][0]
        fresh = sum(agent.state()["models.fresh.gram"][0] for agent in run.agents)
        # arms have norm 1 in this environment: the trace counts observations
        assert np.trace(told + fresh) == pytest.approx(sum(agent.status().rewards for agent in run.agents))


def test_strangers_and_impostors_are_refused(tmp_path):
    with Run(tmp_path, DISLINUCB, LINEAR, 12) as run:
        federation = run.federation
        stranger, impostor = tmp_path / "keys" / "stranger", tmp_path / "keys" / "impostor"
        make_key(stranger)
        federation.register(make_key(impostor))
        federation.start_node(0, key=stranger, name="stranger")
        wait_for(lambda: "refused: " in federation.processes.last_words("stranger"), 60.0)
        federation.floor()
        assert "SuperNode ID" not in federation.processes.last_words("stranger", 1000)
        federation.processes.stop("stranger")
        federation.start_node(0, key=impostor, name="impostor")
        wait_for(lambda: "SuperNode ID" in federation.processes.last_words("impostor"), 60.0)
        federation.floor()
        assert [rejection.identity for rejection in federation.book.rejections()] == [0]
        assert "another key speaks" in federation.book.rejections()[0].why
        assert "another key speaks" in (tmp_path / "server.log").read_text()
        run.step(0)
        run.step(1)
        run.assert_equal()


def misbehave(run, identity, behaviour):
    """Let a node that misbehaves take the place of an agent's."""
    behave(run.federation.agent_path(identity), behaviour)
    run.federation.processes.stop(f"node-{identity}")
    run.federation.start_node(
        identity, name="misbehaving", program=[str(Path(__file__).with_name("misbehaving_node.py"))]
    )
    wait_for(lambda: "SuperNode ID" in run.federation.processes.last_words("misbehaving"), 90.0)


def test_a_node_that_lies_is_named_and_the_others_go_on_unpolluted(tmp_path):
    """Their run is the one in which the liar cannot be reached."""
    with Run(tmp_path, DISLINUCB, LINEAR, 60) as run:
        run.simulated.carrier.reachable = np.array([True, False, True])
        misbehave(run, 1, "nan")
        step = 0
        for number, lie in enumerate(LIES, 1):
            behave(run.federation.agent_path(1), lie)
            while run.talks < number:
                picks = live(run.agents, run.world, step)
                assert picks[[0, 2]].tolist() == run.simulated.live(step)[[0, 2]].tolist()
                run.federation.floor()
                run.simulated.converse()
                step += 1
            assert len(run.federation.book.rejections()) == number, lie
        assert_same([agent.state() for agent in run.agents[::2]], run.simulated.states()[::2])
        reasons = [rejection.why for rejection in run.federation.book.rejections()]
        for why, expected in zip(reasons, ("finite", "shape", "symmetric", "semidefinite", "trace"), strict=True):
            assert expected in why
        assert {rejection.identity for rejection in run.federation.book.rejections()} == {1}
        log = (tmp_path / "server.log").read_text()
        assert all(f"rejected: {why}" in log for why in reasons)
        assert log.count("agent 1:") == len(LIES)


def test_a_node_that_spoils_conversations_is_found_and_left_out(tmp_path, monkeypatch):
    """The server has a mistake in it: it goes on, in the same process, and so it does when it is killed."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with Run(tmp_path, DelicatePoints(), LINEAR, 60) as run:
        book, pid = run.federation.book, run.federation.book.fact("pid")
        misbehave(run, 1, "thirteen")
        for step in range(12):
            live(run.agents, run.world, step)
            run.federation.floor()
        assert [entry.guilty for entry in book.quarantine.entries()] == [(1,)] * 3
        assert list(book.quarantine.suspended()) == [1]
        assert book.fact("pid") == pid
        assert book.parts()["server"]["total"][0] == 24.0
        assert "agent 1 is left out until quarantine 3" in (tmp_path / "server.log").read_text()
        behave(run.federation.agent_path(1), "honest")
        drop(tmp_path, 3)
        for step in range(12, 16):
            live(run.agents, run.world, step)
            run.federation.floor()
        assert len(book.quarantine.entries()) == 3
        assert book.parts()["server"]["total"][0] >= 42.0, "what was given back was handed over again"


def test_messages_that_are_replayed_or_lost_change_nothing(tmp_path):
    with Run(tmp_path, DISLINUCB, LINEAR, 12) as run:
        misbehave(run, 1, REPLAYS)
        for step in range(4):
            run.step(step)
            run.assert_equal()
        talks = run.talks
        assert talks > 0
        assert run.federation.book.fact("resent") == 0
        behave(run.federation.agent_path(1), LOSES)
        for step in range(4, 8):
            run.step(step)
            run.assert_equal()
        assert run.talks > talks
        assert run.federation.book.fact("resent") > 0
        assert run.federation.book.rejections() == []


def test_an_agent_restored_from_a_backup_is_refused_until_it_is_released(tmp_path):
    """It would hand over a second time what it has handed over since."""
    with Run(tmp_path, DISLINUCB, LINEAR, 40) as run:
        federation, path, copy = run.federation, run.federation.agent_path(1), tmp_path / "backup.db"
        back_up(path, copy)
        step = 0
        while run.talks < 2:
            run.step(step)
            step += 1
        federation.processes.stop("node-1")
        run.agents[1].close()
        for name in (path, path.with_name("agent-1.db-wal"), path.with_name("agent-1.db-shm")):
            name.unlink(missing_ok=True)
        back_up(copy, path)
        federation.start_node(1, name="restored")
        wait_for(lambda: "SuperNode ID" in federation.processes.last_words("restored"), 90.0)
        federation.floor()
        (rejection,) = federation.book.rejections()
        assert rejection.identity == 1
        assert "letters ago" in rejection.why
        assert federation.book.fact("present") == 2
        assert federation.book.release(1)
        federation.floor()
        assert federation.book.fact("present") == 3


def test_everything_that_was_started_is_stopped(tmp_path):
    def interrupted():
        with Run(tmp_path, DISLINUCB, LINEAR, 4):
            assert len(started(tmp_path)) >= 4
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert started(tmp_path) == []


def test_the_demonstration_stops_everything_on_ctrl_c(tmp_path):
    where = tmp_path / "kept"
    command = [str(Path(sys.executable).with_name("fedbandits")), "federation", "demo", "--out", str(where)]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for(lambda: (where / "agents" / "agent-4.db").exists() and len(started(where)) >= 10, 120.0)
    demo.send_signal(signal.SIGINT)
    printed, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, printed
    assert "Traceback" not in printed
    assert [pid for pid in started(where) if pid != demo.pid] == []


LAUNCHER = """
import sys, time
from pathlib import Path
import fedbandits as fb
from fedbandits.deploy.flower.machine.launch import Federation
from fedbandits.deploy.settings import Settings
settings = Settings(algorithm=fb.algorithms.DisLinUCB(), dim=2, agents=1)
with Federation(Path(sys.argv[1]), settings):
    print("started", flush=True)
    time.sleep(600)
"""


def test_nothing_is_left_behind_by_a_launcher_that_was_killed(tmp_path):
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, str(tmp_path)], stdout=subprocess.PIPE)
    assert launcher.stdout.readline() == b"started\n"
    assert len(started(tmp_path)) >= 3
    launcher.kill()
    launcher.wait()
    wait_for(lambda: started(tmp_path) == [], 60.0)


def test_the_demonstration(tmp_path):
    from fedbandits.deploy.flower.machine.demo import run_demo

    result = run_demo(agents=2, steps=60, pace=5.0, directory=tmp_path)
    assert result.decisions == 120
    assert result.synchronisations > 0
    assert result.messages == 4 * result.synchronisations
    assert started(tmp_path) == []
