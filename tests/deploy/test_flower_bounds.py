"""Bounds are on everything that an agent has sent so far, and grow with the time that it has been seen."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployed_algorithms import STAR, home, talkative
from flower_worlds import AT_ONCE, Deployed
from hypothesis import given, settings
from hypothesis import strategies as st
from misbehaving_node import told
from toy_algorithms import Totals

import fedbandits as fb
from fedbandits.contract.messages import Message
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.contributions import Contribution
from fedbandits.deploy.flower.conversation.coordinator import Coordinator
from fedbandits.deploy.flower.trust.inspection import Inspector, RejectedError
from fedbandits.deploy.flower.trust.past import Past, Pasts, Trust
from fedbandits.deploy.settings import Settings
from fedbandits.facts import RKHS, AgentFeatures, Episodes, Link, Norms, Range
from fedbandits.models import limits

ALONE = np.zeros(1, dtype=np.int64)
DIM, HORIZON = 2, 20


def known(name: str, **parameters: Any) -> Settings:
    link = "logistic" if fb.algorithms.ALGORITHMS[name].about.family == "generalized" else "identity"
    facts = [Range(-1.0, 1.0), Norms(1.0, 2.0), Link(link), RKHS(1.0, low=-2.0, high=2.0), Episodes(2)]
    facts.append(AgentFeatures(((1.0,), (0.5,), (0.0,))))
    return Settings(algorithm=talkative(name, **parameters), dim=DIM, arms=3, agents=3, horizon=HORIZON, facts=facts)


class Reader:
    """Reads the replies of one agent as the server does, one after the other."""

    def __init__(self, settings: Settings, allowed: float = HORIZON) -> None:
        self.settings = settings
        self.inspector = Inspector(settings.algorithm, settings.problem, settings.wire)
        self.past = Past(allowed)

    def take(self, kind: str, arrays: dict[str, Any], asked: Message | None = None) -> None:
        shares = {name: np.asarray(value) for name, value in arrays.items()}
        content = self.settings.wire.encode(self.settings.wire.gathered(kind, ALONE, [shares], "up"), 0, "up")
        letter = self.settings.wire.encode(asked or Message("collect", ALONE), 0, "down")
        self.inspector.read(content, letter, self.past)
        contribution = self.past.contribution.plus(self.inspector.handed(content))
        self.past = Past(self.past.allowed, contribution, self.past.complete)


def statistics(count: int, reward: float = 1.0, norm: float = 2.0) -> dict[str, Any]:
    """Of `count` observations of one arm, where every inequality is tight."""
    arm = norm * np.eye(DIM)[0]
    return {"gram": count * np.outer(arm, arm), "moment": count * reward * arm}


# everything so far


def test_pieces_that_are_honest_one_by_one_are_not_so_together():
    reader = Reader(known("dislinucb"))
    for _ in range(4):
        reader.take("fresh", statistics(5))
    with pytest.raises(RejectedError, match="the trace of 'gram' so far is 84, honest observations reach 80"):
        reader.take("fresh", statistics(1))
    reader.take("fresh", statistics(0))


def test_moments_are_held_to_everything_so_far():
    """Two moments that are fine beside their own matrices, of rewards that were never there."""
    reader = Reader(known("dislinucb"))
    reader.take("fresh", statistics(5, reward=np.sqrt(HORIZON / 5)))
    with pytest.raises(RejectedError, match="'moment' so far in the norm of 'gram'"):
        reader.take("fresh", statistics(14, reward=np.sqrt(HORIZON / 14)))
    reader.take("fresh", statistics(14, reward=0.5))


def test_counts_add_up():
    reader = Reader(known("dislinucb", width="loose"))
    reader.take("fresh", statistics(12) | {"count": np.float64(12)})
    with pytest.raises(RejectedError, match=r"'count' is 9, 12 before; an agent has 0\.\.20 observations"):
        reader.take("fresh", statistics(9) | {"count": np.float64(9)})
    reader.take("fresh", statistics(8) | {"count": np.float64(8)})


def test_queries_are_about_what_was_handed_over():
    reader = Reader(known("fedglb-ucb"))
    asked = Message("gradient", ALONE, {"theta": np.zeros((1, DIM))})
    reader.take("new", {"gram": statistics(3)["gram"], "count": np.float64(3)})
    # |mu| and |y| are at most 1, arms 2 long: an observation adds at most 4
    reader.take("gradient", {"gradient": np.array([12.0, 0.0])}, asked)
    with pytest.raises(RejectedError, match=r"the norm of 'gradient' is 12\.1, honest observations reach 12"):
        reader.take("gradient", {"gradient": np.array([12.1, 0.0])}, asked)
    reader.past = Past(HORIZON, reader.past.contribution, complete=False)
    reader.take("gradient", {"gradient": np.array([80.0, 0.0])}, asked)


def test_totals_never_shrink():
    reader = Reader(Settings(algorithm=Totals(), dim=DIM, arms=2, agents=3, horizon=HORIZON, facts=[Range(-1, 1)]))
    reader.take("sums", {"sums": [3.0, 1.0], "pulls": np.array([4, 2])})
    with pytest.raises(RejectedError, match="'pulls' is a total, and smaller than the last one"):
        reader.take("sums", {"sums": [3.0, 1.0], "pulls": np.array([5, 1])})
    reader.take("sums", {"sums": [3.0, -1.0], "pulls": np.array([4, 4])})
    clusters = Reader(known("hetofedbandit"))
    report = Message("report", ALONE)
    clusters.take("all", statistics(4), report)
    with pytest.raises(RejectedError, match="'gram' is a total, and has shrunk by 4"):
        clusters.take("all", statistics(3), report)
    clusters.take("all", statistics(5), report)
    clusters.take("own", statistics(5))  # what was reported is not what was handed over


# what was unbounded


CURVATURE = Message("curvature", ALONE, {"theta": np.array([[0.5, 0.0]])})
TIGHT: dict[str, tuple[str, str, str, Message | None]] = {
    "fedglb-ucb-3": ("epoch", "gradient", "slope", None),
    "fedglb-newton": ("curvature", "loss", "loss", CURVATURE),
    "one-ucb-glm": ("curvature", "hessian", "bend", CURVATURE),
    "async-linucb-am": ("fresh", "moment", "residual", None),
    "hetofedbandit-e": ("own", "level", "growth", Message("report", ALONE)),
}


@pytest.mark.parametrize("name", TIGHT)
@pytest.mark.parametrize(("share", "passes"), [(1.0, True), (1.001, False), (1e8, False), (-1.001, False)])
def test_what_had_no_bound_has_one(name, share, passes):
    kind, field, limit, asked = TIGHT[name]
    reader = Reader(known(name, **({"shared": 1} if name == "async-linucb-am" else {})))
    declared = reader.settings.wire.declared(kind, "up")
    sizes = reader.settings.wire.sizes
    arrays = {
        item.name: np.zeros([sizes[size] for size in item.shape]) for item in declared.values() if not item.optional
    }
    question = {} if asked is None else {key: value[0] for key, value in asked.arrays.items()}
    problem = reader.inspector._meaning.problem
    most = HORIZON * getattr(limits, limit)(problem, question)
    if field == "hessian":
        arrays[field] = np.diag([most * share, 0.0])
    elif field == "gradient":
        arrays[field] = np.array([most * share, 0.0])
    elif field == "moment":
        arrays |= {"gram": np.array([[HORIZON * 4.0]]), "moment": np.array([2.0 * most * share])}
    else:
        arrays[field] = np.float64(most * share)
    if passes:
        reader.take(kind, arrays, asked)
    else:
        with pytest.raises(RejectedError, match=f"'{field}'"):
            reader.take(kind, arrays, asked)


def test_the_link_is_the_algorithms_own():
    """It may have been told another one than the problem says."""
    own = talkative("fedglb-ucb", link="logistic")
    reader = Reader(Settings(algorithm=own, dim=DIM, agents=3, horizon=HORIZON, facts=[Range(0.0, 1.0)]))
    asked = Message("gradient", ALONE, {"theta": np.zeros((1, DIM))})
    reader.take("gradient", {"gradient": np.array([0.5 * HORIZON, 0.0])}, asked)


ASKED_PLAINLY = [
    name
    for name in STAR
    if name not in ("rclb", "approx-dis-kernel-ucb")
    and fb.algorithms.ALGORITHMS[name].about.family not in ("neural", "nonlinear")
]
"""Those who are asked for what they have, or at a point; the suite holds the others to their bounds (`bounds`)."""


@pytest.mark.parametrize("name", ASKED_PLAINLY)
@given(data=st.data())
@settings(max_examples=5)
def test_honest_agents_at_the_edge_are_never_rejected(name, data):
    """Arms as long, and rewards as large, as they may be, in any direction; answers taken in one after the other."""
    told_of = known(name, **({"shared": 1} if name == "async-linucb-am" else {}))
    population, reader = told_of.population(), Reader(told_of)
    says = {said.kind: said for said in told_of.algorithm.about.says if said.direction == "down"}
    questions = [kind for kind in ("collect", "report", "level") if kind in says]
    points = [kind for kind in ("gradient", "curvature") if kind in says]
    axis = np.array([[[2.0, 0.0], [0.0, 2.0], [np.sqrt(2), -np.sqrt(2)]]])
    for _ in range(HORIZON // 2):
        pick = data.draw(st.integers(0, 2))
        population.choose(ALONE, axis)
        population.learn(ALONE, axis, np.array([pick]), np.array([data.draw(st.sampled_from([-1.0, 1.0]))]))
        if data.draw(st.integers(0, 3)) == 0:
            kind = data.draw(st.sampled_from(questions))
            if kind == "collect" and "report" in questions:
                questions.remove("report")  # which is asked for before anything is handed over
            asked = Message(kind, ALONE)
            if points and data.draw(st.booleans()):
                theta = data.draw(st.tuples(st.floats(-3, 3), st.floats(-3, 3)))
                asked = Message(points[0], ALONE, {"theta": np.array([theta])})
            reply = population.answer(asked)
            reader.take(reply.kind, {key: value[0] for key, value in reply.arrays.items()}, asked)


# time


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_what_an_agent_can_have_observed_grows_while_it_is_seen(tmp_path):
    clock = Clock()
    with Book(tmp_path / "server.db") as book:
        pasts = Pasts(book, HORIZON, 2.0, clock)
        assert pasts.of(0).allowed == HORIZON
        book.rang([0], clock.now)
        clock.now += 30.0
        assert pasts.of(0).allowed == HORIZON + 60.0
        assert pasts.of(1).allowed == HORIZON
        book.rang([0], clock.now)
        clock.now -= 500.0  # set back
        assert pasts.of(0).allowed == HORIZON + 60.0
        assert pasts.of(0).contribution == Contribution()
        assert pasts.of(0).complete


def outliving(where: Path, pace: float) -> tuple[Deployed, Clock]:
    """A federation whose agents go on for much longer than they were made for."""
    deployed = Deployed(where, talkative("dislinucb"), home("dislinucb", clients=3), 40)
    deployed.settings = Settings(
        **{
            name: getattr(deployed.settings, name)
            for name in ("algorithm", "dim", "arms", "agents", "facts", "seed", "common")
        },
        horizon=4,
    )
    clock = Clock()
    clock.now = time.time()  # which the server goes by where it notes who is there
    deployed.coordinator = Coordinator(deployed.settings, deployed.post, deployed.book, AT_ONCE, trust=Trust(pace=pace))
    deployed.coordinator._pasts._now = clock
    with deployed.book.writing():
        deployed.book.sightings.mark([0, 1, 2], clock.now)
    return deployed, clock


def test_honest_agents_outlive_the_horizon(tmp_path):
    deployed, clock = outliving(tmp_path, pace=0.01)
    for step in range(40):
        deployed.live(step)
        clock.now += 100.0
        deployed.coordinator.step()
    assert deployed.book.rejections() == []


def test_what_is_too_much_for_the_moment_is_taken_in_later(tmp_path, monkeypatch):
    deployed, clock = outliving(tmp_path, pace=0.01)
    observed = [np.zeros((5, 5)) for _ in range(3)]
    for agent, gram in zip(deployed.agents, observed, strict=True):
        decide = agent.decide

        def noting(arms: Any, decide: Any = decide, gram: Any = gram) -> Any:
            decision = decide(arms)
            gram += np.outer(arms[decision.index], arms[decision.index])
            return decision

        monkeypatch.setattr(agent, "decide", noting)
    for step in range(40):
        deployed.live(step)
        deployed.coordinator.step()
    assert {"the trace of 'gram'" in rejection.why for rejection in deployed.book.rejections()} == {True}
    clock.now += 4000.0
    for step in range(40, 44):
        deployed.live(step % 40)
        deployed.coordinator.step()
    for agent in deployed.agents:
        held = deployed.book.contributions.of(agent.settings.identity)
        state = agent.state()
        own = held.sums["fresh.gram"] + state["models.fresh.gram"][0]
        np.testing.assert_allclose(own, observed[agent.settings.identity], atol=1e-9)
    assert deployed.book.contributions.of(0).sums["fresh.gram"].trace() > 4.0


def test_a_liar_cannot_claim_the_horizon_with_every_reply(tmp_path):
    """The present bound was that of one reply: any number of them could claim T observations each."""
    deployed = Deployed(tmp_path, talkative("dislinucb"), home("dislinucb", clients=3), 20)
    deployed.coordinator = Coordinator(deployed.settings, deployed.post, deployed.book, AT_ONCE, trust=Trust(pace=0.0))

    def boasting(who: int, letter: Any, answer: Any) -> Any:
        if who != 1 or answer.content is None:
            return answer
        return told(
            answer, lambda held: {"gram": 15 * np.diag(np.eye(len(held["moment"]))[0]), "moment": 0 * held["moment"]}
        )

    deployed.post.forged = boasting
    for step in range(20):
        deployed.live(step)
        deployed.coordinator.step()
    assert np.trace(deployed.book.contributions.of(1).sums["fresh.gram"]) <= 20 * (1 + 1e-6)
    assert "so far" in deployed.book.rejections()[-1].why
    assert np.trace(deployed.book.contributions.of(1).sums["fresh.gram"]) >= 15.0
