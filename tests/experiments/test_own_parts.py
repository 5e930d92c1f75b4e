"""Experiment files about algorithms, environments and networks of one's own, by their addresses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap

import pytest

import fedbandits as fb
from fedbandits.contract.catalogue import ConfigError
from fedbandits.experiments import load_experiment, run_experiment

MODULE = """
    from dataclasses import replace
    from typing import Annotated, ClassVar

    import networkx as nx
    from pydantic import Field

    from fedbandits.algorithms import ConsensusUCB, DisLinUCB
    from fedbandits.contract.catalogue import About, AboutEnvironment
    from fedbandits.contract.parameters import parameters
    from fedbandits.environments import Linear
    from fedbandits.graphs.network import AboutNetwork, Network


    @parameters
    class Hasty(DisLinUCB):
        pace: Annotated[int, Field(ge=1)] = 2
        about: ClassVar[About] = replace(DisLinUCB.about, name="hasty")


    @parameters
    class Chatty(ConsensusUCB):
        about: ClassVar[About] = replace(ConsensusUCB.about, name="chatty")


    @parameters
    class Tiny(Linear):
        clients: Annotated[int, Field(ge=1)] = 3
        dim: Annotated[int, Field(ge=1)] = 2
        arms: Annotated[int, Field(ge=1)] = 3
        about: ClassVar[AboutEnvironment] = replace(Linear.about, name="tiny")


    @parameters
    class Wheel(Network):
        spokes: Annotated[int, Field(ge=1)] = 2
        about: ClassVar[AboutNetwork] = AboutNetwork("wheel", "a ring around a hub", "nowhere")

        def _draw(self, n, rng):
            return nx.wheel_graph(n)


    class Lacking:
        pass
"""
EXPERIMENT = """
title = "Own"
source = "ours"
[environment]
name = "{module}:Tiny"
clients = 4
[run]
horizon = 20
seeds = 2
[algorithms.own]
name = "{module}:Hasty"
threshold = 0.5
[algorithms.built-in]
name = "dislinucb"
threshold = 0.5
[sweep]
"algorithms.own.pace" = [1, 3]
[[claims]]
kind = "between"
text = "there is regret"
metric = "regret"
of = "own"
low = 0.0
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the current directory that nobody has imported yet; its name."""
    name = f"own_parts_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def load(tmp_path, module):
    def loaded(change=lambda text: text):
        path = tmp_path / "mine.toml"
        path.write_text(change(EXPERIMENT.format(module=module)))
        return load_experiment(path)

    return loaded


def test_they_are_found_checked_and_swept_over_like_those_built_in(load, module):
    experiment = load()
    own = sys.modules[module]
    assert [(case.label, dict(case.point)) for case in experiment.cases] == [
        ("own", {"pace": 1}),
        ("own", {"pace": 3}),
        ("built-in", {}),
    ]
    assert experiment.cases[1].algorithm == own.Hasty(threshold=0.5, pace=3)
    assert {case.environment for case in experiment.cases} == {own.Tiny(clients=4)}


def test_they_are_run_kept_and_found_again(load, tmp_path):
    first = run_experiment(load(), out=tmp_path / "out")
    assert [claim.text for claim in first.claims] == ["there is regret"]
    own = first.settings["algorithms"]["own"]
    assert (own["name"], own["threshold"], own["pace"]) == ("hasty", 0.5, "swept")
    assert first.settings["environment"]["name"] == "tiny"
    regret = first.final().pivot_table("regret", "seed", ["algorithm", "pace"], dropna=False)
    assert regret["own", 1.0].tolist() == regret["own", 3.0].tolist()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()}
    assert len(before) == 6
    again = run_experiment(load(), out=tmp_path / "out")
    assert again.frame.equals(first.frame)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()} == before


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "threshold = 0.5\n[algorithms.b",
            "treshold = 0.5\n[algorithms.b",
            "hasty has no parameter 'treshold'; did you",
        ),
        (
            "threshold = 0.5\n[algorithms.b",
            "threshold = -1\n[algorithms.b",
            "hasty: threshold: must be greater than or",
        ),
        ("[1, 3]", "[1, 0]", "algorithms.own: hasty: pace: must be greater than or equal to 1 (got 0)"),
        (":Hasty", ":Hasti", "algorithms.own: algorithm 'MODULE:Hasti': no 'Hasti' there; did you mean 'Hasty'?"),
        (":Hasty", ":Lacking", "algorithms.own: algorithm 'MODULE:Lacking': Lacking lacks about and agents and server"),
        (":Hasty", "x:Hasty", "algorithms.own: algorithm 'MODULEx:Hasty': there is no module 'MODULEx', neither"),
        (
            ":Tiny",
            ":Hasty",
            "environment: environment 'MODULE:Hasty': Hasty lacks world; see docs/adding-an-environment",
        ),
        ("clients = 4", "cliants = 4", "environment: tiny has no parameter 'cliants'; did you mean 'clients'?"),
        (":Hasty", ":Chatty", "algorithms.own: chatty has no parameter "),
    ],
)
def test_errors_name_file_table_and_fix(load, module, old, new, error):
    with pytest.raises(ConfigError) as caught:
        load(lambda text: text.replace(old, new))
    assert str(caught.value).startswith("mine.toml: ")
    assert error.replace("MODULE", module) in str(caught.value)


PEERS = """
title = "Own"
source = "ours"
[environment]
name = "bernoulli"
clients = 5
[run]
horizon = 10
[algorithms.own]
name = "{module}:Chatty"
"""


def test_who_talks_on_a_graph_needs_one_which_may_be_ones_own_too(load, module):
    def peers(more):
        return load(lambda _: PEERS.format(module=module) + more.replace("MODULE", module))

    with pytest.raises(
        ConfigError, match=r"algorithms\.own: \w+:Chatty talks on a graph; give \[network\] with a name"
    ):
        peers("")
    network = peers("[network]\nname = 'MODULE:Wheel'\nspokes = 3\n").cases[0].options.network
    assert (network.about.name, network.spokes) == ("wheel", 3)
    swept = peers("[network]\nttl = 2\n[sweep]\nnetwork.name = ['ring', 'MODULE:Wheel']\n").cases
    assert [case.options.network.about.name for case in swept] == ["ring", "wheel"]
    for more, error in (
        (
            "[network]\nname = 'MODULE:Wheal'\n",
            r"network: network '\w+:Wheal': no 'Wheal' there; did you mean 'Wheel'\?",
        ),
        ("[sweep]\nnetwork.name = ['ring', 'MODULE:Wheal']\n", r"network: network '\w+:Wheal': no 'Wheal' there"),
        (
            "[network]\nspokes = 3\n[sweep]\nnetwork.name = ['ring', 'MODULE:Wheel']\n",
            r"network\.spokes: ring has no such",
        ),
    ):
        with pytest.raises(ConfigError, match=f"^mine.toml: {error}"):
            peers(more)


@pytest.mark.slow
def test_the_command_line_runs_them_in_several_processes(load, tmp_path):
    """As an installed program, which does not look into the current directory by itself."""
    load()
    direct = run_experiment(tmp_path / "mine.toml").final()
    program = [sys.executable, "-P", "-m", "fedbandits", "run", "mine.toml", "--jobs", "2", "--out", "out"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, env=plain, check=False)
    assert done.returncode == 0, done.stderr
    held = fb.Results.load(tmp_path / "out").final()
    assert held.drop(columns="seconds").equals(direct.drop(columns="seconds"))
    assert re.search(r"there is regret", done.stdout)
