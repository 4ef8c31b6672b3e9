"""A session on a universe beside recordings that differ from what it was told in one thing each."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.prepare import prepare
from quantdsl.check import compile_file
from quantdsl.cli import run
from quantdsl.data.signals import answered, placed
from quantdsl.events.layout import Kind
from quantdsl.journal.difference import Ran, compare
from quantdsl.live.comparison import Beside, against_data
from tests.live.test_session import finished, paper
from tests.live.test_session_universe import (
    NAME,
    SIGNALS,
    STRATEGY,
    SYMBOLS,
    bars_file,
    configured,
)

Line = Callable[[str, list[str]], str]


@pytest.fixture(scope="module")
def session(tmp_path_factory) -> Path:
    """A session on bars of three, whose config and data are gone."""
    folder = tmp_path_factory.mktemp("universe")
    strategy, data, config = folder / "c.qdsl", bars_file(folder), configured(folder)
    strategy.write_text(STRATEGY.format(signals=""), encoding="utf-8")
    words = ("--config", config, "--data", data, "--speed", "full")
    said = finished(paper(folder / "session", strategy, *words))
    assert "Total return" in said, said
    for path in (strategy, config, folder / "members.csv"):
        path.unlink()
    return folder


def recording(folder: Path, session: Path, changed: Line) -> Path:
    """The session's bars but for what `changed` makes of a line, given its symbol and its cells."""
    head, *lines = (session / "bars.csv").read_text(encoding="utf-8").splitlines()
    made = [changed(line, line.split(",")) for line in lines]
    path = folder / "recorded.csv"
    path.write_text("\n".join([head, *filter(None, made)]) + "\n", encoding="utf-8")
    return path


def beside(session: Path, path: Path) -> Beside:
    return against_data(session / "session", NAME, path)


def causes(found: Beside) -> Counter[str]:
    """Of all differences; each instrument has some, for the strategy looks at all of them."""
    differences = found.compared.differences
    assert differences, "what was planted changed nothing: the test shows nothing"
    whose = {
        int(one["instrument"])
        for each in differences for one in (each.session, each.recorded) if one is not None
    }  # fmt: skip
    assert whose == set(range(len(SYMBOLS)))
    return Counter(one.cause for one in differences)


def test_on_its_own_data_it_is_its_recording(session, capsys):
    found = beside(session, session / "bars.csv")
    assert not found.compared.differences
    assert found.compared.same[Kind.ORDER] > 50
    assert found.compared.same[Kind.FILL] > 50
    assert found.symbols == SYMBOLS
    assert run(["compare", str(session / "session"), "--data", str(session / "bars.csv")]) == 0
    assert "fills the same, 0 different" in capsys.readouterr().out


def test_data_of_others_beside_its_own_change_nothing(session, tmp_path):
    def doubled(line: str, cells: list[str]) -> str:
        return f"{line}\n{','.join([cells[0], 'ZZ', *cells[2:]])}" if cells[1] == "AA" else line

    found = beside(session, recording(tmp_path, session, doubled))
    assert not found.compared.differences


@pytest.mark.parametrize("session_missed", [True, False])
def test_bars_of_one_that_one_run_had_alone(session, tmp_path, session_missed):
    """The session has no bars of BB from 15:00 of the first day on, or the recording none of CC.
    What is done with the other two follows from it."""

    def changed(line: str, cells: list[str]) -> str:
        if not session_missed:
            return "" if cells[1] == "CC" and "2024-01-02T15:" in cells[0] else line
        if cells[1] != "BB" or "2024-01-02T14:59" not in cells[0]:
            return line
        more = (f"2024-01-02T15:{k:02}:00Z,BB,{','.join([cells[5]] * 4)},500" for k in range(60))
        return "\n".join([line, *more])

    found = beside(session, recording(tmp_path, session, changed))
    assert set(causes(found)) == {"missed data"}
    first = found.compared.differences[0].why
    symbol, run_ = ("BB", "session") if session_missed else ("CC", "recording")
    assert re.fullmatch(rf"a bar of {symbol} 2024-01-02T15:\S+ is not in the {run_}", first), first
    assert found.compared.same[Kind.ORDER] > 20


def test_other_prices_of_one(session, tmp_path, capsys):
    def changed(line: str, cells: list[str]) -> str:
        if cells[1] != "CC" or "T12:" not in cells[0]:
            return line
        return ",".join([*cells[:2], *(f"{float(cell) + 1:.2f}" for cell in cells[2:6]), cells[6]])

    path = recording(tmp_path, session, changed)
    found = beside(session, path)
    assert set(causes(found)) == {"price"}
    first = found.compared.differences[0].why
    assert re.fullmatch(r"a bar of CC 2024-01-02T12:\S+ has other prices or sizes", first), first
    assert run(["compare", str(session / "session"), "--data", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(re.match(r"  (order|fill ) price +(AA|BB|CC) session ", one) for one in lines[2:9])


def test_a_member_that_is_not_in_the_data_is_named(session, tmp_path, capsys):
    path = recording(tmp_path, session, lambda line, cells: "" if cells[1] == "BB" else line)
    assert run(["compare", str(session / "session"), "--data", str(path)]) == 2
    assert f"{path}: has no bars of BB, which the session names" in capsys.readouterr().err


def with_signals(folder: Path) -> tuple[Path, Path, Path]:
    """A strategy that sends its orders on answers to a signal, its config and its data."""
    strategy = folder / "c.qdsl"
    strategy.write_text(STRATEGY.format(signals=SIGNALS), encoding="utf-8")
    return strategy, configured(folder), bars_file(folder)


def test_answers_to_signals_that_came_later(tmp_path):
    """Of a day's middle the session has them eleven minutes later than the backtest assumes."""
    strategy, config, data = with_signals(tmp_path)
    checked, late_ns = compile_file(strategy), 660_000_000_000
    awaited = prepare(checked, data=str(data), config=config).data.spec.awaited

    def ran(events: np.ndarray) -> Ran:
        prepared = prepare(checked, data=str(data), config=config)
        prepared.run.memory.set("curve_on", False)
        if not (events["kind"] == Kind.SIGNAL).any():
            events = np.concatenate(list(answered(iter([events]), awaited, "ts_event")))
        prepared.run.feed(events)
        return Ran(events, prepared.run.all_records())

    chunks = prepare(checked, data=str(data), config=config).data.chunks()
    recorded = ran(np.concatenate(list(chunks)))
    market, answers = (
        recorded.events[(recorded.events["kind"] == Kind.SIGNAL) == one] for one in (False, True)
    )
    since = int(answers["ts_event"][400])
    answers["ts_event"][400:440] += late_ns
    answers["ts_recv"] = answers["ts_event"]
    answers = answers[np.argsort(answers["ts_event"], kind="stable")]
    session = ran(placed(market, answers, "ts_event"))
    assert np.isin(session.events["flags"][session.events["kind"] == Kind.SIGNAL], 0).all()
    found = compare(session, recorded, ran)
    assert {one.cause for one in found.differences} == {"latency"}
    assert found.same[Kind.ORDER] > 50
    first = found.differences[0].why
    assert re.fullmatch(rf"the answer to .* came {late_ns:,} ns later in the session", first), first
    times = [one.ts for one in found.differences]
    assert times == sorted(times)
    assert min(times) >= since


def test_answers_of_a_live_session_are_its_own_or_late(tmp_path):
    """It has them when they are computed, however long that takes on this machine."""
    strategy, config, data = with_signals(tmp_path)
    folder = tmp_path / "session"
    words = ("--config", config, "--data", data, "--speed", "20000")
    finished(paper(folder, strategy, *words))
    found = against_data(folder, NAME, data).compared
    assert {one.cause for one in found.differences} <= {"latency", "risk"}  # halted at its end
    assert found.same[Kind.ORDER] + len(found.differences) > 50
    for one in found.differences:
        if one.cause == "latency":
            told = r"(it follows from this: )?the answer to what was asked for at \S+"
            how = r"(came [\d,]+ ns (later|earlier)|did not come) in the (session|recording)"
            assert re.fullmatch(rf"{told} {how}", one.why), one.why
