"""Decisions as they are asked for and answered, and the schema of what this particular agent takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from fedbandits.deploy.http.refusals import RefusedError
from fedbandits.deploy.http.values import Name, Number, Sent, check_numbers, one_or_many

if TYPE_CHECKING:
    from fedbandits.deploy.embedded.decision import Decision
    from fedbandits.deploy.http.configuration import Limits
    from fedbandits.deploy.settings import Settings

Row = list[Number]
EpisodeName = Annotated[str, Field(min_length=1, max_length=200, examples=["patient-17"])]
_LONGEST_NAME = 200
_MOST_PLACES = 1000
"""Of so many features without names, the schema lists the places by which they may be told."""


def _kind_of_features(value: Any) -> str | None:
    return "row" if isinstance(value, list) else "told" if isinstance(value, dict) else None


def _kind_of_arms(value: Any) -> str | None:
    if isinstance(value, list):
        return "names" if value and isinstance(value[0], str) else "rows"
    return "named" if isinstance(value, dict) else None


SentFeatures = Annotated[
    Annotated[Row, Tag("row")] | Annotated[dict[Name, Number], Tag("told")],
    Discriminator(
        _kind_of_features,
        custom_error_type="features",
        custom_error_message="must be a list of numbers, or an object from names of features to numbers",
    ),
]
SentArms = Annotated[
    Annotated[list[SentFeatures], Tag("rows")]
    | Annotated[list[Name], Tag("names")]
    | Annotated[dict[Name, SentFeatures], Tag("named")],
    Discriminator(
        _kind_of_arms,
        custom_error_type="arms",
        custom_error_message="must be a list of rows of features, or an object from names of arms to features",
    ),
]


class Choice(Sent):
    """The arms to choose among."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"arms": {"reminder": [1.0, 0.2, 0.0], "call": [1.0, 0.0, 0.7]}}]}
    )
    arms: SentArms = Field(description="One row of features for each arm: in a list, or by the arm's name.")
    who: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Whom the decision is about; recorded with it."
    )
    episode: EpisodeName | None = Field(
        default=None,
        description="Which episode this is the next decision of: needed where the algorithm plans, refused elsewhere.",
    )


class Choices(Sent):
    """Several choices at once: all are made, or none."""

    decisions: list[Choice]


Asked = Annotated[
    Annotated[Choice, Tag("one")] | Annotated[Choices, Tag("many")],
    one_or_many("decisions", 'an object with "arms", or with "decisions"'),
]


class Chosen(BaseModel):
    """What to do now."""

    id: str = Field(description="What the reward will be told with: keep it.")
    arm: str | int = Field(description="The name of the chosen arm; its index if the arms had no names.")
    index: int = Field(description="Its place among the arms that were sent, from 0.")
    score: float | None = Field(description="What the algorithm gave the arm; null where it compares nothing.")
    propensity: float = Field(description="With which probability the arm was taken.")

    @classmethod
    def of(cls, decision: Decision) -> Chosen:
        """A decision as it is told; an infinite score, of an arm that was never tried, is no number to JSON."""
        score = decision.score if decision.score is not None and math.isfinite(decision.score) else None
        return cls(id=decision.id, arm=decision.arm, index=decision.index, score=score, propensity=decision.propensity)


class ManyChosen(BaseModel):
    """What to do now, in the order in which it was asked."""

    decisions: list[Chosen]


def check_choices(choices: list[Choice], limits: Limits) -> None:
    """Refuse more decisions or arms than the service takes, and numbers that are too large."""
    if len(choices) > limits.most_decisions:
        raise RefusedError("invalid_request", f"decisions: at most {limits.most_decisions} at once, got {len(choices)}")
    for choice in choices:
        rows = list(choice.arms.values()) if isinstance(choice.arms, dict) else choice.arms
        if len(rows) > limits.most_arms:
            raise RefusedError("invalid_request", f"arms: at most {limits.most_arms} at once, got {len(rows)}")
        for row in rows:
            if not isinstance(row, str):
                check_numbers("features", list(row.values()) if isinstance(row, dict) else row, limits)


def describe_choices(schemas: dict[str, Any], settings: Settings, limits: Limits) -> None:
    """Write into OpenAPI `schemas` what arms this agent takes."""
    features = _features(
        settings, {"type": "number", "minimum": -limits.largest_number, "maximum": limits.largest_number}
    )
    least, most = (1, limits.most_arms) if settings.arms is None else (settings.arms, settings.arms)
    name = {"type": "string", "maxLength": _LONGEST_NAME}
    forms: list[dict[str, Any]] = [
        {"type": "array", "items": features, "minItems": least, "maxItems": most},
        {
            "type": "object",
            "propertyNames": {"maxLength": _LONGEST_NAME},
            "additionalProperties": features,
            "minProperties": least,
            "maxProperties": most,
        },
    ]
    if settings.arm_names is not None:
        name = {"enum": list(settings.arm_names)}
    if settings.arm_names is not None or not settings.algorithm.about.says:
        largest = min(settings.dim, limits.most_arms)
        forms.append({"type": "array", "items": name, "minItems": 1, "maxItems": largest, "uniqueItems": True})
    arms = schemas["Choice"]["properties"]["arms"]
    schemas["Choice"]["properties"]["arms"] = {"description": arms["description"], "oneOf": forms}
    schemas["Choices"]["properties"]["decisions"]["maxItems"] = limits.most_decisions


def _features(settings: Settings, number: dict[str, Any]) -> dict[str, Any]:
    """The features of one arm: a row, or by their names or places."""
    row = {"type": "array", "items": number, "minItems": settings.dim, "maxItems": settings.dim}
    names = settings.features
    if names is None and (settings.missing == "refused" or settings.dim > _MOST_PLACES):
        return row
    told = {
        "type": "object",
        "propertyNames": {"enum": list(names or map(str, range(settings.dim)))},
        "additionalProperties": number,
    }
    if names is not None and settings.missing == "refused":
        told["required"] = list(names)
    return {"oneOf": [row, told]}
