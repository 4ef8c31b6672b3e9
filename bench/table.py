"""The README's table of measured figures, from the JSON of bench runs.

    pytest bench --benchmark-enable --benchmark-json=bench.json
    python -m bench.rivals --json rivals.json
    python -m bench.gpu gpu.json
    python -m bench.table bench.json rivals.json gpu.json

The figures that the table shows are kept in bench/figures.json, from which a test makes the same
table again.
"""

import json
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "bench" / "figures.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- performance: made by bench/table.py -->", "<!-- end of performance -->"
PYTEST, RIVALS = "pytest bench --benchmark-enable", "python -m bench.rivals"
GPU = "python -m bench.gpu gpu.json"

MILLISECONDS = {
    "test_compile_new_strategy[sma_cross]": "A new strategy compiled, sma_cross",
    "test_compile_new_strategy[pairs_z]": "A new strategy compiled, pairs_z",
    "test_compile_very_first_strategy[sma_cross]": "The first strategy ever on a machine",
    "test_compile_from_cache[sma_cross]": "A strategy from the cache, sma_cross",
    "test_start[help]": "`quantdsl --help`",
    "test_start[check]": "`quantdsl check` of sma_cross",
    "test_start[backtest]": "`quantdsl backtest` of sma_cross, cached",
    "test_parse_1000_lines": "1,000 lines parsed",
    "test_sweep_oracle_grid": "Sweep of 10,000 points x 10,000 bars, fees and all metrics",
    "test_sweep_1000_points[ema_cross]": "Sweep of 1,000 points x 10,000 bars",
    "test_sweep_from_the_shell": "`quantdsl sweep` of 1,000 points x 10,000 bars, with its page",
}
LANE_STEPS = {
    f"test_lane_steps[{name}-{kind}]": f"{title}, one core, {shown}"
    for name, title in (("ema_cross", "Average cross"), ("bracket", "Bracket"))
    for kind, shown in (("scalar", "one lane"), ("avx2", "AVX2"), ("avx512", "AVX-512"))
}
BARS_PER_SECOND = {
    "test_backtest_oracle[10,000_bars]": "Backtest of 10,000 bars, 189 trades",
    "test_backtest_oracle[1,000,000_bars]": "Backtest of 1,000,000 bars, 19,290 trades",
    "test_cost_of_a_bar_does_not_grow[10,000,000_bars]": "Backtest of 10,000,000 bars",
}


def figures(
    bench: dict[str, Any], rivals: dict[str, Any], gpu: dict[str, Any]
) -> dict[str, Any]:
    """What the table needs of a run: rows of (figure, value, command), and the machine."""
    found = {one["name"]: one for one in bench["benchmarks"]}
    rows = [
        (label, f"{found[name]['stats']['median'] * 1e3:,.0f} ms", PYTEST)
        for name, label in MILLISECONDS.items()
        if name in found
    ]
    for name, label in BARS_PER_SECOND.items():
        if name in found:
            bars = int(re.sub(r"\D", "", name))
            millions = bars / found[name]["stats"]["median"] / 1e6
            rows.append((label, f"{millions:.0f} million bars/s", PYTEST))
    for name, label in LANE_STEPS.items():
        if name in found:
            one = found[name]
            millions = one["extra_info"]["lane_steps"] / one["stats"]["median"] / 1e6
            rows.append((label, f"{millions:,.0f} million lane-steps/s", PYTEST))
    if memory := found.get("test_peak_memory"):
        peak = memory["extra_info"]["peak_bytes"] / 1e6
        rows.append(("Peak memory of a million bars with report", f"{peak:,.0f} MB", PYTEST))
    for row in rivals["rivals"]:
        if row["engine"] != "quantdsl":
            label = f"Our speed over that of {row['engine']}, {row['bars']:,} bars"
            digits = 0 if row["ratio"] >= 10 else 1 if row["ratio"] >= 1 else 2
            rows.append((label, f"{row['ratio']:,.{digits}f} times", RIVALS))
    return {"machine": machine(), "rows": [*rows, *on_gpu(gpu)]}


def on_gpu(gpu: dict[str, Any]) -> Iterable[tuple[str, str, str]]:
    """The rows of bench/gpu.py."""
    for one in gpu["kernels"]:
        named = one["strategy"] + (" in f32" if one["precision"] == "f32" else "")
        label = f"{named}, {one['lanes']:,} lanes on an {gpu['device']}"
        rate, anchor = one["lane_steps_per_s"] / 1e9, one["anchor_lane_steps_per_s"] / 1e9
        yield label, f"{rate:,.1f} billion lane-steps/s ({anchor:,.0f} by hand)", GPU
    for one in gpu["sweeps"]:
        label = f"Sweep of {one['points']:,} points x {one['bars']:,} bars on an {gpu['device']}"
        spent = f"{one['seconds'] * 1e3:,.0f} ms"
        yield label, f"{spent}, of it {one['kernel_seconds'] * 1e3:,.0f} ms its kernels", GPU
    one = gpu["signals"]
    label = f"20 signals of {one['instruments']:,} instruments x {one['days']:,} bars"
    yield f"{label} on an {gpu['device']}", f"{one['kernels_ms']:,.1f} ms its kernels", GPU


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
    rows: Iterable[list[str]] = shown["rows"]
    lines = [
        BEGIN,
        f"Medians on {shown['machine']}:",
        "",
        "| Figure | Measured | Command |",
        "|---|---:|---|",
        *(f"| {label} | {value} | `{command}` |" for label, value, command in rows),
        END,
    ]
    return "\n".join(lines)


def replaced(text: str, block: str) -> str:
    """The README with the block in place of the old one."""
    before, rest = text.split(BEGIN)
    return before + block + rest.split(END)[1]


def main() -> None:
    bench, rivals, gpu = (json.loads(Path(path).read_text()) for path in sys.argv[1:4])
    shown = figures(bench, rivals, gpu)
    FIGURES.write_text(json.dumps(shown, indent=1) + "\n")
    README.write_text(replaced(README.read_text(), table(shown)))


if __name__ == "__main__":
    main()
