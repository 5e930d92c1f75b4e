"""Agents that act on what they were last told, for compiled loops: their widths do not change between conversations."""

from __future__ import annotations

from typing import NamedTuple

from fedbandits.contract.arrays import FloatArray
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit_inside


class Told(NamedTuple):
    """The model that every agent was told, and its width (n,)."""

    inverse: FloatArray
    theta: FloatArray
    width: FloatArray


@jit_inside
def choose_as_told(told: Told, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    """The arm of agent i that is optimistic under what it was told."""
    return kernels.pick_one(told.inverse, told.theta, i, told.width[i], arms, row, room)
