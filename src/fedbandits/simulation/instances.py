"""How hard an instance is, as far as that can be told before anybody has played it; and which seeds stand for which.

Under one environment some seeds tell more than others: where two arms are nearly as good, regret differs most between
runs. What can be told of an instance alone may say which seeds are to be run, without what happens in them having any
say in it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedbandits.contract.catalogue import ConfigError, hint
from fedbandits.contract.streams import seeds_of
from fedbandits.contract.world import Environment, World

_BEYOND_CHANCE = 6.0
"""Standard deviations by which shares of kinds may be off before they are taken to be wrong."""
_PATIENCE = 3.0
"""How many times as many seeds as it should take are looked at before a kind is taken never to come."""


def smallest_gap(world: World) -> float:
    """max_k mu_k - max_{k not best} mu_k, the mean reward of the best arm less that of the next; zero where two are the
    best, NaN where arms change or there is one only.

    >>> import fedbandits as fb
    >>> env = fb.environments.BernoulliArms(arms=3, means=(0.2, 0.9, 0.6))
    >>> round(smallest_gap(world_of(env, horizon=10, seed=seeds_of(0).world)), 6)
    0.3
    """
    means = world.mean_rewards()
    if means is None or len(means) < 2:
        return math.nan
    next_best, best = np.partition(means, -2)[-2:]
    return float(best - next_best)


HARDNESS: Mapping[str, Callable[[World], float]] = {"smallest_gap": smallest_gap}
"""What tells kinds of instances apart, by the name of its metric."""


def world_of(environment: object, horizon: int, seed: np.random.SeedSequence) -> World:
    """The instance that `seed` stands for, nobody having played in it."""
    world = environment.world(horizon, seed)  # type: ignore[attr-defined]
    if not isinstance(world, World):
        raise ConfigError(
            f"environment: {type(environment).__name__}.world returned {type(world).__name__}, which is no World; "
            "make it a subclass of fedbandits.environments.World, with turn and pay"
        )
    return world


def kind_of(hardness: float, upto: Sequence[float]) -> int:
    """0 up to and with `upto[0]`, then 1 up to `upto[1]`, and so on; the last kind is beyond all of them.

    >>> [kind_of(gap, (0.1, 0.2)) for gap in (0.05, 0.1, 0.15, 0.3)]
    [0, 0, 1, 2]
    """
    return bisect_left(upto, hardness)


def seeds_of_kinds(
    environment: Environment,
    horizon: int,
    by: str,
    upto: Sequence[float],
    shares: Sequence[float],
    counts: Sequence[int],
    first: int = 0,
) -> list[int]:
    """The first `counts[h]` seeds, from `first` on, whose instances are of kind h, for each h, in ascending order.

    Kinds are told apart `by` a measure of `HARDNESS`, see `kind_of`. `shares[h]` is how often kind h comes: what is met
    on the way must not contradict it.
    """
    if by not in HARDNESS:
        raise ConfigError(f"by: unknown measure {by!r} of instances; {hint(by, list(HARDNESS))}")
    measure = HARDNESS[by]
    most = int(_PATIENCE * max(count / share for count, share in zip(counts, shares, strict=True))) + 1000
    found, met = [], [0] * len(shares)
    seed = first
    while any(seen < count for seen, count in zip(met, counts, strict=True)):
        if seed - first >= most:
            _contradict(met, shares, by)
            raise ConfigError(f"seeds: of {most:,} instances {tuple(met)} are of the kinds asked for; ask for fewer")
        hardness = measure(world_of(environment, horizon, seeds_of(seed).world))
        if math.isnan(hardness):
            raise ConfigError(f"by: {by} needs an environment that always shows everybody the same arms")
        kind = kind_of(hardness, upto)
        if met[kind] < counts[kind]:
            found.append(seed)
        met[kind] += 1
        seed += 1
    _contradict(met, shares, by)
    return found


def _contradict(met: Sequence[int], shares: Sequence[float], by: str) -> None:
    """An error if so many instances `met` of each kind are not what `shares` let expect."""
    total = sum(met)
    for kind, (seen, share) in enumerate(zip(met, shares, strict=True)):
        off = abs(seen - share * total)
        if off > _BEYOND_CHANCE * math.sqrt(share * (1 - share) * total) + _BEYOND_CHANCE:
            raise ConfigError(
                f"shares: {seen:,} of {total:,} instances have the {by} of kind {kind}, a share of {seen / total:.3g} "
                f"and not {share:.3g}"
            )
