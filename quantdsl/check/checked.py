"""A checked strategy: what the rest of the product needs to know about it, and its IR."""

import hashlib
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

import quantdsl.check.elaborators  # noqa: F401 - registers the elaborators
from quantdsl.check import annotations, placing, worker
from quantdsl.check.budget import hold
from quantdsl.check.cases import Case, case
from quantdsl.check.columns import NO_COLUMNS, Choice, Plan, Scope, choose
from quantdsl.check.context import Context, LimitExceeded
from quantdsl.check.facts import facts
from quantdsl.check.few import asked_orders
from quantdsl.check.functions import BAR, Declared
from quantdsl.check.hosted import hold_offline
from quantdsl.check.imports import Importer
from quantdsl.check.lanes import MARKET, STEP, Lanes, column
from quantdsl.check.library import NO_BOOK, SINGLE_RUN, USES, Library, book_sizes, venue_sizes
from quantdsl.check.lowered import Lowered, lowered, without_range
from quantdsl.check.market import ENGINE
from quantdsl.check.modules import Module
from quantdsl.check.panel_builder import Kernel
from quantdsl.check.panel_words import INSTANTS_MAX
from quantdsl.check.precompiled import source_digest
from quantdsl.check.signal_turn import ENTRY, Signals
from quantdsl.check.step import HOST_ENGINE, HOST_FIELDS, STATE_TYPE, Assembly
from quantdsl.check.strategy import Strategy
from quantdsl.check.tracing import instrument
from quantdsl.frames import in_one_piece
from quantdsl.ir import ops
from quantdsl.ir.layout import Layout
from quantdsl.ir.link import Decl, link
from quantdsl.ir.own import GROUP as OWN_GROUP
from quantdsl.ir.own import MADE_STEP, WIDTH
from quantdsl.ir.own import ROW as OWN_ROW
from quantdsl.ir.own import STEP as OWN_STEP
from quantdsl.ir.slim import slim
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import ERROR, Diagnostic, Label, SourceError, has_errors
from quantdsl.lang.parser import Parsed, parse
from quantdsl.lang.source import Source

UNIVERSE_SIZE = 16
"""Instruments of a universe while nothing says how many there are: those of the built-in market."""
ORDERS_MAX = 32
RECORDS_MAX = 4096
ANSWERS_KEPT = 6 * 64
"""Slots of the outbox for the answers that a venue may have under way to one instrument."""
WORKER = "USES_WORKER"
"""The part of the core that takes the values of asynchronous signals from elsewhere."""
BOOK_ORDERS_MAX = 65_536
"""Slots for single orders (L3) of a book; with more than three quarters taken it is not valid."""


class Checked(Struct, eq=False, dict=True):
    """A strategy file without errors; `diagnostics` are warnings."""

    source: Source
    strategy: Strategy
    library: Library
    assembly: Assembly
    diagnostics: list[Diagnostic] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    modules: dict[tuple[object, ...], ops.Module] = field(default_factory=dict)  # linked so far

    universe: int = UNIVERSE_SIZE  # instruments of the universe, where there is one
    text: str = ""  # a digest of its files and of all that makes IR of them

    @property
    def instruments(self) -> int:
        """How many instruments the core is made for."""
        one = self.strategy.universe is None
        return len(self.strategy.instruments) if one else self.universe

    @property
    def orders(self) -> int:
        """Slots for working orders: of a universe one for each instrument, and as many waiting."""
        return ORDERS_MAX if self.strategy.universe is None else 2 * self.universe + ORDERS_MAX

    @property
    def records(self) -> int:
        """Slots of the outbox: `engine.full` keeps 12 of each order and 16 of an instrument, and on
        ticks those of the answers under way."""
        if self.strategy.universe is None:
            return RECORDS_MAX
        answers = ANSWERS_KEPT * self.universe if self.strategy.ticks else 0
        return RECORDS_MAX + 24 * self.orders + answers

    @property
    def news(self) -> int:
        """Slots for what befalls orders at one instant."""
        return 4 * self.orders

    def sized(self, instruments: int) -> "Checked":
        """The same strategy on a universe of so many instruments."""
        if instruments == self.universe:
            return self
        return replace(self, universe=instruments, modules={})

    @cached_property
    def facts(self) -> list[tuple[str, str]]:
        """What `quantdsl check` prints: warm-up, operations, state."""
        return facts(self)

    def test_entries(self) -> tuple[str, ...]:
        """The functions of the test blocks."""
        return tuple(entry for case in self.cases for entry in case.entries)

    def module(
        self, uses: frozenset[str] = frozenset(), entries: tuple[str, ...] = ()
    ) -> ops.Module:
        """The linked IR: admits, init, run and `entries`; `uses` are parts of the core needed.

        Raises LimitError where the state or an event would exceed its limit.
        """
        key = (uses, entries)
        if key not in self.modules:
            decls = worker.engine(self.assembly) if WORKER in uses else ()
            entries = ("admits", "init", "run", *entries)
            self.modules[key] = self._linked(list(entries), uses, self._sizes(), decls)
        return self.modules[key]

    def module_key(self, uses: frozenset[str]) -> str:
        """A digest of all that decides what `module(uses)` is, known without linking it."""
        parts = (self.text, str(self.universe), *sorted(uses))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def worker_module(self, uses: frozenset[str]) -> ops.Module:
        """The linked IR of the worker that computes the asynchronous signals: init, work."""
        decls = worker.work(self.assembly)
        return self._linked(["init", "work"], uses, self._sizes(), decls)

    def instant_module(self, uses: frozenset[str]) -> ops.Module:
        """The same worker for a GPU: the events of an instant by `ingest`, the rest by `instant`,
        on the state of the other."""
        decls = worker.instant_of(self.assembly)
        return self._linked(["init", "ingest", "instant"], uses, self._sizes(), decls)

    def _sizes(self) -> dict[str, int]:
        """The size of one run's outbox."""
        return {"N_RECORDS": self.records}

    def lane_module(
        self,
        uses: frozenset[str] = frozenset(),
        plan: Plan = NO_COLUMNS,
        *,
        blocks: int = 1,
        digest: bool = False,
        few: int = 0,
    ) -> ops.Module:
        """The linked IR of one lane of a sweep: admits, warm, init, lane. It keeps no records.

        What `plan` hoists is loaded from columns. `blocks` of days keep return sums of their own
        (1: none do); with `digest` every record is mixed into one word, so that what two targets
        did can be compared. Where `few` is not 0, it has room for so many orders alone, and
        `e.crowded` tells in the end whether more came: then nothing of it counts (few.py).
        """
        own = {"USES_RECORDS": 0, "N_RECORDS": 1, "N_BLOCKS": blocks, "USES_DIGEST": int(digest)}
        own["USES_KILL"] = 0  # nobody can reach into a lane
        if few:
            own |= {"N_ORDERS": few, "N_INTENTS": asked_orders(self.strategy), "FEW_ORDERS": 1}
        decls = Lanes(self.assembly, plan).lane()
        module = self._linked(["admits", "warm", "init", "lane"], uses, own, decls)
        assert module.given is not None
        given = msgspec.structs.replace(module.given, common=_common(module))
        return msgspec.structs.replace(module, given=given)

    def columns_module(
        self, plan: Plan, params: tuple[str, ...], uses: frozenset[str] = frozenset()
    ) -> ops.Module:
        """The linked IR of the lanes that fill columns: init, lane; one for each of the subsets
        of params of the plan. Such a lane evaluates the hoisted equations for one distinct value.
        """
        own = {"USES_RECORDS": 0, "N_RECORDS": 1, "USES_KILL": 0}
        decls = Lanes(self.assembly, plan).columns(params)
        return self._linked(["init", "lane"], uses, own, decls)

    def signals_module(
        self, turn: Signals, uses: frozenset[str] = frozenset()
    ) -> ops.Module:
        """The linked IR of the equations alone: admits, init, signals."""
        own = {"USES_RECORDS": 0, "N_RECORDS": 1, "USES_KILL": 0}
        return self._linked(["admits", "init", ENTRY], uses, own, turn.decls())

    def kernel_module(self, kernel: Kernel, flat: int | None = None) -> ops.Module:
        """The linked IR of one stage of a panel: init, lane; `flat` columns have rows of so many
        words, and lanes keep of a bar what they read.
        """
        across = (WIDTH, WIDTH, self.universe)
        steps = across if kernel.stage.across else (1, INSTANTS_MAX, 1)
        steps = steps if flat is None else (1, 1, 1)
        replaced = {decl.name: decl for decl in kernel.decls}
        sizes = {
            "N_INSTRUMENTS": self.universe,
            **self.strategy.equations.ring_sizes(),
            **dict(zip((OWN_STEP, OWN_GROUP, MADE_STEP), steps, strict=True)),
            OWN_ROW: WIDTH if flat is None else flat,
        }
        module = link(
            lambda name: replaced.get(name) or self._lookup(name), ["init", "lane"], sizes
        )
        module = replace(module, given=ops.Given(kernel.host, module.entries))
        return module if flat is None else slim(module, BAR.name, STATE_TYPE)

    def warming_module(self, uses: frozenset[str]) -> ops.Module:
        """The linked IR of what finds where all points are warm on ticks: init, warming."""
        own = {"USES_RECORDS": 0, "N_RECORDS": 1, "USES_KILL": 0}
        decls = Lanes(self.assembly, NO_COLUMNS).warming()
        return self._linked(["init", "warming"], uses, own, decls)

    def plan(self, scope: Scope) -> tuple[Plan, list[Choice]]:
        """What a sweep hoists, and why; see `columns.choose`."""
        panel = self.strategy.universe is not None
        return choose(self.assembly, self.module(), scope, self.universe if panel else 1)

    def _linked(
        self,
        entries: list[str],
        uses: frozenset[str],
        own: dict[str, int],
        decls: Iterable[Decl] = (),
    ) -> ops.Module:
        """The module of the entries; `decls` stand for what the library has of their names."""
        used = {name: int(name in self.strategy.uses or name in uses) for name in USES}
        sizes = {
            **used,
            "N_INSTRUMENTS": self.instruments,
            "N_ORDERS": self.orders,
            **SINGLE_RUN,
            **(book_sizes(orders=BOOK_ORDERS_MAX) if used["USES_BOOK"] else NO_BOOK),
            "N_NEWS": self.news if used["USES_NEWS"] else 1,
            **self.strategy.equations.ring_sizes(),
            **own,
        }
        sizes |= venue_sizes(sizes)
        replaced = {decl.name: decl for decl in decls}
        module = link(lambda name: replaced.get(name) or self._lookup(name), entries, sizes)
        if not sizes["USES_DIGEST"]:  # what mixes records together is none of the strategy's
            universe = self.strategy.universe is not None
            hold(module, self.strategy.equations.lines, universe=universe)
        return msgspec.structs.replace(module, given=self._given(module))

    def _given(self, module: ops.Module) -> ops.Given:
        """What of the state the host writes, of what there is in this module."""
        fields = {struct.name: [f.name for f in struct.fields] for struct in module.structs}
        own = {*HOST_FIELDS, STEP, *(param.field for param in self.strategy.params)}
        named = [n for n in fields["State"] if n in own or n.startswith(column(""))]
        parts = [n for n in HOST_ENGINE if n.split(".")[0] in fields.get("engine.Engine", ())]
        paths = (f"{ENGINE.name}.{n}" for n in parts if ENGINE.name in fields["State"])
        return ops.Given((*named, *paths), module.entries)

    def _lookup(self, name: str) -> Decl | None:
        """As the library says, the user's models in place of the built-in ones."""
        own = self.strategy.models.get(name)
        if own is None:
            return self.library.lookup(name)
        func = self.library.lookup(own)
        assert isinstance(func, ops.Func)
        return msgspec.structs.replace(func, name=name)


@in_one_piece
def check_source(
    source: Source, *, trace: bool = False, library_too: bool = False
) -> tuple[Checked | None, list[Diagnostic]]:
    """The checked strategy (None where there are errors) and every diagnostic of the file.

    With `trace` the strategy also records every branch and plots every equation; with
    `library_too` a library, a file without a strategy, is no error: it is checked and tested alone.

    Params are proven as low as they may be set (lowered.py). Where one without a range cannot be
    lowered, the file is checked again with such params at their defaults alone.
    """
    parsed = parse(source)
    low = lowered(parsed.file)
    made, told = _check(parsed, low, trace=trace, library_too=library_too)
    if made is None and without_range(parsed.file):
        first = next(d for d in told if d.severity == ERROR)
        low = low.held(source.position(first.span[0]).line)
        made, told = _check(parsed, low, trace=trace, library_too=library_too)
    if made is None and low.tests:
        _, without = _check(parsed, Lowered(), trace=trace, library_too=library_too)
        told = low.labelled(told, without)
    return made, told


def _check(
    parsed: Parsed, low: Lowered, *, trace: bool, library_too: bool
) -> tuple[Checked | None, list[Diagnostic]]:
    source, library = parsed.source, Library()
    module = Module("user", source, parsed.file, std=False)
    module.scope.parent = library.globals
    folder = Path(source.path).parent if source.path != "<input>" else None
    importer = Importer(library, folder)
    found: Strategy | None = None
    cases: list[Case] = []
    try:
        importer.imports_of(module)
        library.declare(module)
        for part in (module, *importer.loaded.values()):
            for item in part.file.items:
                annotations.check(context(library, part), item)
        found = _strategy(library, module, low, library_too=library_too)
        if found is not None:
            placing.hold(context(library, module), found)
            cases = [case(found, test, n) for n, test in enumerate(found.tests)]
        _functions(library, [module, *importer.loaded.values()])
    except LimitExceeded as exceeded:
        context(library, module).error(
            "QD0611", exceeded.message, exceeded.span, reason=f"the limit is {exceeded.limit}"
        )
    told = _told(module.report.diagnostics)
    if any(d.severity == ERROR for d in parsed.diagnostics):
        return None, _beside(parsed.diagnostics, told, source)
    diagnostics = [*parsed.diagnostics, *told]
    diagnostics.sort(key=lambda d: d.span)
    for imported in importer.loaded.values():
        errors = [d for d in imported.report.diagnostics if d.severity == ERROR]
        if errors:
            raise SourceError(imported.source, errors)
    library.raise_std_errors()
    if found is None or any(d.severity == ERROR for d in diagnostics):
        return None, diagnostics
    if trace:
        instrument(found)
    assembly = Assembly(found)
    assembly.define()
    library.raise_std_errors()
    files = (source, *(imported.source for imported in importer.loaded.values()))
    text = _digest(files, f"trace {trace}, library {library_too}")
    most = 0 if found.universe is None else found.universe.most
    size = most or UNIVERSE_SIZE
    made = Checked(source, found, library, assembly, diagnostics, cases, universe=size, text=text)
    return made, diagnostics


def _digest(files: Iterable[Source], how: str) -> str:
    """Of what a strategy's IR is made of: its files, std, the compiler, and `how` it was asked."""
    digest = hashlib.sha256(f"{source_digest()}\0{how}".encode())
    for file in files:
        digest.update(hashlib.sha256(file.text.encode()).digest())
    return digest.hexdigest()


def _common(module: ops.Module) -> tuple[str, ...]:
    """What of the state of a lane is the market's, and so the same in all lanes."""
    layout, state = Layout(module.structs), ops.StructType("State")
    held = layout.slots("engine.Engine") if ENGINE.name in layout.slots(state.name) else {}
    return tuple(f"{ENGINE.name}.{name}" for name in MARKET if name in held and held[name].words)


SURE = frozenset({"QD0201", "QD0401", "QD0803", "QD0804"})
"""Unknown names, looks into the future, sizes that are no quantity and limits of another kind: a
line shows them alone."""


def _beside(syntax: list[Diagnostic], told: list[Diagnostic], source: Source) -> list[Diagnostic]:
    """Syntax errors, and what else is wrong whatever is meant by the lines that they are in."""
    lines = source.text.split("\n")
    torn = {source.position(offset)[0] for d in syntax for offset in d.span}
    unsure = [re.sub(r"\W", "", lines[n - 1]) for n in torn]

    def sure(d: Diagnostic) -> bool:
        about = source.text[slice(*d.span)]
        elsewhere = source.position(d.span[0])[0] not in torn
        return d.code in SURE and elsewhere and not any(about in line for line in unsure)

    return sorted([*syntax, *filter(sure, told)], key=lambda d: d.span)


def _strategy(
    library: Library, module: Module, low: Lowered, *, library_too: bool
) -> Strategy | None:
    """The one strategy of the file, elaborated, with the tests that stand beside it."""
    nodes = [item for item in module.file.items if isinstance(item, ast.Strategy)]
    tests = [item for item in module.file.items if isinstance(item, ast.Test)]
    cx = context(library, module)
    empty = all(isinstance(item, ast.Language) for item in module.file.items)
    if not nodes and library_too and not empty:
        found = Strategy(library, module, ast.Strategy((0, 0), ast.Ident((0, 0), ""), ()), low)
        found.has_risk = found.has_backtest = True  # there is nothing to limit or to pay for
        found.elaborate()
        found.tests += tests
        return found
    if not nodes:
        cx.error(
            "QD0218",
            "this file holds no strategy",
            (0, 0),
            reason="a library runs in the strategy that imports it",
            help="add one: strategy Name:",
        )
        return None
    for node in nodes[1:]:
        cx.error(
            "QD0218",
            "a file holds one strategy",
            node.name.span,
            labels=(Label(nodes[0].name.span, "the first one"),),
            help="move this one to a file of its own",
        )
    found = Strategy(library, module, nodes[0], low)
    found.elaborate()
    found.tests += tests
    hold_offline(found)
    return found


def _told(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Beside an error nothing is said to be unread: what the error cut off may read it."""
    if not has_errors(diagnostics):
        return diagnostics
    return [d for d in diagnostics if d.code != "QD0204"]


def _functions(library: Library, modules: list[Module]) -> None:
    """Elaborate what nothing calls, so that its mistakes are seen too."""
    for module in modules:
        for binding in module.scope.names.values():
            if isinstance(binding, Declared) and not binding.module.std:
                for number in range(len(binding.nodes)):
                    library.routine(context(library, binding.module), binding, number)


def context(library: Library, module: Module) -> Context:
    """A context at the top level of a file."""
    return Context(library, module, module.scope, units=library.unitless)


def compile_file(path: str | Path, *, library_too: bool = False) -> Checked:
    """The checked strategy of a file; raises SourceError with every diagnostic."""
    source = Source.named(path)
    checked, diagnostics = check_source(source, library_too=library_too)
    if checked is None:
        raise SourceError(source, diagnostics)
    return checked
