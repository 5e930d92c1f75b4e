"""`fedbandits federation`: what operators type, as far as no federation has to be started for it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="needs the extra deploy")

import fedbandits as fb
from fedbandits.cli.app import app
from fedbandits.deploy import Agent


def typed(*words):
    return CliRunner().invoke(app, ["federation", *map(str, words)])


def test_keys_and_certificates(tmp_path):
    made = typed("key", tmp_path / "node")
    assert made.exit_code == 0
    assert (tmp_path / "node.pub").exists()
    assert (tmp_path / "node").stat().st_mode & 0o077 == 0
    again = typed("key", tmp_path / "node")
    assert again.exit_code != 0
    assert typed("certificates", tmp_path / "tls", "superlink.example", "127.0.0.1").exit_code == 0
    assert {path.name for path in (tmp_path / "tls").iterdir()} >= {"ca.crt", "server.crt", "server.key"}


def test_what_the_server_has_to_know(tmp_path):
    algorithm = fb.algorithms.DisLinUCB(threshold=2.0)
    Agent.open(tmp_path / "agent.db", algorithm=algorithm, dim=3, agents=2, identity=1, warm=False).close()
    told = typed("describe", tmp_path / "agent.db")
    assert told.exit_code == 0
    assert json.loads(told.stdout)["agents"] == 2


def test_the_project_is_one_that_flower_takes():
    told = typed("project")
    assert told.exit_code == 0
    from pathlib import Path

    assert "[tool.flwr.app" in (Path(told.stdout.strip()) / "pyproject.toml").read_text()


def test_mistakes_are_refused():
    assert typed("demo", "--agents", "1").exit_code == 2
    assert typed("release").exit_code == 2
