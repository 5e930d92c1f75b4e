"""The demonstration as a command: that it shows what it should, leaves nothing behind, and starts by loading once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere programs are loaded one by one"),
]
ROOT = Path(__file__).parents[2]
IMPORTS = 6.0
"""How many times the processor time of importing everything once a start-up may take: half of what it took when every
program loaded by itself, which was 12."""


def test_the_command_shows_a_federation_and_leaves_nothing_behind(tmp_path):
    where = tmp_path / "federation"
    command = [sys.executable, "-m", "fedbandits", "federation", "demo", "--agents", "2", "--steps", "60"]
    done = subprocess.run(
        [*command, "--pace", "5", "--out", str(where), "--json"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["decisions"], told["rejected"]) == (120, 0)
    assert told["synchronisations"] > 0
    assert told["messages"] == 4 * told["synchronisations"]
    known = str(where).encode()
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if known in _words(path)]
    assert left == []


def _words(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_federation_starts_in_the_processor_time_of_a_few_imports():
    measured = subprocess.run(
        [sys.executable, "-m", "benchmarks.start_up", "--repeat", "1", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert measured.returncode == 0, measured.stderr
    told = json.loads(measured.stdout)
    assert 1.0 < told["times_the_import"] < IMPORTS, told
