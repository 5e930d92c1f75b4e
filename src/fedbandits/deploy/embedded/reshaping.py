"""States with one feature more, or one less: arrays grow by zero rows and columns, or lose some.

Nothing here knows an algorithm. Which axes of which arrays belong to features is seen from two objects that know
nothing yet, one for each number of features: they differ there, and nowhere else.

*Adding* a feature at the end is exact: sums of x x^T and y x over observations that had 0 there. What a new object has
in the new rows and columns is what the ridge leaves (1/lambda in an inverse, log lambda more in a log-determinant).

*Dropping* a feature is exact where all that depends on features are sums over observations, and what is computed from
them: the state is that of an agent that took the same decisions without ever seeing the feature. Where estimates are
iterates, as in the generalized linear family, there is no such state without going over all observations again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedbandits.contract.arrays import Array, State
from fedbandits.contract.state import Stateful
from fedbandits.deploy.embedded.parts import parts_of
from fedbandits.deploy.errors import InputError
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.statistics import Statistics


def with_feature(state: Mapping[str, Array], before: Stateful, after: Stateful) -> State:
    """`state` of an object like `before`, for one like `after`, which has one feature more, at the end.

    Both know nothing yet. Raises `InputError` where that is not exact.
    """
    old, new = before.state(), after.state()
    return {name: _grown(name, state[name], old[name], new[name]) for name in new}


def without_feature(state: Mapping[str, Array], before: Stateful, after: Stateful, place: int, dim: int) -> State:
    """`state` of an object like `before`, for one like `after`, which lacks the feature at `place` of `dim`.

    Both know nothing yet; `after` is used up. Raises `InputError` where that is not exact.
    """
    old, new = before.state(), after.state()
    found: State = {}
    for name, array in state.items():
        axes = _axes(old[name], new[name])
        if axes and not (_is_sum(name, after) and all(old[name].shape[axis] == dim for axis in axes)):
            raise InputError(
                f"a feature cannot be dropped: {name} is no sum over observations, but rests on all of them"
            )
        for axis in axes:
            array = np.delete(array, place, axis=axis)
        found[name] = array
    after.load(found)
    for _, part in parts_of(after):
        if isinstance(part, RidgeModels):
            part.recompute()
    return after.state()


def _grown(name: str, array: Array, old: Array, new: Array) -> Array:
    axes = _axes(old, new)
    if not axes:
        return _shifted(array, old, new)
    inner = tuple(slice(size) for size in old.shape)
    steps = {new.shape[axis] - old.shape[axis] for axis in axes}
    if steps != {1} or not np.array_equal(new[inner], old):
        raise InputError(f"a feature cannot be added: {name} was drawn or arranged for as many features as there were")
    shape = [size + (axis in axes) for axis, size in enumerate(array.shape)]
    grown = new.copy() if list(new.shape) == shape else np.zeros(shape, new.dtype)
    grown[tuple(slice(size) for size in array.shape)] = array
    return grown


def _shifted(array: Array, old: Array, new: Array) -> Array:
    """What depends on the number of features, as a log-determinant with its ridge, starts elsewhere."""
    if array.dtype.kind != "f" or old.shape != array.shape:
        return array
    with np.errstate(invalid="ignore"):
        shift = np.where(old == new, 0.0, new - old)
    return np.where(array == old, new, np.where(np.isfinite(shift), array + shift, array))


def _axes(old: Array, new: Array) -> list[int]:
    return [axis for axis, (had, has) in enumerate(zip(old.shape, new.shape, strict=True)) if had != has]


def _is_sum(name: str, whole: Stateful) -> bool:
    """Whether an array belongs to a part that is sums over observations, or computed from them."""
    owners = [(place, part) for place, part in parts_of(whole) if name.startswith(place)]
    _, owner = max(owners, key=lambda held: len(held[0]))
    return isinstance(owner, RidgeModels | Statistics)
