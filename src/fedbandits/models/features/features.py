"""A feature space: the agents' models are linear in it, whatever rewards are in terms of the arms themselves."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.state import Stateful
from fedbandits.models.differences import leaning_slopes


class Features(Stateful):
    """Turns arms of dimension `dim` (d) into features of dimension `size` (p), for each agent in its own way if needed.

    Agents then model y = offset(x) + <theta, phi(x)> + noise. A subclass says what `phi` and, where there is one, the
    offset are: Fourier features of a kernel, a dictionary of points, the tangent of a network, the gradient of any
    model at a point. What it has learned or drawn is named by `keeps` and saved with its agents.
    """

    dim: int
    size: int

    @abstractmethod
    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w,), (w, K, d) -> (w, K, p) features of the arms that the agents in `who` see."""
        raise NotImplementedError

    def offsets(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """(w, K) what is expected of each arm before anything is learned; None: nothing."""
        return None

    def slopes(self, who: IntArray, arms: FloatArray, along: FloatArray, reach: FloatArray) -> FloatArray:
        """(w, K, d) the gradient in x of offset(x) + <phi(x), u> at each of `arms` (w, K, d), with a u of its own in
        `along` (w, K, p): by central differences over `reach` (d,) to either side, unless a subclass knows better. Not
        told along coordinates in which that is 0.
        """
        return leaning_slopes(partial(self.of, who), partial(self.offsets, who), arms, along, reach)


class Identity(Features):
    """Features that are the arms themselves: no copy is made."""

    def __init__(self, dim: int) -> None:
        self.dim = self.size = dim

    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """The arms."""
        return arms

    def slopes(self, who: IntArray, arms: FloatArray, along: FloatArray, reach: FloatArray) -> FloatArray:
        """u."""
        return along
