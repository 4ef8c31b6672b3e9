"""Atheris target: any bytes. The parser never raises, and the formatter keeps what it accepts.

    python tests/fuzz/fuzz_parser.py -max_total_time=600 CORPUS_FOLDER
"""

import sys

import pytest

from quantdsl.lang.format import format_source
from quantdsl.lang.parser import parse
from quantdsl.lang.render import render_all
from quantdsl.lang.source import Source


def check(data: bytes) -> None:
    """What must hold for any file."""
    text = data.decode("utf-8", errors="surrogateescape")
    parsed = parse(Source(text))
    for diagnostic in parsed.diagnostics:
        start, end = diagnostic.span
        assert 0 <= start <= end <= len(text)
    render_all(parsed.diagnostics, parsed.source)
    if parsed.ok:
        formatted = format_source(text)
        assert format_source(formatted) == formatted


@pytest.mark.slow
def test_fuzz_parser(tmp_path):
    """A minute of coverage-guided fuzzing in a process of its own, which atheris takes over."""
    pytest.importorskip("atheris")
    import subprocess

    command = [sys.executable, __file__, "-max_total_time=45", "-max_len=2000", str(tmp_path)]
    subprocess.run(command, check=True, timeout=58)


def main() -> None:
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
