"""An objective over everybody's data: what the server puts together is what one would compute with all data at hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from fedbandits.contract.messages import Message, Opening
from fedbandits.linalg.links import MeanFunction, cumulant
from fedbandits.models.minimisers import accelerated, newton
from fedbandits.models.objectives import (
    ASK_CURVATURE,
    ASK_GRADIENT,
    CURVATURE,
    GRADIENT,
    PooledObjective,
    SomebodyIsAwayError,
    evaluated,
    pursued,
)
from fedbandits.models.observations import Observations

N, D, RIDGE = 3, 4, 0.7
LINKS = ["logistic", "probit", "poisson", "identity"]
every_link = pytest.mark.parametrize("name", LINKS)


class Federation:
    """Agents with different numbers of observations, the last of which the server has not been told of."""

    def __init__(self, name, seed=0):
        rng = np.random.default_rng(seed)
        self.link = MeanFunction(name)
        self.data = Observations(N, D, 2)
        self.x, self.y = [], []
        for step in range(20):
            who = np.flatnonzero(rng.random(N) < [1.0, 0.5, 0.3])
            arms, rewards = rng.standard_normal((len(who), 1, D)) / 2, rng.integers(0, 3, len(who)).astype(float)
            self.data.add(who, arms, np.zeros(len(who), dtype=np.int64), rewards)
            if step < 15:
                self.x.extend(arms[:, 0])
                self.y.extend(rewards)
                self.data.give(np.arange(N))
        self.x, self.y = np.array(self.x), np.array(self.y)
        self.m = len(self.y)
        assert self.data.given.sum() == self.m < self.data.count.sum()
        self.asked = []

    @property
    def objective(self):
        return PooledObjective(np.arange(N), self.m, RIDGE)

    def value(self, theta):
        """F with all data at hand."""
        z = self.x @ theta
        losses = [cumulant(self.link.code, score) for score in z] - self.y * z
        return (losses.sum() + RIDGE / 2 * theta @ theta) / self.m

    def hold(self, conversation, *, pooled=False, away=()):
        """Carry a conversation to its end and return its result.

        `pooled`: the server gets the sum over agents, and zeros from all but the first. `away` cannot be reached.
        """
        reply = None
        while True:
            try:
                request = conversation.send(reply)
            except StopIteration as end:
                return end.value
            self.asked.append(request.kind)
            there = request.of(~np.isin(request.who, away))
            reply = evaluated(self.data, self.link, there)
            if pooled:
                summed = {name: array.copy() for name, array in reply.arrays.items()}
                for array in summed.values():
                    array[0], array[1:] = array.sum(axis=0), 0.0
                reply = Message(reply.kind, reply.who, summed)


@every_link
def test_gradient_and_curvature_are_those_of_all_data(name):
    federation = Federation(name)
    theta = np.random.default_rng(1).standard_normal(D) / 2
    value, gradient, hessian = federation.hold(federation.objective.curvature(theta))
    assert value == pytest.approx(federation.value(theta), rel=1e-12)
    np.testing.assert_allclose(gradient, approx_fprime(theta, federation.value, 1e-7), atol=1e-5)

    def slope(at):
        return federation.hold(federation.objective.gradient(at))

    np.testing.assert_allclose(slope(theta), gradient, rtol=1e-12)
    np.testing.assert_allclose(hessian, approx_fprime(theta, slope, 1e-7), atol=1e-5)
    np.testing.assert_array_equal(hessian, hessian.T)


@every_link
def test_nothing_but_the_sum_over_agents_is_used(name):
    """As the fields say of themselves."""
    federation = Federation(name)
    theta = np.full(D, 0.3)
    for ask in (federation.objective.gradient, federation.objective.curvature):
        plain, pooled = (federation.hold(ask(theta), pooled=summed) for summed in (False, True))
        for one, other in zip(plain, pooled, strict=True):
            np.testing.assert_array_equal(one, other)
    assert all(field.pooled and field.adds == "query" for said in (GRADIENT, CURVATURE) for field in said.fields)


@every_link
def test_minimisers_find_what_one_would_find_with_all_data_at_hand(name):
    federation = Federation(name)
    best = minimize(federation.value, np.zeros(D), method="BFGS", options={"gtol": 1e-9}).x
    by_newton = federation.hold(newton(federation.objective, np.zeros(D), tolerance=1e-10, cap=50))
    assert by_newton.certified
    assert set(federation.asked) == {ASK_CURVATURE.kind}
    assert len(federation.asked) == by_newton.rounds
    np.testing.assert_allclose(by_newton.theta, best, atol=1e-5)
    federation.asked.clear()
    smooth = float(np.linalg.eigvalsh(federation.hold(federation.objective.curvature(np.ones(D)))[2])[-1]) * 5
    federation.asked.clear()
    by_steps = federation.hold(
        accelerated(
            federation.objective, np.zeros(D), smooth=smooth, strong=RIDGE / federation.m, tolerance=1e-8, cap=5000
        )
    )
    assert by_steps.certified
    assert federation.asked == [ASK_GRADIENT.kind] * by_steps.rounds
    np.testing.assert_allclose(by_steps.theta, by_newton.theta, atol=1e-5)


@every_link
@pytest.mark.parametrize(("momentum", "cap"), [("fista", 5000), ("strong", 5000), ("none", 7)])
def test_a_course_ends_where_its_rounds_end(name, momentum, cap):
    """To the last bit, with as many rounds, whether certified or capped."""

    def descent(objective):
        return accelerated(objective, np.zeros(D), smooth=3.0, strong=0.1, tolerance=1e-6, cap=cap, momentum=momentum)

    federation = Federation(name)
    by_rounds = federation.hold(descent(federation.objective))
    conversation = descent(federation.objective)
    closing = pursued(federation.data, federation.link, next(conversation))
    assert closing.rounds == by_rounds.rounds == len(federation.asked)
    with pytest.raises(StopIteration) as end:
        conversation.send(closing)
    at_once = end.value.value
    assert (at_once.rounds, at_once.certified) == (by_rounds.rounds, by_rounds.certified)
    assert at_once.certified == (cap > 7)
    assert at_once.theta.tobytes() == by_rounds.theta.tobytes()
    assert at_once.gradient.tobytes() == by_rounds.gradient.tobytes()


def test_a_course_of_another_kind_is_for_others():
    federation = Federation("logistic")
    shown = {"theta": np.zeros((N, D))}
    assert pursued(federation.data, federation.link, Opening(ASK_GRADIENT.kind, np.arange(N), shown)) is None
    other = next(federation.objective.gradient(np.zeros(D)))
    assert not isinstance(other, Opening)


@pytest.mark.parametrize("count", [1, 3, 4, 6, 255, 257, 600])
@pytest.mark.parametrize("dim", [1, 4, 5, 7, 10])
def test_gradients_of_few_and_many(count, dim):
    rng = np.random.default_rng(count)
    data = Observations(2, dim, 8)
    x, y = rng.standard_normal((count, dim)), rng.random(count)
    for place in range(count):
        data.keep(np.array([1]), x[place : place + 1], y[place : place + 1])
    data.give(np.array([1]))
    theta = rng.standard_normal((1, dim))
    found = data.gradients(MeanFunction("logistic"), np.array([1]), theta, given=True)[0]
    np.testing.assert_allclose(found, x.T @ (1 / (1 + np.exp(-x @ theta[0])) - y), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("ask", ["gradient", "curvature"])
def test_it_is_given_up_where_somebody_does_not_answer(ask):
    federation = Federation("logistic")
    with pytest.raises(SomebodyIsAwayError):
        federation.hold(getattr(federation.objective, ask)(np.zeros(D)), away=[1])


def test_everybody_is_asked_about_one_point_without_a_copy():
    request = next(Federation("logistic").objective.gradient(np.arange(4.0)))
    assert request.who.tolist() == [0, 1, 2]
    assert request.arrays["theta"].shape == (N, D)
    assert request.arrays["theta"].strides[0] == 0
    np.testing.assert_array_equal(request.arrays["theta"][2], np.arange(4.0))


def test_an_agent_alone_answers_the_same_to_the_last_bit():
    federation = Federation("probit")
    request = next(federation.objective.curvature(np.full(D, 0.2)))
    together = evaluated(federation.data, federation.link, request)
    for i in range(N):
        alone = Observations(1, D, 1)
        alone.load({name: array[i : i + 1] for name, array in federation.data.state().items()})
        own = evaluated(
            alone,
            federation.link,
            Message(request.kind, np.zeros(1, dtype=np.int64), {"theta": request.arrays["theta"][:1]}),
        )
        for name, array in own.arrays.items():
            assert array.tobytes() == together.arrays[name][i : i + 1].tobytes()
