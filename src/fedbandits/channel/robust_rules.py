"""What to make of many agents' sums when some of them may be lies.

Each rule is given the rows of those who have handed over anything, gram A_i (m, d, d), moment b_i (m, d) and whatever
else travels with them, and says what stands for their sum; None is the sum itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from fedbandits.contract.arrays import BoolArray, FloatArray
from fedbandits.linalg.medians import geometric_median, trimmed_mean
from fedbandits.linalg.semidefinite import nearest_semidefinite

_SPREAD = 3.5 * 1.4826
"""Median absolute deviations of logarithms beyond which an amount of data is outside what agents have (Iglewicz &
Hoaglin 1993)."""
_RARELY = 1e-3
"""How often at most the score of an honest agent is too large, if it is as chi-square as Gaussian noise makes it."""
_ROUNDING = 1e-9
"""The share of what an agent's data explain that a score may come to by rounding alone."""

Rows = Mapping[str, FloatArray]
"""By field, one row for each agent."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The names of a semidefinite matrix field and of the vector that lies within it."""

    matrix: str
    vector: str


@dataclass(frozen=True, slots=True)
class Filter:
    """Leaves out whom the others contradict; see `Robust`."""

    beyond: float
    much: float
    ridge: float

    def aggregate(self, rows: Rows, pair: Pair) -> dict[str, FloatArray] | None:
        """The sums over those who are not suspected."""
        suspected = self.suspects(rows[pair.matrix], rows[pair.vector])
        return {name: values[~suspected].sum(axis=0) for name, values in rows.items()} if suspected.any() else None

    def suspects(self, gram: FloatArray, moment: FloatArray) -> BoolArray:
        """(m,) who is left out, given all grams (m, d, d) and moments (m, d)."""
        amount = np.trace(gram, axis1=1, axis2=2)
        suspected = np.asarray(amount > self.most(amount))
        rest = ~suspected
        suspected[rest] = self._far(gram[rest], moment[rest])
        return suspected

    def most(self, amount: FloatArray) -> float:
        """The largest amount of data, trace(A_i), that is plausible among the amounts (m,)."""
        logs = np.log(np.maximum(amount, np.finfo(np.float64).tiny))
        typical = float(np.median(logs))
        spread = float(np.median(np.abs(logs - typical)))
        return max(self.much, float(np.exp(_SPREAD * spread))) * float(np.exp(typical))

    def _far(self, gram: FloatArray, moment: FloatArray) -> BoolArray:
        ridged = gram + self.ridge * np.eye(gram.shape[1])
        estimates: FloatArray = np.linalg.solve(ridged, moment[..., None])[..., 0].astype(np.float64)
        centre = geometric_median(estimates) @ estimates
        left = moment - gram @ centre
        score = np.einsum("mi,mi->m", left, np.linalg.solve(ridged, left[..., None])[..., 0])
        explained = np.einsum("mi,mi->m", moment, estimates) + np.einsum("i,mij,j->m", centre, gram, centre)
        factor = max(self.beyond, float(chdtri(len(centre), _RARELY) / chdtri(len(centre), 0.5)))
        return np.asarray(score > factor * np.median(score) + _ROUNDING * explained)


@dataclass(frozen=True, slots=True)
class GeometricMedian:
    """m times the geometric median of the stacked (A_i, b_i)."""

    def aggregate(self, rows: Rows, pair: Pair) -> dict[str, FloatArray] | None:
        """A convex combination of the rows, m times: as semidefinite as they are."""
        m = len(rows[pair.vector])
        stacked = np.hstack([rows[pair.matrix].reshape(m, -1), rows[pair.vector]])
        weights = m * geometric_median(stacked)
        return {name: np.asarray(np.tensordot(weights, values, axes=1)) for name, values in rows.items()}


@dataclass(frozen=True, slots=True)
class Trimmed:
    """m times the mean, entry by entry, without the lowest and the highest share `trim`."""

    trim: float

    def aggregate(self, rows: Rows, pair: Pair) -> dict[str, FloatArray] | None:
        """Trimmed entry by entry; the matrix is then made semidefinite again."""
        m = len(rows[pair.vector])
        cut = int(self.trim * m + 1e-9)  # a share that is whole but for its last bit stays whole
        if cut == 0:
            return None
        found = {name: m * trimmed_mean(values, cut) for name, values in rows.items()}
        found[pair.matrix] = nearest_semidefinite(found[pair.matrix][None])[0]
        return found


Rule = Filter | GeometricMedian | Trimmed
