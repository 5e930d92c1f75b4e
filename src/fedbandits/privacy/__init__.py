"""Differential privacy: mechanisms that release, schedules that say when, accountants that add up, and audits."""

from fedbandits.privacy.accountant import composed, spending, tight
from fedbandits.privacy.audits import Audit, audit, gaussian_ratio, laplace_ratio
from fedbandits.privacy.budget import PrivacyParameters, calibrate
from fedbandits.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_event, gaussian_mu
from fedbandits.privacy.lemmas import published_epsilon, published_schedule
from fedbandits.privacy.mechanisms import IntervalMeans
from fedbandits.privacy.schedules import ReleaseRule, Releases, broadcast, longest_gap, regular

__all__ = [
    "Audit",
    "IntervalMeans",
    "PrivacyParameters",
    "ReleaseRule",
    "Releases",
    "audit",
    "broadcast",
    "calibrate",
    "composed",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_event",
    "gaussian_mu",
    "gaussian_ratio",
    "laplace_ratio",
    "longest_gap",
    "published_epsilon",
    "published_schedule",
    "regular",
    "spending",
    "tight",
]
