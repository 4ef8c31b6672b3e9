"""What a strategy said: log, alert and mark lines, broken invariants, limits that acted."""

import operator
import struct
from typing import Any

import numpy as np
import pyarrow as pa

from quantdsl.events.layout import Kind
from quantdsl.events.messages import Message
from quantdsl.report.columns import texts, times
from quantdsl.report.result import RunResult
from quantdsl.report.words import broken

WORDS = ("b", "c", "d", "e")


def messages(result: RunResult) -> pa.Table:
    """One row a message: time, kind (log, alert, mark, invariant, risk) and the text."""
    rows = result.records[np.isin(result.records["kind"], [Kind.LOG, Kind.RISK])]
    spoken = [said(result, row) for row in rows]
    return pa.table(
        {
            "time": times(rows["ts_event"]),
            "kind": texts([kind for kind, _ in spoken]),
            "text": texts([text for _, text in spoken]),
        }
    )


def said(result: RunResult, row: Any) -> tuple[str, str]:
    """Kind and text of one LOG or RISK record."""
    if row["kind"] == Kind.RISK:
        reason = result.reasons.get(int(row["a"]), str(row["a"]))
        instrument = result.instruments[int(row["instrument"])]
        return "risk", broken(reason, int(row["b"]), int(row["c"]), instrument, result.money_digits)
    message = result.messages[int(row["a"])]
    return message.kind, _text(message, row)


def _text(message: Message, row: Any) -> str:
    words = [_word(kind, int(row[name])) for kind, name in zip(message.values, WORDS, strict=False)]
    first, *rest = message.template.split("{}", len(words))
    return first + "".join(map(operator.add, words, rest))


def _word(kind: str, word: int) -> str:
    """A value as it was sent: the bits of a float, or a count."""
    if kind == "float":
        (number,) = struct.unpack("<d", struct.pack("<q", word))
        return f"{number:.10g}"
    if kind.startswith("word "):
        return kind.split(" ")[1 + word]
    if kind == "bool":
        return "true" if word else "false"
    if kind == "time":
        return str(np.datetime64(word, "ns")).rstrip("0").rstrip(".")
    if kind == "duration":
        return f"{word / 1e9:.10g}s"
    return str(word)
