"""Client graphs: cells are covered exactly, colours say what is right, and the section gives the numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.portrait import OMITTED, TRUTH, Portrait, mistakes
from fedbandits.findings.results import Results
from fedbandits.report import page
from fedbandits.report.graphs import LACKING, RIGHT, WRONG, by_cluster, by_neighbours, client_graph, rectangles
from fedbandits.report.portraits import portraits
from fedbandits.studies.compare import comparison

ENV = fb.environments.ENVIRONMENTS["clustered-linear"](clients=8, dim=3, arms=5, pool=50, clusters=2, gamma=1.0)


@pytest.fixture(scope="module")
def clustered() -> Results:
    algorithms = {"club": ALGORITHMS["club"](), "oracle": ALGORITHMS["oracle-clusters"]()}
    return comparison(algorithms, ENV, 30, seeds=2, points=5)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_rectangles_cover_exactly_once(share: float) -> None:
    cells = np.random.default_rng(0).random((13, 17)) < share
    covered = np.zeros(cells.shape, dtype=int)
    for top, bottom, left, right in rectangles(cells):
        covered[top:bottom, left:right] += 1
    np.testing.assert_array_equal(covered, cells)


def test_a_block_is_one_rectangle() -> None:
    assert len(list(rectangles(np.ones((500, 500), dtype=bool)))) == 1


def test_orders_put_together_what_belongs_together() -> None:
    truth = np.array([1, 0, 1, 0, 1])
    assert by_cluster(truth).tolist() == [0, 2, 4, 1, 3]
    graph = (truth[:, None] == truth[None, :]) & ~np.eye(5, dtype=bool)
    assert truth[by_neighbours(graph)].tolist() == [1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("joined", "separated", "inks"),
    [(False, False, {RIGHT}), (True, False, {RIGHT, WRONG}), (False, True, {RIGHT, LACKING})],
)
def test_colours_appear_only_where_something_is_wrong(joined: bool, separated: bool, inks: set[object]) -> None:
    truth = np.array([0, 0, 1, 1])
    graph = truth[:, None] == truth[None, :]
    if joined:
        graph[0, 2] = graph[2, 0] = True
    if separated:
        graph[0, 1] = graph[1, 0] = False
    svg = client_graph(graph, truth, "k", "t")
    filled = set(re.findall(r"fill: var\(--([\w-]+)", svg))
    assert filled == {ink.name for ink in inks}  # type: ignore[attr-defined]


def test_the_section_draws_each_case_once_with_its_numbers(clustered: Results) -> None:
    html = page(clustered)
    assert html.count('aria-label="Client graph of ') == 2
    assert html.index('id="pictures"') < html.index('id="portraits"')
    club = [one for one in clustered.portraits if one.label == "club"]
    found = mistakes(club[0].arrays["graph"], club[0].arrays[TRUTH])
    assert f"{found.joined} of {found.different} pairs wrongly joined" in html
    assert f"{found.separated} of {found.alike} pairs wrongly separated" in html
    assert "0 of" in html[html.index("Client graph of oracle") :]


def test_without_truth_nothing_is_called_wrong(clustered: Results) -> None:
    blind = [
        replace(one, arrays={name: array for name, array in one.arrays.items() if name != TRUTH})
        for one in clustered.portraits
    ]
    section = portraits(replace(clustered, portraits=blind))
    assert section is not None
    assert "wrongly" not in section.body
    assert "of 28 pairs joined" in section.body


def test_a_graph_that_was_too_large_is_mentioned(clustered: Results) -> None:
    large = Portrait("club", {"clients": 900}, 0, {TRUTH: np.zeros(900, dtype=int), OMITTED: np.array(["graph"])})
    section = portraits(replace(clustered, portraits=[large]))
    assert section is not None
    assert "too many clients to be kept" in section.body
    assert "<svg" not in section.body


def test_no_portraits_no_section(results: Results) -> None:
    assert portraits(results) is None
