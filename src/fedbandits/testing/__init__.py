"""The conformance suite as a tool: hold your own algorithm or environment to what every other one is held to.

>>> import fedbandits as fb
>>> from fedbandits.testing import check_algorithm, check_environment
>>> environment = fb.environments.Linear(clients=4, dim=3, arms=5)
>>> check_environment(environment)
>>> check_algorithm(fb.algorithms.CentralLinUCB(), environment)
"""

from fedbandits.testing.breach import BrokenPromiseError
from fedbandits.testing.environment import check_environment
from fedbandits.testing.suite import Check, check_algorithm, checks_of

__all__ = ["BrokenPromiseError", "Check", "check_algorithm", "check_environment", "checks_of"]
