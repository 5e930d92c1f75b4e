"""Noise that protects people: nobody outside the agent's file can compute it, and no noise is used twice."""

from __future__ import annotations

import dataclasses
import io
import json
import logging
import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs the extra 'deploy'")

from forks import forked
from scipy import stats
from toy_algorithms import NoisySums, Undeclared, Unkept

import fedbandits as fb
from fedbandits.contract.arrays import State
from fedbandits.contract.messages import Message
from fedbandits.contract.state import from_bytes
from fedbandits.contract.streams import Streams, seeds_of
from fedbandits.deploy import Agent, CorruptError, LetterError, SettingsError, back_up
from fedbandits.deploy.embedded.secret import OwnSecret, fresh_nonce
from fedbandits.deploy.flower.conversation.desk import Desk, fingerprint
from fedbandits.deploy.flower.post import Letter
from fedbandits.deploy.settings import Settings
from fedbandits.facts import Range

ALONE = np.zeros(1, dtype=np.int64)
ARMS = 2
DP = fb.algorithms.DPUCBInt(schedule=1.0)
"""Releases a noisy mean after every pull."""
REWARDS = (0.25, 0.75)


def opened(path: Path, algorithm: Any = DP, **settings: Any) -> Agent:
    made = {"facts": [Range(0, 1)]} if not path.exists() else {}
    return Agent.open(path, algorithm, ARMS, **(made | {"durable": False, "warm": False} | settings))


def play(agent: Agent, times: int = ARMS, rewards: tuple[float, ...] = REWARDS) -> list[int]:
    """So many decisions with a reward for each arm; the choices."""
    picks = []
    for _ in range(times):
        decision = agent.decide(np.eye(ARMS))
        agent.reward(decision.id, rewards[decision.index])
        picks.append(decision.index)
    return picks


def released(agent: Agent) -> np.ndarray:
    """What an agent lets out: the noisy mean of each arm."""
    return agent.state()["own.means"][0]


def same(left: State, right: State) -> bool:
    return left.keys() == right.keys() and all(left[name].tobytes() == right[name].tobytes() for name in left)


def keys_in(path: Path) -> list[bytes]:
    """Every key in an agent's file, read as its owner could."""
    with sqlite3.connect(path) as db:
        states = [from_bytes(row[0]) for row in db.execute("SELECT state FROM snapshots")]
    db.close()
    return [array.tobytes() for state in states for name, array in state.items() if name.endswith("secret.key")]


# the attack


def noise_by_guess(settings: Settings, picks: list[int]) -> np.ndarray:
    """The noise of an agent, by all that an outsider knows: the library, the settings, the identity, the choices.

    The same population is built and learns rewards of 0: what it releases is noise alone.
    """
    shadow = settings.population()
    for pick in picks:
        shadow.learn(ALONE, np.eye(ARMS)[None], np.array([pick]), np.zeros(1))
    return np.array(shadow.state()["own.means"][0])


def test_the_attack_works_on_noise_that_follows_the_seed():
    """As in a simulation, and as deployed agents did before: the clean rewards come back."""
    settings = Settings(algorithm=DP, dim=ARMS, facts=[Range(0, 1)])
    known = settings.population()
    for pick, reward in enumerate(REWARDS):
        known.learn(ALONE, np.eye(ARMS)[None], np.array([pick]), np.array([reward]))
    recovered = known.state()["own.means"][0] - noise_by_guess(settings, [0, 1])
    np.testing.assert_allclose(recovered, REWARDS, atol=1e-12)


def test_the_attack_does_not_work_on_a_deployed_agent(tmp_path):
    with opened(tmp_path / "agent.db") as agent:
        picks = play(agent)
        assert sorted(picks) == [0, 1], "each arm was released once"
        for seed in range(20):
            guessed = dataclasses.replace(agent.settings, seed=seed)
            recovered = released(agent) - noise_by_guess(guessed, picks)
            assert (np.abs(recovered - REWARDS) > 1e-6).all()


def test_what_the_attacker_computes_is_no_better_than_a_guess(tmp_path):
    """Over many agents noise is spread as it should be, and not less so once the attacker has taken theirs off."""
    left, noise = [], []
    for number in range(60):
        with opened(tmp_path / f"{number}.db") as agent:
            picks = play(agent)
            noise.append(released(agent) - REWARDS)
            left.append(noise[-1] - noise_by_guess(agent.settings, picks))
    assert stats.kstest(np.concatenate(noise), stats.laplace.cdf).pvalue > 1e-4, "of scale 1 at the first release"
    assert np.abs(left).mean() > 0.8 * np.abs(noise).mean()
    assert len(np.unique(np.round(noise, 12))) == 2 * 60, "no noise was drawn twice"


def test_equal_settings_different_noise(tmp_path):
    agents = [opened(tmp_path / f"{number}.db") for number in range(2)]
    assert agents[0].settings == agents[1].settings
    for agent in agents:
        assert sorted(play(agent)) == [0, 1]
    assert (released(agents[0]) != released(agents[1])).all()
    assert fingerprint(agents[0].settings) == fingerprint(agents[1].settings)
    for agent in agents:
        agent.close()
    assert keys_in(tmp_path / "0.db") != keys_in(tmp_path / "1.db")


def test_in_a_simulation_noise_follows_the_seed():
    environment = fb.environments.ENVIRONMENTS["bernoulli"](clients=2, arms=ARMS)
    first, again = (fb.Simulation(DP, environment, 30, seed=4) for _ in range(2))
    first.run()
    again.run()
    assert same(first.agents.state(), again.agents.state())


# killed, done again, by several, restored


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_what_is_done_again_has_the_same_noise(tmp_path, every):
    path = tmp_path / "agent.db"
    one, other = opened(path, snapshot_every=every), opened(path, snapshot_every=every)
    for agent in (one, other, one):
        play(agent, 9)
    state = one.state()
    assert same(state, other.state()), "as another process sees it"
    assert same(state, opened(path).state()), "left without being closed, as by a kill"
    one.close()
    assert same(state, opened(path).state())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("every", [5, *(pytest.param(every, marks=pytest.mark.slow) for every in (1, 1000))])
def test_killed_at_any_point(tmp_path, every):
    """Every noisy mean that a process told of is there, bit for bit, whatever moment it was killed at."""
    path = tmp_path / "agent.db"
    opened(path, warm=True).close()
    known = told_by(opened(path))
    told = set()
    for life in range(12):
        pid, heard = forked(lambda out: live(path, every, out))
        lines = [heard.readline() for _ in range(3 + life)]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        lines += [line for line in heard if line.endswith("\n")]
        heard.close()
        assert lines[0] == known, "it begins with what the last one left"
        with opened(path) as agent:
            known = told_by(agent)
        untold = int(known.split()[0]) - int(lines[-1].split()[0])
        assert untold in (0, 1), "what was told is there; what was written down and not told of is, too"
        assert untold or known == lines[-1]
        told |= {*lines}
    assert len(told) > 30


def told_by(agent: Agent) -> str:
    """How many rewards were counted, and what was released of them."""
    return f"{agent.status().rewards} {released(agent).tobytes().hex()}\n"


def live(path: Path, every: int, out: IO[str]) -> None:
    """Decide and learn for ever; a line for the state at the beginning and one after every reward."""
    agent = opened(path, snapshot_every=every)
    print(told_by(agent), end="", file=out, flush=True)
    while True:
        play(agent, 1)
        print(told_by(agent), end="", file=out, flush=True)


def test_a_restored_backup_draws_other_noise(tmp_path):
    path, copy = tmp_path / "agent.db", tmp_path / "copy.db"
    with opened(path) as agent:
        play(agent, 4)
        back_up(path, copy)
        before = released(agent)
        play(agent, 2, rewards=(0.0, 0.0))
        went_on = released(agent)
    with opened(copy) as restored:
        np.testing.assert_array_equal(released(restored), before)
        play(restored, 2, rewards=(1.0, 1.0))
        went_back = released(restored)
    # with the same noise the difference would be what the rewards differ by: 1 in 3 pulls
    assert (np.abs(went_back - went_on - 1 / 3) > 1e-9).all()


def test_a_copy_of_the_file_alone_draws_other_noise(tmp_path):
    """Also where nobody closed anything, and with the same data: each copy has its own future."""
    path, copy = tmp_path / "agent.db", tmp_path / "copy.db"
    opened(path).close()
    shutil.copy(path, copy)
    agents = [opened(path), opened(copy)]
    for agent in agents:
        play(agent)
    assert (released(agents[0]) != released(agents[1])).all()


def test_entries_that_were_saved_cannot_be_computed_again(tmp_path):
    """Not even by who gets hold of the file: what the noise derived from is gone once the state was saved whole."""
    path = tmp_path / "agent.db"
    agent = opened(path)
    play(agent)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM nonces").fetchone() == (2 * ARMS,)
    agent.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM nonces").fetchone() == (0,)
    db.close()


@pytest.mark.parametrize("damage", ["DELETE FROM nonces WHERE entry = 3", "UPDATE nonces SET nonce = zeroblob(16)"])
def test_damaged_nonces_are_noticed(tmp_path, damage):
    path = tmp_path / "agent.db"
    agent = opened(path)
    play(agent)
    with sqlite3.connect(path) as db:
        db.execute(damage)
    db.close()
    with pytest.raises(CorruptError, match=r"what the noise of entry . derives from is missing or damaged"):
        opened(path)


def test_the_key_is_saved_with_the_file_before_anything_is_drawn(tmp_path):
    path = tmp_path / "agent.db"
    opened(path)  # and never closed
    (key,) = keys_in(path)
    assert len(key) == 32
    with opened(path) as agent:
        play(agent)
    assert keys_in(path) == [key]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_that_make_an_agent_at_once_have_one_key(tmp_path):
    opened(tmp_path / "compiled.db", warm=True).close()
    for number in range(5):
        path = tmp_path / f"{number}.db"
        makers = [forked(lambda out, path=path: opened(path, facts=[Range(0, 1)]).close()) for _ in range(3)]
        for pid, heard in makers:
            heard.close()
            assert os.waitpid(pid, 0)[1] == 0
        agents = [opened(path) for _ in range(2)]
        for agent in agents:
            play(agent, 3)
        assert same(agents[0].state(), agents[1].state())
        assert len(keys_in(path)) == 1


# where the key does not appear


def everything_said(value: Any, key: bytes) -> bool:
    """Whether the key is in `value`, in any way in which bytes are written."""
    content = value if isinstance(value, bytes) else str(value).encode()
    spelled = (
        key.hex().encode(),
        repr(key)[2:-1].encode(),
        str(list(key))[1:-1].encode(),
        np.array2string(np.frombuffer(key, np.uint8), threshold=100, max_line_width=10_000)[1:-1].encode(),
    )
    return any(form in content for form in (key, *spelled))


def test_the_key_is_nowhere_but_in_the_file(tmp_path, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "agent.db"
    agent = opened(path, NoisySums(every=2), facts=[Range(0, 1)])
    (key,) = keys_in(path)
    play(agent, 4)
    desk = Desk(agent)
    collect = agent.settings.wire.encode(Message("collect", ALONE), 0, "down")
    answer = desk.answer(Letter("c", 0, collect))
    assert answer.content is not None
    said = [
        agent.settings.text(),
        agent.settings,
        agent.status(),
        agent.state(),
        agent,
        vars(agent),
        desk.ring(),
        answer,
    ]
    said += [answer.content, desk.fingerprint, agent.problem, agent.algorithm]
    said += [name for name in agent.state() if "key" in name]
    out = io.BytesIO()
    np.savez(out, **agent.state())
    said.append(out.getvalue())
    with pytest.raises(Exception) as raised:
        agent.answer(b"nonsense", "c", 1)
    said.append(repr(raised.value))
    with sqlite3.connect(path) as db:
        (content,) = db.execute("SELECT state FROM snapshots").fetchone()
    said += [record.getMessage() for record in caplog.records]
    assert not any(everything_said(value, key) for value in said)
    assert everything_said(content, key), "the search finds it where it is"
    assert not any("secret" in name for name in agent.state())
    assert "key" not in json.dumps(agent.settings.plain())
    agent.close()
    printed = capsys.readouterr()
    assert not everything_said(printed.out + printed.err, key)


def test_the_key_is_not_told_over_http(tmp_path):
    pytest.importorskip("fastapi", reason="needs the extra 'deploy'")
    pytest.importorskip("prometheus_client", reason="needs the extra 'deploy'")
    pytest.importorskip("httpx", reason="needs httpx")
    from starlette.testclient import TestClient

    from fedbandits.deploy.http.app import create_app
    from fedbandits.deploy.http.configuration import Limits

    path = tmp_path / "agent.db"
    with opened(path) as agent:
        (key,) = keys_in(path)
        client = TestClient(create_app(agent, Limits(), None), base_url="http://localhost")
        decision = client.post("/decisions", json={"arms": [[1.0, 0.0], [0.0, 1.0]]})
        answers = [decision, client.post("/rewards", json={"decision": decision.json()["id"], "value": 0.25})]
        answers += [client.get(place) for place in ("/status", "/metrics", "/health", "/openapi.json", "/docs")]
        answers += [client.post("/decisions", json={"arms": "?"}), client.get("/state"), client.get("/key")]
        assert [answer.status_code for answer in answers] == [200] * 7 + [422, 404, 404]
        for answer in answers:
            assert not everything_said(answer.content, key)
            assert not everything_said(str(answer.headers), key)


def test_a_secret_shows_nothing_of_itself():
    secret = OwnSecret(needed_by="a test")
    assert repr(secret) == "OwnSecret()"
    streams = Streams(seeds_of(0).agents, 1, secret=secret)
    assert not everything_said(repr(streams), secret.key.tobytes())


# the generator


def test_draws_are_uniform_in_the_open_interval():
    secret = OwnSecret(needed_by="a test")
    drawn = secret.uniform(ALONE, 200_000)
    assert drawn.shape == (1, 200_000)
    assert 0.0 < drawn.min() < drawn.max() < 1.0
    assert stats.kstest(drawn[0], "uniform").pvalue > 1e-4
    assert (drawn * 2**53 % 2 == 1).all(), "52 bits, centred in their cell"
    assert secret.uniform(ALONE).shape == (1,)
    assert abs(secret.normal(ALONE, 10_000).std() - 1) < 0.05


def test_the_extremes_are_inside():
    class Extreme(OwnSecret):
        def __init__(self, byte: int) -> None:
            super().__init__("a test")
            self._stream = lambda count: bytes([byte]) * count

    assert Extreme(0).uniform(ALONE)[0] == 2.0**-53
    assert Extreme(255).uniform(ALONE)[0] == 1 - 2.0**-53
    assert np.isfinite([Extreme(0).normal(ALONE)[0], Extreme(255).normal(ALONE)[0]]).all()


def test_a_nonce_begins_its_stream_anew_and_no_other():
    secret = OwnSecret(needed_by="a test")
    nonces = [fresh_nonce() for _ in range(2)]
    drawn = {}
    for nonce in (*nonces, *nonces):
        secret.begin(nonce)
        first = np.concatenate([secret.uniform(ALONE), secret.uniform(ALONE, 3)[0]])
        np.testing.assert_array_equal(drawn.setdefault(nonce, first), first)
    assert len({float(value) for values in drawn.values() for value in values}) == 8
    other = OwnSecret(needed_by="a test")
    other.begin(nonces[0])
    assert other.uniform(ALONE)[0] != drawn[nonces[0]][0], "another key"
    other.load(secret.state())
    other.begin(nonces[0])
    assert other.uniform(ALONE)[0] == drawn[nonces[0]][0]


def test_the_stream_is_chacha20_under_a_derived_key():
    import hashlib

    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    secret = OwnSecret(needed_by="a test")
    secret.begin(bytes(16))
    derived = hashlib.blake2b(bytes(16), key=secret.key.tobytes(), digest_size=32, person=b"fedbandits noise").digest()
    stream = Cipher(ChaCha20(derived, bytes(16)), mode=None).encryptor().update(bytes(80))
    expected = [(int.from_bytes(stream[i : i + 8], "little") >> 12) * 2.0**-52 + 2.0**-53 for i in range(0, 80, 8)]
    assert secret.uniform(ALONE, 10)[0].tolist() == expected


# who has one


def test_only_private_agents_have_a_key(tmp_path):
    path = tmp_path / "agent.db"
    opened(path, fb.algorithms.IndependentLinTS()).close()
    assert keys_in(path) == []
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM nonces").fetchone() == (0,)
    db.close()


def test_without_the_package_a_private_agent_says_what_to_install(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingsError, match=r"dp-ucb-int draws noise .* pip install 'fedbandits\[deploy\]'"):
        opened(tmp_path / "agent.db")
    assert list(tmp_path.iterdir()) == []
    opened(tmp_path / "other.db", fb.algorithms.DisLinUCB()).close()


@pytest.mark.parametrize("careless", [Undeclared(), Unkept()])
def test_noise_that_is_not_declared_is_refused(tmp_path, careless):
    """Rather than drawn from the seed, or from a key that is not kept."""
    with opened(tmp_path / "agent.db", careless) as agent:
        play(agent, 3)
        before = agent.state()
        collect = agent.settings.wire.encode(Message("collect", ALONE), 0, "down")
        with pytest.raises(LetterError, match=r"careless draws noise that protects people.*About\.private.*keeps"):
            agent.answer(collect, "c", 0)
        assert same(agent.state(), before)
    with pytest.raises(SettingsError, match="careless draws noise that protects people"):
        opened(tmp_path / "other.db", careless, warm=True)
