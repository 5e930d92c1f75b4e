"""What requests are made of: numbers and names, and limits on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Strict

from fedbandits.deploy.http.refusals import RefusedError

if TYPE_CHECKING:
    from fedbandits.deploy.http.configuration import Limits

# strict: a number is neither a string that looks like one nor a truth value
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=200)]


class Sent(BaseModel):
    """What comes from a client; names that are not known are refused."""

    model_config = ConfigDict(extra="forbid")


def one_or_many(many: str, wanted: str) -> Discriminator:
    """Tells the tags "one" and "many" apart: an object with a list under the name `many` is several at once.

    What is no object must be what is `wanted`.
    """

    def kind(value: Any) -> str | None:
        return None if not isinstance(value, dict) else "many" if many in value else "one"

    return Discriminator(kind, custom_error_type=many, custom_error_message=f"must be {wanted}")


def check_numbers(what: str, numbers: list[float], limits: Limits) -> None:
    """Refuse numbers that are too large."""
    if numbers and not max(max(numbers), -min(numbers)) <= limits.largest_number:
        raise RefusedError(
            "invalid_input", f"{what} lie between -{limits.largest_number:g} and {limits.largest_number:g}"
        )
