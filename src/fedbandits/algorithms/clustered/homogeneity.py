"""The homogeneity test: may two agents learn together? Decided from sufficient statistics alone.

For agents with V_i = X_i^T X_i, b_i = X_i^T y_i (no ridge) and least-squares estimates t_i, V_i t_i = b_i, the
statistic is

    s = [ ||X_1 (t_1 - t_12)||^2 + ||X_2 (t_2 - t_12)||^2 ] / sigma^2
      = (t_1 - t_2)^T P (t_1 - t_2) / sigma^2,   P = V_1 (V_1 + V_2)^+ V_2  (the parallel sum),

with t_12 the estimate on both data sets. For Gaussian noise s is noncentral chi-square with
df = rank V_1 + rank V_2 - rank(V_1 + V_2) degrees of freedom and noncentrality
psi = (theta_1 - theta_2)^T P (theta_1 - theta_2) / sigma^2. Two agents pass when s is at most the 1 - level quantile
for the largest psi that homogeneous agents can have. df = 0 is no evidence: they pass.

Source: Blaser, Li & Wang, AISTATS 2024. The second form needs no raw data and does not cancel when counts are large.
The released code lacks the inverse in P and estimates t_i from data that includes others'; here both follow the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.kernels import dot_at

_FAILS, _PASSES, _OPEN = 0, 1, 2
RANK_TOLERANCE = 1e-10
"""Pivots below this share of the largest one count as zero."""


@dataclass(frozen=True)
class Evidence:
    """Statistics of pairs of agents: unscaled s sigma^2 (p,) and degrees of freedom (p,)."""

    distance: FloatArray
    freedom: IntArray


@dataclass(frozen=True)
class HomogeneityTest:
    """Passes pairs whose statistic stays below the noncentral chi-square quantile of a homogeneous pair.

    `level` is the chance of separating a homogeneous pair. `noncentrality` bounds psi for homogeneous pairs. With
    `adaptive` (the data-dependent test) psi of a pair is noncentrality * lambda_max(P) / max lambda_max(V) instead,
    which lies below that bound since P is at most either V.
    """

    noise: float
    level: float
    noncentrality: float
    adaptive: bool = False
    _quantiles: dict[tuple[int, float], float] = field(default_factory=dict, compare=False, repr=False)

    def passes(
        self, gram: FloatArray, moment: FloatArray, first: IntArray, second: IntArray, fits: Fits | None = None
    ) -> BoolArray:
        """(p,) whether the pairs `first[p]`, `second[p]` of agents with `gram` (n, d, d), `moment` (n, d) pass.

        Pairs of agents with full-rank data are screened by bounds on the statistic that need no factorisation; what the
        bounds leave open is decided exactly, so the result is that of the test. `fits` may be given if they are known.
        """
        fits = fits or fit(gram, moment)
        dim = gram.shape[1]
        least = 0.0 if self.adaptive else self.noncentrality
        bounds = np.array([self.threshold(dim, least), self.threshold(dim, self.noncentrality)]) * self.noise**2
        verdict = _screen(gram, fits.inverse, fits.estimates, fits.ranks == dim, first, second, *bounds)
        undecided = np.flatnonzero(verdict == _OPEN)
        passed = verdict == _PASSES
        passed[undecided] = self._decide(gram, fits, first[undecided], second[undecided], least)
        return np.asarray(passed)

    def _decide(self, gram: FloatArray, fits: Fits, first: IntArray, second: IntArray, least: float) -> BoolArray:
        evidence = _evidence(gram, fits, first, second)
        statistic = evidence.distance / self.noise**2
        passed = (statistic <= self._thresholds(evidence.freedom, least)) | (evidence.freedom == 0)
        if self.adaptive:
            # the pair's own noncentrality matters only between the two extreme thresholds
            between = ~passed & (statistic <= self._thresholds(evidence.freedom, self.noncentrality))
            from scipy.stats import ncx2  # slow to load, and seldom needed

            for pair in np.flatnonzero(between):
                psi = self.noncentrality * _shrinkage(gram[first[pair]], gram[second[pair]])
                passed[pair] = ncx2.sf(statistic[pair], evidence.freedom[pair], psi) > self.level
        return np.asarray(passed)

    def graph(self, gram: FloatArray, moment: FloatArray) -> BoolArray:
        """(n, n) symmetric, which pairs pass; no loops."""
        adjacent = np.zeros((len(gram), len(gram)), dtype=np.bool_)
        first, second = np.triu_indices(len(gram), 1)
        adjacent[first, second] = self.passes(gram, moment, first, second)
        return adjacent | adjacent.T

    def threshold(self, freedom: int, noncentrality: float | None = None) -> float:
        """The 1 - `level` quantile with `freedom` degrees of freedom."""
        psi = self.noncentrality if noncentrality is None else noncentrality
        key = (freedom, psi)
        if key not in self._quantiles:
            from scipy.stats import chi2, ncx2  # slow to load, and seldom needed

            law = ncx2.isf(self.level, freedom, psi) if psi > 0 else chi2.isf(self.level, freedom)
            self._quantiles[key] = float(law)
        return self._quantiles[key]

    def _thresholds(self, freedom: IntArray, psi: float) -> FloatArray:
        table = np.zeros(int(freedom.max(initial=0)) + 1)
        for df in np.unique(freedom[freedom > 0]):
            table[df] = self.threshold(int(df), psi)
        return table[freedom]


@dataclass(frozen=True)
class Fits:
    """Least squares of each agent: estimates (n, d), ranks (n,), and V^-1 (n, d, d) where the rank is full."""

    estimates: FloatArray
    ranks: IntArray
    inverse: FloatArray

    def renew(self, who: IntArray, gram: FloatArray, moment: FloatArray, *, grown: bool) -> None:
        """Fit `who` again, whose `gram` (n, d, d) and `moment` (n, d) have changed; full rank stays if `grown`."""
        full = (self.ranks[who] == gram.shape[1]) & grown
        rows, others = who[full], who[~full]
        if len(rows):
            self.inverse[rows], self.estimates[rows], _ = kernels.factorise(gram[rows], moment[rows], 0.0)
        if len(others):
            again = fit(gram[others], moment[others])
            self.estimates[others], self.ranks[others], self.inverse[others] = (
                again.estimates,
                again.ranks,
                again.inverse,
            )


def fit(gram: FloatArray, moment: FloatArray) -> Fits:
    """Least squares of each agent's own data, without ridge."""
    estimates, ranks = _least_squares(gram, moment)
    inverse = np.zeros_like(gram)
    full = ranks == gram.shape[1]
    if full.any():
        # by the same factorisation as when a full-rank fit is renewed, so that it does not matter when it was made
        inverse[full], estimates[full], _ = kernels.factorise(gram[full], moment[full], 0.0)
    return Fits(estimates, ranks, inverse)


def compare_pairs(gram: FloatArray, moment: FloatArray, first: IntArray, second: IntArray) -> Evidence:
    """The exact statistics of pairs of agents."""
    return _evidence(gram, fit(gram, moment), first, second)


def _evidence(gram: FloatArray, fits: Fits, first: IntArray, second: IntArray) -> Evidence:
    distance, pair_ranks = _pair_statistics(gram, fits.estimates, first, second)
    return Evidence(distance, np.maximum(fits.ranks[first] + fits.ranks[second] - pair_ranks, 0))


def _shrinkage(first: FloatArray, second: FloatArray) -> float:
    """lambda_max(V_1 (V_1 + V_2)^+ V_2) / max(lambda_max(V_1), lambda_max(V_2)), in [0, 1]."""
    largest = max(np.linalg.eigvalsh(first)[-1], np.linalg.eigvalsh(second)[-1])
    parallel = first @ np.linalg.pinv(first + second, rcond=RANK_TOLERANCE, hermitian=True) @ second
    return float(max(np.linalg.eigvalsh((parallel + parallel.T) / 2)[-1], 0.0) / largest)


@jit
def _screen(
    gram: FloatArray,
    inverse: FloatArray,
    estimates: FloatArray,
    full: BoolArray,
    first: IntArray,
    second: IntArray,
    low: float,
    high: float,
) -> IntArray:
    """(p,) which pairs surely stay below `low` (passes) or above `high` (fails), by two bounds on g^T P g, g the gap.

    With v = (V_1 + V_2) g / 4: the parallel sum is at most (V_1 + V_2)/4, so g^T P g <= g^T v; and by Cauchy-Schwarz
    g^T P g >= (g^T v)^2 / (v^T (V_1^-1 + V_2^-1) v). Both are equalities for V_1 = V_2. O(d^2) for a pair.
    """
    d = gram.shape[1]
    verdict = np.empty(len(first), dtype=np.int64)
    gap = np.empty(d)
    vector = np.empty(d)
    margin = 1e-9
    for p in range(len(first)):
        one, two = first[p], second[p]
        verdict[p] = _OPEN
        if not (full[one] and full[two]):
            continue
        for j in range(d):
            gap[j] = estimates[one, j] - estimates[two, j]
        upper = 0.0
        for i in range(d):
            vector[i] = 0.25 * _both(gram, one, two, i, gap)
            upper += gap[i] * vector[i]
        if upper * (1 + margin) <= low:
            verdict[p] = _PASSES
        elif upper * (1 - margin) > high:
            reach = 0.0
            for i in range(d):
                reach += vector[i] * _both(inverse, one, two, i, vector)
            if upper * upper * (1 - margin) > high * reach:
                verdict[p] = _FAILS
    return verdict


@jit_part
def _both(matrices: FloatArray, one: int, two: int, i: int, x: FloatArray) -> float:
    """Entry i of (M_one + M_two) x."""
    d = len(x)
    first, second = (one * d + i) * d, (two * d + i) * d
    return dot_at(matrices, first, x, 0, d) + dot_at(matrices, second, x, 0, d)


@jit_part
def _pivoted_cholesky(square: FloatArray, order: IntArray, column: FloatArray) -> int:
    """Factorise the symmetric `square` in place, rows and columns in `order`; returns the rank.

    Afterwards the lower triangle of its leading rank x rank block is the factor of the permuted matrix. `column` (d,)
    is scratch: a contiguous copy of the current column, so that the update runs in vector registers.
    """
    d = len(square)
    for j in range(d):
        order[j] = j
    largest = 0.0
    for k in range(d):
        best = k
        for j in range(k + 1, d):
            if square[j, j] > square[best, best]:
                best = j
        pivot = square[best, best]
        if k == 0:
            largest = pivot
        if not pivot > RANK_TOLERANCE * largest:
            return k
        if best != k:
            order[k], order[best] = order[best], order[k]
            for j in range(k):
                square[k, j], square[best, j] = square[best, j], square[k, j]
            for j in range(k + 1, best):
                square[j, k], square[best, j] = square[best, j], square[j, k]
            for j in range(best + 1, d):
                square[j, k], square[j, best] = square[j, best], square[j, k]
            square[best, best] = square[k, k]
            square[k, k] = pivot
        root = np.sqrt(pivot)
        square[k, k] = root
        for i in range(k + 1, d):
            square[i, k] /= root
            column[i] = square[i, k]
        for i in range(k + 1, d):
            factor = column[i]
            for j in range(k + 1, i + 1):
                square[i, j] -= factor * column[j]
    return d


@jit_part
def _solve_leading(factor: FloatArray, order: IntArray, rank: int, right: FloatArray, out: FloatArray) -> None:
    """One solution of the consistent system behind `_pivoted_cholesky`: zero beyond the leading block."""
    out[:] = 0.0
    for i in range(rank):
        total = right[order[i]]
        for j in range(i):
            total -= factor[i, j] * out[order[j]]
        out[order[i]] = total / factor[i, i]
    for i in range(rank - 1, -1, -1):
        total = out[order[i]]
        for j in range(i + 1, rank):
            total -= factor[j, i] * out[order[j]]
        out[order[i]] = total / factor[i, i]


@jit
def _least_squares(gram: FloatArray, moment: FloatArray) -> tuple[FloatArray, IntArray]:
    """(n, d) a least-squares estimate for each agent, and (n,) the ranks of its data."""
    n, d = moment.shape
    estimates = np.empty((n, d))
    ranks = np.empty(n, dtype=np.int64)
    work = np.empty((d, d))
    order = np.empty(d, dtype=np.int64)
    column = np.empty(d)
    for i in range(n):
        work[:] = gram[i]
        ranks[i] = _pivoted_cholesky(work, order, column)
        _solve_leading(work, order, ranks[i], moment[i], estimates[i])
    return estimates, ranks


@jit
def _pair_statistics(
    gram: FloatArray, estimates: FloatArray, first: IntArray, second: IntArray
) -> tuple[FloatArray, IntArray]:
    """(p,) (t_1 - t_2)^T V_1 (V_1 + V_2)^+ V_2 (t_1 - t_2), and (p,) the rank of V_1 + V_2."""
    d = gram.shape[1]
    distance = np.empty(len(first))
    ranks = np.empty(len(first), dtype=np.int64)
    work = np.empty((d, d))
    order = np.empty(d, dtype=np.int64)
    column = np.empty(d)
    left = np.empty(d)
    right = np.empty(d)
    solved = np.empty(d)
    gap = np.empty(d)
    for p in range(len(first)):
        one, two = first[p], second[p]
        for j in range(d):
            gap[j] = estimates[one, j] - estimates[two, j]
        for i in range(d):
            for j in range(d):
                work[i, j] = gram[one, i, j] + gram[two, i, j]
            left[i] = dot_at(gram, (one * d + i) * d, gap, 0, d)
            right[i] = dot_at(gram, (two * d + i) * d, gap, 0, d)
        ranks[p] = _pivoted_cholesky(work, order, column)
        _solve_leading(work, order, ranks[p], right, solved)
        total = 0.0
        for i in range(d):
            total += left[i] * solved[i]
        distance[p] = max(total, 0.0)
    return distance, ranks
