"""Noisy prefix sums: what an agent releases again and again about data that grow.

The k-th release is s_1 + ... + s_k plus noise, s_j being what is new in the j-th upload. Every mechanism here is a
factorisation A = B C of the lower-triangular matrix of ones into lower-triangular matrices: with z_1, z_2, ... of
independent Gaussian noise the releases are A s + B z = B (C s + z), so that all of them together are one Gaussian
mechanism on C s, followed by B. Its sensitivity is the longest column of C, for data of which each observation is in
one upload, and the noise in the k-th release has the variance of the k-th row of B.

What is sent are *differences* of consecutive releases: no less private, and whoever adds them up has the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Literal

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.state import Stateful

MechanismName = Literal["toeplitz", "tree", "fresh"]
MOST_UPLOADS = 20_000
"""Matrices of all releases are held in memory: 20,000 uploads are 3.2 GB, and no way to spend a budget."""


@dataclass(frozen=True)
class PrefixSums:
    """How `uploads` prefix sums are released.

    - ``"toeplitz"``: B = C = A^(1/2), the lower-triangular Toeplitz matrix with f_0 = 1, f_k = f_{k-1} (1 - 1/(2k)),
      whose variance grows with log(uploads)^2 / pi^2 (Fichtenberger, Henzinger & Upadhyay, ICML 2023);
    - ``"tree"``: noise for every node of a binary tree over the uploads that ends in one of them, a release adding up
      the at most 1 + log2(uploads) nodes that tile it (Dwork et al. 2010; Chan, Shi & Song 2011);
    - ``"fresh"``: noise of its own for every upload, C = I: local privacy, where nobody is trusted with sums, and the
      only one whose noise for an upload does not depend on how many there are.

    >>> round(PrefixSums("tree", 8).sensitivity ** 2, 12)  # an observation is in at most 4 nodes
    4.0
    """

    mechanism: MechanismName
    uploads: int

    def __post_init__(self) -> None:
        if self.uploads < 1:
            raise ValueError(f"at least one upload is needed, got {self.uploads}")
        if self.mechanism != "fresh" and self.uploads > MOST_UPLOADS:
            raise ValueError(
                f"{self.uploads} uploads are more than the {MOST_UPLOADS} that {self.mechanism!r} can hold in memory; "
                "upload less often, or use 'fresh'"
            )

    @cached_property
    def noise(self) -> FloatArray:
        """B (m, m)."""
        if self.mechanism == "fresh":
            return np.tri(self.uploads)
        return _square_root(self.uploads) if self.mechanism == "toeplitz" else _tiles(self.uploads)

    @cached_property
    def data(self) -> FloatArray:
        """C (m, m)."""
        if self.mechanism == "fresh":
            return np.eye(self.uploads)
        return _square_root(self.uploads) if self.mechanism == "toeplitz" else _nodes(self.uploads)

    @property
    def sensitivity(self) -> float:
        """The norm of the longest column of C: by how much C s moves when one upload moves by 1."""
        return float(self.sensitivities[-1])

    @cached_property
    def sensitivities(self) -> FloatArray:
        """(m,) the same for the first k releases alone, k = 1..m."""
        if self.mechanism == "fresh":
            return np.ones(self.uploads)
        return np.asarray(np.sqrt(np.cumsum(self.data**2, axis=0).max(axis=1)))

    @cached_property
    def joint_sensitivities(self) -> FloatArray:
        """(m,) by how much C s can move, over the first k releases, when *every* upload moves by up to 1: the norms of
        the partial sums of C 1, C having no negative entry.
        """
        rows = np.ones(self.uploads) if self.mechanism == "fresh" else self.data.sum(axis=1)
        return np.asarray(np.sqrt(np.cumsum(rows**2)))

    @cached_property
    def variances(self) -> FloatArray:
        """(m,) the variance of each release, for noise z of variance 1."""
        if self.mechanism == "fresh":
            return np.arange(1.0, self.uploads + 1)
        return np.asarray((self.noise**2).sum(axis=1))


@lru_cache(maxsize=64)
def prefix_sums(mechanism: MechanismName, uploads: int) -> PrefixSums:
    """`PrefixSums`, whose matrices are computed once."""
    return PrefixSums(mechanism, uploads)


class NoiseSteps(Stateful):
    """The noise of n agents' releases, as differences: what is added to the j-th upload so that uploads add up to
    releases. `drawn` (n, m, p) are the z of each agent that later releases need, p numbers for each release, and `made`
    (n,) how many were made.

    Part of the agents' snapshot, and never of anything else: whoever knows z knows the data. So a z is forgotten with
    the last release that is made of it: all of them with the very last one, with a tree most of them sooner.
    """

    keeps: ClassVar[tuple[str, ...]] = ("drawn", "made")

    def __init__(self, sums: PrefixSums, n: int, size: int) -> None:
        self._sums = sums
        self._forgets = sums.mechanism == "fresh"  # whose differences are the z themselves
        self.drawn = np.zeros((n, 0 if self._forgets else sums.uploads, size))
        self.made = np.zeros(n, dtype=np.int64)

    def step(self, who: IntArray, normals: FloatArray) -> FloatArray:
        """(w, p) the noise of one more release of each of `who`, less that of the release before; `normals` (w, p) are
        new draws. Nobody may have made all of them.
        """
        places = self.made[who]
        if (places >= self._sums.uploads).any():
            raise ValueError(f"all {self._sums.uploads} releases were made; the budget allows no more")
        self.made[who] += 1
        if self._forgets:
            return normals
        self.drawn[who, places] = normals
        found = np.empty_like(normals)
        for row, (agent, place) in enumerate(zip(who.tolist(), places.tolist(), strict=True)):
            # one agent at a time: its sum has the same order of terms, and hence bits, alone as among others
            weights = self._weights[place]
            used = np.flatnonzero(weights)
            found[row] = weights[used] @ self.drawn[agent, used]
            self.drawn[agent, self._last_used <= place] = 0.0
        return found

    @cached_property
    def _weights(self) -> FloatArray:
        """(m, m) rows of B less the row before."""
        return np.diff(self._sums.noise, axis=0, prepend=0.0)

    @cached_property
    def _last_used(self) -> IntArray:
        """(m,) the last release that each z is part of."""
        return np.asarray(self._sums.uploads - 1 - np.argmax(self._weights[::-1] != 0.0, axis=0))


def _square_root(m: int) -> FloatArray:
    steps = np.arange(1, m)
    f = np.concatenate([[1.0], np.cumprod(1 - 0.5 / steps)])
    rows, columns = np.indices((m, m))
    return np.where(rows >= columns, f[np.abs(rows - columns)], 0.0)


def _nodes(m: int) -> FloatArray:
    """Node j, which is drawn with upload j (from 1), is over the uploads j - b + 1 to j, b being j's lowest set bit."""
    ends = np.arange(1, m + 1)
    starts = ends - (ends & -ends)
    covered = np.arange(1, m + 1)
    return ((covered[None, :] > starts[:, None]) & (covered[None, :] <= ends[:, None])).astype(np.float64)


def _tiles(m: int) -> FloatArray:
    """The nodes that tile the first k uploads: k, k without its lowest set bit, and so on."""
    found = np.zeros((m, m))
    for k in range(1, m + 1):
        rest = k
        while rest:
            found[k - 1, rest - 1] = 1.0
            rest -= rest & -rest
    return found
