"""The files of a directory of results: what was run, and one record for each finished simulation.

    DIR/settings.json            what was run, fully resolved
    DIR/runs/<task>.parquet      the thinned trace; in its metadata the task, its fingerprint, that of the code, the
                                 regret by client and the portrait

Every file is written under another name first and then moved into place, so that a file which exists is complete,
whenever the process may be stopped.
"""

from __future__ import annotations

import base64
import json
import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.description import plain
from fedbandits.contract.portrait import from_bytes, to_bytes
from fedbandits.findings.run import Run
from fedbandits.simulation.trace import completed

SETTINGS = "settings.json"
RUNS = "runs"
SUFFIX = ".parquet"

_KEY = b"fedbandits"


@dataclass(frozen=True, slots=True)
class Record:
    """One stored simulation, as far as the file itself tells."""

    label: str
    point: Mapping[str, Any]
    seed: int
    fingerprint: str
    code: str
    run: Run


class UnreadableError(Exception):
    """A file that is truncated, corrupt or not ours."""


def write_settings(directory: Path, settings: Mapping[str, Any]) -> None:
    """Write what was run, as JSON that anybody can read."""
    text = json.dumps(plain(settings), indent=2)
    with moved_into_place(directory / SETTINGS) as path:
        path.write_text(text + "\n", encoding="utf-8")


def read_settings(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """What was run, with the seeds."""
    path = Path(directory) / SETTINGS
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{directory} holds no results: there is no {SETTINGS} in it") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); remove {directory}, or use another one") from None
    if not isinstance(settings, dict) or not {"identity", "seeds"} <= settings.keys():
        raise ConfigError(f"{path} is not a description of results; use another directory")
    return settings


def write_record(path: Path, record: Record) -> None:
    """Write one result."""
    run = record.run
    about = {
        "label": record.label,
        "point": plain(record.point),
        "seed": record.seed,
        "fingerprint": record.fingerprint,
        "code": record.code,
        "seconds": run.seconds,
        "regret_by_client": base64.b64encode(run.regret_by_client.astype("<f8").tobytes()).decode(),
        "portrait": base64.b64encode(to_bytes(run.portrait)).decode(),
    }
    table = pa.Table.from_pandas(run.frame, preserve_index=False)
    table = table.replace_schema_metadata({**table.schema.metadata, _KEY: json.dumps(about).encode()})
    with moved_into_place(path) as temporary:
        pq.write_table(table, temporary)


def read_record(path: Path) -> Record:
    """The result stored in `path`; raises `UnreadableError`."""
    try:
        with pq.ParquetFile(path) as file:  # small files, by the thousand: other threads would have to be waited for
            table = file.read(use_threads=False)
        about = json.loads(table.schema.metadata[_KEY])
        regret = np.frombuffer(base64.b64decode(about["regret_by_client"]), dtype="<f8").astype(np.float64)
        portrait = from_bytes(base64.b64decode(about.get("portrait", "")))
        run = Run(completed(table.to_pandas(use_threads=False)), regret, about["seconds"], portrait)
        point = {name: unplain(value) for name, value in about["point"].items()}
        return Record(about["label"], point, about["seed"], about["fingerprint"], about.get("code", ""), run)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, pa.ArrowException) as error:
        raise UnreadableError(f"{path} is corrupt or truncated ({type(error).__name__})") from None


def read_records(directory: str | os.PathLike[str]) -> list[Record]:
    """All readable results in `directory`; a warning for each of the others."""
    records = []
    for path in sorted((Path(directory) / RUNS).glob(f"*{SUFFIX}")):
        try:
            records.append(read_record(path))
        except UnreadableError as error:
            warnings.warn(f"{error}; left out", stacklevel=2)
    return records


def unplain(value: Any) -> Any:
    """A value of a sweep, as it was before it became JSON."""
    return float(value) if value in ("inf", "-inf", "nan") else value


@contextmanager
def moved_into_place(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` when everything has been written to it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
