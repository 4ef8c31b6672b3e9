"""The documents show the figures that benches kept, and nothing else."""

import json
import re
from pathlib import Path

from bench import crossover
from bench.table import BEGIN, END, FIGURES, README, table

CROSSOVER = Path(crossover.__file__).with_suffix(".json")
DEVICES = README.parent / "quantdsl" / "docs" / "devices.md"


def test_the_readme_shows_the_figures_of_the_last_bench_run():
    text = README.read_text()
    shown = BEGIN + text.split(BEGIN)[1].split(END)[0] + END
    assert shown == table(json.loads(FIGURES.read_text()))


def test_the_page_of_devices_shows_the_crossover_that_was_measured_last():
    found = json.loads(CROSSOVER.read_text())
    devices = ["cuda:0 NVIDIA H200", "16 cores", "2 cores"]
    rows = re.findall(r"^\| ([\d,]+ x [\d,]+) \| (.+) \|$", DEVICES.read_text(), re.MULTILINE)
    assert rows
    for size, shown in rows:
        times = [crossover.shown(found[name][size.replace(",", "")]) for name in devices]
        assert shown == " | ".join(times), size
