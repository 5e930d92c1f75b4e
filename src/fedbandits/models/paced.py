"""A schedule in place of a trigger that depends on data."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.models.triggers import Trigger, observed


@parameters
class Paced:
    """`every` b: an agent calls after b own turns since it last handed over, whatever it has observed; None: by data.

    A moment that depends on data tells of them, whatever is said: privacy rests on schedules. What is proved of a
    trigger is not proved of them. In its place stands the parameter that `by_data` names; giving both is an error.
    """

    every: Annotated[int, Field(ge=1)] | None = None

    by_data: ClassVar[str] = "threshold"
    """The parameter that says when by data."""

    @model_validator(mode="after")
    def _says_when_once(self) -> Self:
        given = getattr(self, self.by_data)
        (default,) = (item.default for item in dataclasses.fields(self) if item.name == self.by_data)
        if self.every is not None and given != default:
            raise ValueError(
                f"{self.by_data}={given} and every={self.every} both say when agents call, by data and by a schedule; "
                "leave one out"
            )
        return self

    def paced(self, trigger: Trigger) -> Trigger:
        """The schedule, where there is one; else `trigger`."""
        return trigger if self.every is None else Trigger(observed, float(self.every))


def by_schedule(one: Paced, about: About, unit: str = "own turn") -> About:
    """The entry of one that may have a schedule, `about` being that without (`contract.depending`); `unit` is what
    `every` counts.
    """
    if one.every is None:
        return about
    turns = f"every {unit}" if one.every == 1 else f"{one.every} {unit}s"
    return dataclasses.replace(
        about,
        calls="scheduled",
        talks=f"by a schedule, after {turns}; else: {about.talks}",
        guarantee=f"none proved for a schedule; else: {about.guarantee}",
    )
