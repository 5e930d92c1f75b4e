"""Algorithms by public name, one package per model family."""

from fedbandits.algorithms.linear.async_linucb import AsyncLinUCB
from fedbandits.algorithms.linear.async_linucb_am import AsyncLinUCBAM
from fedbandits.algorithms.linear.central_linucb import CentralLinUCB
from fedbandits.algorithms.linear.dislinucb import DisLinUCB
from fedbandits.algorithms.linear.fedlinucb_async import FedLinUCBAsync
from fedbandits.algorithms.linear.independent import IndependentLinTS, IndependentLinUCB
from fedbandits.algorithms.random import Random
from fedbandits.protocol import Algorithm

ALGORITHMS: dict[str, type[Algorithm]] = {
    kind.about.name: kind
    for kind in (
        Random,
        IndependentLinUCB,
        IndependentLinTS,
        CentralLinUCB,
        DisLinUCB,
        AsyncLinUCB,
        AsyncLinUCBAM,
        FedLinUCBAsync,
    )
}

__all__ = [
    "ALGORITHMS",
    "AsyncLinUCB",
    "AsyncLinUCBAM",
    "CentralLinUCB",
    "DisLinUCB",
    "FedLinUCBAsync",
    "IndependentLinTS",
    "IndependentLinUCB",
    "Random",
]
