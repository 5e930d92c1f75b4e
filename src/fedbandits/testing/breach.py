"""What it means that a promise is not kept: an error that says which one, where, and how to mend it."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import Array, State


class BrokenPromiseError(AssertionError):
    """An algorithm or environment does not keep what the contract asks of it.

    `check` is the name of the check that found out, `promise` what was to be kept, `found` what happened and where,
    `mend` what is usually done about it.
    """

    def __init__(self, subject: str, check: str, promise: str, found: str, mend: str) -> None:
        super().__init__(
            f"{subject} breaks the promise {check!r}: {found}\n  Promised: {promise}\n  To mend it: {mend}"
        )
        self.subject = subject
        self.check = check
        self.promise = promise
        self.found = found
        self.mend = mend


class Breach(Exception):  # noqa: N818 (turned into an error that names the promise by whoever knows it)
    """What a check has found; `mend` where there is better advice than the promise gives."""

    def __init__(self, found: str, mend: str = "") -> None:
        super().__init__(found)
        self.found = found
        self.mend = mend


def require(kept: object, found: str, mend: str = "") -> None:
    """Raise a `Breach` that tells what was `found`, unless all is well."""
    if not kept:
        raise Breach(found, mend)


def same(left: State, right: State) -> bool:
    """Whether two snapshots agree in names, types, shapes and every bit."""
    return left.keys() == right.keys() and all(_same_bits(left[name], right[name]) for name in left)


def difference(left: State, right: State) -> str:
    """In words, the first thing in which two snapshots differ; "" where they agree to the last bit."""
    for names, where in ((left.keys() - right.keys(), "first"), (right.keys() - left.keys(), "second")):
        if names:
            return f"only the {where} has {', '.join(sorted(names))}"
    for name, array in left.items():
        if not _same_bits(array, right[name]):
            return f"{name} differs: {_shown(array, right[name])}"
    return ""


def close(left: State, right: State, ignoring: tuple[str, ...] = ()) -> str:
    """As `difference`, but numbers may differ by rounding, and what ends with one of `ignoring` is left out."""
    for name in left.keys() | right.keys():
        if name.endswith(ignoring):
            continue
        if name not in left or name not in right:
            return f"only one of them has {name}"
        mine, other = left[name], right[name]
        if mine.shape != other.shape or not np.allclose(mine, other, rtol=1e-8, atol=1e-10, equal_nan=True):
            return f"{name} differs: {_shown(mine, other)}"
    return ""


def _same_bits(left: Array, right: Array) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def _shown(left: Array, right: Array) -> str:
    if left.dtype != right.dtype or left.shape != right.shape:
        return f"{left.dtype} of shape {left.shape} against {right.dtype} of shape {right.shape}"
    if left.dtype.kind not in "fiub":
        return "not the same"
    apart = np.flatnonzero(~((left == right) | ((left != left) & (right != right))).ravel())  # NaN is like NaN
    if len(apart) == 0:
        return "only in the sign of a zero, or in how a NaN is written"
    at = int(apart[0])
    place = tuple(int(index) for index in np.unravel_index(at, left.shape))
    return f"{left.ravel()[at]!r} against {right.ravel()[at]!r} at {list(place)}, {len(apart)} of {left.size} numbers"
