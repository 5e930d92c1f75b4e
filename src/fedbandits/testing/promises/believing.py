"""What agents believe: confidence ellipsoids are ellipsoids, however ill-conditioned the arms."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.population import Population
from fedbandits.testing.breach import require
from fedbandits.testing.subject import Subject

_STEPS = 200


def definite(subject: Subject) -> None:
    """Matrices of ellipsoids, and inverses that agents keep, are symmetric and positive definite.

    In the run, and after many arms within 1e-8 of one direction: eigenvalues of an inverse then lie far apart.
    """
    _ellipsoids(subject.events[-1].side.agents, "at the end of a run")
    agents, n = subject.population(), subject.problem.agents
    if agents.ellipsoids() is None and not any(name.endswith("inverse") for name in agents.state()):
        return
    rng = np.random.default_rng(subject.seed)
    direction = rng.standard_normal(subject.problem.dim)
    direction /= np.linalg.norm(direction)
    rewards = np.concatenate([event.rewards for event in subject.events])
    who, picks = np.arange(n), np.zeros(n, dtype=np.int64)
    for _ in range(_STEPS):
        arms = direction + 1e-8 * rng.standard_normal((n, 1, subject.problem.dim))
        agents.learn(who, arms, picks, rng.choice(rewards, n))
    _ellipsoids(agents, f"after {_STEPS} arms that are almost the same")
    for name, array in agents.state().items():
        if name.endswith("inverse"):
            _positive(array, f"{name} after {_STEPS} arms that are almost the same")
        require(
            array.dtype.kind != "f" or not np.isnan(array).any(),
            f"{name} is not a number after {_STEPS} arms that are almost the same",
        )


def _ellipsoids(agents: Population, when: str) -> None:
    held = agents.ellipsoids()
    if held is None:
        return
    centres, matrices, widths = held
    n = len(agents)
    fitting = len(centres) == len(matrices) == n and matrices.shape[1:] == (centres.shape[1],) * 2
    shapes = f"{centres.shape}, {matrices.shape}, {widths.shape}"
    require(fitting and widths.shape == (n,), f"ellipsoids() have shapes {shapes}", "return (n, d), (n, d, d), (n,)")
    require((widths >= 0).all(), f"a width is {widths.min()} {when}", "a width is not negative, nor NaN")
    require(np.isfinite(centres).all(), f"a centre is not finite {when}")
    _positive(matrices, f"a matrix of the ellipsoids {when}")


def _positive(matrices: FloatArray, what: str) -> None:
    require(np.array_equal(matrices, matrices.swapaxes(1, 2)), f"{what} is not symmetric")
    lowest = float(np.linalg.eigvalsh(matrices).min())
    require(lowest > 0, f"{what} has the eigenvalue {lowest:.3g}")
