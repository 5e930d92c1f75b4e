"""A model that is differentiable in its parameters, as a value: all that the non-linear family has to know of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.models.differences import leaning_slopes
from fedbandits.models.observations import Observations


@dataclass(frozen=True, slots=True)
class AboutModel:
    """A catalogue entry."""

    name: str
    summary: str


class Model(ABC):
    """f(x; w) with x of dimension d and w of dimension p. Subclasses say `parameters`, `values` and `gradients`.

    One of your own is a class without required parameters, found by its address (``model="my_module:MyModel"``):

    >>> import numpy as np
    >>> class Exponential(Model):
    ...     def parameters(self, dim):
    ...         return dim
    ...     def values(self, w, x):
    ...         return np.exp(x @ w)
    ...     def gradients(self, w, x):
    ...         return np.exp(x @ w)[:, None] * x
    >>> Exponential().outputs(np.zeros((1, 2)), np.zeros(1, dtype=np.int64), np.ones((1, 3, 2)))
    array([[1., 1., 1.]])

    The other methods go over agents one by one, so that an agent alone computes the same bits as among others;
    subclasses may do the same faster.
    """

    about: ClassVar[AboutModel] = AboutModel("", "one of your own")

    @abstractmethod
    def parameters(self, dim: int) -> int:
        """p, for arms of dimension `dim`."""

    @abstractmethod
    def values(self, w: FloatArray, x: FloatArray) -> FloatArray:
        """(p,), (K, d) -> (K,) f(x; w)."""

    @abstractmethod
    def gradients(self, w: FloatArray, x: FloatArray) -> FloatArray:
        """(p,), (K, d) -> (K, p) the gradient of f(x; w) in w."""

    def limits(self, norm: float, longest: float) -> tuple[float, float]:
        """Bounds on |f| and on the norm of its gradient, for w of at most the given `norm` and x no longer than
        `longest`. Infinite where nothing is known: a deployed server cannot tell lies from observations then.
        """
        return math.inf, math.inf

    def beginning(self, dim: int, rng: np.random.Generator, spread: float) -> FloatArray:
        """(p,) where training begins: independent normals of deviation `spread`."""
        return np.asarray(spread * rng.standard_normal(self.parameters(dim)))

    def outputs(self, theta: FloatArray, rows: IntArray, arms: FloatArray) -> FloatArray:
        """(w, K) f of `arms` (w, K, d); row i has the parameters `theta[rows[i]]`, theta being (n, p)."""
        found = [self.values(theta[row], shown) for row, shown in zip(rows, arms, strict=True)]
        return np.array(found, dtype=np.float64).reshape(arms.shape[:2])

    def tangents(self, theta: FloatArray, rows: IntArray, arms: FloatArray) -> FloatArray:
        """(w, K, p) gradients of f; as `outputs`."""
        found = [self.gradients(theta[row], shown) for row, shown in zip(rows, arms, strict=True)]
        return np.array(found, dtype=np.float64).reshape(*arms.shape[:2], theta.shape[1])

    def inclines(
        self, theta: FloatArray, rows: IntArray, arms: FloatArray, along: FloatArray, reach: FloatArray
    ) -> FloatArray:
        """(w, K, d) the gradient in x of f(x; w) + <grad f(x; w), u>, with a u for every arm in `along` (w, K, p); as
        `outputs`. By central differences over `reach` (d,) to either side, unless a subclass knows it: agents climb by
        it where they may propose arms.
        """
        tangents, outputs = partial(self.tangents, theta, rows), partial(self.outputs, theta, rows)
        return leaning_slopes(tangents, outputs, arms, along, reach)

    def slopes(self, theta: FloatArray, data: Observations, who: IntArray, end: IntArray) -> FloatArray:
        """(w, p) the sum of (f - y) grad f over the first `end` (w,) observations of each of `who`, at its row of
        `theta` (w, p), or at the only one.
        """
        found = np.zeros((len(who), theta.shape[1]))
        for place, (agent, count) in enumerate(zip(who, end, strict=True)):
            w, x = theta[place % len(theta)], np.ascontiguousarray(data.arms[agent, :, :count].T)
            if count:
                found[place] = (self.values(w, x) - data.rewards[agent, :count]) @ self.gradients(w, x)
        return found
