"""A checked strategy as loaded code with its memory: what a backtest and a test both drive."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.rows import Rows
from quantdsl.check import Checked
from quantdsl.check.step import CURVE_WORDS
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load_known
from quantdsl.codegen.target import native
from quantdsl.errors import InternalError
from quantdsl.events import layout
from quantdsl.ir.layout import Layout, Slot, array_size
from quantdsl.ir.ops import F64_T, ArrayType, Module, StructType, Type

STATE = StructType("State")


class Memory:
    """The words of a run's state, written and read by path (`e.config.cash`)."""

    def __init__(self, module: Module) -> None:
        self.layout = Layout(module.structs)
        self.words = np.zeros(self.layout.words(STATE), dtype=np.int64)
        self._slots: dict[str, Slot] = {}
        self._given = None if module.given is None else module.given.paths

    def slot(self, path: str) -> Slot:
        """Where a path lies; a run asks for the same few again and again."""
        if path not in self._slots:
            self._slots[path] = self.layout.locate(STATE, path)
        return self._slots[path]

    def has(self, name: str) -> bool:
        """Whether the engine of this run has a field: some are only there in a run on ticks."""
        return name in self.layout.slots("engine.Engine")

    def set(self, path: str, value: float) -> None:
        """Write a scalar; how it is stored follows from its type.

        Raises InternalError where the compiler was told that the host leaves the word alone.
        """
        slot = self.slot(path)
        if self._given is not None and not any(map(path.startswith, self._given)):
            raise InternalError(f"QD9109 memory: {path!r} is not among what the host writes")
        self.words[slot.offset_words] = self.stored(path, (value,))[0]

    def stored(self, path: str, values: Sequence[float]) -> npt.NDArray[np.int64]:
        """The word that the scalar of a path holds for each value."""
        if self.slot(path).type == F64_T:
            return np.array(values, np.float64).view(np.int64)
        return np.array([int(value) for value in values], np.int64)

    def get(self, path: str) -> float | int:
        """Read a scalar."""
        slot = self.slot(path)
        word = self.words[slot.offset_words : slot.offset_words + 1]
        return float(word.view(np.float64)[0]) if slot.type == F64_T else int(word[0])

    def view(self, path: str) -> npt.NDArray[np.int64]:
        """The words of an aggregate, shared with the run."""
        slot = self.slot(path)
        return self.words[slot.offset_words : slot.offset_words + slot.words]

    def part(self, module: Module) -> "Memory":
        """The state of another module of the same strategy, filled with what both have."""
        part = Memory(module)
        own = self.layout.slots(STATE.name)
        for name, slot in part.layout.slots(STATE.name).items():
            if name not in own:
                continue
            if own[name].type == slot.type and self.layout.same(part.layout, slot.type):
                part.view(name)[:] = self.view(name)
                continue
            for path in self._parts(part.layout, slot.type, name):
                part.view(path)[:] = self.view(path)
        return part

    def _parts(self, other: Layout, type_: Type, path: str) -> Iterator[str]:
        """The largest places inside a place of another layout that lie alike here."""
        mine = self.slot(path).type
        if mine == type_ and self.layout.same(other, type_):
            yield path
        elif isinstance(type_, StructType) and isinstance(mine, StructType):
            here = self.layout.slots(mine.name)
            for name, slot in other.slots(type_.name).items():
                if name in here:
                    yield from self._parts(other, slot.type, f"{path}.{name}")
        elif isinstance(type_, ArrayType) and isinstance(mine, ArrayType):
            for index in range(min(array_size(type_), array_size(mine))):
                yield from self._parts(other, type_.elem, f"{path}[{index}]")

    def struct(self, path: str) -> dict[str, float | int]:
        """Every scalar field of a struct by name; of a compensated sum NAME and NAME_lo."""
        slot = self.layout.locate(STATE, path)
        assert isinstance(slot.type, StructType)
        fields: dict[str, float | int] = {}
        for name, inner in self.layout.slots(slot.type.name).items():
            if isinstance(inner.type, str):
                fields[name] = self.get(f"{path}.{name}")
            elif inner.type == StructType("sums.Sum"):
                fields[name] = self.get(f"{path}.{name}.total")
                fields[f"{name}_lo"] = self.get(f"{path}.{name}.carry")
        return fields


class Run:
    """One run of a strategy: feed it events, collect records and the curve.

    `executor` has `call(entry, *args)`: machine code, or the interpreter.
    """

    def __init__(self, checked: Checked, module: Module, executor: Any) -> None:
        self.memory = Memory(module)
        self.executor = executor
        self.plots = len(checked.strategy.plots)
        self.records = Rows(layout.WORDS)
        self.rows = Rows(CURVE_WORDS + self.plots)

    def start(self) -> None:
        """Prepare the first instant; config and params are written already."""
        self.executor.call("init", self.memory.words)
        self._drain()

    def feed(self, events: npt.NDArray[np.void]) -> None:
        """Run whole instants; drains the outbox as often as it fills."""
        words = np.ascontiguousarray(events).view(np.int64).reshape(-1)
        done = 0
        while done < len(events):
            rest, count = words[done * layout.WORDS :], len(events) - done
            curve = self.rows.free(count)
            done += self.executor.call("run", self.memory.words, rest, count, curve)
            self.rows.add(int(self.memory.get("rows")))
            self._drain()

    def _drain(self) -> None:
        count = int(self.memory.get("e.outbox_count"))
        if count:
            self.records.append(self.memory.view("e.outbox")[: count * layout.WORDS])
            self.memory.set("e.outbox_count", 0)

    def all_records(self) -> npt.NDArray[np.void]:
        """Every record so far, in order."""
        return self.records.all().reshape(-1).view(layout.RECORD)

    def curve(self) -> npt.NDArray[np.int64]:
        """One row per bar: time, equity, then the bits of each plot."""
        return self.rows.all()


def native_run(checked: Checked, uses: frozenset[str], cache: Cache | None) -> Run:
    """A run on machine code of this machine, from the cache where it is there.

    Raises SourceError where that code does not keep what a `@critical_path` promises.
    """

    def link() -> Module:
        """Not called where the cache has the code of the same text."""
        from quantdsl.backtest.critical import prove_critical

        module = checked.module(uses)
        prove_critical(checked, module, cache)
        return module

    program, module = load_known(checked.module_key(uses), link, native(), cache)
    return Run(checked, module, program)
