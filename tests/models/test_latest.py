"""The latest heard of every sender: letters in any order, against dictionaries, together and alone."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.contract.facts import Place
from fedbandits.contract.messages import Inbox, Message
from fedbandits.models.latest import Latest

FIELDS = {"means": ((2, 3), "f8"), "counts": ((), "i8"), "spoke": ((2,), "b1")}


def latest(graph, hops=1, identities=None):
    return Latest(Place(graph, hops), np.arange(len(graph)) if identities is None else np.array(identities), FIELDS)


def letters(*written):
    """Letters of (to, origin, born): what is told follows from origin and round."""
    rows = sorted({(origin, born) for _, origin, born in written})
    who, born = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    to = np.array([letter[0] for letter in written], dtype=np.int64)
    row = np.array([rows.index(letter[1:]) for letter in written], dtype=np.int64)
    inbox = Inbox(Message("told", who), born, to, row)
    told = [told_by(*one) for one in rows]
    return inbox, {
        name: np.array([one[name] for one in told], dtype).reshape(len(rows), *shape)
        for name, (shape, dtype) in FIELDS.items()
    }


def told_by(origin, born):
    return {
        "means": np.arange(6.0).reshape(2, 3) + 10 * born + origin / 10,
        "counts": born,
        "spoke": [True, origin > 2],
    }


def take(heard, *written):
    inbox, told = letters(*written)
    heard.take(inbox, **told)


@st.composite
def networks(draw):
    n = draw(st.integers(1, 7))
    return nx.gnp_random_graph(n, draw(st.floats(0.1, 1.0)), seed=draw(st.integers(0, 99)))


@given(networks(), st.integers(0, 3), st.data())
def test_the_newest_of_every_sender_stays_in_whatever_order_letters_come(graph, hops, data):
    """Against a dictionary; and an agent alone keeps its share of what all keep together, to the bit."""
    together = latest(graph, hops)
    apart = [latest(graph, hops, [i]) for i in graph]
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    pairs = [(i, j) for i in graph for j in graph if 1 <= distance[i].get(j, 99) <= hops]
    known = {}
    for _ in range(data.draw(st.integers(0, 3)) if pairs else 0):
        written = data.draw(st.lists(st.tuples(st.sampled_from(pairs), st.integers(0, 9)), max_size=8))
        batch = [(to, origin, born) for (to, origin), born in written]
        take(together, *batch)
        for to, origin, born in batch:
            known[to, origin] = max(known.get((to, origin), -1), born)
            take(apart[to], (0, origin, born))
    assert len(together.born) == len(pairs)
    for i in graph:
        rows = range(together.starts[i], together.starts[i + 1])
        assert together.origins[rows].tolist() == sorted(j for to, j in pairs if to == i)
        for row in rows:
            born = known.get((i, together.origins[row]), -1)
            assert together.born[row] == born
            for name, array in together.kept.items():
                expected = told_by(together.origins[row], born)[name] if born >= 0 else 0
                np.testing.assert_array_equal(array[row], expected)
        share, alone = together.share(i), apart[i].share(0)
        assert list(share) == list(alone) == [*FIELDS, "born"]
        for name, array in alone.items():
            assert share[name].dtype == array.dtype
            np.testing.assert_array_equal(share[name], array)


def test_of_two_letters_of_one_round_the_first_stays():
    heard = Latest(Place(nx.path_graph(2)), np.arange(2), {"value": ((), "f8")})
    inbox = Inbox(Message("told", np.array([1, 1])), np.array([4, 4]), np.array([0, 0]), np.array([0, 1]))
    heard.take(inbox, value=np.array([0.25, 0.5]))
    assert heard.kept["value"].tolist() == [0.25, 0.0]


def test_a_snapshot_takes_up_where_it_was():
    one, other = (latest(nx.cycle_graph(5), 2) for _ in range(2))
    take(one, (0, 1, 3), (4, 2, 1))
    other.load(one.state())
    for heard in (one, other):
        take(heard, (0, 1, 2), (4, 2, 5))
    for name, array in one.state().items():
        np.testing.assert_array_equal(array, other.state()[name])
    with pytest.raises(ValueError, match="lacks counts"):
        other.load({name: array for name, array in one.state().items() if name != "counts"})


class TestDoor:
    def test_a_letter_from_beyond_reach_changes_nothing(self):
        heard = latest(nx.path_graph(4))
        with pytest.raises(ValueError, match="agent 0 reached an agent that is not within its reach"):
            take(heard, (1, 0, 2), (3, 0, 2))
        assert (heard.born == -1).all()

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"means": None}, "letters need"),
            ({"more": np.zeros(1)}, "letters need"),
            ({"means": np.zeros((1, 2))}, "means of letters must be float64"),
            ({"counts": np.zeros(1)}, "counts of letters must be int64"),
        ],
    )
    def test_other_fields_than_those_agreed_on_change_nothing(self, change, match):
        heard = latest(nx.path_graph(2))
        inbox, told = letters((0, 1, 3))
        told |= change
        with pytest.raises(ValueError, match=match):
            heard.take(inbox, **{name: array for name, array in told.items() if array is not None})
        assert (heard.born == -1).all()

    def test_when_it_was_said_is_always_kept(self):
        with pytest.raises(ValueError, match="another name"):
            Latest(None, np.arange(2), {"born": ((), "i8")})

    def test_it_holds_one_row_for_every_pair_within_reach(self):
        ring = nx.cycle_graph(7)
        assert len(latest(ring, 2).born) == 7 * 4
        assert len(latest(ring, 2, [5]).born) == 4
        assert len(Latest(None, np.arange(7), FIELDS).born) == 0
