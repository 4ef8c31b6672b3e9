"""Random signals of a universe: of each instrument, across, and of the universe as a whole."""

from random import Random

OF_EACH = (
    "{o} - {w}",
    "{o} / {w}",
    "({o} ?? 0.0) * {w}[{k}]",
    "{o}[{k}] + {w}[{k}]",
    "ts.mean({o}, {n})",
    "ts.std({o} - {w}, {n})",
    "ta.ema({o} + {w}, {n})",
    "ts.beta({o}, {w}, {n})",
    "xs.rank({o})",
    "xs.zscore({o} * {w})",
    "xs.neutralize({o}, {p})",
    "({o} if xs.top({p}, 20% if {f} else 40%) else {p})",
    "({o} if {f} else {p})",
    "({o} if now.weekday > {k} else {p})",
    "weekly({o}, {n})",
)
WHOLE = (
    "xs.mean({o})",
    "xs.std({o})",
    "xs.quantile({o}, 30%)",
    "xs.corr({o}, {p})",
    "xs.corr({o}, {p} + {w})",
    "{w} - {v}",
    "{w} / {v}",
    "{w}[{k}]",
    "{w}[look] - {v}",
    "ta.ema({w}, {n})",
    "ts.mean({w}, {n})",
    "ts.std({w}, {n})",
    "ts.corr({w}, {v}, {n})",
    "ta.macd({w}, 3, {n}, 4)[{k}].hist",
    "weekly({w}, {n})",
    "({w} if {f} else {v})",
    "({w} ?? 0.0)",
)
FLAGS = (
    "{w} > {v}",
    "{w} > {v}[{k}]",
    "xs.count({o}) > {n}",
    "{w} crosses above {v}",
    "({f})[{k}]",
)
HEAD = """language 1

@warmup(len)
indicator weekly(src: series[float], len: const int) -> float:
    "An average that counts what comes late in a week."
    return ts.mean(src * float(now.weekday + 1), len)

strategy Drawn:
    "{seed}"
    bars 1d
    universe "ALL"{more}
    param look = 4 in 2..9 step 1
"""


def panel_program(seed: int) -> str:
    """The text of a strategy; every seed gives one that compiles and has stages."""
    random = Random(seed)
    more = random.choice(("", "", ", filter = close > 40 USD"))
    each, whole, flags = ["close / close[1] - 1", "close / open[3]"], ["xs.mean(close)"], []
    lets: list[str] = []

    def keep(stem: str, known: list[str], text: str) -> None:
        name = f"{stem}{len(lets)}"
        lets.append(f"    let {name} = {text}")
        known.append(name)

    def drawn(templates: tuple[str, ...]) -> str:
        return random.choice(templates).format(
            o=random.choice(each[-4:]),
            p=random.choice(each),
            w=random.choice(whole[-4:]),
            v=random.choice(whole),
            f=random.choice(flags),
            n=random.randint(3, 9),
            k=random.choice((1, 2, 3, 11)),
        )

    for text in each.copy():
        keep("each", each, text)
    for text in ("xs.mean(each0)", "xs.std(each1)"):
        keep("whole", whole, text)
    keep("flag", flags, "whole2 > whole3 - 1.0")
    del each[:2], whole[0]
    for _ in range(random.randint(6, 12)):
        stem, known, templates = random.choice(
            (("each", each, OF_EACH), ("whole", whole, WHOLE), ("flag", flags, FLAGS))
        )
        keep(stem, known, drawn(templates))
    return HEAD.format(seed=seed, more=more) + "\n".join(lets) + "\n"
