"""Ctrl-C at any moment ends a command, also where Python itself drops it."""

import enum
import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from quantdsl import cli
from quantdsl.backtest import sweep_parts
from quantdsl.backtest.sweep_parts import FOLDER, MANIFEST, Parts
from quantdsl.events.codes import Kind
from tests.cli.test_sweep import CHILD, ROOT, STRATEGY
from tests.truth.test_oracle import market
from tests.waiting import WAIT_S

DROPPING = """
import os
class Dropping:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)  # what it raises here is dropped
        time.sleep(0)
"""
LISTENING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from quantdsl.__main__ import main
"""
BEGUN = f"""{LISTENING}
from quantdsl import cli
prepare = cli._prepare
cli._prepare = lambda: (print("begun", flush=True), prepare())
main()
"""
EARLY = f"""{LISTENING}
module = sys.argv.pop(1)
def interrupt(event, given):
    if event == "import" and given[0] == module:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
main()
"""
RANGES = "--range fast=2..20:1 --range slow=30..90:10".split()
MANY = "--range fast=2..99 --range slow=100..202 --bootstrap 1000".split()
LONG = 500_000
"""Bars over which those points take far longer than the latest signal waits."""


def begin(child: str, tmp_path, *ranges: str, bars: int = 10_000) -> subprocess.Popen:
    data = tmp_path / "bars.parquet"
    pq.write_table(market(bars), data)
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            child,
            "sweep",
            STRATEGY,
            "--device",
            "cpu",
            "--data",
            data,
            *ranges,
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_dropped_ctrl_c_ends_a_sweep(tmp_path):
    child = CHILD.replace("class Halting", f"{DROPPING}\nclass Halting")
    child = child.replace("time.sleep(3600)", "Dropping(); time.sleep(3600)")
    child = child.replace("sys.exit(cli.run(sys.argv[1:]))", "cli.main()")
    ran = begin(child, tmp_path, *RANGES)
    _, said = ran.communicate(timeout=WAIT_S)
    assert ran.returncode == 130, said
    assert "Exception ignored" not in said
    assert "are done and written; the same command with --resume goes on" in said


def test_a_ctrl_c_in_an_enum_comes_later(monkeypatch):
    """NumPy asks an enum for attributes, and drops what is raised meanwhile."""
    frames, told = [], []
    sys.setprofile(lambda frame, *_: frames.append(frame))
    Kind(Kind.BAR.value)
    sys.setprofile(None)
    inside = next(frame for frame in frames if frame.f_code.co_filename == enum.__file__)
    monkeypatch.setattr(cli, "_tell_later", lambda: told.append("later"))
    cli._interrupt(signal.SIGINT, inside)
    assert told == ["later"]
    with pytest.raises(KeyboardInterrupt):
        cli._interrupt(signal.SIGINT, sys._getframe())


@pytest.mark.parametrize("module", ["quantdsl.cli", "click"])
def test_ctrl_c_while_modules_are_imported(module, tmp_path):
    command = [sys.executable, "-c", EARLY, module, "sweep", STRATEGY]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, env=environment, text=True, cwd=tmp_path)
    assert ran.returncode == 130, ran.stderr
    assert ran.stderr == "interrupted\n"


@pytest.mark.parametrize("after_s", [0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6])
def test_ctrl_c_at_any_moment_ends_a_sweep(after_s, tmp_path):
    ran = begin(BEGUN, tmp_path, *MANY, bars=LONG)
    assert ran.stdout is not None
    assert ran.stdout.readline() == "begun\n"
    time.sleep(after_s)
    ran.send_signal(signal.SIGINT)
    _, said = ran.communicate(timeout=WAIT_S)
    assert ran.returncode == 130, said
    assert "interrupted" in said
    assert not any(words in said for words in ("Traceback", "Exception ignored", "QD9001"))


def test_a_kill_before_the_parts_are_gone_leaves_none(tmp_path, monkeypatch):
    """The results are written by then, and the sweep is complete: no run is left to remove them."""
    data, out = tmp_path / "bars.parquet", tmp_path / "out"
    pq.write_table(market(3_000), data)
    walk = ("--walk-forward", "train=1d test=1d")
    swept = ["sweep", str(STRATEGY), "--device", "cpu", "--data", str(data), *walk]
    swept += ["--points", "random:3", "--out", str(out)]
    monkeypatch.setattr(Parts, "_remove", lambda _: None)  # as if it were killed there
    monkeypatch.setattr(sweep_parts, "FLUSH_S", 0.0)
    assert cli.run(swept) == 0
    assert len([*(out / FOLDER).glob("*.npy")]) == 1
    assert (out / FOLDER / "window-1" / MANIFEST).exists()
    monkeypatch.undo()
    (out / FOLDER / "window-9").mkdir()  # of which a kill left no more
    assert cli.run([*swept, "--resume"]) == 0
    assert not (out / FOLDER).exists()
