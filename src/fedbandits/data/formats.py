"""Reading the publishers' files; what cannot be read is a `ConfigError` that names the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from fedbandits.contract.catalogue import ConfigError


@contextmanager
def published_format(path: Path) -> Iterator[None]:
    """Whatever fails to parse in here is a fault of the file `path`."""
    try:
        yield
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{path}: not in the published format: {error}") from error


def read_columns(path: Path, types: Mapping[int, str], *, sep: str, header: bool) -> pd.DataFrame:
    """The columns of `path` whose positions `types` names, as those numpy types; labelled by position."""
    with published_format(path):
        frame = pd.read_csv(path, sep=sep, header=None, skiprows=int(header), usecols=list(types), dtype=dict(types))
        if frame.isna().to_numpy().any():
            raise ValueError("a value is missing")
    return frame


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, without their ends and without empty ones.

    Publishers' files are UTF-8 or, where that fails, Latin-1. Only newlines end a line: `str.splitlines` would also
    split at control characters that stray bytes turn into.
    """
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return [line for line in (part.rstrip("\r") for part in text.split("\n")) if line]
