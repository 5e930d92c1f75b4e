"""Agents that lie: who, what they send, what it does to the others, and what stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.channel.robust_rules import Filter
from fedbandits.contract.streams import seeds_of
from fedbandits.transport.attack import attack_of
from fedbandits.transport.carriers import InProcess

ENV = fb.environments.Linear(clients=10, dim=4, arms=6, noise=0.3)
DIS = "dislinucb:threshold=0.5"


def sent(monkeypatch, words, attack, horizon=30, env=ENV, seed=1):
    """The run, and every answer that reached the server."""
    heard = []
    deliver = InProcess._deliver

    def listening(self, request):
        reply = deliver(self, request)
        if reply is not None and reply.arrays:
            heard.append(reply)
        return reply

    monkeypatch.setattr(InProcess, "_deliver", listening)
    run = fb.Simulation(words, env, horizon, seed, attack=attack)
    run.run()
    monkeypatch.setattr(InProcess, "_deliver", deliver)
    return run, heard


def test_without_liars_a_run_is_the_same():
    plain = fb.simulate(DIS, ENV, 60)
    assert np.isnan(plain.honest_regret).all()
    for attack in ("flip", "adaptive"):
        nobody = fb.simulate(DIS, ENV, 60, attack=fb.Attack(how=attack, share=0))
        np.testing.assert_array_equal(plain.regret, nobody.regret)
        np.testing.assert_array_equal(plain.counts, nobody.counts)
        np.testing.assert_allclose(nobody.honest_regret, plain.regret / 10)


def test_who_lies_follows_from_the_seed_and_is_nested():
    groups = [fb.Attack(how="flip", share=share).liars(20, seeds_of(3).mishaps) for share in (0.1, 0.2, 0.4)]
    assert [group.sum() for group in groups] == [2, 4, 8]
    assert (groups[0] <= groups[1]).all()
    assert (groups[1] <= groups[2]).all()
    others = fb.Attack(how="inflate", share=0.2).liars(20, seeds_of(4).mishaps)
    assert (others != groups[1]).any()


def test_honest_agents_alone_do_not_notice():
    """World and honest agents are as without liars: where nobody talks, nothing of theirs changes."""
    plain = fb.simulate("independent-linucb", ENV, 80)
    attacked = fb.Simulation("independent-linucb", ENV, 80, attack="flip:share=0.3")
    attacked.run()
    honest = attacked.honest
    assert honest.sum() == 7
    found = attacked.trace()
    np.testing.assert_array_equal(found.regret_by_client[honest], plain.regret_by_client[honest])
    assert (found.regret_by_client[~honest] > plain.regret_by_client[~honest]).all()
    assert found.honest_regret[-1] == pytest.approx(found.regret_by_client[honest].mean())


def test_flipped_rewards_are_sent_flipped(monkeypatch):
    """Up to the first synchronisation everybody chooses as without liars; gram matrices are the same, moments not."""
    run, lies = sent(monkeypatch, DIS, "flip:share=0.2,strength=2")
    _, truth = sent(monkeypatch, DIS, "flip:share=0")
    liars = ~run.honest
    steps = min(len(lies), 1)
    assert steps
    for name in ("gram", "moment"):
        np.testing.assert_array_equal(lies[0].arrays[name][~liars], truth[0].arrays[name][~liars])
    one = lies[0].arrays["count"][liars] if "count" in lies[0].arrays else None
    assert one is None
    assert not np.allclose(lies[0].arrays["moment"][liars], truth[0].arrays["moment"][liars])


@pytest.mark.parametrize("how", ["inflate", "collude"])
def test_claims_multiply_every_sum(monkeypatch, how):
    words = DIS + ",width=loose"
    run, lies = sent(monkeypatch, words, f"{how}:share=0.2,strength=7")
    _, others = sent(monkeypatch, words, f"{how}:share=0.2,strength=1")
    liars = ~run.honest
    for name in ("gram", "moment", "count"):
        np.testing.assert_allclose(lies[0].arrays[name][liars], 7 * others[0].arrays[name][liars])
        np.testing.assert_array_equal(lies[0].arrays[name][~liars], others[0].arrays[name][~liars])


def test_colluders_agree_on_one_parameter(monkeypatch):
    run, heard = sent(monkeypatch, DIS, "collude:share=0.3", horizon=80)
    liars = ~run.honest
    gram = sum(message.arrays["gram"][liars] for message in heard)
    moment = sum(message.arrays["moment"][liars] for message in heard)
    estimates = np.linalg.solve(gram + 1e-9 * np.eye(4), moment[..., None])[..., 0]
    assert np.ptp(estimates, axis=0).max() < 1e-5
    assert np.linalg.norm(estimates[0]) == pytest.approx(1.0, abs=1e-4)


def test_who_has_lied_often_enough_tells_the_truth(monkeypatch):
    _, heard = sent(monkeypatch, DIS, "inflate:share=0.2,strength=50,lies=1", horizon=60)
    liars = ~fb.Simulation(DIS, ENV, 60, 1, attack="inflate:share=0.2").honest
    amounts = [np.trace(message.arrays["gram"][liars], axis1=1, axis2=2) for message in heard]
    typical = [np.trace(message.arrays["gram"][~liars], axis1=1, axis2=2).mean() for message in heard]
    assert len(amounts) > 2
    assert (amounts[0] > 10 * typical[0]).all()
    assert (np.array(amounts[1:]) < 10 * np.array(typical[1:])[:, None]).all()


def test_adaptive_liars_stay_inside_the_filter(monkeypatch):
    """All that they ever sent is taken for honest, and just so: a little farther, and they would be found."""
    env = fb.environments.Linear(clients=20, dim=8, arms=10, noise=0.5)
    run, heard = sent(monkeypatch, "dislinucb:threshold=5|robust", "adaptive:share=0.2", 150, env)
    gram = sum(message.arrays["gram"] for message in heard)
    moment = sum(message.arrays["moment"] for message in heard)
    liars, rule = ~run.honest, Filter(4.0, 1.5, 1.0)
    assert not rule.suspects(gram, moment)[liars].any()
    truth = np.linalg.solve(gram[~liars].sum(axis=0) + np.eye(8), moment[~liars].sum(axis=0))
    farther = np.array(moment)
    farther[liars] += 0.1 * (moment[liars] - gram[liars] @ truth)
    assert rule.suspects(gram, farther)[liars].all()


def test_an_attacked_run_is_resumed():
    for attack in ("inflate:share=0.2,lies=2", "adaptive:share=0.2"):
        whole, first, second = (fb.Simulation(DIS + "|robust", ENV, 60, 3, attack=attack) for _ in range(3))
        whole.run()
        first.run(20)
        second.load(first.state())
        second.run()
        np.testing.assert_array_equal(second.trace().honest_regret, whole.trace().honest_regret)


def test_attacks_are_given_in_words_and_what_cannot_be_is_refused():
    assert attack_of("inflate:share=0.2,strength=9") == fb.Attack(how="inflate", share=0.2, strength=9)
    for given, why in {
        "inflat": "did you mean 'inflate'",
        "flip:share=1.5": "share: must be less than 1",
        "flip:shar=0.1": "did you mean 'share'",
        "x=flip": "is no attack",
        "flip|robust": "is no attack",
    }.items():
        with pytest.raises(fb.ConfigError, match=why):
            attack_of(given)
    with pytest.raises(fb.ConfigError, match="is no attack"):
        attack_of(3)
    with pytest.raises(fb.ConfigError, match="byzantine agents are a part of the network"):
        fb.simulate("fed-ucb1", "gaussian:clients=4,arms=3", 10, network="ring", attack="flip")
    with pytest.raises(fb.ConfigError, match="imitates sums, and fedglb-ucb sends others"):
        fb.simulate("fedglb-ucb", "logistic:clients=4,dim=3,arms=4", 10, attack="adaptive")


def test_one_fabricated_parameter_ruins_dislinucb_and_a_filter_saves_it():
    """One of ten who claims fifty times the data: several times the regret of learning alone; one single such lie."""
    env = fb.environments.Linear(clients=10, dim=5, arms=10, noise=0.3)

    def regret(words, attack):
        return np.mean([fb.simulate(words, env, 300, seed, attack=attack).honest_regret[-1] for seed in range(3)])

    words = "dislinucb:threshold=5"
    honest, alone = regret(words, "collude:share=0"), regret("independent-linucb", "collude:share=0.1")
    always = regret(words, "collude:share=0.1,strength=50")
    once = regret(words, "collude:share=0.1,strength=50,lies=1")
    saved = regret(words + "|robust", "collude:share=0.1,strength=50")
    assert always > 2 * alone
    assert once > 1.5 * honest
    assert saved < 1.5 * honest < alone


@pytest.mark.slow
def test_one_fabricated_parameter_ruins_fedglb_ucb():
    """No robust stage serves it: gradients are asked for at points that liars know."""
    env = fb.environments.Logistic(clients=10, dim=5, arms=10)
    honest, attacked = (
        np.mean(
            [
                fb.simulate("fedglb-ucb:threshold=5,scale=0.1", env, 500, seed, attack=attack).honest_regret[-1]
                for seed in range(3)
            ]
        )
        for attack in ("collude:share=0", "collude:share=0.1,strength=100")
    )
    assert attacked > 5 * honest
