"""From merged settings to the words of the engine's config."""

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from quantdsl.backtest.exact_money import cash_units
from quantdsl.backtest.program import Memory
from quantdsl.check.literals import DURATION_NS
from quantdsl.check.settings import Chosen
from quantdsl.config import Config, LimitsConfig, VenueConfig
from quantdsl.data.instrument import EXACT_MAX, Listed
from quantdsl.data.tick_data import RunData
from quantdsl.errors import ConfigError

PATHS = ("conservative", "nearest", "high_first", "low_first")
DAY_SESSION, DAY_UTC, DAY_BAR = range(3)
BPS = Fraction(1, 10_000)
PERCENT = {"%": 100, "bps": 1, "": 10_000}
"""To basis points."""


def decimal(number: float) -> Fraction:
    """A number as it was written: 0.07, not the binary fraction next to it."""
    return Fraction(str(number))


def rate(bps: float) -> float:
    """Basis points as a share, rounded once: 0.3 of them are the float of 0.00003."""
    return float(decimal(bps) * BPS)


def of_strategy(chosen: Sequence[Chosen]) -> dict[str, object]:
    """The strategy's backtest block in the keys of the config."""
    flat: dict[str, object] = {}
    for line in chosen:
        flat.update(_line(line))
    return flat


def _line(line: Chosen) -> dict[str, object]:
    number = line.number if line.number is not None else 0.0
    bps = float(decimal(number) * PERCENT.get(line.unit, 10_000))
    name = line.name
    if name == "cash":
        return {"account.cash": number, "account.currency": line.unit or "USD"}
    if name == "fees":
        by_word = {
            "per_share": "fees.per_share",
            "per_contract": "fees.per_contract",
            "per_order": "fees.per_order",
        }
        if line.word:
            if line.word not in by_word:
                raise ConfigError(
                    f"fees = {line.word}(...) is not known; write a share of the value (2bps), "
                    f"or one of {', '.join(by_word)}"
                )
            return {by_word[line.word]: number}
        return {"fees.taker_bps": bps, "fees.maker_bps": bps}
    if name in ("latency", "latency_entry", "latency_response"):
        us = number * DURATION_NS[line.unit] / 1_000
        ways = ("latency_entry", "latency_response") if name == "latency" else (name,)
        return {f"venue.{way}_us": us for way in ways}
    if name == "signal_delay":
        return {"signals.delay_us": number * DURATION_NS[line.unit] / 1_000}
    if name == "slippage" and line.unit in ("tick", "ticks"):
        return {"slippage.ticks": number}
    simple: dict[str, dict[str, object]] = {
        "min_fee": {"fees.minimum": number},
        "maker_fee": {"fees.maker_bps": bps},
        "slippage": {"slippage.bps": bps},
        "impact": {"slippage.impact_bps": bps},
        "fill": {},
        "delay": {"fills.delay_bars": int(number)},
        "path": {"fills.path": line.word},
        "volume_share": {"fills.volume_share": rate(bps)},
        "leverage": {"account.margin_initial": 1 / number if number else 0.0},
        "maintenance": {"account.margin_maintenance": rate(bps)},
        "borrow": {"account.borrow_bps": bps},
        "unaffordable": {"account.unaffordable": line.word},
        "close_at_end": {"fills.close_at_end": bool(number)},
        "latency_feed": {"venue.latency_feed": number},
        "queue": {"venue.queue": line.word},
        "queue_power": {"venue.queue_power": number},
    }
    return simple[name]


def write(memory: Memory, config: Config, data: RunData, day_rule: int) -> None:
    """Fill the engine's config and instruments."""
    scale = 10**data.money_digits
    cash = cash_units(config.account, data.instruments, data.money_digits)
    memory.set("e.config.cash", cash)
    money = {
        "fee_per_order": config.fees.per_order,
        "fee_min": config.fees.minimum,
    }
    for name, amount in money.items():
        memory.set(f"e.config.{name}", round(decimal(amount) * scale))
    lot = data.instruments[0].lot
    per_unit = decimal(config.fees.per_share) * lot
    per_lot = per_unit + decimal(config.fees.per_contract)
    numbers = {
        "fee_rate": rate(config.fees.taker_bps),
        "maker_rate": rate(config.fees.maker_bps),
        "fee_per_lot": float(per_lot * scale),
        "money_scale": float(scale),
        "slip_ticks": config.slippage.ticks,
        "slip_rate": rate(config.slippage.bps),
        "slip_impact": rate(config.slippage.impact_bps),
        "delay_bars": config.fills.delay_bars,
        "path": PATHS.index(config.fills.path),
        "volume_share": config.fills.volume_share,
        "margin_initial": config.account.margin_initial,
        "margin_maintenance": config.account.margin_maintenance,
        "borrow_rate": rate(config.account.borrow_bps),
        "cut": config.account.unaffordable == "cut",
        "day_rule": day_rule,
        "close_at_end": config.fills.close_at_end,
    }
    for name, number in numbers.items():
        memory.set(f"e.config.{name}", number)
    memory.set("money_scale", float(scale))
    if memory.has("house"):
        write_house(memory, config.limits, scale)
    if memory.has("venues"):
        for index in range(len(data.instruments)):
            _venue(memory, f"e.venues[{index}]", config.venue)
    write_instruments(memory, data)


def write_instruments(memory: Memory, data: Listed) -> None:
    """Fill the engine's instruments."""
    for index, one in enumerate(data.instruments):
        _instrument(memory, f"e.instruments[{index}]", one.tick, one.lot)
        limits = data.limits(index)
        memory.set(f"e.instruments[{index}].money_per_tick_lot", limits.money_per_tick_lot)
        memory.set(f"e.instruments[{index}].inverse", one.inverse)
        memory.set(f"e.instruments[{index}].price_min", limits.price_ticks_min)
        memory.set(f"e.instruments[{index}].price_max", limits.price_ticks_max)
        memory.set(f"e.instruments[{index}].lots_max", limits.position_lots_max)


def write_house(memory: Memory, limits: LimitsConfig, scale: int) -> None:
    """The limits of the house in money units; ConfigError names one that is not set."""
    for name, value in msgspec.structs.asdict(limits).items():
        if value is None:
            raise ConfigError(
                f"limits.{name} is not set: a live session starts with every limit stated\n"
                f"help: write {name} = ... under [limits] of the config; configs/limits.toml "
                "shows all of them"
            )
    for name in ("order_value", "position_value", "gross_value", "daily_loss", "drawdown"):
        units = round(decimal(getattr(limits, name)) * scale)
        memory.set(f"e.house[0].{name}", min(units, EXACT_MAX))
    assert limits.price_collar is not None
    assert limits.orders_per_second is not None
    memory.set("e.house[0].collar", limits.price_collar)
    memory.set("e.house[0].orders_per_second", limits.orders_per_second)


def _venue(memory: Memory, at: str, config: VenueConfig) -> None:
    memory.set(f"{at}.latency_entry", round(config.latency_entry_us * 1_000))
    memory.set(f"{at}.latency_response", round(config.latency_response_us * 1_000))
    memory.set(f"{at}.latency_feed", config.latency_feed)
    power = config.queue_power if config.queue == "proportional" else 0.0
    memory.set(f"{at}.queue_power", power)


def _instrument(memory: Memory, at: str, tick: Fraction, lot: Fraction) -> None:
    memory.set(f"{at}.tick_num", tick.numerator)
    memory.set(f"{at}.tick_den", tick.denominator)
    memory.set(f"{at}.lot_num", lot.numerator)
    memory.set(f"{at}.lot_den", lot.denominator)


def needs(config: Config) -> frozenset[str]:
    """Parts of the core that the settings reach (check.library.USES)."""
    uses = set()
    account = config.account
    if account.borrow_bps or account.margin_initial < 1 or account.margin_maintenance:
        uses.add("USES_SHORT")
    if config.data.actions:
        uses.add("USES_CORPORATE")
    return frozenset(uses)
