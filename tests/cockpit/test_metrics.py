"""/metrics: read back by Prometheus' own parser, with the figures of the session."""


import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from quantdsl.cockpit.history import SILENT_S, History
from quantdsl.cockpit.metrics import exposition
from quantdsl.live.view import Snapshot
from tests.cockpit.script import Script

HOSTILE = 'a"b\\c\nd{}'


def parsed(history):
    text = exposition(history, 2).decode()
    families = text_string_to_metric_families(text)
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_figures_are_those_of_the_session():
    history, script = History(), Script(4)
    for _ in range(500):
        history.take(script.next())
    snapshot, _ = history.snapshot()
    found = parsed(history)
    assert found["quantdsl_up",] == 1
    assert found["quantdsl_cockpit_clients",] == 2
    assert found["quantdsl_equity",] == pytest.approx(snapshot.equity)
    assert found["quantdsl_events_total",] == snapshot.events
    assert found["quantdsl_strategy_fills_total", "CryptoMaker"] == script.fills
    for name, count in (("asked", 1_500), ("ready", 1_498), ("stale", 1), ("dropped", 1)):
        assert found[f"quantdsl_signal_{name}_total", "CryptoMaker", "forecast"] == count
    assert found["quantdsl_session_state", "active"] == 1
    assert found["quantdsl_session_state", "halted"] == 0
    assert found["quantdsl_limit", "CryptoMaker", "USD", "daily_loss"] == 2_000
    assert found["quantdsl_feed_messages_total", "binance"] == 41 * 500
    assert found["quantdsl_feed_delay_seconds", "binance"] == pytest.approx(0.038)
    assert found["quantdsl_latency_seconds_bucket", "+Inf", "event to record"] == sum(script.counts)
    held = {key: value for key, value in found.items() if key[0] == "quantdsl_position"}
    assert sorted(held.values()) == sorted(one.quantity for one in snapshot.positions)


def test_buckets_only_grow():
    history, script = History(), Script(4)
    for _ in range(50):
        history.take(script.next())
    found = parsed(history)
    buckets = {
        float(next(value for value in key[1:] if value != "event to record")): count
        for key, count in found.items()
        if key[0] == "quantdsl_latency_seconds_bucket"
    }
    ordered = [buckets[upto] for upto in sorted(buckets)]
    assert ordered == sorted(ordered)
    assert max(buckets) == float("inf")


def test_before_the_first_snapshot_and_after_the_last_it_is_down(clock):
    history = History()
    assert parsed(history)["quantdsl_up",] == 0
    history.take(Snapshot(1, 1, "s", "active", 1))
    assert parsed(history)["quantdsl_up",] == 1
    clock[0] += SILENT_S + 0.1
    assert parsed(history)["quantdsl_up",] == 0


def test_a_hostile_name_stays_inside_its_label():
    history, script = History(), Script(4)
    snapshot = script.next()
    hostile = tuple(replace(one, name=HOSTILE) for one in snapshot.strategies)
    history.take(replace(snapshot, strategies=hostile))
    assert parsed(history)["quantdsl_strategy_orders_total", HOSTILE] == 0
