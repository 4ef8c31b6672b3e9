"""Places as paths: where a place lies, as far as it is known before the program runs.

A path is the name of the parameter or local that holds a place, then a field's name or an
element's index for each step; None is an index that is not known.
"""

import itertools
from collections.abc import Iterable, Iterator

from quantdsl.ir.layout import Layout, array_size
from quantdsl.ir.ops import (
    ArrayType,
    BufferType,
    Const,
    Elem,
    Expr,
    Field,
    Place,
    ScalarType,
    StructType,
    Table,
    Type,
    Var,
    i64,
)
from quantdsl.ir.walk import base_of

Step = str | int | None
Path = tuple[Step, ...]
Cell = tuple[str, str]
"""A field of a struct, wherever such a struct lies."""
PLACES: frozenset[type] = frozenset({Var, Field, Elem})
"""What is a place, by exact type: to test for a class that it is not takes four times as long."""


def path_of(place: Expr) -> Path | None:
    """The path of a place; None for what is none, or lies in a table."""
    steps: list[Step] = []
    while True:
        if type(place) is Field:
            steps.append(place.name)
        elif type(place) is Elem:
            steps.append(place.index.bits if type(place.index) is Const else None)
        else:
            return (place.name, *reversed(steps)) if type(place) is Var else None
        place = place.base


def place_at(path: Path) -> Place:
    """The place of a path without unknown indices."""
    return inside(Var(str(path[0])), path[1:])


def known(path: Path) -> bool:
    """Whether a path has no unknown index."""
    return None not in path


def overlap(one: Path, other: Path) -> bool:
    """Whether two paths from the same root may share a word."""
    for a, b in zip(one, other, strict=False):
        if a != b and (a is not None or type(b) is str) and (b is not None or type(a) is str):
            return False
    return True


def as_place(expr: Expr) -> Place:
    """The expression itself, where it must be a place."""
    assert isinstance(expr, Var | Field | Elem | Table)
    return expr


def inside(expr: Expr, steps: Path) -> Place:
    """The place that lies known steps inside another."""
    place = as_place(expr)
    for step in steps:
        assert step is not None
        place = Elem(place, i64(step)) if isinstance(step, int) else Field(place, step)
    return place


def leaves(layout: Layout, type_: Type, path: Path = ()) -> Iterator[tuple[Path, ScalarType]]:
    """Every scalar of an aggregate and its type, in memory order."""
    if isinstance(type_, StructType):
        for name, slot in layout.slots(type_.name).items():
            yield from leaves(layout, slot.type, (*path, name))
    elif isinstance(type_, ArrayType):
        for index in range(array_size(type_)):
            yield from leaves(layout, type_.elem, (*path, index))
    elif isinstance(type_, str):
        yield path, type_


def type_at(layout: Layout, type_: Type, steps: Iterable[Step]) -> Type:
    """The type of what lies `steps` inside a type."""
    for step in steps:
        if isinstance(type_, StructType):
            type_ = layout.slots(type_.name)[str(step)].type
        else:
            assert isinstance(type_, ArrayType | BufferType)
            type_ = type_.elem
    return type_


class PathSet:
    """Paths, and whether another may share a word with one of them."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._whole: set[Path] = set()
        self._starts: set[Path] = set()
        """Every beginning of a path without unknown indices."""
        self._unknown: dict[Path, set[Path]] = {}
        """Those with unknown indices, by what stands before the first of them."""
        self._leads: set[Path] = set()
        """Every beginning of that."""
        self._asked: dict[Path, bool] = {}
        """Answers that were given since the last path was taken in."""
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> None:
        """Take a path in."""
        if known(path):
            lead, alike, starts = path, self._whole, self._starts
        else:
            lead = path[: path.index(None)]
            alike, starts = self._unknown.setdefault(lead, set()), self._leads
        if path not in alike:
            self._asked.clear()
            alike.add(path)
            starts.update(lead[:end] for end in range(1, len(lead) + 1))

    def update(self, other: "PathSet") -> None:
        """Take all paths of another in."""
        self._asked.clear()
        self._whole |= other._whole
        self._starts |= other._starts
        self._leads |= other._leads
        for lead, paths in other._unknown.items():
            self._unknown.setdefault(lead, set()).update(paths)

    def meets(self, path: Path) -> bool:
        """Whether a path overlaps one of these."""
        answer = self._asked.get(path)
        if answer is None:
            answer = self._asked[path] = self._meets(path)
        return answer

    def _meets(self, path: Path) -> bool:
        if not known(path):
            every = itertools.chain(self._whole, *self._unknown.values())
            return any(overlap(path, other) for other in every)
        if path in self._starts or path in self._leads:
            return True
        for end in range(1, len(path)):
            lead = path[:end]
            if lead in self._whole:
                return True
            if lead in self._unknown and any(
                overlap(path, other) for other in self._unknown[lead]
            ):
                return True
        return False

    def __len__(self) -> int:
        return len(self._whole) + sum(map(len, self._unknown.values()))


def spelled(path: Path) -> str:
    """A path as the layout spells it, its root left out: `e.market[0].close`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path[1:])
    return "".join(steps).removeprefix(".")


def indices(place: Expr) -> Iterator[Expr]:
    """The index expressions of a place."""
    while True:
        if type(place) is Elem:
            yield place.index
        elif type(place) is not Field:
            return
        place = place.base


def spelled_path(layout: Layout, type_: Type, spelling: str) -> Path:
    """The steps of a path inside a type, as the layout spells it."""
    steps: list[Step] = []
    while spelling:
        if isinstance(type_, StructType):
            name, spelling = layout.leading_field(type_, spelling, spelling)
            steps.append(name)
        else:
            index, _, spelling = spelling.removeprefix("[").partition("]")
            steps.append(int(index))
        type_ = type_at(layout, type_, steps[-1:])
    return tuple(steps)


def field_at(layout: Layout, type_: Type, path: Path) -> Cell:
    """The field that a path inside a type ends in, or in an array of."""
    at = max(k for k, step in enumerate(path) if isinstance(step, str))
    owner = type_at(layout, type_, path[:at])
    assert isinstance(owner, StructType)
    return owner.name, str(path[at])


def is_table(place: Expr) -> bool:
    """Whether a place lies in a constant table."""
    return type(base_of(place)) is Table
