"""Ctrl-C in a real process: what is finished stays, and the same command goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXPERIMENT = """
title = "Long enough to be stopped"
source = "none"
[environment]
name = "linear"
clients = 20
dim = 10
[run]
horizon = 1000
seeds = 6
[algorithms.alone]
name = "independent-linucb"
"""


def command(directory: Path) -> list[str]:
    return [sys.executable, "-m", "fedbandits", "run", str(directory / "long.toml"), "--jobs", "1", "--json"]


@pytest.mark.slow
def test_an_interrupted_run_keeps_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(EXPERIMENT)
    runs = tmp_path / "results" / "long" / "runs"
    process = subprocess.Popen(
        command(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        while not list(runs.glob("*.parquet")) and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    kept = sorted(path.name for path in runs.glob("*.parquet"))
    assert process.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert f"stopped; {len(kept)} of 6 runs are kept in" in err.replace("\n", " ")
    assert 1 <= len(kept) < 6
    written = {name: (runs / name).stat().st_mtime_ns for name in kept}

    again = subprocess.run(command(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"{len(kept)} of 6 runs were there already" in again.stderr
    assert {name: (runs / name).stat().st_mtime_ns for name in kept} == written
    printed = json.loads(again.stdout)
    assert printed["missing"] == 0
    assert printed["summary"][0]["runs"] == 6
    assert "fedbandits run" in Path(tmp_path / printed["report"]).read_text(encoding="utf-8")
