import io

import pytest
from rich.console import Console

from fedbandits.report.readable import exact, human, with_error
from fedbandits.report.summary import COLUMNS, summarise
from fedbandits.report.table import summary_table
from fedbandits.results import Results


def test_shared_columns_are_those_of_results_summary(results: Results) -> None:
    ours, theirs = summarise(results), results.summary()
    for column in theirs:
        assert ours[column].equals(theirs[column]), column


def test_added_columns_are_means_over_the_last_steps(results: Results) -> None:
    ours = summarise(results).set_index("algorithm")
    last = results.frame[results.frame["step"] == 60]
    for column in set(COLUMNS) - {"decisions_per_second", "regret_per_client"}:
        for name, rows in last.groupby("algorithm"):
            assert ours.loc[name, column] == pytest.approx(rows[column].mean(), rel=1e-12), column
            assert ours.loc[name, f"{column}_se"] == pytest.approx(rows[column].std() / 3**0.5, rel=1e-9), column


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
    Console(file=out, width=80).print(summary_table(results).rich())
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in out.getvalue()
    assert summary_table(results).rows[1].cells[1][0].text in out.getvalue()
