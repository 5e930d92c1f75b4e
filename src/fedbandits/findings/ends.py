"""The ends of runs: the last row of each, those of an experiment in one file, small enough to be kept with its record.

Verdicts about what there was at the end follow from it, so that anybody can find them again without running anything,
and further seeds can be added later and elsewhere. The course of the runs is not in it.

    algorithm, point (JSON), seed, fingerprint, code, seconds, clients, and the columns of `Trace.frame`
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from fedbandits.contract.description import plain
from fedbandits.contract.errors import ConfigError
from fedbandits.findings.records import Record, moved_into_place, read_records, unplain
from fedbandits.findings.run import Run
from fedbandits.simulation.trace import completed

_MOST_CLIENTS = 100_000_000
"""More than anybody has simulated: a file that speaks of more is none of ours."""
_ABOUT = ("algorithm", "point", "seed", "fingerprint", "code", "seconds", "clients")


class Ends:
    """The ends of runs, each known by the fingerprint of what was run."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self._known = {record.fingerprint: record for record in records}

    def __len__(self) -> int:
        return len(self.records)

    @property
    def made_by(self) -> dict[str, str]:
        """By fingerprint the digest of the code that a run was made by."""
        return {record.fingerprint: record.code for record in self.records}

    def find(self, fingerprint: str) -> Record | None:
        """The run of that fingerprint; None if it is not known."""
        return self._known.get(fingerprint)

    def beside(self, others: Ends) -> Ends:
        """These and, of runs that are not among these, `others`."""
        return Ends([*self.records, *(other for other in others.records if self.find(other.fingerprint) is None)])

    @classmethod
    def of(cls, directory: str | os.PathLike[str]) -> Ends:
        """Those of the results in `directory`."""
        return cls.among(read_records(directory))

    @classmethod
    def among(cls, records: Sequence[Record]) -> Ends:
        """Those of whole runs."""
        return cls([_end(record) for record in records])

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Ends:
        """Those in a file."""
        try:
            return cls(_records(pd.read_parquet(path)))
        except FileNotFoundError:
            raise ConfigError(f"known: {path} does not exist; name a file with ends of runs") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
            raise ConfigError(f"known: {path} holds no ends of runs: {error}") from None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write them to a file, in an order that does not depend on when they were run."""
        ordered = sorted(self.records, key=lambda record: (record.label, str(record.point), record.seed))
        about = [
            (
                record.label,
                json.dumps(plain(record.point)),
                record.seed,
                record.fingerprint,
                record.code,
                record.run.seconds,
                len(record.run.regret_by_client),
            )
            for record in ordered
        ]
        ends = pd.concat([record.run.frame.tail(1) for record in ordered], ignore_index=True)
        table = pd.concat([pd.DataFrame(about, columns=list(_ABOUT)), ends], axis=1)
        with moved_into_place(Path(path)) as temporary:
            table.to_parquet(temporary, index=False, compression="zstd")


def _end(record: Record) -> Record:
    run = record.run
    end = Run(run.frame.tail(1).reset_index(drop=True), np.full(len(run.regret_by_client), np.nan), run.seconds)
    return replace(record, run=end)


def _records(table: pd.DataFrame) -> list[Record]:
    if not table["clients"].between(1, _MOST_CLIENTS).all():
        raise ValueError(f"clients: must be from 1 to {_MOST_CLIENTS:,}")
    frame = completed(table.drop(columns=list(_ABOUT)))
    frame.index = pd.Index(np.zeros(len(frame), dtype=np.int64))  # the only row of its own run, each of them
    return [
        Record(
            about["algorithm"],
            {name: unplain(value) for name, value in json.loads(about["point"]).items()},
            int(about["seed"]),
            about["fingerprint"],
            about["code"],
            Run(
                frame.iloc[place : place + 1],
                np.full(int(about["clients"]), np.nan),
                float(about["seconds"]),
            ),
        )
        for place, about in enumerate(table[list(_ABOUT)].to_dict("records"))
    ]
