"""Seeds chosen for the instances they stand for: which are run, and who is judged by them."""

import numpy as np
import pytest

from fedbandits.contract.catalogue import ConfigError
from fedbandits.experiments import run_experiment
from fedbandits.findings.ends import Ends
from fedbandits.findings.records import read_records
from fedbandits.findings.results import Results

SORTED = """
title = "Kinds"
source = "none"
[environment]
name = "bernoulli"
clients = 2
arms = 3
[run]
horizon = 30
seeds = 4
[algorithms.learns]
name = "ucb1"
[algorithms.guesses]
name = "random"
[algorithms.leans]
name = "kl-ucb"
[[claims]]
kind = "less"
text = "learning helps"
metric = "regret"
of = "learns"
than = "guesses"
[claims.strata]
by = "smallest_gap"
upto = [0.1, 0.4]
shares = [0.271, 0.513, 0.216]
seeds = [9, 5, 3]
[[claims]]
kind = "less"
text = "and so it does in most runs"
metric = "regret"
of = "learns"
than = "guesses"
share = 0.5
seeds = 6
"""


def test_seeds_chosen_for_their_instances_are_for_the_claim_that_chose_them(tmp_path):
    path, out = tmp_path / "sorted.toml", tmp_path / "out"
    path.write_text(SORTED)
    results = run_experiment(path, out=out)
    final = results.final()
    runs = final.groupby("algorithm")
    assert runs.size()["leans"] == 4
    assert sorted(runs.get_group("learns")["seed"]) == sorted(runs.get_group("guesses")["seed"])
    kinds = np.searchsorted([0.1, 0.4], runs.get_group("learns")["smallest_gap"])
    assert (np.bincount(kinds) >= [9, 5, 3]).all()
    assert results.compared()["seed"].max() == 3
    sorted_out, in_most = results.claims
    assert "17 seeds" in sorted_out.measured
    assert "; 6 seeds" in in_most.measured
    # the other claim says what it says on its own
    alone = tmp_path / "alone.toml"
    head, *claims = SORTED.split("[[claims]]")
    alone.write_text("[[claims]]".join([head, claims[1]]))
    assert run_experiment(alone).claims[0].measured == in_most.measured
    # and both say it of what is kept
    loaded = Results.load(out)
    assert loaded.missing == 0
    assert [claim.measured for claim in loaded.claims] == [claim.measured for claim in results.claims]
    known = run_experiment(path, known=Ends.of(out), out=tmp_path / "known")
    assert {record.run.seconds for record in read_records(tmp_path / "known")} == {
        record.run.seconds for record in read_records(out)
    }, "nothing was run again"
    assert [claim.measured for claim in known.claims] == [claim.measured for claim in results.claims]
    next((out / "runs").glob(f"learns--seed-{final['seed'].max()}*")).unlink()
    assert Results.load(out).missing == 1


def test_kinds_need_an_environment_that_can_tell_them(tmp_path):
    path = tmp_path / "sorted.toml"
    path.write_text(SORTED.replace('"bernoulli"', '"linear"').replace("arms = 3", "dim = 3"))
    with pytest.raises(ConfigError, match=r"claim 'learning helps': strata\.by: smallest_gap needs an environment"):
        run_experiment(path)
