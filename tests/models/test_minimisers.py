"""Distributed minimisation: coefficients, certificates and the number of rounds, against high precision."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.models.minimisers import accelerated, averaged, newton, within
from fedbandits.simulation.loop import Simulation
from fedbandits.testing.recording import recorded

RIDGE, D = 2.0, 6


class Told:
    """An objective (see `models.objectives`) that nobody has to be asked for; `asked` are the points it was told at."""

    def __init__(self, at):
        self._at = at
        self.asked = []

    def gradient(self, point, descent=None):
        return self.curvature(point)

    def curvature(self, point):
        yield from ()
        self.asked.append(point)
        return self._at(point)


class Logistic:
    """F of m logistic observations, and its minimum by Newton's method to the last digits."""

    def __init__(self, m, seed=0, norm=1.0):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((m, D))
        self.m, self.x = m, norm * x / np.linalg.norm(x, axis=1, keepdims=True)
        theta = rng.standard_normal(D)
        self.y = (rng.random(m) < expit(self.x @ theta / np.linalg.norm(theta))).astype(float)
        self.gradients = Told(self.gradient)
        self.curvatures = Told(lambda theta: (self.value(theta), self.gradient(theta), self.hessian(theta)))
        best = np.zeros(D)
        for _ in range(30):
            best = best - np.linalg.solve(self.hessian(best), self.gradient(best))
        assert np.linalg.norm(self.gradient(best)) < 1e-15
        self.least = self.value(best)

    def value(self, theta):
        z = self.x @ theta
        return (np.logaddexp(0, z) - self.y * z).sum() / self.m + RIDGE / (2 * self.m) * theta @ theta

    def gradient(self, theta):
        return (self.x.T @ (expit(self.x @ theta) - self.y) + RIDGE * theta) / self.m

    def hessian(self, theta):
        p = expit(self.x @ theta)
        return ((self.x * (p * (1 - p))[:, None]).T @ self.x + RIDGE * np.eye(D)) / self.m

    @property
    def tolerance(self):
        return np.sqrt(2 * RIDGE / self.m**3)

    def descend(self, momentum, cap=10**5):
        return finished(
            accelerated(
                self.gradients,
                np.zeros(D),
                smooth=0.25 * (self.x**2).sum(axis=1).max() + RIDGE / self.m,
                strong=RIDGE / self.m,
                tolerance=self.tolerance,
                cap=cap,
                momentum=momentum,
            )
        )


def finished(conversation):
    """The result of a conversation that never has to ask anybody."""
    with pytest.raises(StopIteration) as stop:
        next(conversation)
    return stop.value.value


@pytest.mark.parametrize("momentum", ["fista", "strong", "none"])
@pytest.mark.parametrize(("m", "norm"), [(40, 1.0), (400, 1.0), (400, np.sqrt(2)), (3000, 1.0)])
def test_the_certificate_is_kept(momentum, m, norm):
    objective = Logistic(m, norm=norm)
    found = objective.descend(momentum)
    assert found.certified
    assert np.linalg.norm(objective.gradient(found.theta)) <= objective.tolerance
    assert 0 <= objective.value(found.theta) - objective.least + 1e-15 <= 1 / m**2
    asked = objective.gradients.asked
    assert found.rounds == len(asked)
    np.testing.assert_array_equal(found.theta, asked[-1])
    assert all(np.linalg.norm(objective.gradient(theta)) > objective.tolerance for theta in asked[:-1])


def test_a_bound_on_the_rounds_is_kept_and_owned_up_to():
    objective = Logistic(400)
    found = objective.descend("fista", cap=3)
    assert (found.rounds, found.certified, len(objective.gradients.asked)) == (3, False, 3)


def test_momentum_takes_the_root_of_the_rounds_where_curvatures_lie_far_apart():
    """A quadratic with condition number 10^4: about 10^4 log(1/tolerance) rounds without, 10^2 with."""
    curvatures = np.array([1.0, 1e-2, 1e-4])

    bowl = Told(lambda theta: curvatures * theta)
    rounds = {}
    for momentum in ("none", "fista", "strong"):
        found = finished(
            accelerated(bowl, np.ones(3), smooth=1.0, strong=1e-4, tolerance=1e-10, cap=10**6, momentum=momentum)
        )
        assert found.certified
        rounds[momentum] = found.rounds
    assert rounds["none"] > 10**5
    assert rounds["strong"] < rounds["fista"] < rounds["none"] / 5
    assert rounds["strong"] < 3000


def test_the_publications_coefficients():
    """theta^(j+1) = (1 - gamma_j) next + gamma_j previous with the gammas as printed."""
    gammas = [0.0, -0.2817535251, -0.4340427828, -0.5310638054, -0.5987785941]
    rng = np.random.default_rng(0)
    gradients = rng.standard_normal((6, 3)) + 5
    printed = Told(lambda theta: gradients[len(printed.asked) - 1])
    start = rng.standard_normal(3)
    finished(accelerated(printed, start, smooth=2.0, strong=0.1, tolerance=1e-9, cap=6))
    theta = previous = start
    for j, gamma in enumerate(gammas):
        following = theta - gradients[j] / 2.0
        theta, previous = (1 - gamma) * following + gamma * previous, following
        np.testing.assert_allclose(printed.asked[j + 1], theta, rtol=1e-9)


@pytest.mark.parametrize("m", [5, 40, 400, 3000])
def test_newton_is_certified_in_under_ten_rounds(m):
    objective = Logistic(m)
    found = finished(newton(objective.curvatures, np.zeros(D), tolerance=objective.tolerance, cap=50))
    assert found.certified
    assert found.rounds == len(objective.curvatures.asked) < 10
    assert objective.value(found.theta) - objective.least <= 1 / m**2


def test_newton_halves_a_step_that_goes_too_far():
    """sqrt(1 + z^2) from z = 3: the full step goes to -27, farther out."""

    def at(z):
        root = np.sqrt(1 + z[0] ** 2)
        return float(root), z / root, np.array([[root**-3]])

    valley = Told(at)
    found = finished(newton(valley, np.array([3.0]), tolerance=1e-9, cap=50))
    assert found.certified
    assert abs(found.theta[0]) < 1e-8
    assert valley.asked[1] == pytest.approx(-27.0)
    assert valley.asked[2] == pytest.approx(-12.0)


@pytest.mark.parametrize("name", ["fedglb-newton", "one-ucb-glm"])
def test_every_update_by_newton_takes_under_ten_rounds(name):
    env = fb.environments.Logistic(clients=8, dim=5, arms=8)
    rounds = [
        sum(message.kind == "curvature" for way, message in event.crossed if way == "down")
        for event in recorded(ALGORITHMS[name](), env, 150)
        if event.crossed
    ]
    assert len(rounds) >= 15
    assert max(rounds) < 10


@pytest.mark.parametrize("momentum", ["fista", "strong", "none"])
def test_longer_arms_get_shorter_steps(momentum):
    """With the printed step, which takes arms to have norm 1, arms of norm sqrt(2) need not converge."""
    env = fb.environments.Logistic(clients=5, dim=5, arms=8, spread="biased", pool=50)
    run = Simulation(ALGORITHMS["fedglb-ucb"](threshold=2.0, momentum=momentum, scale=0.1), env, 150)
    run.run()
    assert int(run.server.count[0]) > 500
    assert int(run.server.uncertified) == 0
    updates = run.trace().syncs[-1]
    assert run.trace().messages[-1] == 2 * 5 * (int(run.server.rounds) + updates)


# --- answers with noise


class Quadratic:
    """F(theta) = (theta - best)^T H (theta - best) / 2, told with noise of standard deviation `noise` each time."""

    def __init__(self, noise, seed=0):
        rng = np.random.default_rng(seed)
        root = rng.standard_normal((D, D))
        self.hessian = root @ root.T + np.eye(D)
        self.best = 0.2 * rng.standard_normal(D)
        self.told = Told(lambda theta: self.hessian @ (theta - self.best) + noise * rng.standard_normal(D))
        self.bent = Told(lambda theta: (0.0, self.told._at(theta), self.hessian))


class TestNoisyAnswers:
    @pytest.mark.parametrize("rounds", [1, 2, 5])
    def test_exactly_so_many_rounds_and_no_certificate(self, rounds):
        one = Quadratic(0.0)
        found = finished(averaged(one.told, np.zeros(D), scale=one.hessian, rounds=rounds, radius=9.0))
        assert (found.rounds, len(one.told.asked), found.certified) == (rounds, rounds, False)
        np.testing.assert_allclose(found.theta, one.best, atol=1e-12)

    def test_rounds_average_their_noise(self):
        """The covariance is that of one answer over the number of rounds, whichever way the scale is known."""
        one, rounds, runs = Quadratic(0.3, seed=1), 4, 3000
        inverse = np.linalg.inv(one.hessian)
        expected = 0.3**2 / rounds * np.trace(inverse @ inverse)
        for asked, scale in ((one.told, one.hessian), (one.bent, lambda hessian: hessian)):
            ends = [
                finished(averaged(asked, np.zeros(D), scale=scale, rounds=rounds, radius=99.0)).theta
                for _ in range(runs)
            ]
            assert np.mean(np.sum((np.array(ends) - one.best) ** 2, axis=1)) == pytest.approx(expected, rel=0.1)

    def test_few_rounds_do_where_the_scale_is_an_upper_bound(self):
        """Slopes of clicks within [0.1966, 0.25]: what is left shrinks by 1 - c/k at least in the first round."""
        f = Logistic(2000)
        gram = f.x.T @ f.x
        best = finished(newton(f.curvatures, np.zeros(D), tolerance=1e-12, cap=50)).theta
        scale = (0.25 * gram + RIDGE * np.eye(D)) / f.m
        norm = lambda e: np.sqrt(e @ scale @ e)  # noqa: E731
        first = finished(averaged(f.gradients, np.zeros(D), scale=scale, rounds=1, radius=9.0)).theta
        assert norm(first - best) <= (1 - 0.1966 / 0.25) * norm(best)

    @pytest.mark.parametrize("length", [0.5, 1.0, 1.0 + 1e-15, 3.0, 1e9])
    def test_points_stay_within_bounds(self, length):
        """Whatever the rounding: beyond them nobody answers."""
        for seed in range(20):
            point = np.random.default_rng(seed).standard_normal(D)
            kept = within(point / np.linalg.norm(point) * length, 1.0)
            assert np.sqrt(np.einsum("d,d->", kept, kept)) <= 1.0
            assert np.linalg.norm(kept) == pytest.approx(min(length, 1.0), rel=1e-11)
