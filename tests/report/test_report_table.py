import io
from dataclasses import replace

import networkx as nx
import pytest
from rich.console import Console

import fedbandits as fb
from conformance.gossip import GossipLinUCB
from fedbandits.findings.results import Results
from fedbandits.report import page
from fedbandits.report.readable import exact, human, with_error
from fedbandits.report.summary import summarise
from fedbandits.report.table import summary_table
from fedbandits.simulation.metrics import METRICS, Metric
from fedbandits.studies.compare import comparison


def test_shared_columns_are_those_of_results_summary(results: Results) -> None:
    ours, theirs = summarise(results), results.summary()
    for column in theirs:
        assert ours[column].equals(theirs[column]), column


def test_added_columns_are_means_over_the_last_steps(results: Results) -> None:
    ours = summarise(results).set_index("algorithm")
    last = results.frame[results.frame["step"] == 60]
    for column in ("regret", "syncs", "bytes", "up_messages", "down_scalars", "peer_bytes"):
        for name, rows in last.groupby("algorithm"):
            assert ours.loc[name, column] == pytest.approx(rows[column].mean(), rel=1e-12), column
            assert ours.loc[name, f"{column}_se"] == pytest.approx(rows[column].std() / 3**0.5, rel=1e-9), column


def test_regret_per_client(results: Results) -> None:
    ours = summarise(results)
    assert ours["regret_per_client"].to_numpy() == pytest.approx(ours["regret"].to_numpy() / 4)
    assert ours["regret_per_client_se"].to_numpy() == pytest.approx(ours["regret_se"].to_numpy() / 4)


def test_table_shows_the_summary(results: Results) -> None:
    table, summary = summary_table(results), summarise(results)
    titles = [column.title for column in table.columns]
    assert [row.name for row in table.rows] == ["alone", "dis", "central"]
    for row, (_, point) in zip(table.rows, summary.iterrows(), strict=True):
        cells = dict(zip(titles, row.cells, strict=True))
        assert cells["Regret"][0].text == with_error(point["regret"], point["regret_se"])
        assert cells["Regret"][0].exact == f"{exact(point['regret'])} ± {exact(point['regret_se'])}"
        assert cells["Syncs"][0].text == human(point["syncs"])
        for unit in ("messages", "scalars"):
            shown = [(figure.way, figure.text) for figure in cells[unit.capitalize()]]
            assert shown == [(way, human(point[f"{way}_{unit}"])) for way in ("up", "down")]
        assert [figure.text for figure in cells["Bytes"]] == [
            human(point[f"{way}_bytes"], "B") for way in ("up", "down")
        ]


def test_a_sweep_has_a_row_for_each_point(swept: Results) -> None:
    table = summary_table(swept)
    assert [row.cells[1][0].text for row in table.rows] == ["1", "2", "4"]


def test_the_terminal_table_fits_80_columns(results: Results) -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(summary_table(results))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in out.getvalue()
    assert summary_table(results).rows[1].cells[1][0].text in out.getvalue()


def test_privacy_has_a_column_where_any_algorithm_has_spent_some(results: Results) -> None:
    assert "ε" not in [column.title for column in summary_table(results).columns]
    assert "<dfn>ε</dfn>" not in page(results)
    frame = results.frame.assign(epsilon=results.frame["step"].where(results.frame["algorithm"] == "dis") / 40)
    private = replace(results, frame=frame)
    table = summary_table(private)
    at = [column.title for column in table.columns].index("ε")
    assert [row.cells[at][0].text for row in table.rows] == ["–", "1.5", "–"]
    assert "<dfn>ε</dfn>" in page(private)
    out = io.StringIO()
    Console(file=out, width=80).print(table)
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "…" not in out.getvalue()


def test_a_metric_with_a_heading_has_a_column(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    doubled = 2 * summarise(results)["regret"]
    shown = Metric("doubled", "Doubled", "twice the regret", "B", summarised=True, heading="2R")
    monkeypatch.setitem(METRICS, "doubled", shown)  # type: ignore[misc]
    table = summary_table(replace(results, frame=results.frame.assign(doubled=2 * results.frame["regret"])))
    at = [column.title for column in table.columns].index("2R")
    assert table.columns[at].hint == "twice the regret, at the end"
    assert [row.cells[at][0].text for row in table.rows] == [human(value, "B") for value in doubled]


def test_each_row_shows_the_ways_it_uses() -> None:
    algorithms = {
        "gossip": GossipLinUCB(),
        "dis": fb.algorithms.DisLinUCB(threshold=0.1),
        "random": fb.algorithms.Random(),
    }
    env = fb.environments.Linear(clients=4, dim=2, arms=3)
    table = summary_table(comparison(algorithms, env, 30, 2, network=nx.cycle_graph(4)))
    at = [column.title for column in table.columns].index("Messages")
    assert [[figure.way for figure in row.cells[at]] for row in table.rows] == [["peer"], ["up", "down"], ["peer"]]
    assert table.rows[0].cells[at][0].exact == f"{30 * 2 * 4} ± 0"


def test_names_swept_over_are_not_numbers(swept: Results) -> None:
    assert summary_table(swept).columns[1].numeric
    frame = swept.frame.assign(network=swept.frame["clients"].map("{}-ring".format))
    table = summary_table(replace(swept, sweep=["network"], frame=frame))
    assert not table.columns[1].numeric
    assert table.rows[0].cells[1][0].text == "1-ring"


def test_a_narrow_terminal_keeps_names_and_results_and_says_what_it_left_out(results: Results) -> None:
    frame = results.frame.assign(
        algorithm=results.frame["algorithm"].map(lambda name: f"{name} with a rather long name"),
        honest_regret=results.frame["regret"] * 1e6,
    )
    table = summary_table(replace(results, frame=frame))
    for width in (60, 80, 200):
        out = io.StringIO()
        Console(file=out, width=width).print(table)
        shown = out.getvalue()
        assert max(map(len, shown.splitlines())) <= width
        for row in table.rows:
            assert row.name.split()[0] in shown
            assert row.cells[1][0].text in shown
        assert ("left out" in shown) == (width < 200)
    assert "Honest regret" in shown
