"""A stranger who has the federation's address and the certificate of its authority, as every node has, and no key."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import httpx
import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from flower_worlds import wait_for
from flwr.cli.build import build_fab_from_disk
from flwr.cli.supernode.register import try_load_public_key
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
    UnregisterNodeRequest,
)
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient

import fedbandits as fb
from fedbandits.deploy.flower.machine.certificates import make_key
from fedbandits.deploy.flower.machine.launch import LOOPBACK, Federation
from fedbandits.deploy.settings import Settings

pytestmark = pytest.mark.slow
PROJECT = """
[project]
name = "intruder"
version = "1.0.0"
description = "mine"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "stranger"
[tool.flwr.app.components]
serverapp = "intruder:app"
clientapp = "intruder:client"
"""
CODE = """
from pathlib import Path
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
app, client = ServerApp(), ClientApp()

@app.main()
def main(grid, context):
    Path({mark!r}).touch()
"""


class Stranger:
    def __init__(self, where: Path, address: str, authority: bytes) -> None:
        self.mark = where / "was-here"
        self.key = make_key(where / "key")
        self._project = where / "project"
        self._project.mkdir(parents=True)
        (self._project / "pyproject.toml").write_text(PROJECT)
        (self._project / "intruder.py").write_text(CODE.format(mark=str(self.mark)))
        given = {"server_address": address, "insecure": False, "root_certificates": authority}
        flower = [RuntimeVersionHttpInterceptor(component_name="flwr")]
        self.control = ControlHttpClient.from_server_address(**given, interceptors=flower)
        self.runtime = RuntimeHttpClient.from_server_address(**given, interceptors=flower, retry_invoker=None)

    def register(self) -> object:
        return self.control.RegisterNode(RegisterNodeRequest(public_key=try_load_public_key(self.key)))

    def run(self) -> object:
        content = build_fab_from_disk(self._project)
        bundle = Fab(hashlib.sha256(content).hexdigest(), content, {})
        return self.control.StartRun(StartRunRequest(fab=fab_to_proto(bundle)))


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    settings = Settings(algorithm=fb.algorithms.DisLinUCB(), dim=2, agents=1)
    with Federation(tmp_path_factory.mktemp("federation") / "new", settings, interval=0.5) as federation:
        yield federation


def stranger_at(address: str, federation: Federation, where: Path) -> Stranger:
    return Stranger(where, address, (federation.directory / "tls" / "ca.crt").read_bytes())


def test_where_the_superlink_itself_can_be_reached_anybody_runs_code(federation, tmp_path):
    """Why nodes are not given its address. If this fails, Flower may have closed the hole, and the gate can go."""
    stranger = stranger_at(federation.control, federation, tmp_path)
    stranger.register()
    stranger.run()
    wait_for(stranger.mark.exists, 120.0)


def test_at_the_gate_a_stranger_gets_nowhere(federation, tmp_path):
    gate = f"{LOOPBACK}:{federation.port}"
    stranger = stranger_at(gate, federation, tmp_path)
    (run,) = (
        stranger_at(federation.control, federation, tmp_path / "inside")
        .control.ListRuns(ListRunsRequest(limit=1))
        .run_dict
    )
    control, runtime = stranger.control, stranger.runtime
    for attempt in (
        stranger.register,
        stranger.run,
        lambda: control.ListRuns(ListRunsRequest()),
        lambda: control.ListNodes(ListNodesRequest()),
        lambda: control.StopRun(StopRunRequest(run_id=run)),
        lambda: control.UnregisterNode(UnregisterNodeRequest(node_id=1)),
        lambda: list(control.StreamLogs(StreamLogsRequest(run_id=run))),
        lambda: runtime.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])),
    ):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            attempt()
        assert refused.value.response.status_code == 404
    time.sleep(3.0)
    assert not stranger.mark.exists()


def test_a_key_that_nobody_registered_is_refused_at_the_gate_too(federation, tmp_path):
    stranger = make_key(tmp_path / "stranger").with_suffix("")
    federation.start_node(0, key=stranger, name="stranger")
    wait_for(lambda: "refused: " in federation.processes.last_words("stranger"), 120.0)
    federation.processes.stop("stranger")


def test_meanwhile_the_federation_works(federation):
    began = time.time()
    wait_for(lambda: federation.book.fact("rang_at") > began and federation.book.fact("present") == 1, 120.0)


def test_everything_on_disk_is_its_owners_alone(federation):
    open_to_others = [
        path.relative_to(federation.directory)
        for path in federation.directory.rglob("*")
        if path.stat().st_mode & 0o077 and path.suffix not in (".crt", ".pub")
    ]
    assert open_to_others == []
    assert federation.directory.stat().st_mode & 0o777 == 0o700
