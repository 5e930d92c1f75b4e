"""What an agent is made with: facts, algorithms in plain words, and draws that a federation has in common."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.channel import Quantise, Through
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.facts import FACTS
from fedbandits.contract.streams import Streams, seeds_of
from fedbandits.deploy import Agent, SettingsError
from fedbandits.deploy.algorithm_description import algorithm_from_plain, algorithm_to_plain
from fedbandits.deploy.flower.conversation.desk import fingerprint
from fedbandits.deploy.settings import Settings, made, stored
from fedbandits.facts import (
    RKHS,
    AgentFeatures,
    Candidates,
    Contamination,
    Episodes,
    Game,
    Link,
    Moment,
    Noise,
    Norms,
    Place,
    Range,
    Shared,
)

LINUCB = fb.algorithms.DisLinUCB(threshold=2.0)
EVERYTHING = [
    Noise(0.3),
    Norms(2.0, 1.5),
    Link("logistic"),
    Shared(2),
    Moment(1.5, 2.0, 1.0),
    Contamination(0.1),
    Range(0.0, 1.0),
    RKHS((0.5, 1.0, 2.0)),
    AgentFeatures(((0.5, 1.0), (-1.0, 0.0))),
    Candidates(((0.5, 1.0, 0.0), (-1.0, 0.0, 0.0))),
    Episodes(7),
    Game(2, sees=((0,), (1,)), board=(3, 4)),
]


def settings(**others):
    return made({"algorithm": LINUCB, "dim": 3} | others)


# facts


def test_facts_are_written_down_by_name_and_read_again():
    assert {type(fact) for fact in EVERYTHING} == set(FACTS.values())
    told = settings(facts=EVERYTHING)
    plain = json.loads(told.text())
    assert plain["facts"].keys() == set(FACTS)
    assert plain["facts"]["norms"] == {"parameter": 2.0, "arms": 1.5}
    assert not {"noise", "bound", "arm_norm", "link", "range"} & plain.keys()
    assert stored(told.text(), {}) == told
    assert set(told.problem.facts) == set(EVERYTHING)


def test_the_order_of_facts_and_what_is_taken_for_granted_say_nothing():
    assert settings(facts=EVERYTHING) == settings(facts=EVERYTHING[::-1])
    assert settings(facts=iter(EVERYTHING)) == settings(facts=tuple(EVERYTHING))
    plain, defaults = settings(), settings(facts=[Noise(), Norms(), Link(), Contamination()])
    assert fingerprint(plain) == fingerprint(defaults)
    assert stored(plain.text(), {"facts": defaults.facts}) == plain
    assert stored(defaults.text(), {"facts": ()}) == defaults
    assert fingerprint(plain) != fingerprint(settings(facts=[Noise(0.2)]))


def test_facts_that_are_given_again_are_compared_one_by_one():
    text = settings(facts=[Noise(0.5), Range(0, 1)]).text()
    stored(text, {"facts": [Range(0, 1)]})
    stored(text, {"facts": [Noise(0.5)]})
    with pytest.raises(SettingsError, match=r"\(facts\.range\.high: 1\.0 there, 2\.0 now\)"):
        stored(text, {"facts": [Range(0, 2)]})
    with pytest.raises(SettingsError, match=r"\(facts\.noise\.sigma: 0\.5 there, 0\.1 now\)"):
        stored(text, {"facts": [Noise()]})
    with pytest.raises(SettingsError, match=r"\(facts\.shared\.coordinates: null there, 2 now\)"):
        stored(text, {"facts": [Shared(2)]})


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ([Noise(1.0), Noise(2.0)], "noise is told twice; leave one out"),
        ([0.5], r"0\.5 is no fact; write facts=\[Noise\(0\.5\), Range\(0, 1\)\]"),
        (Noise(0.5), r"must be a list, as in facts=\[Noise\(0\.5\), Range\(0, 1\)\]"),
        (3, r"must be a list, as in facts="),
        ([Place(None)], "place cannot be told to a deployed agent"),
        ({"noice": 0.5}, "unknown fact 'noice'; did you mean 'noise'?"),
        ({"noise": -1}, "noise: sigma: must be greater than or equal to 0"),
        ([Noise], "is no fact"),
    ],
)
def test_what_is_no_fact_is_named(tmp_path, facts, complaint):
    with pytest.raises(SettingsError, match=complaint):
        Agent.open(tmp_path / "agent.db", LINUCB, 3, facts=facts)
    assert list(tmp_path.iterdir()) == []


def test_settings_name_what_they_do_not_know():
    with pytest.raises(ConfigError, match=r"agent has no parameter 'horzion'; did you mean 'horizon'\?"):
        Settings(algorithm=LINUCB, dim=3, horzion=4)
    with pytest.raises(SettingsError, match=r"noise is a fact now: write facts=\[Noise\(sigma=0\.5\)\]"):
        settings(noise=0.5)


# algorithms


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_comes_back_from_plain_words(name):
    algorithm = ALGORITHMS[name]()
    plain = json.loads(json.dumps(algorithm_to_plain(algorithm)))
    assert plain["name"] == name
    assert algorithm_from_plain(plain) == algorithm


def test_stages_are_part_of_an_algorithm():
    algorithm = Through(LINUCB, (Quantise(bits=8),))
    plain = json.loads(json.dumps(algorithm_to_plain(algorithm)))
    assert plain == algorithm_to_plain(LINUCB) | {"through": [{"name": "quantise", "bits": 8}]}
    assert algorithm_from_plain(plain) == algorithm
    told, bare = settings(algorithm=algorithm), settings()
    assert stored(told.text(), {}) == told
    assert stored(told.text(), {"algorithm": algorithm}) == told
    assert fingerprint(told) != fingerprint(bare)
    with pytest.raises(SettingsError, match=r"algorithm\.through"):
        stored(told.text(), {"algorithm": LINUCB})
    with pytest.raises(SettingsError, match=r"algorithm\.through"):
        stored(told.text(), {"algorithm": Through(LINUCB, (Quantise(bits=4),))})


@pytest.mark.parametrize(
    ("plain", "complaint"),
    [
        (3, "algorithm must be a name, or a table"),
        ({"threshold": 2}, "algorithm must be a name, or a table"),
        ("dislinuc", "did you mean 'dislinucb'?"),
        ("low=dislinucb", "a label has no use here; leave low= out"),
        ({"name": "dislinucb", "through": [{"name": "quantize"}]}, "did you mean 'quantise'?"),
        ({"name": "__main__:Mine"}, "was defined in a script or notebook.*give it"),
    ],
)
def test_what_is_no_algorithm_is_named(plain, complaint):
    with pytest.raises(ConfigError, match=complaint):
        algorithm_from_plain(plain)


def test_an_algorithm_without_parameters_cannot_be_written_down(tmp_path):
    class Plain:
        """No dataclass."""

        about = dataclasses.replace(LINUCB.about, name="plain")

        def agents(self, problem, n, rng):
            return LINUCB.agents(problem, n, rng)

    with pytest.raises(ConfigError, match=r"Plain is no dataclass of parameters.*decorate it with"):
        Agent.open(tmp_path / "agent.db", Plain(), 3)
    assert list(tmp_path.iterdir()) == []


# draws


def test_agents_and_server_have_common_draws_whatever_their_own_are():
    one, other = settings(agents=2, seed=1, common=5), settings(agents=2, identity=1, seed=2, common=5)
    drawn = [held.server_streams().common("features", 3).normal(size=4) for held in (one, other)]
    np.testing.assert_array_equal(*drawn)
    stranger = settings(agents=2, seed=1, common=6).server_streams().common("features", 3).normal(size=4)
    assert (stranger != drawn[0]).all()
    assert fingerprint(one) == fingerprint(other) != fingerprint(settings(agents=2, common=6))


def test_a_server_draws_what_it_draws_in_a_simulation():
    alone = np.zeros(1, dtype=np.int64)
    deployed = settings(seed=3, common=3).server_streams()
    simulated = Streams(seeds_of(3).server, 1, common=seeds_of(3).common)
    np.testing.assert_array_equal(deployed.uniform(alone, 5), simulated.uniform(alone, 5))
    np.testing.assert_array_equal(deployed.common("x").normal(size=3), simulated.common("x").normal(size=3))
