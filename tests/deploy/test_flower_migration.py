"""A federation whose features come and go: agents first, then their server, and everybody goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")

from flower_worlds import AT_ONCE, DeskPost, open_agent
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli import app
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import ConfigError
from fedbandits.deploy import Agent, InputError
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.names import BOOK, SETTINGS
from fedbandits.deploy.flower.conversation.coordinator import Coordinator
from fedbandits.deploy.flower.conversation.desk import Desk, fingerprint
from fedbandits.deploy.flower.conversation.turnstile import alone
from fedbandits.deploy.flower.operating.migration import migrate_server
from fedbandits.deploy.migrating import Change, migrate
from fedbandits.deploy.settings import made, stored

FEATURES = ("age", "new", "near")
DISLINUCB = fb.algorithms.DisLinUCB(threshold=0.5, width=0.5)
ASYNC = fb.algorithms.AsyncLinUCB(gamma_up=1.2, gamma_down=1.2, width=0.5)


def founded(where: Path, algorithm: Algorithm = DISLINUCB) -> None:
    """A directory with what a server and two agents have after some conversations."""
    settings = made({"algorithm": algorithm, "features": FEATURES, "agents": 2})
    (where / SETTINGS).write_text(replace(settings, seed=0).text())
    for identity in range(2):
        open_agent(where / f"agent-{identity}.db", settings, identity).close()
    lived(where, 6)


def lived(where: Path, turns: int) -> None:
    settings = stored((where / SETTINGS).read_text(), {})
    agents = [Agent.open(where / f"agent-{identity}.db", durable=False, warm=False) for identity in range(2)]
    assert {fingerprint(agent.settings) for agent in agents} == {fingerprint(settings)}
    with Book(where / BOOK) as book:
        post = DeskPost({identity: Desk(agent) for identity, agent in enumerate(agents)})
        coordinator = Coordinator(settings, post, book, AT_ONCE)
        for turn in range(turns):
            for number, agent in enumerate(agents):
                arms = np.random.default_rng((turn, number)).normal(size=(3, agent.settings.dim)) / 2
                agent.reward(agent.decide(arms).id, 0.5)
            coordinator.step()
        assert book.ledger().conversations > 0
    for agent in agents:
        agent.close()


def pooled(where: Path) -> tuple[np.ndarray, np.ndarray]:
    """The gram matrix of the pool, and the sum of what agents have contributed."""
    with Book(where / BOOK) as book:
        contributions = book.contributions.all()
        return book.parts()["server"]["pool.gram"][0], sum(held.sums["fresh.gram"] for held in contributions.values())


@pytest.mark.parametrize("algorithm", [DISLINUCB, ASYNC], ids=["dislinucb", "async-linucb"])
def test_everybody_goes_on_with_one_feature_more(tmp_path: Path, algorithm: Algorithm) -> None:
    founded(tmp_path, algorithm)
    before, _ = pooled(tmp_path)
    for identity in range(2):
        path = tmp_path / f"agent-{identity}.db"
        migrate(path, Change(add="far"), tmp_path / f"before-{identity}.db", assume_accepted=True)
    assert migrate_server(tmp_path, Change(add="far")) == (*FEATURES, "far")
    after, contributed = pooled(tmp_path)
    assert after.shape == contributed.shape == (4, 4)
    assert np.array_equal(after[:3, :3], before)
    assert not after[3].any()
    assert contributed == pytest.approx(after)
    assert (tmp_path / "server.db.before").exists()
    assert stored((tmp_path / "federation.json.before").read_text(), {}).features == FEATURES
    lived(tmp_path, 6)
    after, contributed = pooled(tmp_path)
    assert after[3, 3] > 0
    assert contributed == pytest.approx(after)


def test_a_feature_less_where_the_server_keeps_sums_alone(tmp_path: Path) -> None:
    founded(tmp_path)
    before, _ = pooled(tmp_path)
    for identity in range(2):
        path = tmp_path / f"agent-{identity}.db"
        migrate(path, Change(drop="new"), tmp_path / f"before-{identity}.db", assume_accepted=True)
    assert migrate_server(tmp_path, Change(drop="new")) == ("age", "near")
    assert np.array_equal(pooled(tmp_path)[0], before[np.ix_([0, 2], [0, 2])])
    lived(tmp_path, 6)


def test_a_server_that_keeps_more_than_sums_stays_as_it_is(tmp_path: Path) -> None:
    founded(tmp_path, ASYNC)
    with pytest.raises(InputError, match=r"keeps more than sums .*known_logdet"):
        migrate_server(tmp_path, Change(drop="new"))
    assert not (tmp_path / "server.db.before").exists()
    lived(tmp_path, 2)


def test_agents_that_were_not_migrated_are_turned_away(tmp_path: Path) -> None:
    founded(tmp_path)
    migrate_server(tmp_path, Change(add="far"))
    with Agent.open(tmp_path / "agent-0.db", warm=False) as agent:
        assert fingerprint(agent.settings) != fingerprint(stored((tmp_path / SETTINGS).read_text(), {}))


def test_a_server_that_is_not_at_rest_is_left_alone(tmp_path: Path) -> None:
    founded(tmp_path)
    with Book(tmp_path / BOOK) as book:
        book.begin("c", [0], [0])
    with pytest.raises(ConfigError, match="a conversation is under way: let the server go on"):
        migrate_server(tmp_path, Change(add="far"))
    with alone(tmp_path), pytest.raises(ConfigError, match="another server serves"):
        migrate_server(tmp_path, Change(add="far"))
    assert stored((tmp_path / SETTINGS).read_text(), {}).features == FEATURES


def test_the_command(tmp_path: Path) -> None:
    founded(tmp_path)
    words = ["federation", "migrate", str(tmp_path), "--add-feature", "far"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (0, "features: age, new, near, far\n")
    again = CliRunner().invoke(app, [*words[:-1], "rich"])
    assert (again.exit_code, "is not overwritten" in again.stderr) == (2, True)
    missing = CliRunner().invoke(app, ["federation", "migrate", str(tmp_path / "x"), "--add-feature", "far"])
    assert (missing.exit_code, "holds no federation.json" in missing.stderr) == (2, True)
