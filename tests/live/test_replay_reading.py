"""A session reads a file as its config says, as a backtest does."""

import datetime as dt

import pyarrow as pa
import pyarrow.csv as pc

from quantdsl.live.creation import Wish, create
from quantdsl.live.feed import open_feed
from quantdsl.shipped import shipped
from tests.tables import hourly

READ = """
[data]
tz = "America/New_York"
time = "close"
time_format = "%d/%m/%Y %H:%M"
columns = { time = "when", close = "px" }
"""


def test_columns_and_times_of_the_config_hold_in_a_session(tmp_path):
    """Its zone was left out, in silence: the bars of New York were taken for UTC."""
    first = dt.datetime(2024, 1, 3, 15, tzinfo=dt.UTC)
    moments = [first + dt.timedelta(hours=hour) for hour in range(50)]
    times = [moment.strftime("%d/%m/%Y %H:%M") for moment in moments]
    closes = hourly(50)["close"]
    pc.write_csv(pa.table({"when": times, "px": closes}), tmp_path / "bars.csv")
    config = tmp_path / "paper.toml"
    config.write_text(shipped("configs/paper_replay.toml").read_text() + READ)
    wish = Wish(shipped("strategies/buy_and_hold.qdsl"), {})
    said = {"data.path": tmp_path / "bars.csv", "data.bars": "1h"}
    made = create(tmp_path / "session", [wish], config=config, said=said)
    scan = open_feed(made.feeds[0]).data.feeds[0].scan
    assert scan.count == 50
    assert scan.first_ts // 10**9 == first.timestamp() + 5 * 3_600
