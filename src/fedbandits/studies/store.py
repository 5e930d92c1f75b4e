"""A directory of results in use: what it holds is not run again, what does not belong there is refused.

`findings.records` knows the files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.description import plain
from fedbandits.findings.records import (
    RUNS,
    SETTINGS,
    SUFFIX,
    Record,
    UnreadableError,
    read_record,
    read_settings,
    write_record,
    write_settings,
)
from fedbandits.findings.run import Run
from fedbandits.studies.tasks import Task, code, fingerprint

_LONGEST_NAME = 100


class Store:
    """Results in `directory`, which is made when first needed.

    `settings["identity"]` is what the results depend on, apart from the seeds: a directory whose identity differs is
    refused, a directory with other seeds is extended. Everything else in `settings` is replaced by what is given now.
    """

    def __init__(self, directory: str | os.PathLike[str], settings: Mapping[str, Any], seeds: Sequence[int]) -> None:
        self.directory = Path(directory)
        self._fingerprints: dict[Path, str] = {}
        self._told = False
        held = self._held()
        if held is not None:
            self._refuse_other_settings(held["identity"], plain(settings["identity"]))
            seeds = sorted({*held["seeds"], *seeds})
        try:
            (self.directory / RUNS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"out: {self.directory} cannot be used as a directory ({error.strerror})") from None
        write_settings(self.directory, {**settings, "seeds": list(seeds)})

    def find(self, task: Task, made_by: str | None = None) -> Run | None:
        """The stored result of `task`; None if there is none, with a warning if it cannot be read or comes from other
        code than is here now, or than that whose digest is `made_by`.
        """
        path = self._path(task)
        # that of the task before it runs, since classes that are not frozen may change when they are used
        self._fingerprints[path] = fingerprint(task)
        if not path.exists():
            return None
        try:
            record = read_record(path)
        except UnreadableError as error:
            warnings.warn(f"{error}; running {task} again", stacklevel=2)
            return None
        if record.fingerprint != self._fingerprints[path]:
            raise ConfigError(
                f"out: {path} holds a result of other settings or another version; choose another directory, "
                "or remove it"
            )
        if record.code not in (made_by, code(task)):
            if not self._told:  # of all of them at once
                warnings.warn(
                    f"{self.directory} holds results of code that has changed since; running them again", stacklevel=2
                )
            self._told = True
            return None
        return record.run

    def keep(self, task: Task, run: Run, made_by: str | None = None) -> None:
        """Write the result of `task`, of the code here, or of that whose digest is `made_by`."""
        path = self._path(task)
        known = self._fingerprints.get(path) or fingerprint(task)
        write_record(path, Record(task.label, task.point, task.seed, known, made_by or code(task), run))

    def _path(self, task: Task) -> Path:
        return self.directory / RUNS / f"{_file_name(task)}{SUFFIX}"

    def _held(self) -> dict[str, Any] | None:
        if (self.directory / SETTINGS).exists():
            return read_settings(self.directory)
        if any((self.directory / RUNS).glob(f"*{SUFFIX}")):
            raise ConfigError(
                f"out: {self.directory} holds runs but no {SETTINGS}, so nobody can tell what they are; "
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
