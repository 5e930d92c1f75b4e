"""Running experiments: claims get verdicts, interrupted work resumes."""

import pytest

from conformance.gossip import GossipLinUCB
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.catalogue import ConfigError
from fedbandits.experiments import run_experiment
from fedbandits.findings.results import Results

SMALL = """
title = "Small"
source = "ours"
[environment]
name = "linear"
dim = 2
arms = 3
[run]
horizon = 30
seeds = 3
[algorithms.dis]
name = "dislinucb"
threshold = 0.5
[algorithms.random]
name = "random"
[sweep]
"environment.clients" = [1, 4]
[[claims]]
kind = "less"
text = "learning helps"
metric = "regret"
of = "dis"
than = "random"
at = { clients = 4 }
[[claims]]
kind = "less"
text = "learning hurts"
metric = "regret"
of = "random"
than = "dis"
at = { clients = 4 }
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_results_of_a_sweep(small, tmp_path):
    results = run_experiment(small, out=tmp_path / "out")
    assert (results.title, results.source, results.sweep) == ("Small", "ours", ["clients"])
    assert len(results.final()) == 2 * 2 * 3
    summary = results.summary()
    assert summary[["algorithm", "clients", "runs"]].to_numpy().tolist() == [
        ["dis", 1, 3],
        ["dis", 4, 3],
        ["random", 1, 3],
        ["random", 4, 3],
    ]
    assert results.settings["environment"]["clients"] == "swept"
    assert results.settings["environment"]["noise"] == 0.1
    loaded = Results.load(tmp_path / "out")
    assert loaded.frame.equals(results.frame)
    assert loaded.claims == results.claims


def test_a_claim_that_fails_stays(small):
    results = run_experiment(small)
    assert [(claim.text, claim.verdict) for claim in results.claims] == [
        ("learning helps", "holds"),
        ("learning hurts", "fails"),
    ]


def test_seeds_and_horizon_can_be_replaced(small):
    results = run_experiment(small, seeds=[5], horizon=10)
    assert set(results.final()["seed"]) == {5}
    assert set(results.final()["step"]) == {10}
    assert {claim.verdict for claim in results.claims} == {"undecided"}
    with pytest.raises(ConfigError, match=r"sweeps over run\.horizon"):
        run_experiment("communication-growth", horizon=10)


def test_claims_may_be_reworded_without_running_again(small, tmp_path):
    run_experiment(small, out=tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()}
    small.write_text(SMALL.replace("learning helps", "to learn is to win"))
    results = run_experiment(small, out=tmp_path / "out")
    assert results.claims[0].text == "to learn is to win"
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()} == before


def test_parameters_of_one_algorithm_do_not_multiply_the_others(small):
    small.write_text(SMALL.replace('"environment.clients" = [1, 4]', "algorithms.dis.threshold = [0.5, inf]"))
    small.write_text(small.read_text().replace("{ clients = 4 }", "{}").partition("[[claims]]")[0])
    results = run_experiment(small, seeds=2)
    summary = results.summary()
    assert summary["algorithm"].tolist() == ["dis", "dis", "random"]
    assert summary["threshold"].tolist()[:2] == [0.5, float("inf")]
    assert summary["threshold"].isna().tolist() == [False, False, True]
    assert summary["syncs"].tolist()[1:] == [0, 0]


@pytest.fixture
def networked(tmp_path, monkeypatch):
    monkeypatch.setitem(ALGORITHMS._own, "sample-gossip", GossipLinUCB)
    path = tmp_path / "networked.toml"
    text = SMALL.partition("[sweep]")[0].replace("dim = 2", "dim = 2\nclients = 5")
    text = text.replace('"dislinucb"\nthreshold = 0.5', '"sample-gossip"')
    path.write_text(text + "[network]\nttl = 2\n[sweep]\nnetwork.name = ['star', 'ring']\n")
    return path


def test_a_sweep_over_networks(networked, tmp_path):
    results = run_experiment(networked, seeds=2, out=tmp_path / "out")
    assert results.sweep == ["network"]
    assert results.settings["network"]["name"] == "swept"
    assert results.settings["network"]["ttl"] == 2
    summary = results.summary()
    assert summary[["algorithm", "network"]].to_numpy().tolist() == [
        ["dis", "star"],
        ["dis", "ring"],
        ["random", "star"],
        ["random", "ring"],
    ]
    # a letter of ttl 2 crosses deg(u) + sum of the neighbours' degrees links: on a star of five 4 + 4 and 1 + 4 each,
    # on a ring of five 2 + 4 each; the last round's letters have crossed but their first links
    star, ring = summary["messages"][:2]
    assert (star, ring) == (8 * 30 + 20 * 29, 10 * 30 + 20 * 29)
    assert summary["regret"][2] == summary["regret"][3]
    loaded = Results.load(tmp_path / "out")
    assert loaded.frame.equals(results.frame)


def test_one_network_is_part_of_what_was_run(networked, tmp_path):
    networked.write_text(networked.read_text().replace("[network]", "[network]\nname = 'ring'").partition("[sweep]")[0])
    results = run_experiment(networked, seeds=1, out=tmp_path / "out")
    assert (results.settings["network"]["name"], results.settings["network"]["loss"]) == ("ring", 0.0)
    networked.write_text(networked.read_text().replace("'ring'", "'star'"))
    with pytest.raises(ConfigError, match=r'network\.name: "ring" there, "star" now'):
        run_experiment(networked, seeds=1, out=tmp_path / "out")


def test_a_swept_parameter_of_a_network_is_named_as_swept(networked):
    networked.write_text(
        networked.read_text().replace("[network]", "[network]\nname = 'ring'").partition("[sweep]")[0]
        + "[sweep]\nnetwork.loss = [0.0, 0.5]\n"
    )
    results = run_experiment(networked, seeds=1)
    assert results.settings["network"]["loss"] == "swept"
    assert results.summary()["loss"].tolist() == [0.0, 0.5] * 2
    assert run_experiment(networked, seeds=1, horizon=5).final()["step"].eq(5).all()


def test_theory_is_asked_for_in_the_file(small):
    assert "theory" not in run_experiment(small, seeds=1).settings["run"]
    small.write_text(SMALL.replace("horizon = 30", "horizon = 30\ntheory = true"))
    results = run_experiment(small, seeds=1)
    assert results.settings["run"]["theory"] is True
    assert results.frame["upper_bound"].isna().all()  # nothing is known of these algorithms' constants


@pytest.mark.parametrize(("asked", "run"), [(None, [100, 101, 102]), (2, [100, 101]), ([7], [7])])
def test_seeds_begin_where_the_file_says(small, asked, run):
    small.write_text(SMALL.replace("seeds = 3", "seeds = 3\nfirst_seed = 100"))
    results = run_experiment(small, asked, horizon=2)
    assert sorted(results.final()["seed"].unique()) == run


def test_a_first_seed_below_zero_is_refused(small):
    small.write_text(SMALL.replace("seeds = 3", "first_seed = -1"))
    with pytest.raises(ConfigError, match=r"run\.first_seed"):
        run_experiment(small)


ASKED = SMALL.replace('text = "learning helps"', 'text = "learning helps"\nseeds = 5\nlooks = 2')


def test_claims_may_ask_for_more_seeds_of_what_they_speak_of(tmp_path):
    path, out = tmp_path / "asked.toml", tmp_path / "out"
    path.write_text(ASKED)
    results = run_experiment(path, out=out)
    counts = results.final().groupby(["algorithm", "clients"]).size().to_dict()
    # both claims speak of both algorithms, at clients = 4
    assert counts == {("dis", 1): 3, ("random", 1): 3, ("dis", 4): 5, ("random", 4): 5}
    assert [claim.details["seeds"] for claim in results.claims] == [5, 5]
    assert "5 seeds; look 2, at 2.5 %" in results.claims[0].measured
    assert (results.missing, results.seeds) == (0, "3 to 5")
    # tables and curves are of what all have met
    assert results.summary()["runs"].tolist() == [3, 3, 3, 3]
    shared = results.final()[lambda rows: rows["seed"] < 3]
    assert results.compared().equals(shared)
    assert sorted(results.curves["seed"].unique()) == [0, 1, 2]
    loaded = Results.load(out)
    assert (loaded.missing, loaded.seeds) == (0, "3 to 5")
    next((out / "runs").glob("dis--clients=4--seed-4*")).unlink()
    assert Results.load(out).missing == 1
    # other seeds than the file's are for everything, and what is there stays
    few = run_experiment(path, seeds=2, out=out)
    assert few.final().groupby(["algorithm", "clients"]).size().unique().tolist() == [2]
    again = run_experiment(path, out=out)
    assert [claim.measured for claim in again.claims] == [claim.measured for claim in results.claims]


def test_seeds_that_are_kept_for_later_are_not_looked_at(tmp_path):
    path, out = tmp_path / "asked.toml", tmp_path / "out"
    path.write_text(ASKED)
    run_experiment(path, out=out)
    path.write_text(ASKED.replace("seeds = 5", "seeds = 4"))
    fewer = run_experiment(path, out=out)
    assert len(list((out / "runs").iterdir())) == 16
    loaded = Results.load(out)
    assert (loaded.missing, loaded.seeds) == (0, "3 to 4")
    assert [claim.measured for claim in loaded.claims] == [claim.measured for claim in fewer.claims]


def test_further_seeds_begin_where_those_of_all_end(tmp_path):
    path = tmp_path / "asked.toml"
    path.write_text(ASKED.replace("seeds = 3", "seeds = 3\nfirst_seed = 100"))
    final = run_experiment(path).final()
    seeds = final[final["clients"] == 4].groupby("algorithm")["seed"].unique()
    assert sorted(seeds["dis"]) == [100, 101, 102, 103, 104]


PORTRAYED = """
title = "Heard of"
source = "none"
[environment]
name = "bernoulli"
clients = 6
arms = 3
[network]
name = "ring"
[run]
horizon = 20
seeds = 2
[algorithms.told]
name = "fed-ucb1"
[algorithms.alone]
name = "ucb1"
[[claims]]
kind = "less"
text = "company helps"
metric = "regret"
of = "told"
than = "alone"
seeds = 4
"""


def test_pictures_are_of_the_seeds_that_all_have(tmp_path):
    """What a claim asks for beyond, by the thousand, keeps its figures and no portrait."""
    path, out = tmp_path / "portrayed.toml", tmp_path / "out"
    path.write_text(PORTRAYED)
    for results in (run_experiment(path, out=out), Results.load(out)):
        assert len(results.final()) == 8
        assert {portrait.seed for portrait in results.portraits} == {0, 1}


def test_what_would_decide_has_a_price(tmp_path):
    path = tmp_path / "close.toml"
    path.write_text(SMALL.replace('name = "random"', 'name = "dislinucb"\nthreshold = 0.4'))
    results = run_experiment(path)
    final = results.final()
    for claim in results.claims:
        needed = claim.details.get("seeds_to_decide")
        if needed is not None:
            each = final[final["clients"] == 4].groupby("algorithm")["seconds"].mean().sum()
            assert claim.details["seconds_to_decide"] == pytest.approx((needed - 3) * each)
            break
    else:
        pytest.fail("nothing is undecided here: choose settings that are closer to each other")
