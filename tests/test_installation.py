"""What an installation needs: the agent little, the first commands no extras, and what needs more says which."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import numpy as np
import pytest

from fedbandits.contract.errors import ConfigError
from fedbandits.data.text import count_words
from fedbandits.privacy import tight

ROOT = Path(__file__).parent.parent
MODULES = {"scikit-learn": "sklearn", "dp-accounting": "dp_accounting"}
AGENT = """
import fedbandits as fb

with fb.deploy.Agent.open("agent.db", algorithm=fb.algorithms.DisLinUCB(threshold=2.0), dim=2) as agent:
    agent.reward(agent.decide([[1.0, 0.0], [0.0, 1.0]]).id, 1.0)
with fb.deploy.Agent.open("agent.db") as agent:
    assert agent.status().rewards == 1
"""
FIRST_COMMANDS = """
from fedbandits.cli import app

for words in (
    ["list"],
    ["compare", "-a", "dislinucb:threshold=2", "-a", "random", "-e", "linear:clients=2,dim=2", "-T", "20", "-s", "2",
     "-j", "1", "--out", "out"],
    ["report", "out"],
):
    app(words, standalone_mode=False)
"""


def required(extra: str | None = None) -> set[str]:
    """What a plain installation asks for, or what an extra adds to it."""
    wanted = "extra ==" if extra is None else f'extra == "{extra}"'
    listed = [line.replace("'", '"') for line in requires("fedbandits") or []]
    chosen = [line for line in listed if (wanted in line) == (extra is not None)]
    return {re.split(r"[\[<>=!~; ]", line)[0].lower() for line in chosen}


def run_without(modules: set[str], program: str, directory: Path) -> None:
    """Run `program` where `modules` cannot be imported."""
    hide = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {modules!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    done = subprocess.run([sys.executable, "-c", hide + program], cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def modules_of(packages: set[str]) -> set[str]:
    return {MODULES.get(package, package.replace("-", "_")) for package in packages}


def test_an_agent_needs_no_more_than_the_documentation_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    [line] = re.findall(r"^\$ pip install (numpy .*)$", page, re.MULTILINE)
    needed = set(line.split())
    assert needed < required()
    run_without(modules_of(required() - needed), AGENT, tmp_path)


def test_the_first_commands_need_no_extra(tmp_path: Path) -> None:
    extras = {"data", "privacy", "ray", "deploy"}
    hidden = {name for extra in extras for name in modules_of(required(extra))}
    assert {"sklearn", "dp_accounting", "ray", "flwr"} <= hidden
    run_without(hidden - {"click"}, FIRST_COMMANDS, tmp_path)


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        (lambda: count_words(["one", "two"]), "data"),
        (lambda: tight(np.ones(2), 1e-6), "privacy"),
    ],
)
def test_what_needs_an_extra_names_it(call, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedbandits.contract.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=rf"pip install 'fedbandits\[{extra}\]'"):
        call()
