"""Settings every test shares: reproducible examples, no clocks, one thread per numerical library."""

from __future__ import annotations

import gc
import os
import signal

import hypothesis
import pytest
from threadpoolctl import threadpool_limits

from thoroughness import is_thorough

hypothesis.settings.register_profile(
    "fedbandits",
    deadline=None,  # the first call of a kernel compiles it
    derandomize=True,
    max_examples=60 if "CI" in os.environ else 25,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("fedbandits")


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    with threadpool_limits(1):
        yield


# a suite that was started in the background inherits a deaf ear for Ctrl-C, and so would the programs it interrupts
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before those are left out that are not asked for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves to `make test-thorough`."""
    for item in items:
        if is_thorough(item.nodeid):
            item.add_marker(pytest.mark.thorough)


def pytest_collection_finish() -> None:
    """Fifteen thousand tests need not be gone through whenever garbage is looked for."""
    gc.collect()
    gc.freeze()
