"""Pictures of games: a front and returns, ways on a board."""

import numpy as np

import fedbandits as fb
from fedbandits.contract.portrait import BOARD, FRONT, PATHS, RETURNS
from fedbandits.report.games import front_picture, paths_picture


def test_a_front_and_ways_are_drawn():
    team = fb.simulate("random", "team-mdp", 40, 0).portrait
    assert (team[RETURNS][:, None] <= team[FRONT] + 1e-9).all(axis=2).any(axis=1).all(), "nothing is beyond the front"
    assert "<svg" in front_picture(team[FRONT], team[RETURNS], "front", "Returns")
    board = fb.simulate("random", "grid-explore:size=4,clients=3,length=5", 10, 0).portrait
    moved = np.abs(np.diff(np.stack(np.divmod(board[PATHS], 4)), axis=2))
    assert moved.max() == 1
    svg = paths_picture(board[BOARD], board[PATHS], "ways", "Ways")
    assert "<svg" in svg
