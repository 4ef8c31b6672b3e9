"""Latencies: that the right things are measured, never how long they take here."""

import msgspec
import numpy as np
import pytest

from bench.latency import opened
from quantdsl.backtest.program import Run
from quantdsl.check import compile_file
from quantdsl.check.annotations import Promises
from quantdsl.cli.latency import _compare
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load, object_files
from quantdsl.codegen.gauges import SAMPLED, sampled_form
from quantdsl.codegen.proof import prove
from quantdsl.codegen.stamped import ORDER, RETURN, SEEN, WHOLE, load_stamped
from quantdsl.codegen.target import native
from quantdsl.errors import ConfigError, InternalError
from quantdsl.events.layout import EVENT, MORE, Kind
from quantdsl.ir.interp import Interpreter
from quantdsl.live.latency import (
    BATCH,
    NOISE,
    OUT_RECORDS,
    PASSES,
    Bench,
    Report,
    Row,
    measure,
)
from quantdsl.live.latency_page import page
from quantdsl.live.latency_store import changes, grown, save
from quantdsl.live.latency_store import load as load_report
from quantdsl.live.machine import read_machine, usable
from quantdsl.live.placement import FEED, Wish, plan
from quantdsl.live.stages import STAGES, book_probe, gate_probe, hold_probe, stage_probes
from quantdsl.shipped import shipped
from tests.live.programs import checked, events, ready

pytestmark = pytest.mark.skipif(
    not native().triple.startswith("x86_64"), reason="measured on x86-64 only"
)


@pytest.fixture(scope="module")
def report() -> Report:
    found = plan(read_machine(), [Wish("engine", max(usable()))], [FEED])
    prepared = ready("buy_and_hold")
    handlers = {handler.event: handler for handler in prepared.checked.strategy.handlers}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handlers["bar"], "promises", Promises(p99_ns=1_000))
        return measure(prepared, found, events=4_000, rate=0.0)


def test_every_row_is_a_histogram_of_what_it_says(report):
    rows = {row.name: row for row in report.rows}
    assert {NOISE, "turn", *STAGES, "step", "signal evaluation"} <= set(rows)
    for row in report.rows:
        assert row.count > 0
        assert [*row.percentiles_ns, row.max_ns] == sorted([*row.percentiles_ns, row.max_ns])
        assert row.how
    assert rows["turn"].percentiles_ns[0] > rows[NOISE].percentiles_ns[0] * 0.5
    assert report.events <= 4_000


def test_a_handler_with_a_latency_has_a_row(report):
    rows = {row.name: row for row in report.rows}
    assert rows["on bar"].p99_at_most_ns == 1_000
    assert 400 < rows["on bar"].count <= rows["turn"].count
    assert [name for name, row in rows.items() if row.p99_at_most_ns] == ["on bar"]


def test_a_span_ends_where_it_is_asked_to():
    """With the event, where the handlers of its instant have returned, or at its first order."""
    made = opened(compile_file(shipped("strategies/sma_cross.qdsl")), 3_000)
    last = np.flatnonzero(((made.stream[:, 2] >> 48) & MORE) == 0)
    for until in (WHOLE, RETURN, ORDER):
        early, ordered = marked(made, until)
        assert len(ordered) > 5
        assert early == {WHOLE: set(), RETURN: set(last.tolist()), ORDER: ordered}[until]


def marked(made: Bench, until: int) -> tuple[set[int], set[int]]:
    """The events whose span ended before they did, and those that sent an order."""
    loop = made.loop(load_stamped(made.module, native(), Cache()))
    feed, drain, stamps = loop.inbound.producer(), loop.outbound.consumer(), np.zeros(4, np.int64)
    words = (loop.run.memory.words, loop.inbound.words, loop.outbound.words, loop.control)
    early, ordered = set(), set()
    for k, event in enumerate(made.stream.reshape(-1).view(EVENT)):
        feed.push(np.array([event]))
        loop.turn.call("stamped", *words, loop.curve, 1, stamps, 0, 0, until)
        if loop.outbound.cells[SEEN]:
            early.add(k)
        if Kind.ORDER in drain.pop(OUT_RECORDS)["kind"]:
            ordered.add(k)
    return early, ordered


def test_a_handler_of_news_is_measured_by_the_records_that_it_hears_of():
    """Of fills, and of whatever befalls an order, there is no event: they were not measured."""
    made = opened(compile_file(shipped("strategies/sma_cross.qdsl")), 3_000)
    handler = made.prepared.checked.strategy.handlers[0]
    rows = {}
    for event in ("fill", "order"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(handler, "event", event)
            patch.setattr(handler, "promises", Promises(p99_ns=1_000))
            rows |= {row.name: row for row in made.whole(0.0)}
    filled = made.records[made.records["kind"] == Kind.FILL]
    assert rows["on fill"].count == len(np.unique(filled["ts_event"])) > 5
    assert rows["on order"].count >= rows["on fill"].count


def test_what_could_not_be_measured_is_said(report):
    assert any("position update: not measured" in note for note in report.notes)


def test_the_last_probe_is_the_whole_run():
    """The stages together leave what `run` leaves, so nothing of it is missing or done twice."""
    prepared = ready("sma_cross")
    chunk = events(prepared)[0][:3_000]
    probe = stage_probes(checked("sma_cross").module())[-1]
    own = Run(prepared.checked, probe.module, load(probe.module, native(), Cache()))
    own.memory.words[:] = prepared.run.memory.words
    own.plots = prepared.run.plots
    words, curve = chunk.view(np.int64).reshape(-1), np.zeros(1 << 16, np.int64)
    prepared.run.memory.set("curve_on", False)
    own.memory.set("curve_on", False)
    assert own.executor.call("probe", own.memory.words, words, len(chunk), curve) == len(chunk)
    prepared.run.executor.call("run", prepared.run.memory.words, words, len(chunk), curve)
    assert prepared.run.memory.get("e.outbox_count") > 0
    assert np.array_equal(own.memory.words, prepared.run.memory.words)


def test_a_probe_of_the_handlers_leaves_no_order():
    prepared = ready("sma_cross")
    chunk = events(prepared)[0][:3_000]
    probe = stage_probes(checked("sma_cross").module())[STAGES.index("handlers")]
    words, curve = chunk.view(np.int64).reshape(-1), np.zeros(1 << 16, np.int64)
    program = load(probe.module, native(), Cache())
    program.call("probe", prepared.run.memory.words, words, len(chunk), curve)
    assert prepared.run.memory.get("e.intent_count") == 0
    assert prepared.run.memory.get("e.next_id") == 1


@pytest.mark.parametrize("make", [gate_probe, hold_probe, book_probe])
def test_routines_run_on_records(make):
    """The interpreter and the machine code of a probe agree on what it leaves."""
    prepared = ready("sma_cross")
    probe = make(checked("sma_cross").module())
    records = np.zeros((3, 8), np.int64)
    records[:, 4] = [3, -2, -1]  # lots
    records[:, 5] = [10_000, 10_010, 9_990]  # ticks
    start = prepared.run.memory.words
    left = []
    for executor in (Interpreter(probe.module), load(probe.module, native(), Cache())):
        words = start.copy()
        result = executor.call("probe", words, records.reshape(-1), 3, np.zeros(8, np.int64))
        left.append((result, words))
    assert left[0][0] == left[1][0]
    assert np.array_equal(left[0][1], left[1][1])
    if make is not gate_probe:
        assert not np.array_equal(left[0][1], start)


@pytest.mark.parametrize("make", [gate_probe, hold_probe, book_probe])
def test_a_routine_is_called_once_for_each_record(make):
    """Copied into the loop it went with its result, where it changes nothing: a gate took 0 ns."""
    probe = make(checked("sma_cross").module())
    forms = (sampled_form(), sampled_form(probe.routine))
    found = [object_files(probe.module, native(), None, form)[0] for form in forms]
    copied, called = (prove(code, SAMPLED.name) for code in found)
    assert called.callees == copied.callees + 1


def test_a_gate_is_measured_with_the_position_that_an_order_leads_to():
    prepared = ready("sma_cross")
    probe = gate_probe(checked("sma_cross").module())
    records = np.zeros((1, 8), np.int64)
    records[:, 4:6] = [3, 10_000]  # lots, ticks
    slot, told = prepared.run.memory.slot("e.limits.max_notional"), []
    unit = prepared.run.memory.get("e.instruments[0].money_per_tick_lot")
    for most in (2, 3):
        words = prepared.run.memory.words.copy()
        words[slot.offset_words] = most * 10_000 * unit
        told.append(Interpreter(probe.module).call("probe", words, records.reshape(-1), 1, words))
    assert told[0] != told[1] == 0


def test_a_routine_that_takes_something_else_is_our_fault():
    module = checked("sma_cross").module()
    funcs = tuple(
        msgspec.structs.replace(f, params=f.params[:3]) if f.name == "risk.gate" else f
        for f in module.funcs
    )
    with pytest.raises(InternalError, match=r"risk\.gate does not take"):
        gate_probe(msgspec.structs.replace(module, funcs=funcs))


def test_a_step_that_cannot_be_taken_apart_is_our_fault():
    module = checked("sma_cross").module()
    funcs = tuple(
        msgspec.structs.replace(f, body=f.body[:2]) if f.name == "step" else f for f in module.funcs
    )
    with pytest.raises(InternalError, match="QD9510"):
        stage_probes(msgspec.structs.replace(module, funcs=funcs))


def test_too_few_events():
    with pytest.raises(ConfigError, match="there are only 10 events"):
        measure(ready("buy_and_hold"), plan(read_machine(), [Wish("engine", None)]), events=10)


def made(samples: int = 1_000, **medians: float) -> Report:
    rows = tuple(
        Row(name.replace("_", " "), "how", samples, (ns, ns, ns, ns, ns), ns)
        for name, ns in medians.items()
    )
    return Report("S", "data", 10, 2, 0.0, 1, 2.0, rows, ("a note",))


def test_a_report_comes_back_from_its_file(tmp_path):
    report = made(noise_floor=20.0, step=50.0)
    save(report, tmp_path / "a" / "run.json")
    assert load_report(tmp_path / "a" / "run.json") == report


def test_a_file_that_is_no_report(tmp_path):
    path = tmp_path / "x.json"
    with pytest.raises(ConfigError, match="cannot be read"):
        load_report(path)
    path.write_text('{"strategy": 3}')
    with pytest.raises(ConfigError, match="no saved run of bench latency"):
        load_report(path)


def test_a_comparison_finds_what_grew():
    before = made(noise_floor=20.0, step=50.0, turn=100.0, decode=5.0, gone=9.0)
    now = made(noise_floor=20.0, step=56.0, turn=109.0, decode=50.0, new=1.0)
    found = changes(before, now)
    assert [change.name for change in found] == ["noise floor", "step", "turn", "decode"]
    assert [change.name for change in grown(found, 0.10)] == ["step"]
    assert not grown(found, 0.20)


def test_a_slower_core_is_taken_off():
    before, now = made(noise_floor=20.0, step=50.0), made(noise_floor=30.0, step=75.0)
    assert not grown(changes(before, now), 0.10)
    slower = made(noise_floor=30.0, step=90.0)
    assert [one.name for one in grown(changes(before, slower), 0.10)] == ["step"]
    faster = made(noise_floor=10.0, step=50.0)
    assert not grown(changes(before, faster), 0.10)


def test_a_median_of_few_samples_is_not_judged(capsys):
    before, now = made(step=50.0), made(samples=27, step=90.0)
    for one, two in ((before, now), (made(samples=27, step=50.0), made(step=90.0))):
        assert not grown(changes(one, two), 0.10)
    found = changes(before, now)
    _compare(found, grown(found, 0.10), 0.10, err=False)
    assert "+80.0%  27 samples: too few to judge" in capsys.readouterr().out
    assert grown(changes(before, made(samples=100, step=90.0)), 0.10)


def passing(*passes_ns: float, step_ns: float = 0.625) -> Report:
    report = made(signal_evaluation=float(np.median(passes_ns)))
    row = msgspec.structs.replace(report.rows[0], passes_ns=passes_ns, step_ns=step_ns)
    return msgspec.structs.replace(report, rows=(row,))


@pytest.mark.parametrize(
    ("now", "slower"),
    [
        ((64.5, 73.9, 70.7, 112.7, 94.2), False),  # as measured while another process ran
        ((67.2, 80.0, 80.0, 80.0, 80.0), False),  # less than a step of the counter away
        ((67.9, 80.0, 80.0, 80.0, 80.0), True),
    ],
)
def test_what_passes_differ_by_is_no_growth(now, slower, capsys):
    before = passing(61.3, 64.2, 67.0, 56.3, 62.6)
    found = changes(before, passing(*now))
    assert bool(grown(found, 0.10)) is slower
    assert not grown(found, 0.50)
    _compare(found, grown(found, 0.10), 1e-5, err=False)
    said = capsys.readouterr().out
    assert ("SLOWER" in said) is slower
    assert ("passes up to 67.0 before and down to" in said) is not slower
    assert "grew by more than 0.001%" in said


def test_repeated_rows_say_how_their_passes_differ(report):
    rows = {row.name: row for row in report.rows}
    for name in ("turn", "on bar", "signal evaluation", "step"):
        assert len(rows[name].passes_ns) == PASSES
    median = rows["signal evaluation"].percentiles_ns[0]
    assert min(rows["signal evaluation"].passes_ns) <= 1.01 * median + 1.0
    assert 0 < rows["step"].step_ns * BATCH == pytest.approx(rows["turn"].step_ns)


def test_only_like_is_compared():
    other = msgspec.structs.replace(made(step=1.0), strategy="T")
    with pytest.raises(ConfigError, match="its strategy is S, this run's is T"):
        changes(made(step=1.0), other)


def test_the_page_holds_every_row_and_escapes_texts():
    report = msgspec.structs.replace(
        made(noise_floor=20.0, step=50.0), data="<script>alert(1)</script>"
    )
    text = page(report)
    assert "<script>" not in text
    assert text.count("<tr>") == 1 + 2
    assert "noise floor" in text
    assert "default-src 'none'" in text
    assert page(report) == text
