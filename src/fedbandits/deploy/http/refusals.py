"""What is not done, and why: a status, a stable code for programs, a sentence for people.

    {"error": {"code": "unknown_decision", "message": "no decision '7-00c0ffee00c0ffee' is on record: ..."}}

Codes are part of the interface and do not change; sentences may. Whatever is refused, nothing has changed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from fedbandits.deploy.errors import (
    AgentError,
    ClosedError,
    ConflictError,
    CorruptError,
    DiskFullError,
    ExpiredError,
    InputError,
    LockedError,
    ReplayError,
    StorageError,
    UnknownDecisionError,
    UnknownEpisodeError,
)

log = logging.getLogger("fedbandits.agent")

STATUS = {
    "invalid_json": 400,
    "unauthorized": 401,
    "forbidden_host": 403,
    "not_found": 404,
    "unknown_decision": 404,
    "unknown_episode": 404,
    "method_not_allowed": 405,
    "body_too_slow": 408,
    "conflict": 409,
    "expired": 409,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "invalid_request": 422,
    "invalid_input": 422,
    "internal": 500,
    "damaged": 503,
    "disk_full": 503,
    "locked": 503,
    "overloaded": 503,
    "stopping": 503,
    "storage": 503,
}
"""The codes, and the status each comes with."""

MEANING = {
    400: "The body is not JSON: NaN, Infinity and names given twice are not either.",
    401: "The token is missing or wrong.",
    403: "Without a token, the service answers to the names of this machine alone.",
    404: "No such decision, or episode, is on record: never taken here, or forgotten.",
    405: "This path knows another method.",
    408: "The body did not arrive in time.",
    409: "`conflict`: the decision was rewarded with another value before, or its episode is about somebody else. "
    "`expired`: its time is over.",
    413: "The body is larger than the service takes.",
    415: "Bodies are JSON, with Content-Type: application/json.",
    422: "`invalid_request`: not what is described here. `invalid_input`: the agent cannot use these numbers.",
    500: "A defect of the service.",
    503: "Not possible at the moment; `damaged`: until the agent's file has been restored.",
}
"""What a status means, for the description of the interface."""

_OF_CLIENTS: tuple[tuple[type[AgentError], str], ...] = (
    (UnknownDecisionError, "unknown_decision"),
    (UnknownEpisodeError, "unknown_episode"),
    (ConflictError, "conflict"),
    (ExpiredError, "expired"),
    (InputError, "invalid_input"),
)
_OF_SERVICE: tuple[tuple[type[AgentError], str, str], ...] = (
    (DiskFullError, "disk_full", "the agent's disk is full; nothing was changed, call again when there is room"),
    (LockedError, "locked", "another process holds the agent's file; nothing was changed, call again"),
    (CorruptError, "damaged", "the agent's file is damaged; nothing was changed"),
    (ReplayError, "damaged", "the agent's file does not lead to the state it records; nothing was changed"),
    (StorageError, "storage", "the agent's file cannot be used; nothing was changed"),
    (ClosedError, "stopping", "the service is stopping; nothing was changed, call again when it is back"),
)
_FOR_GOOD = ("damaged", "storage")
_SHOWN_COMPLAINTS = 5
_OBJECT = "must be an object"
_NOT_PLACES = ("body", "rows", "named", "names", "row", "told", "one", "many")
"""Parts of a place that name an alternative of `models` or `choices`, which the client did not write."""


class RefusedError(Exception):
    """A request that is not done."""

    def __init__(self, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code]
        self.message = message
        self.headers = dict(headers or {})
        if code == "unauthorized":
            self.headers["WWW-Authenticate"] = "Bearer"
        if self.status == 503 and code not in _FOR_GOOD:
            self.headers["Retry-After"] = "1"

    def response(self) -> Response:
        """What the client gets."""
        # characters beyond ASCII are escaped: what a client sent may hold half a character, which has no encoding
        content = json.dumps({"error": {"code": self.code, "message": self.message}})
        return Response(content, self.status, self.headers, media_type="application/json")


def refusal(error: AgentError) -> RefusedError:
    """What an agent's error means to a client. Where its file lies and what is wrong with it is the operator's."""
    for kind, code in _OF_CLIENTS:
        if isinstance(error, kind):
            return RefusedError(code, str(error))
    for kind, code, message in _OF_SERVICE:
        if isinstance(error, kind):
            log.error("the agent cannot use its file: %s", error)
            return RefusedError(code, message)
    raise error


def complaints(errors: Sequence[Mapping[str, Any]]) -> str:
    """What a request has that it should not, by place; what was sent instead is not repeated."""
    lines = []
    for problem in errors[:_SHOWN_COMPLAINTS]:
        place = ".".join(str(part)[:40] for part in problem["loc"] if part not in _NOT_PLACES)
        sentence = problem["msg"].replace(
            "Input should be a valid dictionary or object to extract fields from", _OBJECT
        )
        sentence = sentence.replace("Input should be", "must be", 1)
        sentence = sentence[:1].lower() + sentence[1:]
        lines.append(f"{place}: {sentence}" if place else sentence)
    if len(errors) > _SHOWN_COMPLAINTS:
        lines.append(f"and {len(errors) - _SHOWN_COMPLAINTS} more")
    return "; ".join(lines)
