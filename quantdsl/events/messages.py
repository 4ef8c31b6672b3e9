"""What a LOG record means: the template is split at compile time, the values travel as words."""

from msgspec import Struct


class Message(Struct, frozen=True):
    """A text of a strategy: `kind` is log, alert, mark or invariant; `{}` stands for each value.

    `values` says how each value is read: float (its bits), int, bool, time, duration, or, behind
    `word `, the words that it numbers.
    """

    kind: str
    template: str
    values: tuple[str, ...]
