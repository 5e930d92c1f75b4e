"""Robust sums: what the server's own additions come to, who is left out and comes back, and who cannot be served."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.channel import Quantise, Robust, Through, through
from fedbandits.channel.robust_rules import Filter, GeometricMedian, Pair, Trimmed
from fedbandits.contract.catalogue import AboutStage
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.deploy.flower.trust.meaning import Meaning
from fedbandits.testing.worlds import two_worlds

DIM, N = 3, 6
PROBLEM = Problem(agents=N, dim=DIM, arms=5, horizon=500)
DIS = fb.algorithms.DisLinUCB(threshold=0.5)
ENV = fb.environments.Linear(clients=6, dim=5, arms=7)
PAIR = Pair("gram", "moment")
THETA = np.array([0.6, -0.3, 0.7])
RULES = ["filter", "geometric-median", "trimmed"]


def fresh(rng, observations, theta=THETA, noise=0.3) -> dict[str, np.ndarray]:
    """New statistics of agents with the given numbers of observations."""
    gram, moment = np.zeros((len(observations), DIM, DIM)), np.zeros((len(observations), DIM))
    for i, count in enumerate(observations):
        x = rng.standard_normal((count, DIM))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        gram[i], moment[i] = x.T @ x, x.T @ (x @ theta + noise * rng.standard_normal(count))
    return {"gram": gram, "moment": moment}


def lie(arrays, who, theta=-THETA) -> None:
    for i in who:
        arrays["moment"][i] = arrays["gram"][i] @ theta


def end(stage: Robust):
    return stage.ends(DIS.about.says, "down", N, {"d": DIM}, Streams(np.random.SeedSequence(0), 1), PROBLEM)


def hear(judge, arrays, who=None) -> dict[str, np.ndarray]:
    """What the server adds up of a message: sums over its rows."""
    message = Message("fresh", np.arange(N) if who is None else np.asarray(who), arrays)
    return {name: array.sum(axis=0) for name, array in judge.incoming(message).arrays.items()}


def test_without_suspicion_rows_are_as_they_came():
    """Bit for bit, the objects themselves."""
    judge, rng = end(Robust(beyond=np.inf, much=np.inf)), np.random.default_rng(0)
    for _ in range(5):
        message = Message("fresh", np.arange(N), fresh(rng, [4] * N))
        assert judge.incoming(message) is message


def test_a_run_without_suspicion_is_bit_identical():
    plain, robust = (
        fb.simulate(words, ENV, 60, 3)
        for words in ("dislinucb:threshold=0.5", "dislinucb:threshold=0.5|robust:beyond=inf,much=inf")
    )
    assert plain.syncs[-1] > 0
    np.testing.assert_array_equal(plain.regret, robust.regret)
    np.testing.assert_array_equal(plain.counts, robust.counts)


@pytest.mark.parametrize("rule", RULES)
def test_the_servers_sums_telescope_to_the_aggregate(rule):
    """Whatever changes on the way, sums of what the server is given are the rule's aggregate of all that was sent."""
    stage, rng = Robust(rule=rule), np.random.default_rng(1)
    judge, total = end(stage), {"gram": np.zeros((DIM, DIM)), "moment": np.zeros(DIM)}
    sums = {"gram": np.zeros((N, DIM, DIM)), "moment": np.zeros((N, DIM))}
    for turn in range(12):
        arrays = fresh(rng, rng.integers(1, 8, N))
        if turn % 3:
            lie(arrays, [turn % N])
        who = np.sort(rng.permutation(N)[: rng.integers(1, N + 1)])
        some = {name: array[who] for name, array in arrays.items()}
        for name, added in hear(judge, some, who).items():
            total[name] += added
            sums[name][who] += some[name]
        known = np.flatnonzero(sums["gram"].any(axis=(1, 2)))
        rows = {name: array[known] for name, array in sums.items()}
        expected = (stage.judged_by().aggregate(rows, PAIR) if len(known) >= 3 else None) or {
            name: array.sum(axis=0) for name, array in rows.items()
        }
        for name in total:
            np.testing.assert_allclose(total[name], expected[name], rtol=1e-9, atol=1e-9)


def test_who_is_suspected_loses_its_past_and_who_no_longer_is_has_it_back():
    judge, rng = end(Robust(much=np.inf)), np.random.default_rng(2)
    sent = [fresh(rng, [30] * N) for _ in range(2)]
    pool = sum(hear(judge, arrays)["moment"] for arrays in sent)
    np.testing.assert_allclose(pool, sum(arrays["moment"] for arrays in sent).sum(axis=0))
    wrong = fresh(rng, [30] * N)
    lie(wrong, [2])
    wrong["moment"][2] *= 3
    pool = pool + hear(judge, wrong)["moment"]
    others = np.arange(N) != 2
    everything = sum(arrays["moment"] for arrays in [*sent, wrong])
    np.testing.assert_allclose(pool, everything[others].sum(axis=0))
    truth = fresh(rng, [30] * N)
    truth["moment"][2] += sent[0]["moment"][2] - wrong["moment"][2] + wrong["gram"][2] @ THETA - sent[0]["moment"][2]
    pool = pool + hear(judge, truth)["moment"]
    np.testing.assert_allclose(pool, (everything + truth["moment"]).sum(axis=0))


@pytest.mark.parametrize("rule", RULES)
def test_who_takes_everything_back_was_never_there(rule):
    """An agent that hands over minus all it ever did, as one that is expelled does, but for rounding."""
    rng = np.random.default_rng(6)
    sent = [fresh(rng, [20] * N) for _ in range(3)]
    whole, without = end(Robust(rule=rule)), end(Robust(rule=rule))
    others = np.arange(N) != 1
    pool = sum(hear(whole, arrays)["moment"] for arrays in sent)
    back = {name: -sum(arrays[name] for arrays in sent)[1:2] for name in sent[0]}
    pool = pool + hear(whole, back, [1])["moment"]
    expected = sum(
        hear(without, {name: array[others] for name, array in arrays.items()}, np.flatnonzero(others))["moment"]
        for arrays in sent
    )
    np.testing.assert_allclose(pool, expected, atol=1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), liars=st.integers(0, 2))
def test_a_geometric_median_of_matrices_is_semidefinite(seed, liars):
    """A convex combination of semidefinite matrices, times m."""
    rng = np.random.default_rng(seed)
    rows = fresh(rng, rng.integers(1, 3, N))
    rows["gram"][:liars] *= 1e6
    found = GeometricMedian().aggregate(rows, PAIR)
    values = np.linalg.eigvalsh(found["gram"])
    assert values[0] >= -1e-12 * values[-1]
    np.testing.assert_array_equal(found["gram"], found["gram"].T)


def test_trimmed_matrices_are_made_semidefinite():
    rng = np.random.default_rng(0)
    indefinite = 0
    for _ in range(50):
        rows = fresh(rng, [1] * N)
        entries = np.sort(rows["gram"], axis=0)[2:-2].mean(axis=0)
        indefinite += np.linalg.eigvalsh(entries)[0] < -1e-9
        found = Trimmed(0.34).aggregate(rows, PAIR)
        assert np.linalg.eigvalsh(found["gram"])[0] >= -1e-9
    assert indefinite > 0


def test_the_filter_finds_liars():
    """Always those who lie, and of 360 honest ones hardly anybody."""
    rng, wrongly = np.random.default_rng(3), 0
    for _ in range(20):
        rows = fresh(rng, [50] * 20)
        lie(rows, [3, 11])
        suspected = np.flatnonzero(Filter(4.0, 1.5, 1.0).suspects(rows["gram"], rows["moment"]))
        assert {3, 11} <= set(suspected)
        wrongly += len(suspected) - 2
    assert wrongly <= 4


def test_honest_agents_who_know_little_or_are_unequally_active_are_kept():
    """Activity from 3 to 300 observations: neither little data nor much is a reason for suspicion, and without noise
    rounding errors are none."""
    rng = np.random.default_rng(4)
    active = np.round(np.geomspace(3, 300, 20)).astype(int)
    rows = fresh(rng, active)
    amount = np.trace(rows["gram"], axis1=1, axis2=2)
    assert not (amount > Filter(4.0, 1.5, 1.0).most(amount)).any()
    exact = fresh(rng, [40] * 20, noise=0.0)
    assert not Filter(4.0, 1.5, 1e-9).suspects(exact["gram"], exact["moment"]).any()


def test_implausibly_much_data_is_left_out():
    rows = fresh(np.random.default_rng(5), [40] * 20)
    rows["gram"][:8] *= 5
    rows["moment"][:8] *= 5
    suspected = Filter(4.0, 1.5, 1.0).suspects(rows["gram"], rows["moment"])
    assert suspected[:8].all()
    assert not Filter(np.inf, np.inf, 1.0).suspects(rows["gram"], rows["moment"]).any()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["dislinucb", "fedlinucb-async"])
def test_two_worlds_agree_and_runs_are_resumed(name, rule):
    inner = fb.algorithms.ALGORITHMS[name](**({"threshold": 0.5} if name == "dislinucb" else {"growth": 0.3}))
    algorithm = through(inner, [Robust(rule=rule, beyond=1.2)])
    for step in two_worlds(algorithm, ENV, 40):
        np.testing.assert_array_equal(step.picks, step.picks_apart)
    states = zip(step.together.states(), step.apart.states(), strict=True)
    assert all(np.array_equal(one[key], other[key]) for one, other in states for key in one)
    whole, first, second = (fb.Simulation(algorithm, ENV, 60, 3, attack="flip:share=0.4") for _ in range(3))
    whole.run()
    first.run(25)
    second.load(first.state())
    second.run()
    np.testing.assert_array_equal(second.trace().regret, whole.trace().regret)
    assert any("told" in key and "stage" in key and held.any() for key, held in first.state().items())


def test_who_cannot_be_served_is_told_why():
    names = fb.algorithms.ALGORITHMS
    for name, why in {
        "fed-ucb1": "its peers",
        "independent-linucb": "nobody",
        "async-linucb": "of single agents",
        "club": "of single agents",
        "fedglb-ucb": "no increment of a matrix and a vector",
        "fedglb-newton": "no increment",
    }.items():
        with pytest.raises(fb.ConfigError, match=why):
            through(names[name](), [Robust()])


def test_stages_that_hide_rows_are_refused_on_either_side():
    class Masks:
        about = AboutStage("masks", "hides what single agents send", "", rows="hides")

        def declares(self, about):
            return about

    for stages in ((Robust(), Masks()), (Masks(), Robust())):
        with pytest.raises(fb.ConfigError, match="robust looks at what each agent sends, and masks hides that"):
            Through(DIS, stages)


def test_it_goes_together_with_rounding_on_the_wires_side():
    both = through(DIS, [Robust(), Quantise(bits=12)])
    assert both.about.name == "dislinucb|robust|quantise"
    robust, plain = (
        fb.simulate(words, ENV, 100, attack="inflate:share=0.2").honest_regret[-1]
        for words in (both, through(DIS, [Quantise(bits=12)]))
    )
    assert robust < plain / 2
    with pytest.raises(fb.ConfigError, match="no increment of a matrix"):
        through(DIS, [Quantise(bits=12), Robust()])


@pytest.mark.parametrize("rule", RULES)
def test_deployment_reads_what_one_agent_says(rule):
    """Inspection opens a message as if it were the first: what the agent sent, whoever else there is."""
    algorithm = through(DIS, [Robust(rule=rule)])
    arrays = {name: array[:1] for name, array in fresh(np.random.default_rng(0), [5] * N).items()}
    heard = Meaning(algorithm, PROBLEM).arrays(Message("fresh", np.zeros(1, np.int64), arrays), "up")
    for name, array in arrays.items():
        np.testing.assert_array_equal(heard[name], array[0])


def test_declarations_say_that_rows_are_used():
    about = through(DIS, [Robust()]).about
    said = next(utterance for utterance in about.says if utterance.kind == "fresh")
    assert not any(item.pooled for item in said.fields)
    assert about.guarantee.startswith("none proved")
    assert replace(about, says=()).name == "dislinucb|robust"
