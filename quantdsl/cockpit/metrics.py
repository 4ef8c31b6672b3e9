"""The session for Prometheus, in its text format; amounts in base units: seconds, money, shares."""

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    StateSetMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from quantdsl.cockpit.history import SILENT_S, History
from quantdsl.live.view import LatencyView, Snapshot, State

__all__ = ["CONTENT_TYPE", "exposition"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
STATES: tuple[State, ...] = ("starting", "active", "reducing", "halted", "stopped", "lost")

SESSION = {
    "equity": "Money of all strategies, positions at their marks.",
    "profit": "Money made since the session's first start, after fees.",
    "profit_today": "Money made today, after fees.",
    "drawdown": "Share of the highest equity that is lost now.",
}
STRATEGY = {
    "equity": "Money of the strategy, positions at their marks.",
    "profit": "Money made since the session's first start, after fees.",
    "drawdown": "Share of the highest equity that is lost now.",
    "exposure": "Money in positions, shorts counted as longs.",
    "behind": "Events that wait because the engine's ring is full.",
}
STRATEGY_COUNTS = {
    "orders": "Orders that the strategy placed, those that were refused among them.",
    "rejected": "Orders refused by the risk gate or the venue.",
    "fills": "Fills.",
    "conflated": "Quotes left out because a newer one came while they waited.",
    "left_out": "Events that came after a fault had halted it.",
}
SIGNAL_COUNTS = {
    "asked": "Requests of an asynchronous signal.",
    "ready": "Answers that came by their deadline.",
    "stale": "Requests that had no answer by their deadline.",
    "dropped": "Requests refused, or overtaken by a newer answer.",
}
FEED_COUNTS = {
    "messages": "Messages received.",
    "events": "Events made of them.",
    "bytes": "Bytes received.",
    "gaps": "Gaps in a sequence.",
    "duplicates": "Messages that came twice.",
    "resyncs": "Books taken anew.",
    "reconnects": "Connections made after the first.",
    "bad": "Messages that were not understood.",
    "rejected": "Events refused at the edge.",
    "dropped": "Events lost by overload.",
}


def exposition(history: History, clients: int) -> bytes:
    """All metrics as they are now; labels are escaped by the library."""
    registry = CollectorRegistry()
    registry.register(_Session(history, clients))
    return generate_latest(registry)


class _Session(Collector):
    def __init__(self, history: History, clients: int) -> None:
        self.history, self.clients = history, clients

    def collect(self) -> Iterator[Metric]:
        snapshot, age_s = self.history.snapshot()
        up = snapshot is not None and age_s < SILENT_S
        yield GaugeMetricFamily("quantdsl_up", "1 while the session is heard.", value=float(up))
        clients = "Pages that follow the session."
        yield GaugeMetricFamily("quantdsl_cockpit_clients", clients, value=self.clients)
        if snapshot is not None:
            age = "Time since the session was heard."
            yield GaugeMetricFamily("quantdsl_snapshot_age_seconds", age, value=age_s)
            yield from _session(snapshot)
            yield from _strategies(snapshot)
            yield from _signals(snapshot)
            yield from _limits(snapshot)
            yield from _feeds(snapshot)
            yield from _latency(snapshot.latency)


def _session(snapshot: Snapshot) -> Iterator[Metric]:
    state = StateSetMetricFamily("quantdsl_session_state", "What the session does.")
    state.add_metric([], {name: name == snapshot.state for name in STATES})
    yield state
    for name, text in SESSION.items():
        yield GaugeMetricFamily(f"quantdsl_{name}", text, value=getattr(snapshot, name))
    text = "Events that the engine consumed."
    yield CounterMetricFamily("quantdsl_events", text, value=snapshot.events)
    text = "Of those, on disk."
    yield CounterMetricFamily("quantdsl_events_committed", text, value=snapshot.committed)


def _strategies(snapshot: Snapshot) -> Iterator[Metric]:
    labels = ["strategy"]
    state = StateSetMetricFamily("quantdsl_strategy_state", "What it does.", labels=labels)
    for strategy in snapshot.strategies:
        state.add_metric([strategy.name], {name: name == strategy.state for name in STATES})
    yield state
    for name, text in STRATEGY.items():
        money = GaugeMetricFamily(f"quantdsl_strategy_{name}", text, labels=labels)
        for strategy in snapshot.strategies:
            money.add_metric([strategy.name], getattr(strategy, name))
        yield money
    for name, text in STRATEGY_COUNTS.items():
        counter = CounterMetricFamily(f"quantdsl_strategy_{name}", text, labels=labels)
        for strategy in snapshot.strategies:
            counter.add_metric([strategy.name], getattr(strategy, name))
        yield counter
    held = GaugeMetricFamily("quantdsl_position", "Units held.", labels=["strategy", "symbol"])
    for position in snapshot.positions:
        held.add_metric([position.strategy, position.symbol], position.quantity)
    yield held


def _signals(snapshot: Snapshot) -> Iterator[Metric]:
    for name, text in SIGNAL_COUNTS.items():
        counter = CounterMetricFamily(
            f"quantdsl_signal_{name}", text, labels=["strategy", "signal"]
        )
        for strategy in snapshot.strategies:
            for signal in strategy.signals:
                counter.add_metric([strategy.name, signal.name], getattr(signal, name))
        yield counter
    took = GaugeMetricFamily(
        "quantdsl_signal_answer_seconds",
        "From events to the values of signals, the median of the newest.",
        labels=["strategy", "signal", "device"],
    )
    for strategy in snapshot.strategies:
        for signal in strategy.signals:
            labels = [strategy.name, signal.name, signal.device]
            took.add_metric(labels, signal.answer_us / 1e6)
    yield took


def _limits(snapshot: Snapshot) -> Iterator[Metric]:
    labels = ["strategy", "limit", "unit"]
    used = GaugeMetricFamily("quantdsl_limit_used", "How much of a limit is used.", labels=labels)
    limit = GaugeMetricFamily("quantdsl_limit", "Limits of the risk gate.", labels=labels)
    tripped = GaugeMetricFamily(
        "quantdsl_limit_tripped", "1: it latched, and a person must re-arm it.", labels=labels
    )
    for gauge in snapshot.gauges:
        names = [gauge.strategy, gauge.name, gauge.unit]
        used.add_metric(names, gauge.value)
        limit.add_metric(names, gauge.limit)
        tripped.add_metric(names, float(gauge.tripped))
    yield from (used, limit, tripped)


def _feeds(snapshot: Snapshot) -> Iterator[Metric]:
    labels = ["feed"]
    live = GaugeMetricFamily("quantdsl_feed_live", "1 while it delivers.", labels=labels)
    delay = GaugeMetricFamily(
        "quantdsl_feed_delay_seconds", "Typical time from the venue's stamp to ours.", labels=labels
    )
    for feed in snapshot.feeds:
        live.add_metric([feed.name], float(feed.state == "live"))
        delay.add_metric([feed.name], feed.delay_ns / 1e9)
    yield from (live, delay)
    for name, text in FEED_COUNTS.items():
        counter = CounterMetricFamily(f"quantdsl_feed_{name}", text, labels=labels)
        for feed in snapshot.feeds:
            counter.add_metric([feed.name], getattr(feed, name))
        yield counter


def _latency(views: tuple[LatencyView, ...]) -> Iterator[Metric]:
    spans = HistogramMetricFamily(
        "quantdsl_latency_seconds", "Spans of the session so far.", labels=["span"]
    )
    for view in views:
        total, buckets = 0, []
        for upto_ns, count in zip(view.upto_ns, view.counts, strict=True):
            total += count
            buckets.append((repr(upto_ns / 1e9), float(total)))
        # A sum of spans is not kept; the format asks for one only beside a known count.
        spans.add_metric([view.name], [*buckets, ("+Inf", float(total))], sum_value=None)
    yield spans
