"""Did you mean: the known word that a wrong one is nearest to."""

from collections.abc import Iterable

from quantdsl.lang import words


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` was probably meant to be, or None: at most a third is wrong."""
    limit = max(1, len(word) // 3)
    best = min(
        ((distance(word, c, limit), abs(len(c) - len(word)), c) for c in candidates),
        default=(limit + 1, 0, ""),
    )
    return best[2] if best[0] <= limit else None


def nearest_unit(word: str, others: Iterable[str] = ()) -> str | None:
    """The unit, or one of the other words, that `word` was probably meant to be.

    A currency is only meant in other cases of its letters: any three are near to some currency.
    """
    known = words.UNIT_SYNONYMS.get(word.lower())
    if known is None and word.upper() in words.CURRENCIES:
        known = word.upper()
    return known or nearest(word, (words.UNITS - words.CURRENCIES).union(others))


def distance(a: str, b: str, limit: int) -> int:
    """Edits (insert, delete, replace, swap of neighbours) from `a` to `b`; over limit: limit+1."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, last, row = row, before, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > limit and min(before) > limit:
            return limit + 1  # edits only add up from here on
    return min(row[-1], limit + 1)
