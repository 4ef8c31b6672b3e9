"""The language tour: its examples, and its tables, which are made from the checker's.

`python -m tests.docs.tour` writes the tables anew; a test holds that they are current.
"""

import re
from pathlib import Path

from quantdsl.cli.reference import Entry, entries

TOUR = Path(__file__).parents[2] / "quantdsl" / "docs" / "tour.md"
PARTS = {
    "orders": ("orders", "arguments of orders"),
    "risk": ("risk:",),
    "backtest": ("backtest:",),
    "words": (
        "market",
        "quotes, trades and book",
        "position and account",
        "news of orders",
        "output",
    ),
}
"""Marker in the page -> sections of `quantdsl help` that it shows."""


def examples() -> list[str]:
    """Every example of the page, whole files."""
    return re.findall(r"```quantdsl\n(.*?)```", TOUR.read_text(encoding="utf-8"), re.DOTALL)


def table(part: str) -> str:
    """The rows of the sections of one part, in the order of `quantdsl help`."""
    shown = [entry for entry in entries() if entry.section in PARTS[part]]
    shown.sort(key=lambda entry: PARTS[part].index(entry.section))
    return "\n".join(["| Written | Meaning |", "|---|---|", *map(row, shown)])


def row(entry: Entry) -> str:
    """How it is written, what it does."""
    return f"| `{_cell(entry.signature)}` | {_cell(entry.summary)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def rewritten(page: str) -> str:
    """The page with its tables as they should be."""
    for part in PARTS:
        begin, end = f"<!-- {part}: generated -->", f"<!-- end of {part} -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n\n{table(part)}\n\n{end}{rest.partition(end)[2]}"
    return page


def main() -> None:
    """Write the page."""
    TOUR.write_text(rewritten(TOUR.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
