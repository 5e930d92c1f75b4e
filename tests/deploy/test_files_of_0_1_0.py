"""Files that version 0.1.0 wrote are opened, and their agents and servers go on where it left them.

Each file in `fixtures/0.1.0` was closed or killed by that version; `*.expected.json` and `*.states.npz` hold what it
did itself after opening a copy. Sums are compared up to rounding, which may differ on another processor.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import pytest
from flower_worlds import AT_ONCE, DeskPost, live

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.arrays import State
from fedbandits.contract.state import from_bytes
from fedbandits.contract.wire import Wire
from fedbandits.deploy import Agent, AgentError, SettingsError, back_up
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.conversation.coordinator import Coordinator
from fedbandits.deploy.flower.conversation.desk import Desk, fingerprint
from fedbandits.deploy.former_settings import translated_settings
from fedbandits.deploy.known_facts import read_facts
from fedbandits.deploy.settings import Settings, stored
from fedbandits.deploy.storage.journal_format import AGENT
from fedbandits.facts import Contamination, Link, Moment, Noise, Norms, Range, Shared

FILES = Path(__file__).parent / "fixtures" / "0.1.0"
NAMES = sorted(path.stem for path in FILES.glob("*.db"))
PUBLIC = [name for name in NAMES if not name.startswith("dp-")]
PRIVATE = [name for name in NAMES if name.startswith("dp-")]
FEDERATIONS = ("federation", "federation-debts")
SAME_PROCESSOR = llvmlite.binding.get_host_cpu_name() == "znver3"
"""Whether doing again gives the last bit of what was recorded."""
ROUNDED_OTHERWISE = ("fedglb-ucb-",)
"""Whose states have other last bits by now (see CHANGELOG): their steps have been taken by compiled functions since."""


def test_the_files_are_there():
    assert len(PUBLIC) == 6
    assert len(PRIVATE) == 2
    assert {name.rpartition("-")[2] for name in PRIVATE} == {"closed", "killed"}


class Left:
    """A copy of what version 0.1.0 left, and what it did next."""

    def __init__(self, name: str, away: Path) -> None:
        self.path = away / f"{name}.db"
        shutil.copy(FILES / self.path.name, self.path)
        self.expected: dict[str, Any] = json.loads((FILES / f"{name}.expected.json").read_text())
        with np.load(FILES / f"{name}.states.npz") as held:
            self._states: State = dict(held)

    def open(self, **options: Any) -> Agent:
        clock = {"clock": lambda: self.expected["clock"]}
        return Agent.open(self.path, **({"verify": SAME_PROCESSOR, "warm": False} | clock | options))

    def given(self) -> dict[str, Any]:
        """The settings that it was made with, as they are given now."""
        told = translated_settings(self.expected["settings"])
        named = dict(self.expected["algorithm"])
        return told | {"algorithm": ALGORITHMS[named.pop("name")](**named), "facts": read_facts(told["facts"])}

    def assert_state(self, agent: Agent, stage: str, besides: tuple[str, ...] = ()) -> None:
        found = agent.state()
        expected = {
            name.removeprefix(f"{stage}."): array
            for name, array in self._states.items()
            if name.startswith(f"{stage}.")
        }
        assert found.keys() == expected.keys()
        for name in expected.keys() - set(besides):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12, err_msg=f"{stage} {name}")
            if SAME_PROCESSOR and not self.path.name.startswith(ROUNDED_OTHERWISE):
                assert found[name].tobytes() == expected[name].tobytes(), f"{stage} {name}"

    def assert_status(self, agent: Agent, stage: str) -> None:
        found = dataclasses.asdict(agent.status())
        found["synchronised_at"] = found["synchronised_at"] and found["synchronised_at"].isoformat()
        expected = self.expected[stage]  # a status tells more by now
        assert {name: found[name] for name in expected} == pytest.approx(expected)


@pytest.fixture(params=PUBLIC)
def left(request, tmp_path) -> Left:
    return Left(request.param, tmp_path)


@pytest.fixture(params=PRIVATE)
def left_private(request, tmp_path) -> Left:
    return Left(request.param, tmp_path)


def test_agents_go_on_as_they_would_have(left):
    with left.open() as agent:
        left.assert_status(agent, "status")
        left.assert_state(agent, "opened")
        for item in left.expected["repeats"]:
            reply = agent.answer(base64.b64decode(item["letter"]), item["conversation"], item["turn"])
            assert (None if reply is None else base64.b64encode(reply).decode()) == item["reply"]
        for item in left.expected["decisions"]:
            assert agent.decide(item["menu"]).index == item["index"]
        left.assert_state(agent, "decided")
        for item in left.expected["awaiting"]:
            assert (
                outcome_of(lambda item=item: agent.reward(item["id"], item["value"]), "reward").items() <= item.items()
            )
        left.assert_state(agent, "rewarded")
        left.assert_status(agent, "status_after_rewards")
        for turn, item in enumerate(left.expected["letters"]):
            found = outcome_of(
                lambda turn=turn, item=item: agent.answer(base64.b64decode(item["letter"]), "after", turn)
            )
            assert found.get("raises") == item.get("raises")
            assert_same_message(found.get("reply"), item.get("reply"))
        left.assert_state(agent, "answered")
    with left.open(**left.given()) as again:
        left.assert_state(again, "answered")
    with pytest.raises(SettingsError, match=r"facts\.noise\.sigma: .* there, 9\.0 now"):
        left.open(facts=[Noise(9.0)])


def outcome_of(call: Any, name: str = "reply") -> dict[str, Any]:
    try:
        return {name: call()}
    except AgentError as error:
        return {"raises": type(error).__name__}


def assert_same_message(found: bytes | None, expected: str | None) -> None:
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        (kind, arrays), (wanted, held) = Wire.decode(found), Wire.decode(base64.b64decode(expected))
        assert (kind, arrays.keys()) == (wanted, held.keys())
        for name in held:
            np.testing.assert_allclose(arrays[name], held[name], rtol=1e-9, atol=1e-12)


def test_the_file_gets_the_newest_format_and_keeps_its_description(left):
    with sqlite3.connect(left.path) as db:
        before = db.execute("SELECT text FROM settings").fetchall()
    left.open().close()
    with sqlite3.connect(left.path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (AGENT.newest,)
        assert db.execute("SELECT text FROM settings").fetchall() == before
    db.close()


# agents that drew their noise from the seed


def test_a_private_agent_goes_on_with_a_secret_of_its_own(left_private):
    left = left_private
    with left.open() as agent:
        left.assert_status(agent, "status")
        left.assert_state(agent, "opened")  # what was done is done again, with the noise it had
        for item in left.expected["decisions"]:
            assert agent.decide(item["menu"]).index == item["index"]
        left.assert_state(agent, "decided")
        for item in left.expected["awaiting"]:
            assert agent.reward(item["id"], item["value"])
        left.assert_state(agent, "rewarded", besides=("own.means", "own.rng.words"))
        released = np.array(agent.state()["own.means"])
        known = left._states["rewarded.own.means"]
        before = left._states["decided.own.means"]
        assert (released != known)[known != before].all(), "what is released from now on has noise that nobody knows"
        np.testing.assert_array_equal(released[known == before], known[known == before])
        words = agent.state()["own.rng.words"]
        np.testing.assert_array_equal(words, left._states["opened.own.rng.words"], "the seed's stream stands still")
    with left.open(**left.given()) as again:
        np.testing.assert_array_equal(again.state()["own.means"], released)


def test_the_key_is_saved_at_once(left_private):
    left = left_private
    agent = left.open()  # and never closed
    with sqlite3.connect(left.path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (AGENT.newest,)
        ((entry, state),) = db.execute("SELECT entry, state FROM snapshots").fetchall()
        assert db.execute("SELECT count(*) FROM nonces").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM shown").fetchone() == (left.expected["status"]["awaiting"],)
    db.close()
    key = from_bytes(state)["own.rng.secret.key"]
    assert key.shape == (1, 32)
    status = agent.status()
    assert entry == status.decisions + status.rewards
    for item in left.expected["awaiting"]:
        agent.reward(item["id"], item["value"])
    with left.open() as again:
        for name, array in agent.state().items():
            np.testing.assert_array_equal(again.state()[name], array)


def test_two_copies_go_on_with_different_noise(left_private, tmp_path):
    left = left_private
    back_up(left.path, tmp_path / "copy.db")
    means = []
    for path in (left.path, tmp_path / "copy.db"):
        with Agent.open(path, verify=SAME_PROCESSOR, warm=False) as agent:
            for item in left.expected["awaiting"]:
                agent.reward(item["id"], item["value"])
            means.append(agent.state()["own.means"])
    assert (means[0] != means[1]).any()


def test_a_second_opening_while_the_first_is_at_work(left_private):
    left = left_private
    one, other = left.open(), left.open()
    first, second = left.expected["awaiting"][:2]
    one.reward(first["id"], first["value"])
    other.reward(second["id"], second["value"])
    for name, array in one.state().items():
        np.testing.assert_array_equal(other.state()[name], array)


# federations


@pytest.mark.parametrize("name", FEDERATIONS)
def test_a_server_goes_on_with_its_agents(name, tmp_path):
    where = tmp_path / name
    shutil.copytree(FILES / name, where)
    expected = json.loads((where / "expected.json").read_text())
    settings = stored((where / "federation.json").read_text(), {})
    agents = [Agent.open(where / f"agent-{who}.db", verify=SAME_PROCESSOR, warm=False) for who in range(3)]
    assert {Desk(agent).fingerprint for agent in agents} == {fingerprint(settings)}
    with Book(where / "server.db") as book:
        cut = book.cut()
        assert json.loads(json.dumps(cut and dataclasses.asdict(cut))) == expected["cut"]
        assert sorted(book.undelivered()) == sorted(map(int, expected["undelivered"]))
        assert sorted(book.owed()) == sorted(map(int, expected["owed"]))
        assert book.ledger().counts.tolist() == expected["ledger_counts"]
        assert book.parts().keys() == {"ledger", "server"}
        post = DeskPost({who: Desk(agent) for who, agent in enumerate(agents)})
        coordinator = Coordinator(settings, post, book, AT_ONCE)
        assert coordinator.step() == expected["step_said_something"]
        carried = [
            {
                "who": who,
                "conversation": letter.conversation if cut else None,
                "turn": letter.turn,
                "kind": Wire.decode(letter.content)[0],
            }
            for who, letter, _ in post.carried
        ]
        assert carried == expected["letters_after_step"]
        assert sorted(book.undelivered()) == expected["after_step"]["undelivered"]
        assert sorted(book.owed()) == expected["after_step"]["owed"]
        assert coordinator.ledger.counts.tolist() == expected["after_step"]["ledger_counts"]
        world = fb.environments.Linear(clients=3, dim=3, arms=5).world(60, np.random.SeedSequence(0).spawn(4)[0])
        picks = []
        for step in range(expected["step"] + 1, expected["step"] + 11):
            picks.append(live(agents, world, step).tolist())
            coordinator.step()
        assert picks == expected["picks_of_ten_more_steps"]
        assert coordinator.ledger.counts.tolist() == expected["ledger_counts_after_ten_more_steps"]
        assert book.rejections() == []
        assert "streams" in book.parts(), "what the server draws from is saved from now on"
    for agent in agents:
        agent.close()


def test_old_and_new_members_of_one_federation_agree():
    """A server or an agent that is set up anew, by what is written now, has the fingerprint of old files."""
    old = stored((FILES / "federation" / "federation.json").read_text(), {})
    algorithm = fb.algorithms.DisLinUCB(threshold=0.5)
    known = {"algorithm": algorithm, "dim": 3, "arms": 5, "agents": 3, "horizon": 60}
    assert fingerprint(Settings(**known)) == fingerprint(old)
    assert fingerprint(Settings(**known, facts=[Link(), Noise(0.1)], identity=2, seed=8)) == fingerprint(old)
    assert fingerprint(Settings(**known, facts=[Noise(0.2)])) != fingerprint(old)
    assert fingerprint(Settings(**known, common=1)) != fingerprint(old)


# settings


def test_everything_that_was_a_setting_is_a_fact():
    held = {
        "noise": 0.3,
        "bound": 2.0,
        "arm_norm": 1.5,
        "link": "logistic",
        "shared": 2,
        "moment": {"order": 1.5, "raw": 2.0, "central": 1.0},
        "contamination": 0.1,
        "range": [0.0, 1.0],
    }
    found = translated_settings({"dim": 3, **held})
    assert found.keys() == {"dim", "facts"}
    assert set(read_facts(found["facts"])) == {
        Noise(0.3),
        Norms(2.0, 1.5),
        Link("logistic"),
        Shared(2),
        Moment(1.5, 2.0, 1.0),
        Contamination(0.1),
        Range(0.0, 1.0),
    }
    assert translated_settings(found) == found
    assert translated_settings({"shared": None, "moment": None, "range": None}) == {"facts": {}}


@pytest.mark.parametrize(
    ("former", "advice"),
    [
        ({"noise": 0.3}, "noise is a fact now: write facts=[Noise(sigma=0.3)]"),
        ({"bound": 2.0}, "bound is a fact now: write facts=[Norms(parameter=2.0)]"),
        ({"arm_norm": 2.0}, "arm_norm is a fact now: write facts=[Norms(arms=2.0)]"),
        ({"link": "logistic"}, "link is a fact now: write facts=[Link(function='logistic')]"),
        ({"shared": 2}, "shared is a fact now: write facts=[Shared(coordinates=2)]"),
        ({"moment": Moment(1.5, 2.0, 1.0)}, "write facts=[Moment(order=1.5, raw=2.0, central=1.0)]"),
        ({"contamination": 0.1}, "write facts=[Contamination(share=0.1)]"),
        ({"range": (0, 1)}, "range is a fact now: write facts=[Range(0, 1)]"),
        ({"horzion": 3}, "has no 'horzion'; did you mean 'horizon'?"),
    ],
)
def test_who_gives_a_former_setting_is_told_what_to_write(tmp_path, former, advice):
    with pytest.raises(SettingsError) as raised:
        Agent.open(tmp_path / "agent.db", fb.algorithms.DisLinUCB(), 3, **former)
    assert advice in str(raised.value)
    assert list(tmp_path.iterdir()) == []
