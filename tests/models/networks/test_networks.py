"""Networks against plain numpy, finite differences and torch; and one agent against many, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.models.networks import (
    Adam,
    Architecture,
    Descent,
    descend,
    descended,
    feature_sums,
    gaussian,
    gradient_sums,
    gradients,
    hidden,
    outputs,
    shallow,
)
from fedbandits.models.networks.descent import STRIDE
from fedbandits.models.networks.evaluation import BLOCK
from fedbandits.models.observations import Observations

NETWORKS = [
    Architecture(3, (4,)),
    Architecture(3, (4,), biased=True, scale=2.0),
    Architecture(5, (6, 3, 4), biased=True),
    Architecture(2, (3, 5), scale=0.5),
]


def drawn(network, rows, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([gaussian(network, rng, [0.8] * len(network.shapes)) for _ in range(rows)])


def plainly(network, theta, x):
    """(f, last hidden layer) of one arm."""
    *inner, last = network.matrices(theta)
    one = [1.0] * network.biased
    level = np.append(x, one)
    for matrix in inner:
        level = np.append(np.maximum(matrix @ level, 0), one)
    return network.scale * (last[0] @ level), level


def stored(network, counts, seed=1):
    """Observations, ragged: `counts` of each agent."""
    rng = np.random.default_rng(seed)
    data = Observations(len(counts), network.inputs, 4)
    for turn in range(max(counts)):
        who = np.flatnonzero(np.array(counts) > turn)
        arms = rng.standard_normal((len(who), 2, network.inputs))
        data.add(who, arms, rng.integers(2, size=len(who)), rng.standard_normal(len(who)))
    return data


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("arms", [1, 7, 2 * BLOCK + 3])
def test_outputs_and_hidden_layers_are_those_of_the_formula(network, arms):
    theta = drawn(network, 3)
    rows = np.array([2, 0, 1, 2])
    x = np.random.default_rng(5).standard_normal((4, arms, network.inputs))
    found, levels = outputs(network, theta, rows, x), hidden(network, theta, rows, x)
    for a, row in enumerate(rows):
        for k in range(arms):
            value, level = plainly(network, theta[row], x[a, k])
            np.testing.assert_allclose(found[a, k], value, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(levels[a, k], level, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_are_differences(network):
    theta, rows = drawn(network, 1), np.zeros(2, dtype=np.int64)
    x = np.random.default_rng(6).standard_normal((2, 3, network.inputs))
    found = gradients(network, theta, rows, x)
    assert found.shape == (2, 3, network.parameters)
    step = 1e-6
    for i in range(network.parameters):
        moved = np.repeat(theta, 2, axis=0)
        moved[0, i] += step
        moved[1, i] -= step
        up, down = (outputs(network, moved, rows + side, x) for side in (0, 1))
        np.testing.assert_allclose(found[..., i], (up - down) / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("network", NETWORKS)
def test_sums_are_sums_of_what_single_observations_give(network):
    counts = [BLOCK + 5, 0, 3, 2 * BLOCK]
    data, theta = stored(network, counts), drawn(network, 4)
    end, who = data.count[[3, 1, 0]], np.array([3, 1, 0])
    shift, spread = np.array([0.3, 1.0, -2.0]), np.array([0.5, 2.0, 1.5])
    slopes = gradient_sums(network, theta[who], data, who, end, shift=shift, spread=spread)
    gram, moment = feature_sums(network, theta[who], data, who, end, shift=shift, spread=spread)
    for a, agent in enumerate(who):
        x = data.arms[agent, :, : end[a]].T[None]
        y = (data.rewards[agent, : end[a]] - shift[a]) / spread[a]
        row = np.array([agent])
        gaps = outputs(network, theta, row, x)[0] - y
        np.testing.assert_allclose(slopes[a], gaps @ gradients(network, theta, row, x)[0], rtol=1e-10, atol=1e-10)
        z = hidden(network, theta, row, x)[0]
        np.testing.assert_allclose(gram[a], z.T @ z, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(moment[a], z.T @ y, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(gram, gram.swapaxes(1, 2))
    np.testing.assert_array_equal(slopes[1], 0.0)


@pytest.mark.parametrize(("inputs", "units", "biased"), [(1, 1, False), (10, 20, True), (13, 7, True), (20, 6, False)])
def test_sums_are_the_same_however_observations_fill_registers(inputs, units, biased):
    """One hidden layer is gone over in tiles: numbers of units, inputs and observations that fill them and do not."""
    network = Architecture(inputs, (units,), biased=biased, scale=1.5)
    counts = [1, 3, 4, 11, 12, 13, shallow.BLOCK - 1, shallow.BLOCK, shallow.BLOCK + 1, 2 * shallow.BLOCK + 14]
    data, theta, who = stored(network, counts), drawn(network, len(counts)), np.arange(len(counts))
    for agent, found in enumerate(gradient_sums(network, theta, data, who, data.count)):
        x, row = data.arms[agent, :, : counts[agent]].T[None], np.array([agent])
        gaps = outputs(network, theta, row, x)[0] - data.rewards[agent, : counts[agent]]
        np.testing.assert_allclose(found, gaps @ gradients(network, theta, row, x)[0], rtol=1e-10, atol=1e-10)


def test_observations_packed_for_another_network_are_refused():
    network, other = Architecture(3, (4,)), Architecture(5, (4,))
    data = stored(network, [6])
    packed = shallow.pack(data.arms[0], 6, 0)
    with pytest.raises(ValueError, match="packed for another network"):
        shallow.add_slope(
            drawn(other, 1)[0], 4, 0, 1.0, packed, data.rewards[0, :6], shallow.room(5, 4), np.zeros(other.parameters)
        )


def test_only_the_first_observations_count():
    network = NETWORKS[1]
    data, theta = stored(network, [9, 9]), drawn(network, 1)
    who, some = np.arange(2), np.array([4, 0])
    shorter = stored(network, [9, 9])
    shorter.arms[0, :, 4:9], shorter.rewards[0, 4:9] = 7.0, 7.0
    np.testing.assert_array_equal(
        gradient_sums(network, theta, data, who, some), gradient_sums(network, theta, shorter, who, some)
    )


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(0, 2 * BLOCK), st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_an_agent_alone_computes_the_same_bits(seed, agents, most, arms):
    rng = np.random.default_rng(seed)
    network = NETWORKS[seed % len(NETWORKS)]
    counts = rng.integers(0, most + 1, agents)
    data, theta = stored(network, [*counts, 1], seed), drawn(network, agents, seed)
    who, agent = np.arange(agents), int(rng.integers(agents))
    alone = Observations(1, network.inputs, 1)
    alone.arms, alone.rewards = data.arms[[agent]], data.rewards[[agent]]
    one, zero = theta[[agent]], np.array([0])
    end = data.count[:agents]
    np.testing.assert_array_equal(
        gradient_sums(network, theta, data, who, end)[agent],
        gradient_sums(network, one, alone, zero, end[[agent]])[0],
    )
    for together, single in zip(
        feature_sums(network, theta, data, who, end), feature_sums(network, one, alone, zero, end[[agent]]), strict=True
    ):
        np.testing.assert_array_equal(together[agent], single[0])
    x = rng.standard_normal((agents, arms, network.inputs))
    for evaluated in (outputs, hidden, gradients):
        np.testing.assert_array_equal(
            evaluated(network, theta, who, x)[agent], evaluated(network, one, zero, x[[agent]])[0]
        )


def test_what_does_not_fit_is_refused():
    network = NETWORKS[0]
    theta = drawn(network, 2)
    x = np.zeros((1, 2, network.inputs))
    with pytest.raises(ValueError, match="parameters need the shape"):
        outputs(network, theta[:, :-1], np.array([0]), x)
    with pytest.raises(IndexError, match="rows name parameters"):
        outputs(network, theta, np.array([2]), x)
    with pytest.raises(ValueError, match="do not fit"):
        outputs(network, theta, np.array([0]), x[:, :, :-1])
    with pytest.raises(ValueError, match="needs inputs and hidden layers"):
        Architecture(3, ())
    with pytest.raises(ValueError, match="2 rows of parameters for 3 agents"):
        gradient_sums(network, theta, stored(network, [1, 1, 1]), np.arange(3), np.ones(3, dtype=np.int64))


def test_training_brings_the_loss_down():
    network = Architecture(2, (8,), biased=True)
    data, theta = stored(network, [60, 30]), drawn(network, 2)
    who, end = np.arange(2), data.count

    def loss(point):
        return [
            (
                (
                    outputs(network, point, np.array([i]), data.arms[i, :, : end[i]].T[None])[0]
                    - data.rewards[i, : end[i]]
                )
                ** 2
            ).mean()
            for i in who
        ]

    def slope(point):
        return gradient_sums(network, point, data, who, end) / end[:, None]

    before = loss(theta)
    for stepper in (Adam(0.03, theta.shape), Descent(0.05)):
        assert (np.array(loss(descended(theta, slope, stepper, 60))) < 0.8 * np.array(before)).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_descending_in_one_go_is_descending_step_by_step(network):
    data, theta = stored(network, [40, 7, 130]), drawn(network, 2)
    who, end, anchor = np.array([2, 1]), np.array([130, 7]), drawn(network, 1, seed=8)[0]

    def slope(point):
        return (2 * gradient_sums(network, point, data, who, end) + 0.3 * (point - anchor)) / end[:, None]

    expected = descended(theta, slope, Descent(0.01), 5)
    descend(network, theta, data, who, end, steps=5, rate=0.01, loss=2.0, decay=0.3, anchor=anchor)
    np.testing.assert_allclose(theta, expected, rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="parameters for 1 agents"):
        descend(network, theta, data, who[:1], end[:1], steps=1, rate=0.1, loss=1.0, decay=0.0, anchor=anchor)


def test_networks_that_stray_are_cut_down_and_lost_ones_stay():
    """At a rate of 10 descent overflows."""
    network = NETWORKS[0]
    theta, data = drawn(network, 2), stored(network, [9, 9])
    rest = {"steps": 400, "loss": 2.0, "decay": 0.1, "anchor": np.zeros(network.parameters)}
    lost = theta.copy()
    descend(network, lost, data, np.arange(2), data.count, rate=10.0, **rest)
    np.testing.assert_array_equal(lost, theta)
    free, held = theta.copy(), theta.copy()
    descend(network, free, data, np.arange(2), data.count, rate=1e-3, **rest)
    lengths = np.linalg.norm(free, axis=1)
    farthest = float(lengths.mean())
    descend(network, held, data, np.arange(2), data.count, rate=1e-3, farthest=farthest, **rest)
    np.testing.assert_allclose(held, free * np.minimum(1.0, farthest / lengths)[:, None], rtol=1e-12)


@pytest.mark.parametrize("network", NETWORKS)
def test_it_does_not_matter_who_has_observed_how_much(network):
    """What a pooled network is trained by are sums over all observations, however they are divided among agents."""
    theta, whole = drawn(network, 1), stored(network, [BLOCK + 60])
    totals = []
    for sizes in ([BLOCK + 60], [3, BLOCK + 57], [94, 94]):
        divided, first = stored(network, sizes), 0
        for agent, size in enumerate(sizes):
            divided.arms[agent, :, :size] = whole.arms[0, :, first : first + size]
            divided.rewards[agent, :size] = whole.rewards[0, first : first + size]
            first += size
        given = (divided, np.arange(len(sizes)), divided.count)
        gram, moment = feature_sums(network, theta, *given)
        totals.append([gradient_sums(network, theta, *given).sum(axis=0), gram.sum(axis=0), moment.sum(axis=0)])
    for other in totals[1:]:
        for found, wanted in zip(other, totals[0], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("square", [0.99, 0.999])
@given(slopes=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), rate=st.floats(1e-4, 1.0))
def test_adam_moves_no_coordinate_further_than_its_stride(slopes, rate, square):
    stepper, theta = Adam(rate, (1,), square), np.zeros(1)
    for slope in slopes:
        moved = stepper.step(theta, np.array([slope]))
        assert abs(moved - theta)[0] <= STRIDE * rate * (1 + 1e-9)
        theta = moved


@pytest.mark.parametrize("network", NETWORKS)
def test_torch_agrees(network):
    torch = pytest.importorskip("torch")
    theta = drawn(network, 1)
    data = stored(network, [BLOCK + 9])
    weights = [torch.tensor(matrix, dtype=torch.float64) for matrix in network.matrices(theta[0].copy())]
    for matrix in weights:
        matrix.requires_grad_()
    level = torch.tensor(data.arms[0, :, : data.count[0]].T.copy(), dtype=torch.float64)
    one = torch.ones((len(level), 1), dtype=torch.float64)
    for matrix in weights[:-1]:
        level = torch.relu((torch.cat([level, one], 1) if network.biased else level) @ matrix.T)
    value = network.scale * ((torch.cat([level, one], 1) if network.biased else level) @ weights[-1].T)[:, 0]
    gaps = value - torch.tensor(data.rewards[0, : data.count[0]])
    (gaps**2).sum().div(2).backward()
    found = torch.cat([matrix.grad.ravel() for matrix in weights]).numpy()
    np.testing.assert_allclose(
        gradient_sums(network, theta, data, np.array([0]), data.count)[0], found, rtol=1e-10, atol=1e-10
    )
    stepper, optimiser = Adam(0.03, theta.shape), torch.optim.Adam(weights, lr=0.03)
    point = theta
    for _ in range(2):
        gradient = torch.cat([matrix.grad.ravel() for matrix in weights]).numpy()[None].copy()
        optimiser.step()
        point = stepper.step(point, gradient)
    moved = torch.cat([matrix.detach().ravel() for matrix in weights]).numpy()
    np.testing.assert_allclose(point[0], moved, rtol=1e-7, atol=1e-9)
