"""How each program of a federation on one machine is called."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fedbandits.deploy.flower.machine.ports import LOOPBACK

NODE = "fedbandits.deploy.flower.node"
"""The module of a resident node."""
NODE_LOADS = (
    NODE,
    "anyio._backends._asyncio",
    "flwr.supernode.main",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)
"""It, and what Flower and uvicorn would import in each node when it serves."""
EXECUTOR = "fedbandits.deploy.flower.executor"
"""The module that starts servers for a SuperLink that does not."""
_PROGRAMS = Path(sys.executable).parent


def environment(home: Path) -> dict[str, str]:
    """What Flower's programs read beside their options; `home` is where they keep what they keep."""
    return {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": f"{_PROGRAMS}:{os.environ.get('PATH', '')}",
        "no_proxy": LOOPBACK,
        "NO_PROXY": LOOPBACK,
    }


def flowers(program: str) -> str:
    """One of Flower's own programs, of the environment that this one runs in."""
    return str(_PROGRAMS / program)


def superlink(port: int, tls: Path, state: Path | None, *, executes: bool) -> list[str]:
    """Flower's switchboard on loopback, with TLS and authentication of nodes; its state in a file, or in memory.

    Unless it `executes` runs by processes that it starts, somebody else has to (`executor`).
    """
    return [
        flowers("flower-superlink"),
        *("--host", LOOPBACK, "--port", str(port)),
        *("--ssl-ca-certfile", str(tls / "ca.crt")),
        *("--ssl-certfile", str(tls / "server.crt")),
        *("--ssl-keyfile", str(tls / "server.key")),
        *(("--database", str(state)) if state is not None else ()),
        *("--isolation", "subprocess" if executes else "process"),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
    ]


def gate(port: int, tls: Path, control: str) -> list[str]:
    """The gate in front of the SuperLink at `control`."""
    return [
        *(sys.executable, "-m", "fedbandits", "federation", "gate", str(tls)),
        *("--host", LOOPBACK, "--port", str(port), "--superlink", control),
    ]


def executor_options(control: str, authority: Path) -> list[str]:
    """What an executor has to be told."""
    return ["--superlink", control, "--root-certificates", str(authority)]


def node_options(address: str, authority: Path, key: Path, port: int, agent: Path, identity: int) -> list[str]:
    """What a node has to be told, Flower's own as well as a resident one."""
    return [
        *("--superlink", address, "--root-certificates", str(authority)),
        *("--auth-supernode-private-key", str(key), "--port", str(port)),
        *("--node-config", f'agent="{agent}" identity={identity}'),
    ]
