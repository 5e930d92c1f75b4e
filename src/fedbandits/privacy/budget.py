"""From a total budget to a schedule, and back: the hyper-parameters of everybody who releases means."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.parameters import parameters
from fedbandits.privacy.accountant import in_closed_form, total
from fedbandits.privacy.schedules import ReleaseRule, Releases, broadcast

_PRECISION = 1e-4
"""Relative, of the calibrated parameter."""
_FURTHER = 1.25
"""How far above what is known to be affordable is looked next."""


@lru_cache(maxsize=256)
def calibrate(epsilon: float, delta: float, rate: float, horizon: int, schedule: ReleaseRule = broadcast) -> float:
    """The largest parameter in (0, 1] whose releases within `horizon` pulls of one arm cost at most `epsilon` in all.

    By bisection on the logarithm. What is spent does not fall as the parameter grows: each release comes earlier (see
    `ReleaseRule`), hence costs more, and there are more of them. So everything below a parameter within the budget is
    within it too, and the one returned was itself seen to be. A bound in closed form says where to begin: what it finds
    affordable is, and little above that is looked at. Raises `ConfigError` if not even one release fits.

    >>> s = calibrate(1.0, 1e-5, 1.1, 1000)
    >>> from fedbandits.privacy.accountant import total
    >>> from fedbandits.privacy.schedules import broadcast
    >>> total(broadcast(s, 1.1, 1000).losses, 1e-5) <= 1.0
    True
    """

    def within(cost: Callable[[FloatArray, float], float], parameter: float) -> bool:
        return cost(schedule(parameter, rate, horizon).losses, delta) <= epsilon

    nothing = 1 / (8 * horizon)  # is released within the horizon
    low = _largest(lambda parameter: within(in_closed_form, parameter), nothing, 1.0)
    high = low
    while high < 1 and within(total, high):
        low, high = high, min(_FURTHER * high, 1.0)
    low = _largest(lambda parameter: within(total, parameter), low, high)
    if len(schedule(low, rate, horizon).counts) == 0:
        raise ConfigError(
            f"epsilon: {epsilon} allows no release within {horizon} pulls, of which the cheapest costs "
            f"{horizon ** (-rate / 2):.3g}; raise epsilon, or the horizon"
        )
    return low


def _largest(affordable: Callable[[float], bool], low: float, high: float) -> float:
    """The largest parameter from `low`, which is affordable, to `high` that is affordable, to `_PRECISION`."""
    if affordable(high):
        return high
    while high / low > 1 + _PRECISION:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return low


@parameters
class PrivacyParameters:
    """How much may be known about one reward, in all: either a budget or a schedule.

    `epsilon`: the total budget of an agent over the whole horizon, at `delta`; the schedule follows (`calibrate`). If
    neither is given it is 1: then seeing everything changes nobody's odds on one reward by more than a factor e.
    `schedule`: instead, the publication's parameter in (0, 1], whatever it costs; read the cost off `spent`. `delta`
    should be far below one over the number of rewards, hence the default; 0 asks for pure differential privacy.
    `rate` is v: noise of scale n^(v/2 - 1) on the mean of n rewards. The budget holds beyond the horizon too, since
    nothing is released after `horizon` pulls of an arm.
    """

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    delta: Annotated[float, Field(ge=0, lt=1)] = 1e-5
    schedule: Annotated[float, Field(gt=0, le=1)] | None = None
    rate: Annotated[float, Field(gt=1, lt=1.5)] = 1.1

    default_epsilon: ClassVar[float] = 1.0

    @model_validator(mode="after")
    def _budget_or_schedule(self) -> PrivacyParameters:
        if self.epsilon is not None and self.schedule is not None:
            raise ValueError("epsilon is the total budget, schedule the publication's parameter: give one of them")
        return self

    def parameter(self, horizon: int, rule: ReleaseRule) -> float:
        """The parameter of the schedule, for agents who may pull an arm `horizon` times."""
        if self.schedule is not None:
            return self.schedule
        epsilon = self.default_epsilon if self.epsilon is None else self.epsilon
        return calibrate(epsilon, self.delta, self.rate, horizon, rule)

    def releases(self, horizon: int, rule: ReleaseRule) -> Releases:
        """When the mean of an arm is released."""
        return rule(self.parameter(horizon, rule), self.rate, horizon)
