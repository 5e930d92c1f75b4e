"""MovieLens in its four formats from made-up fixtures, and from the real files where they are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.catalogue import ConfigError
from fedbandits.data import parsed
from fedbandits.environments import movielens
from fedbandits.environments.movielens import MovieLens

FIXTURES = Path(__file__).parents[1] / "fixtures"
REAL = os.environ.get("FEDBANDITS_DATA", "")
VARIANTS = ["100k", "1m", "20m", "25m"]


def small(variant="100k", **parameters):
    return MovieLens(variant=variant, **({"min_events": 6, "dim": 3, "arms": 4} | parameters))


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """A copy of the fixtures that a test may spoil; ml-25m has the format of ml-20m."""
    shutil.copytree(FIXTURES, tmp_path, dirs_exist_ok=True)
    shutil.copytree(FIXTURES / "ml-20m", tmp_path / "ml-25m")
    monkeypatch.setenv("FEDBANDITS_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def real(data, monkeypatch):
    """The real files in place of the fixtures."""
    if not (Path(REAL) / "ml-100k" / "u.data").is_file():
        pytest.skip("FEDBANDITS_DATA names no folder with ml-100k")
    monkeypatch.setenv("FEDBANDITS_DATA", REAL)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_format_gives_the_same_events(variant):
    log = small(variant).read()
    # users 1, 2 and 8, the last in the file; film 12 was liked by nobody and is no item
    assert log.items[log.users == 0].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert log.items[log.users == 1].tolist() == [2, 3, 4, 5, 6, 7, 8]
    assert log.items[log.users == 2].tolist() == [9, 8, 7, 6, 5, 4]
    assert log.features.shape == (11, 3)


def test_a_film_rated_low_may_be_shown_as_not_taken():
    world = small(arms=5).world(20, np.random.SeedSequence(0))
    shown = {item for t in range(20) if world.turn(t).who[0] == 0 for item in world.shown(t)[0].tolist()}
    assert 7 in shown  # film 8, which user 1 rated 2


@pytest.mark.parametrize("variant", VARIANTS)
def test_positive_moves_the_threshold(variant):
    log = small(variant, positive=4, min_events=4).read()
    assert log.items[log.users == 1].tolist() == [3, 4, 6, 7]


def test_texts_behind_the_features(data):
    film = movielens._films_100k(data / "ml-100k")[3]
    assert movielens._description(film).split() == ["Comedy", "Romance", "1991", "1990s", "Café", "Lights"]
    assert movielens._films_1m(data / "ml-1m")[10].title == "Jade: Part Two (1991)"
    films = movielens._films_csv(data / "ml-20m")
    assert films[1] == movielens.Film("A Door, Closed (1991)", "Drama Mystery", "quiet, slow locked room")
    assert films[10].tags == "NA"


def test_collaborative_features_know_nothing_of_the_clients(data):
    before = small(features="collab").read()
    ratings = data / "ml-100k" / "u.data"
    lines = ratings.read_text().splitlines(keepends=True)
    # user 1 no longer likes film 1, and likes film 9 instead; nobody else is touched
    ratings.write_text("".join(lines).replace("1\t1\t4\t", "1\t9\t4\t", 1))
    movielens._read.cache_clear()
    after = small(features="collab").read()
    assert after.items[after.users == 0].tolist() != before.items[before.users == 0].tolist()
    assert np.allclose(after.features[-10:], before.features[-10:])


@pytest.mark.parametrize(("variant", "meta_normalised"), [("100k", True), ("1m", True), ("20m", False), ("25m", False)])
def test_rows_are_scaled_by_default_only_where_films_have_no_tags(variant, meta_normalised):
    def unit(**parameters):
        return np.allclose(np.linalg.norm(small(variant, **parameters).read().features, axis=1), 1)

    assert unit(features="meta") == meta_normalised
    assert not unit(features="collab")
    assert unit(features="collab", normalise=True)
    assert not unit(features="meta", normalise=False)


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_algorithm_runs_on_it_with_a_bias(variant):
    environment = small(variant, bias=True, schedule="all")
    trace = fb.simulate(fb.algorithms.DisLinUCB(), environment, horizon=7)
    assert trace.decisions.tolist() == [3, 6, 9, 12, 15, 18, 20]


@pytest.mark.parametrize(
    ("variant", "file", "spoil"),
    [
        ("100k", "u.data", lambda text: text.replace("\t4\t", "\tfour\t", 1)),
        ("100k", "u.item", lambda text: text.replace("|0\n", "\n", 1)),
        ("1m", "ratings.dat", lambda text: text.replace("::", ",")),
        ("1m", "movies.dat", lambda text: text.replace("::", "|", 1)),
        ("20m", "ratings.csv", lambda text: text.replace(",4.0,", ",,", 1)),
        ("20m", "movies.csv", lambda text: text.replace('"', "")),
        ("20m", "tags.csv", lambda text: text.replace("4,1,", "4,one,", 1)),
    ],
)
def test_a_spoilt_file_is_named(data, variant, file, spoil):
    path = data / f"ml-{variant}" / file
    path.write_bytes(spoil(path.read_bytes().decode("latin-1")).encode("latin-1"))
    with pytest.raises(ConfigError, match=f"{file}: not in the published format"):
        small(variant).read()


def test_a_rated_film_must_be_described(data):
    path = data / "ml-1m" / "movies.dat"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    with pytest.raises(ConfigError, match="film 1 is rated but not described"):
        small("1m").read()


def test_a_log_kept_on_disk_is_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(parsed, "_LARGE", 0)
    made = small().read()
    monkeypatch.setattr(movielens, "_parse", None)
    movielens._read.cache_clear()
    kept = small().read()
    for name in ("features", "users", "items"):
        assert np.array_equal(getattr(made, name), getattr(kept, name))


def test_defaults_ask_for_more_than_the_fixture_has():
    for variant, events in {"100k": 251, "1m": 1001, "20m": 2501, "25m": 2501}.items():
        with pytest.raises(ConfigError, match=f"no user has {events} events; the most active one has 7"):
            MovieLens(variant=variant).read()


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(("min_events", "users", "events"), [(None, 53, 16_628), (276, 33, 11_368), (201, 101, 27_251)])
def test_counts_of_the_real_files(min_events, users, events):
    log = MovieLens(min_events=min_events).read()
    assert (log.users.max() + 1, len(log.users), log.features.shape) == (users, events, (1574, 25))


def normalised_reward(algorithm, environment):
    """Cumulative reward over that of uniformly random choices, in expectation."""
    events = len(environment.read().users)
    trace = fb.simulate(algorithm(width=0.3, ridge=0.2), environment, horizon=events)
    return trace.reward[-1] / (events / environment.arms)


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(("features", "figure"), [("collab", 9.21), ("meta", 2.86)])
def test_independent_learners_reach_the_reference_figure_of_the_real_files(features, figure):
    reached = normalised_reward(fb.algorithms.IndependentLinUCB, MovieLens(features=features))
    assert reached == pytest.approx(figure, rel=0.06)


@pytest.mark.usefixtures("real")
@pytest.mark.slow
@pytest.mark.parametrize(("features", "figure"), [("collab", 8.04), ("meta", 3.59)])
def test_one_model_for_all_reaches_the_reference_figure_of_the_real_files(features, figure):
    assert normalised_reward(fb.algorithms.CentralLinUCB, MovieLens(features=features)) == pytest.approx(
        figure, rel=0.06
    )
