"""LastFM from a made-up fixture in the published format, and from the real files where they are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.catalogue import ConfigError
from fedbandits.environments import lastfm
from fedbandits.environments.lastfm import LastFM

FIXTURES = Path(__file__).parents[1] / "fixtures"
REAL = os.environ.get("FEDBANDITS_DATA", "")
real = pytest.mark.skipif(
    not (Path(REAL) / "lastfm-2k" / "tags.dat").is_file(), reason="FEDBANDITS_DATA names no folder with lastfm-2k"
)


def small(**parameters):
    return LastFM(**({"min_events": 5, "dim": 4, "arms": 4} | parameters))


@pytest.fixture
def fixture(monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA", str(FIXTURES))


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the fixture that a test may spoil."""
    monkeypatch.setenv("FEDBANDITS_DATA", str(tmp_path))
    return Path(shutil.copytree(FIXTURES / "lastfm-2k", tmp_path / "lastfm-2k"))


@pytest.mark.usefixtures("fixture")
def test_assignments_of_one_visit_are_one_event():
    log = small().read()
    # user 2 tagged six artists with two tags each on one day, and the first once more a year later
    assert log.items[log.users == 0].tolist() == [0, 0, 1, 2, 3, 4, 5]
    assert log.items[log.users == 1].tolist() == [2, 3, 4, 5, 6]
    assert log.items[log.users == 2].tolist() == [7, 7, 8, 8, 9, 9]
    # user 9 is no client, yet the artists it tagged are items
    assert log.features.shape == (14, 4)
    assert small(min_events=4).read().users.max() == 3


@pytest.mark.usefixtures("fixture")
def test_milliseconds_tell_more_visits_apart():
    log = small(resolution="millisecond").read()
    assert log.items[log.users == 0].tolist() == [0, 0, 0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("fixture")
def test_features_are_scaled_as_asked():
    both, rows, columns, none = (
        small(standardise=s, normalise=n).read().features for s, n in [(1, 1), (0, 1), (1, 0), (0, 0)]
    )
    assert np.allclose(np.linalg.norm(both, axis=1), 1)
    assert np.allclose(rows, none / np.linalg.norm(none, axis=1, keepdims=True))
    assert np.allclose(columns, (none - none.mean(axis=0)) / none.std(axis=0))
    assert np.allclose(both, columns / np.linalg.norm(columns, axis=1, keepdims=True))


@pytest.mark.usefixtures("fixture")
def test_artists_with_words_in_common_are_alike():
    features = small(standardise=False, dim=8).read().features
    brass_band, brass_choir_and_band, harp = features[[12, 7, 10]]
    assert brass_band @ brass_choir_and_band > 0.5
    assert abs(brass_band @ harp) < 0.1


def test_latin_1_and_utf_8_tags_read_alike(copy):
    before = small().read().features
    tags = copy / "tags.dat"
    with pytest.raises(UnicodeDecodeError):
        tags.read_bytes().decode("utf-8")
    tags.write_bytes(tags.read_bytes().decode("latin-1").encode("utf-8"))
    lastfm._read.cache_clear()
    assert np.array_equal(before, small().read().features)


@pytest.mark.usefixtures("fixture")
def test_an_algorithm_runs_on_it():
    trace = fb.simulate(fb.algorithms.IndependentLinUCB(), small(), horizon=18)
    assert trace.decisions[-1] == 18
    with pytest.raises(ConfigError, match="horizon: at most 18, as long as the log of lastfm lasts"):
        fb.simulate(fb.algorithms.IndependentLinUCB(), small(), horizon=19)


@pytest.mark.usefixtures("fixture")
def test_says_what_cannot_be_had():
    with pytest.raises(ConfigError, match="min_events: no user has 8 events; the most active one has 7"):
        small(min_events=8).read()
    with pytest.raises(ConfigError, match="dim: must be below 14"):
        small(dim=25).read()


@pytest.mark.parametrize(
    ("file", "spoil", "message"),
    [
        ("user_taggedartists.dat", lambda text: text.replace("\t2009", "", 1), "user_taggedartists.dat: not in the"),
        ("user_taggedartists.dat", lambda text: text.replace("2009", "MMIX", 1), "user_taggedartists.dat: not in the"),
        ("tags.dat", lambda text: text.replace("\t", " "), "tags.dat: not in the published format"),
        ("tags.dat", lambda text: text.replace("7\tharp\r\n", ""), "tags.dat: lacks tag 7"),
    ],
)
def test_a_spoilt_file_is_named(copy, file, spoil, message):
    text = (copy / file).read_bytes().decode("latin-1")
    (copy / file).write_bytes(spoil(text).encode("latin-1"))
    with pytest.raises(ConfigError, match=message):
        small().read()


@real
@pytest.mark.parametrize(("min_events", "users", "events"), [(287, 75, 40_585), (300, 72, 39_700)])
def test_counts_of_the_real_files(min_events, users, events):
    log = LastFM(min_events=min_events).read()
    assert (log.users.max() + 1, len(log.users), log.features.shape) == (users, events, (12_523, 25))


def normalised_reward(algorithm, environment):
    """Cumulative reward over that of uniformly random choices, in expectation."""
    events = len(environment.read().users)
    trace = fb.simulate(algorithm(width=0.3, ridge=0.2), environment, horizon=events)
    return trace.reward[-1] / (events / environment.arms)


@real
def test_independent_learners_reach_the_reference_figure():
    assert normalised_reward(fb.algorithms.IndependentLinUCB, LastFM(min_events=300)) == pytest.approx(9.45, rel=0.06)


@real
@pytest.mark.slow
def test_one_model_for_all_reaches_its_reference_figure():
    assert normalised_reward(fb.algorithms.CentralLinUCB, LastFM(min_events=300)) == pytest.approx(5.21, rel=0.06)
