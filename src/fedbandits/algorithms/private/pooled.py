"""A star that pools sums, on which noise may lie: what private linear algorithms are composed of."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.algorithms.linear.servers import PoolServer
from fedbandits.contract.arrays import BoolArray, FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import untouched
from fedbandits.contract.depending import depending
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Ellipsoids
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.linalg import kernels
from fedbandits.models.features import Features
from fedbandits.models.limits import longest
from fedbandits.models.noisy_sums import reading
from fedbandits.models.optimistic import OptimisticAgents, WidthRule
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.sharing import COLLECT, POOL, POOLED_FRESH
from fedbandits.models.triggers import Trigger, both
from fedbandits.models.width import Radius

Threshold = Annotated[float, Field(ge=0)] | Literal["every-round", "balanced", "table-a", "table-b", "theorem"]


@parameters
class Pooled(LinearParameters):
    """Agents act optimistically on everybody's sums, and call by the thesis' trigger, or when a stage says so.

    With S what was pooled, U_i an agent's own sums since then and t_i their number, it calls when

        t_i [log det(S + U_i + M (rho_max - rho_min) I) - log det S] >= D,

    rho_min I and rho_max I bounding what noise and its shift add to the sums of each of M agents (Dubey 2022, algorithm
    9, where t_i begins at 0 and is divided by). Sums without noise, or read as `models.noisy_sums` reads them, have
    rho_min = rho_max = lambda, once for all. `threshold` is D, or a name, with
    Phi = log(rho_max/rho_min + T L^2/(d rho_min)):
    ``"every-round"`` 0; ``"balanced"`` 2T/(M d Phi); ``"table-a"`` T/(d M^2 log(MT)) and ``"table-b"``
    T log(MT)/(d M^2) of table 6.1; ``"theorem"`` 2Td/(Phi + 1) of theorem 6.2. None never calls by itself.

    Agents act on `scale` times their width; what they believe (`ellipsoids`) is within the whole radius.
    """

    threshold: Threshold | None = None
    scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0

    about: ClassVar[About] = depending(
        About(
            name="pooled-linucb",
            family="private",
            topology="star",
            talks="everybody, when one agent's observations times its log-determinant growth reach D, or by a schedule",
            says=(COLLECT, POOLED_FRESH, POOL),
            calls="scheduled",
            guarantee="regret O(d sqrt(nT) log^2(nT)), all agents active, theory width (Wang et al. 2020)",
            source="Dubey (2022), thesis, algorithm 9, without noise",
        ),
        lambda self, default: replace(default, calls=self.calls),
    )

    @property
    def calls(self) -> Literal["scheduled", "data"]:
        """Whether data say when agents call: not where they always do, or never."""
        return "scheduled" if self.threshold in (None, 0, math.inf, "every-round") else "data"

    def agents(self, problem: Problem, n: int, rng: Streams) -> PooledAgents:
        """n agents, who begin with what noise adds to sums at least."""
        low, high = self.regularisers(problem)
        models = self.models(problem, n)
        if high > low:
            models.base.gram[:] = problem.agents * low * np.eye(models.dim)
            models.recompute()
        trigger = None if self.threshold is None else Trigger(both, self.level(problem))
        radius = replace(self, width="theory").widths(problem, models.dim)
        slack = problem.agents * (high - low)
        acting, seen = self._acting(problem), self.seen(problem)
        return PooledAgents(models, acting, trigger, radius, slack, counted=self.tells_counts, features=seen)

    def server(self, problem: Problem, n: int, rng: Streams) -> PoolServer:
        """A server that collects from everybody and tells everybody."""
        return PoolServer(self, n, self.size(problem), collects="everybody", tells="everybody")

    def seen(self, problem: Problem) -> Features | None:
        """What models see of arms; None: the arms themselves."""
        return None

    def size(self, problem: Problem) -> int:
        """The dimension of models."""
        return problem.dim

    def regularisers(self, problem: Problem) -> tuple[float, float]:
        """rho_min and rho_max."""
        read = reading(problem, self.size(problem))
        found = None if read is None else read.regularisers
        return (self.ridge, self.ridge) if found is None else found

    def level(self, problem: Problem) -> float:
        """The number D."""
        n, d, horizon = problem.agents, self.size(problem), problem.horizon
        low, high = self.regularisers(problem)
        phi = math.log(high / low + horizon * longest(problem) ** 2 / (d * low))
        log = math.log(max(n * horizon, 2))
        named = {
            "every-round": 0.0,
            "balanced": 2 * horizon / (n * d * phi),
            "table-a": horizon / (d * n**2 * log),
            "table-b": horizon * log / (d * n**2),
            "theorem": 2 * horizon * d / (phi + 1),
        }
        return named[self.threshold] if isinstance(self.threshold, str) else float(self.threshold or 0.0)

    def _acting(self, problem: Problem) -> WidthRule:
        whole, scale = self.widths(problem, self.size(problem)), self.scale
        if isinstance(self.width, float):
            return whole
        if isinstance(whole, Radius):
            return whole._replace(times=scale)
        return lambda logdet, count: scale * whole(logdet, count)


class PooledAgents(OptimisticAgents):
    """Agents that act on one width and vouch for another, `radius`; `slack` is M (rho_max - rho_min)."""

    def __init__(
        self,
        models: RidgeModels,
        width: WidthRule,
        trigger: Trigger | None,
        radius: WidthRule,
        slack: float,
        *,
        counted: bool,
        features: Features | None = None,
    ) -> None:
        super().__init__(models, width, trigger, features=features, counted=counted)
        self._radius = radius
        self._slack = slack

    def ellipsoids(self) -> Ellipsoids | None:
        """Where the parameter is, with high probability; see `Population`."""
        models = self.models
        radius = self._radius(models.logdet, models.base.count + models.fresh.count)
        return models.theta, models.matrices(), radius

    def compiled(self) -> Any:
        """See `Population`: where triggers watch what models keep anyway."""
        spoken_for = untouched(self, PooledAgents, "choose", "learn", "width", "calling")
        return self.optimists() if spoken_for and (self._trigger is None or self._slack == 0) else None

    def calling(self) -> BoolArray:
        """Whose trigger has fired."""
        if self._trigger is None:
            return super().calling()
        return self._trigger.fired(self.models.fresh.count, self._growth())

    def urgency(self) -> FloatArray | None:
        """How far each agent's trigger has come; see `Population`."""
        return None if self._trigger is None else self._trigger.urgency(self.models.fresh.count, self._growth())

    def _growth(self) -> FloatArray:
        """(n,) the logarithm of the determinants' ratio."""
        models = self.models
        if self._slack == 0:
            return models.growth
        known = models.base.gram + models.fresh.gram
        return kernels.log_determinants(known, models.ridge + self._slack) - kernels.log_determinants(
            models.base.gram, models.ridge
        )
