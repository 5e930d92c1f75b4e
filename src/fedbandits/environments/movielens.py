"""MovieLens: find the film a viewer rates well next.

From the GroupLens files. An event is a rating of at least `positive`, in the file's order; films a user rated lower
count as not taken, as in the publication's code. The items are all films with such a rating by anybody.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field
from scipy import sparse

from fedbandits.contract.arrays import IntArray, State
from fedbandits.contract.catalogue import AboutEnvironment, ConfigError
from fedbandits.contract.parameters import parameters
from fedbandits.data.formats import published_format, read_columns, read_lines
from fedbandits.data.parsed import remembered
from fedbandits.data.sources import Source
from fedbandits.data.text import count_words, embed
from fedbandits.environments.recommendation import Log, Recommending, active

VariantName = Literal["100k", "1m", "20m", "25m"]
Features = Literal["meta", "collab"]

_GENRES = [
    "unknown",
    "Action",
    "Adventure",
    "Animation",
    "Children",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
]
"""The flags of `u.item`, in its order."""


@dataclass(frozen=True, slots=True)
class Film:
    """What the files say of a film; `tags` are free text by viewers, where the variant has them."""

    title: str
    genres: str
    tags: str = ""


@dataclass(frozen=True, slots=True)
class Variant:
    """How one release is stored, and what is made of it by default."""

    files: tuple[str, ...]
    ratings: Callable[[Path], pd.DataFrame]
    """Columns user, film, rating."""
    films: Callable[[Path], dict[int, Film]]
    min_events: int
    features: Features

    @property
    def tagged(self) -> bool:
        """Whether viewers' tags are part of the release."""
        return "tags.csv" in self.files


@parameters
class MovieLens(Recommending):
    """Users with at least `min_events` ratings of at least `positive`.

    `features` of a film, all by TF-IDF, truncated SVD to `dim` and standardised columns:

    - `meta`: its genres and its viewers' tags (20m, 25m: the publication's); in the releases without tags its genres,
      release year, decade and title words, with rows scaled to norm 1;
    - `collab`: who rated it at least `positive`, among the users that are not clients.

    Defaults by variant: 100k `collab`, 251 events (53 users, 16,628 events); 20m `meta`, 2501 events (the
    publication's 37 users, 121,934 events). No publication sets them for 1m (`collab`, 1001) and 25m (`meta`, 2501).
    """

    variant: VariantName = "100k"
    positive: Annotated[float, Field(ge=0.5, le=5)] = 3.0
    min_events: Annotated[int, Field(ge=1)] | None = None
    features: Features | None = None
    dim: Annotated[int, Field(ge=1)] = 25
    standardise: bool = True
    normalise: bool | None = None

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="movielens",
        family="recommendation",
        summary="53 viewers, 16,628 events (100k): find the film the viewer rated well among 25",
        source="MovieLens (GroupLens); Li & Wang (NeurIPS 2022), federated generalized linear bandits",
    )

    def read(self) -> Log:
        """The log, parsed once per process."""
        kind = VARIANTS[self.variant]
        features = self.features or kind.features
        bare = features == "meta" and not kind.tagged
        recipe = _Recipe(
            self.variant,
            self.positive,
            self.min_events or kind.min_events,
            features,
            self.dim,
            self.standardise,
            bare if self.normalise is None else self.normalise,
        )
        return _read(source(self.variant).folder(), recipe)


class _Recipe(NamedTuple):
    """The parameters of `MovieLens` that the log depends on, with no default left open."""

    variant: VariantName
    positive: float
    min_events: int
    features: Features
    dim: int
    standardise: bool
    normalise: bool


def source(variant: VariantName) -> Source:
    """The files needed."""
    name = f"ml-{variant}"
    return Source(name, VARIANTS[variant].files, f"https://files.grouplens.org/datasets/movielens/{name}.zip")


@lru_cache(maxsize=4)
def _read(folder: Path, recipe: _Recipe) -> Log:
    files = [folder / file for file in VARIANTS[recipe.variant].files]
    return Log(**remembered(files, recipe, lambda: _parse(folder, recipe)))


def _parse(folder: Path, recipe: _Recipe) -> State:
    """The fields of the log."""
    kind = VARIANTS[recipe.variant]
    films = kind.films(folder)
    ratings = kind.ratings(folder)
    liked = ratings[ratings["rating"] >= recipe.positive]
    numbers = np.array(sorted(films))
    row_of = pd.Index(numbers).get_indexer(liked["film"].to_numpy())
    if (row_of < 0).any():
        stranger = liked["film"].to_numpy()[row_of < 0].min()
        raise ConfigError(f"{folder}: film {stranger} is rated but not described; the files are incomplete")
    events, users = active(liked["user"].to_numpy(), recipe.min_events)
    if recipe.features == "collab":
        counts = _viewers(liked["user"].to_numpy(), row_of, events, len(numbers))
    elif kind.tagged:
        counts = count_words([f"{films[n].tags} {films[n].genres}" for n in numbers.tolist()])
    else:
        counts = count_words([_description(films[n]) for n in numbers.tolist()], min_df=2)
    offered = np.bincount(row_of, minlength=len(numbers)) > 0
    item_of = np.cumsum(offered) - 1
    vectors = embed(counts, recipe.dim, standardise=recipe.standardise, normalise=recipe.normalise)
    return {"features": vectors[offered], "users": users, "items": item_of[row_of[events]]}


def _viewers(users: IntArray, films: IntArray, clients_events: IntArray, rows: int) -> sparse.csr_matrix:
    """(films, other users) who of the users that are not clients liked each film."""
    others = np.ones(len(users), dtype=np.bool_)
    others[clients_events] = False
    names, column = np.unique(users[others], return_inverse=True)
    return sparse.csr_matrix((np.ones(len(column)), (films[others], column)), shape=(rows, len(names)))


def _description(film: Film) -> str:
    """Genres, release year, decade and title words, which some copies of `u.item` run together: SplitAtCapitals."""
    year = re.search(r"\((\d{4})\)\s*$", film.title)
    when = f"{year[1]} {year[1][:3]}0s" if year else ""
    title = re.sub(r"(?<=\w)(?=[A-Z][a-z])", " ", film.title[: year.start()] if year else film.title)
    return f"{film.genres} {when} {title}"


_RATING = {0: "int64", 1: "int64", 2: "float64"}


def _ratings_100k(folder: Path) -> pd.DataFrame:
    return _named(read_columns(folder / "u.data", _RATING, sep="\t", header=False))


def _ratings_1m(folder: Path) -> pd.DataFrame:
    # fields end with two colons: at single colons every second column is empty
    doubled = {2 * column: kind for column, kind in _RATING.items()}
    return _named(read_columns(folder / "ratings.dat", doubled, sep=":", header=False))


def _ratings_csv(folder: Path) -> pd.DataFrame:
    return _named(read_columns(folder / "ratings.csv", _RATING, sep=",", header=True))


def _named(ratings: pd.DataFrame) -> pd.DataFrame:
    return ratings.set_axis(["user", "film", "rating"], axis=1)


def _films_100k(folder: Path) -> dict[int, Film]:
    films = {}
    with published_format(folder / "u.item"):
        for line in read_lines(folder / "u.item"):
            number, title, _released, _video, _address, *flags = line.split("|")
            films[int(number)] = Film(title, " ".join(g for g, flag in zip(_GENRES, flags, strict=True) if flag == "1"))
    return films


def _films_1m(folder: Path) -> dict[int, Film]:
    with published_format(folder / "movies.dat"):
        rows = (line.split("::") for line in read_lines(folder / "movies.dat"))
        return {int(number): Film(title, genres.replace("|", " ")) for number, title, genres in rows}


def _films_csv(folder: Path) -> dict[int, Film]:
    tags: dict[int, list[str]] = {}
    with published_format(folder / "tags.csv"):
        for _user, film, tag, _time in list(csv.reader(read_lines(folder / "tags.csv")))[1:]:
            tags.setdefault(int(film), []).append(tag)
    with published_format(folder / "movies.csv"):
        rows = list(csv.reader(read_lines(folder / "movies.csv")))[1:]
        return {
            int(number): Film(title, genres.replace("|", " "), " ".join(tags.get(int(number), [])))
            for number, title, genres in rows
        }


VARIANTS: dict[VariantName, Variant] = {
    "100k": Variant(("u.data", "u.item"), _ratings_100k, _films_100k, 251, "collab"),
    "1m": Variant(("ratings.dat", "movies.dat"), _ratings_1m, _films_1m, 1001, "collab"),
    "20m": Variant(("ratings.csv", "movies.csv", "tags.csv"), _ratings_csv, _films_csv, 2501, "meta"),
    "25m": Variant(("ratings.csv", "movies.csv", "tags.csv"), _ratings_csv, _films_csv, 2501, "meta"),
}
