"""By how much one observation moves the sums that agents send, from what their fields declare of themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.problem import Problem
from fedbandits.contract.protection import Adjacency
from fedbandits.contract.wire import Utterance, WireField


@dataclass(frozen=True)
class NoisyField:
    """A field whose entries get noise of `bound` times a common standard deviation, `bound` being the largest norm of
    what one observation adds to it; symmetric matrices have sqrt(2) times as much on the diagonal, so that the noise is
    the same in every basis. There may be a stack of them, of which one observation adds to one.
    """

    name: str
    shape: tuple[int, ...]
    symmetric: bool
    bound: float

    @property
    def size(self) -> int:
        """How many independent numbers it has."""
        d = self.shape[-1] if self.symmetric else 0
        return self.stack * d * (d + 1) // 2 if self.symmetric else math.prod(self.shape)

    @property
    def stack(self) -> int:
        """How many matrices it holds."""
        return math.prod(self.shape[:-2])

    def spread(self, normals: FloatArray) -> FloatArray:
        """(w, size) independent noise -> (w, *shape) as the field has it."""
        if not self.symmetric:
            return self.bound * normals.reshape(-1, *self.shape)
        rows, columns = np.tril_indices(self.shape[-1])
        numbers = normals.reshape(len(normals), *self.shape[:-2], len(rows))
        scaled = self.bound * numbers * np.where(rows == columns, math.sqrt(2.0), 1.0)
        matrix = np.zeros((len(normals), *self.shape))
        matrix[..., rows, columns] = scaled
        matrix[..., columns, rows] = scaled
        return matrix

    def weight(self, value: FloatArray) -> FloatArray:
        """(w,) the squared norm of the field, in units of one observation's bound and as noise sees it."""
        if not self.bound or not len(value):
            return np.zeros(len(value))
        squares = (value.reshape(len(value), -1) ** 2).sum(axis=1) / self.bound**2
        return np.asarray(squares / 2 if self.symmetric else squares)


def noisy_fields(utterance: Utterance, adds: str, problem: Problem, sizes: Mapping[str, int]) -> tuple[NoisyField, ...]:
    """The fields of `utterance` that are sums of the given kind, each with its bound in `problem`."""
    limits = {
        item.name: item.bound.limit(problem, {})
        for item in utterance.fields
        if item.bound is not None and is_summed(item, adds)
    }
    found = []
    for item in utterance.fields:
        if is_summed(item, adds):
            assert item.bound is not None
            within = item.bound.within
            bound = limits[item.name] * (math.sqrt(limits[within]) if within is not None else 1.0)
            shape = tuple(size if isinstance(size, int) else sizes[str(size)] for size in item.shape)
            found.append(NoisyField(item.name, shape, item.symmetric, bound))
    return tuple(found)


def scattered(fields: tuple[NoisyField, ...], numbers: FloatArray) -> dict[str, FloatArray]:
    """(w, p) independent noise for all `fields` together -> by name (w, ...) as each of them has it."""
    ends = np.cumsum([field.size for field in fields])
    return {
        field.name: field.spread(numbers[:, end - field.size : end])
        for field, end in zip(fields, ends.tolist(), strict=True)
    }


def is_summed(item: WireField, adds: str) -> bool:
    """Whether a field is a sum whose sensitivity is known."""
    return (
        item.adds == adds and item.apart and item.bound is not None and item.bound.per_observation and not item.counts
    )


def is_pooled(utterance: Utterance) -> bool:
    """Whether the server uses nothing of its sums but those over everybody."""
    return all(item.pooled for item in utterance.fields if item.adds == "increment" and not item.counts)


def one_observation(fields: tuple[NoisyField, ...], adjacency: Adjacency) -> float:
    """By how much one observation moves all fields together, in units of the noise's standard deviation 1.

    Of a matrix x x^T with ||x||^2 at its bound, noise sees ||x x^T||_F^2 / 2 = 1/2, of a vector y x, 1: together
    sqrt(3/2) where it is there or not. Where it is another one, x x^T - x' x'^T and y x - y' x' are largest for x = x',
    y = -y': 2. Fields that do not come in such a pair are bounded one by one.
    """
    matrices = sum(field.symmetric for field in fields)
    others = len(fields) - matrices
    if adjacency == "add-remove":
        return math.sqrt(matrices / 2 + others)
    return 2.0 if (matrices, others) == (1, 1) else math.sqrt(matrices + 4 * others)
