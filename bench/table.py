"""The README's table of measured figures, from the JSON of bench runs.

    pytest bench --benchmark-enable --benchmark-json=bench.json
    python -m bench.rivals --json rivals.json
    python -m bench.rivals.ticks --json ticks.json
    python -m bench.gpu gpu.json
    python -m bench.table bench.json rivals.json ticks.json gpu.json

The figures that the table shows are kept in bench/figures.json, from which a test makes the same
table again. `python -m bench.table gpu.json` takes a GPU's figures anew and keeps the others;
without gpu.json it is the other way round.
"""

import json
import platform
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "bench" / "figures.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- performance: made by bench/table.py -->", "<!-- end of performance -->"
PYTEST, RIVALS = "pytest bench --benchmark-enable", "python -m bench.rivals"
TICKS = "python -m bench.rivals.ticks"
GPU = "python -m bench.gpu gpu.json"
ON_GPU = "On an "
"""How a section on a GPU begins."""

One = dict[str, Any]
"""A bench as pytest-benchmark writes it."""
Row = tuple[str, str, str]
"""Figure, value, command."""


def _milliseconds(one: One) -> str:
    return f"{one['stats']['median'] * 1e3:,.0f} ms"


def _bars_a_second(one: One) -> str:
    bars = int(re.sub(r"\D", "", one["name"]))
    return f"{bars / one['stats']['median'] / 1e6:.0f} million bars/s"


def _lane_steps_a_second(one: One) -> str:
    steps = one["extra_info"]["lane_steps"] / one["stats"]["median"]
    return f"{steps / 1e6:,.0f} million lane-steps/s"


def _peak(one: One) -> str:
    return f"{one['extra_info']['peak_bytes'] / 1e6:,.0f} MB"


def _nanoseconds(one: One) -> str:
    return f"{one['extra_info']['p50_ns']:.3g} ns"


def _of_message(one: One) -> str:
    info = one["extra_info"]
    took, times = info["microseconds_a_message"], info["times_json"]
    return f"{took:.2f} us, {times:.1f} times faster than json"


def _from_socket(one: One) -> str:
    (all_us,) = re.findall(r"p50 ([\d.]+)", one["extra_info"]["all_us"])
    (bare_us,) = re.findall(r"p50 ([\d.]+)", one["extra_info"]["bare_tcp_us"])
    return f"{float(all_us):.0f} us, of it {float(bare_us):.0f} us bare TCP"


def _messages(one: One) -> str:
    info = one["extra_info"]
    return f"{info['messages_a_second']:,.0f} messages/s for a minute"


LANES = {
    f"test_lane_steps[{name}-{kind}]": (f"{title}, one core, {shown}", _lane_steps_a_second)
    for name, title in (
        ("ema_cross-neighbours", "Average cross"),
        ("bracket-neighbours", "Bracket"),
        ("bracket-corners", "Bracket, lanes of far points"),
    )
    for kind, shown in (("scalar", "one lane"), ("avx2", "AVX2"), ("avx512", "AVX-512"))
}
SECTIONS: dict[str, dict[str, tuple[str, Callable[[One], str]]]] = {
    "From file to code": {
        "test_compile_new_strategy[sma_cross]": ("A new strategy, sma_cross", _milliseconds),
        "test_compile_new_strategy[pairs_z]": ("A new strategy, pairs_z", _milliseconds),
        "test_compile_very_first_strategy[sma_cross]": ("The first on a machine", _milliseconds),
        "test_compile_from_cache[sma_cross]": ("A strategy from the cache", _milliseconds),
        "test_parse_1000_lines": ("1,000 lines parsed", _milliseconds),
        "test_start[help]": ("`quantdsl --help`", _milliseconds),
        "test_start[check]": ("`quantdsl check` of sma_cross", _milliseconds),
    },
    "Backtest": {
        "test_start[backtest]": ("`quantdsl backtest` of sma_cross, cached", _milliseconds),
        "test_backtest_oracle[10,000_bars]": ("10,000 bars, 189 trades", _bars_a_second),
        "test_backtest_oracle[1,000,000_bars]": ("1,000,000 bars, 19,290 trades", _bars_a_second),
        "test_cost_of_a_bar_does_not_grow[10,000,000_bars]": ("10,000,000 bars", _bars_a_second),
        "test_peak_memory": ("Peak memory of a million bars with report", _peak),
    },
    "Sweep": {
        "test_sweep_oracle_grid": (
            "10,000 points x 10,000 bars, fees and all metrics",
            _milliseconds,
        ),
        "test_sweep_1000_points[ema_cross]": ("1,000 points x 10,000 bars", _milliseconds),
        "test_sweep_from_the_shell": (
            "`quantdsl sweep` of 1,000 points x 10,000 bars, with its page",
            _milliseconds,
        ),
        **LANES,
    },
    "Latency, p50": {
        "test_signal_eval": ("Equations and handlers", _nanoseconds),
        "test_risk_check": ("Risk gate", _nanoseconds),
        "test_order_submit": ("From the handler's return to the order in the ring", _nanoseconds),
        "test_position_update": ("Position update on a fill", _nanoseconds),
        "test_tick_to_order": ("Tick to order, whole", _nanoseconds),
        "test_ring_hop": ("Ring hop between two cores", _nanoseconds),
    },
    "Live": {
        "test_live_decode[quotes_16]": ("A quote decoded, 16 waiting", _of_message),
        "test_live_decode[quote_alone]": ("A quote decoded, alone", _of_message),
        "test_live_decode[diff_20_levels]": ("A change of 20 levels decoded", _of_message),
        "test_socket_to_order[plain-2,000_a_second]": (
            "Socket to order at 2,000 quotes/s, p50",
            _from_socket,
        ),
        "test_socket_to_order[tls-2,000_a_second]": ("The same with TLS, p50", _from_socket),
        "test_sustained": ("Taken in with nothing lost", _messages),
        "test_recovery[groups_of_64]": ("A journal of 1,000,000 events recovered", _milliseconds),
    },
}
"""Section -> bench -> label, and how its figure is shown."""


def figures(bench: dict[str, Any], rivals: One, ticks: One) -> dict[str, Any]:
    """What the table needs of a run on cores: the machine, and the rows of each section."""
    found = {one["name"]: one for one in bench["benchmarks"]}
    sections: dict[str, list[Row]] = {
        title: [
            (label, shown(found[name]), PYTEST)
            for name, (label, shown) in rows.items()
            if name in found
        ]
        for title, rows in SECTIONS.items()
    }
    sections["Backtest"] += [*beside_rivals(rivals), on_ticks(ticks)]
    return {"machine": machine(), "sections": sections}


def beside_rivals(rivals: One) -> Iterable[Row]:
    """The rows of bench/rivals."""
    for row in rivals["rivals"]:
        if row["engine"] != "quantdsl":
            digits = 0 if row["ratio"] >= 10 else 1 if row["ratio"] >= 1 else 2
            label = f"Our speed over that of {row['engine']}, {row['bars']:,} bars"
            yield label, f"{row['ratio']:,.{digits}f} times", RIVALS


def on_ticks(ticks: One) -> Row:
    """The row of bench/rivals/ticks.py."""
    rate = f"{ticks['events_per_s'] / 1e6:.0f} million events/s"
    label = "A maker on a recorded order book, with latency and queue"
    return label, f"{rate}, {ticks['ratio']:.1f} times {ticks['engine']}", TICKS


def on_gpu(gpu: One) -> Iterable[Row]:
    """The rows of bench/gpu.py."""
    for one in gpu["kernels"]:
        named = one["strategy"] + (" in f32" if one["precision"] == "f32" else "")
        rate, anchor = one["lane_steps_per_s"] / 1e9, one["anchor_lane_steps_per_s"] / 1e9
        value = f"{rate:,.1f} billion lane-steps/s ({anchor:,.0f} by hand)"
        if "whole_lane_steps_per_s" in one:
            value += f"; with every metric {one['whole_lane_steps_per_s'] / 1e9:,.1f}"
        yield f"{named}, {one['lanes']:,} lanes", value, GPU
    for one in gpu["sweeps"]:
        spent = f"{one['seconds'] * 1e3:,.0f} ms"
        kernels = f"{one['kernel_seconds'] * 1e3:,.0f} ms its kernels"
        label = f"Sweep of {one['points']:,} points x {one['bars']:,} bars"
        yield label, f"{spent}, of it {kernels}", GPU
    one = gpu["signals"]
    label = f"20 signals of {one['instruments']:,} instruments x {one['days']:,} bars"
    yield label, f"{one['kernels_ms']:,.1f} ms its kernels", GPU


def machine() -> str:
    """Processor, cores, system and Python in a line."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    processor = names[0] if names else platform.machine()
    cores = f"{len(names)} cores" if names else ""
    system = f"{platform.system()}, Python {platform.python_version()}"
    return ", ".join(part for part in (processor, cores, system) if part)


def table(shown: dict[str, Any]) -> str:
    """The block of the README between its two marks."""
    lines = [
        BEGIN,
        f"Medians on {shown['machine']}:",
        "",
        "| Figure | Measured | Command |",
        "|---|---:|---|",
    ]
    for title, rows in shown["sections"].items():
        lines.append(f"| **{title}** | | |")
        lines += [f"| {label} | {value} | `{command}` |" for label, value, command in rows]
    return "\n".join([*lines, END])


def replaced(text: str, block: str) -> str:
    """The README with the block in place of the old one."""
    before, rest = text.split(BEGIN)
    return before + block + rest.split(END)[1]


def main() -> None:
    given = [json.loads(Path(path).read_text()) for path in sys.argv[1:]]
    gpus = [one for one in given if "kernels" in one]
    cores = [one for one in given if one not in gpus]
    kept = json.loads(FIGURES.read_text())
    shown = figures(*cores) if cores else kept
    shown["sections"] |= {
        title: rows for title, rows in kept["sections"].items() if title.startswith(ON_GPU)
    } | {f"{ON_GPU}{gpu['device']}": [*on_gpu(gpu)] for gpu in gpus}
    FIGURES.write_text(json.dumps(shown, indent=1) + "\n")
    README.write_text(replaced(README.read_text(), table(shown)))


if __name__ == "__main__":
    main()
