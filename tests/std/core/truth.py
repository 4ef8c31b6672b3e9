"""The truth table of the fill rules, made by running the core and the model side by side.

`python -m tests.std.core.truth` writes it into docs/fill-rules.md; a test holds the page to it.
"""

from pathlib import Path
from typing import Any

from tests.std.core.core import HOUR, Core
from tests.std.core.desk import Model
from tests.std.core.parts import Config
from tests.std.core.play import between, compare, config_words

PAGE = Path(__file__).parents[3] / "quantdsl" / "docs" / "fill-rules.md"
BEGIN, END = "<!-- truth table: generated -->", "<!-- end of truth table -->"

Bar = tuple[int, int, int, int, int]

LAST: Bar = (1000, 1000, 1000, 1000, 100)
BARS: dict[str, Bar] = {
    "rises": (1000, 1010, 1000, 1010, 100),
    "falls": (1000, 1000, 990, 990, 100),
    "wide": (1000, 1010, 990, 1000, 100),
    "gaps up": (1008, 1012, 1006, 1010, 100),
    "gaps down": (992, 994, 988, 990, 100),
    "flat": (1000, 1000, 1000, 1000, 100),
}
ORDERS: dict[str, dict[str, dict[str, int]]] = {
    "market": {"buy": {}, "short": {}},
    "limit": {"buy": {"limit": 995}, "short": {"limit": 1005}},
    "stop": {"buy": {"stop": 1005}, "short": {"stop": 995}},
    "stop-limit": {"buy": {"stop": 1005, "limit": 1006}, "short": {"stop": 995, "limit": 994}},
    "if touched": {"buy": {"touch": 995}, "short": {"touch": 1005}},
    "limit if touched": {
        "buy": {"touch": 995, "limit": 994},
        "short": {"touch": 1005, "limit": 1006},
    },
}
BRACKETS: dict[str, dict[str, dict[str, int]]] = {
    "entry, stop, target": {
        "buy": {"stop_loss": 995, "take_profit": 1005},
        "short": {"stop_loss": 1005, "take_profit": 995},
    },
    "entry, trailing stop 4": {"buy": {"trail": 4}, "short": {"trail": 4}},
}


def run(
    bar: Bar, verb: str, asked: dict[str, Any], *, inside: bool = False, **config: Any
) -> list[tuple[Any, ...]]:
    """The fills (lots, ticks) of one order in one bar after LAST; core and model must agree.

    It is sent as LAST closes or, `inside`, while that bar is under way.
    """
    intent = {"verb": verb, "lots": 10, "line": 1, **asked}
    core, model = Core(config_words(config)), Model(Config(**config))
    fills = []
    for step, (bars, intents) in enumerate([(LAST, [] if inside else [intent]), (bar, [])]):
        ts = (step + 1) * HOUR
        if inside and step == 1:
            between(core, model, ts - HOUR // 2, [intent], f"{verb} {asked} inside {bar}")
        records = core.step(ts, ts - HOUR, {0: bars}, intents)
        model.log.clear()
        model.step(ts, ts - HOUR, {0: bars}, intents)
        compare(core, model, records, f"{verb} {asked} {bar}")
        fills += [(r[4], r[5]) for r in records if r[0] == "FILL"]
    return fills


def why(bar: Bar, verb: str, asked: dict[str, int], price: int | None) -> str:
    """The rule that made the price, in words."""
    level = asked.get("stop", asked.get("touch", asked.get("limit")))
    if level is None:
        return "a market order fills at the next open"
    if price is None:
        rising = (verb == "buy") == ("stop" in asked)
        reached = bar[1] >= level if rising else bar[2] <= level
        return "its limit was not met after that" if reached else "its level was not reached"
    if price == bar[0]:
        return "the open was beyond its level already: it fills at the open"
    return "at its level" if price == level else "at its limit"


def why_inside(bar: Bar, verb: str, asked: dict[str, int], price: int | None) -> str:
    """The rule for an order that was sent while the bar was under way, in words."""
    if price is not None:
        return "at the close, the first price that is no older than the order"
    level = asked.get("stop", asked.get("touch", asked.get("limit", 0)))
    if not bar[2] <= level <= bar[1]:
        return "its level was not reached"
    rising = (verb == "buy") == ("stop" in asked)
    if bar[3] >= level if rising else bar[3] <= level:
        return "its limit was not met at the close"
    return "the close was not beyond its level; when that was reached the bar cannot say"


def table() -> str:
    """All three tables in Markdown."""
    lines = [
        "| bar: open high low close | order | side | filled at | why |",
        "|---|---|---|---|---|",
    ]
    for shape, bar in BARS.items():
        prices = " ".join(str(price) for price in bar[:4])
        for kind, sides in ORDERS.items():
            for verb, asked in sides.items():
                fills = run(bar, verb, asked)
                price = fills[0][1] if fills else None
                detail = ", ".join(f"{name} {value}" for name, value in asked.items())
                lines.append(
                    f"| {shape}: {prices} | {kind}{f' ({detail})' if detail else ''} | "
                    f"{verb} | {price or '-'} | {why(bar, verb, asked, price)} |"
                )
    lines += [
        "",
        "Exits of an order that fills at the open of the same bar:",
        "",
        "| bar: open high low close | order | side | path | entry | exit |",
        "|---|---|---|---|---|---|",
    ]
    for shape, bar in BARS.items():
        prices = " ".join(str(price) for price in bar[:4])
        for kind, sides in BRACKETS.items():
            for verb, asked in sides.items():
                for path in ("conservative", "nearest"):
                    fills = run(bar, verb, asked, path=path)
                    exit_ = fills[1][1] if len(fills) > 1 else "-"
                    lines.append(
                        f"| {shape}: {prices} | {kind} | {verb} | {path} | "
                        f"{fills[0][1]} | {exit_} |"
                    )
    return "\n".join([*lines, *inside_table()])


def inside_table() -> list[str]:
    """Orders that a timer sends inside the bar, with the exits that they bring."""
    lines = [
        "",
        "Sent inside the bar, by a timer or `flat_by`:",
        "",
        "| bar: open high low close | order | side | filled at | why |",
        "|---|---|---|---|---|",
    ]
    for shape in ("rises", "falls", "wide"):
        bar = BARS[shape]
        prices = " ".join(str(price) for price in bar[:4])
        for kind, sides in (ORDERS | BRACKETS).items():
            for verb, asked in sides.items():
                fills = run(bar, verb, asked, inside=True)
                filled = ", then ".join(str(price) for _, price in fills) or "-"
                detail = ", ".join(f"{name} {value}" for name, value in asked.items())
                shown = f" ({detail})" if detail and kind in ORDERS else ""
                reason = why_inside(bar, verb, asked, fills[0][1] if fills else None)
                lines.append(
                    f"| {shape}: {prices} | {kind}{shown} | {verb} | {filled} | {reason} |"
                )
    return lines


def page_with(text: str) -> str:
    """The page with this table in its place."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page_with(table()))
