"""Promise, from the shell: --help in 150 ms, check in 300 ms, a cached backtest in 600 ms."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quantdsl.shipped import shipped

SMA_CROSS = str(shipped("strategies/sma_cross.qdsl"))
COMMANDS = {
    "help": (("--help",), 0.150, "Commands:"),
    "check": (("check", SMA_CROSS), 0.300, "on bar"),
    "backtest": (("backtest", SMA_CROSS, "--out"), 0.600, "Sharpe ratio"),
}
ROUNDS = 11


def run(args: tuple[str, ...], environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "quantdsl", *args]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_start(benchmark, tmp_path: Path, name: str):
    """Python's own byte code is there, as after any first start of an installed package."""
    args, limit_s, said = COMMANDS[name]
    if args[-1] == "--out":
        args = (*args, str(tmp_path / "out"))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "bytecode")
    if benchmark.enabled:
        run(args, environment)  # warm: byte code, std, machine code
    rounds = ROUNDS if benchmark.enabled else 1
    assert said in benchmark.pedantic(run, args=(args, environment), rounds=rounds)
    if benchmark.enabled:
        assert benchmark.stats["median"] <= limit_s
