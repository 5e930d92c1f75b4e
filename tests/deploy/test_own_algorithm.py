"""An algorithm of one's own, in a file outside of the package: made, served and opened again by the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

MODULE = '''
"""An algorithm that is nobody's but mine."""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population


@parameters
class Periodic:
    """Takes all arms in turn, each `every` times."""

    every: Annotated[int, Field(ge=1)] = 1

    about: ClassVar[About] = About(
        name="periodic", family="own", topology="alone", talks="never", says=(), guarantee="none", source="here",
        calls="never",
    )

    def agents(self, problem, n, rng):
        return InTurn(n, self.every)

    def server(self, problem, n, rng):
        return None


class InTurn(Population):
    keeps = ("turns",)

    def __init__(self, n, every):
        super().__init__(n)
        self._every = every
        self.turns = np.zeros(n, dtype=np.int64)

    def choose(self, who, arms):
        self.turns[who] += 1
        return (self.turns[who] - 1) // self._every % arms.shape[1]

    def learn(self, who, arms, picks, rewards):
        pass
'''
CONFIGURATION = """
[agent]
dim = 2

[agent.algorithm]
name = "my_module:Periodic"
every = 2

[facts]
range = [0, 1]
"""


def fedbandits(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as it was installed, which does not look into the current directory by itself."""
    program = Path(sys.executable).with_name("fedbandits")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(program), *arguments], cwd=where, env=environment, text=True, capture_output=True, timeout=120, check=False
    )


def made(where: Path) -> None:
    """An agent in `where`, by a Python program of its owner's."""
    program = (
        "from my_module import Periodic\nfrom fedbandits.deploy import Agent\n"
        "with Agent.open('agent.db', Periodic(every=2), 2) as agent:\n"
        "    agent.decide([[1, 0], [0, 1]])\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=where, check=True, timeout=120)


@pytest.fixture
def where(tmp_path: Path) -> Path:
    (tmp_path / "my_module.py").write_text(MODULE)
    (tmp_path / "agent.toml").write_text(CONFIGURATION)
    return tmp_path


@pytest.mark.slow
def test_an_agent_that_a_program_made_is_opened_by_the_command_line(where):
    made(where)
    found = fedbandits(where, "agent", "status", "agent.db", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["algorithm"] == "periodic"
    assert json.loads(found.stdout)["decisions"] == 1
    assert (
        fedbandits(where, "agent", "forget", "agent.db", "--before", "2100-01-01").stdout == "1 decisions forgotten\n"
    )


@pytest.mark.slow
def test_where_the_module_is_not_found_the_command_says_what_is_missing(where):
    made(where)
    (where / "elsewhere").mkdir()
    found = fedbandits(where / "elsewhere", "agent", "status", "../agent.db")
    assert found.returncode != 0
    assert "there is no module 'my_module', neither installed nor in the current directory" in " ".join(
        found.stderr.split()
    )
    (where / "my_module.py").write_text(MODULE.replace("class Periodic", "class Aperiodic"))
    found = fedbandits(where, "agent", "status", "agent.db")
    assert "algorithm 'my_module:Periodic': no 'Periodic' there; did you mean 'Aperiodic'?" in " ".join(
        found.stderr.split()
    )


@pytest.mark.slow
def test_an_agent_of_agent_toml_is_served(where):
    pytest.importorskip("fastapi", reason="needs the extra 'deploy'")
    pytest.importorskip("prometheus_client", reason="needs the extra 'deploy'")
    program = Path(sys.executable).with_name("fedbandits")
    for start in range(2):
        options = ("--config", "agent.toml") if start == 0 else ()
        process = subprocess.Popen(
            [str(program), "agent", "serve", "agent.db", "--port", "0", "--no-token", *options],
            cwd=where,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            said, port = "", None
            while port is None:
                line = process.stderr.readline()
                said += line
                assert line, said
                port = re.search(r"on http://[^ ]+:([0-9]+)$", line.strip())
            picks = []
            connection = HTTPConnection("127.0.0.1", int(port[1]), timeout=30)
            for _ in range(2):
                body = json.dumps({"arms": {"a": [1, 0], "b": [0, 1]}})
                connection.request("POST", "/decisions", body, {"Content-Type": "application/json"})
                picks.append(json.loads(connection.getresponse().read())["arm"])
            connection.close()
            assert picks == (["a", "a"] if start == 0 else ["b", "b"]), "it goes on where it was"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
            process.wait()
            process.stderr.close()
    found = fedbandits(where, "agent", "status", "agent.db", "--json")
    assert json.loads(found.stdout)["decisions"] == 4


@pytest.mark.slow
def test_mistakes_in_agent_toml_are_named(where):
    for wrong, words in (
        ("my_module:InTurn", "InTurn lacks about and agents and server"),
        ("periodic", "unknown algorithm 'periodic'; known are"),
    ):
        (where / "agent.toml").write_text(CONFIGURATION.replace("my_module:Periodic", wrong))
        found = fedbandits(where, "agent", "serve", "new.db", "--config", "agent.toml", "--no-token")
        assert found.returncode == 2, found.stderr
        assert words in " ".join(found.stderr.split())
    (where / "agent.toml").write_text(CONFIGURATION.replace("every", "evry"))
    found = fedbandits(where, "agent", "serve", "new.db", "--config", "agent.toml", "--no-token")
    assert "periodic has no parameter 'evry'; did you mean 'every'?" in " ".join(found.stderr.split())
    assert not (where / "new.db").exists()
