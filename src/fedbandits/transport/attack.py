"""Attacks: agents that lie to their server, as an option of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import BoolArray
from fedbandits.contract.errors import ConfigError, hint
from fedbandits.contract.parameters import parameters
from fedbandits.contract.specs import parse
from fedbandits.graphs.network import Faults
from fedbandits.transport.mishaps import byzantine, mishaps_of

How = Literal["flip", "shift", "inflate", "collude", "adaptive"]
_STRENGTHS: dict[How, float] = {"flip": 1.0, "shift": 0.3, "inflate": 5.0, "collude": 1.0, "adaptive": 0.98}


@parameters
class Attack:
    """A `share` of the agents, rounded down, lies to the server; world and honest agents are as without them.

    A liar decides like anybody else, but what it learns from, and hence what it sends, is made up. With rewards y of
    arms x and the `strength` s (None: the number in brackets):

    - ``"flip"`` (1): it learns from -s y; where rewards lie in a known range, from the mirror image of y in it;
    - ``"shift"`` (0.3): from y + s <u, x>, u being a direction of its own;
    - ``"inflate"`` (5): from flipped rewards, and it claims s times the data: every sum that it sends is s times that;
    - ``"collude"`` (1): all liars learn from mu(<theta', x>) for one fabricated theta' of the largest norm, and claim s
      times the data;
    - ``"adaptive"`` (0.98): they know all that honest agents have handed over, and the `robust` stage of the run (its
      defaults where there is none). All hand over the same: as much data as passes for plausible, along a parameter
      that is turned away from the honest one by s times what the filter tolerates.

    `lies` is how often each of them lies, None for always: who has handed over that many lies learns and tells the
    truth from then on. Who lies follows from the seed, is the same for every kind of attack, and who lies at some share
    does so at every larger one: they are the byzantine agents of a network under that seed.

    >>> Attack(how="inflate", share=0.2).size
    5.0
    """

    how: How
    share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    strength: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    lies: Annotated[int, Field(ge=1)] | None = None

    @property
    def size(self) -> float:
        """s."""
        return _STRENGTHS[self.how] if self.strength is None else self.strength

    @property
    def claims(self) -> float:
        """How many times its data a liar claims to have."""
        return self.size if self.how in ("inflate", "collude") else 1.0

    def liars(self, n: int, mishaps: np.random.SeedSequence) -> BoolArray:
        """(n,) who lies, by the seed of a run's mishaps."""
        return byzantine(mishaps_of(Faults(), mishaps), self.share, n)

    def described(self) -> dict[str, Any]:
        """In plain values, as in an experiment file."""
        return {"name": self.how, "share": self.share, "strength": self.size, "lies": self.lies}


AttackLike: TypeAlias = Attack | str
ATTACKS: Mapping[str, type[Attack]] = dict.fromkeys(get_args(How), Attack)
"""By the name of what they do."""


def attack_of(given: AttackLike | None, option: str = "attack") -> Attack | None:
    """The attack that `given` stands for; `option` is named in errors.

    >>> attack_of("inflate:share=0.2")
    Attack(how='inflate', share=0.2, strength=None, lies=None)
    """
    if given is None or isinstance(given, Attack):
        return given
    if not isinstance(given, str):
        raise ConfigError(f"{option}: {given!r} is no attack; give fb.Attack(how=...), or words: inflate:share=0.2")
    spec = parse(given, option)
    if spec.label or spec.stages:
        raise ConfigError(f"{option} {given!r}: is no attack; write {'|'.join(ATTACKS)}, and :KEY=VALUE,...")
    return attack_named(spec.name, spec.parameters, option)


def attack_named(how: str, parameters: Mapping[str, Any], option: str = "attack") -> Attack:
    """The attack called `how` with `parameters`; raises `ConfigError`."""
    if how not in ATTACKS:
        raise ConfigError(f"{option}: there is no attack {how!r}; {hint(how, list(ATTACKS))}")
    return Attack(how=cast(How, how), **parameters)
