"""Real sessions: the command itself, its child killed, what is on disk compared with a backtest."""

import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quantdsl.backtest.run import backtest
from quantdsl.cli import run
from quantdsl.data.feed import symbol_of
from quantdsl.data.instrument import Instrument
from quantdsl.data.latency import Latencies
from quantdsl.errors import QuantDSLError
from quantdsl.events.layout import EVENT, RECORD, Command, KilledBy, Kind
from quantdsl.journal.reader import segments
from quantdsl.live import view
from quantdsl.live.machine import read_machine, usable
from quantdsl.live.manifest import read
from quantdsl.live.measured import FILE
from quantdsl.live.placement import Wish, plan
from quantdsl.live.running import hold
from quantdsl.live.session import HALT, Session, steady
from quantdsl.live.tearsheet import session_result
from tests.waiting import WAIT_S, until

INVENTED = Path(__file__).parents[2] / "configs" / "paper_synthetic.toml"
STRATEGY = """language 1

strategy Crosser:
    "Long above its average, short below."

    bars 2m
    session "24/7"

    let slow = ta.sma(close, 5)

    on bar:
        if close > slow:
            target(20 shares)
        elif close < slow:
            target(-20 shares)

    backtest:
        cash     = 100_000 USD
        fees     = 1bps
        leverage = 2
"""
BARS = 4_000
START_S = 1_704_153_600


def bars_file(folder: Path) -> Path:
    rng = np.random.default_rng(7)
    close = 100 + np.cumsum(rng.normal(0, 0.05, BARS)).round(2)
    lines = ["time,open,high,low,close,volume"]
    before = 100.0
    for k, price in enumerate(close.tolist()):
        moment = np.datetime64(START_S + 60 * k, "s")
        high, low = max(before, price), min(before, price)
        lines.append(f"{moment}Z,{before:.2f},{high:.2f},{low:.2f},{price:.2f},1000")
        before = price
    path = folder / "bars.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path):
    strategy = tmp_path / "crosser.qdsl"
    strategy.write_text(STRATEGY, encoding="utf-8")
    return strategy, bars_file(tmp_path)


def paper(folder: Path, *words: object) -> "subprocess.Popen[str]":
    """The command, started."""
    command = [sys.executable, "-m", "quantdsl", "paper", *map(str, words)]
    return subprocess.Popen(
        [*command, "--session", str(folder), "--no-cockpit"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finished(process: "subprocess.Popen[str]") -> str:
    said, _ = process.communicate(timeout=WAIT_S)
    return said


def ended_when(process: "subprocess.Popen[str]", true: Callable[[], object]) -> str:
    """What a session said that Ctrl-C ends when something is true, if it has not ended before.

    It ends too where that never comes true: its engine would take a core from all that follows.
    """
    try:
        until(lambda: process.poll() is not None or true())
    finally:
        process.send_signal(signal.SIGINT)
    return finished(process)


def child_of(folder: Path) -> int:
    """The process that runs a session, once it does."""

    def found() -> int:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if b"quantdsl.live.session" in words and str(folder).encode() in words:
                    return int(path.parent.name)
        return 0

    return until(found)


def has_ended(process: int) -> bool:
    """Whether a process is over, though its parent may not have asked for its end."""
    try:
        status = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return True
    return status.rpartition(b")")[2].split()[0] == b"Z"


def journalled(folder: Path, name: str = "Crosser") -> tuple[np.ndarray, np.ndarray]:
    """(inputs, outputs) of a session as they are on disk."""
    parts = list(segments(folder / name, digest=read(folder).digest))
    return tuple(
        np.concatenate([getattr(one, what)() for one in parts]) for what in ("inputs", "outputs")
    )


def on_disk(folder: Path, name: str = "Crosser") -> tuple[np.ndarray, np.ndarray]:
    """(inputs, outputs) of a session that runs; none where its journal is not there or not whole
    yet."""
    try:
        return journalled(folder, name)
    except (OSError, ValueError, QuantDSLError):
        return np.empty(0, EVENT), np.empty(0, RECORD)


def outputs_of(folder: Path, name: str = "Crosser") -> np.ndarray:
    """The outputs alone."""
    return on_disk(folder, name)[1]


def count_of(records: np.ndarray, kind: Kind) -> int:
    return int((records["kind"] == kind).sum())


def armed_again(folder: Path, name: str = "Crosser") -> bool:
    """Whether a session that was ended trades again, as far as is on disk."""
    found = outputs_of(folder, name)
    commands = found[found["kind"] == Kind.COMMAND]["side"].tolist()
    return Command.ARM in commands and commands[-1] == Command.ARM


def before_the_end(records: np.ndarray) -> np.ndarray:
    """Without what the end of the session set off."""
    ended = np.flatnonzero((records["kind"] == Kind.COMMAND) & (records["side"] == Command.KILL))
    return records[: ended[-1]] if len(ended) else records


def without_commands(records: np.ndarray) -> np.ndarray:
    return records[records["kind"] != Kind.COMMAND]


@pytest.mark.skipif(len(usable()) < 2, reason="there is no core beside the engine's")
def test_no_other_thread_of_a_session_gets_its_engines_core(files, tmp_path):
    """One that does keeps the engine from an event for as long as the system lets it run."""
    strategy, _ = files
    process = paper(tmp_path / "s", strategy, "--config", INVENTED)
    tasks = Path(f"/proc/{child_of(tmp_path / 's')}/task")
    engine = plan(read_machine(), [Wish("engine", None)]).core("engine")

    def apart() -> bool:
        where = []
        for one in tasks.iterdir():
            with suppress(ProcessLookupError):  # it has ended
                where.append(os.sched_getaffinity(int(one.name)))
        return {engine} in where and sum(engine in cores for cores in where) == 1

    ended_when(process, apart)
    assert process.returncode == 0


def test_what_a_session_begins_with_is_no_work_for_the_collector_of_garbage():
    switch_s = sys.getswitchinterval()
    try:
        steady()
        assert len(gc.get_objects()) < 1_000
    finally:
        sys.setswitchinterval(switch_s)
        gc.unfreeze()


def test_a_replayed_session_decides_as_the_backtest_of_its_file(files, tmp_path):
    strategy, data = files
    folder = tmp_path / "session"
    said = finished(paper(folder, strategy, "--config", "paper_replay", "--data", data,
                          "--speed", "full"))  # fmt: skip
    assert "Total return" in said, said
    assert f"on replay ({symbol_of(data)})" in said  # what the file holds, not an invented name
    _, outputs = journalled(folder)
    own = before_the_end(outputs)
    whole = backtest(strategy, data=str(data)).records
    assert (own["kind"] == Kind.FILL).sum() > 200
    assert own.tobytes() == whole[: len(own)].tobytes()
    # All of the file was traded: only the end of the run is missing.
    left = whole[len(own) :]
    assert not np.isin(left["kind"], (Kind.FILL, Kind.ORDER)).any()
    report = session_result(folder, "Crosser")
    assert report.records.tobytes().startswith(outputs.tobytes())
    page = folder / "Crosser" / "report" / "report.html"
    assert page.stat().st_size > 10_000


def test_killed_at_random_it_ends_as_one_that_was_not(files, tmp_path):
    """SIGKILL again and again; what was committed is never lost, and the end is the same."""
    strategy, data = files
    folder = tmp_path / "session"
    rng = np.random.default_rng(int(os.environ.get("QUANTDSL_KILL_SEED", "1")))
    words = (strategy, "--config", "paper_replay", "--data", data, "--speed", "60000")
    seen = 0
    for _ in range(3):
        size = _bytes_of(folder)
        process = paper(folder, *words)
        child = child_of(folder)
        until(lambda: process.poll() is not None or _bytes_of(folder) > size + 2_000)  # noqa: B023
        time.sleep(float(rng.uniform(0, 0.3)))
        if process.poll() is not None:
            break
        with suppress(ProcessLookupError):  # it has just come to its end
            os.kill(child, signal.SIGKILL)
        said = finished(process)
        assert "killed by SIGKILL" in said or "ended" in said, said
        inputs, _ = journalled(folder)
        assert len(inputs) >= seen
        seen = len(inputs)
    said = finished(paper(folder, *words))
    assert "ended" in said, said
    _, outputs = journalled(folder)
    own = without_commands(before_the_end(outputs))
    whole = backtest(strategy, data=str(data)).records
    assert len(own) > 200
    assert own.tobytes() == whole[: len(own)].tobytes()
    assert not np.isin(whole[len(own) :]["kind"], (Kind.FILL, Kind.ORDER)).any()


def _bytes_of(folder: Path) -> int:
    """How much of its journal is on disk."""
    found = 0
    for path in (folder / "Crosser").glob("*.journal"):
        with suppress(OSError):
            found += path.stat().st_size
    return found


def test_paper_without_a_config_trades_on_the_invented_market(files, tmp_path):
    """The command of the README until it has traded; then it goes on where it was."""
    folder = tmp_path / "session"
    same = (folder, files[0], "--for", "1000", "--speed", "3000")
    said = ended_when(paper(*same), lambda: count_of(outputs_of(folder), Kind.FILL))
    assert "Crosser on synthetic (SYN1)" in said, said
    assert "no order leaves this machine" in said
    assert re.search(r"bought|sold", said), said
    inputs, outputs = journalled(folder)
    other = finished(paper(folder, files[0], "--speed", "9", "--flatten"))
    assert "with the settings that it began with" in other, other
    assert "paper.flatten_at_stop = false, paper.speed = 3000.0" in other, other
    assert "ended: stopped by Ctrl-C" in said, said
    own = tmp_path / INVENTED.name
    text = INVENTED.read_text(encoding="utf-8")
    own.write_text(text.replace("= 10_000.0", "= 500.0").replace('"sleep"', '"yield"'))
    other = finished(paper(folder, files[0], "--config", own))
    assert "began with: limits.daily_loss = 10000.0, live.wait = sleep\n" in other, other
    again = ended_when(paper(*same), lambda: (
        armed_again(folder) and len(on_disk(folder)[0]) > len(inputs) + 2))  # fmt: skip
    assert f"goes on after {len(inputs):,} events" in again, again
    more, records = journalled(folder)
    assert len(more) > len(inputs)
    assert records.tobytes().startswith(outputs.tobytes())
    bars = more[(more["kind"] == Kind.BAR) & (more["side"] == 0)]["ts_event"]
    assert (np.diff(bars) == 120 * 10**9).all(), "no gap and no overlap over the restart"
    armed = records[records["kind"] == Kind.COMMAND]
    assert armed["side"].tolist() == [Command.KILL, Command.ARM, Command.KILL]
    assert set(armed["a"].tolist()) == {KilledBy.SESSION}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_session_halts_and_ends_without_its_supervisor(files, tmp_path, how):
    """One that stands still, as by Ctrl-Z, takes no snapshot: the pipe is full within a second."""
    strategy, data = files
    folder = tmp_path / "session"
    process = paper(folder, strategy, "--config", "paper_replay", "--data", data, "--speed", "60")
    child = child_of(folder)
    until(lambda: _bytes_of(folder) > 2_000)
    os.kill(process.pid, how)
    until(lambda: has_ended(child))
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGCONT)
    said, _ = process.communicate()
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 2)
    assert how == signal.SIGKILL or "the session has ended by itself" in said, said
    inputs, _ = journalled(folder)
    assert inputs[-1]["kind"] == Kind.COMMAND
    assert inputs[-1]["side"] == Command.KILL


def test_a_file_halts_and_nobody_arms_while_it_is_there(files, tmp_path):
    """From a terminal, over a restart too, and a person's wish to arm is refused meanwhile."""
    folder = tmp_path / "session"
    same = (folder, files[0], "--for", "1000", "--speed", "3000")

    def halts() -> int:
        inputs = on_disk(folder)[0]
        of_person = (inputs["side"] == Command.KILL) & (inputs["payload"][:, 0] == KilledBy.PERSON)
        return int(np.count_nonzero((inputs["kind"] == Kind.COMMAND) & of_person))

    def halted() -> int:
        if count_of(outputs_of(folder), Kind.FILL):
            assert run(["halt", str(folder)]) == 0
        return halts()

    said = ended_when(paper(*same), halted)
    assert "halt asked for by the file halt" in said, said
    _, outputs = journalled(folder)
    orders = count_of(outputs, Kind.ORDER)
    said = ended_when(paper(*same), lambda: halts() > 1)
    inputs, outputs = journalled(folder)
    assert count_of(outputs, Kind.ORDER) == orders, said
    (folder / HALT).unlink()
    before = len(inputs)
    ended_when(paper(*same), lambda: len(on_disk(folder)[0]) > before + 50)
    assert count_of(journalled(folder)[1], Kind.ORDER) == orders, "a halt is latched"
    log: list[Any] = []
    (folder / HALT).touch()
    session = SimpleNamespace(folder=folder, strategies=[])
    session.showing = SimpleNamespace(log=lambda *words: log.append(words))
    Session._obey(session, view.Command("rearm", by="cockpit", id="7"))
    assert log[-1] == ("error", "session", f"nothing is armed: {folder / HALT} is there", "7")


def test_a_session_that_runs_is_not_run_twice(tmp_path):
    held = hold(tmp_path)
    with pytest.raises(QuantDSLError, match=r"running already\n.* ends after 2 seconds: wait some"):
        hold(tmp_path)
    os.close(held)
    os.close(hold(tmp_path))


def test_a_limit_that_is_missing_is_named_with_its_place(files, tmp_path):
    strategy, _ = files
    config = tmp_path / "own.toml"
    lines = INVENTED.read_text(encoding="utf-8").splitlines()
    config.write_text(
        "\n".join(line for line in lines if not line.startswith("daily_loss")), encoding="utf-8"
    )
    process = paper(tmp_path / "session", strategy, "--config", config)
    said = finished(process)
    assert process.returncode == 2
    assert re.search(r"own\.toml:\d+: limits\.daily_loss is missing", said), said
    assert not (tmp_path / "session").exists()


def test_a_feed_that_is_none_is_told_before_what_it_lacks(files, tmp_path):
    own = tmp_path / "own.toml"
    text = INVENTED.read_text(encoding="utf-8").replace('"synthetic"', '"binnance"')
    own.write_text(text, encoding="utf-8")
    said = finished(paper(tmp_path / "session", files[0], "--config", own))
    assert "own.toml:5: there is no feed 'binnance'; did you mean 'binance'?" in said, said
    own.write_text(INVENTED.read_text(encoding="utf-8").replace("[]", '[]\noptions = { sped = 2 }'))
    said = finished(paper(tmp_path / "session", files[0], "--config", own))
    wanted = "own.toml:5: the feed synthetic has no option 'sped'; did you mean 'speed'? It has"
    assert wanted in said, said


def test_a_device_that_is_none_is_refused_before_anything_is_made(files, tmp_path):
    folder = tmp_path / "session"
    process = paper(folder, files[0], "--device", "gpuu")
    said = finished(process)
    assert process.returncode == 2
    assert "--device gpuu: there is no such device; give auto, cpu, simulated or cuda:N" in said
    assert not folder.exists()


MAKER = """language 1

strategy Maker:
    "Quotes both sides at the touch."

    quotes
    session "XNYS"

    on quote:
        quote(bid = bid, bid_qty = 10 shares, ask = ask, ask_qty = 10 shares)

    at 09:31:
        log("a minute after the open")

    risk:
        max_position = 100 shares
"""


@pytest.mark.slow
def test_two_strategies_on_ticks_killed_and_resumed_are_their_backtests(tmp_path):
    """Both lanes see every message, session border and timer once, over a kill too."""
    folder = tmp_path / "session"
    names = ("Maker", "Other")
    for name in names:
        text = MAKER.replace("Maker", name).replace("100 shares", f"{len(name) * 20} shares")
        (tmp_path / f"{name.lower()}.qdsl").write_text(text, encoding="utf-8")
    files = [tmp_path / f"{name.lower()}.qdsl" for name in names]
    process = paper(folder, *files, "--speed", "300")
    child = child_of(folder)
    until(lambda: all(count_of(outputs_of(folder, name), Kind.FILL) > 10 for name in names))
    os.kill(child, signal.SIGKILL)
    said = finished(process)
    assert "killed by SIGKILL" in said, said
    before = {name: len(outputs_of(folder, name)) for name in names}
    said = ended_when(paper(folder), lambda: all(
        count_of(found := outputs_of(folder, name), Kind.LOG) and len(found) > before[name] + 10
        for name in names
    ))  # fmt: skip
    assert "goes on after" in said, said
    for name, file in zip(names, files, strict=True):
        inputs, outputs = journalled(folder, name)
        own = without_commands(before_the_end(outputs))
        whole = backtest(file).records
        assert (own["kind"] == Kind.FILL).sum() > 10
        assert (own["kind"] == Kind.LOG).sum() == 1
        assert own.tobytes() == whole[: len(own)].tobytes()
        assert (np.diff(inputs["ts_recv"]) >= 0).all()
    took = Latencies(str(folder / FILE), [Instrument(symbol="SYN1")], (0, 2**62)).events
    assert len(took)  # at its end at the latest a session writes one
    assert (took["payload"][:, :2] > 0).all()
