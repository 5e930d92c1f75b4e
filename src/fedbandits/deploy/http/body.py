"""How the body of a request is read: within limits while it arrives, and as JSON in the strict sense."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from fedbandits.deploy.http.configuration import Limits
from fedbandits.deploy.http.refusals import RefusedError

_MOST_DIGITS = 400
"""The largest numbers have 309; reading whole numbers takes time that grows with the square of their length."""
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def bounded_by(limits: Limits) -> type[APIRoute]:
    """Routes whose requests are read within `limits`, before anything else is done with them."""

    class BoundedRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            handle = super().get_route_handler()

            async def handler(request: Request) -> Response:
                if self.body_field is not None:
                    request = Read(request.scope, request.receive, parsed(await _content(request, limits)))
                return await handle(request)

            return handler

    return BoundedRoute


class Read(Request):
    """A request whose body was read and parsed."""

    def __init__(self, scope: Any, receive: Any, value: Any) -> None:
        super().__init__(scope, receive)
        self._value = value

    async def body(self) -> bytes:
        """Anything that is not empty: `json` is what counts."""
        return b"read"

    async def json(self) -> Any:
        """What the body says."""
        return self._value


def parsed(body: bytes) -> Any:
    """The value of a JSON text in UTF-8. NaN, Infinity, and names that an object has twice are refused.

    >>> parsed(b'{"arms": [[1, 0.5]]}')
    {'arms': [[1, 0.5]]}
    """
    try:
        return json.loads(
            body.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_whole, object_pairs_hook=_object
        )
    except RecursionError:
        reason = "it is nested too deeply"
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at character {error.pos}"
    except ValueError as error:
        reason = str(error)
    raise RefusedError("invalid_json", f"the body is not JSON in UTF-8: {reason}")


async def _content(request: Request, limits: Limits) -> bytes:
    _check_headers(request, limits)
    content = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                content += chunk
                if len(content) > limits.largest_body:
                    raise _too_large(limits)
    except TimeoutError:
        raise RefusedError("body_too_slow", f"the body did not arrive within {limits.body_seconds:g} seconds") from None
    except ClientDisconnect:
        raise RefusedError("invalid_json", "the body ended early") from None  # nobody is there to read it
    return bytes(content)


def _check_headers(request: Request, limits: Limits) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # no form of a web page can send this type to another site, which protects a service without token
    if kind != "application/json":
        raise RefusedError("unsupported_media_type", "send JSON, with the header Content-Type: application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError("unsupported_media_type", "send the body as it is, without Content-Encoding")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limits.largest_body:
        raise _too_large(limits)


def _too_large(limits: Limits) -> RefusedError:
    return RefusedError("body_too_large", f"a request has at most {limits.largest_body} bytes; send less at once")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has more than {_MOST_DIGITS} digits")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        raise ValueError("an object has two members of one name")
    return held
