"""A directory of results: what was run, and one file for each finished simulation.

    DIR/settings.json            what was run, fully resolved
    DIR/runs/<task>.parquet      the thinned trace; in its metadata the task, its fingerprint, that of the code, the
                                 regret by client and the portrait

Every file is written under another name first and then moved into place, so that a file which exists is complete,
whenever the process may be stopped.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.portrait import from_bytes, to_bytes
from fedbandits.simulation.trace import completed
from fedbandits.studies.engines import Run, Task
from fedbandits.studies.provenance import digest_of_code

_KEY = b"fedbandits"
_SETTINGS = "settings.json"
_LONGEST_NAME = 100


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


class Store:
    """Results in `directory`, which is made when first needed.

    `settings["identity"]` is what the results depend on, apart from the seeds: a directory whose identity differs is
    refused, a directory with other seeds is extended. Everything else in `settings` is replaced by what is given now.
    """

    def __init__(self, directory: str | os.PathLike[str], settings: Mapping[str, Any], seeds: Sequence[int]) -> None:
        self.directory = Path(directory)
        held = self._held()
        if held is not None:
            self._refuse_other_settings(held["identity"], plain(settings["identity"]))
            seeds = sorted({*held["seeds"], *seeds})
        try:
            (self.directory / "runs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"out: {self.directory} cannot be used as a directory ({error.strerror})") from None
        text = json.dumps({**plain(settings), "seeds": list(seeds)}, indent=2)
        with _moved_into_place(self.directory / _SETTINGS) as path:
            path.write_text(text + "\n", encoding="utf-8")

    def find(self, task: Task) -> Run | None:
        """The stored result of `task`; None if there is none, with a warning if it cannot be read or comes from other
        code than is here now.
        """
        path = self._path(task)
        if not path.exists():
            return None
        try:
            record = read_record(path)
        except UnreadableError as error:
            warnings.warn(f"{error}; running {task} again", stacklevel=2)
            return None
        if record.fingerprint != fingerprint(task):
            raise ConfigError(
                f"out: {path} holds a result of other settings or another version; choose another directory, "
                "or remove it"
            )
        if record.code != code(task):
            warnings.warn(
                f"{self.directory} holds results of code that has changed since; running them again", stacklevel=2
            )
            return None
        return record.run

    def keep(self, task: Task, run: Run) -> None:
        """Write the result of `task`."""
        about = {
            "label": task.label,
            "point": plain(task.point),
            "seed": task.seed,
            "fingerprint": fingerprint(task),
            "code": code(task),
            "seconds": run.seconds,
            "regret_by_client": base64.b64encode(run.regret_by_client.astype("<f8").tobytes()).decode(),
            "portrait": base64.b64encode(to_bytes(run.portrait)).decode(),
        }
        table = pa.Table.from_pandas(run.frame, preserve_index=False)
        table = table.replace_schema_metadata({**table.schema.metadata, _KEY: json.dumps(about).encode()})
        with _moved_into_place(self._path(task)) as path:
            pq.write_table(table, path)

    def _path(self, task: Task) -> Path:
        return self.directory / "runs" / f"{_file_name(task)}.parquet"

    def _held(self) -> dict[str, Any] | None:
        if (self.directory / _SETTINGS).exists():
            return read_settings(self.directory)
        if any((self.directory / "runs").glob("*.parquet")):
            raise ConfigError(
                f"out: {self.directory} holds runs but no {_SETTINGS}, so nobody can tell what they are; "
                "choose another directory, or remove it"
            )
        return None

    def _refuse_other_settings(self, held: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        if held == wanted:
            return
        differing = "; ".join(_differences(held, wanted))
        raise ConfigError(
            f"out: {self.directory} holds results of other settings ({differing}); choose another directory, "
            "or remove it"
        )


def read_settings(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """What `Store` was given, with the seeds."""
    path = Path(directory) / _SETTINGS
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{directory} holds no results: there is no {_SETTINGS} in it") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); remove {directory}, or use another one") from None
    if not isinstance(settings, dict) or not {"identity", "seeds"} <= settings.keys():
        raise ConfigError(f"{path} is not a description of results; use another directory")
    return settings


def read_records(directory: str | os.PathLike[str]) -> list[Record]:
    """All readable results in `directory`; a warning for each of the others."""
    records = []
    for path in sorted((Path(directory) / "runs").glob("*.parquet")):
        try:
            records.append(read_record(path))
        except UnreadableError as error:
            warnings.warn(f"{error}; left out", stacklevel=2)
    return records


def read_record(path: Path) -> Record:
    """The result stored in `path`; raises `UnreadableError`."""
    try:
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[_KEY])
        regret = np.frombuffer(base64.b64decode(about["regret_by_client"]), dtype="<f8").astype(np.float64)
        portrait = from_bytes(base64.b64decode(about.get("portrait", "")))
        run = Run(completed(table.to_pandas()), regret, about["seconds"], portrait)
        point = {name: _unplain(value) for name, value in about["point"].items()}
        return Record(about["label"], point, about["seed"], about["fingerprint"], about.get("code", ""), run)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, pa.ArrowException) as error:
        raise UnreadableError(f"{path} is corrupt or truncated ({type(error).__name__})") from None


def code(task: Task) -> str:
    """A digest of the code that the result of `task` depends on."""
    parts = (task.algorithm, task.environment, task.network)
    return digest_of_code(*(part for part in parts if part is not None))


def fingerprint(task: Task) -> str:
    """A digest of everything the result of `task` depends on, apart from code."""
    from fedbandits import __version__

    basis = {
        "version": __version__,
        "algorithm": describe(task.algorithm),
        "environment": describe(task.environment),
        "horizon": task.horizon,
        "seed": task.seed,
        "points": task.points,
        "coverage": task.coverage,
    }
    # only what is there, so that results from before there were networks and bounds are still known
    if task.network is not None:
        basis["network"] = describe(task.network)
    if task.theory:
        basis["theory"] = True
    return hashlib.sha256(json.dumps(basis, sort_keys=True).encode()).hexdigest()


def describe(thing: Any) -> dict[str, Any]:
    """Public name and parameters of an algorithm, environment or network, as plain values."""
    if not dataclasses.is_dataclass(thing):
        raise ConfigError(
            f"{type(thing).__name__} is not a dataclass of parameters, so its results cannot be told apart"
        )
    parameters = {item.name: plain(getattr(thing, item.name)) for item in dataclasses.fields(thing)}
    return {"name": thing.about.name, **parameters}  # type: ignore[union-attr]


def plain(value: Any) -> Any:
    """`value` in terms JSON has: infinities and NaN become words, arrays lists, and the rest its representation."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def _unplain(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf", "nan") else value


def _file_name(task: Task) -> str:
    """Readable and, by a digest where readability cost something, different for different tasks."""
    exact = "--".join([task.label, *(f"{name}={value}" for name, value in task.point.items())])
    safe = re.sub(r"[^a-z0-9=._-]+", "-", exact.lower()).strip(".-")[:_LONGEST_NAME]
    if safe != exact:
        safe += "--" + hashlib.sha256(exact.encode()).hexdigest()[:8]
    return f"{safe}--seed-{task.seed}"


def _differences(held: Any, wanted: Any, at: str = "") -> Iterator[str]:
    if isinstance(held, Mapping) and isinstance(wanted, Mapping):
        for name in [*wanted, *(name for name in held if name not in wanted)]:
            if held.get(name) != wanted.get(name):
                yield from _differences(held.get(name), wanted.get(name), f"{at}.{name}" if at else name)
    else:
        yield f"{at}: {_shown(held)} there, {_shown(wanted)} now"


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)


@contextmanager
def _moved_into_place(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` when everything has been written to it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
