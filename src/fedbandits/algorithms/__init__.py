"""Algorithms by public name, one package per model family."""

from fedbandits.algorithms.clustered.club import CLUB
from fedbandits.algorithms.clustered.dyclu import DyClu
from fedbandits.algorithms.clustered.fclub_dc import FCLUBDC
from fedbandits.algorithms.clustered.hetofedbandit import (
    HetoFedBandit,
    HetoFedBanditDR,
    HetoFedBanditE,
    HetoFedBanditPQ,
)
from fedbandits.algorithms.clustered.hetofedbandit_async import HetoFedBanditAsync
from fedbandits.algorithms.clustered.oracle_clusters import OracleClusters
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
        HetoFedBandit,
        HetoFedBanditPQ,
        HetoFedBanditDR,
        HetoFedBanditE,
        HetoFedBanditAsync,
        OracleClusters,
        CLUB,
        DyClu,
        FCLUBDC,
    )
}

__all__ = [
    "ALGORITHMS",
    "CLUB",
    "FCLUBDC",
    "AsyncLinUCB",
    "AsyncLinUCBAM",
    "CentralLinUCB",
    "DisLinUCB",
    "DyClu",
    "FedLinUCBAsync",
    "HetoFedBandit",
    "HetoFedBanditAsync",
    "HetoFedBanditDR",
    "HetoFedBanditE",
    "HetoFedBanditPQ",
    "IndependentLinTS",
    "IndependentLinUCB",
    "OracleClusters",
    "Random",
]
