"""What was ever written is read for good, or refused by its number: the bytes stand here."""

import zlib
from pathlib import Path

import pytest

from quantdsl.errors import JournalError
from quantdsl.events.layout import Kind
from quantdsl.journal.format import FORMAT_VERSION, HEADER, BlockKind
from quantdsl.journal.reader import CLOSED, OPEN, segments
from tests.journal.helpers import contents, written
from tests.live.programs import checked

GOLDEN = Path(__file__).with_name("golden")
NAME = f"00000001{OPEN}"
EVENT_KINDS = (
    "BAR QUOTE TRADE BOOK_DELTA BOOK_SNAPSHOT ORDER ACK FILL REJECT TIMER SESSION FEED SIGNAL "
    "CORPORATE CANCEL ROUND_TRIP ROUND_TRIP_MORE DAY RISK LOG BRANCH COMMAND"
)
REASONS = """
none zero_size not_a_number out_of_range no_price no_position too_many_orders halted max_order
max_position max_notional max_weight max_gross max_net max_entries max_order_rate price_band
max_data_age cooldown max_daily_loss max_drawdown max_leg_gap unaffordable atomic post_only
unfilled expired oco cancelled replaced position_closed entry_cancelled flattened liquidated
run_end after_flat_by value_out_of_range no_reference max_cancel_rate max_executions duplicate
own_check killed self_trade no_book commanded house_order house_position house_gross house_loss
house_drawdown house_collar house_rate inverse_contract negative_size zero_display
"""
"""Kinds and reasons, whose codes journals hold: new ones come at the end, none is reused."""


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text(encoding="ascii"))


@pytest.mark.parametrize("name", [f"format1{OPEN}", f"format1{CLOSED}"])
def test_format_1_is_read(tmp_path, name):
    (tmp_path / name.replace("format1", "00000001")).write_bytes(golden(name))
    inputs, outputs, notes = contents(tmp_path)
    assert inputs["ts_event"].tolist() == list(range(8))
    assert outputs["ts_event"].tolist() == list(range(1000, 1004))
    assert notes == [f"note {k}".encode() for k in range(4)]
    (segment,) = segments(tmp_path)
    assert segment.ended
    assert zlib.crc32(inputs.tobytes()) == 0x671AFE44


def test_the_same_bytes_are_written(tmp_path):
    written(tmp_path, 4, end=True)
    assert (tmp_path / NAME).read_bytes() == golden(f"format1{OPEN}")


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, 1 << 31])
@pytest.mark.parametrize("longer", [0, 40])
def test_another_format_is_refused_by_its_number(tmp_path, version, longer):
    """Whatever its header holds behind the preamble, and however long it is."""
    data = golden(f"format1{OPEN}")
    size = HEADER.size + longer
    head = data[:8] + version.to_bytes(4, "little") + size.to_bytes(4, "little")
    body = head + data[16 : HEADER.size - 4] + bytes(longer)
    header = body + zlib.crc32(body).to_bytes(4, "little")
    (tmp_path / NAME).write_bytes(header + data[HEADER.size :])
    with pytest.raises(JournalError, match=f"has format {version}, and this program reads 1\n"):
        contents(tmp_path)


def test_codes_are_only_added():
    assert [kind.name for kind in BlockKind] == "INPUT OUTPUT NOTE END".split()
    assert [kind.value for kind in BlockKind] == [1, 2, 3, 4]
    kinds = EVENT_KINDS.split()
    assert [kind.name for kind in Kind][: len(kinds)] == kinds
    assert [kind.value for kind in Kind][: len(kinds)] == list(range(1, len(kinds) + 1))
    reasons = list(checked("sma_cross").library.reasons().values())
    wanted = [name.replace("_", " ") for name in REASONS.split()]
    assert reasons[: len(wanted)] == wanted
