"""A session on a venue that speaks Binance's protocol: live, killed, gone on with."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from quantdsl.events.layout import Command, Feed, KilledBy, Kind
from quantdsl.live.tearsheet import session_result
from tests.live.test_session import (
    armed_again,
    child_of,
    count_of,
    ended_when,
    finished,
    journalled,
    outputs_of,
    paper,
)
from tests.venues import binance
from tests.venues.server import Venue
from tests.waiting import until

STRATEGY = """language 1

strategy Maker:
    "Quotes both sides of the book at the touch, in fractions of a coin."

    book depth = 10
    trades

    let flow = ts.ewm_mean(sign(trade.signed_qty), halflife = 10s)

    on book:
        let amount = floor_qty(1% of equity / mid)
        quote(bid = bid, bid_qty = amount, ask = ask, ask_qty = amount)

    plot(flow, "flow")
"""


def config(folder: Path, venue: Venue) -> Path:
    text = (Path(__file__).parents[2] / "configs" / "paper_binance.toml").read_text("utf-8")
    place = f"""feed = "binance"
stream_url = "{venue.stream_url}"
rest_url = "{venue.rest_url}"
ca_file = "{venue.ca_file}"
"""
    path = folder / "venue.toml"
    path.write_text(text.replace('feed = "binance"\n', place), encoding="utf-8")
    return path


def trades_again(folder: Path) -> bool:
    """Whether an order follows the command that let a resumed session go on: a kill may have left
    events whose orders are written first, when it starts again."""
    if not armed_again(folder, "Maker"):
        return False
    kinds = outputs_of(folder, "Maker")["kind"]
    return Kind.ORDER in kinds[np.flatnonzero(kinds == Kind.COMMAND)[-1] :]


def ordered(folder: Path) -> int:
    """How many orders are on disk."""
    return count_of(outputs_of(folder, "Maker"), Kind.ORDER)


@pytest.mark.slow
def test_a_session_on_the_venue_survives_a_kill(tmp_path):
    strategy, folder = tmp_path / "maker.qdsl", tmp_path / "session"
    strategy.write_text(STRATEGY, encoding="utf-8")
    with Venue(binance.made_up(steps=20_000), speed=1.0) as venue:
        process = paper(folder, strategy, "--config", config(tmp_path, venue))
        child = child_of(folder)  # decoders are compiled before it starts, and in it
        until(lambda: process.poll() is not None or ordered(folder) > 10)
        assert process.poll() is None, process.communicate()[0]
        os.kill(child, signal.SIGKILL)
        said = finished(process)
        assert "killed by SIGKILL" in said, said
        first, before = journalled(folder, "Maker")
        said = ended_when(paper(folder), lambda: trades_again(folder))
        assert "goes on after" in said, said
    inputs, outputs = journalled(folder, "Maker")
    assert inputs.tobytes().startswith(first.tobytes())
    assert outputs.tobytes().startswith(before.tobytes())
    assert (before["kind"] == Kind.ORDER).sum() > 10
    # What worked is cancelled, the book counts for nothing until a new snapshot, then it trades.
    resumed = inputs[len(first) :]
    assert (resumed["kind"][0], resumed["side"][0]) == (Kind.COMMAND, Command.KILL)
    assert resumed["payload"][0, 0] == KilledBy.SESSION
    assert (resumed["kind"][1], resumed["side"][1]) == (Kind.FEED, Feed.RESET)
    assert Kind.BOOK_SNAPSHOT in resumed["kind"]
    after = outputs[len(before) :]
    commands = after[after["kind"] == Kind.COMMAND]["side"].tolist()
    assert commands == [Command.KILL, Command.ARM, Command.KILL]
    assert (after["kind"] == Kind.ORDER).sum() > 0
    assert (np.diff(inputs["ts_recv"]) >= 0).all()
    assert session_result(folder, "Maker").records.tobytes().startswith(outputs.tobytes())
