"""Where signals are computed follows from rates, and from what the file says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quantdsl
from quantdsl.backtest import placement as model
from quantdsl.backtest import signals
from quantdsl.backtest.placement import Placement, Size, placement, placement_text
from quantdsl.check import check_source, compile_file
from quantdsl.check.placing import pinned
from quantdsl.check.signal_turn import Signals
from quantdsl.devices import measured
from quantdsl.devices.measured import CPU, GPU, Rates
from quantdsl.devices.panels import SimulatedPanel
from quantdsl.lang.source import Source
from tests.backtest.test_panels import ALONG, whole
from tests.std.universe import compiled, table, write

TWENTY = Path(__file__).parents[2] / "bench" / "signals.qdsl"
LARGE = Size(5_000, 2_520, 8)
H200 = Rates("an H200", bandwidth=4_260, f64=33_100, launch=4.6, up=54.6, down=55.2, measured=True)


def placed(size: Size = LARGE, cores: Rates = CPU, gpu: Rates = H200, text: str = "") -> Placement:
    checked = compiled(text) if text else compile_file(TWENTY)
    return placement(checked, Signals(checked.assembly), size, cores, gpu)


def test_much_work_goes_to_a_gpu_and_little_stays() -> None:
    assert placed().on_gpu
    assert not placed(Size(500, 250, 8)).on_gpu


def test_a_rate_that_changes_moves_the_work() -> None:
    """Each figure counts: faster cores, slow copies, a slow GPU."""
    assert not placed(cores=Rates("many cores", bandwidth=40_000, f64=40_000, launch=1)).on_gpu
    slow_copies = Rates("far", bandwidth=4_260, f64=33_100, launch=4.6, up=0.01, down=0.01)
    assert not placed(gpu=slow_copies).on_gpu
    assert not placed(gpu=Rates("old", bandwidth=1, f64=4, launch=5, up=12, down=12)).on_gpu


def test_the_model_is_near_what_was_measured() -> None:
    """On an H200 (docs/signals.md), milliseconds: along time, and across."""
    modelled = [1e3 * one.gpu_s for one in placed().stages]
    for model_ms, measured_ms in zip(modelled, (0.71, 7.9), strict=True):
        assert measured_ms / 2 < model_ms < 2 * measured_ms


def test_times_grow_with_what_there_is_to_do() -> None:
    small, large = placed(Size(1_000, 500, 8)), placed(Size(1_000, 5_000, 8))
    assert large.up_bytes == 10 * small.up_bytes
    assert large.down_bytes == 10 * small.down_bytes
    for one, ten in zip(small.stages, large.stages, strict=True):
        assert ten.cores_s == pytest.approx(10 * one.cores_s)
        assert one.gpu_s < ten.gpu_s < 10.1 * one.gpu_s
    halved = placed(Size(1_000, 500, 16))
    assert halved.cores_s <= small.cores_s


def test_the_file_decides_over_the_model() -> None:
    on_core = ALONG.replace("    let rsi", "    @device(cpu)\n    let rsi")
    on_gpu = ALONG.replace("    let rsi", "    @device(cuda)\n    let rsi")
    either = ALONG.replace("    let rsi", "    @device(auto)\n    let rsi")
    assert not placed(text=on_core).on_gpu
    assert placed(Size(10, 10, 8), text=on_gpu).on_gpu
    assert "@device(cuda) of 'rsi'" in placed(text=on_gpu).why
    assert pinned(compiled(either).strategy) is None


def test_a_kernels_place_is_that_of_who_calls_it() -> None:
    text = """language 1
@device(cuda)
kernel drift(r: window[float, 8]) -> float:
    var sum = 0.0
    parallel for i in 0..<(r.len - 1) reduce(sum: +):
        sum += r[i] - r[i + 1]
    return sum

strategy Calls:
    bars 1d
    universe "ALL"
    let d = {call}
"""
    found = pinned(compiled(text.format(call="drift(close)")).strategy)
    assert found is not None
    assert (found.place, found.name) == ("cuda", "drift")
    free = text.replace("@device(cuda)\n", "").format(call="drift(close)")
    assert pinned(compiled(free).strategy) is None


def test_two_places_are_one_error() -> None:
    text = ALONG.replace("    let rsi", "    @device(cpu)\n    let rsi")
    text = text.replace("    let atr", "    @device(cuda)\n    let atr")
    checked, told = check_source(Source(text, "two.qdsl"))
    assert checked is None
    (error,) = [one for one in told if one.severity == "error"]
    assert error.code == "QD0906"
    assert error.message == "'rsi' is to be computed on cpu, 'atr' on cuda"


def test_a_place_that_is_said_twice_of_one_equation_is_one_error() -> None:
    """The equation was said to be in another place than itself, too."""
    text = ALONG.replace("    let rsi", "    @device(cpu)\n    @device(cuda)\n    let rsi")
    _, told = check_source(Source(text, "two.qdsl"))
    assert [one.code for one in told if one.severity == "error"] == ["QD0219"]


def test_the_plan_tells_of_each_stage_and_transfer() -> None:
    lines = [*placement_text(placed(), LARGE)]
    text = "\n".join(lines)
    assert "assumed: run quantdsl bench device" in lines[0]
    assert "cores (assumed" in lines[0]
    assert "an H200 (assumed" not in lines[0]
    assert sum("on cores" in line and "on a GPU" in line for line in lines[1:-2]) == 2
    assert f"{placed().up_bytes:,} bytes of prices" in text
    assert "--device auto takes a GPU" in text


def test_what_is_measured_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTDSL_CACHE_DIR", str(tmp_path / "cache"))
    assert measured.rates(gpu=True) == GPU
    assert measured.rates(gpu=False) == CPU
    figures = {"f64 rate": 33_100.0, "launch": 4.6, "pinned copy up": None, "cached load": 0.3}
    measured.keep("H200", figures, gpu=True)
    found = measured.rates(gpu=True)
    assert (found.name, found.f64, found.launch, found.up) == ("H200", 33_100.0, 4.6, GPU.up)
    assert found.measured
    assert measured.rates(gpu=False) == CPU


class Auto:
    """`--device auto` on a machine whose GPU is a simulated one, or has none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gpu: bool) -> None:
        self.looked = 0
        self.gpu = gpu
        monkeypatch.setattr(signals, "first_panel", self.first)
        monkeypatch.setattr(model, "OPEN_S", 0.0)
        monkeypatch.setattr(signals, "BARS_WEIGHED", 0)

    def first(self) -> tuple[Any, str]:
        self.looked += 1
        return (SimulatedPanel, "a simulated GPU") if self.gpu else (None, "there is no driver")


@pytest.mark.parametrize("gpu", [False, True], ids=["no GPU", "a GPU"])
def test_auto_follows_it(gpu: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    auto = Auto(monkeypatch, gpu)
    bars = table(whole(5, 60))
    plain = compiled(ALONG)
    slow = Rates("slow cores", bandwidth=1e-3, f64=1e-3, launch=1)
    monkeypatch.setattr(signals, "rates", lambda gpu: H200 if gpu else slow)
    prepared = signals.prepare_signals(plain, data=bars)
    assert auto.looked == 1
    expected = "computed on a simulated GPU" if gpu else "no GPU: there is no driver"
    assert any(expected in note for note in prepared.notes), prepared.notes
    told = signals.prepare_signals(plain, data=bars, device="cpu")
    assert auto.looked == 1
    assert prepared.table().equals(told.table())


def test_auto_looks_for_no_gpu_where_cores_are_the_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    auto = Auto(monkeypatch, gpu=True)
    text = ALONG.replace("    let rsi", "    @device(cpu)\n    let rsi")
    slow = Rates("slow cores", bandwidth=1e-3, f64=1e-3, launch=1)
    monkeypatch.setattr(signals, "rates", lambda gpu: H200 if gpu else slow)
    path = Path(write(tmp_path, "along.qdsl", text.rstrip("\n"), []))
    panel = quantdsl.panel(path, table(whole(5, 60)))
    assert auto.looked == 0
    assert np.from_dlpack(panel["rsi"]).shape == (60, 5)


def test_a_parallel_loop_costs_its_turns() -> None:
    """Each of 256 strands was taken to make 8 turns, however few all of them make together."""
    text = """language 1
kernel some(r: window[float, 512], n: const int) -> float:
    var sum = 0.0
    parallel for i in 0..<n reduce(sum: +):
        for k in 0..<8:
            sum += r[min(i + k, 511)] ^ 2
    return sum

strategy S:
    bars 1d
    universe "U"
    param n = SPAN
    let x = some(close / close[1] - 1, n = n)
"""
    few, many = (
        placed(text=text.replace("SPAN", span)).stages[0].cores_s
        for span in ("8 in 8..16 step 8", "200 in 200..400 step 100")
    )
    assert 3 < many / few < 25
