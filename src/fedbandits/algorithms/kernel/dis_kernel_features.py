"""DisLinUCB in the space of a kernel's features: agents learn a smooth function together, and no raw point crosses."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedbandits.algorithms.gp.pooled import FEATURE_POOL, POOLED_FEATURES
from fedbandits.algorithms.kernel.parameters import KernelParameters, Positive, norm_of
from fedbandits.algorithms.linear.dislinucb import DisLinUCB
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import RKHS, Embedding, Fact, Norms, Ridge
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.features import Features, RandomFourierFeatures, quadrature_features
from fedbandits.models.kernels import Linear, SquaredExponential
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.paced import by_schedule
from fedbandits.models.sharing import COLLECT
from fedbandits.models.triggers import Trigger, both


@parameters
class DisKernelFeatures(KernelParameters, DisLinUCB):
    """DisLinUCB on features of a stationary kernel: what crosses are sums of phi phi^T and y phi, 2n (p^2 + p) scalars
    for each synchronisation, and never a point.

    `features`: ``"random"``, `count` Fourier features (p) whose frequencies all agents draw from common randomness, for
    every kernel and dimension, off by 1/sqrt(p) at most in root mean square (`models.features.random_fourier`);
    ``"quadrature"``, for the squared exponential in few dimensions, as many as an error of `error` takes
    (`models.features.quadrature`), in the box that the fact `rkhs` tells, or that arms of their largest norm lie in.

    `threshold`, `every`, `width` and `delta` are those of `dislinucb`, with p for d; the theory width is for functions
    of norm at most `bound` B, None being what the problem tells of it. By a schedule it can have noise on its sums:
    ``dis-kernel-features:every=50,count=32|gaussian:epsilon=1``; few features are then better than many.

    Guarantee: that of `dislinucb` in p dimensions for functions that are linear in the features. Others are off by what
    features are off by, at every turn, and for random ones of a fixed number nothing better is claimed.
    """

    features: Literal["random", "quadrature"] = "random"
    count: Annotated[int, Field(ge=2, le=2048, multiple_of=2)] = 100
    error: Annotated[float, Field(gt=0, lt=1)] = 0.01
    bound: Positive | None = None

    about: ClassVar[About] = depending(
        About(
            name="dis-kernel-features",
            family="kernel",
            topology="star",
            talks="everybody, when one agent's observations times its log-determinant growth exceed D",
            says=(COLLECT, POOLED_FEATURES, FEATURE_POOL),
            guarantee="that of dislinucb in p dimensions, for functions that are linear in the features",
            source="beyond Li, Wang, Wang & Wang, NeurIPS 2022; Rahimi & Recht, NeurIPS 2007",
            environment="cosine",
        ),
        by_schedule,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> OptimisticAgents:
        """n agents with the event trigger, or a schedule, who act on features."""
        problem = problem.knowing(*self.assumes(problem))
        size = self.size(problem)
        trigger = self.paced(Trigger(both, self.trigger(problem), strict=True))
        return OptimisticAgents(
            self.models(problem, n),
            self.widths(problem, size),
            trigger,
            features=self.seen(problem, rng),
            counted=self.tells_counts,
        )

    def assumes(self, problem: Problem) -> tuple[Fact, ...]:  # type: ignore[override]
        """What models see of arms: p features of norm 1, and a parameter of norm B at most."""
        bound, arms = norm_of(problem, self.bound), problem.get(Norms, Norms()).arms
        return Ridge(self.ridge), Embedding(self.size(problem), 1.0), Norms(parameter=bound, arms=arms)

    def sizes(self, problem: Problem) -> dict[str, int]:
        """p, the number of features."""
        return {"p": self.size(problem)}

    def size(self, problem: Problem) -> int:
        """p."""
        return self.count if self.features == "random" else self._quadrature(problem).size

    def seen(self, problem: Problem, rng: Streams) -> Features:
        """The features, the same for everybody."""
        if self.features == "quadrature":
            return self._quadrature(problem)
        kernel = self.kernel_for(problem)
        if isinstance(kernel, Linear):
            raise ConfigError("dis-kernel-features: the linear kernel needs no features; use dislinucb")
        return RandomFourierFeatures(kernel, self.count, rng.common("features"))

    def _quadrature(self, problem: Problem) -> Features:
        kernel = self.kernel_for(problem)
        if not isinstance(kernel, SquaredExponential):
            raise ConfigError(
                f"dis-kernel-features: features=quadrature is for the kernel rbf, not for {self.kernel}; use "
                "features=random"
            )
        reach = problem.get(Norms, Norms()).arms
        box = problem.get(RKHS) or RKHS(1.0, low=-reach, high=reach)
        known = RKHS(kernel.scales, additive=kernel.additive, low=box.low, high=box.high)
        return quadrature_features(known, problem.dim, self.error)[0]
