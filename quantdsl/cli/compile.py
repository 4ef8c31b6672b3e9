"""`quantdsl compile`: the lanes of a strategy as code for a CPU or GPU, without either."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from quantdsl.cli.options import LISTED
from quantdsl.errors import ConfigError, LimitError
from quantdsl.files import whole, writable

if TYPE_CHECKING:
    from quantdsl.backtest.lane_code import LaneCode
    from quantdsl.check.params import Param
    from quantdsl.codegen.backends import Artifact
    from quantdsl.config import Precision
    from quantdsl.ir.ops import Module


@click.command("compile")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--backend", default="ptx", show_default=True, metavar="NAME",
              help="llvm, object, asm, ptx, cubin, amdgcn or spirv.")  # fmt: skip
@click.option("--arch", metavar=f"NAME{LISTED}", help="Such as sm_80,sm_90, x86-64-v3 or gfx90a.")
@click.option("--opt", type=click.IntRange(0, 3), default=1, show_default=True,
              help="Effort of LLVM; every level computes the same bits.")  # fmt: skip
@click.option("--precision", type=click.Choice(["f64", "f32"]), default="f64", show_default=True,
              help="Of equations.")  # fmt: skip
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path),
              help="The output; FILE's name in this folder if absent.")  # fmt: skip
def command(
    file: Path, backend: str, arch: str | None, opt: int, precision: "Precision", out: Path | None
) -> None:
    """Compile the lanes of the strategy FILE: what a sweep runs, one parameter point a lane.

    Of several architectures each has its own file. Beside each lies a JSON file that says what
    the code takes: entry points, buffers, params with their ranges, launch sizes, registers.
    """
    from quantdsl.backtest.lane_code import lane_code
    from quantdsl.check import compile_file
    from quantdsl.codegen.backends import CPUS, backend_of
    from quantdsl.passes import lane_passes

    chosen = backend_of(backend)
    architectures = [chosen.architectures[0]]
    if arch is not None:
        architectures = list(dict.fromkeys(name.strip() for name in arch.split(",")))
    for architecture in architectures:
        if architecture not in chosen.architectures:
            raise ConfigError(
                f"--arch {arch}: {backend} has no architecture '{architecture}'\n"
                f"help: one of {', '.join(chosen.architectures)}"
            )
    several = len(architectures) > 1
    paths = {name: _path(file, out, chosen.suffix, name, several=several) for name in architectures}
    for path in paths.values():
        writable(path, file)
    lanes = lane_code(compile_file(file), frozenset(), 1, precision=precision)
    if architectures[0] not in CPUS:
        _fits(lanes)
    module = lane_passes(lanes.module, lanes.words.kept)
    for architecture, path in paths.items():
        artifact = chosen.make(module, architecture, opt)
        with whole(path) as part:
            part.write_bytes(artifact.code)
        about = path.with_name(path.name + ".json")
        with whole(about) as part:
            told = _facts(lanes, module, artifact, backend, architecture)
            part.write_text(_json(told | {"opt": opt}), encoding="utf-8")
        click.echo(f"{path}  {len(artifact.code):,} bytes{_used(artifact)}\n{about}")


def _fits(lanes: "LaneCode") -> None:
    """LimitError where a thread of a GPU has no room for what a lane of this kernel keeps."""
    from quantdsl.backtest.program import STATE
    from quantdsl.codegen.lanes import is_large
    from quantdsl.ir.layout import Layout
    from quantdsl.limits import LANE_STATE_BYTES

    words = Layout(lanes.module.structs).words(STATE)
    if is_large(words):
        book, shared = "", ""
        if "USES_BOOK" in lanes.checked.strategy.uses:
            book = ", an order book of its own among them"
            shared = (
                "; on a GPU the lanes of a sweep share a book, and quantdsl explain --stage ptx "
                "FILE prints their kernel"
            )
        raise LimitError(
            f"{lanes.checked.source.path}: is compiled for CPUs alone: each lane of this kernel "
            f"takes events itself and keeps {8 * words:,} bytes{book}, and a GPU's thread has "
            f"{LANE_STATE_BYTES}\nhelp: give --backend llvm, object or asm{shared}"
        )


def _path(file: Path, out: Path | None, suffix: str, architecture: str, *, several: bool) -> Path:
    """Where an architecture's output goes: its name stands before the suffix if there are more."""
    path = out or Path(file.stem + suffix)
    if not several:
        return path
    return path.with_name(f"{path.stem}.{architecture}{path.suffix}")


def _used(artifact: "Artifact") -> str:
    if artifact.registers is None:
        return ""
    spilled = "" if artifact.spill_bytes is None else f", {artifact.spill_bytes:,} bytes spilled"
    return f", {artifact.registers} registers{spilled}"


def _step(param: "Param") -> str | None:
    """None too where the values are words, between which there is no step."""
    from quantdsl.backtest.values import show

    if param.step is None or param.kind in ("word", "bool"):
        return None
    return show(param, param.step)


def _json(told: dict[str, object]) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(told)).decode() + "\n"


def _facts(
    lanes: "LaneCode", module: "Module", artifact: "Artifact", backend: str, architecture: str
) -> dict[str, object]:
    """What the code of `module` takes, for programs that load it."""
    from quantdsl import __version__
    from quantdsl.backtest.program import STATE
    from quantdsl.backtest.values import show
    from quantdsl.codegen.backends import CPUS
    from quantdsl.codegen.lanes import KERNEL
    from quantdsl.codegen.text import entry_symbol
    from quantdsl.devices.kernel import facts, sizes_of
    from quantdsl.events.layout import WORDS
    from quantdsl.ir.layout import Layout

    layout, on_cores = Layout(lanes.module.structs), architecture in CPUS
    kernel = facts(
        on_cores=on_cores, threads_max=artifact.threads, threads_min=artifact.threads_min
    )
    params = [
        {
            "name": param.name,
            "kind": param.kind,
            "state_word": layout.locate(STATE, param.field).offset_words,
            "default": show(param, param.default),
            "low": None if param.low is None else show(param, param.low),
            "high": None if param.high is None else show(param, param.high),
            "step": _step(param),
            "choices": list(param.choices),
        }
        for param in lanes.checked.strategy.params
    ]
    return {
        "strategy": lanes.checked.strategy.name,
        "quantdsl": __version__,
        "backend": backend,
        "architecture": architecture,
        "precision": lanes.precision,
        "entries": {entry_symbol(KERNEL.name): [param.name for param in KERNEL.params]},
        "buffers_read": kernel.inputs,
        "buffers_written": kernel.outputs,
        "variables": kernel.variables,
        "sizes": sizes_of(module, event_words=WORDS, on_cores=on_cores),
        "params": params,
        "results": [{"name": word.path, "state_word": word.offset} for word in lanes.words.sums],
        "launch": kernel.grid and {"blocks": kernel.grid, "threads_max": artifact.threads},
        "registers": artifact.registers,
        "stack_bytes": artifact.stack_bytes,
        "spill_bytes": artifact.spill_bytes,
        "shared_bytes": artifact.shared_bytes,
        "features": list(artifact.features),
    }
