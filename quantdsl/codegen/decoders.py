"""Decoders that are compiled once a machine: when first called, or found in the cache of code.

    entry(signature)(function) --first call--> cache: object code --> callable
                                   `-> numba: what it calls, itself --> cache

Numba's own cache is made of pickles, which run what they please. Here an entry of the cache holds
names and object code, in the folder that is its owner's alone, checked against its digest like the
code of strategies (codegen/cache.py). Its key is the text of all modules beside the function's and
of what they take constants from, numba, LLVM and the processor.
"""

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import msgspec
import numba
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys
from numba.core.sigutils import normalize_signature

from quantdsl.codegen.cache import Cache

SOURCES = (
    "codegen/decoders.py", "data/instrument.py", "data/ticks.py", "data/times.py",
    "events/layout.py", "events/ring.py", "events/ring_numba.py", "live/connection.py",
    "codegen/turn.py",
)  # fmt: skip
"""Of the package, beside the folder of a function: where it has constants and helpers from."""
_njit: Any = numba.njit
_signature: Any = normalize_signature
"""Both take more than their types say."""
_later: dict[Any, str] = {}
"""What is compiled, for this signature, once something that calls it is."""


class _Code(msgspec.Struct, frozen=True, array_like=True):
    """One function as the cache holds it."""

    library: str
    wrapper: str
    environment: str
    code: bytes
    shared: bytes


def later(signature: str, **options: bool) -> Callable[[Any], Any]:
    """Leaves a function that compiled code calls until something that calls it is compiled."""

    def made(function: Any) -> Any:
        dispatcher = _dispatcher(function, nogil=True, **options)
        _later[dispatcher] = signature
        return dispatcher

    return made


def compile_callees(function: Any) -> None:
    """Compile what a Python function calls by the names of its module and closure, deepest first.
    """
    names = {*function.__code__.co_names}
    found = [function.__globals__.get(name) for name in sorted(names)]
    found += [cell.cell_contents for cell in function.__closure__ or ()]
    for one in found:
        if isinstance(one, Dispatcher):
            signature = _later.pop(one, None)
            if signature is not None or not one.overloads:
                compile_callees(one.py_func)
            if signature is not None:
                one.compile(signature)
                one.disable_compile()


class Entry:
    """A compiled function of one signature that Python calls; arguments must be of its types."""

    def __init__(self, function: Any, signature: str, *, brief: bool = False) -> None:
        self.function, self.signature, self.brief = function, signature, brief
        self._call: Callable[..., Any] | None = None
        self._bare: Callable[..., Any] | None = None
        """The compiled function itself."""
        self._held: tuple[Any, ...] = ()
        """What found code is called by: numba's dispatcher keeps addresses and numbers alone."""
        self.found = False
        """Whether its code came from the cache."""

    def __call__(self, *arguments: Any) -> Any:
        if self._call is None:
            self.ready()
        assert self._call is not None
        return self._call(*arguments)

    def ready(self) -> Callable[..., Any]:
        """Find it compiled, or compile it; some seconds. Any thread may call it.

        What comes back is the compiled function: half a microsecond faster than a call of this, for
        nobody looks at the types of its arguments.
        """
        with global_compiler_lock:
            if self._call is None:
                self._prepare()
        assert self._bare is not None
        return self._bare

    def _prepare(self) -> None:
        store, key = Cache(), self._key()
        code = store.get(key)
        if code is not None:
            self._call, self.found = self._loaded(msgspec.msgpack.decode(code, type=_Code)), True
            return
        compile_callees(self.function)
        dispatcher = self._dispatcher()
        dispatcher.compile(self.signature)
        dispatcher.disable_compile()
        (made,) = dispatcher.overloads.values()
        self._call, self._bare = dispatcher, made.entry_point
        if made.environment.consts or made.reload_init or made.lifted:
            return  # more than its code is needed
        names = made.fndesc
        library, _, (code, shared) = made.library.serialize_using_object_code()
        whole = _Code(library, names.llvm_cpython_wrapper_name, names.env_name, code, shared)
        store.put(key, msgspec.msgpack.encode(whole))

    def _loaded(self, one: _Code) -> Any:
        """The function whose code this is, called by way of its types."""
        context = cpu_target.target_context
        rtsys.initialize(context)
        state = (one.library, "object", (one.code, one.shared))
        library = context.codegen().unserialize_library(state)
        environment = _dynfunc.Environment(self.function.__globals__)
        pointer = library.get_pointer_to_function(one.wrapper)
        name = self.function.__name__
        found = _dynfunc.make_function(
            sys.modules[__name__], name, name, pointer, environment, (library,)
        )
        library.codegen.set_env(one.environment, environment)
        dispatcher = self._dispatcher()
        types, _ = _signature(self.signature)
        dispatcher._insert([one._code for one in types], found)
        self._held, self._bare = (*types, found), found
        dispatcher._can_compile = False
        return dispatcher

    def _dispatcher(self) -> Any:
        return _dispatcher(self.function, nogil=not self.brief)

    def _key(self) -> str:
        called = f"{self.signature} {self.brief}"
        own = f"{self.function.__module__} {self.function.__qualname__} {called}"
        read = [cell.cell_contents for cell in self.function.__closure__ or ()]
        of = [f"{one.__module__} {one.__qualname__}" for one in read]
        world = _world(Path(self.function.__code__.co_filename).parent)
        return hashlib.sha256("\n".join([world, own, *of]).encode()).hexdigest()


def entry(signature: str, *, brief: bool = False) -> Callable[[Any], Entry]:
    """The function, compiled for this signature before it is first called.

    It leaves Python's lock to others meanwhile, but where it is brief: who lets go of the lock may
    wait for it a thousand times as long.
    """
    return lambda function: Entry(function, signature, brief=brief)


def _dispatcher(function: Any, **options: bool) -> Any:
    """Numba's, which holds the types of arguments to those of a signature."""
    return _njit(no_cfunc_wrapper=True, **options)(function)


@cache
def _world(folder: Path) -> str:
    """What the code of a function of this folder depends on, as one hash."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in (*sorted(folder.glob("*.py")), *(package / name for name in SOURCES)):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    machine = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    versions = f"{numba.__version__} {llvmlite.__version__} {llvm.llvm_version_info} {sys.version}"
    digest.update(f"{machine} {versions}".encode())
    return digest.hexdigest()
