"""Naive cooperation: what others observe counts as one's own."""

from __future__ import annotations

from typing import ClassVar, Literal

from fedbandits.algorithms.kernel.graph.fed_ucb_kernel import FedUCBEager
from fedbandits.algorithms.kernel.graph.parameters import TOLD
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.models.kernels import KernelName


@parameters
class NaiveKernelUCB(FedUCBEager):
    """FedUCB-Eager in the belief that all agents have one function: K_z = 1 (`likeness` is "same", and nothing else).

    What the thesis compares with: IGP-UCB on an agent's own observations and those of all within reach.

    Guarantee: none where agents differ; nor is one stated where they do not.
    """

    likeness: Literal["same"] = "same"

    about: ClassVar[About] = About(
        name="naive-kernel-ucb",
        family="kernel",
        topology="graph",
        talks="after every decision, to all within d hops",
        says=(TOLD,),
        calls="scheduled",
        guarantee="none",
        source="baseline of Dubey (2022), thesis, section 8.6",
        environment="heterogeneous-rbf",
    )


@parameters
class NaiveLinUCB(NaiveKernelUCB):
    """LinUCB on an agent's own observations and those of all within reach, as if all were its own.

    The linear kernel with K_z = 1: ridge regression in d dimensions, exactly, at the same cost in every turn.

    Guarantee: none where agents differ.
    """

    kernel: KernelName | Literal["told"] = "linear"

    about: ClassVar[About] = About(
        name="naive-linucb",
        family="kernel",
        topology="graph",
        talks="after every decision, to all within d hops",
        says=(TOLD,),
        calls="scheduled",
        guarantee="none",
        source="baseline of Dubey (2022), thesis, section 8.6",
        environment="heterogeneous-linear",
    )
