"""What an operator tells a SuperLink: which keys may come in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import httpx
from flwr.cli.supernode.register import try_load_public_key
from flwr.proto.control_pb2 import RegisterNodeRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor


def register(address: str, authority: Path, public_keys: Iterable[Path]) -> None:
    """Let the nodes with these public keys in, as `flwr supernode register` does; those that are in stay in."""
    client = ControlHttpClient.from_server_address(
        server_address=address,
        insecure=False,
        root_certificates=authority.read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr")],
    )
    try:
        for path in public_keys:
            try:
                client.RegisterNode(RegisterNodeRequest(public_key=try_load_public_key(path)))
            except httpx.HTTPStatusError as error:
                if "already in use" not in error.response.text:
                    raise RuntimeError(f"{path} was not registered: {error.response.text}") from None
    finally:
        client.close()
