"""What deployment knows of statistics is what their fields declare: other families are neither dropped nor rejected."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployed_algorithms import STAR, home, talkative, typical
from flower_worlds import Deployed, Simulated, assert_alike, assert_same
from toy_algorithms import Asked, NoisySums, NumberedPoints, Points, Totals

import fedbandits as fb
from fedbandits.channel import Quantise, Through
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Bound, Utterance, Wire, hand_overs, vector
from fedbandits.deploy.flower.post import Answer
from fedbandits.deploy.flower.trust.inspection import Inspector, RejectedError
from fedbandits.deploy.settings import Settings
from fedbandits.facts import Norms, Range
from fedbandits.models import limits

ALONE = np.zeros(1, dtype=np.int64)
DIM, ARMS, HORIZON = 3, 4, 24
LINEAR = fb.environments.Linear(clients=3, dim=DIM, arms=ARMS)
TOYS = [Points(), NumberedPoints(), Totals(), Asked()]


# they take part in a federation


@pytest.mark.parametrize("algorithm", TOYS, ids=lambda algorithm: algorithm.about.name)
def test_other_statistics_take_part(algorithm, tmp_path):
    deployed = Deployed(tmp_path, algorithm, LINEAR, HORIZON)
    simulated = Simulated(deployed)
    assert_alike(deployed, simulated, HORIZON)
    assert deployed.book.rejections() == []
    assert deployed.coordinator.ledger.conversations > 3
    assert_same([deployed.coordinator.server.state()], [simulated.server.state()])
    assert_same(deployed.states(), simulated.states())
    assert deployed.post.bytes_seen == deployed.coordinator.ledger.counts[:, 3].sum()


@pytest.mark.parametrize("algorithm", [*TOYS, talkative("dislinucb")], ids=lambda algorithm: algorithm.about.name)
def test_a_server_that_is_replaced_goes_on(algorithm, tmp_path):
    """Also with what it draws."""
    deployed = Deployed(tmp_path, algorithm, LINEAR, HORIZON)
    simulated = Simulated(deployed)
    for step in range(HORIZON):
        deployed.live(step)
        simulated.live(step)
        deployed.coordinator.step()
        simulated.converse()
        if step % 5 == 4:
            deployed.restart()
    assert_same([deployed.coordinator.server.state()], [simulated.server.state()])


def test_late_answers_are_kept_if_they_hand_something_over():
    assert hand_overs(Points.about.says) == {"points"}
    assert hand_overs(Totals.about.says) == hand_overs(Asked.about.says) == frozenset()
    for name in STAR:
        says = talkative(name).about.says
        with_increments = {said.kind for said in says for item in said.fields if item.adds == "increment"}
        assert hand_overs(says) == with_increments & {said.kind for said in says if said.direction == "up"}


@pytest.mark.parametrize(("algorithm", "kept"), [(Points(), True), (NumberedPoints(), True), (Totals(), False)])
def test_what_was_handed_over_is_not_lost(algorithm, kept, tmp_path):
    """The answer of agent 1 gets lost for a while: points are kept for the next conversation; totals come anew."""
    deployed = Deployed(tmp_path, algorithm, LINEAR, HORIZON)
    deployed.post.fate = lambda who, letter: "unanswered" if who == 1 else "delivered"
    for step in range(3):
        deployed.live(step)
    deployed.coordinator.step()
    assert list(deployed.book.owed()) == [1]
    deployed.post.fate = lambda who, letter: "delivered"
    for step in range(3, 9):
        deployed.live(step)
        deployed.coordinator.step()
    assert deployed.book.owed() == {}
    assert deployed.book.rejections() == []
    server = deployed.coordinator.server.state()
    if kept:
        assert server["total"][0] == 9 * 3, "every observation has arrived once"
    else:
        sums = sum(state["sums"][0] for state in deployed.states())
        np.testing.assert_allclose(server["total"], sums)


# liars


def inspected(
    algorithm: Algorithm, kind: str, arrays: dict[str, Any], asked: Message | None = None, **known: Any
) -> None:
    settings = Settings(
        algorithm=algorithm, dim=DIM, arms=ARMS, agents=3, horizon=20, **({"facts": [Range(-1, 1)]} | known)
    )
    shares = {name: np.asarray(value) for name, value in arrays.items()}
    reply = settings.wire.gathered(kind, ALONE, [shares], "up")
    asked = asked or Message("collect", ALONE)
    letter = settings.wire.encode(asked, 0, "down")
    Inspector(algorithm, settings.problem, settings.wire).read(settings.wire.encode(reply, 0, "up"), letter)


def points(**changes: Any) -> dict[str, Any]:
    honest = {"points": np.eye(DIM)[:2], "counts": np.array([3, 1]), "sums": np.array([2.0, -1.0])}
    return honest | {name: np.asarray(value) for name, value in changes.items()}


LIES = {
    "more than there are turns": (points(counts=[19, 2]), "'counts' is 2..19, 21 in all; an agent has 0..20"),
    "less than nothing": (points(counts=[3, -1]), "'counts' is -1..3"),
    "rewards beyond their counts": (points(sums=[4.1, 0]), "the norm of 'sums' is 4.1, honest observations reach 4"),
    "arms that are too long": (points(points=10 * np.eye(DIM)[:2]), "the norm of 'points'"),
    "not a number": (points(sums=[np.nan, 0]), "'sums' is not finite"),
    "another type": (points(counts=np.array([3.0, 1.0])), "float64"),
    "longer than there are turns": (
        {"points": np.zeros((21, DIM)), "counts": np.zeros(21, np.int64), "sums": np.zeros(21)},
        "m is 21; an agent has 0..20 observations",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_lies_beyond_what_is_declared_are_caught(name):
    arrays, words = LIES[name]
    inspected(Points(), "points", points())
    with pytest.raises(RejectedError, match=words):
        inspected(Points(), "points", arrays)


def test_nothing_at_all_is_honest():
    inspected(Points(), "points", {"points": np.zeros((0, DIM)), "counts": np.zeros(0, np.int64), "sums": np.zeros(0)})


def test_lengths_that_disagree_are_no_message():
    settings = Settings(algorithm=Points(), dim=DIM, arms=ARMS)
    free = Wire()  # bound to no algorithm, it sends anything
    sent = Message("points", ALONE, {name: value[None] for name, value in points(sums=[1.0]).items()})
    content = free.encode(sent, 0, "up")
    letter = free.encode(Message("collect", ALONE), 0, "down")
    with pytest.raises(RejectedError, match="disagrees"):
        Inspector(Points(), settings.problem, settings.wire).read(content, letter)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"other": np.zeros(1)}, "carries"),
        ({"points": np.zeros(3), "counts": np.zeros(1, np.int64), "sums": np.zeros(1)}, "dimensions"),
        ({"points": np.zeros((1, 1, 3)), "counts": np.zeros(1, np.int64), "sums": np.zeros(1)}, "dimensions"),
        ({"points": np.zeros((1, DIM + 1)), "counts": np.zeros(1, np.int64), "sums": np.zeros(1)}, "shape"),
    ],
)
def test_what_was_not_declared_is_no_message(fields, message):
    settings = Settings(algorithm=Points(), dim=DIM, arms=ARMS)
    content = Wire().encode(Message("points", ALONE, {name: value[None] for name, value in fields.items()}), 0, "up")
    letter = Wire().encode(Message("collect", ALONE), 0, "down")
    with pytest.raises(RejectedError, match=message):
        Inspector(Points(), settings.problem, settings.wire).read(content, letter)


def test_totals_are_held_to_their_own_counts():
    inspected(Totals(), "sums", {"sums": [3.0, 0, 0, 0], "pulls": np.array([3, 0, 0, 0])})
    with pytest.raises(RejectedError, match=r"the norm of 'sums' is 3\.1, honest observations reach 3"):
        inspected(Totals(), "sums", {"sums": [3.1, 0, 0, 0], "pulls": np.array([3, 0, 0, 0])})


def test_answers_are_as_long_as_the_question():
    asked = Message("collect", ALONE, {"shown": np.zeros((1, 2, DIM))})
    inspected(Asked(), "close", {"closeness": np.ones(2), "own": np.ones(2)}, asked)
    with pytest.raises(RejectedError, match="m is 3, and 2 in the question"):
        inspected(Asked(), "close", {"closeness": np.ones(3), "own": np.ones(2)}, asked)
    with pytest.raises(RejectedError, match="'closeness' is -1, and never below 0"):
        inspected(Asked(), "close", {"closeness": [1.0, -1.0], "own": np.ones(2)}, asked)


def test_who_answers_at_another_length_than_the_others_is_rejected(tmp_path):
    """Nobody says how long `own` is; it would break whoever adds the answers up."""
    deployed = Deployed(tmp_path, Asked(), LINEAR, HORIZON)

    def longer(who: int, letter: Any, answer: Answer) -> Answer:
        if who != 0 or answer.content is None:
            return answer
        kind, held = Wire.decode(answer.content)
        named = {name: value[None] for name, value in (held | {"own": np.ones(5)}).items()}
        return Answer(Wire().encode(Message(kind, ALONE, named), 0, "up"), letters=answer.letters)

    deployed.post.forged = longer
    for step in range(9):
        deployed.live(step)
        deployed.coordinator.step()
    assert {rejection.identity for rejection in deployed.book.rejections()} == {0}
    assert "the reply has {'k': 5" in deployed.book.rejections()[0].why
    assert deployed.coordinator.ledger.conversations > 1


def test_noisy_statistics_are_not_held_to_bounds(tmp_path):
    inspected(NoisySums(), "sums", {"sums": [1e3, -1e3, 0, 0]})
    with pytest.raises(RejectedError, match="not finite"):
        inspected(NoisySums(), "sums", {"sums": [np.inf, 0, 0, 0]})


def test_a_limit_that_is_unknown_rejects_nobody():
    """Heavy tails have no largest reward, and no observation times infinity is not a number."""
    from fedbandits.facts import Moment

    known = {"facts": [Moment(1.5, 1.0, 1.0)]}
    inspected(Totals(), "sums", {"sums": [0.0, 0, 0, 0], "pulls": np.zeros(4, np.int64)}, **known)
    inspected(Totals(), "sums", {"sums": [1e6, 0, 0, 0], "pulls": np.array([1, 0, 0, 0])}, **known)


def test_a_bound_may_hold_for_a_whole_field():
    @dataclasses.dataclass(frozen=True)
    class Whole(Totals):
        """A sum that is at most 1, whatever it is of."""

        about = dataclasses.replace(
            Totals.about,
            says=(
                Totals.about.says[0],
                Utterance(
                    "sums",
                    "up",
                    (
                        vector("sums", "K", bound=Bound(limits.reward, per_observation=False)),
                        Totals.about.says[1].fields[1],
                    ),
                ),
                Totals.about.says[2],
            ),
        )

    inspected(Whole(), "sums", {"sums": [1.0, 0, 0, 0], "pulls": np.array([3, 0, 0, 0])})
    with pytest.raises(RejectedError, match="honest observations reach 1"):
        inspected(Whole(), "sums", {"sums": [1.1, 0, 0, 0], "pulls": np.array([3, 0, 0, 0])})


def test_no_module_of_deployment_names_a_statistic():
    statistics = {"gram", "moment", "count", "gradient", "hessian", "theta"}
    assert statistics <= {item.name for name in STAR for said in talkative(name).about.says for item in said.fields}
    for path in (Path(fb.__file__).parent / "deploy").rglob("*.py"):
        if path.name != "former_settings.py":  # where a moment is another thing
            assert not [name for name in statistics if f'"{name}"' in path.read_text()], path


# stages


@pytest.mark.parametrize("bits", [4, *(pytest.param(bits, marks=pytest.mark.slow) for bits in (8, 16))])
@pytest.mark.parametrize("name", ["dislinucb", "async-linucb", "hetofedbandit", "fedglb-ucb"])
def test_messages_through_stages_are_not_rejected(name, bits, tmp_path):
    algorithm = Through(talkative(name), (Quantise(bits=bits),))
    deployed = Deployed(tmp_path, algorithm, home(name, clients=3), HORIZON)
    simulated = Simulated(deployed)
    assert_alike(deployed, simulated, HORIZON)
    assert deployed.book.rejections() == []
    assert deployed.coordinator.ledger.conversations > 1
    assert_same(deployed.states(), simulated.states())
    with deployed.open(1) as again:
        assert again.algorithm == algorithm


def test_lies_through_stages_are_caught(tmp_path):
    """A scale is one number, by which everything is multiplied."""
    algorithm = Through(talkative("dislinucb"), (Quantise(bits=16),))
    for lie, words in ((1e6, "the trace of 'gram'"), (np.nan, "not finite"), (np.inf, "not finite")):
        where = tmp_path / str(lie)
        where.mkdir()
        deployed = Deployed(where, algorithm, LINEAR, HORIZON)

        def lying(
            who: int, letter: Any, answer: Answer, lie: float = lie, wire: Wire = deployed.settings.wire
        ) -> Answer:
            if who != 0 or answer.content is None:
                return answer
            kind, held = Wire.decode(answer.content)
            named = {name: value[None] for name, value in held.items()}
            named["gram.scale"] = named["gram.scale"] * lie
            content = wire.encode(Message(kind, ALONE, named), 0, "up")
            return Answer(content, letters=answer.letters)

        deployed.post.forged = lying
        for step in range(9):
            deployed.live(step)
            deployed.coordinator.step()
        rejections = deployed.book.rejections()
        assert {rejection.identity for rejection in rejections} == {0}
        assert words in rejections[0].why


def test_what_stages_change_widens_bounds_and_no_more():
    """An exact upload at its bounds passes; one that is far beyond does not."""
    algorithm = Through(fb.algorithms.DisLinUCB(width="loose"), (Quantise(bits=16),))
    settings = Settings(algorithm=algorithm, dim=DIM, agents=3, horizon=50, facts=[Range(-1, 1), Norms(arms=2.0)])
    inspector = Inspector(algorithm, settings.problem, settings.wire)
    letter = settings.wire.encode(Message("collect", ALONE), 0, "down")
    population = settings.population()
    arms = np.array([[[2.0, 0.0, 0.0]]])

    def uploaded(times: int, reward: float) -> bytes:
        for _ in range(times):
            population.learn(ALONE, arms, ALONE, np.array([reward]))
        reply = population.answer(Message("collect", ALONE))
        return settings.wire.encode(reply, 0, "up")

    for times in (1, 7, 40):
        inspector.read(uploaded(times, 1.0), letter)
    with pytest.raises(RejectedError, match="'moment' in the norm of 'gram'"):
        inspector.read(uploaded(40, 3.0), letter)


# pooled


def pooled_by(algorithm: Algorithm) -> set[tuple[str, str]]:
    """Kinds of replies and their fields of which the server uses the sum alone."""
    says = algorithm.about.says
    return {(said.kind, item.name) for said in says for item in said.fields if said.direction == "up" and item.pooled}


@pytest.mark.parametrize("name", typical([name for name in STAR if pooled_by(talkative(name))]))
def test_rows_do_not_matter_to_servers_of_pooled_fields(name, tmp_path):
    """Deployment hands rows over; a server that says so may get their sum in one of them instead."""
    algorithm, (rows, sums) = talkative(name), [tmp_path / "rows", tmp_path / "sums"]
    pooled = pooled_by(algorithm)
    for where in (rows, sums):
        where.mkdir()
    rows, sums = (Deployed(where, algorithm, home(name, clients=3), HORIZON) for where in (rows, sums))
    gathered = sums.coordinator._carrier._gathered

    def summed(record: Any) -> Message:
        message = gathered(record)
        arrays = dict(message.arrays)
        for field in arrays:
            if (message.kind, field) in pooled:
                total = np.zeros_like(arrays[field])
                total[0] = arrays[field].sum(axis=0)
                arrays[field] = total
        return dataclasses.replace(message, arrays=arrays)

    sums.coordinator._carrier._gathered = summed
    for step in range(HORIZON):
        rows.live(step)
        sums.live(step)
        rows.coordinator.step()
        sums.coordinator.step()
    assert rows.coordinator.ledger.conversations > 0
    assert_same([rows.coordinator.server.state()], [sums.coordinator.server.state()])


# what a server draws


def test_a_private_server_has_a_key_and_draws_the_same_when_a_conversation_is_cut(tmp_path):
    deployed = Deployed(tmp_path, NoisySums(), LINEAR, HORIZON)
    key = deployed.book.parts()["streams"]["secret.key"]
    assert key.shape == (1, 32)
    for step in range(3):
        deployed.live(step)
    told: list[bytes] = []

    def cut_after_known(who: int, letter: Any) -> Any:
        if Wire.decode(letter.content)[0] == "known":
            told.append(letter.content)
            if len(told) < 3:
                raise KeyboardInterrupt
        return "delivered"

    deployed.post.fate = cut_after_known
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            deployed.coordinator.step()
        deployed.book.close()
        deployed.restart()
    deployed.coordinator.step()
    assert len(set(told[:3])) == 1, "what was told before the cut is told again"
    assert (deployed.book.parts()["streams"]["secret.key"] == key).all()
    total = deployed.coordinator.server.state()["total"]
    (tmp_path / "other").mkdir()
    other = Deployed(tmp_path / "other", NoisySums(), LINEAR, HORIZON)
    for step in range(3):
        other.live(step)
    other.coordinator.step()
    assert (other.coordinator.server.state()["total"] != total).all()
