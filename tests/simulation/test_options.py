import networkx as nx
import pytest

import fedbandits as fb
from fedbandits.simulation.options import Options, RunOptions


def test_keywords_become_one_value():
    options = RunOptions.of(network="ring:ttl=2", coverage=True, theory=True, wire=fb.Wire(packed=True))
    assert options == RunOptions(network=fb.network.Ring(ttl=2), coverage=True, theory=True, wire=fb.Wire(packed=True))
    assert RunOptions.of() == RunOptions.of(network=None) == RunOptions()
    assert RunOptions.of(network=nx.path_graph(3)).network == fb.network.Given.of(nx.path_graph(3))


def test_the_keywords_are_the_fields():
    assert list(Options.__annotations__) == list(RunOptions.__dataclass_fields__)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"coverge": True}, "there is no option 'coverge'; did you mean 'coverage'"),
        ({"x": 1}, "there is no option 'x'; known are: network, wire"),
        ({"network": "rinq"}, "unknown network 'rinq'; did you mean 'ring'"),
    ],
)
def test_others_are_refused(given, match):
    with pytest.raises(fb.ConfigError, match=match):
        RunOptions.of(**given)
