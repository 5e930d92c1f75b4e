"""With communication off nothing is counted, and agents on their own are what is left."""

from __future__ import annotations

import pytest

from conformance.subjects import HORIZON, NAMES, about, family_of, home, network_of, talkative
from conformance.typical import typical_first
from fedbandits.simulation.loop import simulate

MUTE = [name for name in NAMES if name in family_of(name).silent or not about(name).says]


@pytest.mark.parametrize("name", typical_first(MUTE))
def test_with_communication_off_nothing_is_counted(name):
    mute = talkative(name, **family_of(name).silent.get(name, {}))
    trace = simulate(mute, home(name), HORIZON, network=network_of(name))
    assert not trace.counts.any()
    assert not trace.syncs.any()
