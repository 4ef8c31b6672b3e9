"""Promise: the built-in market of two years is made in 0.2 s."""

from quantdsl.data.events import open_data
from quantdsl.data.spec import DataSpec
from tests.data.helpers import XNYS, bars

MADE_S_MAX = 0.2


def test_the_market_is_made(benchmark):
    spec = DataSpec(session=XNYS, clocks=("5m",))
    made = benchmark(open_data, spec)
    assert len(bars(made)) == 38_970
    if benchmark.enabled:
        assert benchmark.stats["median"] <= MADE_S_MAX
