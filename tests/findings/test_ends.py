"""Ends of runs: verdicts follow from them, and what is in them is not run again."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fedbandits.contract.catalogue import ConfigError
from fedbandits.experiments import load_experiment, run_experiment
from fedbandits.findings.ends import Ends
from fedbandits.findings.recorded import Recorded
from fedbandits.findings.results import Results
from fedbandits.studies.tasks import fingerprint

KEPT = sorted((Path(__file__).parents[2] / "docs" / "verdicts" / "runs").glob("*.parquet"))

SMALL = """
title = "Small"
source = "ours"
[environment]
name = "linear"
dim = 2
arms = 3
[run]
horizon = 30
seeds = 3
points = 10
[algorithms.dis]
name = "dislinucb"
[algorithms.random]
name = "random"
[sweep]
"environment.clients" = [1, 4]
"algorithms.dis.threshold" = [0.5, inf]
[[claims]]
kind = "less"
text = "learning helps"
metric = "regret"
of = "dis"
than = "random"
at = { clients = 4, threshold = 0.5 }
[[claims]]
kind = "growth"
text = "regret grows"
metric = "regret"
of = "random"
against = "clients"
above = 0.5
"""


class Counting:
    """A watcher that counts what is run."""

    def __init__(self) -> None:
        self.run = self.held = 0

    def begin(self, tasks):
        pass

    def advance(self, index, steps_done):
        pass

    def finish(self, index, resumed):
        self.held += resumed
        self.run += not resumed


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(
        SMALL.replace("at = { clients = 4, threshold = 0.5 }", "at = { clients = 4 }").replace(", inf]", "]")
    )
    return path


@pytest.fixture
def ends(small, tmp_path):
    run_experiment(small, out=tmp_path / "out")
    path = tmp_path / "ends.parquet"
    Ends.of(tmp_path / "out").write(path)
    return path


def test_what_is_known_is_not_run_again_and_verdicts_follow_from_it(small, ends, tmp_path):
    before, counting = Results.load(tmp_path / "out"), Counting()
    again = run_experiment(small, known=Ends.read(ends), out=tmp_path / "again", watcher=counting)
    assert (counting.run, counting.held) == (0, 12)
    assert [(claim.verdict, claim.measured) for claim in again.claims] == [
        (claim.verdict, claim.measured) for claim in before.claims
    ]
    pd.testing.assert_frame_equal(again.final(), before.final())
    loaded = Results.load(tmp_path / "again")
    assert loaded.missing == 0
    pd.testing.assert_frame_equal(loaded.final(), before.final())


def test_what_is_known_of_older_code_is_written_once(small, ends, tmp_path):
    older = Ends([replace(record, code="older") for record in Ends.read(ends).records])
    run_experiment(small, known=older, out=tmp_path / "again")
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "again" / "runs").iterdir()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counting = Counting()
        run_experiment(small, known=older, out=tmp_path / "again", watcher=counting)
    assert (counting.run, counting.held) == (0, 12)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "again" / "runs").iterdir()} == written
    with pytest.warns(UserWarning, match="code that has changed since"):
        run_experiment(small, out=tmp_path / "again", watcher=counting)
    assert counting.run == 12, "whoever does not say that it is known wants it from the code there is"


def test_further_seeds_go_on_from_what_is_known(small, ends):
    counting = Counting()
    more = run_experiment(small, seeds=5, known=Ends.read(ends), watcher=counting)
    assert (counting.run, counting.held) == (8, 12)
    whole = run_experiment(small, seeds=5)
    assert [claim.measured for claim in more.claims] == [claim.measured for claim in whole.claims]


def test_curves_are_of_those_of_which_the_course_is_known(small, ends):
    more = run_experiment(small, seeds=5, known=Ends.read(ends))
    assert sorted(more.curves["seed"].unique()) == [3, 4]
    assert sorted(more.final()["seed"].unique()) == [0, 1, 2, 3, 4]
    alone = run_experiment(small, known=Ends.read(ends))
    assert len(alone.curves) == len(alone.final()) == 12, "better than nothing"


@pytest.mark.parametrize(
    "about",
    [
        'kind = "growth"\nof = "random"\nagainst = "step"\nabove = 0.5',
        'kind = "less"\nof = "dis"\nthan = "random"\nsince = 0.5',
    ],
    ids=["growth", "since"],
)
def test_the_course_of_runs_is_not_known_from_their_ends(small, tmp_path, about):
    """What is about it is undecided, says why, and is not put on record, until these are run again."""
    claim = f'[[claims]]\ntext = "early on"\nmetric = "regret"\n{about}\nat = {{ clients = 4 }}\n'
    small.write_text(small.read_text() + claim)
    before = run_experiment(small, out=tmp_path / "first").claims[-1]
    Ends.of(tmp_path / "first").write(tmp_path / "ends.parquet")
    assert before.verdict != "undecided" or "end alone" not in before.measured
    after = run_experiment(small, known=Ends.read(tmp_path / "ends.parquet"), out=tmp_path / "second")
    runs = 3 if "growth" in about else 6
    told = f"it is about the course of runs, and of {runs} their end alone is known"
    assert (after.claims[-1].verdict, after.claims[-1].measured) == ("undecided", told)
    with pytest.raises(ConfigError, match=r"'early on' is about the course of runs, .* again without --known"):
        Recorded.of("second", tmp_path / "second")
    assert Recorded.of("first", tmp_path / "first").claims[-1].verdict == before.verdict


def test_other_settings_are_other_runs(small, ends):
    counting = Counting()
    run_experiment(small, horizon=31, known=Ends.read(ends), watcher=counting)
    assert (counting.run, counting.held) == (12, 0)


def test_the_newer_of_two_ends_is_kept(ends, small, tmp_path):
    run_experiment(small, seeds=[2, 3], out=tmp_path / "more")
    both = Ends.of(tmp_path / "more").beside(Ends.read(ends))
    assert len(both) == 16
    assert sorted({record.seed for record in both.records}) == [0, 1, 2, 3]
    assert both.made_by.keys() > Ends.read(ends).made_by.keys()


def test_a_file_says_the_same_whenever_its_runs_were_made(ends, tmp_path):
    kept, shuffled = Ends.read(ends), tmp_path / "shuffled.parquet"
    Ends(kept.records[::-1]).write(shuffled)
    assert shuffled.read_bytes() == ends.read_bytes()


def test_infinite_values_of_a_sweep_come_back(tmp_path):
    path = tmp_path / "infinite.toml"
    path.write_text(SMALL)
    before = run_experiment(path, out=tmp_path / "out")
    Ends.of(tmp_path / "out").write(tmp_path / "ends.parquet")
    counting = Counting()
    again = run_experiment(path, known=Ends.read(tmp_path / "ends.parquet"), watcher=counting)
    assert counting.run == 0
    pd.testing.assert_frame_equal(again.final(), before.final())


@pytest.mark.parametrize("content", [b"", b"no table", b"PAR1 and nothing else PAR1"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "ends.parquet"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="holds no ends of runs"):
        Ends.read(path)
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(ConfigError, match="holds no ends of runs"):
        Ends.read(path)


@pytest.mark.parametrize(
    ("column", "value"), [("clients", 10**15), ("clients", 0), ("point", "[1]"), ("point", "{"), ("seed", "one")]
)
def test_nonsense_is_refused(ends, column, value):
    table = pd.read_parquet(ends)
    table[column] = value
    table.to_parquet(ends)
    with pytest.raises(ConfigError, match="holds no ends of runs"):
        Ends.read(ends)


class Whole(Counting):
    """A watcher that lets nothing be run."""

    def __init__(self, known: Ends) -> None:
        super().__init__()
        self._known = known

    def begin(self, tasks):
        missing = sum(self._known.find(fingerprint(task)) is None for task in tasks)
        if missing:
            pytest.skip(f"{missing} of {len(tasks)} runs are not kept yet")


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_verdicts_on_record_follow_from_the_runs_on_record(path):
    """Nothing is run: what `docs/verdicts` says is what these runs say, but for claims about the course of runs."""
    recorded = Recorded.read(path.parents[1] / f"{path.stem}.json")
    experiment = load_experiment(path.stem.removesuffix("-full"))
    experiment = experiment.enlarged() if path.stem.endswith("-full") else experiment
    results = run_experiment(experiment, known=Ends.read(path), watcher=Whole(Ends.read(path)))
    for claim, found, told in zip(experiment.claims, results.claims, recorded.claims, strict=True):
        if getattr(claim, "against", "") != "step" and not getattr(claim, "since", 0):
            assert (found.verdict, found.measured) == (told.verdict, told.measured)
