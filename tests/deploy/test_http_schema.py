"""The service against its own OpenAPI schema: whatever a client makes of it, it answers as described, never by 5xx."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra 'deploy'")
pytest.importorskip("uvicorn", reason="needs the extra 'deploy'")
pytest.importorskip("prometheus_client", reason="needs the extra 'deploy'")
pytest.importorskip("schemathesis", reason="needs schemathesis")

from http_service import CONFIGURATION, TOKEN, Service


def fuzz(service: Service, directory: Path, examples: int) -> subprocess.CompletedProcess[str]:
    """All phases (examples, coverage, fuzzing, stateful), valid and invalid requests, all checks."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json"]
    command += ["--header", f"Authorization: Bearer {TOKEN}", "--checks", "all", "--mode", "all"]
    command += ["--max-examples", str(examples), "--seed", "1", "--generation-database", "none", "--no-color"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_every_check_of_schemathesis_holds(tmp_path: Path) -> None:
    with Service(tmp_path, CONFIGURATION + "durable = false\n") as service:
        done = fuzz(service, tmp_path, examples=10)
        assert done.returncode == 0, done.stdout + done.stderr
        assert service.stop() == 0
        assert "Traceback" not in service.said


@pytest.mark.slow
def test_every_check_of_schemathesis_holds_for_long(tmp_path: Path) -> None:
    with Service(tmp_path, CONFIGURATION + "durable = false\n") as service:
        done = fuzz(service, tmp_path, examples=1000)
        assert done.returncode == 0, done.stdout + done.stderr
        assert service.stop() == 0
        assert "Traceback" not in service.said
