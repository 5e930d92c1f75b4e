"""Reading sums that carry Gaussian noise: statistics that count for as much as they tell.

Sums over all agents arrive as G + N and b + h, where b = G theta* + xi, xi = sum eta x being the rewards' own noise of
constant R, N is symmetric with entries of variance v_N (2 v_N on the diagonal), and h has entries of variance v_h.
With V = G + N + c I, made semidefinite where it is not, V^-1 (b + h) is theta* but for

    V^-1 (xi + e),      e = h - N theta* - c theta*,

whose covariance given G is about R^2 V^-1 (V + q I) V^-1 with R^2 q the variance of an entry of h - N theta*. So noisy
sums are worth as much as observations of noise R with the statistics

    K = V (V + q I)^-1 V,      m = V (V + q I)^-1 (b + h),

which add up with clean ones like any others: directions in which noise drowns the data count for little.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import Noise, Norms, Perturbation
from fedbandits.contract.problem import Problem
from fedbandits.linalg.semidefinite import nearest_semidefinite
from fedbandits.models.limits import longest
from fedbandits.models.width import CONSTANT, Radius

Rule = Callable[[FloatArray, FloatArray], FloatArray] | Radius

RISK = 0.05
"""With which probability the noise of one sum may reach beyond the shift, after which eigenvalues are cut."""


class Reading(Protocol):
    """How noisy sums of one dimension are read."""

    @abstractmethod
    def read(self, gram: FloatArray, moment: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """(w, p, p) and (w, p), noisy -> statistics to go on with, of which the matrix is semidefinite."""

    @abstractmethod
    def radius(self, delta: float, ridge: float, logdet: FloatArray, own: float) -> FloatArray:
        """(w,) how far theta may be off, in the norm of V, with probability 1 - `delta`; `logdet` (w,) is log det V, V
        holding what was read and `ridge` I, and `own` how many clean observations may be added to it.
        """

    @abstractmethod
    def rule(self, delta: float, ridge: float, own: float) -> Rule:
        """`radius` as a function of log det V (w,) and the number of observations (w,), which does not matter."""

    @property
    @abstractmethod
    def regularisers(self) -> tuple[float, float] | None:
        """rho_min and rho_max: what noise and its shift add to the matrix of each agent at least, and at most; None
        where that is not left in what is read.
        """


def reading(problem: Problem, dim: int, *, mended: bool = False) -> Reading | None:
    """How sums of dimension `dim` are read in `problem`; None where they are exact. `mended`: each agent's was made
    semidefinite before they were added up.
    """
    told = problem.get(Perturbation)
    if told is None or told.matrix == told.vector == 0:
        return None
    norms, noise = problem.get(Norms, Norms()), problem.get(Noise, Noise()).sigma
    most = problem.agents * problem.horizon * longest(problem) ** 2
    if told.printed:
        return Regularised(dim, told, noise, norms.parameter)
    return Discounted(dim, told, noise, norms.parameter, most, mended)


def reach(deviation: float, dim: int, risk: float) -> float:
    """What the largest eigenvalue of symmetric Gaussian noise with `deviation` off the diagonal exceeds with
    probability `risk` at most: s (2 sqrt(p) + 2 sqrt(log(1/risk))).

    Its mean is at most 2 s sqrt(p) (Slepian), and it moves by at most sqrt(2) s for each unit of the independent
    normals behind it, hence the second term (Boucheron, Lugosi & Massart 2013, theorem 5.6).
    """
    return deviation * (2 * math.sqrt(dim) + 2 * math.sqrt(math.log(1 / risk)))


@dataclass(frozen=True)
class Discounted:
    """The reading above, with c = `shift`, what N's smallest eigenvalue falls below with probability `RISK` at most.

    Radius: with W = K + A + lambda I, A the gram matrix of m own clean observations of arms of norm at most L,

        ||theta - theta*||_W <= R sqrt(2 log(2/delta) + p log(1 + M/(p q)) + p log(1 + m L^2/(p lambda)))
                                + (||h - N theta*|| + c S) / sqrt(q) + sqrt(lambda) S,

    M = n T L^2 bounding the trace of G, and ||h - N theta*|| what Gaussian vectors keep to in all releases. By
    Abbasi-Yadkori et al. for the stacked noise of pool and own data, regularised by q and lambda; it holds unless N
    reaches beyond c.

    Where the matrices of single agents were made semidefinite before they were added up (`mended`), no shift is needed,
    and the sum is too large by the negative parts of n noises N_i, together at most s (2 sqrt(n p) + ...) with s that
    of the sum, against s (2 sqrt(p) + ...) of a shift. Such sums are discounted by so much more that the same radius
    holds for them.
    """

    dim: int
    told: Perturbation
    noise: float
    parameter: float
    most: float
    mended: bool = False

    @property
    def shift(self) -> float:
        """c."""
        return reach(self.told.matrix, self.dim, RISK)

    @property
    def doubt(self) -> float:
        """What is read is discounted by q times the square of this."""
        if not self.mended:
            return 1.0
        # norms of n independent matrices add up to what the norm of one of dimension n p is bounded by
        excess = reach(self.told.matrix, self.told.agents * self.dim, RISK)
        drawn = self.entry * math.sqrt(self.dim)
        return (drawn + excess * self.parameter) / (drawn + self.shift * self.parameter)

    @property
    def entry(self) -> float:
        """The standard deviation of an entry of h - N theta*, at most."""
        return math.sqrt(self.told.vector**2 + 2 * (self.told.matrix * self.parameter) ** 2)

    @property
    def regularisers(self) -> None:
        """See `Reading`."""
        return None

    @property
    def discount(self) -> float:
        """q."""
        return (self.entry / max(self.noise, 1e-3)) ** 2

    def read(self, gram: FloatArray, moment: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """K and m; see `Reading`."""
        if self.discount == 0:
            return gram, moment
        if len(gram) > 1 and gram.strides[0] == 0 and (moment is None or moment.strides[0] == 0):
            one, vector = self.read(gram[:1].copy(), None if moment is None else moment[:1].copy())
            shown = None if vector is None or moment is None else np.broadcast_to(vector, moment.shape)
            return np.broadcast_to(one, gram.shape), shown
        values, vectors = np.linalg.eigh(gram)
        lifted = np.maximum(values + (0.0 if self.mended else self.shift), 0.0)
        share = lifted / (lifted + self.discount * self.doubt**2)
        matrix = (vectors * (lifted * share)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        matrix = (matrix + np.swapaxes(matrix, 1, 2)) / 2
        if moment is None:
            return matrix, None
        turned = np.einsum("wji,wj->wi", vectors, moment)
        return matrix, np.einsum("wij,wj->wi", vectors, share * turned)

    def radius(self, delta: float, ridge: float, logdet: FloatArray, own: float) -> FloatArray:
        """See `Reading`."""
        p, q = self.dim, self.discount
        volume = p * math.log1p(self.most / (p * q)) if q else 0.0
        volume += p * math.log1p(own / (p * ridge))
        tail = math.sqrt(2 * math.log(2 * self.told.releases / delta))
        error = self.entry * (math.sqrt(p) + tail) + self.shift * self.parameter
        fixed = error / math.sqrt(q) if q else 0.0
        found = self.noise * math.sqrt(2 * math.log(2 / delta) + volume) + fixed + math.sqrt(ridge) * self.parameter
        return np.full(len(logdet), found)

    def rule(self, delta: float, ridge: float, own: float) -> Rule:
        """See `Reading`: a constant."""
        return Radius(CONSTANT, prior=float(self.radius(delta, ridge, np.zeros(1), own)[0]))


@dataclass(frozen=True)
class Regularised:
    """The thesis' reading: V = G + H with H = N + 2 M Lambda I for M agents, so that, with high probability,
    M Lambda I <= H <= 3 M Lambda I, and statistics are used as they are (Dubey 2022, section 6.5, with the shift its
    pseudocode lacks).

    Radius (theorem 6.1, its typographical errors corrected): R sqrt(2 log(2/delta) + log det V - p log(M Lambda)) +
    S sqrt(3 M Lambda) + kappa, kappa = sigma_N sqrt(m/Lambda) (sqrt(p) + sqrt(2 log(2 n M/alpha))) for n releases.
    """

    dim: int
    told: Perturbation
    noise: float
    parameter: float

    @property
    def regularisers(self) -> tuple[float, float]:
        """Lambda and 3 Lambda."""
        return self.bound(), 3 * self.bound()

    def bound(self, alpha: float = 0.1) -> float:
        """Lambda, as printed, of one agent."""
        releases = self.told.releases * self.told.agents
        return self.told.printed * (4 * math.sqrt(self.dim) + 2 * math.log(2 * releases / alpha))

    def read(self, gram: FloatArray, moment: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """See `Reading`."""
        return nearest_semidefinite(gram + 2 * self.told.agents * self.bound() * np.eye(self.dim)), moment

    def radius(self, delta: float, ridge: float, logdet: FloatArray, own: float) -> FloatArray:
        """See `Reading`."""
        least = self.told.agents * self.bound()
        volume = np.maximum(logdet - self.dim * math.log(least), 0.0)
        tail = math.sqrt(2 * math.log(2 * self.told.releases * self.told.agents / delta))
        kappa = self.told.vector / math.sqrt(least) * (math.sqrt(self.dim) + tail)
        return np.asarray(
            self.noise * np.sqrt(2 * math.log(2 / delta) + volume)
            + self.parameter * math.sqrt(3 * least + ridge)
            + kappa
        )

    def rule(self, delta: float, ridge: float, own: float) -> Rule:
        """See `Reading`."""
        return lambda logdet, count: self.radius(delta, ridge, logdet, own)
