"""Whatever the bytes of a file are, the answer is a stream that holds or a QuantDSLError."""

import contextlib
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from quantdsl.errors import QuantDSLError
from tests.data.helpers import check_stream, one

TIMES = st.one_of(
    st.sampled_from(["2024-01-02", "2024-01-02T10:00Z", "", "nan", "1e300", "0", "x", "20240230"]),
    st.integers(-(2**70), 2**70).map(str),
    st.datetimes().map(str),
)
CELLS = st.one_of(
    st.floats().map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["", "1", "1.5", "1e-300", "1e300", "-0", "1,5", '"', "0x10", "1_0", "ten"]),
)
HEADERS = st.sampled_from(
    ["time,open,high,low,close,volume", "time,close", ",A,B", "t,o,h,l,c,v", "date,time,close"]
)


def answer(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bars.csv"
        path.write_bytes(content)
        for bad_rows in ("stop", "drop"):
            with contextlib.suppress(QuantDSLError):
                check_stream(one(str(path), bad_rows=bad_rows))


@given(st.binary(max_size=400))
@example(b"PAR1" + bytes(40) + b"PAR1")
@example(b"ARROW1\0\0" + bytes(40) + b"ARROW1")
@example(b"\x1f\x8b\x08" + bytes(40))
@example(b"\xff\xff\xff\xff" + bytes(40))
def test_any_bytes(content: bytes) -> None:
    answer(content)


@given(HEADERS, st.lists(st.tuples(TIMES, st.lists(CELLS, min_size=1, max_size=6)), max_size=12))
def test_any_cells(header: str, rows: list[tuple[str, list[str]]]) -> None:
    width = header.count(",")
    lines = [",".join([time, *(cells * width)[:width]]) for time, cells in rows]
    answer("\n".join([header, *lines, ""]).encode())


PRICES = st.floats(1e-9, 1e12)


@given(
    st.lists(st.tuples(st.integers(1, 10**6), PRICES, st.floats(0, 1e15)), min_size=2, max_size=30)
)
def test_any_positive_prices(rows: list[tuple[int, float, float]]) -> None:
    ts, lines = 1_700_000_000, ["time,close,volume"]
    for step, price, volume in rows:
        ts += step
        lines.append(f"{ts},{price!r},{volume!r}")
    answer("\n".join([*lines, ""]).encode())
