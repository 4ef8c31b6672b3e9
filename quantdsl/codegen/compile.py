"""A linked module as a loaded program, through the cache."""

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import llvmlite
import msgspec

import quantdsl
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.jit import SPEED_LEVEL, Program, assemble, assemble_cold
from quantdsl.codegen.target import Target
from quantdsl.errors import InternalError
from quantdsl.frames import in_one_piece
from quantdsl.ir.ops import Module

FORBID_COMPILE = "QUANTDSL_FORBID_COMPILE"
"""Set to 1 where everything must come from the cache; tests prove a warm start with it."""

_COMPILER_PACKAGES = ("codegen", "ir", "passes")


class ColdForm(NamedTuple):
    """How cold code is made, as part of a key, and the steps to its object file."""

    name: str
    text: Callable[[Module, Target], str]
    assemble: Callable[[str, Target], bytes]


def plain_cold() -> ColdForm:
    """For one lane. The emitter is imported when there is code to make."""
    from quantdsl.codegen.emit import emit

    return ColdForm("", emit, assemble_cold)


class Form(NamedTuple):
    """What is made of a module: `text` of what `passes` leave, callable through `interface`."""

    name: str
    """Part of the key, so it tells apart whatever else the form depends on."""
    passes: Callable[[Module], Module]
    text: Callable[[Module, Target], str]
    interface: Module | None = None
    """Declares the external functions; the module itself where they are its entries."""
    level: int = SPEED_LEVEL
    """How hard LLVM tries."""
    cold: Callable[[], ColdForm] = plain_cold
    """How the cold code is made that it shares with other programs; asked after `text`."""


def entries() -> Form:
    """Of the entries of a module. Passes and emitter are imported when there is code to make."""
    from quantdsl.codegen.emit import emit
    from quantdsl.passes import run_passes

    return Form("", run_passes, emit)


def load(
    module: Module, target: Target, cache: Cache | None, form: Form | None = None
) -> Program:
    """The program of a verified module: from the cache if it is there, else compiled and stored."""
    own, shared = object_files(module, target, cache, form)
    interface = None if form is None else form.interface
    return Program(own, interface or module, target, shared)


class Known(msgspec.Struct, frozen=True):
    """What is kept of a linked module: enough to call its code, and where that is."""

    interface: Module  # without the bodies of functions
    code: str  # the key of its object files


def load_known(
    name: str, link: Callable[[], Module], target: Target, cache: Cache | None
) -> tuple[Program, Module]:
    """The program of the module that `link` makes, and that module, maybe without bodies.

    `name` is a digest of all that decides the module: while the cache has what belongs to it,
    nothing is linked.
    """
    key = _key("linked", name.encode(), target)
    stored = None if cache is None else cache.get(key)
    if stored is not None and cache is not None:
        known = msgspec.msgpack.decode(stored, type=Known)
        files = cache.get(known.code)
        if files is not None:
            own, shared = msgspec.msgpack.decode(files, type=tuple[bytes, bytes])
            return Program(own, known.interface, target, shared), known.interface
    module = link()
    code = cache_key(module, target)
    own, shared = _object_files(code, module, target, cache, None)
    if cache is not None:
        called = tuple(
            msgspec.structs.replace(func, body=())
            for func in module.funcs
            if func.name in module.entries
        )
        interface = msgspec.structs.replace(module, funcs=called, tables=())
        cache.put(key, msgspec.msgpack.encode(Known(interface, code)))
    return Program(own, module, target, shared), module


def object_files(
    module: Module, target: Target, cache: Cache | None, form: Form | None = None
) -> tuple[bytes, bytes]:
    """What `load` loads: the program's own object file, and the one it imports from or nothing."""
    name = "" if form is None else form.name
    return _object_files(cache_key(module, target, name), module, target, cache, form)


def _object_files(
    key: str, module: Module, target: Target, cache: Cache | None, form: Form | None
) -> tuple[bytes, bytes]:
    def compiled() -> bytes:
        from quantdsl.codegen.units import split

        made = entries() if form is None else form
        own, shared = split(made.passes(module))
        text = made.text(own, target)
        code = b"" if shared is None else _shared(shared, target, cache, made.cold())
        return msgspec.msgpack.encode((assemble(text, target, made.level), code))

    stored = through_cache(cache, key, compiled)
    return msgspec.msgpack.decode(stored, type=tuple[bytes, bytes])


def _shared(module: Module, target: Target, cache: Cache | None, form: ColdForm) -> bytes:
    """The object file of a shared part: most programs find that another has made it."""
    key = cache_key(module, target, form.name)
    return through_cache(cache, key, lambda: form.assemble(form.text(module, target), target))


@in_one_piece
def through_cache(cache: Cache | None, key: str, make: Callable[[], bytes]) -> bytes:
    """What the cache holds under a key, else what is made now and stored there."""
    stored = None if cache is None else cache.get(key)
    if stored is None:
        if os.environ.get(FORBID_COMPILE) == "1":
            raise InternalError(f"QD9505 codegen: a compile where {FORBID_COMPILE} is set")
        stored = make()
        if cache is not None:
            cache.put(key, stored)
    return stored


def cache_key(module: Module, target: Target, form: str = "") -> str:
    """A digest of all that the machine code depends on: program, machine, compiler."""
    return _key(form, msgspec.msgpack.encode(module, order="deterministic"), target)


def _key(form: str, program: bytes, target: Target) -> str:
    """A digest of a program, in whatever `form` it is given, of a machine and of the compiler."""
    digest = hashlib.sha256(compiler_version())
    machine = msgspec.msgpack.encode(target, order="deterministic")
    for part in (program, machine, form.encode()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


@functools.cache
def compiler_version() -> bytes:
    """A digest of LLVM's version and of the compiler's own source.

    The source itself and not a version number: a number is forgotten in the very edit that
    changes the code.
    """
    digest = hashlib.sha256(llvmlite.__version__.encode())
    for package in _COMPILER_PACKAGES:
        for path in sorted((Path(quantdsl.__path__[0]) / package).glob("*.py")):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()
