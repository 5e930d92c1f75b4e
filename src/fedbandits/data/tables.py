"""Tables of features and labels: any of your own, and two of the UCI Machine Learning Repository.

- shuttle (Statlog): 43,500 rows of 9 numbers and a class from 1 to 7, four fifths of them 1; `shuttle.trn`, and 14,500
  more in `shuttle.tst` where that file is there. The publisher packs the first by `compress`: what is downloaded is
  unpacked here, what you download yourself by `gzip -d shuttle.trn.Z`.
- magic (MAGIC gamma telescope, Bock et al. 2004): 19,020 rows of 10 numbers, 12,332 gammas and 6,688 hadrons;
  `magic04.data`.

Both lie in `$FEDBANDITS_DATA/uci` or in the cache, or are downloaded; see `sources`. Numbers may be separated by commas
or by white space, and the label comes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.errors import ConfigError
from fedbandits.data.formats import published_format
from fedbandits.data.sources import Source

SHUTTLE = Source("uci", ("shuttle.trn",), "https://archive.ics.uci.edu/static/public/148/statlog+shuttle.zip")
MAGIC = Source("uci", ("magic04.data",), "https://archive.ics.uci.edu/static/public/159/magic+gamma+telescope.zip")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What was observed of each case and what it was: `features` (rows, d) and `classes` (rows,), from 0 to K - 1."""

    features: FloatArray
    classes: IntArray

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.features.size == 0 or not np.isfinite(self.features).all():
            raise ConfigError("features: must be a finite (rows, d) array that is not empty")
        given = np.asarray(self.classes)
        if given.shape != self.features.shape[:1] or given.dtype.kind not in "iu":
            raise ConfigError(
                f"classes: must be one whole number for each of {len(self.features)} rows (got {given.dtype} "
                f"{given.shape})"
            )
        if given.min() < 0 or not np.bincount(given).all() or given.max() < 1:
            raise ConfigError("classes: must be 0..K-1, at least two of them, each of which occurs")
        object.__setattr__(self, "classes", given.astype(np.int64))


def shuttle() -> Table:
    """The radiator positions of a space shuttle; its rows for testing come last, where they are there."""
    folder = SHUTTLE.folder()
    more = folder / "shuttle.tst"
    return _joined((folder / "shuttle.trn", more) if more.is_file() else (folder / "shuttle.trn",))


def magic() -> Table:
    """Showers in the atmosphere: of gamma rays, or of hadrons."""
    return _joined((MAGIC.folder() / "magic04.data",))


@lru_cache(maxsize=4)
def _joined(paths: tuple[Path, ...]) -> Table:
    frames = []
    for path in paths:
        with published_format(path):
            with path.open() as lines:
                separator = "," if "," in lines.readline() else r"\s+"
            frame = pd.read_csv(path, sep=separator, header=None, dtype=str)
            if frame.shape[1] < 2 or frame.isna().to_numpy().any():
                raise ValueError("a value is missing")
            frames.append((frame.iloc[:, :-1].astype(np.float64).to_numpy(), frame.iloc[:, -1].to_numpy(str)))
    features = np.concatenate([numbers for numbers, _ in frames])
    return Table(features, _numbered(np.concatenate([labels for _, labels in frames])))


def _numbered(labels: np.ndarray[tuple[int], np.dtype[np.str_]]) -> IntArray:
    """Labels by their rank: as numbers where all of them are, else as words."""
    try:
        return np.unique(labels.astype(np.float64), return_inverse=True)[1]
    except ValueError:
        return np.unique(labels, return_inverse=True)[1]
