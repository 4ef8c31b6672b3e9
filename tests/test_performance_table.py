"""The README shows the figures that bench/table.py kept, and nothing else."""

import json

from bench.table import BEGIN, END, FIGURES, README, table


def test_the_readme_shows_the_figures_of_the_last_bench_run():
    text = README.read_text()
    shown = BEGIN + text.split(BEGIN)[1].split(END)[0] + END
    assert shown == table(json.loads(FIGURES.read_text()))
