from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedbandits
from conformance.gossip import GossipLinUCB
from fedbandits.algorithms import ALGORITHMS
from fedbandits.channel import STAGES
from fedbandits.cli import app
from fedbandits.cli.run import run_command
from fedbandits.environments import ENVIRONMENTS
from fedbandits.experiments import shipped_experiments
from fedbandits.findings.ends import Ends
from fedbandits.findings.results import Results
from fedbandits.graphs.topologies import NETWORKS
from fedbandits.report.command import compare_command
from fedbandits.report.summary import summarise

COMMANDS = ("demo", "list", "compare", "run", "report")
SMALL = ["-a", "dislinucb:threshold=2", "-a", "alone=independent-linucb", "-e", "linear:clients=3,dim=2,arms=4"]
SMALL += ["--horizon", "40", "--seeds", "2", "--jobs", "1"]


def invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    directory = tmp_path_factory.mktemp("compared") / "out"
    code, out, _ = invoke("compare", *SMALL, "--out", str(directory), "--json")
    assert code == 0
    return directory, json.loads(out)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    code, out, _ = invoke(command, "--help")
    assert code == 0
    assert f"Example: fedbandits {command}" in out


def test_help_lists_every_command() -> None:
    for words in ([], ["--help"]):
        code, out, _ = invoke(*words)
        assert code == 0
        assert all(f" {command} " in out for command in COMMANDS)


def test_version() -> None:
    assert invoke("--version") == (0, f"fedbandits {fedbandits.__version__}\n", "")


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom fedbandits.cli import app\n"
        "try: app(['--help'], prog_name='fedbandits')\nexcept SystemExit: pass\n"
        "print([name for name in ('numba', 'numpy', 'pandas', 'matplotlib', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_list_as_json() -> None:
    code, out, _ = invoke("list", "--json")
    listed = json.loads(out)
    assert code == 0
    assert [entry["name"] for entry in listed["algorithms"]] == list(ALGORITHMS)
    assert [entry["name"] for entry in listed["stages"]] == list(STAGES)
    assert [entry["name"] for entry in listed["environments"]] == list(ENVIRONMENTS)
    assert [entry["name"] for entry in listed["networks"]] == list(NETWORKS)
    assert [entry["name"] for entry in listed["experiments"]] == list(shipped_experiments())
    dis = next(entry for entry in listed["algorithms"] if entry["name"] == "dislinucb")
    assert dis["parameters"]["threshold"] == "theory"
    properties = {"family", "topology", "talks", "wire", "private", "guarantee", "source"}
    assert all(properties <= entry.keys() for entry in listed["algorithms"])


def test_list_in_detail_fits_80_columns() -> None:
    code, out, _ = invoke("list", "--details")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for name in (*ALGORITHMS, *ENVIRONMENTS, *NETWORKS, *shipped_experiments()):
        assert name in out.splitlines()


def test_list_begins_with_an_overview_that_fits_a_screen() -> None:
    code, out, _ = invoke("list", "algorithms")
    assert code == 0
    title, *lines, more = out.splitlines()
    assert title.strip() == "algorithms"
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines] == list(ALGORITHMS)
    for line, kind in zip(lines, ALGORITHMS.values(), strict=True):
        _, family, topology, *clause = line.split()
        assert (family, topology) == (kind.about.family, kind.about.topology)
        assert kind.about.talks.startswith(" ".join(clause).removesuffix("…").strip())
    assert "fedbandits list algorithms NAME" in more
    for words in (["list"], ["list", "environments"], ["list", "networks"], ["list", "experiments"]):
        assert max(map(len, invoke(*words)[1].splitlines())) <= 80


def test_list_one_in_detail() -> None:
    _, out, _ = invoke("list", "algorithms", "dislinucb")
    assert "guarantee" in out
    assert "threshold=theory" in out


def test_list_one() -> None:
    _, out, _ = invoke("list", "algorithms", "dislinucb", "--json")
    assert [entry["name"] for entry in json.loads(out)] == ["dislinucb"]


def test_compare_keeps_what_it_prints(compared: tuple[Path, dict]) -> None:
    directory, printed = compared
    held = summarise(Results.load(directory))
    assert [row["algorithm"] for row in printed["summary"]] == ["dislinucb", "alone"]
    for row, (_, point) in zip(printed["summary"], held.iterrows(), strict=True):
        assert row["regret"] == point["regret"]
        assert row["regret_se"] == point["regret_se"]
        assert row["up_messages"] == point["up_messages"]
    assert printed["settings"]["algorithms"]["dislinucb"]["threshold"] == 2.0
    assert Path(printed["report"]) == directory / "report.html"
    assert "alone" in (directory / "report.html").read_text(encoding="utf-8")


def test_the_reproducing_command_reproduces(compared: tuple[Path, dict]) -> None:
    _, printed = compared
    words = compare_command(printed["settings"])
    assert words is not None
    assert words.startswith("fedbandits compare -a dislinucb:threshold=2.0 -a alone=independent-linucb -e linear:")
    code, out, _ = invoke(*words.split()[1:], "--jobs", "1", "--json")
    assert code == 0
    assert [row["regret"] for row in json.loads(out)["summary"]] == [row["regret"] for row in printed["summary"]]


def test_compare_for_people_keeps_stdout_for_results() -> None:
    code, out, err = invoke("compare", *SMALL)
    assert code == 0
    assert "Regret" in out
    assert "alone" in out
    assert "runs done" in err
    assert "runs done" not in out


def test_report_writes_where_it_is_told(compared: tuple[Path, dict], tmp_path: Path) -> None:
    directory, _ = compared
    path = tmp_path / "page.html"
    code, out, _ = invoke("report", str(directory), "--out", str(path))
    assert code == 0
    assert out.strip() == str(path)
    assert path.read_text(encoding="utf-8") == (directory / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "-a", "dislinucbb"], "did you mean 'dislinucb'?"),
        (["compare", "-a", "dislinucb:treshold=2"], "did you mean 'threshold'?"),
        (["compare", "-a", "dislinucb:ridge=-1"], "ridge"),
        (["compare", "-a", "dislinucb:ridge"], "KEY=VALUE"),
        (["compare", "-a", "dislinucb:ridge=1,ridge=2"], "twice"),
        (["compare", "-a", "=dislinucb"], "a label is missing"),
        (["compare", "-a", "low="], "a name is missing"),
        (["compare", "-a", "my_module:Mine"], "there is no module 'my_module'"),
        (["compare", "-a", "dislinucb|quantize"], "did you mean 'quantise'?"),
        (["compare", "-a", "random", "-a", "random"], "LABEL=NAME:"),
        (["compare", "-a", "random", "-e", "linear:clients=2.5"], "clients"),
        (["compare", "-a", "random", "-e", "liner"], "did you mean 'linear'?"),
        (["compare", "-a", "random", "--horizon", "0"], "--horizon: must be at least 1"),
        (["compare", "-a", "random", "--horizon", "many"], "--horizon"),
        (["compare", "-a", "random", "--seeds", "0"], "seeds: must be at least 1"),
        (["compare", "-a", "random", "--jobs", "0"], "jobs: must be at least 1"),
        (["compare", "-a", "random", "--engine", "steam"], "known are: local, ray"),
        (["compare", "-a", "dislinucb", "-e", "linear:clients=1000000000"], "needs at least 5,888 GB of memory"),
        (["compare", "-a", "random", "--horizon", "1000000000000"], "horizon: the trace of 1,000,000,000,000 steps"),
        (["compare"], "--algorithm"),
        (["run", "dmeo"], "did you mean 'demo'?"),
        (["compare", "-a", "random", "-n", "rinq"], "unknown network 'rinq'; did you mean 'ring'?"),
        (["compare", "-a", "random", "-n", "ring:p=1"], "ring has no parameter 'p'"),
        (["compare", "-a", "random", "-n", "ring:ttl=-1"], "ttl: must be"),
        (["compare", "-a", "random", "-n", "ring:ttl"], "'ring:ttl': 'ttl' is not KEY=VALUE"),
        (["compare", "-a", "dislinucb", "-n", "ring"], "dislinucb"),
        (["list", "colours"], "algorithms, stages, environments, networks, experiments"),
        (["list", "networks", "nowhere"], "among the networks; known are: "),
        (["list", "dislinucb"], "fedbandits list algorithms dislinucb"),
        (["list", "algorithms", "nobody"], "known are: random"),
        (["list", "algorithms", "dislinuc"], "did you mean 'dislinucb'?"),
        (["compare"], "Example: fedbandits compare -a "),
        (["compare", "-a", "random", "--horizn", "3"], "`fedbandits compare --help`"),
        (["compare", "-a", "random", "--horizon", "many"], "a valid integer"),
        (["report", "nowhere"], "does not exist"),
        (["report", "."], "holds no results"),
        (["frobnicate"], "--help"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keeps = ["--out", "kept"] if words[0] in ("compare", "run") else []
    code, out, err = invoke(*words, *keeps)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_list_networks() -> None:
    _, out, _ = invoke("list", "networks", "erdos-renyi", "--json")
    [entry] = json.loads(out)
    assert {"name", "summary", "source", "parameters"} == entry.keys()
    assert {"p", "ttl", "loss"} <= entry["parameters"].keys()
    assert entry["parameters"]["ttl"] == 1
    _, out, _ = invoke("list", "networks", "given", "--json")
    assert json.loads(out)[0]["parameters"]["nodes"] == "required"
    code, out, _ = invoke("list", "networks")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80


def test_compare_on_a_network_and_again_by_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS._own, "sample-gossip", GossipLinUCB)
    words = ["compare", "-a", "sample-gossip", "-a", "random", "-e", "linear:clients=6,dim=2,arms=3", "-T", "20"]
    words += ["--seeds", "2", "--jobs", "1", "--json"]
    code, out, _ = invoke(*words, "-n", "erdos-renyi:p=0.5,ttl=2", "--out", str(tmp_path / "out"))
    assert code == 0
    printed = json.loads(out)
    assert (printed["settings"]["network"]["name"], printed["settings"]["network"]["p"]) == ("erdos-renyi", 0.5)
    assert printed["summary"][0]["peer_messages"] > 0
    assert printed["summary"][0]["epsilon"] is None
    again = compare_command(printed["settings"])
    assert again is not None
    assert "-n erdos-renyi:" in again
    assert "-n erdos-renyi:" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    _, out, _ = invoke(*again.split()[1:], "--jobs", "1", "--json")
    assert [row["regret"] for row in json.loads(out)["summary"]] == [row["regret"] for row in printed["summary"]]
    code, _, err = invoke(*words, "--out", str(tmp_path / "none"))
    assert code == 2
    assert "sample-gossip talks on a graph" in err
    assert "-n NAME" in err
    assert not (tmp_path / "none").exists()


def test_compare_through_stages_and_again_by_its_own_words() -> None:
    words = ["compare", "-a", "dislinucb:width=0.5|gaussian:epsilon=5,first=4", "-a", "few=dislinucb|quantise:bits=12"]
    words += ["-e", "gap:clients=3,dim=3,arms=4", "--horizon", "30", "--seeds", "2", "--jobs", "1", "--json"]
    code, out, err = invoke(*words)
    assert code == 0, err
    printed = json.loads(out)
    again = compare_command(printed["settings"])
    assert again is not None
    assert "'dislinucb:width=0.5|gaussian:epsilon=5.0,first=4' -a 'few=dislinucb|quantise:bits=12'" in again
    _, out, _ = invoke(*shlex.split(again)[1:], "--jobs", "1", "--json")
    assert json.loads(out)["settings"] == printed["settings"]


@pytest.mark.parametrize(
    "change",
    [
        {"network": {"name": "given", "nodes": 2, "edges": [[0, 1]]}},
        {"network": {"name": "of-my-own"}},
        {"environment": {"name": "of-my-own"}},
        {"algorithms": {"mine": {"name": "of-my-own"}}},
        {"algorithms": {"mine": {"name": "dislinucb", "through": [{"name": "of-my-own"}]}}},
    ],
)
def test_what_has_no_word_gives_no_command(compared: tuple[Path, dict], change: dict) -> None:
    _, printed = compared
    assert compare_command(printed["settings"]) is not None
    assert compare_command({**printed["settings"], **change}) is None


def test_compare_under_attack_and_again_by_its_own_words() -> None:
    code, out, _ = invoke("compare", *SMALL, "--attack", "inflate:share=0.4,lies=2", "--json")
    assert code == 0
    printed = json.loads(out)
    assert printed["settings"]["attack"] == {"name": "inflate", "share": 0.4, "strength": 5.0, "lies": 2}
    again = compare_command(printed["settings"])
    assert again is not None
    assert "--attack inflate:share=0.4,strength=5.0,lies=2" in again
    _, out, _ = invoke(*again.split()[1:], "--jobs", "1", "--json")
    honest = [row["honest_regret"] for row in printed["summary"]]
    assert honest == [row["honest_regret"] for row in json.loads(out)["summary"]]
    assert all(value > 0 for value in honest)
    code, _, err = invoke("compare", *SMALL, "--attack", "inflat")
    assert code == 2
    assert "--attack: there is no attack 'inflat'; did you mean 'inflate'?" in err


FEW = """
title = "Few"
source = "ours"
environment = { name = "linear", clients = 2, dim = 2, arms = 3 }
run = { horizon = 40, seeds = 4 }
algorithms = { dis = { name = "dislinucb", threshold = 0.5 }, other = { name = "dislinucb", threshold = 2.0 } }

[[claims]]
kind = "less"
text = "one threshold has less regret than another"
metric = "regret"
of = "dis"
than = "other"
"""


def test_what_is_known_is_not_run_again(tmp_path: Path) -> None:
    file, ends = tmp_path / "few.toml", tmp_path / "ends.parquet"
    file.write_text(FEW)
    code, first, _ = invoke("run", str(file), "--jobs", "1", "--out", str(tmp_path / "one"))
    assert code == 0
    Ends.of(tmp_path / "one").write(ends)
    words = ["run", str(file), "--jobs", "1", "--known", str(ends)]
    code, second, err = invoke(*words, "--out", str(tmp_path / "two"))
    assert code == 0
    assert "8 of 8 runs were there already, 0 were run now" in err
    assert second.splitlines()[:3] == first.splitlines()[:3]
    code, out, err = invoke(*words[:-1], str(tmp_path / "nowhere"), "--out", str(tmp_path / "three"))
    assert (code, out) == (2, "")
    assert err == f"error: known: {tmp_path / 'nowhere'} does not exist; name a file with ends of runs\n"
    assert not (tmp_path / "three").exists()


def test_undecided_claims_say_what_they_would_take(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text(FEW)
    code, told, _ = invoke("run", str(file), "--jobs", "1", "--out", str(tmp_path / "out"))
    code, plain, _ = invoke("run", str(file), "--jobs", "1", "--out", str(tmp_path / "out"), "--json")
    assert code == 0
    claim = json.loads(plain)["claims"][0]
    assert claim["verdict"] == "undecided"
    assert claim["details"]["seeds_to_decide"] > 4
    assert claim["details"]["seconds_to_decide"] > 0
    assert "of one core here" in " ".join(told.split())


def test_the_reproducing_command_leaves_seeds_to_the_file_where_claims_have_their_own(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    for seeds, asked in (("", " --seeds 4"), ("seeds = 5", "")):
        file.write_text(FEW + seeds)
        code, out, _ = invoke("run", str(file), "--jobs", "1", "--out", str(tmp_path / f"out{seeds}"), "--json")
        assert code == 0
        results = Results.load(tmp_path / f"out{seeds}")
        assert run_command(str(file), results) == f"fedbandits run {file}{asked}"
        assert json.loads(out)["missing"] == 0
