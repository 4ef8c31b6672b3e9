"""Statistics of sweeps against the papers' own examples, brute force and what must come out."""

import itertools
import math
import statistics
from collections.abc import Iterator

import mpmath
import numpy as np
import pytest

from quantdsl.report import statistics_splits
from quantdsl.report.statistics_grid import neighbourhood
from quantdsl.report.statistics_sharpe import (
    Sample,
    deflated_sharpe,
    expected_best_sharpe,
    probabilistic_sharpe,
    sample_of,
    track_record_length,
)
from quantdsl.report.statistics_splits import cross_validate, rank_correlation, ranks
from quantdsl.report.statistics_trades import bootstrap, drawn, trade_growth
from tests.report.synthetic_sweep import block_sums, grid, numbers, synthetic_sweep, words

# ---- Sharpe ratio ----------------------------------------------------------------------------

DAILY = 2.5 / math.sqrt(250)


def test_the_deflated_sharpe_ratio_of_the_paper():
    """Bailey and Lopez de Prado 2014, "A numerical example": 100 trials, half a variance a year."""
    sample = Sample(DAILY, 1_250, skew=-3.0, kurtosis=10.0)
    assert expected_best_sharpe(100, 0.5 / 250) == pytest.approx(0.1132, abs=5e-5)
    assert deflated_sharpe(sample, 100, 0.5 / 250) == pytest.approx(0.9004, abs=5e-5)
    assert deflated_sharpe(sample, 46, 0.5 / 250) == pytest.approx(0.9505, abs=5e-5)
    assert deflated_sharpe(Sample(DAILY, 1_250), 88, 0.5 / 250) == pytest.approx(0.9505, abs=5e-5)


def test_the_probabilistic_sharpe_ratio_of_the_paper():
    """Bailey and Lopez de Prado 2012: a fund of 24 months, with and without normal returns."""
    assert probabilistic_sharpe(Sample(0.458, 24)) == pytest.approx(0.982, abs=5e-4)
    skewed = Sample(0.458, 24, skew=-2.448, kurtosis=10.164)
    assert probabilistic_sharpe(skewed) == pytest.approx(0.913, abs=5e-4)


@pytest.mark.parametrize(("a_year", "years"), [(250, 2.73), (52, 2.83), (12, 3.24)])
def test_the_track_record_of_the_paper(a_year, years):
    """A Sharpe ratio of 2 a year is above 1 with 95 % after so many years."""
    sample = Sample(2.0 / math.sqrt(a_year), 1_000)
    found = track_record_length(sample, 1.0 / math.sqrt(a_year)) / a_year
    assert found == pytest.approx(years, abs=5e-3)


def test_the_track_record_of_returns_that_are_not_normal():
    sample = Sample(2.0 / math.sqrt(12), 1_000, skew=-0.72, kurtosis=5.78)
    assert track_record_length(sample, 1.0 / math.sqrt(12)) / 12 == pytest.approx(4.99, abs=5e-3)


def test_a_track_record_never_shows_what_is_not_there():
    assert track_record_length(Sample(0.05, 100), 0.05) == math.inf
    length = track_record_length(Sample(0.1, 1_000, skew=-1.0, kurtosis=6.0), 0.02)
    there = Sample(0.1, round(length), skew=-1.0, kurtosis=6.0)
    assert probabilistic_sharpe(there, 0.02) == pytest.approx(0.95, abs=1e-4)


@pytest.mark.parametrize("trials", [2, 1_000, 1_000_000, 10**12])
def test_the_expected_best_has_all_its_digits(trials):
    with mpmath.workdps(40):
        high, higher = (
            mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * p)
            for p in (mpmath.mpf(1) / trials, 1 / (trials * mpmath.e))
        )
        exact = (1 - mpmath.euler) * high + mpmath.euler * higher
    assert expected_best_sharpe(trials, 4.0) == pytest.approx(2.0 * float(exact), rel=1e-9)


def test_the_expected_best_is_what_chance_gives():
    best = np.random.default_rng(1).normal(0.0, 0.3, (20_000, 200)).max(axis=1)
    assert expected_best_sharpe(200, 0.09) == pytest.approx(best.mean(), rel=0.01)
    assert expected_best_sharpe(1, 0.09) == 0.0


def test_a_sample_is_measured_as_statistics_does():
    returns = np.random.default_rng(2).standard_t(5, 500) / 100.0 + 0.001
    sample = sample_of(returns)
    listed = returns.tolist()
    mean, spread = statistics.fmean(listed), statistics.pstdev(listed)
    assert sample.sharpe == pytest.approx(mean / statistics.stdev(listed), rel=1e-12)
    moments = [statistics.fmean(((r - mean) / spread) ** k for r in listed) for k in (3, 4)]
    assert [sample.skew, sample.kurtosis] == pytest.approx(moments, rel=1e-12)
    assert sample_of(np.full(50, 0.01)) is None
    assert sample_of(returns[:1]) is None


# ---- cross-validation ------------------------------------------------------------------------


def brute_splits(returns: np.ndarray, n_blocks: int) -> dict[tuple[int, ...], tuple[float, ...]]:
    """(Sharpe ratio in sample, out of sample, relative rank) of each split, from the returns."""
    parts = np.split(returns, n_blocks)

    def measured(chosen):
        joined = np.concatenate([parts[k] for k in chosen])
        return joined.mean(axis=0) / joined.std(axis=0, ddof=1)

    found = {}
    for chosen in itertools.combinations(range(n_blocks), n_blocks // 2):
        here = measured(chosen)
        there = measured([k for k in range(n_blocks) if k not in chosen])
        best = int(here.argmax())
        rank = sorted(there).index(there[best]) + 1
        found[chosen] = (here[best], there[best], rank / (len(there) + 1))
    return found


def sums_of(returns: np.ndarray, n_blocks: int) -> np.ndarray:
    parts = returns.reshape(n_blocks, -1, returns.shape[1])
    count = np.full((n_blocks, returns.shape[1]), float(parts.shape[1]))
    return np.stack([count, parts.sum(axis=1), (parts**2).sum(axis=1)])


@pytest.mark.parametrize("n_blocks", [4, 6])
def test_splits_are_those_of_brute_force(n_blocks):
    returns = np.random.default_rng(3).normal(0.0005, 0.01, (n_blocks * 7, 9))
    found = cross_validate(sums_of(returns, n_blocks))
    expected = sorted(brute_splits(returns, n_blocks).values())
    ours = sorted(zip(found.in_sample, found.out_of_sample, found.rank, strict=True))
    assert np.allclose(ours, expected, rtol=1e-9, atol=1e-12)
    overfit = np.mean([rank <= 0.5 for _, _, rank in expected])
    assert found.overfit_probability == overfit


def test_sixteen_blocks_are_12870_splits_each_once():
    found = cross_validate(block_sums(np.random.default_rng(4).normal(0, 0.01, (160, 5))))
    assert len(found.rank) == math.comb(16, 8) == 12_870
    seen = []
    blocks = np.stack([np.full((16, 1), 2.0), 2.0 ** np.arange(16)[:, None], np.ones((16, 1))])
    for inside, outside in statistics_splits.unions(blocks):
        assert np.all(inside[1] + outside[1] == 2**16 - 1)
        seen += inside[1][:, 0].tolist()
    assert len(set(seen)) == 12_870 // 2
    assert {int(one).bit_count() for one in seen} == {8}


def test_noise_is_overfitted_half_of_the_time():
    rng = np.random.default_rng(5)
    noise = [block_sums(rng.normal(0.0, 0.01, (160, 20))) for _ in range(60)]
    found = [cross_validate(one).overfit_probability for one in noise]
    assert np.mean(found) == pytest.approx(0.5, abs=0.08)


def test_one_good_point_among_noise_is_found_everywhere():
    returns = np.random.default_rng(6).normal(0.0, 0.01, (640, 50))
    returns[:, 17] += 0.004
    found = cross_validate(block_sums(returns))
    assert found.overfit_probability < 0.001
    assert found.loss_probability < 0.001


def test_points_that_never_trade_share_their_place():
    returns = np.zeros((160, 4))
    returns[0, 3] = -0.01
    found = cross_validate(block_sums(returns))
    assert set(found.rank) == {0.5, 0.6}
    assert np.all(found.in_sample == 0.0)
    assert math.isnan(found.degradation)
    assert math.isnan(found.rank_correlation)


def test_a_point_that_lost_everything_has_fewer_returns():
    returns = np.random.default_rng(7).normal(0.0, 0.01, (160, 6))
    blocks = block_sums(returns)
    blocks[:, 8:, 3] = 0.0
    found = cross_validate(blocks)
    assert np.all(np.isfinite(found.in_sample))
    assert np.all(np.isfinite(found.out_of_sample))


def test_many_points_are_sampled_by_seed():
    blocks = block_sums(np.random.default_rng(8).normal(0.0, 0.01, (160, 300)))
    first, again, other = (cross_validate(blocks, seed, points_max=100) for seed in (1, 1, 2))
    assert (first.n_points, first.n_sampled_from) == (100, 300)
    assert np.array_equal(first.out_of_sample, again.out_of_sample)
    assert not np.array_equal(first.out_of_sample, other.out_of_sample)


def test_the_split_of_the_work_does_not_change_a_bit(monkeypatch):
    blocks = block_sums(np.random.default_rng(9).normal(0.0, 0.01, (160, 40)))
    whole = cross_validate(blocks)
    monkeypatch.setattr(statistics_splits, "CELLS", 100)
    pieces = cross_validate(blocks)
    ours, theirs = (np.sort(one.out_of_sample) for one in (whole, pieces))
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("shape", [(160, 1), (16, 5)])
def test_nothing_to_choose_gives_no_splits(shape):
    assert cross_validate(block_sums(np.random.default_rng(10).normal(0.0, 0.01, shape))) is None


def test_points_that_are_all_alike_give_no_splits():
    """Where none had traded, the best was said to be in the worse half in more than 99 of 100."""
    assert cross_validate(block_sums(np.zeros((160, 4)))) is None
    returns = np.random.default_rng(10).normal(0.0, 0.01, (160, 1))
    assert cross_validate(block_sums(np.repeat(returns, 4, axis=1))) is None


def test_ranks_share_and_correlate_as_spearman_has_it():
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]
    x = np.array([10.0, 8.0, 13.0, 9.0, 11.0])
    y = np.array([8.0, 6.9, 7.6, 8.8, 8.3])
    assert rank_correlation(x, y) == pytest.approx(1.0 - 6.0 * (3**2 + 3**2) / (5 * (5**2 - 1)))


# ---- neighbourhood ---------------------------------------------------------------------------


def test_neighbours_are_those_of_brute_force():
    axes = [numbers("a", range(4)), words("kind", "sma", "ema"), numbers("b", range(5))]
    levels = grid(axes)
    kept = np.random.default_rng(11).random(levels.shape[1]) < 0.8
    whole = synthetic_sweep(axes)
    kept[whole.ranked(1)] = True
    sweep = synthetic_sweep(
        axes, levels=levels[:, kept], table=whole.table.filter(kept), blocks=None
    )
    around = neighbourhood(sweep)
    place = {tuple(point): row for row, point in enumerate(sweep.levels.T.tolist())}
    for (a, kind, b), row in place.items():
        steps = [(a - 1, kind, b), (a + 1, kind, b), (a, kind, b - 1), (a, kind, b + 1)]
        scores = [sweep.score[place[step]] for step in steps if step in place]
        assert around.tried[row] == len(scores)
        if scores:
            assert around.median[row] == pytest.approx(statistics.median(scores))
            assert around.worst[row] == min(scores)
            assert around.smooth[row] == pytest.approx(np.mean([*scores, sweep.score[row]]))
        else:
            assert around.smooth[row] == -math.inf
    ranked = around.ranked(10).tolist()
    assert [around.rank(row) for row in ranked] == list(range(1, 11))


@pytest.mark.parametrize("axes", [[words("kind", "sma", "ema")], [numbers("a", [1.0])]])
def test_a_point_may_have_no_neighbour(axes):
    around = neighbourhood(synthetic_sweep(axes, blocks=None))
    assert not around.tried.any()
    assert np.isnan(around.median).all()
    assert len(around.ranked(5)) == 0  # nothing is steady that stands alone


# ---- trades ----------------------------------------------------------------------------------


def test_the_trades_in_their_own_order_give_the_run():
    profits = np.random.default_rng(12).normal(20.0, 300.0, 80)
    growth = trade_growth(profits, 10_000.0)
    found = bootstrap(growth, 50, seed=1)
    level = 10_000.0 + np.concatenate(([0.0], np.cumsum(profits)))
    assert found.run_final == pytest.approx(level[-1] / 10_000.0 - 1.0)
    assert found.run_drawdown == pytest.approx((level / np.maximum.accumulate(level)).min() - 1.0)


def splitmix(state: int) -> Iterator[int]:
    """Steele, Lea and Flood's generator in plain integers."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        yield z ^ z >> 31


def test_draws_are_splitmix64():
    """The known first numbers of seed 1234567, and the places that they stand for."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert list(itertools.islice(splitmix(1_234_567), 4)) == known
    assert drawn(1_234_567, 0, 2, 2).ravel().tolist() == [(z >> 32) * 2 >> 32 for z in known]
    assert np.array_equal(drawn(7, 0, 9, 5)[4:], drawn(7, 4, 9, 5))
    counts = np.bincount(drawn(1, 0, 1_000, 100).ravel())
    assert len(counts) == 100
    assert abs(counts - 1_000).max() < 5 * math.sqrt(1_000)


def test_resamples_are_those_of_a_loop_and_of_their_seed():
    growth = 1.0 + np.random.default_rng(13).normal(0.001, 0.02, 30)
    found = bootstrap(growth, 20, seed=3)
    picks = drawn(3, 0, 20, 30)
    for row in range(20):
        level = high = 1.0
        deepest = 0.0
        for pick in picks[row]:
            level *= growth[pick]
            high = max(high, level)
            deepest = min(deepest, level / high - 1.0)
        assert found.final[row] == pytest.approx(level - 1.0)
        assert found.drawdown[row] == pytest.approx(deepest)
    assert np.array_equal(found.final, bootstrap(growth, 20, seed=3).final)


def test_a_lost_account_stays_lost():
    growth = trade_growth(np.array([-50.0, -70.0, 500.0]), 100.0)
    assert growth.tolist() == [0.5, 0.0, 0.0]
    assert bootstrap(growth, 10).run_final == -1.0
    assert bootstrap(growth[:1], 10) is None
