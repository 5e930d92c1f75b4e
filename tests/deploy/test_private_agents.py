"""A deployed agent keeps its budget: whatever it is asked, however often it is killed, copied or opened."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs the extra 'deploy'")

from forks import forked
from private_agents import ALONE, DIM, FACTS, HORIZON, held, letter, noisy, opened, play, upload

import fedbandits as fb
from fedbandits.channel import Gaussian, Through
from fedbandits.contract.arrays import State
from fedbandits.contract.budget import Budget
from fedbandits.contract.state import from_bytes
from fedbandits.contract.wire import Wire
from fedbandits.deploy import Agent, AgentError, InputError, LetterError, SettingsError, UnknownDecisionError, back_up
from fedbandits.deploy.embedded.acknowledgements import Verdict
from fedbandits.deploy.embedded.persons import number_of
from fedbandits.deploy.flower.conversation.desk import fingerprint
from fedbandits.deploy.http.configuration import configuration
from fedbandits.deploy.migrating import Change, migrate
from fedbandits.facts import Episodes
from fedbandits.privacy.gaussian import gaussian_delta

NAMES = ("toeplitz", "tree", "fresh")
NOISE = "ends.stage0.steps.drawn"

# what is told of a budget


def test_a_budget_is_told_with_what_it_means(tmp_path):
    with opened(tmp_path / "agent.db") as agent:
        before = agent.status().budget
        assert before == Budget("observation", "add-remove", "transcript", "toeplitz", 1.0, 1e-5, 0.0, 0.0, 0, 5)
        spent = []
        for turn in range(HORIZON):
            play(agent, 1, seed=turn)
            if agent.calling():
                upload(agent, f"c{turn}")
                spent.append(agent.status().spent)
        told = agent.status()
    assert len(spent) == 5, "as the schedule says"
    assert all(np.diff([0.0, *spent]) > 0)
    assert spent[-1] == pytest.approx(1.0, abs=1e-9)
    assert told.budget.spent == told.budget.strictly == told.spent == spent[-1] <= 1.0
    assert not told.calling
    assert str(told.budget) == (
        "epsilon 1 of 1 spent at delta 1e-05, 5 of 5 releases made; protects one observation (add-remove) in all that "
        "leaves the agent, its choices included"
    )


@pytest.mark.parametrize(
    ("stage", "spent", "words"),
    [
        ({"own": "fused"}, 1.0, "by the strict definition, which counts its choices, too, epsilon is infinite"),
        ({"own": "recent", "adjacency": "replace"}, 1.0, "protects one observation (replace) in what it uploads"),
        ({"when": "algorithm", "leaky": True}, math.inf, "nothing is, since when agents call depends on data"),
    ],
)
def test_what_is_not_strictly_private_says_so(stage, spent, words, tmp_path):
    path = tmp_path / "agent.db"
    with opened(path, noisy(**stage)) as agent:
        for turn in range(HORIZON):
            play(agent, 1, seed=turn)
            upload(agent, f"c{turn}")
        told = agent.status()
    assert told.budget.spent == pytest.approx(spent)
    assert told.spent == told.budget.strictly == math.inf
    assert words in str(told.budget)
    assert json.loads(json.dumps(told.budget.plain(), allow_nan=False))["strictly"] == "infinite"


def test_agents_without_a_budget_tell_of_none(tmp_path):
    with Agent.open(tmp_path / "agent.db", fb.algorithms.DisLinUCB(), 2, warm=False) as agent:
        assert (agent.status().budget, agent.status().spent) == (None, None)


@pytest.mark.parametrize(
    "spelt",
    [
        "dislinucb|gaussian:epsilon=2,uploads=4",
        {"name": "dislinucb", "through": ["gaussian:epsilon=2,uploads=4"]},
        {"name": "dislinucb", "through": [{"name": "gaussian", "epsilon": 2, "uploads": 4}]},
    ],
)
def test_a_budget_in_agent_toml(spelt, tmp_path):
    told = {"agent": {"algorithm": spelt, "dim": 2, "horizon": 500}, "facts": {"range": [0, 1], "norms": {}}}
    with configuration(told).open(tmp_path / "agent.db") as agent:
        budget = agent.status().budget
    assert (budget.epsilon, budget.allowed) == (2.0, 4)


@pytest.mark.parametrize(
    ("facts", "lacking"),
    [
        (FACTS[1:], "rewards of any size have no sensitivity; tell the fact range"),
        (FACTS[:1], "arms of any length have no sensitivity; tell the fact norms"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused_before_there_is_a_file(facts, lacking, tmp_path):
    with pytest.raises(SettingsError, match=lacking):
        opened(tmp_path / "agent.db", facts=facts)
    assert not (tmp_path / "agent.db").exists()


def test_noise_does_not_follow_from_what_others_know(tmp_path):
    """Stages draw from streams of their own, and those have the agent's secret, too."""
    with opened(tmp_path / "agent.db") as agent:
        play(agent, 3)
        clean, released = held(agent), upload(agent, "c")["gram"]
        guessed = agent.settings.population()
        rng = np.random.default_rng(0)
        for _ in range(3):
            arms = rng.normal(size=(1, 4, DIM)) / 3
            guessed.learn(ALONE, arms, guessed.choose(ALONE, arms), np.array([rng.random()]))
        known = guessed.answer(agent.settings.wire.gathered("collect", ALONE, [{}], "down")).arrays["gram"][0]
    assert (np.abs(released - clean) > 1e-6).all(), "there is noise on every entry"
    assert (np.abs(released - known) > 1e-6).all(), "which is not that of the seed"
    assert not any("drawn" in name or "secret" in name for name in opened(tmp_path / "agent.db").state())


# what a hostile server can get


@pytest.mark.parametrize("stage", [{}, {"when": "algorithm", "leaky": True}, {"every": 7, "uploads": None}])
def test_a_server_that_asks_again_and_again_gets_no_more_than_the_budget(stage, tmp_path):
    """With and without verdicts, of turns and conversations it makes up, between decisions and after all of them."""
    rng = np.random.default_rng(1)
    with opened(tmp_path / "agent.db", noisy(**stage), snapshot_every=20) as agent:
        releases, asked = set(), []
        for turn in range(HORIZON):
            play(agent, 1, seed=turn)
            for _ in range(rng.integers(4)):
                declined = [Verdict(*asked[rng.integers(len(asked))], accepted=False)] if asked else []
                name = f"c{len(asked)}"
                try:
                    got = upload(agent, name, verdicts=declined if rng.random() < 0.5 else None)
                except AgentError:  # it contradicts itself
                    continue
                asked.append((name, 0))
                releases.add(got["gram"].tobytes())
        budget = agent.status().budget
        assert len(asked) > 60
        assert 0 < budget.releases <= budget.allowed
        assert budget.spent <= budget.epsilon or stage.get("leaky")
        last = [upload(agent, f"late{number}")["gram"] for number in range(5)]
        assert all(not array.any() for array in last[1:]), "nothing is left that could be said"
        assert agent.status().budget.releases <= budget.allowed


def test_what_was_declined_is_said_again_and_nothing_else(tmp_path):
    """A server that declines everything sees each release as often as it likes: the same bits, or sums of them."""
    with opened(tmp_path / "agent.db") as agent:
        play(agent, 3)
        first = upload(agent, "a", verdicts=[])
        again = upload(agent, "b", verdicts=[Verdict("a", 0, accepted=False)])
        np.testing.assert_array_equal(again["gram"], first["gram"])
        np.testing.assert_array_equal(again["moment"], first["moment"])
        once_more = upload(agent, "c", verdicts=[Verdict("b", 0, accepted=False)])
        np.testing.assert_array_equal(once_more["gram"], first["gram"])
        assert agent.status().budget.releases == 1
        assert not upload(agent, "d", verdicts=[Verdict("c", 0, accepted=True)])["gram"].any()


def test_questions_beyond_the_budget_are_not_answered(tmp_path):
    """Gradients over all data, at points of the server's choice: so many, and none where one observation would weigh
    more than noise is made for.
    """
    algorithm = Through(fb.algorithms.FedGLBUCB(), (Gaussian(every=10, queries=9),))
    link = fb.environments.Logistic(clients=1, dim=DIM, arms=4).world(10, np.random.SeedSequence(0)).problem.facts
    with opened(tmp_path / "agent.db", algorithm, facts=link, snapshot_every=11) as agent:
        play(agent, 10)
        far = agent.answer(letter(agent, "gradient", theta=[9.0, 0.0, 0.0]), "far", 0)
        replies = [agent.answer(letter(agent, "gradient", theta=np.zeros(DIM)), f"c{k}", 0) for k in range(30)]
        budget = agent.status().budget
    assert far is None
    assert [reply is not None for reply in replies] == [True] * 9 + [False] * 21
    assert len({*replies[:9]}) == 9, "each with noise of its own, which was counted"
    assert (budget.releases, budget.allowed) == (9, 15)
    assert 0 < budget.spent < budget.epsilon


def test_episodes_of_persons_are_handed_over_when_they_are_over_and_cost_what_is_said(tmp_path):
    """private-fedlsvi: several at once; a server that asks as often as it likes gets what the budget allows."""
    algorithm = fb.algorithms.PrivateFedLSVI(uploads=2, first=3, last=0.5, epsilon=2.0)
    rng = np.random.default_rng(5)

    def answered(agent, name, stage):
        reply = agent.answer(letter(agent, "ask", stage=np.int32(stage)), name, 0)
        return None if reply is None else Wire.decode(reply)[1]["moment"]

    with opened(tmp_path / "agent.db", algorithm, facts=[*FACTS, Episodes(3)], snapshot_every=7) as agent:
        assert answered(agent, "before", 2) is None, "no update has begun"
        decided = {name: [] for name in ("ann", "ben", "cem")}
        for _ in range(3):
            for name, ids in decided.items():
                if name != "cem" or len(ids) < 2:  # whose episode stays open
                    ids.append(agent.decide(rng.normal(size=(4, DIM)) / 3, episode=name).id)
        for name in ("ben", "ann", "cem"):
            for one in reversed(decided[name]):
                agent.reward(one, 1.0)
        state = agent.state()
        assert state["inner.own.number"].sum() == 6, "two whole episodes"
        assert agent.status().budget.spent == 0
        assert upload(agent, "c")["gram"].shape == (3, DIM, DIM)
        answers = [[answered(agent, f"q{stage}{k}", stage) for k in range(4)] for stage in (2, 1, 0)]
        assert [[one is not None for one in row] for row in answers] == [[True, True, False, False]] * 3
        budget = agent.status().budget
        assert (budget.unit, budget.releases, budget.allowed) == ("episode", 7, 8)
        assert 0 < budget.spent < budget.epsilon
        assert "one episode" in str(budget)
    with opened(tmp_path / "agent.db") as again:
        assert again.status().budget == budget
        assert answered(again, "later", 2) is None


@pytest.mark.parametrize("size", [1.0, 1e6, 1e300])
def test_forged_pools_get_nothing_out_of_an_agent(size, tmp_path):
    rng = np.random.default_rng(2)
    with opened(tmp_path / "agent.db", snapshot_every=5) as agent:
        for turn in range(HORIZON):
            play(agent, 1, seed=turn)
            square = size * rng.normal(size=(DIM, DIM))
            forged = letter(agent, "pool", gram=square + square.T, moment=size * rng.normal(size=DIM))
            with suppress(LetterError):
                assert agent.answer(forged, f"p{turn}", 0) is None
            upload(agent, f"c{turn}")
        budget = agent.status().budget
    assert (budget.releases, budget.spent) == (5, pytest.approx(1.0))


def test_the_clock_has_no_say(tmp_path):
    """Releases follow an agent's own turns, whatever time it is said to be."""
    times = iter(np.random.default_rng(3).uniform(-1e9, 4e9, size=10_000))
    with opened(tmp_path / "agent.db", clock=lambda: float(next(times))) as agent:
        for turn in range(HORIZON):
            play(agent, 1, seed=turn)
            agent.note_clock(float(next(times)))
            upload(agent, f"c{turn}")
        assert agent.status().budget.releases == 5


def test_processes_that_share_a_file_share_its_budget(tmp_path):
    path = tmp_path / "agent.db"
    pair = [opened(path), opened(path, snapshot_every=3)]
    for turn in range(HORIZON):
        play(pair[turn % 2], 1, seed=turn)
        replies = {agent.answer(letter(agent), f"c{turn}", 0) for agent in pair}
        assert len(replies) == 1, "asked twice, answered once"
    assert pair[0].status().budget == pair[1].status().budget
    assert pair[0].status().budget.releases == 5


@pytest.mark.parametrize("mechanism", ["toeplitz", "tree"])
def test_with_the_last_release_the_file_forgets_its_noise(mechanism, tmp_path):
    """Whoever gets hold of the file from then on cannot take it off; doing everything again still gives the same."""
    path, copy = tmp_path / "agent.db", tmp_path / "copy.db"
    with opened(path, noisy(mechanism=mechanism), snapshot_every=100_000) as agent:
        for turn in range(HORIZON):
            play(agent, 1, seed=turn)
            if agent.calling():
                assert agent.status().budget.releases < 5
                upload(agent, f"c{turn}")
                if agent.status().budget.releases == 3:
                    back_up(path, tmp_path / "before.db")
        assert agent.status().budget.releases == 5
        back_up(path, copy)
    opened(copy).close()  # which does everything again
    here, there = saved(path), saved(copy)
    assert here.keys() == there.keys()
    for name, array in here.items():
        np.testing.assert_array_equal(array, there[name], err_msg=name)
    opened(tmp_path / "before.db").close()
    assert saved(tmp_path / "before.db")[NOISE].any(), "the fourth is made of what the others were"
    assert not here[NOISE].any()


def saved(path: Path) -> State:
    """The state in a file that was closed."""
    with sqlite3.connect(path) as db:
        ((state,),) = db.execute("SELECT state FROM snapshots")
    return from_bytes(state)


# kill -9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("mechanism", "lives"), [("toeplitz", 12), *(pytest.param(name, 300, marks=pytest.mark.slow) for name in NAMES)]
)
def test_killed_at_any_point_no_noise_is_used_twice_and_no_release_has_two(mechanism, lives, tmp_path):
    """Processes are killed between any two statements to the file. Whoever asks again gets the same bytes; what was
    released adds up to what the file knows, and keeps to the budget.
    """
    path, rng = tmp_path / "agent.db", random.Random(4)
    opened(path, noisy(mechanism=mechanism, uploads=None, every=2), warm=True).close()
    answers: dict[str, str] = {}
    for life in range(lives):
        statements = rng.randrange(1, 90)
        pid, heard = forked(lambda out, life=life, statements=statements: live(path, life, statements, out))
        lines = [line.split() for line in heard if line.endswith("\n")]
        heard.close()
        os.waitpid(pid, 0)
        answers |= dict(lines)
        with opened(path) as agent:
            for conversation, reply in lines:
                asked_again = agent.answer(letter(agent), conversation, 0, verdicts=[])
                assert asked_again.hex() == reply, "one question, one answer"
    with opened(path) as agent:
        sent, budget = agent.state()["ends.stage0.sent.fresh-gram"][0], agent.status().budget
        recorded = dict(agent._journal.connection.execute("SELECT conversation, reply FROM letters"))
        noise = from_bytes(agent._journal.snapshot().state)[NOISE][0]
    assert {name: recorded[name].hex() for name in answers} == answers
    sums = [Wire.decode(reply)[1]["gram"] for reply in recorded.values()]
    np.testing.assert_allclose(sent, np.sum(sums, axis=0), rtol=1e-9, atol=1e-9)
    releases = {array.tobytes() for array in sums if array.any()}
    assert 5 < len(releases) == budget.releases <= budget.allowed
    noise = noise[noise.any(axis=1)]  # what was used up is forgotten
    assert len(np.unique(noise.ravel())) == noise.size, "each drawn once"


def live(path: Path, life: int, statements: int, out: IO[str]) -> None:
    """Decide, learn and answer until so many statements to the file were begun; a line for every answer."""
    agent = opened(path, snapshot_every=7)
    left = iter(range(statements))

    def fuse(statement: str) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    agent._journal._db.set_trace_callback(fuse)
    for number in range(100):
        play(agent, 2, seed=100 * life + number)
        conversation = f"{life}-{number}"
        reply = agent.answer(letter(agent), conversation, 0, verdicts=[])
        print(conversation, reply.hex(), file=out, flush=True)


# settings that change


@pytest.mark.parametrize(
    "changed",
    [{"epsilon": 2.0}, {"delta": 1e-3}, {"uploads": 9}, {"unit": "agent"}, {"own": "fused"}, {"rewards": 0.1}],
)
def test_a_budget_cannot_be_changed_once_it_is_set(changed, tmp_path):
    path = tmp_path / "agent.db"
    with opened(path) as agent:
        play(agent, 4)
        upload(agent, "c")
        before = agent.status().budget
        mark = fingerprint(agent.settings)
    with pytest.raises(SettingsError, match=r"made with other settings \(algorithm\.through"):
        opened(path, noisy(**changed))
    with pytest.raises(SettingsError, match="made with other settings"):
        opened(path, fb.algorithms.DisLinUCB())
    with pytest.raises(SettingsError, match="made with other settings"):
        opened(path, horizon=10 * HORIZON)
    with opened(path) as agent:
        assert agent.status().budget == before
    other = tmp_path / "other.db"
    with opened(other, noisy(**changed)) as agent:
        assert fingerprint(agent.settings) != mark, "a server with other settings is another federation's"


def test_features_cannot_be_added_to_what_noise_was_drawn_for(tmp_path):
    path = tmp_path / "agent.db"
    Agent.open(path, noisy(), features=["a", "b", "c"], facts=FACTS, horizon=HORIZON, warm=False).close()
    with opened(path) as agent:
        rng = np.random.default_rng(0)
        agent.reward(agent.decide(rng.normal(size=(4, DIM)) / 3).id, 1.0)
    with pytest.raises(InputError, match=r"a feature cannot be added: .*drawn"):
        migrate(path, Change(add="d"), tmp_path / "before.db")


# persons

PERSONS = {"unit": "person", "most": 2}


def used(agent: Agent) -> dict[int, int]:
    return {int(person): int(count) for _, person, count in agent.state()["ends.stage0.persons.table"]}


def test_of_each_person_no_more_is_used_than_allowed(tmp_path):
    path = tmp_path / "agent.db"
    with opened(path, noisy(**PERSONS), snapshot_every=4) as agent:
        for turn, who in enumerate("ababaaabc"):
            before = held(agent)
            play(agent, 1, who=who, seed=turn)
            assert (held(agent) != before).any() == ("ababaaabc"[: turn + 1].count(who) <= 2)
        known = used(agent)
        assert sorted(known.values()) == [1, 2, 2]
    with opened(path) as agent:
        assert used(agent) == known, "saved and read"


def test_persons_are_counted_alike_when_the_journal_is_done_again(tmp_path):
    path = tmp_path / "agent.db"
    agent = opened(path, noisy(**PERSONS))
    for turn, who in enumerate("abacaab"):
        play(agent, 1, who=who, seed=turn)
    again = opened(path)  # as after a kill: nothing was closed
    assert used(again) == used(agent)
    assert again.state().keys() == agent.state().keys()
    assert all(again.state()[name].tobytes() == array.tobytes() for name, array in agent.state().items())


def test_a_person_has_to_be_named(tmp_path):
    path = tmp_path / "agent.db"
    with opened(path, noisy(**PERSONS), warm=True) as agent:
        with pytest.raises(InputError, match=r"protects persons .*name them, by who"):
            play(agent, 1)
        with pytest.raises(InputError, match="protects persons"):
            agent.decide_many([np.eye(DIM), np.eye(DIM)], who=["a", None])
        with pytest.raises(InputError, match="line 3: this agent protects persons"):
            agent.import_log(b"x0,x1,x2,reward,who\n1,0,0,1,a\n0,1,0,1,\n")
        assert agent.status().decisions == 0
        play(agent, 1, who="a")


def test_imported_observations_are_counted_by_person(tmp_path):
    with opened(tmp_path / "agent.db", noisy(**PERSONS)) as agent:
        lines = "".join(f"0.5,0,0,1,{who}\n" for who in "aaabca")
        agent.import_log(f"x0,x1,x2,reward,who\n{lines}".encode())
        assert sorted(used(agent).values()) == [1, 1, 2]
        np.testing.assert_allclose(held(agent)[0, 0], 4 * 0.25)


def test_who_was_forgotten_is_still_counted(tmp_path):
    """What was released of a person cannot be taken back, and a person who is forgotten is not used anew."""
    path = tmp_path / "agent.db"
    with opened(path, noisy(**PERSONS)) as agent:
        play(agent, 3, who="Ada Lovelace")
        upload(agent, "c")
        before, budget = held(agent), agent.status().budget
        waiting = agent.decide(np.eye(DIM), who="Ada Lovelace")
        assert agent.forget(who="Ada Lovelace") == 4
        with pytest.raises(UnknownDecisionError):
            agent.reward(waiting.id, 1.0)
        np.testing.assert_array_equal(held(agent), before)
        assert agent.status().budget == budget
        play(agent, 2, who="Ada Lovelace", seed=1)
        np.testing.assert_array_equal(held(agent), before)
        assert list(used(agent).values()) == [2]
        agent.forget(who="Ada Lovelace")
    contents = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"Lovelace" not in contents, "under a number that the agent's key alone can tell"


def test_numbers_of_persons_are_an_agents_own(tmp_path):
    tables = []
    for name in ("one.db", "other.db"):
        with opened(tmp_path / name, noisy(**PERSONS)) as agent:
            play(agent, 1, who="a")
            tables.append(set(used(agent)))
    assert not tables[0] & tables[1]
    assert number_of("a", b"key") == number_of("a", b"key") != number_of("b", b"key")
    assert all(0 <= number_of(str(who), b"key") < 2**63 for who in range(1000))


def test_nothing_of_a_person_leaves_the_agent(tmp_path):
    with opened(tmp_path / "agent.db", noisy(**PERSONS)) as agent:
        play(agent, 3, who="Ada Lovelace")
        reply = agent.answer(letter(agent), "c", 0)
        assert b"Lovelace" not in reply
        assert Wire.decode(reply)[1].keys() == {"gram", "moment"}
        (number,) = used(agent)
        assert number.to_bytes(8, "little") not in reply


# copies


def test_a_restored_backup_counts_what_the_original_may_have_released(tmp_path):
    path, copy, second = (tmp_path / name for name in ("agent.db", "copy.db", "second.db"))
    with opened(path) as agent:
        play(agent, 4)
        upload(agent, "a")
        back_up(path, copy)
        first = agent.status().budget
        assert first.copies == 0, "the original goes on as it was"
        play(agent, 4, seed=1)
        went_on = upload(agent, "b")["gram"]
    with opened(copy) as restored:
        budget = restored.status().budget
        assert (budget.copies, budget.releases) == (1, first.releases)
        mus = [mu_of(first.spent), mu_of(first.epsilon)]
        assert gaussian_delta(math.hypot(*mus), budget.spent) == pytest.approx(1e-5, rel=1e-6)
        assert budget.spent == restored.status().spent > budget.epsilon, "pessimistic: all of it may be gone"
        assert "restored from a backup" in str(budget)
        play(restored, 4, seed=1)
        went_back = upload(restored, "b")["gram"]
        back_up(copy, second)
    assert (np.abs(went_on - went_back) > 1e-6).all(), "the same data under other noise: both count"
    with opened(second) as agent:
        assert agent.status().budget.copies == 2


def mu_of(epsilon: float) -> float:
    """By bisection: the mu of which a Gaussian mechanism spends epsilon at delta 1e-5."""
    low, high = 0.0, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, epsilon) < 1e-5 else (low, middle)
    return low


def test_backups_of_agents_that_were_never_restored_cost_nothing(tmp_path):
    path = tmp_path / "agent.db"
    with opened(path) as agent:
        play(agent, 4)
        for number in range(3):
            back_up(path, tmp_path / f"{number}.db")
        assert agent.status().budget.copies == 0
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM counters WHERE name = 'copies'").fetchone() == (0,)
    db.close()


# whoever is alone


def test_an_agent_that_talks_to_nobody_has_a_budget_as_well(tmp_path):
    kind = fb.algorithms.ALGORITHMS["private-linucb"]
    with Agent.open(tmp_path / "agent.db", kind(), DIM, facts=FACTS, horizon=HORIZON, warm=False) as agent:
        play(agent, HORIZON)
        budget = agent.status().budget
    assert 0 < budget.releases <= budget.allowed
    assert 0 < budget.spent <= budget.epsilon


def test_noise_on_a_stage_of_its_own_can_be_forgotten_about(tmp_path):
    """`forget` works for agents with a budget: their state does not grow with what they observe."""
    stage = Through(fb.algorithms.DisLinUCB(), (Gaussian(),))
    with opened(tmp_path / "agent.db", stage) as agent:
        play(agent, 5)
        assert agent.forget(before=4e9) == 5
