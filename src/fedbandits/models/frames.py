"""Bounds that are learned from what was released: noise that is as small as the data are.

Sums of x x^T and y x need noise as large as what one observation may add to them: L^2 and L B, if nothing is known but
||x|| <= L and |y| <= B. Releases tell more, at no further cost. Arms mostly lie about some line, and rewards about what
the estimate predicts. In the frame of an agent, with a metric A, a radius r, a reference theta_0 and a residual bound
rho that all follow from what it was told, an observation is cut down to

    ||A x|| <= r      and      |y - <theta_0, x>| <= rho,

where an observation that is too long is shortened with its reward, which leaves it as true as it was. Gaussian noise Z
(symmetric, of deviation s r^2) on A (sum x x^T) A and z (s r rho) on A sum x (y - <theta_0, x>) then protects as noise
of deviations s L^2 and s L B does for declared bounds. Whoever undoes the frame has

    sum x x^T + N,    sum y x + N theta_0 + A^-1 z,      N = A^-1 Z A^-1:

plain sums whose noise has another shape, which add up as before. What is left of the error for a parameter theta* is
e = A^-1 z - N (theta* - theta_0): the better theta_0, the less the noisy matrix matters.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.facts import Noise, Norms, Range
from fedbandits.contract.problem import Problem
from fedbandits.contract.state import Stateful

ROOM = 1.0
"""Squared radii are the mean squared norm, and so many standard deviations of the noise in it."""
TAIL = 1.3
"""Residual bounds, in units of the residuals' standard deviation: of clicks nothing is cut for chances from 0.35
to 0.65, and beyond them little."""
LEAST = 0.3
"""No direction is taken to have less than this share of what the typical one has."""


class Frames(Stateful):
    """The frames of n agents for arms of dimension p, and what they have read in them.

    `agents` is over how many agents sums are, and `deviation` the standard deviation of one agent's noise on one
    upload, in units of the bounds. Every upload has noise of its own: what is told is read in blocks, from one upload
    of the agent to the next, each discounted by its own noise, and added up.

    A block is taken to hold one upload of everybody, made in the agent's own frame, over as many turns of everybody as
    of its own. So it is where all act in step; where some act more often, more noise may be in it than is thought.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        *("metric", "undone", "radius", "reference", "residual"),
        *("gram", "moment", "closed_gram", "closed_moment", "mean", "precision"),
    )

    def __init__(self, problem: Problem, n: int, dim: int, agents: int, deviation: float) -> None:
        norms, known = problem.get(Norms, Norms()), problem.get(Range)
        self._longest = norms.arms
        self._largest = 1.0 if known is None else known.largest
        self._parameter = norms.parameter
        self._variance = max(problem.get(Noise, Noise()).sigma, 1e-3) ** 2
        self._agents = agents
        self._deviation = max(deviation, 1e-9)
        self._dim = dim
        self.metric = np.tile(np.eye(dim), (n, 1, 1))
        """(n, p, p) A."""
        self.undone = self.metric.copy()
        """(n, p, p) A^-1."""
        self.radius = np.full(n, self._longest)
        """(n,) r."""
        self.reference = np.zeros((n, dim))
        """(n, p) theta_0."""
        self.residual = np.full(n, self._largest)
        """(n,) rho."""
        self.gram, self.moment = np.zeros((n, dim, dim)), np.zeros((n, dim))
        """(n, p, p) and (n, p): the statistics made of all blocks that are closed."""
        self.closed_gram, self.closed_moment = np.zeros((n, dim, dim)), np.zeros((n, dim))
        """(n, p, p) and (n, p): the noisy sums inside of them."""
        self.mean = np.zeros((n, dim, dim))
        """(n, p, p) the matrix of one turn, averaged over closed blocks, each with its precision, and times that."""
        self.precision = np.zeros(n)
        """(n,) the sum of those precisions: one over the variance of an entry of the average."""

    def cut(self, who: IntArray, chosen: FloatArray, rewards: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Arms (w, p) and rewards (w,), cut down to the frames of `who`: by one factor where arms are too long, and
        rewards to what is near the prediction besides.
        """
        measured = np.einsum("wij,wj->wi", self.metric[who], chosen)
        norms = np.sqrt(np.einsum("wi,wi->w", measured, measured))
        radius, residual = self.radius[who], self.residual[who]
        share = np.where(norms > radius, radius / np.maximum(norms, 1e-300), 1.0)
        left = chosen * share[:, None]
        predicted = np.einsum("wi,wi->w", self.reference[who], left)
        return left, predicted + np.clip(share * rewards - predicted, -residual, residual)

    def shaped(self, who: IntArray, matrix: FloatArray, vector: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Noise (w, p, p) and (w, p), made for declared bounds -> that of the frames of `who`, on plain sums."""
        undone = self.undone[who]
        scale = self.radius[who] / self._longest
        seen = undone @ (matrix * (scale**2)[:, None, None]) @ undone
        seen = (seen + np.swapaxes(seen, 1, 2)) / 2
        narrow = scale * self.residual[who] / self._largest
        turned = np.einsum("wij,wj->wi", undone, vector * narrow[:, None])
        return seen, turned + np.einsum("wij,wj->wi", seen, self.reference[who])

    def read(
        self, who: IntArray, gram: FloatArray, moment: FloatArray, turns: FloatArray, closing: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """Noisy sums (w, p, p) and (w, p) of everything that `who` were told -> statistics to go on with.

        `turns` (w,) are the agents' own since their last block was closed. Where it is `closing` (w,) the block is
        complete, and the next one is in a frame that follows from all that is known; who closes one may hold no
        observation that was cut down to the frame before.
        """
        block, vector = gram - self.closed_gram[who], moment - self.closed_moment[who]
        size = self._agents * np.maximum(turns, 1.0)
        spread = self._spread(self.radius[who] ** 2)
        weight = (size / spread) ** 2
        precision = self.precision[who] + weight
        mean = self.mean[who] + block * (weight / size)[:, None, None]
        values, vectors = self._second_moments(mean / precision[:, None, None], precision)
        matrix = _composed(values * size[:, None], vectors)
        told_gram, told_moment = self._worth(who, matrix, block, vector)
        told_gram, told_moment = told_gram + self.gram[who], told_moment + self.moment[who]
        rows = np.flatnonzero(closing)
        ending = who[rows]
        self.gram[ending], self.moment[ending] = told_gram[rows], told_moment[rows]
        self.closed_gram[ending], self.closed_moment[ending] = gram[rows], moment[rows]
        self.mean[ending], self.precision[ending] = mean[rows], precision[rows]
        self._adopt(ending, values[rows], vectors[rows])
        return told_gram, told_moment

    def _spread(self, bound: FloatArray) -> FloatArray:
        """(w,) the deviation of the noise in the sum over everybody, for one of `bound`."""
        return np.asarray(self._deviation * math.sqrt(self._agents) * bound)

    def _worth(
        self, who: IntArray, matrix: FloatArray, block: FloatArray, vector: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """K = V (V + Q)^-1 V and m = V (V + Q)^-1 (V theta_0 + residual moments), as in `models.noisy_sums`, V being
        `matrix` and R^2 Q the covariance of e, of theta* - theta_0 what is believed (`_doubt`).
        """
        undone, reference = self.undone[who], self.reference[who]
        in_frame = undone @ self._doubt(who) @ undone
        noise = self._spread(self.radius[who] ** 2)[:, None, None] ** 2
        trace = np.einsum("wii->w", in_frame)[:, None, None]
        flat = self._spread(self.radius[who] * self.residual[who])[:, None, None] ** 2 + noise * trace
        spoiled = undone @ (flat * np.eye(self._dim) + noise * in_frame) @ undone / self._variance
        left = vector - np.einsum("wij,wj->wi", block, reference)
        seen = left + np.einsum("wij,wj->wi", matrix, reference)
        sides = np.concatenate([matrix, seen[:, :, None]], axis=2)
        solved = matrix @ np.linalg.solve(matrix + spoiled, sides)
        found = solved[:, :, :-1]
        return (found + np.swapaxes(found, 1, 2)) / 2, solved[:, :, -1]

    def _doubt(self, who: IntArray) -> FloatArray:
        """(w, p, p) the covariance of theta* - theta_0: S^2/p for each direction, as long as nothing is known."""
        return np.asarray(self._variance * np.linalg.solve(self._known(who), np.eye(self._dim)), dtype=np.float64)

    def _known(self, who: IntArray) -> FloatArray:
        least = self._variance * self._dim / max(self._parameter, 1e-6) ** 2
        return self.gram[who] + least * np.eye(self._dim)

    def _second_moments(self, mean: FloatArray, precision: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w, p) and (w, p, p): eigenvalues and vectors of the noisy second moments `mean`, the former without what
        noise adds to them.

        With noise of variance v = 1/`precision` on an entry: all but the largest have a mean that noise hardly moves,
        taken to be at least one deviation of the trace, and about it a variance of which noise explains p v
        (Wigner's semicircle): they are drawn to it by that share. The largest, l above them, appears as l + p v / l,
        and not at all where l < sqrt(p v) (Baik, Ben Arous & Peche 2005).
        """
        values, vectors = np.linalg.eigh(mean)
        variance = self._dim / precision
        rest, centre = values[:, :-1], values[:, :-1].mean(axis=1)
        bulk = np.maximum(centre, np.sqrt(2 * variance) / self._dim)
        spread = rest.var(axis=1)
        kept = np.maximum(spread - variance, 0.0) / np.maximum(spread, 1e-300)
        drawn = bulk[:, None] + kept[:, None] * (rest - centre[:, None])
        above = values[:, -1] - centre
        seen = above**2 > 4 * variance
        risen = (above + np.sqrt(np.maximum(above**2 - 4 * variance, 0.0))) / 2
        top = bulk + np.where(seen, risen, 0.0)
        return np.maximum(np.concatenate([drawn, top[:, None]], axis=1), LEAST * bulk[:, None]), vectors

    def _adopt(self, who: IntArray, values: FloatArray, vectors: FloatArray) -> None:
        """Frames in which arms with second moments of these eigenvalues and vectors are as long in every direction, and
        rewards are about what the estimate predicts.
        """
        if len(who) == 0:
            return
        bulk = values[:, :-1].mean(axis=1)[:, None]
        stretch = np.sqrt(np.minimum(bulk / values, 1.0))
        self.metric[who], self.undone[who] = _composed(stretch, vectors), _composed(1 / stretch, vectors)
        doubted = ROOM * np.sqrt(2 * self._dim / self.precision[who])
        self.radius[who] = np.minimum(np.sqrt((values * stretch**2).sum(axis=1) + doubted), self._longest)
        found = np.linalg.solve(self._known(who), self.moment[who][:, :, None])[:, :, 0]
        length = np.sqrt(np.einsum("wi,wi->w", found, found))
        self.reference[who] = found * np.minimum(1.0, self._parameter / np.maximum(length, 1e-300))[:, None]
        unsure = np.einsum("wij,wji->w", self._doubt(who), _composed(values, vectors))
        self.residual[who] = np.minimum(TAIL * np.sqrt(self._variance + unsure), self._largest)


def _composed(values: FloatArray, vectors: FloatArray) -> FloatArray:
    """(w, p) eigenvalues, (w, p, p) vectors -> (w, p, p)."""
    found = (vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return np.asarray((found + np.swapaxes(found, 1, 2)) / 2)
