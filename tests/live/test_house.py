"""Commands and the limits of the house: in the core, on machine code and in the interpreter."""

import numpy as np
import pytest

from quantdsl.backtest import settings
from quantdsl.backtest.program import Run
from quantdsl.check import check_source
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.config import Config, LimitsConfig
from quantdsl.errors import ConfigError
from quantdsl.events.layout import BAR, EVENT, RECORD, Command, Feed, KilledBy, Kind
from quantdsl.ir.interp import Interpreter
from quantdsl.lang.source import Source
from quantdsl.live.creation import Wish, create
from quantdsl.shipped import shipped
from tests.backtest import tick_runs
from tests.std.core.core import members

TEXT = """language 1

strategy Buyer:
    "Buys a little with every bar."

    bars 1m

    on bar:
        buy(10 shares, limit = close + 0.50)
"""
USES = frozenset({"USES_COMMAND", "USES_HOUSE"})
MINUTE = 60_000_000_000
WIDE = {
    "order_value": 1e12, "position_value": 1e12, "gross_value": 1e12, "daily_loss": 1e12,
    "drawdown": 1e12, "price_collar": 0.9, "orders_per_second": 256,
}  # fmt: skip
REASONS = members("risk.Reason")


@pytest.fixture(params=["machine", "interpreter"])
def start(request):
    """Starts a run with these limits of the house; the rest are wide."""
    checked, _ = check_source(Source(TEXT, "<input>"))
    module = checked.module(USES)
    target = native()

    def begin(**limits) -> Run:
        machine = request.param == "machine"
        executor = Program(object_code(module, target), module, target) if machine else None
        run = Run(checked, module, executor or Interpreter(module))
        memory, scale = run.memory, 10**6
        memory.set("e.config.cash", 100_000 * scale)
        memory.set("e.config.money_scale", float(scale))
        memory.set("e.config.margin_initial", 1.0)
        memory.set("e.config.day_rule", settings.DAY_UTC)
        memory.set("money_scale", float(scale))
        for name, number in (
            ("tick_num", 1), ("tick_den", 100), ("lot_num", 1), ("lot_den", 1),
            ("money_per_tick_lot", scale // 100), ("price_min", 1), ("price_max", 10**6),
            ("lots_max", 10**6),
        ):  # fmt: skip
            memory.set(f"e.instruments[0].{name}", number)
        memory.set("trade_from", np.iinfo(np.int64).min)
        settings.write_house(memory, LimitsConfig(**(WIDE | limits)), scale)
        run.start()
        return run

    return begin


def bars(first: int, *closes: int) -> np.ndarray:
    events = np.zeros(len(closes), BAR)
    events["ts_event"] = MINUTE * (first + 1 + np.arange(len(closes)))
    events["ts_recv"] = events["ts_event"] - MINUTE
    events["kind"] = Kind.BAR
    for name in ("open", "high", "low", "close"):
        events[name] = closes
    events["volume"] = 1_000
    return events.view(EVENT)


def command(minute: int, side: Command, bits: int = 0) -> np.ndarray:
    event = np.zeros(1, EVENT)
    event["ts_event"] = event["ts_recv"] = MINUTE * minute + 1
    event["kind"], event["side"] = Kind.COMMAND, side
    event["payload"][0, 0] = bits
    return event


def refused(run: Run) -> list[str]:
    records = run.all_records()
    return [REASONS[code] for code in records[records["kind"] == Kind.REJECT]["flags"].tolist()]


def kinds(run: Run, since: int = 0) -> list[int]:
    return run.all_records()[since:]["kind"].tolist()


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"order_value": 999.0}, "house_order"),
        ({"price_collar": 0.001}, "house_collar"),
    ],
)
def test_an_order_beyond_a_limit_of_the_house_is_refused(start, limits, reason):
    run = start(**limits)
    run.feed(bars(0, 10_000, 10_000))
    assert refused(run) == [reason, reason]
    assert Kind.ORDER not in kinds(run)


def test_at_the_limit_it_passes(start):
    run = start(order_value=1_005.0)  # 10 shares at the limit of 100.50
    run.feed(bars(0, 10_000))
    assert kinds(run) == [Kind.ORDER]


def test_positions_count_with_what_works(start):
    run = start(position_value=2_100.0)
    run.feed(bars(0, 10_000, 10_000, 10_000, 10_000))
    assert refused(run)[0] == "house_position"
    assert run.memory.get("e.positions[0].lots") <= 20
    run = start(gross_value=2_100.0)
    run.feed(bars(0, 10_000, 10_000, 10_000, 10_000))
    assert refused(run)[0] == "house_gross"


def test_the_rate_of_orders(start):
    run = start(orders_per_second=1)
    several = bars(0, 10_000, 10_000, 10_000)
    several["ts_event"] = MINUTE + np.arange(3) * 400_000_000
    run.feed(several)
    assert refused(run) == ["house_rate", "house_rate"]


@pytest.mark.parametrize("name", ["daily_loss", "drawdown"])
def test_a_loss_kills_until_a_person_arms(start, name):
    run = start(**{name: 50.0})
    run.feed(bars(0, 10_000, 10_000, 9_000))
    assert run.memory.get("e.watch.killed") == KilledBy.LIMIT
    risk = run.all_records()[np.array(kinds(run)) == Kind.RISK]
    assert REASONS[int(risk["a"][0])] == ("house_loss" if name == "daily_loss" else
                                          "house_drawdown")  # fmt: skip
    sent = kinds(run).count(Kind.ORDER)
    run.feed(bars(3, 9_000, 9_000))
    assert kinds(run).count(Kind.ORDER) == sent
    run.feed(command(5, Command.ARM, KilledBy.PERSON | KilledBy.LIMIT))
    run.feed(bars(5, 9_000))
    assert run.memory.get("e.watch.killed") == 0, "what was lost before is forgiven, more is not"
    assert kinds(run).count(Kind.ORDER) == sent + 1
    run.feed(bars(6, 8_000))
    assert run.memory.get("e.watch.killed") == KilledBy.LIMIT


@pytest.mark.parametrize(("name", "close"), [("daily_loss", 9_200), ("drawdown", 9_500)])
def test_what_is_won_back_is_not_forgiven_once_more(start, name, close):
    """A limit of 50: a loss of 100 halts and is armed after, comes back, and 60 or more follow."""
    run = start(**{name: 50.0})
    run.feed(bars(0, 10_000, 10_000, 9_000))
    run.feed(command(3, Command.ARM, KilledBy.PERSON | KilledBy.LIMIT))
    run.feed(bars(3, 10_000))
    assert run.memory.get("e.watch.killed") == 0
    run.feed(bars(4, close))
    assert run.memory.get("e.watch.killed") == KilledBy.LIMIT


def test_nothing_is_opened_while_the_feed_is_silent():
    """A timer buys until 20 are held, then sells; a silence lasts until the feed is good."""
    text = """language 1

strategy Timed:
    quotes
    every 1s:
        if position < 20:
            buy(10 shares)
        else:
            close_position()
"""
    checked = tick_runs.checked_strategy(text)
    module = checked.module(USES)

    def reasons(*events: np.ndarray) -> tuple[list[str], int]:
        run = tick_runs.prepared(checked, module, Interpreter(module))
        settings.write_house(run.memory, LimitsConfig(**WIDE), 10**6)
        run.feed(np.concatenate(events))
        return refused(run), kinds(run).count(Kind.ORDER)

    def tick(ms: float) -> np.ndarray:
        return tick_runs.quote(ms, 9_999, 10_001)

    def timer(ms: float) -> np.ndarray:
        return tick_runs.event(Kind.TIMER, ms)

    told, good = tick_runs.feed(20, Feed.STALE), tick_runs.feed(40, Feed.GOOD)
    assert reasons(tick(10), timer(1_000)) == ([], 1)
    assert reasons(tick(10), told, tick(30), timer(1_000)) == (["no_reference"], 0)
    assert reasons(tick(10), told, tick(30), good, tick(50), timer(1_000)) == ([], 1)
    bought = (tick(10), timer(1_000), tick(1_010), timer(2_000), tick(2_010))
    later = tick_runs.feed(2_020, Feed.STALE)
    assert reasons(*bought, later, timer(3_000)) == ([], 3), "what closes passes"


def test_commands(start):
    run = start()
    run.feed(bars(0, 10_000))
    assert run.memory.get("e.working") == 1
    run.feed(command(1, Command.CANCEL))
    assert run.memory.get("e.working") == 0
    ended = run.all_records()[-2]
    assert (ended["kind"], REASONS[int(ended["flags"])]) == (Kind.CANCEL, "commanded")
    run.feed(bars(1, 10_000, 10_000))
    assert run.memory.get("e.positions[0].lots") == 10
    run.feed(command(3, Command.REDUCE))
    seen = len(kinds(run))
    run.feed(bars(3, 10_000))
    assert refused(run)[-1] == "halted"
    run.feed(command(4, Command.FLATTEN))
    run.feed(bars(4, 10_000))
    assert run.memory.get("e.positions[0].lots") == 0
    assert Kind.FILL in kinds(run, seen)
    run.feed(command(5, Command.KILL, KilledBy.PERSON))
    run.feed(bars(5, 10_000))
    assert refused(run)[-1] == "killed"
    run.feed(command(6, Command.ARM, KilledBy.SESSION))
    assert run.memory.get("e.watch.killed") == KilledBy.PERSON, "who did not set it cannot clear it"
    run.feed(command(6, Command.ARM, KilledBy.PERSON))
    run.feed(bars(6, 10_000))
    assert kinds(run)[-1] == Kind.ORDER
    told = run.all_records()
    told = told[told["kind"] == Kind.COMMAND]
    assert told.dtype == RECORD
    assert told["side"].tolist() == [3, 2, 4, 1, 5, 5]


def test_a_person_who_has_halted_can_still_close_all(start):
    run = start()
    run.feed(bars(0, 10_000, 10_000))
    run.feed(command(2, Command.KILL, KilledBy.PERSON))
    run.feed(bars(2, 10_000))
    assert run.memory.get("e.positions[0].lots") == 10
    run.feed(command(3, Command.FLATTEN))
    run.feed(bars(3, 10_000, 10_000))
    assert run.memory.get("e.positions[0].lots") == 0
    assert refused(run)[-3:] == ["killed"] * 3, "it is halted as before"
    run.feed(command(5, Command.ARM, KilledBy.PERSON | KilledBy.LIMIT))
    assert run.memory.get("e.watch.killed") == 0
    run.feed(bars(5, 10_000))
    assert kinds(run)[-1] == Kind.ORDER


def test_a_halt_ends_the_orders_that_close_too(start):
    run = start()
    run.feed(bars(0, 10_000, 10_000))
    run.feed(command(2, Command.KILL, KilledBy.PERSON))
    run.feed(command(2, Command.FLATTEN))
    assert run.memory.get("e.working") == 1
    run.feed(command(2, Command.KILL, KilledBy.PERSON))
    assert run.memory.get("e.working") == 0
    run.feed(bars(2, 10_000))
    assert run.memory.get("e.positions[0].lots") == 10
    assert run.memory.get("e.watch.killed") == KilledBy.PERSON


def test_nothing_is_closed_while_the_session_holds_the_engine(start):
    run = start()
    run.feed(bars(0, 10_000, 10_000))
    run.feed(command(2, Command.KILL, KilledBy.SESSION))
    run.feed(command(2, Command.FLATTEN))
    run.feed(bars(2, 10_000))
    assert run.memory.get("e.working") == 0
    assert run.memory.get("e.positions[0].lots") == 10
    assert run.memory.get("e.watch.killed") == KilledBy.SESSION


def test_no_limit_has_a_default(start):
    assert all(value is None for value in vars_of(Config().limits))
    with pytest.raises(ConfigError, match=r"limits\.daily_loss is not set"):
        start(daily_loss=None)


def vars_of(limits: LimitsConfig) -> list[object]:
    return [getattr(limits, name) for name in limits.__struct_fields__]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('actions = "splits.csv"', "a session takes splits and dividends"),
        ('from = "2024-01-03"', "data.from does nothing"),
        ('to = "2024-01-04"', "data.to does nothing"),
    ],
)
def test_a_session_refuses_what_it_would_not_apply(tmp_path, line, said):
    config = tmp_path / "paper.toml"
    told = shipped("configs/paper_synthetic.toml").read_text()
    config.write_text(f'{told}\n[data]\n{line}\n')
    wish = Wish(shipped("strategies/buy_and_hold.qdsl"), {})
    with pytest.raises(ConfigError, match=rf"paper.toml:\d+: .*{said}"):
        create(tmp_path / "session", [wish], config=config, said={})
    assert not (tmp_path / "session").exists()
