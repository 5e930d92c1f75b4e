"""Groups of cases as arms: a real table, with the share of one class in each group as its mean reward.

The protocol of Filippi, Cappe, Garivier & Szepesvari (NeurIPS 2010), as Li, Liu & Wang (ICLR 2024) have it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Candidates, Fact, Link, Noise, Norms, Range
from fedbandits.contract.parameters import parameters
from fedbandits.data.centroids import centroids
from fedbandits.data.tables import magic, shuttle
from fedbandits.environments.arms import ArmSource, GivenArms
from fedbandits.environments.laws import Bernoulli, Law
from fedbandits.environments.smooth import Smooth

_TABLES = {"magic": magic, "shuttle": shuttle}


@parameters
class ClusteredClasses(Smooth):
    """The cases of `table` in `arms` groups (k-means, the best of `starts`), each an arm that everybody sees at every
    turn: x is the centre of the group, scaled to [0, 1] in each coordinate, and a draw of it pays 1 with the share
    that the table's most frequent class has among its cases, gamma rays of `magic` or class 1 of `shuttle`, else 0.

    Seeds differ in what is paid and in the order of the arms; the groups are always the same. Random choices lose 0.54
    a turn on `magic` and 0.49 on `shuttle`, with 20 groups. `constant` appends a 1 to every arm.
    """

    clients: Annotated[int, Field(ge=1)] = 100
    arms: Annotated[int, Field(ge=1)] = 20
    table: Literal["magic", "shuttle"] = "magic"
    starts: Annotated[int, Field(ge=1)] = 10
    constant: bool = False

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="clustered-classes",
        family="nonlinear",
        summary="groups of similar cases of a table as arms, the share of one class as mean reward",
        source="UCI Machine Learning Repository; Li, Liu & Wang (ICLR 2024)",
    )

    def _source(self, rng: np.random.Generator) -> tuple[ArmSource, int]:
        points, means = centroids(_TABLES[self.table](), self.arms, self.starts)
        order = rng.permutation(self.arms)  # ties go to the first
        shown: FloatArray = points[order]
        if self.constant:
            shown = np.concatenate([shown, np.ones((self.arms, 1))], axis=1)
        return GivenArms(shown, means[order]), shown.shape[1]

    def _law(self) -> Law:
        return Bernoulli("identity")

    def _facts(self, source: ArmSource) -> tuple[Fact, ...]:
        assert isinstance(source, GivenArms)
        longest = float(np.linalg.norm(source.points, axis=1).max())
        return (
            Noise(0.5),
            Norms(parameter=1 / longest, arms=longest),
            Range(0.0, 1.0),
            Link("logistic"),
            Candidates.of(source.points),
        )
