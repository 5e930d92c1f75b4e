"""What algorithms on kernels have in common: which kernel, and how much an exact process may keep."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedbandits.contract.catalogue import About
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import RKHS, Norms
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.models.kernels import KernelName, NamedKernel, kernel_named, kernel_of

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Lengthscales = Positive | tuple[Positive, ...]


@parameters
class KernelParameters:
    """`kernel` by name with `lengthscale` l, one for all coordinates or one for each (`models.kernels`), or
    ``"told"``: the one in whose space, as the problem tells, mean rewards lie (`RKHS`).
    """

    kernel: KernelName | Literal["told"] = "rbf"
    lengthscale: Lengthscales = 1.0

    about: ClassVar[About]

    def kernel_for(self, problem: Problem) -> NamedKernel:
        """The kernel for arms of `problem`."""
        if self.kernel == "told":
            known = problem.get(RKHS)
            if known is None:
                raise ConfigError(
                    f"{self.about.name}: kernel=told needs the fact 'rkhs', which nobody has told; name a kernel, as "
                    "in kernel=rbf, or use an environment that tells it, such as 'rkhs-mixture'"
                )
            return kernel_of(known, problem.dim)
        return kernel_named(self.kernel, self.lengthscale, problem.dim)


def norm_of(problem: Problem, bound: float | None) -> float:
    """B, how large the norm of mean rewards may be in the kernel's space: `bound`, or what the problem tells."""
    told = problem.get(RKHS)
    return bound or (problem.get(Norms, Norms()).parameter if told is None else told.bound)
