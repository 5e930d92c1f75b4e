"""What an operator writes: agent.toml, tokens, addresses. Needs nothing beyond the library."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fedbandits.algorithms import DisLinUCB
from fedbandits.channel import Quantise, Through
from fedbandits.contract.catalogue import ConfigError
from fedbandits.deploy import SettingsError
from fedbandits.deploy.http.access import (
    TOKEN_VARIABLE,
    Address,
    Token,
    check_exposure,
    find_token,
    names_loopback,
    resolve,
)
from fedbandits.deploy.http.configuration import Configuration, Limits, Opening, configuration, load_configuration
from fedbandits.facts import Link, Moment, Noise, Norms, Range

SECRET = "a-token-that-is-only-used-in-tests"
COMPLETE = """
[agent]
dim = 3
arms = 4
agents = 5
identity = 2
horizon = 100
seed = 7
common = 6
expire_after = 3600
packed = true
durable = false
timeout = 2.5
snapshot_every = 10
verify = false

[agent.algorithm]
name = "dislinucb"
threshold = 2.0

[facts]
noise = 0.2
norms = { parameter = 2.0, arms = 1.5 }
link = "identity"
range = [0.0, 1.0]
moment = { order = 1.5, raw = 2.0, central = 1.0 }

[service]
largest_body = 100
body_seconds = 1.5
most_arms = 4
most_rewards = 6
largest_number = 10.0
most_requests = 8
stop_seconds = 9
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "agent.toml"
    path.write_text(text)
    return path


def test_everything_a_file_may_say(tmp_path: Path) -> None:
    found = load_configuration(written(tmp_path, COMPLETE))
    assert found.opening == Opening(durable=False, timeout=2.5, snapshot_every=10, verify=False)
    assert found.limits == Limits(
        largest_body=100,
        body_seconds=1.5,
        most_arms=4,
        most_rewards=6,
        largest_number=10.0,
        most_requests=8,
        stop_seconds=9,
    )
    with found.open(tmp_path / "agent.db") as agent:
        settings = agent.settings
        assert settings.algorithm == DisLinUCB(threshold=2.0)
        assert (settings.dim, settings.arms, settings.agents, settings.identity, settings.seed) == (3, 4, 5, 2, 7)
        known = [Noise(0.2), Norms(2.0, 1.5), Link("identity"), Moment(1.5, 2.0, 1.0), Range(0.0, 1.0)]
        assert (settings.common, list(settings.facts), agent.problem.facts) == (6, known, settings.facts)
        assert (settings.expire_after, settings.packed) == (3600.0, True)
    with found.open(tmp_path / "agent.db"), Configuration().open(tmp_path / "agent.db"):
        pass  # the same file again, and the agent without a file
    other = load_configuration(written(tmp_path, COMPLETE.replace("dim = 3", "dim = 4")))
    with pytest.raises(SettingsError, match="dim: 3 there, 4 now"):
        other.open(tmp_path / "agent.db")


def test_an_algorithm_may_be_a_name() -> None:
    assert configuration({"agent": {"algorithm": "dislinucb"}}).settings["algorithm"] == DisLinUCB()
    assert configuration({}) == Configuration()
    through = configuration({"agent": {"algorithm": "dislinucb:threshold=2|quantise:bits=4"}}).settings["algorithm"]
    assert through == Through(DisLinUCB(threshold=2.0), (Quantise(bits=4),))
    table = {"name": "dislinucb", "threshold": 2, "through": [{"name": "quantise", "bits": 4}]}
    assert configuration({"agent": {"algorithm": table}}).settings["algorithm"] == through


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[agent", "not valid TOML"),
        ("[agnet]", "the file has no 'agnet'; did you mean 'agent'?"),
        ("agent = 3", r"agent must be a table; write \[agent\]"),
        ("[agent]\ndims = 3", r"\[agent\] has no 'dims'; did you mean 'dim'?"),
        ("[agent]\nwarm = false", r"\[agent\] has no 'warm'; "),
        ("[agent]\nalgorithm = 3", r"\[agent.algorithm\] algorithm must be a name, or a table"),
        ('[agent]\nalgorithm = "dislinuc"', "did you mean 'dislinucb'?"),
        ('[agent.algorithm]\nname = "dislinucb"\ntreshold = 1', "did you mean 'threshold'?"),
        ('[agent.algorithm]\nname = "dislinucb"\nthreshold = -1', r"\[agent.algorithm\] dislinucb: threshold"),
        ("[agent]\nnoise = 0.5", r"\[agent\] noise is a fact now: write noise = 0.5 under \[facts\]"),
        ("[agent]\narm_norm = 2.0", r"arm_norm is a fact now: write norms = {arms = 2.0} under \[facts\]"),
        ("[agent]\nrange = [0, 1]", r"range is a fact now: write range = \[0, 1\] under \[facts\]"),
        ('[agent]\nlink = "logistic"', r'link is a fact now: write link = "logistic" under \[facts\]'),
        ("[agent]\nfacts = {noise = 1}", r"\[agent\] has no 'facts'"),
        ("[facts]\nnoice = 1", r"\[facts\] unknown fact 'noice'; did you mean 'noise'?"),
        ("[facts]\nnoise = -1", r"\[facts\] noise: sigma: must be greater than or equal to 0"),
        ("[facts]\nnorms = {arm = 1}", r"\[facts\] norms has no parameter 'arm'; did you mean 'arms'?"),
        ("[facts]\nrange = [1, 0]", "low must be below high"),
        ("facts = 3", r"facts must be a table; write \[facts\]"),
        ("[agent]\ntimeout = 0", r"\[agent\]: timeout: must be greater than 0"),
        ("[service]\nmost_arms = 0", r"\[service\]: most_arms: must be greater than or equal to 1"),
        ("[service]\nlargest_number = 1e9", r"\[service\]: largest_number: must be less than or equal to 10000000"),
        ("[service]\ntoken = 'x'", r"\[service\] has no 'token'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        load_configuration(written(tmp_path, text))
    assert str(raised.value).startswith(str(tmp_path / "agent.toml"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_configuration(tmp_path / "none.toml")


# tokens


def test_tokens_are_found(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {SECRET}\n")
    file.chmod(0o600)
    assert find_token(None, {}) is None
    assert find_token(None, {TOKEN_VARIABLE: ""}) is None
    for token in (find_token(file, {}), find_token(None, {TOKEN_VARIABLE: SECRET})):
        assert token is not None
        assert token.admits(f"Bearer {SECRET}".encode())
    first = find_token(file, {TOKEN_VARIABLE: "another-token-that-is-long-enough"})
    assert first is not None
    assert first.admits(f"Bearer {SECRET}".encode())
    assert SECRET not in repr(vars(first))


@pytest.mark.parametrize(
    "secret", ["short", " " * 40, "with spaces in the middle of it", "x" * 30 + "é", "a" * 30 + "\n" + "b"]
)
def test_bad_tokens_are_refused_without_showing_them(tmp_path: Path, secret: str) -> None:
    file = tmp_path / "token"
    file.write_text(secret, encoding="utf-8")
    file.chmod(0o600)
    for given in ((file, {}), (None, {TOKEN_VARIABLE: secret})):
        with pytest.raises(ConfigError) as raised:
            find_token(*given)
        assert secret not in str(raised.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        find_token(tmp_path / "none", {})


def test_a_token_file_that_others_can_read_is_refused_with_the_fix(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    for mode in (0o644, 0o604, 0o602):
        file.chmod(mode)
        with pytest.raises(ConfigError, match=f"chmod 600 {file}"):
            find_token(file, {})
    file.chmod(0o440)  # for the group of the service, as supervisors hand over secrets
    assert find_token(file, {}) is not None


def test_only_the_token_is_admitted() -> None:
    token = Token(SECRET)
    assert token.admits(f"  bearer   {SECRET} ".encode())
    for wrong in ("", "Bearer", f"Bearer {SECRET}x", f"Basic {SECRET}", SECRET, f"Bearer{SECRET}", "Bearer \x00"):
        assert not token.admits(wrong.encode())


# addresses


def test_where_it_may_listen() -> None:
    token = Token(SECRET)
    near, far = resolve("127.0.0.1", 0), resolve("0.0.0.0", 0)
    check_exposure(near, token, no_token=False)
    check_exposure(far, token, no_token=False)
    check_exposure(near, None, no_token=True)
    with pytest.raises(ConfigError, match="a token is missing"):
        check_exposure(near, None, no_token=False)
    for no_token in (False, True):
        with pytest.raises(ConfigError, match="can be reached from other machines"):
            check_exposure(far, None, no_token=no_token)
    with pytest.raises(ConfigError, match="leave out one of them"):
        check_exposure(near, token, no_token=True)


@pytest.mark.parametrize(("host", "near"), [("localhost", True), ("127.0.0.2", True), ("0.0.0.0", False)])
def test_loopback_is_known_by_address(host: str, near: bool) -> None:
    assert resolve(host, 80).is_loopback == near


def test_addresses_of_version_6() -> None:
    near, far = (Address(socket.AF_INET6, host, 80) for host in ("::1", "::"))
    assert (near.is_loopback, far.is_loopback) == (True, False)
    assert near.url(81) == "http://[::1]:81"


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"--host no\.such\.name\.invalid: not an address of this machine"):
        resolve("no.such.name.invalid", 80)


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("localhost", True),
        ("localhost:80", True),
        ("127.0.0.1", True),
        ("[::1]:80", True),
        ("[::1]", True),
        ("localhost.example", False),
        ("127.0.0.1.example:80", False),
        ("example", False),
        ("192.168.0.1:80", False),
        ("", False),
        (":80", False),
    ],
)
def test_names_of_this_machine(host: str, near: bool) -> None:
    assert names_loopback(host) == near
