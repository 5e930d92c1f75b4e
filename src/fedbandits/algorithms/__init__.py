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
from fedbandits.algorithms.generalized.fedglb_ucb import FedGLBNewton, FedGLBUCB, FedGLBUCB1, FedGLBUCB2
from fedbandits.algorithms.generalized.fedglb_ucb_3 import FedGLBUCB3
from fedbandits.algorithms.generalized.ons_glm import NOnsGLM
from fedbandits.algorithms.generalized.ucb_glm import NUCBGLM, OneUCBGLM
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
        FedGLBUCB,
        FedGLBUCB1,
        FedGLBUCB2,
        FedGLBUCB3,
        FedGLBNewton,
        OneUCBGLM,
        NUCBGLM,
        NOnsGLM,
    )
}

__all__ = [
    "ALGORITHMS",
    "CLUB",
    "FCLUBDC",
    "NUCBGLM",
    "AsyncLinUCB",
    "AsyncLinUCBAM",
    "CentralLinUCB",
    "DisLinUCB",
    "DyClu",
    "FedGLBNewton",
    "FedGLBUCB",
    "FedGLBUCB1",
    "FedGLBUCB2",
    "FedGLBUCB3",
    "FedLinUCBAsync",
    "HetoFedBandit",
    "HetoFedBanditAsync",
    "HetoFedBanditDR",
    "HetoFedBanditE",
    "HetoFedBanditPQ",
    "IndependentLinTS",
    "IndependentLinUCB",
    "NOnsGLM",
    "OneUCBGLM",
    "OracleClusters",
    "Random",
]
