"""What a synchronisation leaves behind, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import AsyncLinUCB, AsyncLinUCBAM, CentralLinUCB, DisLinUCB, FedLinUCBAsync
from fedbandits.contract.facts import Shared
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire
from fedbandits.testing.recording import recorded
from fedbandits.testing.worlds import Together
from fedbandits.transport.carriers import hold

N, D, K = 5, 4, 6
HORIZON = 60


def environment(schedule="all", **parameters):
    return fb.environments.Linear(clients=N, dim=D, arms=K, schedule=schedule, **parameters)


def bits(array):
    return array.tobytes()


@pytest.mark.parametrize("algorithm", [DisLinUCB(threshold=0.7), CentralLinUCB()], ids=lambda one: one.about.name)
def test_after_a_synchronisation_all_agents_are_identical(algorithm):
    synced = 0
    for event in recorded(algorithm, environment(), HORIZON):
        if not event.crossed:
            continue
        synced += 1
        models = event.side.agents.models
        for array in (models.base.gram, models.base.moment, models.inverse, models.theta, models.logdet):
            assert {bits(row) for row in array} == {bits(array[0])}
        assert not models.fresh.gram.any()
        assert not models.growth.any()
        pool = event.side.server.pool
        assert bits(models.base.gram[0]) == bits(pool.gram[0])
        # the very next decision: from equal knowledge and equal arms, equal choices
        same_arms = np.broadcast_to(np.random.default_rng(event.step).standard_normal((K, D)), (N, K, D)).copy()
        assert len(set(event.side.agents.choose(np.arange(N), same_arms).tolist())) == 1
    assert synced > 3


POOLING = [
    DisLinUCB(threshold=0.7, width="loose"),
    CentralLinUCB(width="loose"),
    AsyncLinUCB(gamma_up=1.4, gamma_down=1.4, width="loose"),
    FedLinUCBAsync(growth=0.3, width="loose"),
]


@pytest.mark.parametrize("schedule", ["all", "random"])
@pytest.mark.parametrize("algorithm", POOLING, ids=lambda one: one.about.name)
def test_the_pool_is_the_sum_of_all_observations_up_to_the_last_upload(algorithm, schedule):
    """Observations are recorded here; an agent's count as pooled at its own last upload."""
    own = [(np.zeros((D, D)), np.zeros(D), 0) for _ in range(N)]
    uploaded = list(own)
    uploads = 0
    for event in recorded(algorithm, environment(schedule), HORIZON):
        for row, i in enumerate(event.who):
            x, y = event.arms[row, event.picks[row]], event.rewards[row]
            own[i] = (own[i][0] + np.outer(x, x), own[i][1] + y * x, own[i][2] + 1)
        for direction, message in event.crossed:
            if direction == "up":
                uploads += 1
                for i in message.who:
                    uploaded[i] = own[i]
        pool = event.side.server.pool
        np.testing.assert_allclose(pool.gram[0], sum(gram for gram, _, _ in uploaded), atol=1e-10)
        np.testing.assert_allclose(pool.moment[0], sum(moment for _, moment, _ in uploaded), atol=1e-10)
        assert pool.count[0] == sum(count for _, _, count in uploaded)
    assert uploads > 3


class TestCommunicationCounts:
    """By hand: scalars of one transfer are d^2 + d, packed d(d+1)/2 + d."""

    plain, packed = D * D + D, D * (D + 1) // 2 + D

    @pytest.mark.parametrize(("wire", "size"), [(Wire(), plain), (Wire(packed=True), packed)], ids=["plain", "packed"])
    def test_dislinucb(self, wire, size):
        trace = fb.simulate(DisLinUCB(threshold=0.7), environment(), HORIZON, wire=wire)
        assert trace.syncs[-1] > 3
        np.testing.assert_array_equal(trace.uplink.messages, trace.syncs * N)
        np.testing.assert_array_equal(trace.downlink.messages, trace.syncs * N)
        np.testing.assert_array_equal(trace.scalars, trace.syncs * 2 * N * size)
        np.testing.assert_array_equal(trace.downlink.signals, trace.syncs * N)

    @pytest.mark.parametrize(("schedule", "awake"), [("all", N), ("random", 1)])
    def test_central(self, schedule, awake):
        trace = fb.simulate(CentralLinUCB(), environment(schedule), HORIZON)
        steps = np.arange(1, HORIZON + 1)
        np.testing.assert_array_equal(trace.syncs, steps)
        np.testing.assert_array_equal(trace.uplink.messages, steps * awake)
        np.testing.assert_array_equal(trace.downlink.messages, steps * N)
        np.testing.assert_array_equal(trace.scalars, steps * (awake + N) * self.plain)

    def test_async_counts_one_per_upload_and_one_per_download(self):
        uploads = downloads = 0
        for event in recorded(AsyncLinUCB(gamma_up=1.3, gamma_down=1.5), environment("random"), 3 * HORIZON):
            uploads += len(event.callers)
            downloads += sum(len(message.who) for _, message in event.crossed if message.kind == "news")
            ledger = event.side.ledger
            assert (ledger.up.messages, ledger.down.messages) == (uploads, downloads)
            assert ledger.up.scalars + ledger.down.scalars == (uploads + downloads) * self.plain
        assert uploads > 3
        assert downloads > 3

    def test_async_with_everybody_told_sends_each_upload_to_all_others(self):
        """One agent at a time and gamma = 1: an upload is news to n - 1 agents."""
        trace = fb.simulate(AsyncLinUCB(gamma_up=1, gamma_down=1), environment("random"), HORIZON)
        steps = np.arange(1, HORIZON + 1)
        np.testing.assert_array_equal(trace.uplink.messages, steps)
        np.testing.assert_array_equal(trace.downlink.messages, steps * (N - 1))

    def test_fedlinucb_has_two_messages_per_caller(self):
        calls = 0
        for event in recorded(FedLinUCBAsync(growth=0.2), environment(), HORIZON):
            calls += len(event.callers)
            ledger = event.side.ledger
            assert ledger.up.messages == ledger.down.messages == calls
            assert ledger.up.scalars == ledger.down.scalars == calls * self.plain
        assert calls > 3

    def test_counts_travel_only_for_the_loose_width(self):
        narrow = fb.simulate(DisLinUCB(threshold=0), environment(), 1)
        loose = fb.simulate(DisLinUCB(threshold=0, width="loose"), environment(), 1)
        assert loose.scalars[0] == narrow.scalars[0] + 2 * N

    def test_the_shared_block_alone_travels(self):
        env = fb.environments.LinearShared(clients=N, dim=D, arms=K, shared=3)
        trace = fb.simulate(AsyncLinUCBAM(gamma_up=1.3, gamma_down=1.3), env, HORIZON)
        assert trace.messages[-1] > 3
        np.testing.assert_array_equal(trace.scalars, trace.messages * (3 * 3 + 3))


class TestLateObservations:
    """An observation that arrives after an agent's upload and before its download is neither lost nor sent twice."""

    problem = Problem(agents=3, dim=D, arms=2, horizon=50, facts=(Shared(2),))

    @pytest.mark.parametrize(
        "name", ["dislinucb", "central-linucb", "async-linucb", "async-linucb-am", "fedlinucb-async"]
    )
    def test_nothing_is_lost(self, name):
        rng = np.random.default_rng(5)
        parameters = {"dislinucb": {"threshold": 0}, "fedlinucb-async": {"growth": 0}}
        talkative = parameters.get(name, {} if name == "central-linucb" else {"gamma_up": 1, "gamma_down": 1})
        algorithm = fb.algorithms.ALGORITHMS[name](**talkative)
        side = Together(algorithm, self.problem, np.random.SeedSequence(0), Wire())
        block = 2 if name == "async-linucb-am" else D
        everybody, picks = np.arange(3), np.zeros(3, dtype=np.int64)
        total = np.zeros((block, block))
        late = np.zeros((3, block, block))

        def observe():
            arms = rng.standard_normal((3, 1, D))
            side.learn(everybody, arms, picks, rng.standard_normal(3))
            x = arms[:, 0, :block]
            return np.einsum("ni,nj->nij", x, x)

        class Interrupting(type(side.carrier)):
            def _deliver(self, request):
                nonlocal late
                reply = super()._deliver(request)
                if request.kind == "collect":
                    late = observe()
                return reply

        carrier = Interrupting(side.agents, side.ledger, side.wire)
        for _ in range(6):
            before = late
            now = observe()
            hold(side.server, np.flatnonzero(side.agents.calling()), carrier)
            total += (before + now).sum(axis=0)
            np.testing.assert_allclose(side.server.pool.gram[0], total, atol=1e-9)
            known, fresh = self.known(side.agents)
            np.testing.assert_allclose(fresh, late, atol=1e-12)
            np.testing.assert_allclose(known, total + late, atol=1e-9)

    @staticmethod
    def known(agents):
        """What the agents know including their fresh data, and the fresh data, as Gram matrices."""
        if hasattr(agents, "ahead_inverse"):
            ahead = np.linalg.inv(agents.ahead_inverse) - np.eye(D)
            return ahead, agents.fresh.gram
        models = agents.common if hasattr(agents, "common") else agents.models
        return models.base.gram + models.fresh.gram, models.fresh.gram


def test_fedlinucb_acts_on_its_last_download_only():
    """Own observations change neither estimate nor choice until they have been to the server and back."""
    problem = Problem(agents=2, dim=D, arms=K, horizon=100)
    algorithm = FedLinUCBAsync(growth=3.0, width=0.1)
    agents = algorithm.agents(problem, 2, Streams(np.random.SeedSequence(0), 2))
    server = algorithm.server(problem, 2, Streams(np.random.SeedSequence(1), 1))
    rng = np.random.default_rng(0)
    who = np.arange(2)
    probe = rng.standard_normal((2, 50, D))
    first = agents.choose(who, probe)
    theta = agents.theta.copy()
    for _ in range(3):
        agents.learn(who, rng.standard_normal((2, 1, D)), np.zeros(2, dtype=np.int64), np.full(2, 5.0))
        np.testing.assert_array_equal(agents.theta, theta)
        np.testing.assert_array_equal(agents.choose(who, probe), first)
    assert agents.calling().all()
    talk = server.converse(np.array([0]))
    reply = agents.answer(next(talk))
    pool = talk.send(reply)
    np.testing.assert_array_equal(agents.choose(who, probe), first)
    assert agents.answer(pool) is None
    assert agents.theta[0].any()
    assert agents.choose(who, probe)[0] != first[0]
    assert agents.choose(who, probe)[1] == first[1], "agent 1 did not call and was not told"
    assert not agents.calling()[0]


def test_a_download_that_brings_nothing_is_not_sent():
    """A single agent uploads again and again: nobody else is awake, and nobody's news is sent back to it."""
    problem = Problem(agents=3, dim=D, arms=1, horizon=10)
    algorithm = AsyncLinUCB(gamma_up=1, gamma_down=1)
    side = Together(algorithm, problem, np.random.SeedSequence(0), Wire())
    alone = np.array([1])
    rng = np.random.default_rng(1)
    for _ in range(20):
        arms = rng.standard_normal((1, 1, D)) * 1e-3
        side.learn(alone, arms, np.zeros(1, dtype=np.int64), np.ones(1))
        request = next(talk := side.server.converse(alone))
        news = talk.send(side.agents.answer(request))
        assert news.who.tolist() == [0, 2]
        side.agents.answer(news)
        with pytest.raises(StopIteration):
            talk.send(Message("news", news.who))
