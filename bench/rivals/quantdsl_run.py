"""quantdsl: the bench's own run, under the same clock as the rivals."""

from serve import Bars, Run, serve

from bench.oracle import Prepared


def prepare(bars: Bars) -> Run:
    prepared = Prepared(len(bars["close"]))

    def run() -> tuple[int, float]:
        trades, profit = prepared.run()
        return trades, profit / 1_000_000

    return run


serve(prepare)
