"""The standard library as typed IR on disk: parsed, checked and lowered once a version.

The entry lives in the cache of compiled code, which is digest-checked and ours alone, under a key
made of the text of std and of the compiler. A namespace is decoded when it is first looked into,
a function when something calls it.
"""

import hashlib
from collections.abc import Callable, Iterator, MutableMapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import quantdsl.check
from quantdsl.check.bindings import Binding, EnumBinding, Local, StructBinding, StructField
from quantdsl.check.functions import Declared, Routine
from quantdsl.check.types import Type
from quantdsl.check.values import TIMELESS, Value
from quantdsl.codegen.cache import Cache
from quantdsl.errors import InternalError
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.context import Context
    from quantdsl.check.library import Library
    from quantdsl.check.modules import Module

EMPTY = ast.Suite((0, 0), ())


class EnumEntry(msgspec.Struct, frozen=True, tag_field="entry", tag="enum"):
    name: str
    key: str
    members: tuple[str, ...]


class StructEntry(msgspec.Struct, frozen=True, tag_field="entry", tag="struct"):
    name: str
    key: str
    fields: tuple[StructField, ...]


class ConstEntry(msgspec.Struct, frozen=True, tag_field="entry", tag="const"):
    """A constant or a table."""

    name: str
    type: Type
    ir: ops.Expr
    low: int | None
    high: int | None
    const: int | float | bool | str | None


class CallableEntry(msgspec.Struct, frozen=True, tag_field="entry", tag="callable"):
    """A fn or indicator with its overloads: signatures without bodies, and what callers need."""

    name: str
    nodes: tuple[ast.Fn | ast.Indicator | ast.Kernel, ...]
    routines: tuple[Routine, ...]


Entry = EnumEntry | StructEntry | ConstEntry | CallableEntry


class Space(msgspec.Struct, frozen=True):
    """A namespace: its encoded entries by name, and which of them are enums and structs."""

    types: tuple[str, ...]
    entries: dict[str, bytes]


class Package(msgspec.Struct, frozen=True):
    """The whole library; every value is encoded, and decoded on demand."""

    namespaces: dict[str, bytes]
    funcs: dict[str, bytes]
    structs: dict[str, bytes]
    tables: dict[str, bytes]


@cache
def source_digest() -> str:
    """A digest of std and of everything that turns it, or a strategy, into IR."""
    digest = hashlib.sha256()
    own = Path(quantdsl.check.__path__[0]).parent
    folders = [own / name for name in ("check", "ir", "lang", "events")]
    paths = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    for path in (*paths, own / "limits.py", *sorted((own / "std").glob("*.qdsl"))):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@cache
def package(build: Callable[[], "Library"]) -> Package:
    """The precompiled library: from the cache, or made by `build` and stored there."""
    store, key = Cache(), source_digest()
    encoded = store.get(key)
    if encoded is None:
        encoded = msgspec.msgpack.encode(_pack(build()))
        store.put(key, encoded)
    return msgspec.msgpack.decode(encoded, type=Package)


def _pack(library: "Library") -> Package:
    """Elaborate all of std and encode it."""
    encode = msgspec.msgpack.encode
    namespaces = {key: encode(_space(_entries(library, key))) for key in library.files}
    library.raise_std_errors()
    return Package(
        namespaces,
        {name: encode(func) for name, func in library.funcs.items()},
        {name: encode(decl) for name, decl in library.structs.items()},
        {name: encode(table) for name, table in library.tables.items()},
    )


def _space(entries: list[Entry]) -> Space:
    types = tuple(e.name for e in entries if isinstance(e, EnumEntry | StructEntry))
    return Space(types, {entry.name: msgspec.msgpack.encode(entry) for entry in entries})


def _entries(library: "Library", key: str) -> list[Entry]:
    entries: list[Entry] = []
    for name, binding in library.namespace(key).names.items():
        if isinstance(binding, EnumBinding):
            entries.append(EnumEntry(name, binding.type.of, binding.names))
        elif isinstance(binding, StructBinding):
            entries.append(StructEntry(name, binding.type.of, binding.fields))
        elif isinstance(binding, Local):
            entries.append(_const(name, binding.value))
        elif isinstance(binding, Declared):
            entries.append(_callable(library, name, binding))
        else:
            raise InternalError(f"std declares {name!r} as something that cannot be kept")
    return entries


def _const(name: str, value: Value) -> ConstEntry:
    assert value.high is None or isinstance(value.high, int)
    return ConstEntry(name, value.type, value.ir, value.low, value.high, value.const)


def _callable(library: "Library", name: str, binding: Declared) -> CallableEntry:
    cx = _context(library, binding.module)
    routines = tuple(library.routine(cx, binding, n) for n in range(len(binding.nodes)))
    stubs = tuple(msgspec.structs.replace(node, body=EMPTY) for node in binding.nodes)
    return CallableEntry(name, stubs, routines)


def _context(library: "Library", module: "Module") -> "Context":
    from quantdsl.check.context import Context

    return Context(library, module, module.scope, units=library.unitless)


_SPACE = msgspec.msgpack.Decoder(Space)
_ENTRY: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)
_FUNC = msgspec.msgpack.Decoder(ops.Func)
_STRUCT = msgspec.msgpack.Decoder(ops.StructDecl)
_TABLE = msgspec.msgpack.Decoder(ops.TableDecl)


class Names(MutableMapping[str, Any]):
    """The names of a namespace; what a name stands for is decoded when it is looked up."""

    def __init__(self, library: "Library", module: "Module", encoded: bytes) -> None:
        space = _SPACE.decode(encoded)
        self._found: dict[str, Any] = {**space.entries}
        self._library, self._module = library, module
        for name in space.types:  # which other entries name by their keys
            self[name]

    def __getitem__(self, name: str) -> Any:
        found = self._found[name]
        if isinstance(found, bytes):
            found = self._found[name] = self._unpacked(_ENTRY.decode(found))
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __setitem__(self, name: str, binding: Any) -> None:
        self._found[name] = binding

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def _unpacked(self, entry: Entry) -> Binding | Local:
        library = self._library
        if isinstance(entry, EnumEntry):
            library.enums[entry.key] = enum = EnumBinding(entry.key, entry.members)
            return enum
        if isinstance(entry, StructEntry):
            library.struct_bindings[entry.key] = struct = StructBinding(entry.key, entry.fields)
            return struct
        if isinstance(entry, CallableEntry):
            return Declared(self._module, list(entry.nodes), dict(enumerate(entry.routines)))
        value = Value(
            entry.type,
            entry.ir,
            low=entry.low,
            high=entry.high,
            series=TIMELESS,
            const=entry.const,
        )
        return Local(value, used=True)


def unpack(found: Package, name: str) -> "ops.Func | ops.StructDecl | ops.TableDecl | None":
    """The IR declared under a name."""
    if name in found.funcs:
        return _FUNC.decode(found.funcs[name])
    if name in found.structs:
        return _STRUCT.decode(found.structs[name])
    return _TABLE.decode(found.tables[name]) if name in found.tables else None
