"""Two worlds agree: one population of n in process, and n populations of one reached by bytes alone.

Tolerance: none. Choices, callers, statistics and ledgers agree to the last bit.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.subjects import (
    HORIZON,
    NAMES,
    SCHEDULES,
    TALKING,
    about,
    home,
    network_of,
    same,
    talkative,
    talks,
)
from conformance.worlds import two_worlds
from fedbandits.contract.ledger import UNITS
from fedbandits.contract.wire import Wire


def run(name, horizon, schedule="all", packed=False, **conditions):
    when = {"stragglers": 0.5, "presence": 0.4} if schedule == "stragglers" else {"schedule": schedule}
    return two_worlds(
        talkative(name),
        home(name, **when),
        horizon,
        seed=5,
        wire=Wire(packed=packed),
        network=network_of(name, **conditions),
    )


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("schedule", [*SCHEDULES, "stragglers"])
@pytest.mark.parametrize("name", NAMES)
def test_two_worlds_agree(name, schedule, packed):
    for step in run(name, HORIZON if schedule in ("all", "stragglers") else 3 * HORIZON, schedule, packed):
        together, apart = step.together, step.apart
        np.testing.assert_array_equal(step.picks, step.picks_apart)
        np.testing.assert_array_equal(step.callers, step.callers_apart)
        np.testing.assert_array_equal(together.ledger.counts, apart.ledger.counts)
        assert together.ledger.syncs == apart.ledger.syncs
        assert apart.bytes_seen == sum(flow.bytes for flow in (apart.ledger.up, apart.ledger.down, apart.ledger.peer))
        for joint, alone in zip(together.states(), apart.states(), strict=True):
            assert same(joint, alone)
        if together.server is not None:
            assert same(together.server.state(), apart.server.state())
    assert not talks(name) or together.ledger.syncs >= 3


@pytest.mark.parametrize("name", TALKING)
def test_packing_changes_the_bytes_and_nothing_else(name):
    plain, packed = (list(run(name, HORIZON, packed=packed))[-1].together for packed in (False, True))
    assert same(plain.agents.state(), packed.agents.state())
    messages = plain.ledger.counts[:, UNITS.index("messages")]
    np.testing.assert_array_equal(messages, packed.ledger.counts[:, UNITS.index("messages")])
    packs = any(field.symmetric for utterance in about(name).says for field in utterance.fields)
    for unit in ("scalars", "bytes"):
        before, after = (side.ledger.counts[:, UNITS.index(unit)].sum() for side in (plain, packed))
        assert (after < before) if packs else (after == before)


@pytest.mark.parametrize("schedule", ["all", "stragglers"])
@pytest.mark.parametrize("name", [name for name in TALKING if about(name).topology == "graph"])
def test_two_worlds_agree_in_trouble(name, schedule):
    """Links that fail, messages that come late, are tampered with or contaminated, and agents that are not there."""
    raw = any(field.raw for utterance in about(name).says for field in utterance.fields)
    trouble = {"loss": 0.2, "delay": 1.0, "delay_max": 3} | ({"tampering": 0.1, "contamination": 0.1} if raw else {})
    for step in run(name, HORIZON, schedule, **trouble):
        np.testing.assert_array_equal(step.picks, step.picks_apart)
        np.testing.assert_array_equal(step.together.ledger.counts, step.apart.ledger.counts)
        for joint, alone in zip(step.together.states(), step.apart.states(), strict=True):
            assert same(joint, alone)
