"""A linked module as a loaded program, through the cache."""

import functools
import hashlib
import os
from pathlib import Path

import llvmlite
import msgspec

import quantdsl.codegen
import quantdsl.ir
import quantdsl.passes
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.emit import emit
from quantdsl.codegen.jit import Program, assemble
from quantdsl.codegen.target import Target
from quantdsl.codegen.units import split
from quantdsl.errors import InternalError
from quantdsl.ir.ops import Module
from quantdsl.passes import run_passes

FORBID_COMPILE = "QUANTDSL_FORBID_COMPILE"
"""Set to 1 where everything must come from the cache; tests prove a warm start with it."""

_COMPILER_PACKAGES = (quantdsl.codegen, quantdsl.ir, quantdsl.passes)


def load(module: Module, target: Target, cache: Cache | None) -> Program:
    """The program of a verified module: from the cache if it is there, else compiled and stored."""
    key = cache_key(module, target)
    stored = None if cache is None else cache.get(key)
    if stored is None:
        own, shared = _compile(module, target, cache)
        if cache is not None:
            cache.put(key, msgspec.msgpack.encode((own, shared)))
    else:
        own, shared = msgspec.msgpack.decode(stored, type=tuple[bytes, bytes])
    return Program(own, module, target, shared)


def cache_key(module: Module, target: Target) -> str:
    """A digest of all that the machine code depends on: program, machine, compiler."""
    digest = hashlib.sha256(compiler_version())
    for part in (module, target):
        encoded = msgspec.msgpack.encode(part, order="deterministic")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


@functools.cache
def compiler_version() -> bytes:
    """A digest of LLVM's version and of the compiler's own source.

    The source itself and not a version number: a number is forgotten in the very edit that
    changes the code.
    """
    digest = hashlib.sha256(llvmlite.__version__.encode())
    for package in _COMPILER_PACKAGES:
        for path in sorted(Path(package.__path__[0]).glob("*.py")):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def _compile(module: Module, target: Target, cache: Cache | None) -> tuple[bytes, bytes]:
    """The object file of the program itself and that of what it shares, empty if it does not."""
    if os.environ.get(FORBID_COMPILE) == "1":
        raise InternalError(f"QD9505 codegen: a compile where {FORBID_COMPILE} is set")
    own, shared = split(run_passes(module))
    code = b"" if shared is None else _shared(shared, target, cache)
    return assemble(emit(own, target), target), code


def _shared(module: Module, target: Target, cache: Cache | None) -> bytes:
    """The object file of a shared part: most programs find that another has made it."""
    key = cache_key(module, target)
    code = None if cache is None else cache.get(key)
    if code is None:
        code = assemble(emit(module, target), target)
        if cache is not None:
            cache.put(key, code)
    return code
