"""Audits: a lower bound on epsilon from samples, which a sound claim stays above and a broken mechanism does not.

A mechanism that is (epsilon, delta)-differentially private has P(S) <= e^epsilon Q(S) + delta for every event S, P and
Q being the laws of what it shows under two neighbouring inputs. So any event gives a lower bound on epsilon, namely
log((P(S) - delta) / Q(S)). An audit looks for a telling event in one half of its samples and measures it on the other
half, with exact confidence bounds. It can refute a claim, never prove one: what it does not see may still be there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray

_MOST_THRESHOLDS = 512
"""Candidates for each feature."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found: an event, and how much more often it happens under one input than under the other."""

    epsilon: float
    """With the confidence asked for, the true epsilon at `delta` is not below this; 0 if nothing was found."""
    delta: float
    confidence: float
    feature: int
    """Which feature tells the inputs apart."""
    threshold: float
    above: bool
    """The event is feature >= threshold, or feature < threshold."""
    first_is_likelier: bool
    """Under which of the two inputs the event happens more often."""
    likelier: float
    rarer: float
    """Frequencies of the event under the two inputs, on the half of the samples that did not choose it."""


def audit(first: FloatArray, second: FloatArray, *, delta: float = 0.0, confidence: float = 0.99) -> Audit:
    """Compare samples of what is seen under two neighbouring inputs, `first` (m, f) and `second` (m', f).

    Rows are independent runs, columns are features: any functions of the transcript, real or discrete. The better they
    tell the inputs apart, the sharper the bound; the log-likelihood ratio is best (`laplace_ratio`, `gaussian_ratio`).
    Events are thresholds on single features, in both senses and with either input as the likelier one. The bounds are
    those of Clopper & Pearson (1934), each at half of the error that `confidence` leaves.

    >>> rng = np.random.default_rng(0)
    >>> outputs = rng.laplace(size=(2, 40000, 1))  # sensitivity 1, scale 1: epsilon is 1
    >>> found = audit(outputs[0], outputs[1] + 1.0)
    >>> 0.9 < found.epsilon < 1.0
    True
    """
    samples = [_checked(rows) for rows in (first, second)]
    if samples[0].shape[1] != samples[1].shape[1]:
        raise ValueError(f"the samples have {samples[0].shape[1]} and {samples[1].shape[1]} features: not comparable")
    if not 0 <= delta < 1 or not 0 < confidence < 1:
        raise ValueError(f"delta must lie in [0, 1) and confidence in (0, 1), got {delta} and {confidence}")
    error = (1 - confidence) / 2
    choosing, measuring = zip(*(np.array_split(rows, 2) for rows in samples), strict=True)
    events = [
        _best_event(column, choosing[side][:, column], choosing[1 - side][:, column], side, delta, error)
        for column in range(samples[0].shape[1])
        for side in (0, 1)
    ]
    _, column, threshold, above, side = max(events)
    seen = [int(((rows[:, column] >= threshold) == above).sum()) for rows in measuring]
    hits, of = np.array([seen[side]]), len(measuring[side])
    misses, among = np.array([seen[1 - side]]), len(measuring[1 - side])
    return Audit(
        epsilon=max(0.0, float(_lower_bounds(hits, of, misses, among, delta, error)[0])),
        delta=delta,
        confidence=confidence,
        feature=column,
        threshold=threshold,
        above=above,
        first_is_likelier=side == 0,
        likelier=seen[side] / of,
        rarer=seen[1 - side] / among,
    )


def laplace_ratio(outputs: FloatArray, first: FloatArray, second: FloatArray, scales: FloatArray) -> FloatArray:
    """Log-likelihood ratio of Laplace outputs (..., J) with centres `first` against `second`, summed over J: (...,).

    Arguments are broadcast; NaN outputs (of releases that were not made) count for nothing.
    """
    ratio = (np.abs(outputs - second) - np.abs(outputs - first)) / scales
    return np.asarray(np.nansum(ratio, axis=-1))


def gaussian_ratio(outputs: FloatArray, first: FloatArray, second: FloatArray, scales: FloatArray) -> FloatArray:
    """Log-likelihood ratio of independent Gaussian outputs (..., J) with means `first` against `second` and standard
    deviations `scales`, summed over J: (...,). Broadcast, and blind to NaN, as `laplace_ratio`.
    """
    ratio = ((outputs - second) ** 2 - (outputs - first) ** 2) / (2 * scales**2)
    return np.asarray(np.nansum(ratio, axis=-1))


def _checked(rows: FloatArray) -> FloatArray:
    if rows.ndim != 2 or rows.shape[0] < 4 or rows.shape[1] == 0:
        raise ValueError(f"samples must have shape (runs, features) with at least 4 runs, got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("features must be finite")
    return rows


def _best_event(
    column: int, likely: FloatArray, rare: FloatArray, side: int, delta: float, error: float
) -> tuple[float, int, float, bool, int]:
    """The threshold on one feature with the highest bound on epsilon: (bound, column, threshold, above, side)."""
    candidates = np.unique(np.concatenate([likely, rare]))
    if len(candidates) > _MOST_THRESHOLDS:
        candidates = candidates[np.linspace(0, len(candidates) - 1, _MOST_THRESHOLDS).astype(np.int64)]
    likely_below = np.searchsorted(np.sort(likely), candidates)
    rare_below = np.searchsorted(np.sort(rare), candidates)
    m, of = len(likely), len(rare)
    above = _lower_bounds(m - likely_below, m, of - rare_below, of, delta, error)
    below = _lower_bounds(likely_below, m, rare_below, of, delta, error)
    upward = bool(above.max() >= below.max())
    bounds = above if upward else below
    best = int(bounds.argmax())
    return float(bounds[best]), column, float(candidates[best]), upward, side


def _lower_bounds(hits: IntArray, of: int, misses: IntArray, among: int, delta: float, error: float) -> FloatArray:
    """log((p - delta) / q), p a lower bound on the chance of `hits` out of `of`, q an upper one of `misses` out of
    `among`, each wrong with probability at most `error`; minus infinity where p <= delta.
    """
    from scipy.stats import beta  # slow to load, and seldom needed

    p = np.where(hits > 0, beta.ppf(error, np.maximum(hits, 1), of - hits + 1), 0.0)
    q = np.where(misses < among, beta.ppf(1 - error, misses + 1, np.maximum(among - misses, 1)), 1.0)
    excess = np.maximum(p - delta, 0.0)
    return np.where(excess > 0, np.log(np.maximum(excess, 1e-300)) - np.log(q), -np.inf)
