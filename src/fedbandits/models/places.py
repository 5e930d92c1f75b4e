"""Where an arm stands in a list that everybody has."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_finite


class Places:
    """Finds the places of arms among `points` (K, d), which are distinct."""

    def __init__(self, points: FloatArray) -> None:
        self.points = points + 0.0  # no negative zeros, whose bytes are others
        self._known = {row.tobytes(): place for place, row in enumerate(self.points)}

    def in_order(self, arms: FloatArray) -> bool:
        """Whether `arms` (w, A, d) are all the points for each agent, in their order."""
        one = _shown(arms)
        return one.shape[1:] == self.points.shape and bool((one == self.points).all())

    def of(self, who: IntArray, arms: FloatArray) -> IntArray:
        """(w, A) the place of each of `arms` (w, A, d) that agents `who` see; `ValueError` where one has none."""
        check_finite("arms", who, arms)
        one = _shown(arms)
        found = np.empty(one.shape[:2], dtype=np.int64)
        for row, shown in enumerate(one + 0.0):
            for place, arm in enumerate(np.ascontiguousarray(shown)):
                known = self._known.get(arm.tobytes())
                if known is None:
                    raise ValueError(
                        f"arms of agent {who[row]}: number {place} is none of the {len(self.points)} candidates that "
                        "the fact 'candidates' lists"
                    )
                found[row, place] = known
        return np.broadcast_to(found, arms.shape[:2])


def _shown(arms: FloatArray) -> FloatArray:
    """`arms`, or the one row that is shown to all."""
    return arms[:1] if len(arms) and arms.strides[0] == 0 else arms
