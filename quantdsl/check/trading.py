"""Order functions: what a handler writes becomes an intent of std/orders.qdsl."""

from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl.check import arith, consistency, elsewhere, percent
from quantdsl.check.arith import an
from quantdsl.check.bindings import Binding
from quantdsl.check.context import Context
from quantdsl.check.legs import in_handler, stands_alone
from quantdsl.check.market import ENGINE, BarsBinding, Traded, among_several, one_of
from quantdsl.check.types import BOOL, INT, TIME, VOID, money, price, qty
from quantdsl.check.values import Unit, Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.spelling import nearest

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

NOTHING = ops.i64(0)
PRICES = frozenset({"limit", "stop", "touch", "take_profit", "stop_loss"})
FLAGS = frozenset({"post_only", "reduce_only"})
TIFS = ("gtc", "day", "ioc", "fok")
AUCTIONS = {
    "opg": "open",
    "moo": "open",
    "loo": "open",
    "cls": "close",
    "moc": "close",
    "loc": "close",
}
LATER_ARGS = frozenset({"hidden", "peg"})
NAMED = (
    PRICES | FLAGS | {"display", "qty", "value", "size_at", "trail", "tif", "oco", "tag", "after"}
)


FEATURES = {
    "limit": frozenset({"USES_LIMIT"}),
    "take_profit": frozenset({"USES_EXITS", "USES_LIMIT"}),
    "stop_loss": frozenset({"USES_EXITS"}),
    "trail": frozenset({"USES_EXITS", "USES_TRAIL"}),
    "trail_fraction": frozenset({"USES_EXITS", "USES_TRAIL"}),
    "tif": frozenset({"USES_TIF"}),
    "expire_ts": frozenset({"USES_TIF"}),
    "when": frozenset({"USES_TIF"}),
    "post_only": frozenset({"USES_TIF"}),
    "stop": frozenset({"USES_TRIGGER"}),
    "touch": frozenset({"USES_TRIGGER"}),
    "value": frozenset({"USES_VALUE"}),
    "fraction": frozenset({"USES_VALUE", "USES_LATE"}),
    "after": frozenset({"USES_LINK"}),
    "oco": frozenset({"USES_LINK"}),
    "atomic": frozenset({"USES_LINK"}),
}
"""What a field of an intent needs of the core (library.USES)."""


class OrderDoc(Struct, frozen=True):
    """A row of the table of order functions."""

    signature: str
    text: str
    example: str
    buys: bool | None  # which way it trades; None where that depends on the amount


ORDERS: dict[str, OrderDoc] = {
    "buy": OrderDoc(
        "buy([instrument,] qty, limit=, stop=, ...)",
        "Buy: open or add to a long.",
        "buy(100 shares)",
        True,
    ),
    "sell": OrderDoc(
        "sell([instrument,] qty, ...)",
        "Sell out of a long; never below flat.",
        "sell(50 shares)",
        False,
    ),
    "short": OrderDoc(
        "short([instrument,] qty, ...)",
        "Sell short: open or add to a short; `short` alone asks whether one is held.",
        "short(100 shares)",
        False,
    ),
    "cover": OrderDoc(
        "cover([instrument,] qty, ...)",
        "Buy back a short; never above flat.",
        "cover(100 shares)",
        True,
    ),
    "target": OrderDoc(
        "target([instrument,] qty | value=)",
        "Trade the difference to the wanted position.",
        "target(200 shares)",
        None,
    ),
}


def rounds_up(name: str, buys: bool) -> bool:
    """Whether a float goes up to the passive side of a price of an order that buys, or sells.

    Buys rest below and sells above; the exits of a long are sells. A stop rounds the way that
    triggers it later for a buy and earlier for a sell: sell-stop down, buy-stop up.
    """
    return buys if name in ("stop", "take_profit") else not buys


def ticks_of(
    cx: Context, value: Value, traded: Traded, rounding: str, taker: str
) -> ops.Expr | None:
    """Ticks of a price of an instrument, or of a number, rounded so; None after an error.

    `taker` is what takes it, for the message.
    """
    if value.type.kind == "price":
        if value.type.of in ("", traded.name):
            return value.ir
        cx.error(
            "QD0302",
            f"this is a price of {value.type.of}, {taker} is for {traded.name}",
            value.span,
            help=f"give a price of {traded.name}, or a float: float({value.type.of}.close)",
        )
        return None
    if value.bad or arith.as_float(cx, value).bad:
        return None
    unit = cx.units.of(cx, Value(price(traded.name), NOTHING, value.span))
    return arith.from_float(cx, value, unit, rounding)


class OrderFunction(Binding):
    """buy, sell, short, cover, target."""

    what = "an order function"
    builtin = "function"

    def __init__(self, strategy: "Strategy", verb: str) -> None:
        self.strategy = strategy
        self.verb = verb
        self.doc = ORDERS[verb]

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """`short` alone asks whether the position is below zero, as `long` and `flat` ask."""
        if self.verb != "short" or len(self.strategy.instruments) > 1:
            return super().read(cx, node)
        index = self.strategy.instruments[0].ir
        lots = ops.Call(self.strategy.core("engine.position"), (ENGINE, index))
        return Value(BOOL, ops.Binary("ilt", lots, NOTHING), node.span)

    def call(self, cx: Context, node: ast.Call) -> Value:
        """Emit the intent."""
        if not in_handler(self.strategy, cx, node):
            return error_value(node.span)
        return _Intent(self, cx, node).emit()


class _Intent:
    """One order being built: a local Intent whose fields are set one by one."""

    def __init__(self, function: OrderFunction, cx: Context, node: ast.Call) -> None:
        self.strategy = function.strategy
        self.function = function
        self.cx = cx
        self.node = node
        self.buys = function.doc.buys
        self.fields: list[tuple[str, ops.Expr]] = []
        self.shown: ops.Expr | None = None  # of an iceberg
        self.written = consistency.Written(function.verb, node)
        self.bad = False

    def emit(self) -> Value:
        cx, strategy = self.cx, self.strategy
        args = list(self.node.args)
        traded = self._instrument(args)
        if traded is None:
            return error_value(self.node.span)
        unit = cx.units.of(cx, Value(price(traded.name), NOTHING, self.node.span))
        with cx.meaning(among_several(strategy, traded)):
            self._amount(args, traded)
            for arg in args:
                self._named(arg, traded, unit)
        if self.bad:
            return error_value(self.node.span)
        strategy.orders.append(self.written)
        consistency.check(cx, self.written, self._last_close(traded))
        name = cx.fresh("o")
        line = cx.line(self.node)
        verb = strategy.enum_value("orders.Verb", self.function.verb)
        make = ops.Call(
            strategy.core("orders.intent"), (verb, traded.ir, ops.i64(line))
        )
        cx.emit(ops.Let(name, ops.StructType("orders.Intent"), make, line))
        if strategy.atomic_group is not None:
            self.fields.append(("atomic", strategy.atomic_group))
        for field, value in self.fields:
            strategy.uses |= FEATURES.get(field, frozenset())
            cx.emit(ops.Assign(ops.Field(ops.Var(name), field), value, line))
        noted: tuple[ops.Expr, ...] = (ENGINE, ops.Var(name))
        place = "orders.place"
        if self.shown is not None:
            noted, place = (*noted, self.shown), "orders.place_shown"
        cx.emit(ops.Do(ops.Call(strategy.core(place), noted), line))
        return Value(VOID, NOTHING, self.node.span)

    def _last_close(self, traded: Traded) -> Value | None:
        """What a market order is compared with, if anything reads the bars at all."""
        if (traded.index, 0) not in self.strategy.bars:
            return None
        return BarsBinding(self.strategy, traded, 0).bars((0, 0)).names["close"]

    def _instrument(self, args: list[ast.Arg]) -> Traded | None:
        """The instrument: the first argument where there are several."""
        if args and args[0].name is None and isinstance(args[0].value, ast.Name):
            found = self.cx.scope.find(args[0].value.id)
            if isinstance(found, BarsBinding):
                args.pop(0)
                return found.instrument
        if not one_of(self.cx, self.node.span):
            return None
        if len(self.strategy.instruments) > 1:
            names = ", ".join(t.name for t in self.strategy.instruments)
            self.cx.error(
                "QD0802",
                "which instrument? There are several here",
                self.node.span,
                help=f"give it first: one of {names}",
            )
            return None
        return self.strategy.instruments[0]

    def _amount(self, args: list[ast.Arg], traded: Traded) -> None:
        """The positional quantity, or `qty =`, or `value =`."""
        given = [arg for arg in args if arg.name in (None, "qty", "value") and not _is_bracket(arg)]
        if len(given) != 1:
            self._fail(
                "QD0802",
                f"{self.function.verb} needs one amount: a quantity or value =",
                self.node.span,
                self._such(given),
            )
            for arg in given:
                args.remove(arg)
            return
        args.remove(given[0])
        self.written.args[given[0].name or "qty"] = given[0]
        if given[0].name == "value" and self._sized_at_fill(args):
            self._fraction(given[0])
            return
        value = self.cx.expr(given[0].value)
        if value.bad:
            self.bad = True
            return
        if given[0].name == "value":
            amount = arith.coerce(self.cx, arith.plain(self.cx, value), money())
            self.bad |= amount.bad
            self._set_enum("size_by", "orders.SizeBy", "value")
            self.fields.append(("value", amount.ir))
            return
        if value.type.kind != "qty" or value.type.of not in ("", traded.name):
            self._no_quantity(given[0], value, traded)
            return
        self.fields.append(("lots", value.ir))

    def _such(self, given: list[ast.Arg]) -> str:
        """What an order without one amount, or with two, may have been meant to be."""
        if any(isinstance(arg.value, ast.Str) for arg in given):
            return 'an instrument is named by a line \'instrument "XNYS:KO" as ko\': buy(ko, ...)'
        if not given and self.function.verb in ("sell", "cover"):
            return "close_position() leaves all of it; a part is such as 100 shares"
        return "such as 100 shares, or value = 10% of equity"

    def _no_quantity(self, given: ast.Arg, value: Value, traded: Traded) -> None:
        """A number without a unit could be shares, lots or money; lots could be of another."""
        text = self.cx.module.source.text[slice(*given.value.span)]
        if value.type.kind == "qty":
            self._fail(
                "QD0302",
                f"this is a quantity of {value.type.of}, the order is for {traded.name}",
                given.value.span,
                f"write floor_qty(float({text})) for as many of {traded.name}",
            )
            return
        written = percent.size(self.cx, self.function.verb, given.value, value)
        help, place = f"write {written}", given.span
        if written is None:
            place = given.value.span
            counted = value.type == INT and value.const is not None
            written = f"{text} shares" if counted else f"floor_qty({text})"
            help = f"write {written}, or size by money: value = 10% of equity"
        self.cx.error(
            "QD0803",
            f"an order's size is a quantity, this is {an(value.type)}",
            given.value.span,
            help=help,
            edit=(place, written),
        )
        self.bad = True

    def _sized_at_fill(self, args: list[ast.Arg]) -> bool:
        """Whether `size_at = fill` is given; takes it out of the arguments."""
        for arg in args:
            if arg.name == "size_at":
                args.remove(arg)
                if isinstance(arg.value, ast.Name) and arg.value.id == "fill":
                    return True
                self._fail(
                    "QD0802",
                    "size_at is fill",
                    arg.span,
                    "leave it out to size the order where it is placed",
                )
        return False

    def _fraction(self, given: ast.Arg) -> None:
        """`p of equity`, where equity is that of the moment of the fill."""
        node = given.value
        whole = (
            isinstance(node, ast.Binary)
            and node.op == "of"
            and isinstance(node.right, ast.Name)
            and node.right.id == "equity"
        )
        if not whole:
            self._fail(
                "QD0803",
                "with size_at = fill the value is a share of equity",
                given.span,
                "such as value = 20% of equity",
            )
            return
        assert isinstance(node, ast.Binary)
        share = arith.as_float(self.cx, arith.plain(self.cx, self.cx.expr(node.left)))
        self.bad |= share.bad
        self._set_enum("size_by", "orders.SizeBy", "fraction")
        self.fields.append(("fraction", share.ir))

    def _named(self, arg: ast.Arg, traded: Traded, unit: Unit) -> None:
        name = arg.name
        if name is not None:
            self.written.args[name] = arg
        if name in PRICES:
            self._price(name, arg, traded)
        elif name in FLAGS:
            value = arith.coerce(self.cx, self.cx.expr(arg.value), BOOL)
            self.bad |= value.bad
            self.fields.append((name, value.ir))
        elif name == "trail":
            self._trail(arg, unit)
        elif name == "display":
            self._display(arg, traded)
        elif name == "tif":
            self._tif(arg)
        elif name in ("oco", "tag", "after") and isinstance(arg.value, ast.Str):
            asked = arg.value.span if name == "after" else None
            self.fields.append((name, ops.i64(self.strategy.tag(arg.value.value, asked))))
        elif _is_bracket(arg):
            assert isinstance(arg.value, ast.Call)
            for inner in arg.value.args:
                self._named(inner, traded, unit)
        elif name in LATER_ARGS:
            self._fail("QD0216", f"'{name} =' is not available yet", arg.span, "")
        elif name in ("oco", "tag", "after"):
            self._fail("QD0802", f"{name} is a text", arg.span, f'such as {name} = "entry"')
        else:
            self._unknown(arg)

    def _unknown(self, arg: ast.Arg) -> None:
        """An argument that no order has."""
        name = arg.name or ""
        near = elsewhere.ARGUMENTS.get(name) or nearest(name, NAMED)
        place = (arg.span[0], arg.span[0] + len(name))
        self.cx.error(
            "QD0802",
            f"{self.function.verb} has no argument {name!r}",
            place,
            help=f"did you mean {near}?" if near else "it takes " + ", ".join(sorted(NAMED)),
            edit=(place, near) if near else None,
        )
        self.bad = True

    def _price(self, name: str, arg: ast.Arg, traded: Traded) -> None:
        """A price as it is, or a float snapped to the passive side."""
        value = arith.plain(self.cx, self.cx.expr(arg.value))
        buys = self.buys if self.buys is not None else True
        up = rounds_up(name, buys)
        if value.bad or percent.no_level(self.cx, name, value, up) is not None:
            self.bad = True
            return
        self.written.prices[name] = value
        rounding = "ceil" if up else "floor"
        ticks = ticks_of(self.cx, value, traded, rounding, "the order")
        self.bad |= ticks is None
        self.fields.append((name, NOTHING if ticks is None else ticks))

    def _trail(self, arg: ast.Arg, unit: Unit) -> None:
        """A distance in ticks or price, or a share of the price."""
        value = arith.plain(self.cx, self.cx.expr(arg.value))
        if value.bad:
            self.bad = True
        elif value.percent:
            self.fields.append(("trail_fraction", value.ir))
        elif value.type.kind in ("ticks", "price"):
            self.fields.append(("trail", value.ir))
        else:
            self.fields.append(("trail", arith.from_float(self.cx, value, unit, "rint")))

    def _display(self, arg: ast.Arg, traded: Traded) -> None:
        """How much of the order is shown at once; the rest is not seen."""
        if not self.strategy.ticks:
            self._fail("QD0216", "'display =' is not available yet on bars", arg.span, "")
            return
        value = arith.plain(self.cx, self.cx.expr(arg.value))
        if not value.bad and (value.type.kind != "qty" or value.type.of not in ("", traded.name)):
            self._fail(
                "QD0803",
                f"display is a quantity, this is {an(value.type)}",
                arg.span,
                "such as display = 100 shares",
            )
        self.bad |= value.bad
        self.shown = value.ir

    def _tif(self, arg: ast.Arg) -> None:
        word = arg.value.id if isinstance(arg.value, ast.Name) else ""
        if word == "gtd" or _is_call(arg, "gtd"):
            self._gtd(arg)
        elif word in TIFS:
            self._set_enum("tif", "orders.Tif", word)
        elif word in AUCTIONS and self.strategy.ticks:
            self._fail(
                "QD0216",
                "orders for an auction are not available yet on quotes, trades or a book",
                arg.span,
                "at a time: at 09:30: buy(...)",
            )
        elif word in AUCTIONS:
            self._set_enum("when", "orders.When", AUCTIONS[word])
        else:
            self._fail(
                "QD0802", "tif is one of " + ", ".join([*TIFS, "gtd(t)", *AUCTIONS]), arg.span, ""
            )

    def _gtd(self, arg: ast.Arg) -> None:
        """`gtd(t)`: good until the time t."""
        if not isinstance(arg.value, ast.Call) or len(arg.value.args) != 1:
            self._fail("QD0802", "gtd needs a time", arg.span, "such as tif = gtd(now + 1d)")
            return
        until = arith.coerce(self.cx, self.cx.expr(arg.value.args[0].value), TIME)
        self.bad |= until.bad
        self._set_enum("tif", "orders.Tif", "gtd")
        self.fields.append(("expire_ts", until.ir))

    def _set_enum(self, field: str, enum: str, member: str) -> None:
        self.fields.append((field, self.strategy.enum_value(enum, member)))

    def _fail(self, code: str, message: str, span: ast.Span, help_: str) -> None:
        self.cx.error(code, message, span, help=help_)
        self.bad = True


def _is_bracket(arg: ast.Arg) -> bool:
    return arg.name is None and _is_call(arg, "bracket")


def _is_call(arg: ast.Arg, name: str) -> bool:
    call = arg.value
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name


class EngineCall(Binding):
    """close_position, flatten, cancel_all: a call of std with the instrument and the line."""

    what = "an order function"
    builtin = "function"

    def __init__(self, strategy: "Strategy", routine: str, *, per_instrument: bool) -> None:
        self.strategy = strategy
        self.routine = routine
        self.per_instrument = per_instrument

    def call(self, cx: Context, node: ast.Call) -> Value:
        """Emit the call, once for the instrument given, or for every instrument."""
        if not stands_alone(self.strategy, cx, node):
            return error_value(node.span)
        if self.strategy.universe is not None and self.routine != "orders.cancel_all":
            self.strategy.uses.add("USES_CLOSES")
        line = ops.i64(cx.line(node))
        for index in self._instruments(cx, node):
            args: tuple[ops.Expr, ...] = (ENGINE, line)
            if self.per_instrument:
                args = (ENGINE, index, line)
            cx.emit(ops.Do(ops.Call(self.strategy.core(self.routine), args), cx.line(node)))
        return Value(VOID, NOTHING, node.span)

    def _instruments(self, cx: Context, node: ast.Call) -> list[ops.Expr]:
        everything = [t.ir for t in self.strategy.instruments]
        if not self.per_instrument:
            if node.args:
                cx.error(
                    "QD0802",
                    "flatten closes everything and takes nothing",
                    node.args[0].span,
                    help="for one instrument write close_position(...)",
                )
            return [NOTHING]
        if not one_of(cx, node.span):
            return []
        if not node.args:
            return everything
        arg = node.args[0].value
        found = cx.scope.find(arg.id) if isinstance(arg, ast.Name) else None
        if isinstance(found, BarsBinding) and len(node.args) == 1:
            return [found.instrument.ir]
        cx.error("QD0802", "this takes an instrument or nothing", node.span)
        return []


class CancelTag(Binding):
    """cancel("tag"): the working orders with that tag."""

    what = "an order function"
    builtin = "function"

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    def call(self, cx: Context, node: ast.Call) -> Value:
        """Emit the cancel, for every instrument."""
        if not stands_alone(self.strategy, cx, node):
            return error_value(node.span)
        if len(node.args) != 1 or not isinstance(node.args[0].value, ast.Str):
            return cx.error(
                "QD0802",
                "cancel takes the tag of an order as text",
                node.span,
                help='such as cancel("entry"); cancel_all() cancels everything',
            )
        if not one_of(cx, node.span):
            return error_value(node.span)
        self.strategy.uses.add("USES_TAG")
        text = node.args[0].value
        tag = ops.i64(self.strategy.tag(text.value, text.span))
        line = ops.i64(cx.line(node))
        for traded in self.strategy.instruments:
            call = ops.Call(
                self.strategy.core("orders.cancel_tag"), (ENGINE, traded.ir, tag, line)
            )
            cx.emit(ops.Do(call, cx.line(node)))
        return Value(VOID, NOTHING, node.span)


class FloorQty(Binding):
    """floor_qty(x): a number of units as a quantity, rounded down to a lot."""

    what = "a function"
    builtin = "function"

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The quantity; na and infinity become a fault that the gate refuses."""
        if not 1 <= len(node.args) <= 2:
            return cx.error(
                "QD0308",
                "floor_qty takes a number and, with several instruments, the instrument",
                node.span,
            )
        of = cx.meant
        found: object = None
        if len(node.args) == 2 and isinstance(node.args[1].value, ast.Name):
            found = cx.scope.find(node.args[1].value.id)
            of = found.instrument.name if isinstance(found, BarsBinding) else ""
        if len(node.args) == 2 and not isinstance(found, BarsBinding):
            return cx.error(
                "QD0308",
                "this is no instrument",
                node.args[1].span,
                help="floor_qty(x), or floor_qty(x, y) with the name of an instrument",
            )
        if not of and len(self.strategy.instruments) > 1:
            name = self.strategy.instruments[0].name
            return cx.error(
                "QD0307",
                "a quantity of which instrument? There are several here",
                node.span,
                help=f"floor_qty(x, {name}); in buy({name}, floor_qty(x)) it is told",
            )
        value = arith.plain(cx, cx.expr(node.args[0].value))
        if value.bad:
            return value
        if (wrong := percent.no_count(cx, node.args[0].value, value)) is not None:
            return wrong
        type_ = qty(of)
        unit = cx.units.of(cx, Value(type_, NOTHING, node.span))
        ir = arith.from_float(cx, value, unit, "floor")
        return Value(type_, ir, node.span, unit=unit, series=value.series)


class Snap(Binding):
    """snap(x, up|down|nearest): a float as a price on the tick grid."""

    what = "a function"
    builtin = "function"
    ROUNDING = {"up": "ceil", "down": "floor", "nearest": "rint"}  # noqa: RUF012 - a constant

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The price."""
        way = node.args[1].value if len(node.args) == 2 else None
        if not isinstance(way, ast.Name) or way.id not in self.ROUNDING:
            return cx.error(
                "QD0308",
                "snap takes a price and one of up, down, nearest",
                node.span,
                help="snap(close - 0.5 * ta.atr(14), down)",
            )
        value = arith.plain(cx, cx.expr(node.args[0].value))
        if value.bad or value.type.kind == "price":
            return value
        if not cx.meant and len(self.strategy.instruments) > 1:
            return cx.error(
                "QD0307",
                "on the grid of which instrument? There are several here",
                node.span,
                help="write it in the order that takes the price: there it is told",
            )
        type_ = price(cx.meant)
        unit = cx.units.of(cx, Value(type_, NOTHING, node.span))
        ir = arith.from_float(cx, value, unit, self.ROUNDING[way.id])
        return Value(type_, ir, node.span, unit=unit, series=value.series)
