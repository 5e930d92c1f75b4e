"""LastFM: find the artist a listener tags next.

From the HetRec 2011 files. An event is a visit of a user to an artist, that is a run of consecutive tag assignments
in the file with one user, artist and time. The publication counted visits by timestamps of milliseconds (75 users with
at least 300 events, 41,284 events); the file with days gives 72 such users and 39,700 events, or 75 and 40,585 from
287 events on, which is the default here.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import Array
from fedbandits.contract.catalogue import AboutEnvironment, ConfigError
from fedbandits.contract.parameters import parameters
from fedbandits.data.formats import published_format, read_columns, read_lines
from fedbandits.data.sources import Source
from fedbandits.data.text import count_words, embed
from fedbandits.environments.recommendation import Log, Recommending, active

Resolution = Literal["day", "millisecond"]

ASSIGNMENTS: dict[Resolution, tuple[str, int]] = {
    "day": ("user_taggedartists.dat", 6),
    "millisecond": ("user_taggedartists-timestamps.dat", 4),
}
"""File of tag assignments and its columns: user, artist, tag, then the time."""
ARCHIVE = "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip"


def source(resolution: Resolution) -> Source:
    """The files needed."""
    return Source("lastfm-2k", (ASSIGNMENTS[resolution][0], "tags.dat"), ARCHIVE)


@parameters
class LastFM(Recommending):
    """Users with at least `min_events` visits; the items are all artists anybody tagged.

    An artist's features: all tags ever given to it, TF-IDF, truncated SVD to `dim`, columns standardised, rows scaled
    to norm 1. The publication does not describe its features beyond TF-IDF and 25 dimensions. For its 75 clients and
    41,284 events use `resolution="millisecond", min_events=300`.
    """

    min_events: Annotated[int, Field(ge=1)] = 287
    dim: Annotated[int, Field(ge=1)] = 25
    standardise: bool = True
    normalise: bool = True
    resolution: Resolution = "day"

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="lastfm",
        family="recommendation",
        summary="75 listeners, 40,585 events: find the artist the listener tagged among 25",
        source="HetRec 2011 LastFM; Blaser, Li & Wang (AISTATS 2024)",
    )

    def read(self) -> Log:
        """The log, parsed once per process."""
        folder = source(self.resolution).folder()
        return _read(folder, self.resolution, self.min_events, self.dim, self.standardise, self.normalise)


@lru_cache(maxsize=4)
def _read(folder: Path, resolution: Resolution, min_events: int, dim: int, standardise: bool, normalise: bool) -> Log:
    name, columns = ASSIGNMENTS[resolution]
    rows = read_columns(folder / name, dict.fromkeys(range(columns), "int64"), sep="\t", header=True).to_numpy()
    artists, artist_of = np.unique(rows[:, 1], return_inverse=True)
    counts = count_words(_documents(folder / "tags.dat", rows[:, 2], artist_of, len(artists)))
    visits = _visits(rows)
    events, users = active(rows[visits, 0], min_events)
    features = embed(counts, dim, standardise=standardise, normalise=normalise)
    return Log(features, users, artist_of[visits[events]])


def _visits(rows: Array) -> Array:
    """The rows that differ from the previous one in more than the tag."""
    visit = np.delete(rows, 2, axis=1)
    return np.flatnonzero(np.concatenate([[True], (visit[1:] != visit[:-1]).any(axis=1)]))


def _documents(path: Path, tags: Array, artist_of: Array, artists: int) -> list[str]:
    """All tags of each artist, one for each assignment."""
    with published_format(path):
        pairs = (line.split("\t", 1) for line in read_lines(path)[1:])
        text = {int(number): value for number, value in pairs}
    words: list[list[str]] = [[] for _ in range(artists)]
    for tag, artist in zip(tags.tolist(), artist_of.tolist(), strict=True):
        if tag not in text:
            raise ConfigError(f"{path}: lacks tag {tag}, which an assignment uses")
        words[artist].append(text[tag])
    return [" ".join(each) for each in words]
