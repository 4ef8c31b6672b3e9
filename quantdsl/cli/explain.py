"""`quantdsl explain`: a page about an error code, or a stage of the compiler for a file."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quantdsl.cli.options import SIZES, sizes_said
from quantdsl.errors import ConfigError

if TYPE_CHECKING:
    from quantdsl.config import Precision

LIKE_A_CODE = re.compile(r"[A-Za-z]{0,2}\d*")
"""What may be a code or the beginning of one; anything else is a file."""


@click.command("explain")
@click.argument("subject", metavar="CODE|FILE")
@click.option("--stage", metavar="NAME", help="Print this stage of compiling FILE, such as llvm.")
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="NAME=LOW..HIGH:STEP",
    help="Sweep a param over this range; for --stage plan.",
)
@SIZES
@click.option("--precision", type=click.Choice(["f64", "f32"]), help="Of equations; for ptx, sass.")
def command(
    subject: str,
    stage: str | None,
    ranges: tuple[str, ...],
    sizes: tuple[str, ...],
    precision: "Precision | None",
) -> None:
    """Explain an error CODE such as QD0401, or print how FILE looks at a --stage.

    The stages are ast, ir, each pass by its name, llvm, optimised and asm; proof: what the machine
    code of the live engine does and does not, read back from it; of the lanes of a sweep
    ptx and sass, with the registers and memory that a thread takes, and plan: which equations are
    computed once for all points that agree on their params; kernels: those of the file as PTX,
    with the place of their memory; --size says for which sizes of tensors.
    """
    if stage is None:
        _explain_code(subject)
        return
    from quantdsl.backtest.stages import (
        GPU_STAGES,
        KERNELS,
        PLAN,
        PROOF,
        STAGES,
        hold_proof,
        show,
    )

    if stage not in STAGES:
        raise ConfigError(f"there is no stage '{stage}'\nhelp: one of {', '.join(STAGES)}")
    if not Path(subject).is_file():
        raise ConfigError(f"there is no file {subject}")
    if precision is not None and stage not in GPU_STAGES:
        raise ConfigError(f"--precision belongs to --stage {' and '.join(GPU_STAGES)}")
    if sizes and stage != KERNELS:
        raise ConfigError(f"--size belongs to --stage {KERNELS}")
    if stage == PLAN:
        from quantdsl.backtest.plan_text import plan_text
        from quantdsl.cli.options import assignments

        form = "NAME=LOW..HIGH:STEP, such as fast=5..50:5"
        click.echo(plan_text(Path(subject), assignments(ranges, "--range", form)))
    elif ranges:
        raise ConfigError(f"--range belongs to --stage {PLAN}")
    else:
        click.echo(show(Path(subject), stage, precision or "f64", sizes_said(sizes)))
        if stage == PROOF:
            hold_proof(Path(subject))


def _explain_code(subject: str) -> None:
    """Print the page of a code; a wrong one is answered with those like it."""
    import quantdsl.check.codes
    import quantdsl.lang.syntax_codes  # noqa: F401 (importing them defines their codes)
    from quantdsl.lang import codes

    code = codes.lookup(subject)
    if code is not None:
        click.echo(codes.explanation(code))
        return
    if Path(subject).is_file():
        raise ConfigError(f"{subject} is a file\nhelp: add --stage NAME, such as --stage ir")
    if not LIKE_A_CODE.fullmatch(subject):
        raise ConfigError(
            f"{subject}: there is no such file, and a code is one like QD0401\n"
            "help: quantdsl explain CODE, or quantdsl explain FILE --stage NAME"
        )
    family = [known for known in codes.defined() if known.code[:4] == subject.upper()[:4]]
    shown = family or codes.defined()
    listing = "\n".join(f"  {known.code}  {known.title}" for known in shown)
    raise ConfigError(f"there is no code {subject}\nhelp: these there are:\n{listing}")
