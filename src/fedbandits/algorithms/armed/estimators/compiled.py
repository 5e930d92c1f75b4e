"""What an estimator is made of, one sample and one arm at a time: for kernels over many of them (`Estimator`), and for
compiled loops over turns (`contract.compiled`).
"""

from __future__ import annotations

from typing import Any, TypeVar

from fedbandits.contract.arrays import Index
from fedbandits.contract.compiled import meant, otherwise, stands_for
from fedbandits.linalg.jit import jit_inside

Known = Any
"""The arrays of an estimator, in a named tuple of a type that says what follows (`stands_for`)."""
K = TypeVar("K")


@meant
def weigh(known: Known, reward: float) -> float:
    """What everybody who takes in this reward would compute of it alone."""
    raise NotImplementedError


@meant
def take_in(known: Known, i: Index, k: Index, reward: float, weight: float) -> bool:
    """Another sample of arm k for agent i; False, nothing having changed, where there is no room for it."""
    raise NotImplementedError


@meant
def fits(known: Known, i: int, k: int, samples: int) -> bool:
    """Whether there is room for so many more samples of arm k for agent i."""
    raise NotImplementedError


@meant
def estimate_at(known: Known, i: int, k: int, now: float) -> float:
    """What agent i takes the mean of arm k to be in the turn of which `now` is the logarithm; 0 without samples."""
    raise NotImplementedError


@meant
def lightest(known: Known, i: int, k: int) -> float:
    """Further samples of arm k that weigh no more than this do no more for agent i than add to a sum (`sum_at`) and a
    count, in whatever order; below zero where all do more.
    """
    raise NotImplementedError


@meant
def sum_at(known: Known, i: int, k: int) -> float:
    """The sum that samples add to which do no more."""
    raise NotImplementedError


@meant
def put_sum(known: Known, i: int, k: int, total: float, samples: int) -> None:
    """That sum is `total` now, with so many more samples."""
    raise NotImplementedError


@otherwise(lightest)
@jit_inside
def _none(known: Known, i: int, k: int) -> float:
    return -1.0


@otherwise(sum_at)
@jit_inside
def _no_sum(known: Known, i: int, k: int) -> float:
    return 0.0


@otherwise(put_sum)
@jit_inside
def _put_nothing(known: Known, i: int, k: int, total: float, samples: int) -> None:
    pass


@jit_inside
def _nothing(known: Known, reward: float) -> float:
    return 0.0


def weightless(kind: type[K]) -> type[K]:
    """The decorated type of arrays is that of an estimator to which a reward is a reward: what `weigh` does is said."""
    stands_for(weigh, kind)(_nothing)
    return kind
