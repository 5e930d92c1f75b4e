"""DyClu: centralised dynamic clustering by homogeneity tests, with change detection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.algorithms.clustered.grouping import GroupingParameters, GroupingServer
from fedbandits.algorithms.clustered.homogeneity import HomogeneityTest, fit
from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray
from fedbandits.contract.catalogue import About, ConfigError
from fedbandits.contract.facts import Noise
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.sharing import COLLECT, FRESH, POOL
from fedbandits.models.statistics import Statistics
from fedbandits.models.width import Width


@parameters
class DyClu(GroupingParameters):
    """Dynamic clustering of contextual bandits (Li, Wu & Wang, SIGIR 2021), centralised.

    Agent i acts on the sum of its own statistics and those of every agent, and every outdated model, that passes the
    central homogeneity test with it at `level`; groups are neighbourhoods, not a partition. With `change_detection`,
    an observation that agent i's own model (once of full rank) finds unlikely,

        (y - x^T t_i)^2 > sigma^2 (1 + x^T V_i^-1 x) q,  q the chi-square(1) quantile at `level`,

    is discarded; when the share e of such observations among the last `window` exceeds
    delta + sqrt(log(1/delta) / (2 length)), the model is archived as outdated and the agent starts anew.
    Every observation goes up, the neighbourhood's sums come down, metered as if it were a federation.

    Guarantee: that of the publication needs its assumptions on the spread of arms and the length of stationary periods.
    """

    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    width: Width = "loose"
    level: Annotated[float, Field(gt=0, lt=1)] = 0.01
    change_detection: bool = True
    window: Annotated[int, Field(ge=1)] = 20

    about: ClassVar[About] = About(
        name="dyclu",
        family="clustered",
        topology="star",
        talks="after every observation",
        says=(COLLECT, FRESH, POOL),
        calls="scheduled",
        guarantee="that of the publication, under its assumptions on arms and stationary periods",
        source="Li, Wu & Wang, SIGIR 2021",
        environment="clustered-linear",
    )

    def server(self, problem: Problem, n: int, rng: Streams) -> DyCluServer:
        """A server that tests neighbours and watches for changes."""
        return DyCluServer(self, problem, n)


class Archive(Statistics):
    """Outdated models: statistics that grow by a row whenever an agent starts anew."""

    resizes: ClassVar[frozenset[str]] = frozenset(Statistics.keeps)

    def put(self, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """Append rows."""
        self.gram = np.concatenate([self.gram, gram])
        self.moment = np.concatenate([self.moment, moment])
        self.count = np.concatenate([self.count, count])


class DyCluServer(GroupingServer):
    """Tests an agent against everybody whenever its statistics change.

    `surprises` (n, window) are the latest outcomes of the one-sample test, `tested` (n,) how many there are; `linked`
    (n, outdated) says which outdated models count for whom.
    """

    keeps: ClassVar[tuple[str, ...]] = (*GroupingServer.keeps, "outdated", "linked", "surprises", "tested")
    resizes: ClassVar[frozenset[str]] = frozenset({"linked"})

    def __init__(self, parameters: DyClu, problem: Problem, n: int) -> None:
        if problem.get(Noise, Noise()).sigma <= 0:
            raise ConfigError("dyclu: the homogeneity test divides by the noise; give an environment some")
        from scipy.stats import chi2  # slow to load, and seldom needed

        super().__init__(n, problem.dim)
        self._parameters = parameters
        self._test = HomogeneityTest(problem.get(Noise, Noise()).sigma, parameters.level, 0.0)
        self._surprising = float(chi2.isf(parameters.level, 1)) * problem.get(Noise, Noise()).sigma ** 2
        self.outdated = Archive(0, problem.dim)
        self.linked: BoolArray = np.zeros((n, 0), dtype=np.bool_)
        self.surprises = np.zeros((n, parameters.window), dtype=np.bool_)
        self.tested = np.zeros(n, dtype=np.int64)
        # the agents' own models serve the test of one step and the surprises of the next
        self._fits = fit(self.own.gram, self.own.moment)

    def _take_in(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        if self._parameters.change_detection:
            surprised = self._surprises(who, gram, moment)
            self._renew(who, surprised)
            keep = ~surprised
            who, gram, moment, count = who[keep], gram[keep], moment[keep], count[keep]
        self.own.merge(who, gram, moment, count)
        self._fits.renew(who, self.own.gram, self.own.moment, grown=True)

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        super()._take(state, prefix)
        self._fits = fit(self.own.gram, self.own.moment)

    def _surprises(self, who: IntArray, gram: FloatArray, moment: FloatArray) -> BoolArray:
        """(w,) who finds its single observation, gram x x^T and moment y x, unlikely under its own model."""
        fits = self._fits
        full = fits.ranks[who] == gram.shape[1]
        if not full.any():
            return np.asarray(full)
        theta, inverse = fits.estimates[who], fits.inverse[who]
        scale = np.trace(gram, axis1=1, axis2=2)
        squared = np.divide((moment**2).sum(axis=1), scale, out=np.zeros(len(who)), where=scale > 0)
        crossed = np.einsum("wd,wd->w", moment, theta)
        predicted = np.einsum("wd,wde,we->w", theta, gram, theta)
        leverage = np.einsum("wde,wde->w", inverse, gram)
        error = squared - 2 * crossed + predicted
        return np.asarray(full & (error > self._surprising * (1 + leverage)))

    def _renew(self, who: IntArray, surprised: BoolArray) -> None:
        """Note the outcomes, and archive the models that have been wrong too often."""
        window = self.surprises.shape[1]
        self.surprises[who, self.tested[who] % window] = surprised
        self.tested[who] += 1
        length = np.minimum(self.tested[who], window)
        badness = self.surprises[who].sum(axis=1) / length
        delta = self._parameters.delta
        wrong = who[badness > delta + np.sqrt(np.log(1 / delta) / (2 * length))]
        if len(wrong) == 0:
            return
        self.outdated.put(self.own.gram[wrong], self.own.moment[wrong], self.own.count[wrong])
        self.linked = np.pad(self.linked, ((0, 0), (0, len(wrong))))
        self.own.clear(wrong)
        self._fits.renew(wrong, self.own.gram, self.own.moment, grown=False)
        self.surprises[wrong] = False
        self.tested[wrong] = 0

    def _regroup(self, changed: IntArray) -> BoolArray:
        n = len(self.group)
        touched = np.zeros(n, dtype=np.bool_)
        touched[changed] = True
        first, second = np.triu_indices(n, 1)
        due = touched[first] | touched[second]
        first, second = first[due], second[due]
        group = self.group.copy()
        group[first, second] = self._test.passes(self.own.gram, self.own.moment, first, second, self._fits)
        group[second, first] = group[first, second]
        if len(self.outdated.count):
            rows, columns = np.meshgrid(changed, np.arange(len(self.outdated.count)), indexing="ij")
            gram = np.concatenate([self.own.gram, self.outdated.gram])
            moment = np.concatenate([self.own.moment, self.outdated.moment])
            passed = self._test.passes(gram, moment, rows.ravel(), n + columns.ravel())
            self.linked[rows, columns] = passed.reshape(rows.shape)
        return group

    def _sums(self, who: IntArray) -> dict[str, FloatArray]:
        sums = super()._sums(who)
        if len(self.outdated.count):
            weights = self.linked[who].astype(np.float64)
            sums["gram"] = sums["gram"] + np.tensordot(weights, self.outdated.gram, axes=1)
            sums["moment"] = sums["moment"] + weights @ self.outdated.moment
            sums["count"] = sums["count"] + weights @ self.outdated.count
        return sums
