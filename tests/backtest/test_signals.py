"""Signals are the values of a backtest: to the bit, of every strategy, on every executor."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.run import carry
from quantdsl.backtest.signals import CLOSE, PreparedSignals, ahead, prepare_signals
from quantdsl.backtest.turns import loaded
from quantdsl.check import check_source
from quantdsl.check.signal_turn import Signals
from quantdsl.check.step import CURVE_WORDS
from quantdsl.errors import ConfigError, DataError, UnavailableError
from quantdsl.events.layout import MORE, Kind
from quantdsl.ir.interp import Interpreter
from quantdsl.lang.source import Source
from quantdsl.report.signal_files import GROUP_ROWS, grouped, write
from tests.std.universe import Panels, compiled, table, walks
from tests.std.universe import write as lines

ROOT = Path(__file__).parents[2]
SINGLE = ("sma_cross", "macd_trend", "pairs_z", "supertrend_trail", "rsi2_pullback")
UNIVERSE = """language 1
strategy Ranked:
    "Equations of each instrument, across them, and of all."
    bars 1d, adjust = all
    universe "ALL", point_in_time = true, filter = liquid
    param n = 5 in 2..9 step 1
    let liquid = close > 20 USD
    let ret    = adj.close / adj.close[1] - 1
    let past   = adj.close[n] / close
    let above  = ret > 0
    let rank   = past |> xs.winsorize(10%) |> xs.neutralize(by = sector) |> xs.rank()
    let ups    = ta.barssince(above)
    let where  = sector
    let there  = xs.count(past)
    on bar:
        if rank[1] > 0.5 and flat:
            buy(1 share)
    backtest:
        fees = 1bps
    risk:
        max_gross = 100% of equity
"""


TICKS = """language 1
strategy Ticks:
    "Equations of a book, of trades, and of bars that are built of them."
    book depth = 10
    trades
    bars 30s
    let fair  = book.microprice(levels = 3)
    let sigma = ts.ewm_rate_std(fair, halflife = 5s)
    let was   = bid[2] / ask
    let past  = trade.price[3] / trade.price
    let ret   = close / close[1] - 1
    on book:
        if flat and was > 1:
            buy(1 share)
"""


def words(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """A column as floats: true is 1, null is NaN."""
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    return pc.fill_null(pc.cast(column, pa.float64(), safe=False), np.nan).to_numpy()


def same(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> bool:
    """Equal to the bit; NaN is one value."""
    ours, theirs = (np.where(np.isnan(x), np.nan, x).view(np.int64) for x in (one, other))
    return bool(np.array_equal(ours, theirs))


def interpreted(prepared: PreparedSignals) -> PreparedSignals:
    """The same signals, computed event by event by the interpreter."""
    checked, given = prepared.checked, frozenset[str]()
    signals = Signals(checked.assembly, closes=bool(prepared.needed))
    turn = loaded(checked, signals, given, prepared.data, prepared.chosen)
    module = checked.signals_module(signals, given)
    return replace(prepared, turn=replace(turn, executor=Interpreter(module)))


@pytest.mark.parametrize("name", SINGLE)
def test_signals_are_what_the_trace_of_a_backtest_shows(name: str) -> None:
    source = Source.read(ROOT / "strategies" / f"{name}.qdsl")
    traced, _ = check_source(source, trace=True)
    plain, _ = check_source(source)
    assert traced is not None
    assert plain is not None
    options: dict[str, Any] = {"end": "2022-04-01"}
    seen = prepare(traced, **options)
    carry(seen.run, seen.data)
    found = prepare_signals(plain, **options).table()
    first = found["instrument"][0].as_py()
    one = found.filter(pc.equal(found["instrument"], first))
    curve = seen.run.curve()
    assert one["time"].cast(pa.int64()).to_pylist() == curve[:, 0].tolist()
    assert len(traced.strategy.plots) > 0
    for number, plot in enumerate(traced.strategy.plots):
        shown = np.ascontiguousarray(curve[:, CURVE_WORDS + number]).view(np.float64)
        assert same(words(one[plot.name]), shown), plot.name


def test_signals_on_ticks_are_what_a_backtest_has_at_each_instant() -> None:
    checked, options = compiled(TICKS), {"end": "2023-01-03T14:32"}
    prepared = prepare_signals(checked, **options)
    found = prepared.table()
    assert found.equals(interpreted(prepared).table())
    ran = prepare(checked, **options)
    named = checked.strategy.scope.names
    seen: dict[str, list[float]] = {name: [] for name in ("fair", "sigma", "was", "past", "ret")}
    times = []
    events = np.concatenate(list(ran.data.chunks()))
    ends = np.flatnonzero(events["flags"] & MORE == 0) + 1
    ticks = (Kind.TRADE, Kind.BOOK_DELTA, Kind.BOOK_SNAPSHOT, Kind.TIMER)
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        ran.run.feed(events[begin:end])
        if events["kind"][end - 1] in ticks:
            times.append(int(events["ts_recv"][end - 1]))
            for name, values in seen.items():
                values.append(float(ran.run.memory.get(named[name].get().ir.name)))
    at = found["time"].cast(pa.int64()).to_numpy()
    last = np.flatnonzero(np.diff(at, append=0))  # of the rows of one time
    rows = np.searchsorted(times, at[last], "right") - 1
    assert len(last) > 1_000
    for name, values in seen.items():
        ours, theirs = words(found[name])[last], np.array(values)[rows]
        there = ~np.isnan(ours)
        assert there.sum() > len(last) / 3, name
        assert same(ours[there], theirs[there]), name


def universe(folder: Path) -> dict[str, Any]:
    """Data and files of UNIVERSE: gaps, late listings, ends, members, sectors, a split."""
    closes = walks(12, 60)
    names = list(closes)
    more: dict[str, Any] = {
        "universe.members": lines(
            folder,
            "members.csv",
            "symbol,entry,exit",
            [f"{name},{'2020-01-20' if n == 3 else ''}," for n, name in enumerate(names)],
        ),
        "universe.groups": lines(
            folder,
            "sectors.csv",
            "symbol,sector",
            [f"{name},{'ABC'[n % 3]}" for n, name in enumerate(names)],
        ),
        "data.actions": lines(
            folder,
            "actions.csv",
            "time,symbol,action,value",
            ["2020-01-15,A000,split,2", "2020-01-17,A004,dividend,0.5"],
        ),
    }
    return {"data": table(closes), "more": more}


def test_signals_of_a_universe_are_what_its_backtest_has(tmp_path: Path) -> None:
    options = universe(tmp_path)
    found = prepare_signals(compiled(UNIVERSE), **options).table()
    assert found.schema.names[2:] == [
        *("liquid", "ret", "past", "above", "rank", "ups", "where", "there")
    ]
    run = Panels(UNIVERSE, **options)
    count = 0
    columns = {name: words(found[name]) for name in found.schema.names[2:]}
    for bars in run.bars():
        which = bars["instrument"][bars["kind"] == Kind.BAR]
        rows = slice(count, count + len(which))
        names = [run.symbols[n] for n in which]
        assert found["instrument"][rows].to_pylist() == names
        assert set(found["time"].cast(pa.int64())[rows].to_pylist()) == {int(bars["ts_event"][0])}
        for name in ("ret", "past", "rank", "ups"):
            assert same(columns[name][rows], run.panel(name)[which]), name
        everyone = np.full(len(which), run.single("there"))
        expected = {name: run.panel(name)[which] for name in ("liquid", "above")}
        for name, now in (*expected.items(), ("there", everyone)):
            known = ~np.isnan(columns[name][rows])  # no word of the state says that it is missing
            assert same(columns[name][rows][known], now[known])
        count += len(which)
    assert count == len(found) > 400
    assert found["rank"].null_count > 0
    assert [found[name].null_count for name in ("liquid", "above")] == [0, 12]
    assert found["there"].to_pylist()[-1] > 5
    assert np.nanmax(columns["rank"]) > np.nanmin(columns["rank"])


@pytest.mark.parametrize("closes", [False, True])
def test_the_interpreter_finds_the_same_bits(tmp_path: Path, closes: bool) -> None:
    options = universe(tmp_path) | {"closes": closes}
    machine = prepare_signals(compiled(UNIVERSE), **options)
    oracle = interpreted(prepare_signals(compiled(UNIVERSE), **options))
    assert machine.table().equals(oracle.table())
    text = (ROOT / "strategies" / "pairs_z.qdsl").read_text(encoding="utf-8")
    short: dict[str, Any] = {"end": "2022-01-08", "params": {"win": 60}, "closes": closes}
    machine = prepare_signals(compiled(text), **short)
    assert machine.table().equals(interpreted(prepare_signals(compiled(text), **short)).table())


def test_closes_are_the_prices_of_the_data() -> None:
    closes = walks(5, 30)
    text = UNIVERSE.replace(", adjust = all", "").replace("adj.close", "close")
    text = text.replace(", point_in_time = true", "").replace("by = sector", "close")
    text = text.replace("    let where  = sector\n", "")
    found = prepare_signals(compiled(text), data=table(closes), closes=True).table()
    for name, column in closes.items():
        own = found.filter(pc.equal(found["instrument"], name))
        assert own[CLOSE].to_pylist() == [x for x in column if x is not None]


def test_rows_begin_at_the_start_and_the_values_are_the_same() -> None:
    checked = compiled((ROOT / "strategies" / "sma_cross.qdsl").read_text(encoding="utf-8"))
    whole = prepare_signals(checked, end="2022-03-01").table()
    late = prepare_signals(checked, start="2022-02-01", end="2022-03-01").table()
    assert 0 < len(late) < len(whole)
    assert late.replace_schema_metadata().equals(
        whole.slice(len(whole) - len(late)).replace_schema_metadata()
    )


def test_a_result_of_several_values_is_a_column_each() -> None:
    text = """language 1
strategy Several:
    bars 1d
    let m     = ta.macd(close, 3, 5, 2)
    let when  = bars.time
    let count = bar_index
    let k     = 2 + 3
    let up    = close > open
    on bar:
        if up and count > k and m.hist > 0 and flat:
            buy(1 share)
"""
    prepared = prepare_signals(compiled(text))
    found = prepared.table()
    names = found.schema.names[2:]
    assert [name for name in names if name.startswith("m.")] == ["m.macd", "m.signal", "m.hist"]
    assert prepared.constants == ("k",)
    assert found.schema.field("when").type == pa.timestamp("ns", tz="UTC")
    assert found["when"].to_pylist() == found["time"].to_pylist()
    assert found["count"].to_pylist() == list(range(len(found)))
    assert found.schema.field("up").type == pa.bool_()
    assert found["m.hist"].null_count == 5


def test_what_is_awaited_shows_what_is_computed_of_its_bar() -> None:
    text = """language 1
strategy Awaited:
    bars 1d
    let same = ta.sma(close, 5)
    @async(deadline = 2ms)
    let late = ta.sma(close, 5)
    on ready(late):
        if flat and late is not na and late > same:
            buy(1 share)
"""
    found = prepare_signals(compiled(text)).table()
    assert found["late"].null_count == 4
    assert found["late"].equals(found["same"])


def test_equal_inputs_leave_equal_files(tmp_path: Path) -> None:
    checked = compiled((ROOT / "strategies" / "sma_cross.qdsl").read_text(encoding="utf-8"))
    for name in ("one.parquet", "two.parquet", "one.arrow", "two.arrow"):
        prepared = prepare_signals(checked, end="2022-06-01")
        write(tmp_path / name, prepared.schema, ahead(prepared.batches()))
    for form in ("parquet", "arrow"):
        files = [(tmp_path / f"{name}.{form}").read_bytes() for name in ("one", "two")]
        assert files[0] == files[1]
    assert not list(tmp_path.glob("*.part"))
    read = pa.ipc.open_file(tmp_path / "one.arrow").read_all()
    assert read.schema.metadata[b"quantdsl.strategy"] == b"SmaCross"
    assert len(read.schema.metadata[b"quantdsl.data_sha256"]) == 64


def test_groups_of_rows_have_one_size_whatever_the_batches() -> None:
    schema = pa.schema([("x", pa.int64())])
    sizes = (70_000, 10, 200_000, 5)
    batches = [pa.record_batch([pa.array(range(n))], schema=schema) for n in sizes]
    groups = [len(group) for group in grouped(schema, batches)]
    assert sum(groups) == sum(sizes)
    assert set(groups[:-1]) == {GROUP_ROWS}


def test_a_write_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def broken():
        yield pa.record_batch([pa.array([1])], names=["x"])
        raise DataError("torn")

    with pytest.raises(DataError, match="torn"):
        write(tmp_path / "x.parquet", pa.schema([("x", pa.int64())]), broken())
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_one_clear_message(tmp_path: Path) -> None:
    none = "language 1\nstrategy N:\n    bars 1d\n    on bar:\n        buy(1 share)\n"
    with pytest.raises(ConfigError, match=r"it has no equation(.|\n)*help: add one"):
        prepare_signals(compiled(none))
    constant = none.replace("    on bar", "    let k = 1 + 2\n    on bar")
    with pytest.raises(ConfigError, match="params alone decide k"):
        prepare_signals(compiled(constant))
    with pytest.raises(ConfigError, match="this is a folder, and signals are one file"):
        write(tmp_path, pa.schema([]), [])
    with pytest.raises(ConfigError, match=r"in which form to write: \.parquet or \.arrow"):
        write(tmp_path / "x.csv", pa.schema([]), [])
    symbols = UNIVERSE.replace('"ALL"', '"A000", "ZZZ"')
    with pytest.raises(DataError, match="no bars of ZZZ"):
        prepare_signals(compiled(symbols), data=table(walks(2, 9)))
    text = (ROOT / "strategies" / "sma_cross.qdsl").read_text(encoding="utf-8")
    with pytest.raises(UnavailableError, match="on a core of this machine, for it has no universe"):
        prepare_signals(compiled(text), device="simulated")
    with pytest.raises(ConfigError, match=r"requires fast < slow"):
        prepare_signals(compiled(text), params={"fast": 50, "slow": 20})
    with pytest.raises(UnavailableError, match="a strategy on ticks have no description"):
        prepare_signals(compiled(TICKS), closes=True)


PAST = """language 1
strategy Past:
    "What a part of a result was, looked back at again."
    bars 1d
    universe "ALL"
    param look = 3 in 1..6 step 1
    let m     = ta.macd(close)
    let hist  = m.hist
    let twice = m[1].hist[1]
    let far   = m[look].hist[4]
    let fell  = m[1].hist crosses below m.hist
"""


@pytest.mark.parametrize("universe", ['universe "ALL"', ""], ids=["universe", "alone"])
def test_what_a_part_was_is_looked_back_at(universe: str) -> None:
    """It was 0, or a traceback: nobody kept the past of a part of what was."""
    bars = table(walks(1, 90))
    bars = bars if universe else bars.drop_columns(["symbol"])
    found = prepare_signals(compiled(PAST.replace('universe "ALL"', universe)), data=bars).table()
    hist, twice, far, fell = (words(found[name]) for name in ("hist", "twice", "far", "fell"))
    assert np.isfinite(hist).sum() > 40
    assert np.array_equal(twice[2:], hist[:-2], equal_nan=True)
    assert np.array_equal(far[7:], hist[:-7], equal_nan=True)
    below = (hist[1:-1] < hist[2:]) & (hist[:-2] >= hist[1:-1])
    assert np.array_equal(np.nan_to_num(fell[2:]), below)
