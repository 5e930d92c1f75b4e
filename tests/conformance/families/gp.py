"""Gaussian processes: agents act on features of arms, noisy sums of which are read before they count."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.family import Family
from conformance.recomputing import Downloads, Indices, from_statistics, optimistic, ridge
from fedbandits.channel.composition import laid_open
from fedbandits.channel.staged import BlindAgents
from fedbandits.contract.algorithm import posed_by
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import RKHS
from fedbandits.contract.problem import Problem
from fedbandits.models.features import quadrature_features
from fedbandits.models.noisy_sums import reading


def _the_last_release(agents: BlindAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """Regression on the last pool that each agent was told, as noisy sums are read (which is recomputed for the private
    family, and in `tests/models`), in the space of features; at random before.
    """
    inner, (stage,) = laid_open(algorithm)
    posed = stage.poses(posed_by(inner, problem))
    features, off = quadrature_features(posed.get(RKHS), problem.dim, algorithm.error)
    n, p, B = problem.agents, features.size, posed.get(RKHS).bound
    read = reading(posed, p)
    gram, moment, told = np.zeros((n, p, p)), np.zeros((n, p)), np.zeros(n, dtype=np.bool_)
    for agent, message in heard.items():
        found = read.read(message.arrays["gram"], message.arrays["moment"])
        gram[agent], moment[agent], told[agent] = found[0][0], found[1][0], True
    V = ridge(algorithm, gram)
    logdet = np.linalg.slogdet(V)[1]
    radius = read.radius(algorithm.alpha, algorithm.ridge, logdet, problem.horizon)
    radius = radius + B * off * np.sqrt(n * problem.horizon)
    width = np.full(n, algorithm.width) if isinstance(algorithm.width, float) else algorithm.scale * radius
    indices = optimistic(np.linalg.solve(V, moment[..., None])[..., 0], V, width)

    def scores(arms: FloatArray) -> FloatArray:
        return np.where(told[:, None], indices(features.of(np.arange(n), arms)), np.nan)

    return scores


_NEW_NOISE = "noise is drawn for every release, so that two of them carry more than one"
_RELEASED = "what was released stays released: it is sent again as it is, and no longer held"
SIZES = {"clients": 6, "arms": 7}
FAMILY = Family(
    small={
        "rkhs-mixture": SIZES,
        "camelback": SIZES,
        "styblinski-tang": SIZES | {"dim": 3},
        "michalewicz": SIZES | {"dim": 3},
    },
    talkative={name: {"error": 0.5} for name in ("fed-gp-ucb", "ldp-gp-ucb", "private-gp-ucb")},  # few features
    confident=({"width": "theory"}, {"scale": 1.0}, {"width": 0.3}),
    choices=from_statistics({BlindAgents: _the_last_release}),
    harsh={"ridge": 1e-5},
    excused={name: {"additive": _NEW_NOISE, "never asked": _RELEASED} for name in ("fed-gp-ucb", "ldp-gp-ucb")},
)
