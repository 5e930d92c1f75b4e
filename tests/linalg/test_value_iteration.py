"""Value iteration against the same in plain numpy, for arms that are dense, thin, and anything in between."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.linalg import value_iteration
from fedbandits.models.transitions import NOTHING, Transitions

LENGTH, BETA = 3, 0.7


def history(rng, dim, share, n=2, sets=7):
    """Transitions of n agents among sets of one to five arms, a `share` of whose numbers are not zero."""
    kept = Transitions(n, dim, LENGTH, parts=2)
    for a in range(n):
        for _ in range(sets):
            arms = rng.normal(size=(1, rng.integers(1, 6), dim)) * (rng.random((1, 1, dim)) < share)
            kept.views.intern(np.array([a]), arms)
        rows, count = int(kept.views.ends[a, kept.views.count[a] - 1]), int(kept.views.count[a])
        for h in range(LENGTH):
            for _ in range(25):
                to = NOTHING if h == LENGTH - 1 or rng.random() < 0.2 else rng.integers(count)
                one = (np.array([x]) for x in (a * LENGTH + h, rng.integers(rows), to))
                kept.add(*one, rng.random(1), int(rng.integers(2)))
    return kept


def symmetric(rng, rows, dim):
    drawn = rng.normal(size=(rows, dim, dim + 2))
    return np.linalg.inv(drawn @ drawn.swapaxes(1, 2) + np.eye(dim))


def targets(kept, a, h, weights, inverses, low, high):
    """sum phi (r + V(x')), transition by transition."""
    arms, ends = kept.views.of(a)
    starts, at = np.concatenate([[0], ends]), a * LENGTH + h
    total = np.zeros(arms.shape[1])
    for k in range(kept.rows[at]):
        value, to = 0.0, kept.to[at, k]
        if h < LENGTH - 1 and to >= 0:
            shown, row = arms[starts[to] : ends[to]], at + 1
            norms = np.einsum("kd,de,ke->k", shown, inverses[row], shown)
            value = np.clip((shown @ weights[row] + BETA * np.sqrt(norms)).max(), low[h + 1], high[h + 1])
        total += (kept.reward[at, k].sum() + kept.number[at, k].sum() * value) * arms[kept.arm[at, k]]
    return total


@pytest.mark.parametrize("dim", [1, 3, 4, 7, 20])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.25, 0.1])
def test_sums_of_targets(dim, share):
    rng = np.random.default_rng(dim)
    kept, inverses = history(rng, dim, share), symmetric(rng, 2 * LENGTH, dim)
    weights, limits = rng.normal(size=(2 * LENGTH, dim)), np.stack([np.full(LENGTH, -0.5), LENGTH - np.arange(3.0)])
    for h in range(LENGTH):
        found = value_iteration.target_sums(
            kept.views.table, kept.table, np.array([1, 0]), h, LENGTH, weights, inverses, BETA, limits
        )
        for row, a in enumerate((1, 0)):
            expected = targets(kept, a, h, weights, inverses, *limits)
            np.testing.assert_allclose(found[row], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_plans_are_those_of_own_and_told_transitions_and_the_same_alone(share):
    rng = np.random.default_rng(5)
    own, told, inverses = history(rng, 9, share), history(rng, 9, share), symmetric(rng, 2 * LENGTH, 9)
    most = 2.0 * (LENGTH - np.arange(LENGTH))
    known = own.views.table, own.table, told.views.table, told.table
    both, alone = np.zeros((2, 2 * LENGTH, 9))
    value_iteration.plan(known, np.arange(2), LENGTH, inverses, BETA, most, both)
    for a in (1, 0):
        value_iteration.plan(known, np.array([a]), LENGTH, inverses, BETA, most, alone)
        for h in reversed(range(LENGTH)):
            given = both, inverses, np.full(LENGTH, -np.inf), most
            moment = targets(own, a, h, *given) + targets(told, a, h, *given)
            at = a * LENGTH + h
            np.testing.assert_allclose(both[at], inverses[at] @ moment, rtol=1e-11, atol=1e-11)
    assert np.array_equal(both, alone)
