"""Experiment files: everything in them can be run, and errors name file and field."""

import re
from pathlib import Path

import pytest
from pydantic.dataclasses import dataclass

from conformance.gossip import GossipLinUCB
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.catalogue import ConfigError
from fedbandits.experiments import load_experiment, shipped_experiments
from fedbandits.transport.attack import Attack

SOUND = """
title = "t"
source = "s"
[environment]
name = "linear"
clients = 2
[run]
horizon = 10
[algorithms.dis]
name = "dislinucb"
[algorithms.alone]
name = "independent-linucb"
"""


def load(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return load_experiment(path)


@pytest.mark.parametrize("name", shipped_experiments())
def test_shipped_experiments_load_and_resolve(name):
    experiment = load_experiment(name)
    assert experiment.source
    assert experiment.claims
    assert {case.label for case in experiment.cases} == set(experiment.algorithms)


def test_what_is_shipped():
    expected = {"demo", "async-tradeoff", "communication-growth", "federation-gain", "heto-synthetic", "heto-lastfm"}
    assert expected <= set(shipped_experiments())


def test_shipped_experiments_say_what_they_are_known_for():
    demo = load_experiment("demo")
    assert (demo.run.horizon, demo.run.seeds, len(demo.algorithms)) == (2000, 5, 5)
    tradeoff = load_experiment("async-tradeoff")
    gammas = [case.algorithm.gamma_up for case in tradeoff.cases if case.label.startswith("async")]
    assert gammas == [1, 2, 5, 8, float("inf")]
    assert {case.environment.schedule for case in tradeoff.cases} == {"random"}
    gain = load_experiment("federation-gain")
    assert [case.environment.clients for case in gain.cases] == [1, 2, 4, 8, 16, 32, 64, 128]
    table = load_experiment("heto-sensitivity")
    points = [(case.environment.clusters, case.environment.gamma) for case in table.cases if case.label == "dyclu"]
    assert points == [(1, 0.85), (4, 0.85), (30, 0.85), (4, 0.65), (4, 0.05)]
    assert len(table.published) == 5 * 6
    assert [figure.value for figure in table.published if figure.of == "hetofedbandit"] == [
        576.31,
        669.17,
        883.51,
        699.89,
        916.73,
    ]
    imbalanced = load_experiment("heto-imbalanced").cases[0].environment
    assert sorted(imbalanced.sizes) == [2] * 12 + [26]
    growth = load_experiment("communication-growth")
    assert {case.horizon for case in growth.cases} == {1_000, 3_000, 10_000, 30_000, 100_000}


def test_sweep_is_a_cross_product_that_leaves_other_algorithms_alone(tmp_path):
    sweep = """
[sweep]
"environment.clients" = [1, 2]
algorithms.dis.threshold = [0.5, inf]
"""
    experiment = load(tmp_path, SOUND + sweep)
    assert experiment.columns == ["clients", "threshold"]
    assert [(case.label, dict(case.point)) for case in experiment.cases] == [
        ("dis", {"clients": 1, "threshold": 0.5}),
        ("dis", {"clients": 1, "threshold": float("inf")}),
        ("dis", {"clients": 2, "threshold": 0.5}),
        ("dis", {"clients": 2, "threshold": float("inf")}),
        ("alone", {"clients": 1}),
        ("alone", {"clients": 2}),
    ]
    assert [case.environment.clients for case in experiment.cases] == [1, 1, 2, 2, 1, 2]
    assert experiment.cases[1].algorithm.threshold == float("inf")


def claim(**fields):
    lines = [f"{name} = {value!r}" for name, value in ({"text": "x"} | fields).items()]
    return SOUND + "[[claims]]\n" + "\n".join(lines).replace("'", '"')


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            SOUND.replace("horizon = 10", "horizon = 0"),
            "run.horizon: must be greater than or equal to 1 (got 0)",
        ),
        (SOUND.replace("horizon", "horizons"), "run.horizons: extra inputs are not permitted"),
        (SOUND.replace('title = "t"', ""), "title: field required"),
        (SOUND + "[more]\n", "more: extra inputs are not permitted"),
        (
            SOUND.replace("clients", "cliants"),
            "environment: linear has no parameter 'cliants'; did you mean 'clients'?",
        ),
        (SOUND.replace("clients = 2", "clients = -2"), "environment: linear: clients: must be greater"),
        (SOUND.replace('"dislinucb"', '"dislinucp"'), "algorithms.dis: unknown algorithm 'dislinucp'; did you mean"),
        (SOUND + "[sweep]\nrun.seeds = [1]\n", "sweep: cannot sweep 'run.seeds'"),
        (SOUND + "[sweep]\nrun.horizon = [1.5]\n", "sweep: run.horizon must be whole numbers"),
        (SOUND + "[sweep]\nenvironment.dim = []\n", "sweep.environment.dim: list should have at least 1 item"),
        (SOUND + "[sweep]\nenvironment.dim = 3\n", "sweep.environment.dim: must be a valid list"),
        (SOUND + "[sweep]\nenvironment.dims = [3]\n", "linear has no parameter 'dims'; did you mean 'dim'?"),
        (SOUND + "[sweep]\nalgorithms.des.ridge = [3]\n", "sweep: no algorithm 'des' here; did you mean 'dis'?"),
        (
            SOUND + "[sweep]\nenvironment.noise = [3]\nalgorithms.dis.noise = [1]\n",
            "sweep: two of its columns for 'dis' have the same name: noise, noise",
        ),
        (
            claim(kind="lesser"),
            "claims.0: input tag 'lesser' found using 'kind' does not match any of the expected tags",
        ),
        (claim(kind="less", metric="regret", of="dis"), "claims.0.less.than: field required"),
        (
            claim(kind="less", metric="regret", of="dis", than="aline"),
            "claims.0: no algorithm 'aline' here; did you mean",
        ),
        (
            claim(kind="less", metric="regrets", of="dis", than="alone"),
            "claims.0: unknown metric 'regrets'; did you mean",
        ),
        (
            claim(kind="growth", metric="regret", of="dis", against="clients", below=1),
            "claims.0: no sweep column 'clients'",
        ),
        (
            claim(kind="growth", metric="regret", of="dis", against="step"),
            "claims.0.growth: give `above`, `below` or both",
        ),
        (claim(kind="between", metric="regret", of="dis", low=3, high=2), "`low` (3.0) must not exceed `high` (2.0)"),
        ("title = ", "not valid TOML"),
    ],
)
def test_errors_name_file_and_field(tmp_path, text, error):
    with pytest.raises(ConfigError, match="(?s)^mine.toml: .*" + re.escape(error)):
        load(tmp_path, text)


def test_unknown_names_are_explained():
    with pytest.raises(ConfigError, match="no experiment 'dema': not a file, and did you mean 'demo'"):
        load_experiment("dema")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_experiment(Path.cwd())


def test_claims_of_the_sensitivity_table_are_its_published_order():
    table = load_experiment("heto-sensitivity")
    printed = {(figure.of, tuple(figure.at.items())): figure.value for figure in table.published}
    assert len(table.claims) == 5 * 5
    for claim in table.claims:
        point = tuple(claim.at.items())
        assert printed[claim.of, point] < printed[claim.than, point], claim.text


RING = '[network]\nname = "ring"\nttl = 2\n'


def test_a_network_is_one_of_the_catalogue_for_every_case(tmp_path):
    experiment = load(tmp_path, SOUND + RING + "loss = 0.1\n")
    assert {
        (case.options.network.about.name, case.options.network.ttl, case.options.network.loss)
        for case in experiment.cases
    } == {("ring", 2, 0.1)}
    assert all(case.options.network is None for case in load(tmp_path, SOUND).cases)


def test_sweeps_over_networks_and_their_parameters(tmp_path):
    sweep = "[sweep]\nnetwork.name = ['star', 'ring']\nnetwork.ttl = [1, 'diameter']\n"
    for table in ("[network]\nloss = 0.5\n", "", RING):
        experiment = load(tmp_path, SOUND + table + sweep)
        assert experiment.columns == ["network", "ttl"]
        dis = [case for case in experiment.cases if case.label == "dis"]
        assert [dict(case.point) for case in dis] == [
            {"network": "star", "ttl": 1},
            {"network": "star", "ttl": "diameter"},
            {"network": "ring", "ttl": 1},
            {"network": "ring", "ttl": "diameter"},
        ]
        for case in dis:
            assert (case.options.network.about.name, case.options.network.ttl) == (
                case.point["network"],
                case.point["ttl"],
            )
            assert case.options.network.loss == (0.5 if "loss" in table else 0.0)
        assert len(experiment.cases) == 8


def test_points_may_name_networks(tmp_path):
    points = "[[points]]\nnetwork.name = 'star'\nnetwork.ttl = 1\n[[points]]\nnetwork.name = 'ring'\nnetwork.ttl = 3\n"
    cases = load(tmp_path, SOUND + points).cases
    assert [(case.options.network.about.name, case.options.network.ttl) for case in cases] == 2 * [
        ("star", 1),
        ("ring", 3),
    ]


def test_a_parameter_called_like_a_measurement_has_a_column_of_its_own(tmp_path, monkeypatch):
    class Private(ALGORITHMS["dislinucb"]):
        epsilon: float = 1.0

    monkeypatch.setitem(ALGORITHMS._own, "private", dataclass(frozen=True, kw_only=True)(Private))
    text = SOUND.replace('"dislinucb"', '"private"') + "[sweep]\nalgorithms.dis.epsilon = [0.5, 2.0]\n"
    experiment = load(tmp_path, text)
    assert experiment.columns == ["epsilon_given"]
    assert [case.algorithm.epsilon for case in experiment.cases if case.label == "dis"] == [0.5, 2.0]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[network]\nname = "rinq"\n', "network: unknown network 'rinq'; did you mean 'ring'?"),
        (RING + "p = 0.1\n", "network: ring has no parameter 'p'"),
        (RING.replace("2", "-2"), "network: ring: ttl: must be"),
        ("[network]\nttl = 2\n", "network.name: field required; known are: "),
        (
            "[sweep]\nnetwork.ttl = [1]\n",
            "sweep: 'network.ttl' is a parameter of no network; give [network] with a name",
        ),
        (RING + "[sweep]\nnetwork.p = [0.1]\n", "network: ring has no parameter 'p'"),
        (RING + "[sweep]\nnetwork.a.b = [0.1]\n", "sweep: cannot sweep 'network.a.b'"),
        (RING + "[sweep]\nenvironment.name = ['linear']\n", "sweep: cannot sweep 'environment.name'"),
        ("[sweep]\nnetwork.name = ['ring', 'sta']\n", "network: unknown network 'sta'; did you mean 'star'?"),
        (
            "[network]\np = 0.1\n[sweep]\nnetwork.name = ['erdos-renyi', 'barabasi-albert']\n",
            "network.p: barabasi-albert has no such parameter, and it is swept over; common to all of erdos-renyi, "
            "barabasi-albert are: ttl, loss, ",
        ),
        (
            "[sweep]\nnetwork.name = ['ring', 'erdos-renyi']\nnetwork.p = [0.1]\n",
            "network.p: ring has no such parameter",
        ),
        (
            "[sweep]\nnetwork.name = ['ring', 'star']\n[[claims]]\nkind = 'growth'\ntext = 'x'\nmetric = 'regret'\n"
            "of = 'dis'\nagainst = 'network'\nbelow = 1.0\n",
            "claims.0: growth against 'network' needs numbers to grow along (got 'ring')",
        ),
    ],
)
def test_errors_about_networks_name_file_and_field(tmp_path, text, error):
    with pytest.raises(ConfigError, match="(?s)^mine.toml: .*" + re.escape(error)):
        load(tmp_path, SOUND + text)


def test_who_talks_on_a_graph_needs_one(tmp_path, monkeypatch):
    monkeypatch.setitem(ALGORITHMS._own, "sample-gossip", GossipLinUCB)
    peers = SOUND.replace('"dislinucb"', '"sample-gossip"')
    with pytest.raises(ConfigError, match=r"algorithms\.dis: sample-gossip talks on a graph; give \[network\]"):
        load(tmp_path, peers)
    assert len(load(tmp_path, peers + RING).cases) == 2
    assert len(load(tmp_path, peers + "[sweep]\nnetwork.name = ['ring']\n").cases) == 2


def test_claims_about_bounds_need_them_evaluated(tmp_path):
    text = claim(kind="between", metric="regret_per_upper_bound", of="dis", high=1.0)
    with pytest.raises(ConfigError, match=r"claims\.0: regret_per_upper_bound is known only .* set run\.theory = true"):
        load(tmp_path, text)
    assert load(tmp_path, text.replace("horizon = 10", "horizon = 10\ntheory = true")).run.theory


LIARS = '[attack]\nname = "inflate"\nshare = 0.2\n'


def test_an_attack_is_an_option_of_every_case_and_may_be_swept(tmp_path):
    experiment = load(tmp_path, SOUND + LIARS)
    assert {case.options.attack for case in experiment.cases} == {Attack(how="inflate", share=0.2)}
    swept = SOUND + '[attack]\nlies = 3\n[sweep]\n"attack.name" = ["flip", "adaptive"]\n"attack.share" = [0.0, 0.4]\n'
    experiment = load(tmp_path, swept)
    assert experiment.columns == ["attack", "share"]
    assert {(case.point["attack"], case.point["share"]) for case in experiment.cases} == {
        ("flip", 0.0),
        ("flip", 0.4),
        ("adaptive", 0.0),
        ("adaptive", 0.4),
    }
    assert all(case.options.attack.lies == 3 for case in experiment.cases)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[attack]\nname = "inflat"\n', "there is no attack 'inflat'; did you mean 'inflate'"),
        ('[attack]\nname = "flip"\nshare = 2\n', "share: must be less than 1"),
        ("[attack]\nshare = 0.1\n", "there is no attack ''"),
    ],
)
def test_errors_about_attacks_name_the_fix(tmp_path, text, error):
    with pytest.raises(ConfigError, match=error):
        load(tmp_path, SOUND + text)
