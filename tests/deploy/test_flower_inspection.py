"""Trust at the door: honest replies pass, others do not, and a federation with a liar in it goes on without it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from deployed_algorithms import home, talkative
from flower_worlds import Deployed, Simulated, assert_same
from hypothesis import given
from hypothesis import strategies as st
from misbehaving_node import LIES, told

import fedbandits as fb
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire
from fedbandits.deploy.flower.trust.inspection import Inspector, RejectedError
from fedbandits.deploy.settings import Settings
from fedbandits.facts import Link, Range

ALONE = np.zeros(1, dtype=np.int64)
DIM, HORIZON = 3, 50
SETTINGS = Settings(
    algorithm=fb.algorithms.DisLinUCB(width="loose"), dim=DIM, agents=3, horizon=HORIZON, facts=[Range(-1.0, 1.0)]
)
COLLECT = Wire().encode(Message("collect", ALONE), 0, "down")


def inspect(arrays, kind="fresh", letter=COLLECT, settings=SETTINGS):
    named = {name: np.asarray(value)[None] for name, value in arrays.items()}
    content = Wire().encode(Message(kind, ALONE, named), 0, "up")
    return Inspector(settings.algorithm, settings.problem, settings.wire).read(content, letter)


def honest(count=8, seed=0, norm=1.0, reward=1.0):
    """Statistics of `count` observations at the bounds: arms of norm 1, rewards of -1 or 1."""
    rng = np.random.default_rng(seed)
    arms = rng.normal(size=(count, DIM))
    arms *= norm / np.linalg.norm(arms, axis=1, keepdims=True)
    rewards = reward * rng.choice([-1.0, 1.0], count)
    return {"gram": arms.T @ arms, "moment": arms.T @ rewards, "count": np.float64(count)}


@given(count=st.integers(0, HORIZON), seed=st.integers(0, 99))
def test_honest_statistics_at_their_bounds_pass(count, seed):
    kind, arrays = inspect(honest(count, seed))
    assert kind == "fresh"
    assert arrays.keys() == {"gram", "moment", "count"}


def aligned(count, reward):
    """All observations of one arm with one reward: where every inequality is tight."""
    arm = np.eye(DIM)[0]
    return {"gram": count * np.outer(arm, arm), "moment": count * reward * arm, "count": np.float64(count)}


def test_bounds_are_tight():
    inspect(aligned(HORIZON, 1.0))
    with pytest.raises(RejectedError, match="'moment'"):
        inspect(aligned(HORIZON, 1.001))
    with pytest.raises(RejectedError, match="trace"):
        inspect(aligned(4, 1.0) | {"gram": 4.001 * np.diag([1.0, 0, 0])})


def broken(**changes):
    return honest() | {name: np.asarray(value) for name, value in changes.items()}


LOPSIDED = honest()["gram"] + np.triu(np.full((DIM, DIM), 0.1), 1)
WRONG = {
    "not a number": (broken(moment=[np.nan, 0, 0]), "not finite"),
    "infinite": (broken(gram=np.full((DIM, DIM), np.inf)), "not finite"),
    "too many dimensions": (broken(moment=np.zeros(DIM + 1)), "shape"),
    "another type": (broken(moment=np.zeros(DIM, dtype=np.float32)), "float32"),
    "asymmetric": (broken(gram=LOPSIDED), "not symmetric"),
    "indefinite": (broken(gram=np.diag([4.0, 4.0, -0.1])), "not positive semidefinite"),
    "gram beyond its count": (broken(gram=honest()["gram"] * 1.5), "trace of 'gram'"),
    "moment beyond its count": (broken(moment=honest()["moment"] * 40), "'moment'"),
    "moment where no arm was": (broken(gram=np.diag([8.0, 0, 0]), moment=[0, 1.0, 0]), "'moment'"),
    "more than there are turns": (honest(HORIZON + 1), "'count'"),
    "half an observation": (broken(count=7.5), "'count'"),
    "less than nothing": (broken(count=-1.0), "'count'"),
    "so large that sums overflow": (broken(gram=np.full((DIM, DIM), 1e308)), "honest|decomposed|semidefinite"),
    "a field too few": ({"gram": np.eye(DIM), "moment": np.zeros(DIM)}, "no answer to what was asked"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_honest_observations_cannot_add_up_to_is_rejected(name):
    arrays, words = WRONG[name]
    with pytest.raises(RejectedError, match=words):
        inspect(arrays)


def test_another_kind_than_was_asked_for_is_rejected():
    settings = Settings(algorithm=fb.algorithms.HetoFedBandit(), dim=DIM, agents=3)
    with pytest.raises(RejectedError, match="no answer to what was asked"):
        inspect({"level": np.float64(1.0)}, "level", settings=settings)
    with pytest.raises(RejectedError, match="never declared"):
        inspect(honest(), "pool")


@pytest.mark.parametrize("content", [b"", b"\x01", b"\x02\x05fresh\x00", bytes(200)])
def test_bytes_that_are_no_message_are_rejected(content):
    inspector = Inspector(SETTINGS.algorithm, SETTINGS.problem, SETTINGS.wire)
    with pytest.raises(RejectedError):
        inspector.read(content, COLLECT)


def test_gradients_are_bounded_by_the_observations_behind_them():
    settings = Settings(
        algorithm=talkative("fedglb-ucb"),
        dim=DIM,
        agents=3,
        horizon=HORIZON,
        facts=[Range(0.0, 1.0), Link("logistic")],
    )
    theta = Message("gradient", ALONE, {"theta": np.zeros((1, DIM))})
    letter = settings.wire.encode(theta, 0, "down")
    # mu and y lie in [0, 1]: each of T observations adds at most 1
    inspect({"gradient": np.array([1.0 * HORIZON, 0, 0])}, "gradient", letter, settings)
    with pytest.raises(RejectedError, match="'gradient'"):
        inspect({"gradient": np.array([1.01 * HORIZON, 0, 0])}, "gradient", letter, settings)


@pytest.mark.parametrize("lie", LIES)
def test_the_federation_goes_on_unpolluted(lie, tmp_path):
    """With a liar the others' run is the one in which the liar cannot be reached."""
    horizon = 24
    deployed = Deployed(tmp_path, talkative("dislinucb"), home("dislinucb", clients=3), horizon)
    simulated = Simulated(deployed)
    simulated.carrier.reachable = np.array([True, False, True])

    def lying(who, letter, answer):
        return told(answer, LIES[lie]) if who == 1 else answer

    deployed.post.forged = lying
    deployed.post.quiet = {1}
    for step in range(horizon):
        assert deployed.live(step)[[0, 2]].tolist() == simulated.live(step)[[0, 2]].tolist()
        deployed.coordinator.step()
        simulated.converse()
    for there, here in zip(deployed.states()[::2], simulated.states()[::2], strict=True):
        assert_same([there], [here])
    rejections = deployed.book.rejections()
    assert {rejection.identity for rejection in rejections} == {1}
    assert len(rejections) == deployed.coordinator.ledger.conversations > 0


def test_what_is_let_in_has_the_size_that_is_metered():
    """A reply that says the same in another number of bytes would make the ledger wrong."""
    packed = dataclasses.replace(SETTINGS, packed=True)
    inspector = Inspector(packed.algorithm, packed.problem, packed.wire)
    held = {name: np.asarray(value)[None] for name, value in honest().items()}
    inspector.read(packed.wire.encode(Message("fresh", ALONE, held), 0, "up"), COLLECT)
    with pytest.raises(RejectedError, match="bytes, the meter counts"):
        inspector.read(SETTINGS.wire.encode(Message("fresh", ALONE, held), 0, "up"), COLLECT)
