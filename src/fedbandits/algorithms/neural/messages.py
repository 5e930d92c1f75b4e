"""What is said while a network is trained over everybody's data, and the limits that honest answers keep to.

The network is f(x) = <w, z>, z = [max(W [x; 1], 0); 1]: `inner` are the numbers of W, `head` is w. Rewards are in units
of everybody's standard deviation, y' = (y - mean) / deviation. Contexts have norms of at most L and rewards sizes of at
most R; the norm of W is at most that of `inner`, hence ||z||^2 <= ||inner||^2 (L^2 + 1) + 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fedbandits.contract.arrays import Array
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Adds, Bound, Utterance, WireField, matrix, vector
from fedbandits.models.limits import arm_square, largest_reward, longest, reward
from fedbandits.models.networks.descent import STRIDE
from fedbandits.models.sharing import counting


def reward_square(problem: Problem, asked: Mapping[str, Array]) -> float:
    """R^2."""
    return largest_reward(problem) ** 2


def layer_square(problem: Problem, asked: Mapping[str, Array]) -> float:
    """||inner||^2 (L^2 + 1) + 1: the largest ||z||^2."""
    return _square(asked["inner"]) * (longest(problem) ** 2 + 1) + 1


def standard_reward(problem: Problem, asked: Mapping[str, Array]) -> float:
    """(R + |mean|) / deviation: the largest |y'|."""
    return (largest_reward(problem) + abs(_number(asked["mean"]))) / _number(asked["deviation"])


def network_slope(problem: Problem, asked: Mapping[str, Array]) -> float:
    """|f - y'| ||grad f||, of which |f| <= ||head|| ||z|| and ||grad f||^2 <= ||head||^2 (L^2 + 1) + ||z||^2."""
    layer, head = layer_square(problem, asked), _square(asked["head"])
    steepest = math.sqrt(head * (longest(problem) ** 2 + 1) + layer)
    return (math.sqrt(head * layer) + standard_reward(problem, asked)) * steepest


def trained(problem: Problem, asked: Mapping[str, Array]) -> float:
    """How long parameters are after so many steps of Adam at that rate from those that were told."""
    size = asked["inner"].size + asked["head"].size
    start = math.sqrt(_square(asked["inner"]) + _square(asked["head"]))
    return start + _number(asked["steps"]) * STRIDE * _number(asked["rate"]) * math.sqrt(size)


@dataclass(frozen=True)
class Known:
    """A limit that depends on nothing."""

    value: float

    def __call__(self, problem: Problem, asked: Mapping[str, Array]) -> float:
        """It."""
        return self.value


def _square(array: Array) -> float:
    return float(np.sum(array.astype(np.float64) ** 2))


def _number(array: Array) -> float:
    return float(np.asarray(array).reshape(-1)[0])


def _sum(name: str, bound: Bound, adds: Adds) -> WireField:
    return WireField(name, adds=adds, pooled=True, apart=True, bound=bound)


INNER, HEAD = vector("inner", "h"), vector("head", "q")
UNITS = (WireField("mean"), WireField("deviation"))
COUNT = counting(adds="query", pooled=True, optional=False)

OPEN = Utterance("open", "down")
"""A synchronisation begins: it is about what was observed so far."""
TALLY = Utterance(
    "tally",
    "up",
    (
        counting(adds="total", pooled=True, optional=False),
        _sum("rewards", Bound(reward), "total"),
        _sum("squares", Bound(reward_square), "total"),
        _sum("lengths", Bound(arm_square), "total"),
    ),
)
"""How many observations an agent has, and the sums of their rewards, of their squares, and of ||x||^2."""
ASK_SLOPE = Utterance("slope", "down", (INNER, HEAD, *UNITS))
SLOPE = Utterance(
    "slope",
    "up",
    (vector("gradient", "p", adds="query", pooled=True, apart=True, bound=Bound(network_slope)), COUNT),
)
"""The sum of (f - y') grad f over an agent's data, and their number."""
ASK_TRAINED = Utterance("train", "down", (INNER, HEAD, *UNITS, WireField("steps"), WireField("rate")))
TRAINED = Utterance(
    "trained",
    "up",
    (
        vector("weighted", "p", adds="query", pooled=True, bound=Bound(trained)),
        COUNT,
    ),
)
"""Parameters after an agent's own steps, times the number of its observations."""
ASK_LAYER = Utterance("layer", "down", (INNER, *UNITS))
LAYER = Utterance(
    "layer",
    "up",
    (
        matrix("gram", "q", adds="query", pooled=True, apart=True, bound=Bound(layer_square)),
        vector("moment", "q", adds="query", pooled=True, apart=True, bound=Bound(standard_reward, within="gram")),
        COUNT,
    ),
)
"""The sums of z z^T and y' z over an agent's data, and their number."""
MODEL = Utterance(
    "model",
    "down",
    (
        INNER,
        *UNITS,
        matrix("gram", "q", adds="total"),
        vector("moment", "q", adds="total"),
        counting(adds="total", optional=False),
    ),
)
"""The result: the network's inner part, and everybody's statistics of its last layer."""


def cut_down(cut: float) -> tuple[Utterance, Utterance, Utterance]:
    """TALLY, SLOPE and LAYER where no observation adds more than `cut` to a gradient or has a longer z, and rewards
    are in units in which they are at most 1, so that nothing but a number has to be known of them.
    """
    (gradient, *slope), (gram, moment, *layer) = SLOPE.fields, LAYER.fields
    return (
        replace(TALLY, fields=TALLY.fields[:1]),
        replace(SLOPE, fields=(replace(gradient, bound=Bound(Known(cut))), *slope)),
        replace(
            LAYER,
            fields=(
                replace(gram, bound=Bound(Known(cut**2))),
                replace(moment, bound=Bound(Known(1.0), within="gram")),
                *layer,
            ),
        ),
    )
