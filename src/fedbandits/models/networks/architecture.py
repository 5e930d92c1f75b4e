"""What a network is made of, and where each of its weights lies in a flat vector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Architecture:
    """A fully connected network with rectifiers, from `inputs` d numbers to one.

        a_0 = x,    a_l = max(W_l a_{l-1}, 0) for l = 1..L-1,    f(x) = scale <w, a_{L-1}>

    with hidden layers of the widths in `hidden`, m_1 .. m_{L-1}. Where it is `biased`, a constant 1 is appended to
    every a_l, so that the last column of W_l, and the last entry of w, are biases. The slope of max(., 0) at 0 is 0.

    A flat vector of parameters (p,) holds W_1, ..., W_{L-1} row by row, then w: p = sum_l m_l (m_{l-1} + b) + m_{L-1} +
    b, b being 1 with biases and 0 without.

    >>> Architecture(inputs=10, hidden=(20,)).parameters, Architecture(10, (20,), biased=True).parameters
    (220, 241)
    """

    inputs: int
    hidden: tuple[int, ...]
    biased: bool = False
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.inputs < 1 or not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"a network needs inputs and hidden layers (got inputs={self.inputs}, {self.hidden})")

    @cached_property
    def sizes(self) -> IntArray:
        """(L,) d, m_1, ..., m_{L-1}."""
        return np.array([self.inputs, *self.hidden], dtype=np.int64)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """The shape of each W_l, biases included, and of w as a matrix of one row."""
        heights = (*self.hidden, 1)
        sizes = (self.inputs, *self.hidden)
        return tuple((height, size + self.biased) for height, size in zip(heights, sizes, strict=True))

    @cached_property
    def parameters(self) -> int:
        """p, the length of a flat vector of parameters."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def features(self) -> int:
        """q, the length of w: in terms of the last hidden layer the network is linear."""
        return self.hidden[-1] + self.biased

    def matrices(self, theta: FloatArray) -> list[FloatArray]:
        """Views of W_1, ..., W_{L-1} and w (1, q) in flat parameters (p,)."""
        found, start = [], 0
        for height, size in self.shapes:
            found.append(theta[start : start + height * size].reshape(height, size))
            start += height * size
        return found
