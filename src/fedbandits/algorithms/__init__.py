"""Algorithms by public name, one package per model family."""

from fedbandits.algorithms.armed.cent_ucb1 import CentUCB1, RobustCentUCB
from fedbandits.algorithms.armed.charm import CHARM
from fedbandits.algorithms.armed.consensus_ucb import ConsensusUCB
from fedbandits.algorithms.armed.dp_ucb_int import DPUCBInt
from fedbandits.algorithms.armed.fed_ucb1 import FedUCB1, RobustFedUCB
from fedbandits.algorithms.armed.fed_ucb1_best import FedUCB1Best, RobustFedUCBBest
from fedbandits.algorithms.armed.kl_ucb import KLUCB
from fedbandits.algorithms.armed.private_fed_ucb import PrivateFedUCB
from fedbandits.algorithms.armed.rcl import RCLLF, RCLSD, MPUCBDelayed
from fedbandits.algorithms.armed.thompson import ThompsonBeta, ThompsonGaussian
from fedbandits.algorithms.armed.ucb1 import UCB1, RobustUCB
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
from fedbandits.algorithms.gp.fed_gp_ucb import FedGPUCB
from fedbandits.algorithms.gp.gp_ucb import GPUCB
from fedbandits.algorithms.gp.gp_ucb_features import GPUCBFeatures
from fedbandits.algorithms.gp.ldp_gp_ucb import LDPGPUCB
from fedbandits.algorithms.gp.private_gp_ucb import PrivateGPUCB
from fedbandits.algorithms.kernel.approx_dis_kernel_ucb import ApproxDisKernelUCB
from fedbandits.algorithms.kernel.dis_kernel_features import DisKernelFeatures
from fedbandits.algorithms.kernel.dis_kernel_ucb import DisKernelUCB
from fedbandits.algorithms.kernel.graph.dist_ucb_kernel import DistUCBKernel
from fedbandits.algorithms.kernel.graph.fed_ucb_kernel import FedUCBEager, FedUCBKernel
from fedbandits.algorithms.kernel.graph.naive import NaiveKernelUCB, NaiveLinUCB
from fedbandits.algorithms.kernel.igp_ucb import IGPUCB
from fedbandits.algorithms.kernel.kernel_ucb import KernelTS, KernelUCB
from fedbandits.algorithms.linear.async_linucb import AsyncLinUCB
from fedbandits.algorithms.linear.async_linucb_am import AsyncLinUCBAM
from fedbandits.algorithms.linear.central_linucb import CentralLinUCB
from fedbandits.algorithms.linear.dislinucb import DisLinUCB
from fedbandits.algorithms.linear.fedlinucb_async import FedLinUCBAsync
from fedbandits.algorithms.linear.independent import IndependentLinTS, IndependentLinUCB
from fedbandits.algorithms.neural.fn_ucb import FNUCB, FNUCBLess
from fedbandits.algorithms.neural.neural_linear import NeuralLinear
from fedbandits.algorithms.neural.neural_ucb import NeuralTS, NeuralUCB
from fedbandits.algorithms.nonlinear.fed_go_ucb import FedGOUCB, OneGOUCB
from fedbandits.algorithms.nonlinear.fed_go_ucb_ensemble import FedGOUCBEnsemble
from fedbandits.algorithms.nonlinear.n_go_ucb import NGOUCB
from fedbandits.algorithms.phased.rclb import RCLB
from fedbandits.algorithms.planning.central_lsvi import CentralLSVI
from fedbandits.algorithms.planning.fedlsvi_dense import FedLSVIDense
from fedbandits.algorithms.planning.fedlsvi_heterogeneous import FedLSVIHeterogeneous
from fedbandits.algorithms.planning.fedlsvi_rare import FedLSVIRare
from fedbandits.algorithms.planning.games.dqn_independent import DQNIndependent
from fedbandits.algorithms.planning.games.lsvi_independent import LSVIIndependent
from fedbandits.algorithms.planning.games.mg_lsvi import MGLSVI
from fedbandits.algorithms.planning.games.q_independent import QIndependent
from fedbandits.algorithms.planning.lsvi_ucb import LSVIUCB
from fedbandits.algorithms.planning.private_fedlsvi import PrivateFedLSVI
from fedbandits.algorithms.private.fedlinucb_network import FedLinUCBNetwork
from fedbandits.algorithms.private.fedlinucb_private import FedLinUCBPrivate
from fedbandits.algorithms.private.ldp_linucb import LDPLinUCB
from fedbandits.algorithms.private.private_linucb import PrivateLinUCB
from fedbandits.algorithms.random import Random
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import Registry

ALGORITHMS: Registry[Algorithm] = Registry(
    "algorithm",
    "fedbandits.algorithms",
    (
        Random,
        IndependentLinUCB,
        IndependentLinTS,
        CentralLinUCB,
        DisLinUCB,
        AsyncLinUCB,
        AsyncLinUCBAM,
        FedLinUCBAsync,
        RCLB,
        FedLinUCBPrivate,
        FedLinUCBNetwork,
        PrivateLinUCB,
        LDPLinUCB,
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
        FedGPUCB,
        PrivateGPUCB,
        LDPGPUCB,
        GPUCB,
        GPUCBFeatures,
        DisKernelUCB,
        ApproxDisKernelUCB,
        DisKernelFeatures,
        KernelUCB,
        KernelTS,
        IGPUCB,
        FedUCBKernel,
        FedUCBEager,
        DistUCBKernel,
        NaiveKernelUCB,
        NaiveLinUCB,
        FNUCB,
        FNUCBLess,
        NeuralLinear,
        NeuralUCB,
        NeuralTS,
        FedGOUCB,
        FedGOUCBEnsemble,
        OneGOUCB,
        NGOUCB,
        LSVIUCB,
        CentralLSVI,
        FedLSVIDense,
        FedLSVIRare,
        FedLSVIHeterogeneous,
        PrivateFedLSVI,
        MGLSVI,
        QIndependent,
        LSVIIndependent,
        DQNIndependent,
        UCB1,
        RobustUCB,
        ThompsonBeta,
        ThompsonGaussian,
        KLUCB,
        DPUCBInt,
        FedUCB1,
        FedUCB1Best,
        CentUCB1,
        RobustFedUCB,
        RobustFedUCBBest,
        RobustCentUCB,
        CHARM,
        PrivateFedUCB,
        ConsensusUCB,
        RCLLF,
        RCLSD,
        MPUCBDelayed,
    ),
    needs=("agents", "server"),
)

__all__ = [
    "ALGORITHMS",
    "CHARM",
    "CLUB",
    "FCLUBDC",
    "FNUCB",
    "GPUCB",
    "IGPUCB",
    "KLUCB",
    "LDPGPUCB",
    "LSVIUCB",
    "MGLSVI",
    "NGOUCB",
    "NUCBGLM",
    "RCLB",
    "RCLLF",
    "RCLSD",
    "UCB1",
    "ApproxDisKernelUCB",
    "AsyncLinUCB",
    "AsyncLinUCBAM",
    "CentUCB1",
    "CentralLSVI",
    "CentralLinUCB",
    "ConsensusUCB",
    "DPUCBInt",
    "DQNIndependent",
    "DisKernelFeatures",
    "DisKernelUCB",
    "DisLinUCB",
    "DistUCBKernel",
    "DyClu",
    "FNUCBLess",
    "FedGLBNewton",
    "FedGLBUCB",
    "FedGLBUCB1",
    "FedGLBUCB2",
    "FedGLBUCB3",
    "FedGOUCB",
    "FedGOUCBEnsemble",
    "FedGPUCB",
    "FedLSVIDense",
    "FedLSVIHeterogeneous",
    "FedLSVIRare",
    "FedLinUCBAsync",
    "FedLinUCBNetwork",
    "FedLinUCBPrivate",
    "FedUCB1",
    "FedUCB1Best",
    "FedUCBEager",
    "FedUCBKernel",
    "GPUCBFeatures",
    "HetoFedBandit",
    "HetoFedBanditAsync",
    "HetoFedBanditDR",
    "HetoFedBanditE",
    "HetoFedBanditPQ",
    "IndependentLinTS",
    "IndependentLinUCB",
    "KernelTS",
    "KernelUCB",
    "LDPLinUCB",
    "LSVIIndependent",
    "MPUCBDelayed",
    "NOnsGLM",
    "NaiveKernelUCB",
    "NaiveLinUCB",
    "NeuralLinear",
    "NeuralTS",
    "NeuralUCB",
    "OneGOUCB",
    "OneUCBGLM",
    "OracleClusters",
    "PrivateFedLSVI",
    "PrivateFedUCB",
    "PrivateGPUCB",
    "PrivateLinUCB",
    "QIndependent",
    "Random",
    "RobustCentUCB",
    "RobustFedUCB",
    "RobustFedUCBBest",
    "RobustUCB",
    "ThompsonBeta",
    "ThompsonGaussian",
]
