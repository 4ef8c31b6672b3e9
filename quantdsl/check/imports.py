"""Imports: library files below the strategy's folder, and nothing else.

`import lib.filters as f` reads lib/filters.qdsl beside the strategy. A path is made of the names
alone, so it cannot leave the folder; symbolic links are refused; a cycle is an error.
"""

from pathlib import Path

from quantdsl.check import naming
from quantdsl.check.bindings import Local
from quantdsl.check.context import Context, Scope
from quantdsl.check.library import Library
from quantdsl.check.modules import Module, Namespace
from quantdsl.check.values import error_value
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import ERROR
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source


class Importer:
    """Loads the library files of one strategy file, each once."""

    def __init__(self, library: Library, folder: Path | None) -> None:
        self.library = library
        self.folder = folder
        self.loaded: dict[tuple[str, ...], Module] = {}
        self.loading: list[tuple[str, ...]] = []

    def imports_of(self, module: Module) -> None:
        """Bring what a file imports into its scope."""
        cx = Context(self.library, module, module.scope, units=self.library.unitless)
        for item in module.file.items:
            if isinstance(item, ast.Import):
                self._import(cx, item)

    def _import(self, cx: Context, node: ast.Import) -> None:
        found = self._load(cx, node)
        if found is None:
            for ident in node.names or (node.alias or ast.Ident(node.span, node.path[-1]),):
                unread = Local(error_value(ident.span), ident.span, used=True)
                cx.module.scope.names[ident.id] = unread
            return
        names = cx.module.scope.names
        if not node.names:
            alias = node.alias.id if node.alias else node.path[-1]
            ident = node.alias or ast.Ident(node.span, alias)
            known = cx.scope.find(alias)
            naming.enter(cx, names, ident, known, Namespace(alias, found.scope))
            return
        for name in node.names:
            binding = found.scope.names.get(name.id)
            if binding is None:
                cx.error(
                    "QD0201",
                    f"{'.'.join(node.path)} has no {name.id!r}",
                    name.span,
                    help="it has: " + ", ".join(found.scope.names),
                )
                continue
            naming.enter(cx, names, name, cx.scope.find(name.id), binding)

    def _load(self, cx: Context, node: ast.Import) -> Module | None:
        if node.path in self.loaded:
            return self.loaded[node.path]
        dotted = ".".join(node.path)
        if node.path in self.loading:
            cx.error("QD0213", f"{dotted} imports itself, by way of other files", node.span)
            return None
        path = self._find(cx, node)
        if path is None:
            return None
        source = Source.read(path)
        parsed = parse(source)
        module = Module(f"user.{dotted}", source, parsed.file, std=False)
        module.scope = Scope(self.library.globals)
        for diagnostic in parsed.diagnostics:
            module.report.add(diagnostic)
        self._only_library_items(module)
        self.loading.append(node.path)
        self.imports_of(module)
        self.library.declare(module)
        self.loading.pop()
        self.loaded[node.path] = module
        if any(d.severity == ERROR for d in parsed.diagnostics):
            return None
        return module

    def _find(self, cx: Context, node: ast.Import) -> Path | None:
        """The file; refused where it is missing or reached through a symbolic link."""
        if self.folder is None:
            cx.error("QD0213", "this text has no folder, so it can import nothing", node.span)
            return None
        path = self.folder
        for part in node.path[:-1]:
            path = path / part
        path = path / f"{node.path[-1]}.qdsl"
        if not path.is_file():
            cx.error(
                "QD0213",
                f"there is no file {path}",
                node.span,
                reason="imports are files below the folder of the strategy",
            )
            return None
        steps = [path, *path.parents[: len(node.path) - 1]]
        if any(step.is_symlink() for step in steps):
            cx.error(
                "QD0213",
                f"{path} is reached through a symbolic link",
                node.span,
                reason="a strategy reads only what lies in its own folder",
            )
            return None
        return path

    def _only_library_items(self, module: Module) -> None:
        cx = Context(self.library, module, module.scope, units=self.library.unitless)
        for item in module.file.items:
            if isinstance(item, ast.Strategy):
                cx.error("QD0213", "a library file holds no strategy", item.name.span)
