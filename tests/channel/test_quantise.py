"""Quantised statistics: unbiased, symmetric, semidefinite, with memory where it matters, and as small as declared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.channel import Quantise, Through, stages_of, through
from fedbandits.contract.algorithm import wire_of
from fedbandits.contract.facts import Distortion
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire
from fedbandits.testing.worlds import two_worlds

DIM = 4
PROBLEM = Problem(agents=3, dim=DIM, arms=5, horizon=50)
DIS = fb.algorithms.DisLinUCB(threshold=0.5)
ENV = fb.environments.Linear(clients=6, dim=5, arms=7)
ALL = np.arange(3)


def ends(bits: int, away: str = "up", seed: int = 0, n: int = 3):
    stage = Quantise(bits=bits)
    rng = Streams(np.random.SeedSequence(seed), n if away == "up" else 1)
    return stage.ends(DIS.about.says, away, n, {"d": DIM}, rng, PROBLEM)


def fresh(rng: np.random.Generator, n: int = 3, observations: int = 6) -> Message:
    x, y = rng.standard_normal((n, observations, DIM)), rng.standard_normal((n, observations))
    arrays = {"gram": np.einsum("nsi,nsj->nij", x, x), "moment": np.einsum("nsi,ns->ni", x, y)}
    arrays["gram"] = (arrays["gram"] + arrays["gram"].swapaxes(1, 2)) / 2
    return Message("fresh", np.arange(n), arrays)


@given(bits=st.integers(2, 16), seed=st.integers(0, 50))
def test_an_entry_is_off_by_less_than_the_scale(bits, seed):
    message = fresh(np.random.default_rng(seed))
    sent = ends(bits, seed=seed).outgoing(message)
    for name, exact in message.arrays.items():
        whole, scale = sent.arrays[name], sent.arrays[f"{name}.scale"]
        assert np.abs(whole.astype(int)).max() <= 2 ** (bits - 1) - 1
        widths = scale.reshape(-1, *[1] * (exact.ndim - 1))
        assert (np.abs(whole * widths - exact) <= widths * (1 + 1e-9)).all()
    gram = sent.arrays["gram"]
    np.testing.assert_array_equal(gram, gram.swapaxes(1, 2))


def test_what_is_read_is_semidefinite_and_symmetric():
    for seed in range(30):
        message = fresh(np.random.default_rng(seed), observations=1)
        heard = ends(3, "down").incoming(ends(3, seed=seed).outgoing(message))
        gram = heard.arrays["gram"]
        np.testing.assert_array_equal(gram, gram.swapaxes(1, 2))
        assert np.linalg.eigvalsh(gram).min() >= -1e-12 * np.abs(gram).max()


def test_rounding_is_unbiased():
    """The mean of many roundings of one vector is that vector, within five standard errors."""
    value = np.array([[0.3, -0.7, 1.0, 0.01]])
    message = Message("pool", np.zeros(1, np.int64), {"gram": np.zeros((1, DIM, DIM)), "moment": value})
    end, draws = ends(4, "down"), []
    for _ in range(4000):
        sent = end.outgoing(message)
        draws.append(sent.arrays["moment"] * sent.arrays["moment.scale"][:, None])
    mean, error = np.mean(draws, axis=0), np.std(draws, axis=0) / np.sqrt(len(draws))
    assert (np.abs(mean - value) <= 5 * error + 1e-12).all()


def test_what_was_rounded_away_of_increments_is_sent_later():
    """Sums of increments are off by one rounding, however many there were; without memory errors would add up."""
    rng, end = np.random.default_rng(0), ends(4)
    total = {"gram": 0.0, "moment": 0.0}
    told = {"gram": 0.0, "moment": 0.0}
    server, worst = ends(4, "down"), {"gram": 0.0, "moment": 0.0}
    for _ in range(200):
        message = fresh(rng)
        sent = end.outgoing(message)
        end.reached(message.who)
        heard = server.incoming(sent)
        for name in total:
            total[name] = total[name] + message.arrays[name]
            told[name] = told[name] + heard.arrays[name]
            worst[name] = max(worst[name], sent.arrays[f"{name}.scale"].max())
    assert np.abs(total["moment"] - told["moment"]).max() <= worst["moment"]
    # making a matrix semidefinite moves it by no more than rounding did
    assert np.abs(total["gram"] - told["gram"]).max() <= 2 * DIM * worst["gram"]


def test_an_increment_that_did_not_arrive_is_owed_to_nobody():
    async_ = fb.algorithms.AsyncLinUCB()
    end = Quantise(bits=3).ends(
        async_.about.says, "down", 3, {"d": DIM}, Streams(np.random.SeedSequence(0), 1), PROBLEM
    )
    news = fresh(np.random.default_rng(0))
    end.outgoing(Message("news", ALL, news.arrays))
    end.reached(np.array([1]))
    left = end.left.of("news", "moment")
    assert not left[0].any()
    assert left[1].any()
    assert not left[2].any()


def test_totals_have_no_memory_and_are_rounded_once_for_all():
    end = ends(8, "down")
    one = {"gram": np.eye(DIM)[None], "moment": np.ones((1, DIM))}
    shown = {name: np.broadcast_to(array, (3, *array.shape[1:])) for name, array in one.items()}
    sent = end.outgoing(Message("pool", ALL, shown))
    assert all(array.strides[0] == 0 for array in sent.arrays.values())
    assert not end.left.keeps
    heard = ends(8, "up").incoming(sent)
    assert all(array.strides[0] == 0 for array in heard.arrays.values())


def test_nothing_but_zeros_stays_zero():
    message = Message("fresh", ALL, {"gram": np.zeros((3, DIM, DIM)), "moment": np.zeros((3, DIM))})
    sent = ends(8).outgoing(message)
    assert not any(array.any() for array in sent.arrays.values())
    heard = ends(8, "down").incoming(sent)
    assert not heard.arrays["gram"].any()


@pytest.mark.parametrize("bits", [3, 8, 12, 16])
@pytest.mark.parametrize("packed", [False, True])
def test_bytes_are_what_the_declaration_says(bits, packed):
    algorithm = through(DIS, [Quantise(bits=bits)])
    wire = wire_of(algorithm, PROBLEM, Wire(packed=packed))
    sent = ends(bits).outgoing(fresh(np.random.default_rng(0)))
    wire.check(sent, "up")
    for row in range(3):
        content = wire.encode(sent, row, "up")
        assert len(content) == wire.size(sent, "up", row).bytes
        kind, arrays = Wire.decode(content)
        assert kind == "fresh"
        for name, array in sent.arrays.items():
            np.testing.assert_array_equal(arrays[name], array[row])
    entries = DIM * (DIM + 1) // 2 if packed else DIM * DIM
    assert wire.size(sent, "up").scalars == entries + DIM + 2


def test_the_ledger_shows_the_saving():
    env = fb.environments.Linear(clients=10, dim=25, arms=10)
    plain, small = (
        fb.simulate(words, env, 100) for words in ("dislinucb:threshold=1", "dislinucb:threshold=1|quantise:bits=16")
    )
    assert plain.syncs[-1] > 0
    per_sync = [run.bytes[-1] / run.syncs[-1] for run in (plain, small)]
    assert per_sync[0] / per_sync[1] > 3.5


@pytest.mark.parametrize(
    "name", ["dislinucb", "async-linucb", "hetofedbandit-e", "fedglb-ucb", "fedlinucb-async", "club"]
)
def test_two_worlds_agree_through_the_stage(name):
    """A population of n and n populations of one, reached by bytes alone, agree to the last bit."""
    inner = fb.algorithms.ALGORITHMS[name]
    parameters = {"threshold": 0.5} if "threshold" in inner.__dataclass_fields__ else {}
    home = {"club": "clustered-linear", "hetofedbandit-e": "clustered-linear", "fedglb-ucb": "logistic"}.get(
        name, "linear"
    )
    clusters = {"clusters": 2, "pool": 40} if home == "clustered-linear" else {}
    env = fb.environments.ENVIRONMENTS[home](clients=5, dim=4, arms=6, **clusters)
    algorithm = through(inner(**parameters), [Quantise(bits=6)])
    for step in two_worlds(algorithm, env, 30):
        np.testing.assert_array_equal(step.picks, step.picks_apart)
        np.testing.assert_array_equal(step.together.ledger.counts, step.apart.ledger.counts)
    assert step.together.ledger.syncs > 0
    for one, other in zip(step.together.states(), step.apart.states(), strict=True):
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


def test_a_run_is_resumed_with_what_was_rounded_away():
    words, horizon = "async-linucb:gamma_up=1.3,gamma_down=1.3|quantise:bits=4", 60
    whole = fb.Simulation(words, ENV, horizon, seed=3)
    whole.run()
    first = fb.Simulation(words, ENV, horizon, seed=3)
    first.run(25)
    second = fb.Simulation(words, ENV, horizon, seed=3)
    second.load(first.state())
    second.run()
    np.testing.assert_array_equal(second.trace().regret, whole.trace().regret)
    held = first.state()
    assert any("left" in name and held[name].any() for name in held)


def test_confidence_sets_still_cover():
    """The theory width, made for exact sums, covers with rounded ones: 8 bits, 20 seeds."""
    env = fb.environments.Linear(clients=10, dim=8, arms=10, noise=0.3)
    covered = [
        fb.simulate("dislinucb:threshold=1|quantise:bits=8", env, 200, seed, coverage=True).coverage[-1]
        for seed in range(20)
    ]
    assert np.mean(covered) >= 0.9


def test_who_cannot_be_served_is_told_so():
    for name, what in (("fed-ucb1", "its peers"), ("independent-linucb", "nobody")):
        with pytest.raises(fb.ConfigError, match=what):
            through(fb.algorithms.ALGORITHMS[name](), [Quantise()])
    with pytest.raises(fb.ConfigError, match=r"bits: must be less than or equal to 16 \(got 17\)"):
        Quantise(bits=17)
    with pytest.raises(fb.ConfigError, match="did you mean 'quantise'"):
        stages_of("quantize:bits=8")
    with pytest.raises(fb.ConfigError, match="no stage is given"):
        Through(DIS, ())


def test_stages_are_given_in_many_ways():
    expected = (Quantise(bits=8),)
    for given_ in (
        "quantise:bits=8",
        ["quantise:bits=8"],
        [{"name": "quantise", "bits": 8}],
        Quantise(bits=8),
        [Quantise(bits=8)],
    ):
        assert stages_of(given_) == expected


def test_two_stages_one_after_the_other():
    """The second one finds no number left to round where the first has made whole numbers of all."""
    with pytest.raises(fb.ConfigError, match="nothing to round"):
        through(through(DIS, [Quantise(bits=8)]), [Quantise(bits=4)])


def test_the_algorithm_knows_that_sums_are_off():
    seen = []

    class Nosy(fb.algorithms.DisLinUCB):
        def agents(self, problem, n, rng):
            seen.append(problem.get(Distortion))
            return super().agents(problem, n, rng)

    fb.simulate(through(Nosy(threshold=1.0), [Quantise(bits=8)]), ENV, 5)
    assert seen == [Distortion(2 / 127)]


def test_a_stage_moves_no_draw_of_the_algorithm():
    """An algorithm that draws sees the same numbers with and without the stage, until it hears something rounded."""
    env = fb.environments.ClusteredLinear(clients=5, dim=4, arms=6, clusters=2, pool=40)
    words = "hetofedbandit:explore=20,threshold=inf"
    plain, staged = (fb.simulate(given_, env, 20).regret for given_ in (words, f"{words}|quantise:bits=4"))
    np.testing.assert_array_equal(plain, staged)


def test_opened_is_what_the_server_will_hear():
    algorithm = through(DIS, [Quantise(bits=5)])
    sent = ends(5).outgoing(fresh(np.random.default_rng(1)))
    opened = algorithm.opened(PROBLEM, sent, "up")
    heard = ends(5, "down").incoming(sent)
    for name in heard.arrays:
        np.testing.assert_array_equal(opened.arrays[name], heard.arrays[name])


def test_a_server_through_a_stage_is_still_a_conversation():
    """Signals pass as they are, and a conversation in which nobody calls says nothing."""
    algorithm = through(DIS, [Quantise(bits=5)])
    server = algorithm.server(PROBLEM, 3, Streams(np.random.SeedSequence(0), 1))
    assert list(server.converse(np.empty(0, np.int64))) == []
    request = next(server.converse(np.array([0])))
    assert request.kind == "collect"
    assert not request.arrays


@pytest.mark.parametrize("name", ["dislinucb", "async-linucb", "fedlinucb-async", "hetofedbandit-e"])
def test_what_is_given_back_is_whole_again(name):
    """Rounded, given back and rounded anew: all that was ever observed is what was heard and what is still here."""
    algorithm = Through(fb.algorithms.ALGORITHMS[name](), (Quantise(bits=3),))
    agents = algorithm.agents(PROBLEM, 3, Streams(np.random.SeedSequence(0), 3))
    kind = "report" if name.startswith("heto") else "collect"
    rng, total, heard = np.random.default_rng(0), np.zeros(DIM), np.zeros(DIM)
    for turn in range(40):
        arms, picks, rewards = rng.standard_normal((3, 5, DIM)), np.zeros(3, np.int64), rng.standard_normal(3)
        agents.learn(ALL, arms, picks, rewards)
        total += rewards[1] * arms[1, 0]
        if turn % 5 == 4:
            reply = agents.answer(Message(kind, ALL))
            if turn % 10 == 4:
                agents.restore(reply, np.full(3, 5.0))
            else:
                heard += algorithm.opened(PROBLEM, reply.of(ALL[1:2]), "up").arrays["moment"][0]
        if agents.ellipsoids() is not None:
            assert (np.linalg.eigvalsh(agents.ellipsoids()[1]) > 0).all()
    left = agents.ends.stage0.left.of(reply.kind, "moment")[1]
    np.testing.assert_allclose(heard + left, total, rtol=1e-9)
