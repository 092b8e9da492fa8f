"""The float64 reference itself, held against finite differences of nothing but softmax and products."""

import math

import numpy as np
import pytest

from kernels.flops import attention_flops
from kernels.launch_configs import BACKWARD, BACKWARD_DQ, FORWARD, ROW_ALIGNMENT, ROWWISE
from kernels.reference import (
    attention_gradients,
    attention_gradients_at,
    pad_rows,
    relative_error,
    softmax_scale,
)


def forward(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    """Attention, row by row and without any of the reference's shortcuts."""
    out = np.zeros_like(v)
    for z, h, row in np.ndindex(q.shape[:3]):
        keys = row + 1 if causal else q.shape[2]
        weights = np.exp([q[z, h, row] @ k[z, h, j] / math.sqrt(q.shape[3]) for j in range(keys)])
        out[z, h, row] = (weights / weights.sum()) @ v[z, h, :keys]
    return out


def draw(n: int = 5, head_dim: int = 4) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal((2, 2, n, head_dim)) for _ in range(4)]


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_agree_with_finite_differences(causal: bool) -> None:
    q, k, v, do = draw()
    gradients = attention_gradients(q, k, v, do, causal)
    np.testing.assert_allclose(gradients.o, forward(q, k, v, causal), atol=1e-12)
    step = 1e-5
    for index, gradient in enumerate((gradients.dq, gradients.dk, gradients.dv)):
        for position in np.ndindex(gradient.shape):
            inputs = [q.copy(), k.copy(), v.copy()]
            inputs[index][position] += step
            above = (forward(*inputs, causal) * do).sum()
            inputs[index][position] -= 2 * step
            below = (forward(*inputs, causal) * do).sum()
            assert gradient[position] == pytest.approx((above - below) / (2 * step), abs=1e-8)


def test_log_sum_exp_is_natural_and_scaled() -> None:
    q, k, v, do = draw()
    s = softmax_scale(4) * np.einsum("zhid,zhjd->zhij", q, k)
    np.testing.assert_allclose(attention_gradients(q, k, v, do, False).lse, np.log(np.exp(s).sum(-1)))


def test_large_scores_do_not_overflow() -> None:
    q, k, v, do = draw()
    gradients = attention_gradients(1e3 * q, 1e3 * k, v, do, True)
    assert all(np.isfinite(x).all() for x in (gradients.dq, gradients.dk, gradients.dv, gradients.lse))


@pytest.mark.parametrize(("n", "padded"), [(1, 128), (77, 128), (128, 128), (130, 256)])
def test_padding_is_zeros_up_to_whole_tiles(n: int, padded: int) -> None:
    x = draw(n)[0]
    result = pad_rows(x)
    assert result.shape == (2, 2, padded, 4)
    assert (result[:, :, :n] == x).all()
    assert (result[:, :, n:] == 0).all()
    assert pad_rows(x[..., 0]).shape == (2, 2, padded)


def test_padded_rows_add_nothing_to_the_gradients() -> None:
    """With the mask on padded keys that the forward kernel has: a causal mask does it for all real rows."""
    q, k, v, do = draw(77)
    plain = attention_gradients(q, k, v, do, True)
    padded = attention_gradients(*(pad_rows(x) for x in (q, k, v, do)), True)
    for name in ("dq", "dk", "dv"):
        np.testing.assert_allclose(getattr(padded, name)[:, :, :77], getattr(plain, name), atol=1e-12)


def test_every_tile_divides_the_padded_length() -> None:
    configs = [*BACKWARD.values(), *BACKWARD_DQ.values(), *FORWARD.values(), ROWWISE]
    assert all(ROW_ALIGNMENT % size == 0 for c in configs for size in (c.block_m, c.block_n))


def test_flops_by_the_tutorials_convention() -> None:
    # Forward: 2 products of 2 * 2048^2 * 64 operations for each of 4 * 8 heads. The causal backward is
    # 2.5 times that, halved.
    forward_flops = 2 * 2 * 2048 * 2048 * 64 * 4 * 8
    assert attention_flops(4, 8, 2048, 64, causal=True) == 1.25 * forward_flops == 42_949_672_960
    assert attention_flops(4, 8, 2048, 64, causal=False) == 2.5 * forward_flops
    assert attention_flops(4, 8, 2048, 64, causal=False, backward=False) == forward_flops


def test_relative_error() -> None:
    expected = np.array([1.0, -4.0])
    assert relative_error(np.array([1.0, -4.0]), expected) == 0
    assert relative_error(np.array([2.0, -4.0]), expected) == 0.25
    assert relative_error(np.array([1.0, 4.0]), expected) == 2
    for bad in (math.nan, math.inf):
        assert relative_error(np.array([1.0, bad]), expected) == math.inf


@pytest.mark.parametrize("causal", [True, False])
def test_sampled_gradients_are_those_of_the_whole(causal: bool) -> None:
    rng = np.random.default_rng(3)
    q, k, v, do = rng.standard_normal((4, 1, 1, 200, 64))
    whole = attention_gradients(q, k, v, do, causal)
    delta = (whole.o * do).sum(-1)[0, 0]
    rows = np.array([0, 7, 63, 64, 199])
    inputs = [x[0, 0] for x in (q, k, v, do)]
    sampled = attention_gradients_at(rows, *inputs, whole.lse[0, 0], delta, causal)
    for name in ("dq", "dk", "dv", "o", "lse"):
        expected = getattr(whole, name)[0, 0][rows]
        assert relative_error(getattr(sampled, name), expected) < 1e-12, name
    assert relative_error(sampled.delta, delta[rows]) < 1e-12
