"""`quantdsl.kernel`: a kernel of tensors, called with arrays of Python.

An array is what NumPy reads without a copy, or memory of a GPU that says where it is by
`__cuda_array_interface__` (CuPy, PyTorch, JAX, Numba). The sizes of a tensor are those of its
array; code is made for them at the first call with them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quantdsl import limits
from quantdsl.check import Checked, compile_file
from quantdsl.check.calls import bind_size
from quantdsl.check.kernels import KernelFacts
from quantdsl.check.signatures import Parameter
from quantdsl.check.types import F32, INT, stored
from quantdsl.devices.choose import GPU
from quantdsl.devices.cuda.device import open_device
from quantdsl.devices.grids import OnCore, OnGpu, OnSimulated, TensorWork
from quantdsl.devices.watch import Fault
from quantdsl.errors import ConfigError
from quantdsl.ir import ops, threads
from quantdsl.ir.link import alone
from quantdsl.ir.walk import statements
from quantdsl.passes.blocks import size_of
from quantdsl.report.words import plural

DTYPES = {
    "f32": np.dtype("f4"),
    "float": np.dtype("f8"),
    "int": np.dtype("i8"),
    "bool": np.dtype("?"),
}
ALIGNED_BYTES = 16
"""Where an array begins: the widest load of a thread."""
DEVICES = "auto, cpu, simulated or cuda:N"


class Given(NamedTuple):
    """An array as it was given: `host` where this process can read it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    address: int
    writable: bool
    straight: bool
    """Whether its elements lie one after the other, row after row."""
    host: np.ndarray[Any, np.dtype[Any]] | None
    gpu: int | None = None
    """The number of the GPU where it lies, of what tells it by DLPack."""

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return int(np.prod(self.shape)) * self.dtype.itemsize


class Bound(NamedTuple):
    """A call's arguments: arrays and words by their names in IR, and the sizes they say."""

    arrays: dict[str, Given]
    scalars: dict[str, int]
    sizes: dict[str, int]


class TensorKernel:
    """A kernel of tensors, ready to be called; it keeps the code of each size that it met."""

    def __init__(self, checked: Checked, ir_name: str, facts: KernelFacts) -> None:
        self.checked, self.ir_name, self.facts = checked, ir_name, facts
        self._ready: dict[tuple[object, ...], OnCore | OnSimulated | OnGpu] = {}

    @property
    def size_names(self) -> tuple[str, ...]:
        """The sizes that its tensors name, and its const ints."""
        sizes = [size for param in self.facts.tensors for size in param.type.dims]
        names = [size.name for size in sizes if isinstance(size, ops.SizeName)]
        return tuple(dict.fromkeys([*names, *(p.name for p in self.facts.params if p.const)]))

    def __call__(self, *args: Any, device: str = "auto", **named: Any) -> float | int | bool | None:
        """Run it; what it declares inout is written in place. Returns what the kernel returns.

        Arguments as declared, by position or name. With `auto` it runs where its arrays are: on
        their GPU, or on this CPU. Raises ConfigError where an argument does not fit.
        """
        bound = self.bound(args, named)
        word = self.run(bound, device)[0]
        type_ = self.facts.result
        if type_.kind not in ("float", "int", "bool"):
            return None
        if stored(type_) == ops.F64_T:
            return ops.bits_to_f64(word & (2**64 - 1))
        return bool(word) if type_.kind == "bool" else word

    def run(self, bound: Bound, device: str, rounds: int = 1) -> tuple[int, list[float]]:
        """The word that it returns, and on a GPU how many seconds each round took.

        Arrays of this process travel to a GPU and back outside of those times.
        """
        gpus = {name for name, one in bound.arrays.items() if one.host is None}
        if gpus and len(gpus) < len(bound.arrays):
            raise self._error("some of its arrays are on a GPU and some are not")
        there = sorted({one.gpu for one in bound.arrays.values() if one.gpu is not None})
        if len(there) > 1:
            named = " and ".join(f"cuda:{number}" for number in there)
            raise self._error(f"its arrays are on {named}: pass arrays of one GPU")
        here = f"cuda:{there[0] if there else 0}" if gpus else "cpu"
        place = here if device == "auto" else device
        match = GPU.fullmatch(str(place))  # a number of a GPU alone is no device
        if place not in ("cpu", "simulated") and not match:
            raise ConfigError(f"device {device!r}: a kernel of tensors runs on {DEVICES}")
        number = int(match[1] or 0) if match else None
        if gpus and (number is None or (there and there != [number])):
            told = f"cuda:{there[0]}" if there and match else "a GPU"
            raise self._error(f"its arrays are on {told}, and the device is {place}")
        ready = self._prepared(bound, place, number)
        addresses = {name: one.address for name, one in bound.arrays.items()}
        if not isinstance(ready, OnGpu):
            return ready(addresses, bound.scalars), []
        if gpus:
            return ready(addresses, bound.scalars, rounds)
        hosts = {name: one.host for name, one in bound.arrays.items() if one.host is not None}
        return ready.on_copies(hosts, bound.scalars, rounds)

    def watched(self, bound: Bound) -> tuple[list[Fault], str]:
        """What threads do on the simulated device that no order of theirs makes right, and how
        many were seen."""
        ready = OnSimulated(self.work(bound.sizes), watched=True)
        ready({name: one.address for name, one in bound.arrays.items()}, bound.scalars)
        return ready.faults, ready.seen

    def work(self, sizes: Mapping[str, int]) -> TensorWork:
        """The kernel linked for such sizes, with which its own arrays fit."""
        self._require_room(sizes)
        module = alone(self.checked.library.lookup, self.ir_name, sizes)
        elements = {f"p.{one.name}": str(one.type.elem) for one in self.facts.tensors}
        return TensorWork(module, self.ir_name, elements, self.facts.threads, self.facts.fast)

    def _prepared(
        self, bound: Bound, place: str, number: int | None
    ) -> OnCore | OnSimulated | OnGpu:
        key = (place, *sorted(bound.sizes.items()))
        if key not in self._ready:
            work = self.work(bound.sizes)
            made: OnCore | OnSimulated | OnGpu
            if number is not None:
                made = OnGpu(work, open_device(number))
            elif place == "simulated":
                made = OnSimulated(work)
            else:
                self._require_stack(work)
                made = OnCore(work)
            self._ready[key] = made
        return self._ready[key]

    def _require_room(self, sizes: Mapping[str, int]) -> None:
        """Hold the arrays of its own, and what a block shares, to their limits."""
        shared = 0
        for name, type_ in self.facts.arrays.values():
            size = bind_size(type_.size, dict(sizes))
            if isinstance(size, int) and type_.kind == "shared":
                shared += 8 * size
            elif not isinstance(size, int) or 8 * size > limits.KERNEL_BYTES:
                raise self._error(
                    f"its own {name!r} is larger than {limits.KERNEL_BYTES:,} bytes with these "
                    "sizes: make it an inout tensor"
                )
        if shared > limits.SHARED_BYTES:
            raise self._error(
                f"a block shares {shared:,} bytes with these sizes, and {limits.SHARED_BYTES:,} "
                "fit: make its shared arrays smaller, and go over the data in parts"
            )

    def _require_stack(self, work: TensorWork) -> None:
        """Hold what a core keeps of a block, or of all that wait for each other, to its limit."""
        arrays = [
            (stmt.name, size_of(stmt.type))
            for stmt in statements(work.func.body)
            if isinstance(stmt, ops.Let) and isinstance(stmt.type, ops.ArrayType)
        ]
        kept = 8 * sum(size for _, size in arrays)
        if kept <= limits.GRID_BYTES:
            return
        meeting = any(name.startswith((threads.ALL, threads.EACH)) for name, _ in arrays)
        who, smaller = "threads", "make its arrays smaller"
        if meeting:
            who, smaller = "blocks, which wait for each other,", "give it a smaller @grid"
        raise self._error(
            f"its {who} keep {kept:,} bytes, and a core has {limits.GRID_BYTES:,}: {smaller}, or "
            "run it on a GPU"
        )

    # ---- arguments ----

    def bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Bound:
        """The arguments of a call, each held to its declaration. Raises ConfigError."""
        params = self.facts.params
        given = dict(zip((param.name for param in params), args, strict=False))
        wrong = sorted((set(named) - {p.name for p in params}) | (set(named) & set(given)))
        missing = [p.name for p in params if p.name not in given and p.name not in named]
        if len(args) > len(params) or wrong or missing:
            shape = ", ".join(param.name for param in params)
            raise self._error(f"call it as {self.facts.name}({shape})")
        given |= named
        sizes: dict[str, int] = {}
        arrays: dict[str, Given] = {}
        scalars: dict[str, int] = {}
        for param in params:
            value, name = given[param.name], f"p.{param.name}"
            if param.type.kind == "tensor":
                arrays[name] = self._array(param, value, sizes)
                continue
            scalars[name] = self._word(param, value)
            if param.const and param.type == INT:
                sizes[param.name] = scalars[name]
        for param in self.facts.tensors:
            self._require_shape(param, arrays[f"p.{param.name}"], sizes)
        self._require_apart(arrays)
        return Bound(arrays, scalars, sizes)

    def _array(self, param: Parameter, value: Any, sizes: dict[str, int]) -> Given:
        try:
            masked, found = _masked(value), _given(value)
        except (BufferError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise self._error(f"{param.name} does not lend its memory: {error}") from None
        if masked:
            raise self._error(
                f"{param.name} has a mask, and a kernel would read what lies behind it\n"
                "help: pass .filled(numpy.nan), or the data alone"
            )
        wanted = DTYPES[str(param.type.elem)]
        if found is None or found.dtype != wanted or len(found.shape) != len(param.type.dims):
            told = "no array" if found is None else f"{found.dtype}{list(found.shape)}"
            takes = f"{wanted} values in {plural(len(param.type.dims), 'dimension')}"
            raise self._error(f"{param.name} is {told}, {param.type} takes {takes}")
        if not found.straight or (found.host is None and found.address % ALIGNED_BYTES):
            raise self._error(
                f"{param.name} does not lie row after row"
                + (f" from a multiple of {ALIGNED_BYTES} bytes on" if found.host is None else "")
                + ": pass a copy of it"
            )
        if param.inout and not found.writable:
            raise self._error(f"{param.name} is written to, and the array is read-only")
        for size, length in zip(param.type.dims, found.shape, strict=True):
            if isinstance(size, ops.SizeName):
                sizes.setdefault(size.name, length)
        return found

    def _require_shape(self, param: Parameter, array: Given, sizes: Mapping[str, int]) -> None:
        wanted = tuple(bind_size(size, dict(sizes)) for size in param.type.dims)
        if wanted != array.shape or not all(array.shape):
            known = ", ".join(f"{name} = {size:,}" for name, size in sizes.items())
            raise self._error(
                f"{param.name} has the shape {list(array.shape)}, {param.type}"
                f"{known and ' with ' + known} "
                f"{'is ' + str(list(wanted)) if wanted != array.shape else 'is empty'}"
            )

    def _require_apart(self, arrays: Mapping[str, Given]) -> None:
        """What is written to shares no memory with anything else."""
        written = {f"p.{param.name}" for param in self.facts.tensors if param.inout}
        for name in sorted(written):
            one = arrays[name]
            for other, two in arrays.items():
                apart = (
                    one.address + one.nbytes <= two.address
                    or two.address + two.nbytes <= one.address
                )
                if other != name and not apart:
                    raise self._error(f"{name[2:]} and {other[2:]} share memory: pass a copy")

    def _word(self, param: Parameter, value: Any) -> int:
        """A number as it travels."""
        type_ = stored(param.type)
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        truth = isinstance(value, bool | np.bool_)
        if type_ == ops.I64_T and whole and -(2**63) <= int(value) < 2**63:
            if param.const and int(value) < 1:
                raise self._error(f"{param.name} is {int(value)}, a const int is at least 1")
            return int(value)
        if type_ == ops.F64_T and (whole or isinstance(value, float | np.floating)):
            try:
                with np.errstate(over="ignore"):  # inf is the nearest f32, as in the language
                    number = float(np.float32(value)) if param.type == F32 else float(value)
            except OverflowError:  # an int of more than 308 digits
                raise self._error(f"{param.name} is larger than any {param.type}") from None
            return int(np.float64(number).view(np.int64))
        if type_ == ops.BOOL_T and truth:
            return int(value)
        raise self._error(f"{param.name} is {value!r}, and no {param.type}")

    def _error(self, told: str) -> ConfigError:
        return ConfigError(f"kernel {self.facts.name}: {told}")

    def __repr__(self) -> str:
        return f"<kernel {self.facts.name}: {self.facts}>"


def _masked(value: Any) -> bool:
    """Whether some of an array is hidden by a mask beside it."""
    told = getattr(value, "__cuda_array_interface__", {})
    return isinstance(value, np.ma.MaskedArray) or told.get("mask") is not None


def _given(value: Any) -> Given | None:
    """What an argument says of its memory, without a copy; None where it is no array."""
    told = getattr(value, "__cuda_array_interface__", None)
    if told is not None:
        dtype, shape = np.dtype(told["typestr"]), tuple(told["shape"])
        steps = told.get("strides")
        straight = steps is None or tuple(steps) == _steps(shape, dtype.itemsize)
        address, locked = told["data"]
        device = getattr(value, "__dlpack_device__", None)
        gpu = None if device is None else int(device()[1])
        return Given(shape, dtype, int(address), not locked, straight, None, gpu)
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        value = np.from_dlpack(value)
    if not isinstance(value, np.ndarray):
        return None
    flags = value.flags
    return Given(
        value.shape, value.dtype, value.ctypes.data, flags.writeable, flags.c_contiguous, value
    )


def _steps(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Bytes from one element to the next in each dimension, where they lie row after row."""
    made: list[int] = []
    for length in reversed(shape):
        made.insert(0, size)
        size *= length
    return tuple(made)


def tensor_kernels(checked: Checked) -> Iterator[TensorKernel]:
    """The kernels of tensors that a file declares."""
    for ir_name, facts in checked.library.kernels.items():
        if facts.tensors:
            yield TensorKernel(checked, ir_name, facts)


def kernel(path: str | Path, name: str | None = None) -> TensorKernel:
    """A kernel of tensors by its name; without one, the only one of the file.

    Raises SourceError where the file has errors, ConfigError where there is no such file or kernel.
    """
    checked = compile_file(path, library_too=True)
    found = {one.facts.name: one for one in tensor_kernels(checked)}
    if name is None and len(found) == 1:
        (name,) = found
    if name not in found:
        has = ", ".join(found) or "none"
        what = "which kernel" if name is None else f"no kernel of tensors {name!r}"
        raise ConfigError(f"{path}: {what}: it has {has}")
    return found[name]
