"""Agents that come and go: nothing is lost, nothing counts twice, and who waits for whom."""

from __future__ import annotations

import numpy as np
import pytest
from clustered_books import IncrementBooks, TotalBooks

import fedbandits as fb
from fedbandits.algorithms import (
    CLUB,
    FCLUBDC,
    AsyncLinUCB,
    CentralLinUCB,
    DisLinUCB,
    DyClu,
    FedLinUCBAsync,
    HetoFedBandit,
    HetoFedBanditAsync,
    HetoFedBanditDR,
    HetoFedBanditE,
    HetoFedBanditPQ,
    OracleClusters,
)
from fedbandits.contract.facts import Truth
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments import ClusteredLinear, Linear
from fedbandits.testing.recording import recorded

N, D, K = 8, 4, 6
HORIZON = 300


def clustered(share=0.5, presence=0.3):
    return ClusteredLinear(
        clients=N, dim=D, arms=K, pool=60, sizes=(5, 3), centres="equidistant", stragglers=share, presence=presence
    )


WAITING = [
    HetoFedBandit(explore=10, threshold=2.0),
    HetoFedBandit(explore=10, threshold=2.0, level=0.5),
    HetoFedBanditPQ(explore=10, threshold=2.0),
    OracleClusters(threshold=2.0),
]
NOT_WAITING = [
    HetoFedBanditE(threshold=2.0),
    HetoFedBanditDR(threshold=2.0),
    HetoFedBanditAsync(explore=10, threshold=2.0),
]


def called(algorithm):
    return f"{algorithm.about.name}-{getattr(algorithm, 'level', 0)}"


@pytest.mark.parametrize("algorithm", WAITING, ids=called)
def test_services_that_wait_conserve_every_observation(algorithm):
    """A service spans many steps here: members hand over when they can be reached, and are told when they can."""
    books, spans = IncrementBooks(N, D), 0
    for event in recorded(algorithm, clustered(), HORIZON):
        spans += books.under_way
        books.follow(event)
        books.assert_agents_hold(event)
    assert books.services > 5
    assert spans > 20, "no service had to wait: the test shows nothing"


@pytest.mark.parametrize("algorithm", NOT_WAITING, ids=called)
def test_services_that_do_not_wait_conserve_every_observation(algorithm):
    books = TotalBooks(N, D)
    for event in recorded(algorithm, clustered(), HORIZON):
        books.follow(event)
        books.assert_agents_hold(event)
    assert books.services > 5


@pytest.mark.parametrize("algorithm", WAITING, ids=called)
def test_everybody_reports_once(algorithm):
    """Who has reported and calls again while others still explore is not heard twice."""
    reports = np.zeros(N, dtype=int)
    for event in recorded(algorithm, clustered(), HORIZON):
        clustering = not event.side.server.reported.all() if hasattr(event.side.server, "reported") else False
        for _, message in event.crossed:
            if message.kind == "report" and (clustering or reports.sum() < N):
                reports[message.who] += 1
    assert reports.tolist() == [0 if isinstance(algorithm, OracleClusters) else 1] * N


def test_a_service_is_complete_before_the_next_one_begins():
    """All members of a cluster hand over and are told, each exactly once, before another cluster's turn comes."""
    handed: list[int] = []
    told: list[int] = []
    services = 0
    for event in recorded(WAITING[3], clustered(), HORIZON):
        for _, message in event.crossed:
            if message.kind == "collect":
                handed += message.who.tolist()
            if message.kind == "share":
                told += message.who.tolist()
                clusters = event.side.server.clusters
                assert sorted(handed) in [np.flatnonzero(cluster).tolist() for cluster in clusters], "told too early"
        if handed and not event.side.server.serving.any():
            assert sorted(handed) == sorted(told)
            handed, told = [], []
            services += 1
    assert services > 5


def test_whoever_is_waited_for_does_not_queue_its_cluster_again():
    """Its call is answered by the service under way; another one right after it would share next to nothing."""
    problem = Problem(agents=3, dim=2, arms=2, horizon=100, facts=(Truth((0, 0, 1)),))
    server = OracleClusters().server(problem, 3, Streams(np.random.SeedSequence(0), 1))

    def handed_over(who):
        share = {"gram": np.zeros((len(who), 2, 2)), "moment": np.zeros((len(who), 2))}
        return Message("own", who, share)

    talk = server.converse(np.array([0]))
    assert next(talk).who.tolist() == [0, 1]
    with pytest.raises(StopIteration):
        talk.send(handed_over(np.array([0])))  # agent 1 cannot be reached
    talk = server.converse(np.array([1, 2]))  # back again, and calling for the same reason as agent 0
    assert next(talk).who.tolist() == [1]
    told = talk.send(handed_over(np.array([1])))
    assert (told.kind, told.who.tolist()) == ("share", [0, 1])
    np.testing.assert_array_equal(server.clusters[server.queue], [[False, False, True]])


def test_async_serves_callers_the_moment_they_call_and_waits_for_nobody():
    """Once clustered, a step with callers always serves some of them, and only callers."""
    clustered_at = None
    for event in recorded(HetoFedBanditAsync(explore=10, threshold=2.0), clustered(), HORIZON):
        if clustered_at is not None and len(event.callers):
            told = [message.who.tolist() for _, message in event.crossed if message.kind == "total"]
            assert len(told) == 1
            assert set(told[0]) <= set(event.callers.tolist())
        if event.side.server.reported.all():
            clustered_at = event.step
    assert clustered_at is not None


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_inside_a_cluster_not_waiting_pays(share):
    """Stragglers there one step in ten, paired over seeds; a single cluster, so that the test has no part in it."""
    env = ClusteredLinear(clients=20, dim=8, arms=10, pool=300, clusters=1, stragglers=share, presence=0.1)
    waiting, asynchronous = (
        np.array([fb.simulate(one, env, 300, seed).regret[-1] for seed in range(5)])
        for one in (HetoFedBandit(explore=0), HetoFedBanditAsync(explore=0))
    )
    gap = waiting - asynchronous
    assert gap.mean() > 4 * gap.std(ddof=1) / np.sqrt(len(gap))


POOLING = [
    DisLinUCB(threshold=0.7),
    CentralLinUCB(),
    AsyncLinUCB(gamma_up=1.4, gamma_down=1.4),
    FedLinUCBAsync(growth=0.3),
]


@pytest.mark.parametrize("algorithm", [*POOLING, CLUB(), DyClu(change_detection=False), FCLUBDC()], ids=called)
def test_uploads_of_pools_and_groups_are_conserved(algorithm):
    """What the server holds is the sum of what each agent had observed when it last uploaded."""
    env = (
        clustered()
        if algorithm.about.family == "clustered"
        else Linear(clients=N, dim=D, arms=K, stragglers=0.5, presence=0.3)
    )
    own, uploaded, uploads = np.zeros((N, D, D)), np.zeros((N, D, D)), 0
    for event in recorded(algorithm, env, HORIZON):
        chosen = event.arms[np.arange(len(event.who)), event.picks]
        own[event.who] += np.einsum("wd,we->wde", chosen, chosen)
        for direction, message in event.crossed:
            if direction == "up":
                np.testing.assert_allclose(message.arrays["gram"], (own - uploaded)[message.who], atol=1e-9)
                uploaded[message.who] = own[message.who]
                uploads += len(message.who)
        server = event.side.server
        if hasattr(server, "pool"):
            np.testing.assert_allclose(server.pool.gram[0], uploaded.sum(axis=0), atol=1e-9)
        else:
            np.testing.assert_allclose(server.own.gram, uploaded, atol=1e-9)
    assert uploads > 20


@pytest.mark.parametrize("algorithm", [DisLinUCB(threshold=0.7), CentralLinUCB()], ids=called)
def test_an_agent_away_catches_up_with_the_pool_when_it_is_back(algorithm):
    """What an agent acts on is the last pool it was told plus what it has observed since it last uploaded."""
    last, unsent = np.zeros((N, D, D)), np.zeros((N, D, D))
    for event in recorded(algorithm, Linear(clients=N, dim=D, arms=K, stragglers=0.5, presence=0.3), HORIZON):
        chosen = event.arms[np.arange(len(event.who)), event.picks]
        unsent[event.who] += np.einsum("wd,we->wde", chosen, chosen)
        for direction, message in event.crossed:
            if direction == "up":
                last[message.who] += unsent[message.who]  # until the pool, which contains it, arrives
                unsent[message.who] = 0.0
            elif message.kind == "pool":
                last[message.who] = message.arrays["gram"]
        models = event.side.agents.models
        np.testing.assert_allclose(models.base.gram + models.fresh.gram, last + unsent, atol=1e-9)


@pytest.mark.parametrize("algorithm", [CLUB(), DyClu(change_detection=False)], ids=called)
def test_groups_catch_up_too(algorithm):
    """An agent acts on its group's sum as of the last time it was told, plus nothing: every observation goes up."""
    told = np.zeros((N, D, D))
    for event in recorded(algorithm, clustered(), HORIZON):
        for _, message in event.crossed:
            if message.kind == "pool":
                expected = np.einsum("wn,nde->wde", event.side.server.group[message.who], event.side.server.own.gram)
                np.testing.assert_allclose(message.arrays["gram"], expected, atol=1e-9)
                told[message.who] = message.arrays["gram"]
        models = event.side.agents.models
        np.testing.assert_allclose(models.base.gram + models.fresh.gram, told, atol=1e-9)
