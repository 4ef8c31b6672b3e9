"""A checked strategy: what the rest of the product needs to know about it, and its IR."""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

import quantdsl.check.elaborators  # noqa: F401 - registers the elaborators
from quantdsl.check.cases import Case, case
from quantdsl.check.facts import facts
from quantdsl.check.imports import Importer
from quantdsl.check.library import USES, Library
from quantdsl.check.modules import Module
from quantdsl.check.step import Assembly
from quantdsl.check.strategy import Strategy
from quantdsl.check.tracing import instrument
from quantdsl.ir import ops
from quantdsl.ir.link import link
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import ERROR, Diagnostic, SourceError
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source

ORDERS_MAX = 32
RECORDS_MAX = 4096


@dataclass
class Checked:
    """A strategy file without errors; `diagnostics` are warnings."""

    source: Source
    strategy: Strategy
    library: Library
    diagnostics: list[Diagnostic] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What `quantdsl check` prints: warm-up, operations, state."""
        return facts(self)

    def test_entries(self) -> tuple[str, ...]:
        """The functions of the test blocks."""
        given = [case.given for case in self.cases if case.given]
        return (*given, *(e.func for case in self.cases for e in case.expectations))

    def module(
        self, uses: frozenset[str] = frozenset(), entries: tuple[str, ...] = ()
    ) -> ops.Module:
        """The linked IR: entries init, run and `entries`; `uses` are parts of the core needed."""
        sizes = {
            **{name: int(name in self.strategy.uses or name in uses) for name in USES},
            "N_INSTRUMENTS": len(self.strategy.instruments),
            "N_ORDERS": ORDERS_MAX,
            "N_RECORDS": RECORDS_MAX,
            **self.strategy.equations.ring_sizes(),
        }
        return link(self._lookup, ["init", "run", *entries], sizes)

    def _lookup(self, name: str) -> "ops.Func | ops.StructDecl | ops.TableDecl | None":
        """As the library says, the user's models in place of the built-in ones."""
        own = self.strategy.models.get(name)
        if own is None:
            return self.library.lookup(name)
        func = self.library.lookup(own)
        assert isinstance(func, ops.Func)
        return msgspec.structs.replace(func, name=name)


def check_source(source: Source, *, trace: bool = False) -> tuple[Checked | None, list[Diagnostic]]:
    """The checked strategy (None where there are errors) and every diagnostic of the file.

    With `trace` the strategy also records every branch and plots every equation.
    """
    parsed = parse(source)
    if any(d.severity == ERROR for d in parsed.diagnostics):
        return None, parsed.diagnostics
    library = Library()
    module = Module("user", source, parsed.file, std=False)
    module.scope.parent = library.globals
    folder = Path(source.path).parent if source.path != "<input>" else None
    importer = Importer(library, folder)
    importer.imports_of(module)
    library.declare(module)
    strategies = [item for item in parsed.file.items if isinstance(item, ast.Strategy)]
    found: Strategy | None = None
    cases: list[Case] = []
    for node in strategies[:1]:
        found = Strategy(library, module, node)
        found.elaborate()
        cases = [case(found, test, n) for n, test in enumerate(found.tests)]
    diagnostics = [*parsed.diagnostics, *module.report.diagnostics]
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
    Assembly(found).define()
    library.raise_std_errors()
    return Checked(source, found, library, diagnostics, cases), diagnostics


def compile_file(path: Path) -> Checked:
    """The checked strategy of a file; raises SourceError with every diagnostic."""
    source = Source.read(path)
    checked, diagnostics = check_source(source)
    if checked is None:
        raise SourceError(source, diagnostics)
    return checked
