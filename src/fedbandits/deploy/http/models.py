"""What is sent and what is answered, as types and as the OpenAPI schema of one particular agent."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, Tag

from fedbandits.contract.facts import Range
from fedbandits.contract.protection import Adjacency, Definition, Unit
from fedbandits.deploy.http.choices import EpisodeName, describe_choices
from fedbandits.deploy.http.refusals import RefusedError
from fedbandits.deploy.http.values import Number, Sent, check_numbers, one_or_many

if TYPE_CHECKING:
    from fedbandits.deploy.http.configuration import Limits
    from fedbandits.deploy.settings import Settings

DecisionId = Annotated[str, Field(max_length=40, examples=["12-4c6f0d7be5a98a13"])]


class Reward(Sent):
    """What came of a decision."""

    decision: DecisionId = Field(description="The id of the decision.")
    value: Number = Field(description="The reward.")


class Rewards(Sent):
    """What came of several decisions, in any order; each is counted or refused on its own."""

    rewards: list[Reward]


Told = Annotated[
    Annotated[Reward, Tag("one")] | Annotated[Rewards, Tag("many")],
    one_or_many("rewards", 'an object with "decision" and "value", or with "rewards"'),
]


class Counted(BaseModel):
    """A reward that the agent has learned from: now, or when it was told before."""

    decision: str
    outcome: Literal["counted", "duplicate"]


class Refused(BaseModel):
    """A reward that was not counted, for the reason of `code`."""

    decision: str
    outcome: Literal["refused"] = "refused"
    code: Literal["unknown_decision", "conflict", "expired", "invalid_input"]
    message: str


class Outcomes(BaseModel):
    """What became of each reward, in the order in which they were sent."""

    counted: int
    duplicate: int
    refused: int
    results: list[Counted | Refused]


class Ending(Sent):
    """An episode that is over before it had all its stages."""

    episode: EpisodeName = Field(description="Its name.")


class Ended(BaseModel):
    """An episode that is over: now, or before."""

    episode: str
    outcome: Literal["ended", "over"]


class EpisodesStanding(BaseModel):
    """How the episodes of an agent that plans are getting on."""

    open: int = Field(description="Episodes under way, or waiting for rewards.")
    waiting: int = Field(description="Those among them that are over and wait for rewards.")
    left_at: datetime | None = Field(description="When the open episode was left that expires next.")
    closed: int = Field(description="Episodes that are over, learned as far as all was known.")
    truncated: int = Field(description="Those among them that expired before all was known.")
    dropped: int = Field(description="Decisions of which nothing was learned, because their episode had expired.")


Epsilon = float | Literal["infinite"]
"""JSON has no infinity, and null would say that nothing is promised."""


class Privacy(BaseModel):
    """What the agent may spend on what it releases, what it has spent, and what that protects."""

    unit: Unit = Field(description="Whose data are protected: one observation, an agent's, or a person's.")
    adjacency: Adjacency = Field(description="How histories that may not be told apart differ in one unit.")
    definition: Definition = Field(
        description="What is protected: all that leaves the agent, its choices included, or its releases alone, as if "
        "later observations did not depend on earlier ones."
    )
    mechanism: str = Field(description="How noise is added to sums.")
    epsilon: float = Field(description="The budget.")
    delta: float
    spent: Epsilon = Field(description="Of the budget, by this definition.")
    strictly: Epsilon = Field(description="Spent, counting the agent's choices, too.")
    releases: int = Field(description="Releases made.")
    allowed: int = Field(description="Releases that may be made; after the last one nothing is released.")
    copies: int = Field(
        description="Backups that this agent was restored from, one after the other; all that the files before it were "
        "allowed counts as spent."
    )


class Standing(BaseModel):
    """How the agent is getting on."""

    algorithm: str
    dim: int = Field(description="Features of an arm.")
    arms: int | None = Field(description="Arms of every decision; null if that may vary.")
    agents: int = Field(description="Agents of the federation.")
    identity: int = Field(description="Which of them this is.")
    decisions: int = Field(description="Decisions ever taken.")
    rewards: int = Field(description="Rewards ever counted.")
    awaiting: int = Field(description="Decisions whose reward may still come.")
    expired: int = Field(description="Decisions whose reward did not come in time.")
    late: int = Field(description="Rewards that were refused because their decision had expired.")
    letters: int = Field(description="Letters of a server that were answered.")
    synchronised_at: datetime | None = Field(description="When the server last spoke with this agent.")
    calling: bool = Field(description="Whether the agent asks the server for a conversation.")
    level: float | None = Field(description="How far the trigger has come: at 1 the agent calls; null if it has none.")
    spent: Epsilon | None = Field(
        description="Epsilon of differential privacy spent, strictly counted; null if nothing is promised."
    )
    budget: Privacy | None = Field(description="What the agent may spend; null if it has no budget.")
    clock_offset_seconds: float | None = Field(
        description="How far this machine's clock is ahead of the server's, as far as that is certain; null: unknown."
    )
    episodes: EpisodesStanding | None = Field(description="Of an agent that plans; null for others.")


class Health(BaseModel):
    """The service answers."""

    status: Literal["ok"] = "ok"


class ErrorText(BaseModel):
    """A stable code, and a sentence."""

    code: str
    message: str


class Error(BaseModel):
    """Why a request was refused."""

    error: ErrorText


def check_rewards(rewards: list[Reward], limits: Limits) -> None:
    """Refuse more rewards than the service takes at once, and numbers that are too large."""
    if len(rewards) > limits.most_rewards:
        raise RefusedError("invalid_request", f"rewards: at most {limits.most_rewards} at once, got {len(rewards)}")
    check_numbers("rewards", [reward.value for reward in rewards], limits)


def describe_sizes(schemas: dict[str, Any], settings: Settings, limits: Limits) -> None:
    """Write into OpenAPI `schemas` how many arms of how many features, and how many rewards, the service takes."""
    describe_choices(schemas, settings, limits)
    value = schemas["Reward"]["properties"]["value"]
    value |= {"minimum": -limits.largest_number, "maximum": limits.largest_number}
    within = settings.problem.get(Range)
    if within is not None:
        # not as minimum and maximum: a reward outside is refused on its own, not the request that it is part of
        value["description"] = f"The reward, between {within.low:g} and {within.high:g}."
    schemas["Rewards"]["properties"]["rewards"]["maxItems"] = limits.most_rewards
