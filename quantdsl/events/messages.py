"""What a LOG record means: the template is split at compile time, the values travel as words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """A text of a strategy: `kind` is log, alert, mark or invariant; `{}` stands for each value.

    `values` says how each word is read: float (its bits), int, bool, time, duration, or the name
    of an enum or of a param of words behind `enum ` or `choice `.
    """

    kind: str
    template: str
    values: tuple[str, ...]
