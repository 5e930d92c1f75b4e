"""Names next to what they name, short enough for their place, without one covering the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedbandits.contract.arrays import FloatArray


def shortened(names: Iterable[str], letters: int) -> dict[str, str]:
    """Every name with at most `letters` letters: longer ones lose their middle, since what tells names apart is mostly
    their end.

    All are cut at the same place: the middle, or the place closest to it that keeps different names different, if
    there is one.

    >>> shortened(["private-fed-ucb-with-schedule-1", "private-fed-ucb-with-schedule-2"], 16).values()
    dict_values(['private…hedule-1', 'private…hedule-2'])
    >>> shortened(["a-long-name-1-for-a-run", "a-long-name-2-for-a-run"], 14).values()
    dict_values(['a-…1-for-a-run', 'a-…2-for-a-run'])
    """
    given = list(dict.fromkeys(names))
    room = letters - 1
    found: dict[str, str] = {}
    for head in sorted(range(room + 1), key=lambda head: abs(head - room // 2)):
        cut = {name: _without_middle(name, head, room - head) for name in given}
        found = found or cut
        if len(set(cut.values())) == len(given):
            return cut
    return found


def _without_middle(name: str, head: int, tail: int) -> str:
    return name if len(name) <= head + tail + 1 else f"{name[:head]}…{name[len(name) - tail :]}"


def spread(wanted: Sequence[float], gap: float, low: float = 0.0, high: float = 1.0) -> list[float]:
    """Positions close to `wanted`, in the same order, at least `gap` apart and within [low, high] as far as they fit.

    >>> [round(at, 2) for at in spread([0.5, 0.52, 0.1], 0.1)]
    [0.46, 0.56, 0.1]
    >>> [round(at, 2) for at in spread([1.0, 1.0], 0.1)]
    [0.9, 1.0]
    """
    order = np.argsort(wanted, kind="stable")
    clusters: list[list[float]] = []  # [sum of (wanted - own offset), members]: each one settles at its mean
    for index in order:
        clusters.append([float(wanted[index]), 1])
        while len(clusters) > 1 and _start(clusters[-2], gap) + clusters[-2][1] * gap > _start(clusters[-1], gap):
            total, members = clusters.pop()
            clusters[-1][0] += total
            clusters[-1][1] += members
    placed = [_start(cluster, gap) + place * gap for cluster in clusters for place in range(int(cluster[1]))]
    for place in range(len(placed)):
        placed[place] = max(placed[place], low + place * gap)
    for place in range(len(placed)):
        placed[-1 - place] = min(placed[-1 - place], high - place * gap)
    result = [0.0] * len(placed)
    for place, index in enumerate(order):
        result[index] = placed[place]
    return result


def _start(cluster: Sequence[float], gap: float) -> float:
    total, members = cluster
    return total / members - gap * (members - 1) / 2


Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""


@dataclass(frozen=True, slots=True)
class LabelPlace:
    """Where a label goes: an offset in points from its mark, and how the text is anchored there."""

    dx: float
    dy: float
    align: str


_ASIDE = (16, -16, 30, -30, 44, -44, 58, -58)
_PLACES = (
    LabelPlace(8, 0, "left"),
    LabelPlace(-8, 0, "right"),
    LabelPlace(0, 15, "center"),
    LabelPlace(0, -15, "center"),
    *(LabelPlace(dx, dy, align) for dx, align in ((6, "left"), (-6, "right"), (0, "center")) for dy in _ASIDE),
)
_STRUCK = 6.0
"""How much worse a label that a line strikes through is than one that covers as much of another label."""


def beside(
    marks: FloatArray,
    widths: Sequence[float],
    height: float,
    frame: tuple[float, float],
    lines: Sequence[Box] = (),
) -> list[LabelPlace]:
    """For marks (m, 2) in points, a place for each label of `widths` points: the first that is free, else the freest.

    A place is taken where a mark, one of `lines` (error bars, say, as thin boxes) or an earlier label is, or where the
    label would leave `frame` (width, height).
    """
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in marks]
    chosen = []
    for (x, y), width in zip(marks, widths, strict=True):
        boxes = [_box(x, y, place, width, height) for place in _PLACES]
        costs = [
            sum(_overlap(box, other) for other in taken)
            + _STRUCK * sum(_overlap(box, line) for line in lines)
            + 10 * _outside(box, frame)
            for box in boxes
        ]
        best = int(np.argmin(costs))
        taken.append(boxes[best])
        chosen.append(_PLACES[best])
    return chosen


def _box(x: float, y: float, place: LabelPlace, width: float, height: float) -> Box:
    left = x + place.dx - {"left": 0.0, "center": width / 2, "right": width}[place.align]
    return left, y + place.dy - height / 2, left + width, y + place.dy + height / 2


def _overlap(one: Box, other: Box) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, wide) * max(0.0, high)


def _outside(box: Box, frame: tuple[float, float]) -> float:
    return max(0.0, -box[0]) + max(0.0, -box[1]) + max(0.0, box[2] - frame[0]) + max(0.0, box[3] - frame[1])
