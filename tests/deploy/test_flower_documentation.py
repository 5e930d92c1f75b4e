"""A reader follows `docs/deploy` on one machine: every command of both pages as it is printed, with other addresses."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from fedbandits.deploy import Agent
from fedbandits.deploy.flower.machine.ports import free_ports, listens
from fedbandits.deploy.flower.machine.processes import Programs

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs" / "deploy"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {"pip install 'fedbandits[deploy]'", "fedbandits federation demo"}
"""Commands that other tests run: installation, and the demonstration."""


def commands(page: str) -> list[str]:
    """Everything that a page tells its reader to type. A command ends where its quotes are closed."""
    found: list[str] = []
    for kind, content in FENCE.findall((DOCS / page).read_text(encoding="utf-8")):
        unfinished = False
        for line in content.splitlines() if kind == "console" else ():
            if unfinished:
                found[-1] += "\n" + line
            elif line.startswith("$ "):
                found.append(line.removeprefix("$ "))
            else:
                continue  # what the command prints
            try:
                shlex.split(found[-1])
                unfinished = found[-1].endswith("\\")
            except ValueError:
                unfinished = True
    return found


class Reader:
    """Three machines in three directories, and the pages' commands, each to be found by how it begins."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self.server = where / "server"
        self.sites = [where / f"site-{number}" for number in range(2)]
        for machine in (self.server, *self.sites):
            machine.mkdir()
        self.port, self.control_port, *self.node_ports = free_ports(4)
        self.environment = {
            "FLWR_HOME": str(where / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "no_proxy": "127.0.0.1",
            "NO_PROXY": "127.0.0.1",
            "COLUMNS": "200",
        }
        self.processes = Programs("reader", self.environment, where / "logs")
        self.left = commands("index.md") + commands("operations.md")
        self.known = dict.fromkeys(self.left)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.processes.stop()

    def here(self, text: str, site: int = 0) -> str:
        """What the pages say, on this machine."""
        for there, here in (
            ("127.0.0.1:9093", f"127.0.0.1:{self.control_port}"),
            ("--port 9093", f"--port {self.control_port}"),
            ("superlink.example:9092", f"127.0.0.1:{self.port}"),
            ("--port 9092", f"--port {self.port}"),
            ("--port 9100", f"--port {self.node_ports[site]}"),
            ("superlink.example", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.1"),
            ("/srv/federation", str(self.server)),
            ("/srv/site", str(self.sites[site])),
            ("identity=0", f"identity={site}"),
        ):
            text = text.replace(there, here)
        return text

    def find(self, beginning: str) -> str:
        (command,) = [command for command in self.known if command.startswith(beginning)]
        if command in self.left:
            self.left.remove(command)
        return command

    def type(self, beginning: str, on: Path, site: int = 0, added: str = "", **meaning: str) -> str:
        """Run a command of the pages on a machine to its end; what it prints."""
        command = f"{self.here(self.find(beginning), site)} {added}"
        for name, value in meaning.items():
            command = command.replace(name, value)
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=on,
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, name: str, beginning: str, on: Path, site: int = 0) -> None:
        """Start a command of the pages that does not end."""
        command = self.here(self.find(beginning), site)
        self.processes.start(name, ["bash", "-c", f"cd {shlex.quote(str(on))} && exec {command}"])

    # what the reader does more than once

    def start_superlink(self) -> None:
        self.start("superlink", "flower-superlink", self.server)
        self.until(lambda: listens(self.control_port))
        self.start("gate", "fedbandits federation gate", self.server)
        self.until(lambda: listens(self.port))

    def start_server(self) -> None:
        self.start("server", "fedbandits federation serve", self.server)

    def start_node(self, site: int) -> None:
        self.start(f"node-{site}", "python -m fedbandits.deploy.flower.node", self.sites[site], site)

    def offline(self) -> list[str]:
        """The nodes that Flower takes for offline."""
        return re.findall(r"(\d{12,}).*offline", self.type("flwr supernode ls", self.server))

    def status(self) -> dict:
        return json.loads(self.type("fedbandits federation status", self.server, added="--json"))

    def words(self, name: str) -> str:
        return self.processes.last_words(name, 10_000)

    def until(self, reached, seconds: float = 90.0) -> None:
        end = time.monotonic() + seconds
        while not reached():
            logs = "\n".join(self.processes.last_words(name) for name in ("superlink", "gate", "node-0", "node-1"))
            assert time.monotonic() < end, f"waited in vain:\n{logs}"
            time.sleep(0.5)

    def everybody_is_there(self, since: float) -> bool:
        """Whether the server has rung since, and both answered."""
        status = self.status() if (self.server / "server.db").exists() else {}
        ringing = status.get("seconds_since_ring")
        return ringing is not None and ringing < time.time() - since and status["present"] == 2

    def synchronise(self) -> None:
        """Decide and learn on both sites until the server holds a conversation."""
        before = self.status()["conversations"]
        rng = np.random.default_rng(before)
        agents = [Agent.open(site / "agent.db", warm=False, durable=False) for site in self.sites]
        for _ in range(200):
            for agent in agents:
                features = rng.standard_normal((4, 3))
                decision = agent.decide(features / np.linalg.norm(features, axis=1, keepdims=True))
                agent.reward(decision.id, float(rng.integers(2)))
        for agent in agents:
            agent.close()
        self.until(lambda: self.status()["conversations"] > before)


@pytest.fixture
def reader(tmp_path):
    with Reader(tmp_path) as reader:
        yield reader


def test_everything_that_the_pages_tell_to_type_does_what_they_say(reader):
    from_the_simulator_to_three_machines(reader)
    operations(reader)
    assert set(reader.left) <= ELSEWHERE, "these commands were not tried"


def from_the_simulator_to_three_machines(reader):
    for number, site in enumerate(reader.sites):
        reader.type("python -c '\nimport fedbandits", site, number)
        assert reader.type("fedbandits federation key node", site) == "node.pub is to be registered\n"
        shutil.copy(site / "node.pub", reader.server / f"site-{number}.pub")
    reader.type("fedbandits federation describe", reader.sites[0])
    shutil.copy(reader.sites[0] / "federation.json", reader.server)
    reader.type("fedbandits federation certificates", reader.server)
    reader.start_superlink()
    (configuration,) = [text for kind, text in FENCE.findall((DOCS / "index.md").read_text()) if kind == "toml"]
    (reader.where / "flwr").mkdir(exist_ok=True)
    (reader.where / "flwr" / "config.toml").write_text(reader.here(configuration))
    for number in range(2):
        reader.type(f"flwr supernode register site-{number}.pub", reader.server)
    began = time.time()
    reader.start_server()
    for number, site in enumerate(reader.sites):
        shutil.copy(reader.server / "tls" / "ca.crt", site)
        reader.start_node(number)
    reader.until(lambda: reader.everybody_is_there(began))
    reader.synchronise()
    told = reader.type("python -c '\nfrom fedbandits.deploy import Agent", reader.sites[0])
    assert told.startswith("Status(decisions=201, rewards=201,")


def operations(reader):
    assert re.search(r"present +2 *\n", reader.type("fedbandits federation status", reader.server))
    assert re.search(r"decisions +201 *\n", reader.type("fedbandits agent status", reader.server))
    agent = json.loads(reader.type("fedbandits agent status", reader.server, added="--json"))
    assert agent["synchronised_at"] is not None

    # backup
    reader.type("fedbandits agent backup /srv/site/agent.db", reader.sites[0])
    reader.type("fedbandits agent backup /srv/federation/server.db", reader.server)
    with Agent.open(reader.sites[0] / "agent-backup.db", warm=False) as copy:
        assert copy.status().decisions == 201
    assert (reader.server / "server-backup.db").exists()

    # check
    reader.type("fedbandits agent check /srv/site/agent.db", reader.sites[0])
    reader.type("fedbandits agent check /srv/federation/server.db", reader.server)

    # forget
    assert reader.type("fedbandits agent forget", reader.sites[0]) == "0 decisions forgotten\n"

    # upgrade
    reader.processes.stop("server")
    reader.until(lambda: reader.status()["seconds_since_ring"] > 20)
    began = time.time()
    reader.start_server()
    reader.until(lambda: reader.everybody_is_there(began))
    reader.synchronise()

    # a new key
    reader.processes.stop("node-0")
    reader.type("mv node", reader.sites[0])
    reader.type("fedbandits federation key node", reader.sites[0])
    shutil.copy(reader.sites[0] / "node.pub", reader.server / "site-0.pub")
    reader.type("flwr supernode register site-0.pub", reader.server)
    reader.until(lambda: reader.offline())
    reader.type("flwr supernode unregister", reader.server, NODE_ID=reader.offline()[0])
    assert reader.type("fedbandits federation release", reader.server) == "released\n"
    began = time.time()
    reader.start_node(0)
    reader.until(lambda: reader.everybody_is_there(began))
    reader.synchronise()

    # members
    assert reader.type("fedbandits federation quarantine list", reader.server) == ""
    assert "distance" in reader.type("fedbandits federation influence", reader.server)
    assert "takes it out" in reader.type("fedbandits federation expel", reader.server)

    def standing() -> str:
        return json.loads(reader.type("fedbandits federation influence", reader.server, added="--json"))[1]["standing"]

    reader.until(lambda: standing() == "removed")
    assert "let in again" in reader.type("fedbandits federation readmit", reader.server)
    began = time.time()
    reader.until(lambda: reader.everybody_is_there(began))

    # a new certificate
    reader.type("fedbandits federation certificates", reader.server)
    reader.processes.stop("superlink", "gate")
    began = time.time()
    reader.start_superlink()
    reader.until(lambda: reader.everybody_is_there(began), 180.0)
    reader.synchronise()
