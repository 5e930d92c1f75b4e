"""Published figures stand beside ours, in results, in the page and in the terminal."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedbandits.cli.show import as_dict
from fedbandits.contract.catalogue import ConfigError
from fedbandits.experiments import load_experiment, run_experiment
from fedbandits.findings.results import Results
from fedbandits.report import page
from fedbandits.report.published import published_table

TEXT = """
title = "t"
source = "s"
[environment]
name = "linear"
arms = 3
[run]
horizon = 20
seeds = 3
[algorithms.dis]
name = "dislinucb"
[algorithms.alone]
name = "independent-linucb"
[[points]]
environment.clients = 2
environment.dim = 3
[[points]]
environment.clients = 4
environment.dim = 2
[[published]]
of = "dis"
metric = "regret"
at = { clients = 4, dim = 2 }
value = 123.5
where = "table 7"
[[published]]
of = "alone"
metric = "regret_per_client"
at = { clients = 2, dim = 3 }
value = 9
where = "table 8"
"""


def load(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return load_experiment(path)


def test_points_are_run_as_given(tmp_path):
    experiment = load(tmp_path, TEXT)
    assert [(case.label, dict(case.point)) for case in experiment.cases] == [
        ("dis", {"clients": 2, "dim": 3}),
        ("dis", {"clients": 4, "dim": 2}),
        ("alone", {"clients": 2, "dim": 3}),
        ("alone", {"clients": 4, "dim": 2}),
    ]
    assert [(case.environment.clients, case.environment.dim) for case in experiment.cases[:2]] == [(2, 3), (4, 2)]


def test_a_point_of_one_algorithm_concerns_that_one_only(tmp_path):
    text = TEXT.partition("[[published]]")[0]
    first, second = ("environment.clients = 2\n", "environment.clients = 4\nenvironment.dim = 2\n")
    text = text.replace(first, first + "algorithms.dis.threshold = 1\n")
    text = text.replace(second, "environment.clients = 2\nenvironment.dim = 3\nalgorithms.dis.threshold = 2\n")
    experiment = load(tmp_path, text)
    assert [(case.label, dict(case.point)) for case in experiment.cases] == [
        ("dis", {"clients": 2, "dim": 3, "threshold": 1}),
        ("dis", {"clients": 2, "dim": 3, "threshold": 2}),
        ("alone", {"clients": 2, "dim": 3}),
    ]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("environment.dim = 2\n", "", "points.1: every point needs the same keys as the first"),
        ("environment.dim = 2\n", "environment.dims = 2\n", "points.1: every point needs the same keys"),
        ("[[published]]\n", "[sweep]\nrun.horizon = [2]\n[[published]]\n", "not both"),
        ('of = "dis"', 'of = "das"', "published.0: no algorithm 'das' here; did you mean 'dis'"),
        ('"regret"', '"regrets"', "published.0: unknown metric 'regrets'"),
        ("clients = 4, dim = 2 }", "clients = 4, dim = 3 }", "published.0: 'dis' is not run at"),
        ("value = 123.5", "value = nan", "published.0.value"),
        ('where = "table 7"', "", "published.0.where: field required"),
    ],
)
def test_errors_name_the_entry(tmp_path, old, new, error):
    assert old in TEXT
    with pytest.raises(ConfigError, match=error):
        load(tmp_path, TEXT.replace(old, new, 1))


def test_figures_stand_beside_ours(tmp_path):
    direct = run_experiment(load(tmp_path, TEXT), out=tmp_path / "out")
    final = direct.final()
    ours = final[(final["algorithm"] == "dis") & (final["clients"] == 4)]["regret"]
    share = final[(final["algorithm"] == "alone") & (final["clients"] == 2)]["regret"] / 2
    for results in (direct, Results.load(tmp_path / "out")):
        one, other = results.published
        assert (one.label, one.value, one.where, one.seeds) == ("dis", 123.5, "table 7", 3)
        np.testing.assert_allclose([one.mean, one.error], [ours.mean(), ours.sem()])
        np.testing.assert_allclose([other.mean, other.error], [share.mean(), share.sem()])
    table = published_table(direct)
    assert [column.title for column in table.columns[1:]] == [
        "regret at clients 4, dim 2",
        "regret per client at clients 2, dim 3",
    ]
    assert table.rows[0].cells[1][0].text == "124"
    alone = published_table(replace(direct, published=direct.published[:1]))
    assert [column.title for column in alone.columns] == ["regret of", "clients 4, dim 2"]
    html = page(direct)
    assert html.index('id="published"') < html.index('id="table"')
    assert "123.5, table 7" in html
    assert 'data-picture="regret-by-clients, dim"' in html  # paired points are one axis
    assert json.loads(json.dumps(as_dict(direct)["published"]))[1]["value"] == 9


def test_runs_still_to_come_leave_a_gap(tmp_path):
    run_experiment(load(tmp_path, TEXT), out=tmp_path / "out")
    for path in (tmp_path / "out" / "runs").glob("dis*"):
        path.unlink()
    results = Results.load(tmp_path / "out")
    assert results.published[0].seeds == 0
    assert published_table(results).rows[0].cells[1][1].text == "–"
