"""Atheris target: any bytes. The parser never raises, and the formatter keeps what it accepts.

For longer: `python tests/fuzz/test_parser_atheris.py -max_total_time=600 CORPUS_FOLDER`.
"""

import importlib
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNS = 400
MEMORY_LIMIT_BYTES = 1 << 30


def check(data: bytes) -> None:
    """What must hold for any file."""
    lang = "quantdsl.lang"
    source = importlib.import_module(f"{lang}.source")
    parse = importlib.import_module(f"{lang}.parser").parse
    render_all = importlib.import_module(f"{lang}.render").render_all
    format_source = importlib.import_module(f"{lang}.format").format_source
    text = data.decode("utf-8", errors="surrogateescape")
    parsed = parse(source.Source(text))
    for diagnostic in parsed.diagnostics:
        start, end = diagnostic.span
        assert 0 <= start <= end <= len(text)
    render_all(parsed.diagnostics, parsed.source)
    if parsed.ok:
        formatted = format_source(text)
        assert format_source(formatted) == formatted


def test_inputs_that_grow_from_the_shipped_strategies(tmp_path):
    """Coverage-guided, in a process of its own, which atheris takes over."""
    pytest.importorskip("atheris")
    for path in sorted((ROOT / "strategies").rglob("*.qdsl")):
        shutil.copy(path, tmp_path)
    options = [
        f"-runs={RUNS}",
        "-seed=1",
        "-max_len=4000",
        "-timeout=120",
        "-rss_limit_mb=0",  # it would count the peak of the pytest worker, which a child inherits
    ]
    command = [sys.executable, __file__, *options, f"-artifact_prefix={tmp_path}/", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(re.findall(r"Done (\d+) runs", done.stderr)[0]) >= RUNS


def main() -> None:
    import atheris  # no wheel of it for some machines

    # Only the front end is watched: to instrument all that is imported takes a minute.
    with atheris.instrument_imports(include=["quantdsl.lang"]):
        for name in ("source", "parser", "render", "format"):
            importlib.import_module(f"quantdsl.lang.{name}")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
