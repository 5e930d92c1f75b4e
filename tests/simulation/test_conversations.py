"""Conversations held inside compiled loops are those that Python would have held, and are counted alike."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.linear.servers import PoolServer
from fedbandits.contract.booking import UNKNOWN, books_of, priced
from fedbandits.contract.wire import Wire
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.ridge import Sharers
from fedbandits.simulation import loop

LINEAR = "linear:clients=6,dim=5,arms=6"
CLUSTERS = "clustered-linear:clients=8,clusters=2,dim=5,arms=6"
HELD = {
    "dislinucb:threshold=0.5": LINEAR,
    "dislinucb:threshold=0.5,width=loose": LINEAR,
    "dislinucb:every=7": LINEAR,
    "central-linucb": LINEAR,
    "async-linucb:gamma_up=1.3,gamma_down=1.3": LINEAR,
    "async-linucb:gamma_up=1.3,gamma_down=1.3,width=loose": LINEAR,
    "async-linucb:gamma_up=1,gamma_down=1": LINEAR,
    "fedlinucb-async": LINEAR,
    "fedlinucb-async:growth=0.1,width=loose": LINEAR,
    "fedlinucb-async:growth=0": LINEAR,
    "fedlinucb-async:every=3": LINEAR,
    "fclub-dc:width=0.5,gamma_up=1.2,gamma_down=1.2": CLUSTERS,
    "hetofedbandit:explore=12,threshold=0.3": CLUSTERS,
    "hetofedbandit:explore=12,threshold=0.3,serve_every=3,width=loose": CLUSTERS,
    "oracle-clusters:threshold=0.3": CLUSTERS,
}


def made(algorithm, environment, horizon=240, **options):
    run = fb.Simulation(algorithm, f"{environment},schedule=random", horizon, seed=5, **options)
    run.compiled = True
    return run


def spied(monkeypatch):
    """How often Python gives a server the floor."""
    floors = []
    held = loop.hold
    monkeypatch.setattr(loop, "hold", lambda *args: (floors.append(len(args[1])), held(*args)))
    return floors


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("algorithm", HELD)
def test_python_is_left_out_and_nothing_comes_out_differently(algorithm, packed, monkeypatch):
    floors = spied(monkeypatch)
    run = made(algorithm, HELD[algorithm], wire=Wire(packed=packed))
    run.run(170)  # whoever explores has done so, and everything has been said once
    floors.clear()
    before = run.ledger.syncs
    run.run()
    assert run.ledger.syncs > before + 1
    assert not any(floors)
    by_hand = made(algorithm, HELD[algorithm], wire=Wire(packed=packed))
    by_hand.compiled = False
    by_hand.run()
    one, other = run.state(), by_hand.state()
    assert not [name for name in one if not np.array_equal(one[name], other[name])]
    assert np.array_equal(run.trace().counts, by_hand.trace().counts)


def test_nobody_is_found_behind():
    """Whoever looks at agents after any number of steps finds estimates that follow from their sums."""
    run = made("async-linucb:gamma_up=1.2,gamma_down=1.2", LINEAR)
    for _ in range(24):
        run.run(10)
        models = run.agents.models
        inverse, theta = models.inverse.copy(), models.theta.copy()
        models.recompute()
        np.testing.assert_allclose(inverse, models.inverse, atol=1e-9)
        np.testing.assert_allclose(theta, models.theta, atol=1e-9)


def test_a_message_has_no_price_before_one_has_passed():
    run = made("dislinucb:threshold=0.5", LINEAR)
    wire, speech = run._carrier.wire, run.server.speech
    books = books_of(run.ledger, wire, speech, run.counts, run.syncs)
    assert not priced(books)
    assert (books.prices == UNKNOWN).all()
    while run.ledger.syncs == 0:
        run.run(1)
    books = books_of(run.ledger, wire, speech, run.counts, run.syncs)
    assert priced(books)
    d = 5
    assert books.prices[:, 1].tolist() == [0, d * d + d, d * d + d]
    run.run()
    assert run.ledger.down.bytes == books.prices[2, 2] * run.ledger.down.messages


class Reserved(OptimisticAgents):
    """Agents that answer in a way of their own."""

    def answer(self, request):
        return super().answer(request)


class Curious(PoolServer):
    """A server that talks in a way of its own."""

    def converse(self, callers):
        yield from super().converse(callers)


def test_who_has_ways_of_its_own_is_not_spoken_for():
    run = made("dislinucb:threshold=0.5", LINEAR)
    answering = run.agents.answering()
    assert isinstance(answering, Sharers)
    assert run.server.compiled(answering) is not None
    assert Reserved(run.agents.models, run.agents._rule).answering() is None
    curious = Curious(fb.algorithms.DisLinUCB(), 6, 5, collects="everybody", tells="everybody")
    assert curious.compiled(answering) is None
    in_portions = PoolServer(fb.algorithms.DisLinUCB(), 6, 5, collects="everybody", tells="everybody", portion=2)
    assert in_portions.compiled(answering) is None


@pytest.mark.parametrize("algorithm", ["dislinucb:threshold=0.5", "async-linucb:gamma_up=1.3,gamma_down=1.3"])
def test_what_nothing_follows_from_is_refused(algorithm):
    run = made(algorithm, LINEAR)
    run.run(120)
    run.server.pool.gram[0] = -1e6 * np.eye(5)
    with pytest.raises(ValueError, match="positive definite"):
        run.run()
