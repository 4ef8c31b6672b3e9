"""The headers of the shipped strategies, and the README's table that is made from them.

`python -m tests.strategies.headers` runs every command anew and rewrites the expected figures and
the table; the tests hold both.
"""

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from quantdsl import cli

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
FILES = tuple(sorted((ROOT / "strategies").glob("*.qdsl")))
ON_BARS = tuple(
    path
    for path in FILES
    if re.search(r"^    bars ", (text := path.read_text("utf-8")), re.MULTILINE)
    and not re.search(r"^    universe ", text, re.MULTILINE)
)
"""Those whose lanes read rows."""
ON_TICKS = tuple(
    p for p in FILES if re.search(r"^    (book|quotes|trades)\b", p.read_text("utf-8"), re.M)
)
ON_UNIVERSES = tuple(p for p in FILES if re.search(r"^    universe ", p.read_text("utf-8"), re.M))
"""Those whose lanes take events, and hold every instrument."""

LABELS = ("Idea", "Source", "Data", "Command", "Expected")
BEGIN, END = "<!-- strategies: generated -->", "<!-- end of strategies -->"

FIGURES = re.compile(
    r"(?P<trades>[\d,]+) trades?, return (?P<return>\S+) %, drawdown (?P<drawdown>\S+) %, "
    r"Sharpe (?P<sharpe>\S+)"
)


@dataclass(frozen=True)
class Header:
    """The labelled comment lines at the head of a strategy file."""

    path: Path
    lines: dict[str, str]

    @property
    def arguments(self) -> list[str]:
        """What follows `quantdsl` in the command, files by their full path."""
        words = self.lines["Command"].split()[1:]
        return [str(ROOT / word) if word.endswith(".qdsl") else word for word in words]


def header(path: Path) -> Header:
    """The header of a file; a missing label is a KeyError where it is asked for."""
    found = re.findall(r"^# (\w+): +(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return Header(path, {label: text for label, text in found if label in LABELS})


def run(found: Header, out: Path) -> dict[str, float]:
    """The metrics of the header's own command."""
    assert cli.run([*found.arguments, "--out", str(out)]) == 0
    return dict(json.loads((out / "metrics.json").read_text(encoding="utf-8")))


def expected(metrics: dict[str, float]) -> str:
    """The figures as the header gives them."""
    count = int(metrics["trades"])
    return (
        f"{count:,} {'trade' if count == 1 else 'trades'}, "
        f"return {metrics['total_return']:.2%}, drawdown {metrics['max_drawdown']:.2%}, "
        f"Sharpe {metrics['sharpe']:.2f}"
    ).replace("%", " %")


def table() -> str:
    """The README's table: a row for each strategy, from the headers alone."""
    rows = [
        "| Strategy | Idea | Trades | Return | Sharpe | Drawdown |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for path in FILES:
        lines = header(path).lines
        found = FIGURES.fullmatch(lines["Expected"])
        assert found is not None, f"{path.name}: {lines['Expected']}"
        rows.append(
            f"| [{path.stem}](strategies/{path.name}) | {lines['Idea'].rstrip('.')} | "
            f"{found['trades']} | {found['return']} % | {found['sharpe']} | "
            f"{found['drawdown']} % |"
        )
    return "\n".join(rows)


def written() -> str:
    """The table as it stands in the README."""
    return README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


def main() -> None:
    """Rewrite the figures of every header, then the table."""
    for path in FILES:
        with tempfile.TemporaryDirectory() as folder:
            figures = expected(run(header(path), Path(folder)))
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"^# Expected:.*$", f"# Expected: {figures}", text, count=1, flags=re.M)
        path.write_text(text, encoding="utf-8")
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
