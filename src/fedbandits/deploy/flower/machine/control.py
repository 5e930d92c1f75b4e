"""What an operator tells and asks a SuperLink about nodes: which keys may come in, and who is there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import httpx
from flwr.cli.supernode.register import try_load_public_key
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest
from flwr.supercore.constant import NodeStatus
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor


def register(address: str, authority: Path, public_keys: Iterable[Path]) -> None:
    """Let the nodes with these public keys in, as `flwr supernode register` does; those that are in stay in."""
    with _connected(address, authority) as client:
        for path in public_keys:
            try:
                client.RegisterNode(RegisterNodeRequest(public_key=try_load_public_key(path)))
            except httpx.HTTPStatusError as error:
                if "already in use" not in error.response.text:
                    raise RuntimeError(f"{path} was not registered: {error.response.text}") from None


def online(address: str, authority: Path) -> int:
    """How many nodes are connected, as `flwr supernode ls` shows them."""
    with _connected(address, authority) as client:
        return sum(node.status == NodeStatus.ONLINE for node in client.ListNodes(ListNodesRequest()).nodes_info)


def _connected(address: str, authority: Path) -> ControlHttpClient:
    return ControlHttpClient.from_server_address(
        server_address=address,
        insecure=False,
        root_certificates=authority.read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr")],
    )
