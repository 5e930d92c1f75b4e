"""A resident node: Flower's SuperNode and the ClientApp in one process that stays.

Flower starts a new Python process for every message that reaches a node, and looks for messages every three seconds: a
round trip takes as long as it takes to import everything. A resident node keeps the agent open and answers at once. It
also runs the ClientApp of the installed library and nothing else: the application bundle that a SuperLink hands to its
nodes is never unpacked, so that whoever runs the SuperLink cannot run code of theirs on a node.

It relies on how Flower 1.41 works inside. With another version use `flower-supernode`, which serves the same ClientApp
under the same options:

    python -m fedbandits.deploy.flower.node --superlink HOST:PORT --root-certificates ca.crt
        --auth-supernode-private-key agent-0 --port 9100 --node-config 'agent="agent-0.db" identity=0'
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
import threading
import time

import httpx
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.version import package_version
from flwr.supernode.cli.flower_supernode import flower_supernode
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from fedbandits.deploy.flower.client_app import app
from fedbandits.deploy.flower.timing import (
    WRONG_CLOCK,
    NodeRefusedError,
    Pace,
    hasten_node,
    hasten_objects,
    hasten_return,
    tell_wrong_clock,
)

log = logging.getLogger(__name__)
_SUPPORTED = "1.41."
_RETURN_SECONDS, _ATTEMPTS = 3.0, 20
_TELL_SECONDS = 30.0


def main() -> None:
    """Run until stopped. All options but `--poll`, and `--attempt` for its own use, are those of `flower-supernode`."""
    if not package_version.startswith(_SUPPORTED):
        sys.exit(f"a resident node needs flwr {_SUPPORTED}x, found {package_version}; use flower-supernode instead")
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--poll", type=float, default=0.1)
    parser.add_argument("--port", type=int, default=9094)
    parser.add_argument("--attempt", type=int, default=1)
    parser.add_argument("--superlink", default="")
    own, rest = parser.parse_known_args()
    pace = Pace(own.poll)
    hasten_node(pace)
    hasten_objects(own.poll)
    hasten_return()
    tell_wrong_clock()
    threading.Thread(target=work, args=(f"127.0.0.1:{own.port}", pace), daemon=True).start()
    if own.superlink:
        await_superlink(own.superlink, own.poll)
        rest += ["--superlink", own.superlink]
    sys.argv = ["flower-supernode", "--isolation", "process", "--port", str(own.port), *rest]
    try:
        flower_supernode()
    except NodeRefusedError as error:
        clock = WRONG_CLOCK in str(error)
        why = (
            str(error).splitlines()[-1] if clock else "the key is not registered, or the node is taken for online still"
        )
        if own.attempt >= _ATTEMPTS and not clock:
            sys.exit("refused for good: register the node's public key at the SuperLink")
        log.warning("refused: %s; trying again", why)
        time.sleep(_RETURN_SECONDS)
        # threads and connections of this attempt are best left behind
        os.execv(sys.executable, [*sys.orig_argv, "--attempt", str(own.attempt + 1)])


def await_superlink(address: str, poll: float) -> None:
    """Return when somebody listens there. Flower's own wait is twice as long after every attempt."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return  # for Flower to complain about
    told = -_TELL_SECONDS
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_TELL_SECONDS).close()
            return
        except OSError as error:
            if time.monotonic() - told >= _TELL_SECONDS:
                log.warning("nobody listens at %s yet (%s); trying again", address, error)
                told = time.monotonic()
            time.sleep(poll)


def work(address: str, pace: Pace) -> None:
    """Take the tasks of the SuperNode at `address`, one after the other, as a SuperExec does, but in this process."""
    token = _Token()
    client = RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,
        root_certificates=None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), token],
        # Flower's own would end the process when a task has expired
        retry_invoker=None,
    )
    while True:
        try:
            token.value = None
            found = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
            if found.HasField("task") and found.token:
                token.value = found.token
                answer(client)
                continue
        except (httpx.HTTPError, OSError) as error:
            log.debug("the SuperNode is not ready: %s", error)
        except Exception:  # such as a message whose sender was killed while it uploaded its parts
            log.exception("a task could not be done")
        pace.await_task()


def answer(client: RuntimeHttpClient) -> None:
    """One task: a message in, a reply out. What the app raises is told to the server, as Flower would."""
    message, context, _, _ = pull_task_input(client)
    try:
        reply = app(message=message, context=context)
        status, details = SubStatus.COMPLETED, ""
    except Exception as error:
        log.exception("a message could not be answered")
        details = f"{type(error).__name__}: {error}"
        reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, details), reply_to=message)
        status = SubStatus.FAILED
    push_message(client, reply, context)
    push_task_output(client, context, status, details)


class _Token:
    """Signs requests with the token of the task at hand, so that one connection serves all tasks."""

    def __init__(self) -> None:
        self.value: str | None = None

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        if self.value is None:
            return call_next(context)
        return RuntimeTokenHttpInterceptor(self.value).intercept(context, call_next)


if __name__ == "__main__":
    main()
