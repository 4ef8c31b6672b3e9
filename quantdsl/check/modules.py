"""A parsed file and the names that it declares."""

from quantdsl.check.bindings import Binding
from quantdsl.check.context import Context, Report, Scope
from quantdsl.lang import ast
from quantdsl.lang.source import Source


class Module:
    """One file: its source, its declarations, and where its errors go.

    `key` prefixes the names of everything it declares; `std` allows the dialect of the library.
    """

    def __init__(self, key: str, source: Source, file: ast.File, *, std: bool) -> None:
        self.key = key
        self.source = source
        self.file = file
        self.std = std
        self.report = Report()
        self.scope = Scope()

    def context(self, cx: Context) -> Context:
        """A context at the top level of this file, sharing the library of `cx`."""
        return Context(cx.library, self, self.scope, units=cx.units)


class Namespace(Binding):
    """`ta` in `ta.sma`: the names of a library file."""

    has_members = True

    def __init__(self, name: str, scope: Scope) -> None:
        self.name = name
        self.scope = scope

    @property
    def what(self) -> str:  # type: ignore[override]
        """As messages call it."""
        return f"the namespace {self.name!r}"

    def member(self, name: str) -> Binding | None:
        """What the file declares under that name."""
        found: Binding | None = self.scope.names.get(name)
        return found

    def members(self) -> list[str]:
        """Everything that the file declares."""
        return list(self.scope.names)
