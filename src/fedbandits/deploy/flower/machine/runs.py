"""Runs of the federation at a SuperLink: to start one, look after it, and stop it, as `flwr run`, `ls` and `stop` do.

A run is Flower's word for one life of the server: the SuperLink starts a process for it that runs `server_app`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from flwr.cli.build import build_fab_from_disk
from flwr.common.constant import Status
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import ListRunsRequest, StartRunRequest, StopRunRequest
from flwr.proto.run_pb2 import Run as FlowerRun
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from fedbandits.deploy.flower.conversation.carrier import Patience
from fedbandits.deploy.flower.trust.past import Trust
from fedbandits.deploy.text import shown

PROJECT = Path(__file__).parent.parent / "project"
"""The application that a SuperLink is given; it only names the library's own modules."""
_APPLICATION = "fedbandits-federation"
_DIRECTORY = "directory"
_LOOKED_AT = 100
"""How many of the latest runs are looked at for one of ours."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a SuperLink knows of a run."""

    number: int
    over: bool
    end: str
    """How it ended, in words; empty before."""


def run_config(
    directory: Path, interval: float, patience: Patience, trust: Trust | None = None
) -> dict[str, str | float]:
    """What `server_app` has to be told: the configuration of a run."""
    return {
        _DIRECTORY: str(directory.resolve()),
        "interval": float(interval),
        "wait-for-rings": float(patience.ring),
        "wait-for-answers": float(patience.answer),
        "wait-for-everybody": -1.0 if patience.everybody is None else float(patience.everybody),
        "repeat-after": float(patience.repeat),
        "observations-per-second": float((trust or Trust()).pace),
        "strikes": (trust or Trust()).strikes,
    }


class Runs:
    """The control interface of the SuperLink at `address`, whose certificate `authority` has signed (PEM).

    Calls raise `httpx.HTTPError` if it cannot be reached, or refuses.
    """

    def __init__(self, address: str, authority: bytes | None) -> None:
        self._client = ControlHttpClient.from_server_address(
            server_address=address,
            insecure=authority is None,
            root_certificates=authority,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr")],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def start(self, config: Mapping[str, str | float]) -> int:
        """Start a run; its number."""
        content = build_fab_from_disk(PROJECT)
        bundle = Fab(hashlib.sha256(content).hexdigest(), content, {})
        request = StartRunRequest(fab=fab_to_proto(bundle), override_config=user_config_to_proto(dict(config)))
        return int(self._client.StartRun(request).run_id)

    def find(self, number: int) -> Run | None:
        """A run by its number; None if the SuperLink does not know it, as one that was restarted without its memory."""
        try:
            found = self._client.ListRuns(ListRunsRequest(run_id=number)).run_dict
        except httpx.HTTPStatusError as error:
            told = FlowerError.from_json(error.response.text)
            if told is not None and told.code == ApiErrorCode.RUN_ID_NOT_FOUND:
                return None
            raise
        return None if number not in found else _read(found[number])

    def alive(self, directory: Path) -> list[int]:
        """The numbers of all runs that serve `directory` and are not over, the latest first."""
        found = self._client.ListRuns(ListRunsRequest(limit=_LOOKED_AT)).run_dict.values()
        ours = [
            run
            for run in found
            if run.fab_id.endswith(_APPLICATION)
            and run.override_config[_DIRECTORY].string == str(directory.resolve())
            and not _read(run).over
        ]
        return [int(run.run_id) for run in sorted(ours, key=lambda run: run.pending_at, reverse=True)]

    def stop(self, number: int) -> None:
        """Stop a run; one that is over stays so."""
        try:
            self._client.StopRun(StopRunRequest(run_id=number))
        except httpx.HTTPStatusError as error:
            told = FlowerError.from_json(error.response.text)
            over = (ApiErrorCode.RUN_ALREADY_FINISHED, ApiErrorCode.RUN_ID_NOT_FOUND)
            if told is None or told.code not in over:
                raise


def _read(run: FlowerRun) -> Run:
    over = run.status.status == Status.FINISHED
    end = ": ".join(part for part in (run.status.sub_status, run.status.details) if part) if over else ""
    return Run(int(run.run_id), over, shown(end))
