"""How much of a Sharpe ratio is skill: probabilistic and deflated Sharpe ratio, track record.

Sources: Bailey and Lopez de Prado, "The Sharpe Ratio Efficient Frontier", Journal of Risk 15 (2),
2012 [SREF]; the same, "The Deflated Sharpe Ratio", Journal of Portfolio Management 40 (5), 2014
[DSR]. A Sharpe ratio here is that of one sample, mean(r) / std(r): nothing is annualised. Kurtosis
is the fourth standard moment, 3 for normal returns.
"""

import math
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from quantdsl.report.result import Float64s

NORMAL = NormalDist()
EULER_GAMMA = 0.5772156649015329


class Sample(Struct, frozen=True):
    """What the formulas need of one series of returns."""

    sharpe: float
    n: int
    skew: float = 0.0
    kurtosis: float = 3.0

    @property
    def deviation(self) -> float:
        """Standard error of the Sharpe ratio, without the assumption of normal returns.

        sqrt((1 - skew SR + (kurtosis - 1) / 4 SR^2) / (n - 1)) [SREF, eq. 8]; what stands under
        the root is never negative, since kurtosis >= 1 + skew^2.
        """
        spread = 1.0 - self.skew * self.sharpe + (self.kurtosis - 1.0) / 4.0 * self.sharpe**2
        return math.sqrt(max(spread, 0.0) / (self.n - 1))


def sample_of(returns: Float64s) -> Sample | None:
    """The sample of a series of returns; None where it is too short or nothing varies."""
    if len(returns) < 2:
        return None
    centred = returns - returns.mean()
    m2 = float(np.mean(centred**2))
    if m2 <= (1e-15 * float(np.max(np.abs(returns)))) ** 2:
        return None
    sharpe = float(returns.mean()) / math.sqrt(m2 * len(returns) / (len(returns) - 1))
    skew, kurtosis = (float(np.mean(centred**power)) / m2 ** (power / 2) for power in (3, 4))
    return Sample(sharpe, len(returns), skew, kurtosis)


def probabilistic_sharpe(sample: Sample, benchmark: float = 0.0) -> float:
    """Probability that the true Sharpe ratio is above `benchmark`, given the sample.

    PSR = Phi((SR - benchmark) / deviation) [SREF, eq. 9].
    """
    if sample.deviation == 0.0:
        return math.nan
    return NORMAL.cdf((sample.sharpe - benchmark) / sample.deviation)


def expected_best_sharpe(trials: int, variance: float) -> float:
    """The best Sharpe ratio that luck alone is expected to show among `trials` worthless points.

    sqrt(V) ((1 - g) Phi^-1(1 - 1/N) + g Phi^-1(1 - 1/(N e))), g the Euler-Mascheroni constant and
    V the variance of the Sharpe ratios over the trials [DSR, eq. 1]. One trial has no choice: 0.
    """
    if trials < 2:
        return 0.0
    # -Phi^-1(p) for Phi^-1(1 - p): a million trials leave no digit of 1 - p to lose.
    highest = -NORMAL.inv_cdf(1.0 / trials), -NORMAL.inv_cdf(1.0 / (trials * math.e))
    return math.sqrt(variance) * ((1.0 - EULER_GAMMA) * highest[0] + EULER_GAMMA * highest[1])


def deflated_sharpe(sample: Sample, trials: int, variance: float) -> float:
    """Probability that the best of `trials` points is better than luck: PSR against their maximum.

    [DSR, eq. 2]. Trials are counted as if they were independent; `variance` is what tells how
    different they really are.
    """
    return probabilistic_sharpe(sample, expected_best_sharpe(trials, variance))


def track_record_length(sample: Sample, benchmark: float = 0.0, confidence: float = 0.95) -> float:
    """Samples needed until the Sharpe ratio is above `benchmark` with this confidence.

    MinTRL = 1 + (1 - skew SR + (kurtosis - 1) / 4 SR^2) (Phi^-1(confidence) / (SR - benchmark))^2
    [SREF, eq. 11]; infinite where the Sharpe ratio is not above the benchmark.
    """
    if sample.sharpe <= benchmark:
        return math.inf
    spread = sample.deviation**2 * (sample.n - 1)
    return 1.0 + spread * (NORMAL.inv_cdf(confidence) / (sample.sharpe - benchmark)) ** 2
