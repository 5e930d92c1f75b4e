"""Who has contributed what, and who is far from the others."""

from __future__ import annotations

import json

import numpy as np
import pytest
from deployed_algorithms import home, talkative
from flower_worlds import Deployed
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.channel import Quantise, Through
from fedbandits.cli.app import app
from fedbandits.deploy.flower.operating.influence import influences, statistics_pair
from fedbandits.facts import Noise

LINEAR = fb.environments.Linear(clients=4, dim=3, arms=6, noise=0.2)
DISLINUCB = fb.algorithms.DisLinUCB(threshold=1.0)
LIAR = 2


def lived(where, algorithm=DISLINUCB, environment=LINEAR, steps=60, lie=lambda rewards: rewards):
    """A federation after a while, in which one agent is told something else than what it got."""
    federation = Deployed(where, algorithm, environment, steps)
    for step in range(steps):
        turn = federation.world.turn(step)
        decisions = [federation.agents[who].decide(arms) for who, arms in zip(turn.who, turn.arms, strict=True)]
        rewards = federation.world.pay(step, np.array([decision.index for decision in decisions])).rewards
        for who, decision, reward in zip(turn.who, decisions, rewards, strict=True):
            federation.agents[who].reward(decision.id, float(lie(reward) if who == LIAR else reward))
        federation.coordinator.step()
    (where / "federation.json").write_text(federation.settings.text())
    return federation


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """One with a liar, to look at."""
    return lived(tmp_path_factory.mktemp("lied"), lie=lambda reward: -reward, steps=50)


def test_honest_agents_are_near_each_other_and_a_liar_is_not(federation):
    found = influences(federation.book, federation.settings)
    assert [one.agent for one in found] == [0, 1, 2, 3]
    assert sum(one.share for one in found) == pytest.approx(1.0)
    apart = {one.agent: one.distance for one in found}
    assert max(apart, key=apart.get) == LIAR
    assert apart[LIAR] > 3
    assert all(one.accepted > 0 and one.rejected == 0 and one.standing == "member" for one in found)


def test_without_liars_distances_are_near_one(tmp_path):
    federation = lived(tmp_path, steps=40)
    assert all(0.2 < one.distance < 2.5 for one in influences(federation.book, federation.settings))


def test_against_an_independent_computation(federation):
    held = federation.book.contributions.all()
    grams = np.array([held[who].sums["fresh.gram"] for who in range(4)])
    moments = np.array([held[who].sums["fresh.moment"] for who in range(4)])
    sigma = federation.settings.problem.get(Noise).sigma
    for one in influences(federation.book, federation.settings):
        others = np.arange(4) != one.agent
        own = np.linalg.lstsq(grams[one.agent], moments[one.agent], rcond=None)[0]
        rest = np.linalg.lstsq(grams[others].sum(axis=0), moments[others].sum(axis=0), rcond=None)[0]
        expected = np.sqrt((own - rest) @ grams[one.agent] @ (own - rest) / 3) / sigma
        assert one.distance == pytest.approx(expected, rel=1e-6)
        assert one.share == pytest.approx(np.trace(grams[one.agent]) / np.trace(grams.sum(axis=0)))


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("dislinucb", ("fresh.gram", "fresh.moment")),
        ("hetofedbandit-e", ("own.gram", "own.moment")),
        ("fedglb-ucb", ("new.gram", None)),
        ("async-linucb-am", ("fresh.gram", "fresh.moment")),
    ],
)
def test_statistics_are_found_by_what_is_declared(name, pair, tmp_path):
    federation = Deployed(tmp_path, talkative(name), home(name, clients=3), 10)
    assert statistics_pair(federation.settings) == pair


def test_through_a_stage_they_are_those_of_the_algorithm(tmp_path):
    federation = lived(tmp_path, Through(DISLINUCB, (Quantise(bits=16),)), steps=12)
    assert statistics_pair(federation.settings) == ("fresh.gram", "fresh.moment")
    assert all(one.distance is not None for one in influences(federation.book, federation.settings))


def test_without_an_estimate_there_are_shares(tmp_path):
    federation = lived(tmp_path, talkative("fedglb-ucb"), home("fedglb-ucb", clients=3), steps=6)
    found = influences(federation.book, federation.settings)
    assert sum(one.share for one in found) == pytest.approx(1.0)
    assert {one.distance for one in found} == {None}


def run(*arguments):
    return CliRunner().invoke(app, ["federation", *map(str, arguments)])


def test_operators_see_expel_and_readmit(tmp_path):
    federation = lived(tmp_path, lie=lambda reward: -reward, steps=30)
    shown = run("influence", tmp_path)
    assert shown.exit_code == 0, shown.output
    assert "distance" in shown.stdout
    told = json.loads(run("influence", tmp_path, "--json").stdout)
    assert max(told, key=lambda one: one["distance"])["agent"] == LIAR
    assert told[0]["last_seen"] >= told[0]["first_seen"]

    assert "takes it out of the pool with its next step" in run("expel", tmp_path, LIAR).stdout
    assert json.loads(run("influence", tmp_path, "--json").stdout)[LIAR]["standing"] == "expelled"
    federation.coordinator.step()
    after = json.loads(run("influence", tmp_path, "--json").stdout)
    assert after[LIAR]["standing"] == "removed"
    assert after[LIAR]["share"] == 0.0
    assert all(one["distance"] < 3 for one in after if one["agent"] != LIAR)
    again = run("expel", tmp_path, LIAR).stdout
    assert "was already expelled" in again
    assert "nothing of it is in the pool" in again
    assert "is let in again" in run("readmit", tmp_path, LIAR).stdout
    assert "was not expelled" in run("readmit", tmp_path, LIAR).stdout


def test_what_cannot_be_taken_out_is_said_plainly(tmp_path):
    lived(tmp_path, talkative("hetofedbandit"), home("hetofedbandit", clients=3), steps=1)
    assert "stays in what hetofedbandit knows" in run("expel", tmp_path, 0).stdout


def test_what_an_earlier_version_took_in_is_not_known(tmp_path):
    federation = lived(tmp_path, steps=3)
    federation.book.note(contributions_since=1e9)
    assert "before 2001-09-09" in run("expel", tmp_path, LIAR).stdout


@pytest.mark.parametrize("arguments", [("influence",), ("expel", 1), ("readmit", 1)])
def test_without_a_server_there_is_one_line(arguments, tmp_path):
    command, *rest = arguments
    result = run(command, tmp_path, *rest)
    assert result.exit_code == 2
    assert "holds no" in result.stderr
    assert result.stderr.count("\n") == 1


def test_nobody_else_can_be_expelled(tmp_path):
    lived(tmp_path, steps=5)
    assert "agents 0..3" in run("expel", tmp_path, 7).stderr
