"""Run the oracle's backtest in every engine, turn by turn, and compare the medians.

    python -m bench.rivals [--rounds 11] [--json FILE]

Each rival gets a virtual environment of its own on first use, below bench/rivals/.venvs: together
pip finds versions that do not work. All processes stay alive and wait; each round asks one after
the other for a turn of a tenth of a second or one run, so that noise falls on all alike. A ratio is
the median over the rounds of the rival's time through ours of the same round and size. Every answer
must be the oracle's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.oracle import EXPECTED
from tests.truth.test_oracle import market

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENVS = HERE / ".venvs"
BARS = HERE / ".bars"
ANCHOR_QUOTED = 1.15e8
"""Bars a second of the bare numba loop, as quoted beside the oracle."""
ANCHOR_LEAST = 0.97
CENT = 1e-4
"""Profits agree to this; raptorbt sizes in shares of equity, so its last digits are its own."""


class Engine(NamedTuple):
    """One way to run the oracle: script, bars, what pip installs, the ratio that we promise."""

    name: str
    bars: int
    script: str
    packages: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    promised: float = 0.0


ENGINES = (
    Engine("quantdsl", 1_000_000, "quantdsl"),
    Engine("quantdsl", 100_000, "quantdsl"),
    Engine("numba, bare loop", 1_000_000, "numba", ("numba==0.68.1",), ("bare",)),
    Engine("numba, the same work", 1_000_000, "numba", ("numba==0.68.1",), ("full",)),
    Engine("raptorbt 0.13.4", 1_000_000, "raptorbt", ("raptorbt==0.13.4", "numpy"), (), 5.0),
    Engine("vectorbt 1.2.0", 1_000_000, "vectorbt", ("vectorbt==1.2.0",), (), 9.0),
    Engine("backtesting.py 0.6.6", 100_000, "backtesting", ("backtesting==0.6.6",), (), 300.0),
    Engine(
        "pynecore 6.11.0", 100_000, "pynecore", ("pynesys-pynecore==6.11.0", "numpy"), (), 1_000.0
    ),
)
OURS = "quantdsl"


def interpreter(engine: Engine) -> str:
    """The Python of an engine's environment, which is made if it is not there yet."""
    if not engine.packages:
        return sys.executable
    folder = VENVS / engine.script
    python = folder / "bin" / "python"
    done = folder / "installed"
    wanted = " ".join(engine.packages)
    if not done.exists() or done.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *engine.packages], check=True)
        done.write_text(wanted)
    return str(python)


def bars_file(count: int) -> Path:
    """The oracle's bars as arrays, which every engine can read."""
    path = BARS / f"{count}.npz"
    if not path.exists():
        BARS.mkdir(exist_ok=True)
        table = market(count)
        columns = {name: table[name].to_numpy() for name in table.column_names if name != "time"}
        np.savez(path, ts=table["time"].cast("int64").to_numpy(), **columns)
    return path


def start(engine: Engine) -> subprocess.Popen[str]:
    """The engine's process, which prepares and then waits."""
    script = str(HERE / f"{engine.script}_run.py")
    command = [interpreter(engine), script, str(bars_file(engine.bars)), *engine.args]
    environment = {**os.environ, "PYTHONPATH": str(ROOT) if engine.name == OURS else ""}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def ask(engine: Engine, process: subprocess.Popen[str]) -> dict[str, float]:
    """One run; raises where it is not the oracle's."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("run\n")
    process.stdin.flush()
    answer: dict[str, float] = json.loads(process.stdout.readline())
    trades, profit = EXPECTED[engine.bars]
    if answer["trades"] != trades or abs(answer["profit"] - profit / 1_000_000) > CENT:
        raise SystemExit(f"{engine.name} is not the oracle: {answer}")
    return answer


def measure(rounds: int) -> list[dict[str, object]]:
    """A row for each engine: median time, bars a second, ratio to ours."""
    running = [(engine, start(engine)) for engine in ENGINES]
    times: dict[Engine, list[float]] = {engine: [] for engine in ENGINES}
    for turn in range(rounds + 1):
        for engine, process in running:
            answer = ask(engine, process)
            if turn:  # the first is a warm-up
                times[engine].append(answer["cpu_seconds"])
    for _, process in running:
        process.communicate()
    ours = {engine.bars: times[engine] for engine in ENGINES if engine.name == OURS}
    return [_row(engine, times[engine], ours[engine.bars]) for engine in ENGINES]


def _row(engine: Engine, seconds: list[float], ours: list[float]) -> dict[str, object]:
    median = statistics.median(seconds)
    ratio = statistics.median(t / o for t, o in zip(seconds, ours, strict=True))
    return {
        "engine": engine.name,
        "bars": engine.bars,
        "median_cpu_s": median,
        "bars_per_s": engine.bars / median,
        "ratio": ratio,
        "promised": engine.promised,
    }


def show(rows: list[dict[str, object]]) -> str:
    """The table, and whether the machine is as fast as it must be for the ratios to count."""
    lines = [f"{'engine':<22}{'bars':>11}{'bars/s':>12}{'our ratio':>11}{'promised':>10}"]
    for row in rows:
        promised = f"{row['promised']:,.0f}" if row["promised"] else ""
        lines.append(
            f"{row['engine']:<22}{row['bars']:>11,}{row['bars_per_s']:>12.3g}"
            f"{row['ratio']:>11,.2f}{promised:>10}"
        )
    anchor = next(row for row in rows if row["engine"] == "numba, bare loop")
    share = float(str(anchor["bars_per_s"])) / ANCHOR_QUOTED
    verdict = "the ratios count" if share >= ANCHOR_LEAST else "too busy: the ratios do not count"
    return "\n".join([*lines, f"anchor at {share:.2f} of its quoted speed: {verdict}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.rounds)
    sys.stdout.write(show(rows) + "\n")
    if options.json:
        options.json.write_text(json.dumps({"rivals": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
