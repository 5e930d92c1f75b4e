"""A resident SuperExec: starts the server of each run as a copy of itself, which has loaded everything already.

A SuperLink with `--isolation process` leaves it to others to start what it is given to run. Flower's own program for it
starts a new Python process for every run; this one, on Linux, is a copy of a process that knows the library, and so is
the server: Flower's own function, with the options of `flwr-serverapp`, except that the token of a run is in no
command line. Like a resident node it relies on how Flower 1.41 works inside:

    python -m fedbandits.deploy.flower.executor --superlink 127.0.0.1:9093 --root-certificates ca.crt
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from pathlib import Path

import httpx
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.cli import flwr_serverapp

import fedbandits.deploy.flower.server_app  # noqa: F401  (what a copy becomes)

log = logging.getLogger(__name__)


def main() -> None:
    """Run until stopped."""
    parser = argparse.ArgumentParser(description="Starts the server of a federation for its SuperLink.")
    parser.add_argument("--superlink", required=True)
    parser.add_argument("--root-certificates", type=Path, required=True)
    parser.add_argument("--poll", type=float, default=0.2)
    told = parser.parse_args()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # how a run has ended is told to the SuperLink
    while True:
        token = acquired(told.superlink, told.root_certificates, told.poll)
        if os.fork() == 0:
            be_server(told.superlink, told.root_certificates, token)
            return


def acquired(superlink: str, authority: Path, poll: float) -> str:
    """The token of the next run that is to be started; no connection is left open that a copy would have, too."""
    with RuntimeHttpClient.from_server_address(
        server_address=superlink,
        insecure=False,
        root_certificates=authority.read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec")],
        # Flower's own would wait twice as long after every attempt
        retry_invoker=None,
    ) as client:
        while True:
            try:
                found = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
                if found.HasField("task") and found.token:
                    return str(found.token)
            except (httpx.HTTPError, OSError) as error:
                log.debug("the SuperLink is not ready: %s", error)
            time.sleep(poll)


def be_server(superlink: str, authority: Path, token: str) -> None:
    """Be Flower's `flwr-serverapp` for the run with this token; end with the process that this is a copy of."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.argv = [
        "flwr-serverapp",
        *("--runtime-api-address", superlink, "--root-certificates", str(authority)),
        *("--token", token, "--parent-pid", str(os.getppid())),
    ]
    flwr_serverapp()


if __name__ == "__main__":
    main()
