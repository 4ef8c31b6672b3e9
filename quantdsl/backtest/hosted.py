"""`@host("module:function")`: values that Python computes before a run, once for each instrument.

A strategy file is text that nobody need trust: what it names is imported only where the user has
allowed that very module. The function gets the whole history of its series, one array each, NaN
where one is missing, and its constants by name; it returns one value a bar. A value may depend on
what came before it alone, which is tried out: the function is called again on data that end
earlier, and on data of which the later bars are others, and what it said of the bars that are left
must be the same.
"""

import importlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from quantdsl.backtest.turns import loaded
from quantdsl.check import Checked
from quantdsl.check.hosted import TRAIT, HostCall
from quantdsl.check.signal_turn import ROW_WORDS, Signals
from quantdsl.data.events import Data
from quantdsl.data.hosted import HostColumns
from quantdsl.data.tick_data import RunData
from quantdsl.data.times import show_instant
from quantdsl.errors import ConfigError
from quantdsl.report.result import Float64s, Int64s

CUTS, SAMPLED, SHARE = 3, 3, 4
"""Where a history is cut to try it out, evenly spread; and of how many instruments. Before the
first cut so much of what is left stays as it is, again and again, and the rest is turned round."""
Function = Callable[..., Any]
NUMBERS = "biufO"
"""Kinds of arrays that hold numbers; objects are looked at one by one."""
AS_DECLARED: dict[str, Callable[[float], object]] = {"int": int, "bool": bool}
"""What a constant is to Python; a float, where nothing else is declared."""


def attach(
    checked: Checked,
    data: RunData,
    uses: frozenset[str],
    chosen: Mapping[str, Fraction],
    allowed: Sequence[str],
) -> None:
    """Compute the columns of the host that the strategy has, and put them among the events.

    Raises ConfigError where a module is not allowed or a function does not keep to its rules.
    """
    calls = list(checked.strategy.hosts.values())
    functions = [function_of(call, checked.source.path, allowed) for call in calls]
    columns: list[list[Float64s]] = []
    for call, function in zip(calls, functions, strict=True):
        assert isinstance(data, Data)  # the checker refuses ticks
        turn = loaded(checked, Signals(checked.assembly, of=call), uses, data, chosen)
        state = turn.begin()
        pieces = [turn.rows(state, events).copy() for events in data.chunks()]
        rows = np.concatenate([np.empty((turn.width, 0), np.int64), *pieces], axis=1)
        own = [rows[:, rows[1] == number] for number in range(len(data.instruments))]
        names = [one.name for one in data.instruments]
        told = [_Told(call, function, part, name) for part, name in zip(own, names, strict=True)]
        columns.append([one.values() for one in told])
        for one in told[:: max(len(told) // SAMPLED, 1)]:
            one.hold_causal()
        data.hosted = HostColumns(columns, TRAIT)


def function_of(call: HostCall, path: str, allowed: Sequence[str]) -> Function:
    """The function that a call names; ConfigError where it is not allowed, or not there."""
    module, _, name = call.target.partition(":")
    where = f"{path}:{call.line}: {call.text}"
    if module not in allowed:
        raise ConfigError(
            f"{where} runs {name} of the Python module {module}, which is not allowed\n"
            f"help: a strategy file is only text; if you trust the module, add --host {module}, "
            f"in Python hosts=['{module}']"
        )
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{where}: the module {module} cannot be imported: {error}\n"
            "help: install it, or name its folder in PYTHONPATH"
        ) from None
    except (Exception, SystemExit) as error:  # whatever its own lines do
        raise ConfigError(
            f"{where}: the module {module} cannot be imported: {type(error).__name__}: {error}\n"
            f"help: its own lines fail, as python -c 'import {module}' shows"
        ) from None
    found = getattr(imported, name, None)
    if found is None:
        raise ConfigError(f"{where}: the module {module} has no {name!r}")
    if not callable(found):
        raise ConfigError(f"{where}: {call.target} is no function")
    function: Function = found
    return function


class _Told:
    """What a function says of one instrument; `rows` are i64[word, bar] of its arguments."""

    def __init__(self, call: HostCall, function: Function, rows: Int64s, name: str) -> None:
        self.call, self.function, self.name = call, function, name
        self.time_ns = rows[0]
        words = np.ascontiguousarray(rows[ROW_WORDS:]).view(np.float64)
        count = len(call.series)
        self.series = list(words[:count])
        constants = words[count:, 0].tolist() if rows.shape[1] else []
        declared = zip(call.constants, call.kinds, constants, strict=False)
        self.constants = {key: AS_DECLARED.get(kind, float)(x) for (key, _), kind, x in declared}
        self._known: Float64s | None = None

    def values(self) -> Float64s:
        """One value a bar."""
        if self._known is None:
            self._known = self._asked(len(self.time_ns))
        return self._known

    def hold_causal(self) -> None:
        """ConfigError where a value changes when later data are cut away."""
        whole = self.values()
        for end, kept in _tried(len(whole)):
            part = self._asked(end, kept)[:kept]
            known = whole[:kept]
            changed = (part != known) & ~(np.isnan(part) & np.isnan(known))
            if changed.any():
                self._hold_same()
                at = int(np.flatnonzero(changed)[0])
                where = "the data end at" if end == kept else "other bars follow that of"
                raise ConfigError(
                    f"{self.call.target} looks into the future: of {self.name} at "
                    f"{show_instant(int(self.time_ns[at]))} it says {float(known[at])!r}, and "
                    f"{float(part[at])!r} where {where} "
                    f"{show_instant(int(self.time_ns[kept - 1]))}\n"
                    "help: a value may depend on its own bar and those before it alone"
                )

    def _hold_same(self) -> None:
        """ConfigError where a second run over the very same data says something else."""
        first, second = self.values(), self._asked(len(self.time_ns))
        changed = (first != second) & ~(np.isnan(first) & np.isnan(second))
        if changed.any():
            at = int(np.flatnonzero(changed)[0])
            raise ConfigError(
                f"{self.call.target} is not the same twice: of {self.name} at "
                f"{show_instant(int(self.time_ns[at]))} it says {float(first[at])!r}, and "
                f"{float(second[at])!r} of the same data once more\n"
                "help: make its values of its arguments alone; where it draws numbers, seed them "
                "anew in each call"
            )

    def _asked(self, count: int, kept: int | None = None) -> Float64s:
        """What the function says of the first bars; ConfigError where that is no column.

        Those behind the first `kept` come the other way round.
        """
        if count == 0:
            return np.empty(0)
        target = self.call.target
        given = [one[:count].copy() for one in self.series]  # which it may write to
        for one in given:
            one[kept or count :] = one[kept or count :][::-1].copy()
        try:
            found = _numbers(self.function(*given, **self.constants))
        except (Exception, SystemExit) as error:
            inside = traceback.extract_tb(error.__traceback__)[1:2]  # its own line, if it began
            where = "".join(f"\nhelp: see {one.filename}:{one.lineno}" for one in inside)
            raise ConfigError(
                f"{target} failed on {self.name}: {type(error).__name__}: {error}{where}"
            ) from None
        if found is None:
            raise ConfigError(
                f"{target} returned values that are no numbers for {self.name}\n"
                "help: one number for each bar, NaN where there is none"
            )
        if found.shape != (count,):
            raise ConfigError(
                f"{target} returned {_shape(found)} for {count:,} bars of {self.name}\n"
                "help: one value for each bar, NaN where there is none"
            )
        return found


def _tried(count: int) -> Iterator[tuple[int, int]]:
    """The pieces of so many bars that are tried out: how long, and how many bars stay in place.

    What fills its first values from later ones differs before the first cut alone. That piece is
    not made shorter, for a function may need so many bars, and round otherwise over few.
    """
    ends = [count * number // (CUTS + 1) for number in range(1, CUTS + 1)]
    yield from zip(ends, ends, strict=True)
    kept = ends[0]
    while kept > 1:
        kept = max(kept // SHARE, 1)
        yield ends[0], kept


def _numbers(said: object) -> Float64s | None:
    """A new array of what a function returned, NaN for what is masked; None for texts and so on."""
    found = np.asarray(said)  # of a masked array what lies behind the mask too
    if found.dtype.kind not in NUMBERS:
        return None
    hidden = np.ma.getmaskarray(said) if isinstance(said, np.ma.MaskedArray) else np.False_
    if found.dtype.kind == "O":
        found = found.copy()
        found[hidden] = None
        if not all(one is None or _is_number(one) for one in found.flat):
            return None
    return np.where(hidden, np.nan, found.astype(np.float64))


def _is_number(one: object) -> bool:
    """Whether an object is a number; numpy counts its spans of time among the integers."""
    return isinstance(one, Real | Decimal | np.bool_) and not isinstance(one, np.timedelta64)


def _shape(found: Float64s) -> str:
    return f"{len(found):,} values" if found.ndim == 1 else f"an array of shape {found.shape}"
