from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli import app
from fedbandits.deploy import Agent

NO_TOKEN = {"FEDBANDITS_AGENT_TOKEN": ""}
SECRET = "a-token-that-is-only-used-in-tests"


def invoke(*words: str, **environment: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words), env=NO_TOKEN | environment)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def extra() -> None:
    for name in ("fastapi", "uvicorn", "prometheus_client"):
        pytest.importorskip(name, reason="needs the extra 'deploy'")


def test_help() -> None:
    for words in (["agent"], ["agent", "--help"], ["agent", "serve", "--help"]):
        _, out, err = invoke(*words)
        assert "Example: fedbandits agent serve" in out + err
    assert " agent " in invoke("--help")[1]


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom fedbandits.cli import app\n"
        "try: app(['agent', 'serve', '--help'], prog_name='fedbandits')\nexcept SystemExit: pass\n"
        "print([name for name in ('numba', 'numpy', 'fastapi', 'uvicorn', 'sqlite3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedbandits.contract.extras.find_spec", lambda name: None)
    code, _, err = invoke("agent", "serve", str(tmp_path / "agent.db"), "--no-token")
    assert code == 2
    assert "pip install 'fedbandits[deploy]'" in err


@pytest.mark.usefixtures("extra")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a token is missing"),
        (["--host", "0.0.0.0"], "can be reached from other machines"),
        (["--host", "0.0.0.0", "--no-token"], "can be reached from other machines"),
        (["--token-file", "no-such-file"], "the token cannot be read"),
        (["--no-token", "--config", "no-such-file"], "no-such-file: cannot be read"),
        (["--no-token", "--port", "0"], "a new one needs algorithm= and dim="),
        (["--no-token", "--port", "70000"], "65535"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = invoke("agent", "serve", "agent.db", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("extra")
def test_tokens_are_not_shown(tmp_path: Path) -> None:
    bad = "a secret with spaces in it"
    code, _, err = invoke("agent", "serve", str(tmp_path / "agent.db"), FEDBANDITS_AGENT_TOKEN=bad)
    assert code == 2
    assert "a token has at least 20" in err
    assert bad not in err


@pytest.mark.usefixtures("extra")
def test_an_address_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["agent", "serve", str(tmp_path / "agent.db"), "--port", str(port), "--no-token"]
        code, _, err = invoke(*words)
    assert code == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in err
    assert not (tmp_path / "agent.db").exists()


@pytest.mark.usefixtures("extra")
def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    path.write_bytes(b"not a database at all" * 100)
    code, _, err = invoke("agent", "serve", str(path), "--port", "0", "--no-token")
    assert code == 1
    assert "damaged" in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("extra")
def test_settings_that_differ(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('[agent]\ndim = 3\nalgorithm = "dislinucb"\n')
    (tmp_path / "two.toml").write_text('[agent]\ndim = 4\nalgorithm = "dislinucb"\n')
    from fedbandits.deploy.http.configuration import load_configuration

    load_configuration(tmp_path / "one.toml").open(tmp_path / "agent.db").close()
    words = ["agent", "serve", str(tmp_path / "agent.db"), "--port", "0"]
    code, _, err = invoke(*words, "--config", str(tmp_path / "two.toml"), FEDBANDITS_AGENT_TOKEN=SECRET)
    assert code == 2
    assert "dim: 3 there, 4 now" in err


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """An agent with two decisions, one of them rewarded."""
    path = tmp_path / "agent.db"
    with Agent.open(path, algorithm=fb.algorithms.DisLinUCB(), dim=2, agents=3, identity=1, warm=False) as agent:
        first, _ = agent.decide([[1.0, 0.0]]), agent.decide([[0.0, 1.0]])
        agent.reward(first.id, 1.0)
    return path


def test_status(kept: Path) -> None:
    code, out, _ = invoke("agent", "status", str(kept))
    assert code == 0
    assert re.search(r"^awaiting +1 *$", out, re.MULTILINE)
    assert re.search(r"^synchronised at +- *$", out, re.MULTILINE)
    told = json.loads(invoke("agent", "status", str(kept), "--json")[1])
    assert (told["algorithm"], told["identity"], told["agents"]) == ("dislinucb", 1, 3)
    assert (told["decisions"], told["rewards"], told["awaiting"], told["synchronised_at"]) == (2, 1, 1, None)


def test_every_command_takes_the_file_by_its_place_and_by_its_name(kept: Path) -> None:
    before = invoke("agent", "status", str(kept), "--json")
    for words in (["--db", str(kept), "--json"], ["--json", f"--db={kept}"]):
        assert invoke("agent", "status", *words) == before
    assert invoke("agent", "backup", "--db", str(kept), str(kept.with_name("one.db")))[0] == 0
    assert invoke("agent", "backup", str(kept.with_name("two.db")), "--db", str(kept))[0] == 0
    assert kept.with_name("one.db").exists()
    assert kept.with_name("two.db").exists()
    assert invoke("agent", "forget", "--db", str(kept), "--before", "2000-01-01")[0] == 0
    code, _, err = invoke("agent", "status", str(kept), "--db", str(kept))
    assert (code, "unexpected extra argument" in err) == (2, True)
    assert invoke("agent", "status", "--db")[0] == 2


def test_serve_takes_the_file_like_the_others(tmp_path: Path) -> None:
    for words in ([str(tmp_path / "agent.db")], ["--db", str(tmp_path / "agent.db")]):
        code, _, err = invoke("agent", "serve", *words)
        assert (code, "a token is missing" in err) == (2, True)


def test_backup(kept: Path) -> None:
    copy = kept.with_name("copy.db")
    assert invoke("agent", "backup", str(kept), str(copy))[0] == 0
    with Agent.open(copy, warm=False) as agent:
        assert agent.status().decisions == 2
    code, _, err = invoke("agent", "backup", str(kept), str(copy))
    assert (code, "is not overwritten" in err) == (1, True)


def test_forget(kept: Path) -> None:
    assert invoke("agent", "forget", str(kept), "--before", "2000-01-01")[:2] == (0, "0 decisions forgotten\n")
    assert invoke("agent", "forget", str(kept), "--before", "2100-01-01")[:2] == (0, "2 decisions forgotten\n")
    assert invoke("agent", "forget", str(kept), "--before", "yesterday")[0] == 2


def test_what_is_no_agent_is_refused_and_left_alone(tmp_path: Path) -> None:
    for words in (["status"], ["forget", "--before", "2000-01-01"]):
        assert invoke("agent", *words, str(tmp_path / "missing.db"))[0] == 2
    (tmp_path / "text.db").write_text("no database at all, but some text of more than a few bytes")
    code, _, err = invoke("agent", "status", str(tmp_path / "text.db"))
    assert (code, "no database" in err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["text.db"]
