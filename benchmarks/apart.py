"""Measurements in processes of their own, so that peak memory and warm caches are nobody else's."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def apart(measure: Callable[[T], dict[str, Any]], case: T) -> dict[str, Any]:
    """`measure(case)` in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (case,))
