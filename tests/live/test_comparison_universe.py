"""A session on a universe beside recordings that differ from what it was told in one thing each."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quantdsl.cli import run
from quantdsl.events.layout import Kind
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


def test_answers_to_signals_that_came_later(tmp_path):
    """A session has its answers when they are computed, its backtest a quarter of a millisecond
    after the question; at this speed that is minutes of the market."""
    strategy, data, folder = tmp_path / "c.qdsl", bars_file(tmp_path), tmp_path / "session"
    strategy.write_text(STRATEGY.format(signals=SIGNALS), encoding="utf-8")
    words = ("--config", configured(tmp_path), "--data", data, "--speed", "20000")
    finished(paper(folder, strategy, *words))
    found = against_data(folder, NAME, data).compared
    seen = Counter(one.cause for one in found.differences)
    assert set(seen) <= {"latency", "risk"}, seen  # it is halted where it ends
    assert seen["latency"] > 50
    assert found.same[Kind.ORDER] > 20
    whys = [one.why for one in found.differences if one.cause == "latency"]
    told = r"(it follows from this: )?the answer to what was asked for at \S+ (came [\d,]+ ns"
    assert all(re.match(rf"{told} later|did not come) in the session$", why) for why in whys)
    times = np.array([one.ts for one in found.differences])
    assert (np.diff(times) >= 0).all()
