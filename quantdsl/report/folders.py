"""What a folder holds that a command was given in place of one of another kind."""

from pathlib import Path

import msgspec

from quantdsl.report.store import PAGE, RUN
from quantdsl.report.sweep_store import POINTS, RESULT
from quantdsl.report.words import plural


class _Best(msgspec.Struct, frozen=True):
    command: str


class _Saved(msgspec.Struct, frozen=True):
    """What run.json and result.json have in common, and of a sweep its points."""

    strategy: str
    source_path: str
    points: int = 0
    best: tuple[_Best, ...] = ()


def instead(folder: Path) -> str:
    """What a run or a sweep left in `folder` and what is done with it, as the end of a refusal;
    empty where none is found."""
    if (folder / f"{POINTS}.parquet").is_file():  # beside the folders of several files' sweeps too
        for path in (folder / RESULT, *sorted(folder.glob(f"*/{RESULT}"))):
            if (saved := _read(path)) is not None and saved.best:
                count = plural(saved.points, "point")
                where = "its page is" if path.parent == folder else "its first page is"
                return (
                    f": it holds a sweep of {saved.strategy}, {count}, as 'quantdsl sweep "
                    f"{saved.source_path}' leaves it\nhelp: {where} {path.parent / PAGE}; "
                    "the command beside a point there makes it a run to compare, such as: "
                    f"{saved.best[0].command} --out FOLDER"
                )
    if (saved := _read(folder / RUN)) is not None:
        return (
            f": it holds a run of {saved.strategy}, as 'quantdsl backtest {saved.source_path}' "
            f"leaves it\nhelp: its page is {folder / PAGE}; 'quantdsl compare' takes two such "
            "folders"
        )
    return ""


def _read(path: Path) -> _Saved | None:
    """None where there is no such file, or one of another program."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Saved)
    except (OSError, msgspec.MsgspecError):
        return None
