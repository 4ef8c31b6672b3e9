"""`quantdsl verify` names the target that differs, and the bar and equation at which it begins."""

import msgspec
import numpy as np
import pytest

from quantdsl import cli
from quantdsl.backtest import verify as module
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.verify import Target, draw, verify
from quantdsl.devices import cpu
from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.cuda import device as cuda_device
from quantdsl.devices.cuda import driver as cuda_driver
from quantdsl.errors import UnavailableError
from quantdsl.ir import ops
from quantdsl.ir.walk import rebuild_expr, rebuild_stmt
from quantdsl.shipped import shipped
from tests.backtest.test_lane_entry import checked_of

SMA_CROSS = shipped("strategies/sma_cross.qdsl")


class Faulty(CpuRunner):
    """Machine code in which an average is multiplied where it should be divided."""

    def run(self, work, lo, hi, finished) -> None:
        def expr(one):
            one = rebuild_expr(one, expr)
            wrong = isinstance(one, ops.Binary) and one.op == "fdiv"
            return ops.Binary("fmul", one.x, one.y) if wrong else one

        def stmt(one):
            return rebuild_stmt(one, expr, stmt)

        funcs = [
            msgspec.structs.replace(func, body=tuple(map(stmt, func.body)))
            if func.name.startswith("ta.sma")
            else func
            for func in work.module.funcs
        ]
        wrong = msgspec.structs.replace(work.module, funcs=tuple(funcs))
        super().run(work._replace(module=wrong), lo, hi, finished)


def test_every_target_leaves_one_hash(capsys) -> None:
    said: list[str] = []
    heard: list[tuple[int, int]] = []
    report = verify(
        checked_of(SMA_CROSS), said.append, points=8, seed=1, progress=lambda *at: heard.append(at)
    )
    (_, machine), (_, sample) = report
    total = 8 * len(machine) + 3 * len(sample)
    assert heard[0] == (0, total)
    assert heard[-1] == (total, total)
    assert heard == sorted(heard)
    assert [outcome.target for outcome in machine][:3] == ["scalar", "SIMD", "simulated GPU"]
    with_columns = {"SIMD, columns", "simulated GPU, columns"}
    assert with_columns <= {outcome.target for outcome in machine}
    assert [outcome.target for outcome in sample] == ["interpreter", "scalar"]
    assert len({outcome.hash for outcome in machine}) == len({o.hash for o in sample}) == 1
    assert not any(outcome.difference for outcome in (*machine, *sample))


def test_a_wrong_target_is_told_with_the_first_bar_and_equation(monkeypatch) -> None:
    checked = checked_of(SMA_CROSS)
    targets = [
        Target("scalar", CpuRunner(1, cpu.scalar)),
        Target("faulty", Faulty(1, cpu.scalar)),
    ]
    monkeypatch.setattr(module, "targets", lambda *_: targets)
    ((_, (right, wrong)), _) = verify(checked, print, points=3, seed=1)
    assert not right.difference
    assert wrong.hash != right.hash
    first, value = wrong.difference.splitlines()[:2]
    # The opening, then ten bars of 5 minutes until the fast average is defined.
    assert first.startswith("first at 2022-01-03 15:20 UTC, event 11, fast = 10, ")
    assert "line 19, let f   = ta.sma(close, fast): " in value
    assert value.endswith("on faulty")


FIXED = """language 1
strategy Fixed:
    bars 1d
    universe "U"
    session "XNYS"
    param back = 3
    param tail = 20% in 10%..30% step 10%
    let move   = close / close[back] - 1
    let score  = move |> xs.zscore()
    let weight = xs.long_short(score, top = tail, bottom = tail, scale = 1)
    at 15:45 on week_end:
        rebalance(weight)
"""


def test_columns_are_filled_with_a_param_that_never_varies(tmp_path) -> None:
    """They were filled with 0 in its place, and targets were said to differ."""
    path = tmp_path / "fixed.qdsl"
    path.write_text(FIXED, encoding="utf-8")
    (_, machine), _ = verify(checked_of(path), lambda _: None, points=2, seed=1)
    assert any(outcome.target.endswith("columns") for outcome in machine)
    assert len({outcome.hash for outcome in machine}) == 1
    assert min(outcome.orders for outcome in machine) > 0


class FaultyLater(CpuRunner):
    """Columns that are wrong from some event on."""

    def run(self, work, lo, hi, finished) -> None:
        words = work.columns.copy()
        words[4_000:] = 0
        super().run(work._replace(columns=words), lo, hi, finished)


def test_what_columns_hold_is_no_difference(tmp_path, monkeypatch) -> None:
    """An equation that a lane loads was said to differ at the first bar."""
    path = tmp_path / "fixed.qdsl"
    path.write_text(FIXED, encoding="utf-8")
    monkeypatch.setattr(
        module,
        "targets",
        lambda plan, _: [
            Target("scalar", CpuRunner(1, cpu.scalar)),
            Target("faulty, columns", FaultyLater(1, cpu.scalar), plan),
        ],
    )
    ((_, (_, wrong)), _) = verify(checked_of(path), print, points=1, seed=1)
    assert "first at 2022-1" in wrong.difference


MEMBERS = """language 1
strategy Members:
    bars 1d
    universe "U", point_in_time = true
    session "XNYS"
    let move = (close / close[1] - 1) SIGN
    at 15:45 on week_end:
        rebalance(xs.weights(xs.demean(move, by = sector)))
"""


def test_the_interpreter_trades_what_members_and_groups_decide(tmp_path) -> None:
    """Of a window amid the data nobody was told to be a member, so that all of it agreed."""
    hashes = set()
    for number, sign in enumerate(("* 1.0", "* -1.0")):
        path = tmp_path / f"{number}.qdsl"
        path.write_text(MEMBERS.replace("SIGN", sign), encoding="utf-8")
        _, (_, sample) = verify(checked_of(path), lambda _: None, points=1, seed=1)
        hashes |= {outcome.hash for outcome in sample}
    assert len(hashes) == 2


HEAVY = """language 1
kernel part(r: window[float, 16], n: const int) -> float:
    var sum = 0.0
    for i in 0..<min(n, r.len):
        sum += r[i]
    return sum

strategy Heavy:
    bars 1d
    param n = 4 in 2..15 step 1
    param far = 1 in 1..9 step 1
    let moved = part(close / close[1], n)
    on bar:
        if flat and moved > float(n):
            buy(1 share)
        elif long and moved * far < float(n):
            close_position()
"""


def test_heavy_kernels_are_sampled_and_it_is_said(tmp_path, monkeypatch) -> None:
    """It took minutes, of which nobody had been told."""
    path = tmp_path / "heavy.qdsl"
    path.write_text(HEAVY, encoding="utf-8")
    checked = checked_of(path)
    (whole, _), _ = verify(checked, lambda _: None, points=None, seed=1)
    assert whole == "64 points, 501 events"  # the kernel is not heavy as it is
    monkeypatch.setattr(module, "KERNEL_VALUES", 1 << 14)
    (part, machine), _ = verify(checked, lambda _: None, points=None, seed=1)
    assert part.startswith(f"8 points, 128 events (of {whole}, for its kernels are heavy; ")
    assert len({outcome.hash for outcome in machine}) == 1
    assert min(outcome.orders for outcome in machine) > 0
    (again, _), _ = verify(checked, lambda _: None, points=64, seed=1)
    assert again == whole


def test_the_interpreter_asks_kernels_that_look_far_back(tmp_path, monkeypatch) -> None:
    """Its sample of analog_gpu.qdsl ended before the window of 1,024 bars was full."""
    monkeypatch.setattr(module, "SAMPLE_INSTANTS", 10)
    path = tmp_path / "heavy.qdsl"
    path.write_text(HEAVY, encoding="utf-8")
    _, (sample, outcomes) = verify(checked_of(path), lambda _: None, points=None, seed=1)
    assert sample == "a sample: 1 point, 20 events"
    assert len({outcome.hash for outcome in outcomes}) == 1
    assert outcomes[0].orders > 0


def test_without_kernels_all_events_are_run(monkeypatch) -> None:
    """Many events alone are no reason: 4.2 million ended in a ValueError."""
    monkeypatch.setattr(module, "KERNEL_VALUES", 1 << 14)
    (title, _), _ = verify(checked_of(SMA_CROSS), lambda _: None, points=None, seed=1)
    assert title.startswith("64 points, ")
    assert "kernels" not in title


def test_the_seed_decides_the_points() -> None:
    checked = checked_of(SMA_CROSS)
    hashes = [verify(checked, print, points=5, seed=n)[0][1][0].hash for n in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_param_that_is_set_has_its_value_at_every_point(capsys) -> None:
    command = ["verify", str(SMA_CROSS), "--set", "fast=5", "--set", "slow=20"]
    assert cli.run([*command, "--set", "stop_k=2"]) == 0
    assert capsys.readouterr().out.startswith("1 point, ")
    arranged = arrange(checked_of(SMA_CROSS), params={"fast": 5, "slow": 20})
    points = draw(checked_of(SMA_CROSS), arranged, 9, np.random.default_rng(0))
    assert {(point["fast"], point["slow"]) for point in points} == {(5, 20)}
    assert len({point["stop_k"] for point in points}) > 1


def test_a_point_is_drawn_once() -> None:
    """A grid of nine points was said to be 200."""
    arranged = arrange(checked_of(SMA_CROSS), params={"fast": 5, "slow": 20})
    points = draw(checked_of(SMA_CROSS), arranged, 200, np.random.default_rng(0))
    assert sorted(point["stop_k"] for point in points) == [n / 2 for n in range(2, 11)]


def test_a_point_that_a_backtest_refuses_is_not_run(capsys) -> None:
    broken = ["--set", "fast=50", "--set", "slow=20"]
    assert cli.run(["verify", str(SMA_CROSS), *broken]) == 2
    assert "the strategy requires fast < slow; these params break it: fast = 50, slow = 20" in (
        capsys.readouterr().err
    )
    arranged = arrange(checked_of(SMA_CROSS), params={"fast": 45})  # slow is 40 by default
    points = draw(checked_of(SMA_CROSS), arranged, 9, np.random.default_rng(0))
    assert len(points) == 9
    assert min(point["slow"] for point in points) > 45


def test_on_the_command_line(capsys) -> None:
    assert cli.run(["verify", str(SMA_CROSS), "--points", "4"]) == 0
    shown = capsys.readouterr().out
    assert "4 points, " in shown
    assert shown.endswith("every target leaves the same bits\n")


IDLE = """language 1
strategy Idle:
    bars 5m
    session "XNYS"
    on bar:
        if close > WALL:
            buy(1 share)
"""


@pytest.mark.parametrize(("wall", "told"), [("1_000_000.0", 2), ("1.0", 0)])
def test_a_run_that_orders_nothing_is_said_to_prove_no_orders(tmp_path, capsys, wall, told) -> None:
    path = tmp_path / "idle.qdsl"
    path.write_text(IDLE.replace("WALL", wall), encoding="utf-8")
    assert cli.run(["verify", str(path), "--points", "1"]) == 0
    assert capsys.readouterr().out.count("  nothing is ordered here, so equal hashes") == told


def test_a_machine_without_a_gpu_is_told_without_an_option_that_verify_lacks(monkeypatch) -> None:
    def missing():
        raise UnavailableError("no NVIDIA driver on this machine")

    monkeypatch.setattr(cuda_driver, "driver", missing)
    monkeypatch.setattr(cuda_device, "driver", missing)
    cuda_device.open_device.cache_clear()
    said = []
    verify(checked_of(SMA_CROSS), said.append, points=2, seed=0)
    assert said[0] == "no GPU: no NVIDIA driver on this machine"
