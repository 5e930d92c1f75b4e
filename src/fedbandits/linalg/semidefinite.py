"""The positive semidefinite part of symmetric matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def nearest_semidefinite(square: Floats, slack: Floats | float = 0.0) -> Floats:
    """(w, d, d) the nearest positive semidefinite matrix to each: negative eigenvalues become zero.

    Matrices whose eigenvalues are all at least -`slack`, one number or (w,), are left as they are, to the last bit, as
    is anything that is not finite.
    """
    if not np.isfinite(square).all():
        return square  # for others to complain about
    values, vectors = np.linalg.eigh(square)
    wrong = np.flatnonzero(values[:, 0] < -slack)
    if len(wrong):
        kept = vectors[wrong]
        mended = (kept * np.maximum(values[wrong], 0.0)[:, None, :]) @ np.swapaxes(kept, 1, 2)
        square = square.copy()
        square[wrong] = (mended + np.swapaxes(mended, 1, 2)) / 2
    return square
