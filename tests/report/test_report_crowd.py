"""Many algorithms, long names, wide bars, grids: everything can still be told apart and read."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.contract.description import describe
from fedbandits.findings.claims import parse_claims
from fedbandits.findings.results import Results
from fedbandits.report import page, plots
from fedbandits.report.labels import beside
from fedbandits.report.palette import SERIES
from fedbandits.report.plots import Series
from fedbandits.simulation.metrics import METRICS
from fedbandits.studies.compare import comparison
from fedbandits.studies.study import Case, Study, run_study

SMALL = fb.environments.Linear(clients=3, dim=2, arms=3)
LONG = "a-rather-long-label-for-an-algorithm-with-threshold-"


@pytest.fixture(scope="module")
def nine() -> Results:
    algorithms = {f"{LONG}{at}": fb.algorithms.DisLinUCB(threshold=0.1 + at) for at in range(9)}
    return comparison(algorithms, SMALL, horizon=20, seeds=2, points=5)


def swatches(html: str) -> list[str]:
    return re.findall(r'<svg class="swatch line".*?</svg>', html)


def test_nine_algorithms_have_nine_styles_in_legend_table_and_curves(nine: Results) -> None:
    html = page(nine)
    for part in (r'<div class="legend".*?</div>', r'<table class="summary">.*?</table>'):
        found = swatches(re.search(part, html, flags=re.DOTALL)[0])  # type: ignore[index]
        assert len(found) == len(set(found)) == 9
    figure = re.search(r'data-picture="regret-curves".*?</figure>', html, flags=re.DOTALL)[0]  # type: ignore[index]
    curves = re.findall(r'class="curve".*?style="(.*?)"', figure, flags=re.DOTALL)
    assert len(curves) == len(set(curves)) == 9
    assert len(set(re.findall(r"--series-\d", " ".join(curves)))) == len(SERIES)


def test_the_tip_under_the_pointer_shows_the_swatch_of_the_legend(nine: Results) -> None:
    html = page(nine)
    assert '[data-toggles="${series.index}"] .swatch' in html
    assert re.findall(r'data-toggles="(\d)"', html) == [str(at) for at in range(9)]


def test_long_labels_keep_their_end_and_show_all_of_it_on_demand(nine: Results) -> None:
    html = page(nine)
    for name in nine.algorithms:
        end = name[-4:]
        assert re.search(rf'<button[^>]*title="{name}">.*?…[^<]*{end}</button>', html)
        assert re.search(rf'<th scope="row" title="{name}">.*?…[^<]*{end}</th>', html)
        assert re.search(rf"<text [^>]*><title>{name}</title>[^<]*…[^<]*{end}</text>", html)


def test_short_labels_need_no_tip(results: Results) -> None:
    html = page(results)
    assert "…" not in html
    assert "<title>alone" not in html


@pytest.fixture(scope="module")
def grid() -> Results:
    cases = [
        Case(
            label,
            fb.algorithms.DisLinUCB(threshold=threshold),
            fb.environments.Linear(clients=clients, dim=dim, arms=3),
            20,
            {"clients": clients, "dim": dim},
        )
        for label, threshold in (("often", 0.1), ("seldom", 2.0))
        for clients in (1, 2, 4)
        for dim in (2, 3)
    ]
    claim = {"kind": "less", "text": "t", "metric": "regret", "of": "often", "than": "seldom"}
    study = Study(
        title="A grid",
        cases=cases,
        points=4,
        identity={"environment": describe(SMALL)},
        sweep=["clients", "dim"],
        claims=[claim | {"at": {"clients": 2, "dim": 3}}],
    )
    return run_study(study, seeds=2)


def test_every_line_of_a_grid_has_its_own_style_and_is_named(grid: Results) -> None:
    html = page(grid)
    for key, lines in (("regret-by-clients", 4), ("regret-by-dim", 6)):
        figure = re.search(rf'data-picture="{key}".*?</figure>', html, flags=re.DOTALL)[0]  # type: ignore[index]
        found = swatches(figure)
        assert len(found) == len(set(found)) == lines
        assert "often, dim=3" in figure or "often, clients=4" in figure
        joined = re.findall(r'<path d="M [^"]*L [^"]*" clip-path[^>]*style="([^"]*)"', figure)
        assert len({style for style in joined if "--series" in style}) >= lines


def test_two_seeds_print_no_infinities(grid: Results) -> None:
    html = page(grid)
    assert "too few seeds for an interval" in html
    assert not re.search(r"\binf\b|\bnan\b", re.sub(r"<script.*?</script>|<svg.*?</svg>", "", html, flags=re.DOTALL))
    for kept in (1, 2):
        few = replace(grid, frame=grid.frame[grid.frame["seed"] < kept])
        [claim] = parse_claims(
            [{"kind": "growth", "text": "t", "metric": "regret", "of": "often", "against": "step", "below": 1.0}]
        )
        judged = claim.judge(few.frame[few.frame["dim"].eq(2) & few.frame["clients"].eq(2)], few.final())
        assert "inf" not in judged.measured


def test_a_label_is_not_struck_by_the_bars_of_its_own_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trade-off hands all error bars, in points, to whoever places labels."""
    seen = {}

    def spy(marks: np.ndarray, widths: list[float], height: float, frame: tuple[float, float], lines: list) -> list:
        seen.update(marks=marks, lines=lines)
        return beside(marks, widths, height, frame, lines)

    monkeypatch.setattr("fedbandits.report.plots.naming.beside", spy)
    points = pd.DataFrame(
        {
            "name": ["one", "two"],
            "regret": [100.0, 50.0],
            "regret_error": [30.0, 10.0],
            "bytes": [1000.0, 2000.0],
            "bytes_error": [400.0, 0.0],
        }
    )
    plots.trade_off(points, METRICS["bytes"], Series(["one", "two"]), caption="")
    (x, y), wide, high = seen["marks"][0], seen["lines"][0], seen["lines"][2]
    assert wide[0] < x - 20 < x + 20 < wide[2]
    assert wide[1] < y < wide[3]
    assert high[1] < y - 20 < y + 20 < high[3]
    assert high[0] < x < high[2]
