"""Which words of memory have a known value at a point of a function in the making.

A word that was loaded or stored is not loaded again until something may have changed it. LLVM
finds most of that too, but late, and not at all where it is asked for code at once. Two accesses
meet only where their alias tags say so (tbaa.py); beside the same address another offset is another
word.
"""

from collections.abc import Iterable

from quantdsl.codegen.tbaa import AliasTags

Key = tuple[str, int]
"""An address and an offset in words."""
Words = dict[Key, tuple[str, str]]
"""Word -> its tag, its value."""


class Held:
    """The known words; `state` is theirs to keep, and to give back where control comes together."""

    def __init__(self, tags: AliasTags) -> None:
        self._tags = tags
        self.state: Words = {}
        self.stored: set[str] = set()
        """Tags of every store so far."""

    def get(self, base: str, offset: int) -> str | None:
        """The value of a word, if it is known."""
        found = self.state.get((base, offset))
        return None if found is None else found[1]

    def loaded(self, base: str, offset: int, tag: str, value: str) -> None:
        """A word was read."""
        self.state[base, offset] = tag, value

    def store(self, base: str, offset: int, tag: str, value: str) -> None:
        """A word was written."""
        self._forget((tag,), base, offset)
        self.state[base, offset] = tag, value

    def overwrite(self, tags: Iterable[str]) -> None:
        """Words with these tags were written somewhere."""
        self._forget(set(tags))

    def local(self, address: str, value: str) -> None:
        """A scalar of the function itself, which has no other name, was written or read."""
        self.state[address, 0] = address, value

    def call(self, symbol: str) -> None:
        """A function ran; what one of another module writes is not known."""
        written = self._tags.written.get(symbol)
        if written is None:
            self.stored.add("")
            self.state = {key: kept for key, kept in self.state.items() if key[0] == kept[0]}
        else:
            self._forget(written)

    def meet(self, before: Words, ends: Iterable[Words]) -> None:
        """Control comes together: what was known before and is still so at every end."""
        held = list(before.items())
        for end in ends:
            held = [(key, kept) for key, kept in held if end.get(key) is kept]
        self.state = dict(held)

    def finish(self, symbol: str) -> None:
        """Note for callers what the function writes."""
        if "" not in self.stored:
            self._tags.written[symbol] = frozenset(self.stored)

    def _forget(self, tags: Iterable[str], base: str = "", offset: int = 0) -> None:
        gone = set(tags)
        self.stored |= gone
        if not gone.isdisjoint(self._tags.arrays):
            gone |= self._tags.arrays
        everything = "" in gone
        self.state = {
            key: kept
            for key, kept in self.state.items()
            if (key[0] == base and key[1] != offset)
            or (kept[0] not in gone and not (everything and key[0] != kept[0]))
        }
