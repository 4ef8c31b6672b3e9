"""House rules that matter, as tests: lint, types, imports, banned calls, sizes, dead files.

A rule that fails prints the place and what to do instead. An exception stands here with its
reason, never in the code.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from quantdsl.cli import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "quantdsl"

FLOW = {
    "errors": "",
    "limits": "errors",
    "frames": "",
    "events": "errors limits",
    "lang": "errors limits",
    "ir": "errors limits frames",
    "passes": "errors limits ir",
    "codegen": "errors limits frames events ir passes",
    "devices": "errors limits ir passes codegen",
    "check": "errors limits frames events lang ir",
    "files": "errors limits",
    "wanted": "",
    "zones": "errors",
    "config": "errors limits files shipped wanted zones",
    "feeds": "errors limits events data codegen.decoders "
    "live.feed live.connection live.rest live.fetch",
    "shipped": "errors",
    "data": "errors limits files events config feeds shipped wanted zones",
    "report": "errors limits files events data",
    "backtest": "errors limits events lang ir passes codegen devices check config data report "
    "shipped",
    "journal": "errors limits events backtest",
    "live": "errors limits events lang ir passes codegen devices check config data report shipped "
    "backtest journal wanted",
    "cockpit": "errors config live.view",
}
"""Folder -> what it may import, a whole folder or one module of it.

cli, what starts it, the Python interface and tools stand above all of them.
"""

BESIDE_THE_FLOW = {
    "quantdsl.api.backtest": "the package quantdsl.backtest is also the function of that name",
    "quantdsl.codegen.cache.Cache": "typed IR of std and schedules of calendars are kept there too",
}

BANNED = {
    "eval": "user text never becomes Python",
    "exec": "user text never becomes Python",
    "os.system": "nothing here starts a shell",
    "time.time": "a run knows no clock but event time",
    "time.time_ns": "a run knows no clock but event time",
    "datetime.now": "a run knows no clock but event time",
    "datetime.utcnow": "a run knows no clock but event time",
    "np.random.seed": "use np.random.default_rng(seed) of your own",
}
BANNED_MODULES = {
    "pickle": "it runs what it reads; use msgspec",
    "marshal": "it runs what it reads; use msgspec",
    "shelve": "it runs what it reads; use msgspec",
    "subprocess": "the product starts no process",
    "requests": "the core opens no socket",
    "dataclasses": "each is half a millisecond of every start; a msgspec.Struct is a tenth of it",
}
PROCESS_STARTERS = {
    "quantdsl/live/supervisor.py": "a session is a process of its own, and this very program",
    "quantdsl/codegen/sass.py": "NVIDIA's disassembler is a program only",
    "quantdsl/cockpit/alerts.py": "an alert may start the program that the config names",
}
CLOCK_READERS = {
    "quantdsl/cockpit/history.py": "what the host itself says is stamped by wall-clock time",
    "quantdsl/codegen/cache.py": "the age of a left-over file is wall-clock time",
    "quantdsl/live/feed.py": "times of receipt begin at the system's clock",
    "quantdsl/live/clock.py": "the cycle counter is set by the system's clock",
}

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 650
BLOB_BYTES_MAX = 300_000


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that git knows of or would add, and that is still there."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split("\n")
    paths = [ROOT / name for name in listed if name]
    return tuple(path for path in paths if path.is_file()) or tuple(PACKAGE.rglob("*.py"))


def python_files(folder: Path = ROOT) -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py" and folder in path.parents]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of each import; `from quantdsl import x` is quantdsl.x."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


@pytest.mark.parametrize("tool", ["ruff check .", "mypy"])
def test_lint_and_types(tool):
    done = subprocess.run(
        [sys.executable, "-m", *tool.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def part_of(path: Path) -> str:
    """The folder or module of the package that a file belongs to; feeds/ is one of them."""
    relative = path.relative_to(ROOT).parts
    return "feeds" if relative[0] == "feeds" else relative[1].removesuffix(".py")


def test_imports_follow_the_flow():
    wrong = []
    for path in [*python_files(PACKAGE), *python_files(ROOT / "feeds")]:
        here = part_of(path)
        if here not in FLOW:
            continue
        allowed = {here, "__version__", *FLOW[here].split()}
        for line, name in imported(path):
            parts = name.split(".")
            ours = parts[0] == "quantdsl" and len(parts) > 1 and name not in BESIDE_THE_FLOW
            if ours and not {parts[1], ".".join(parts[1:3])} & allowed:
                wrong.append(f"{short(path)}:{line}: {here} must not import {name}")
    assert not wrong, "\n".join(wrong)


def test_the_code_map_names_every_part():
    """A package or module that quantdsl/ARCHITECTURE.md does not tell of is new to its readers."""
    text = (PACKAGE / "ARCHITECTURE.md").read_text(encoding="utf-8")
    parts = {path.relative_to(PACKAGE).parts for path in tracked() if PACKAGE in path.parents}
    names = {f"{part[0]}/" if len(part) > 1 else part[0] for part in parts}
    named = set(re.findall(r"^\| `([a-z_]+(?:/|\.py))`", text, re.MULTILINE))
    known = {name for name in names if name.endswith(("/", ".py"))} - {"__init__.py"}
    assert known == named


def test_every_part_stands_in_the_flow():
    parts = {part_of(path) for path in python_files(PACKAGE)}
    assert (parts - {"__init__", "__main__", "cli", "api"}) | {"feeds"} == set(FLOW)


def test_only_feeds_and_configs_know_a_venue():
    pattern = re.compile(r"\b(binance|coinbase|kraken|bybit|okx)\b", re.IGNORECASE)
    parts = ("codegen", "ir", "passes", "std", "backtest", "events")
    wrong = [
        f"{short(path)}: names {found[0]}"
        for path in tracked()
        if any(PACKAGE / part in path.parents for part in parts)
        and (found := pattern.search(path.read_text(encoding="utf-8")))
    ]
    assert not wrong, "\n".join(wrong)


def test_banned_calls_and_modules():
    wrong = []
    for path in [*python_files(PACKAGE), *python_files(ROOT / "feeds")]:
        for line, name in imported(path):
            if name == "subprocess" and short(path) in PROCESS_STARTERS:
                continue
            if reason := BANNED_MODULES.get(name.split(".")[0]):
                wrong.append(f"{short(path)}:{line}: import of {name}: {reason}")
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                reason = BANNED.get(name)
                if reason and not ("clock" in reason and short(path) in CLOCK_READERS):
                    wrong.append(f"{short(path)}:{node.lineno}: {name}(): {reason}")
    assert not wrong, "\n".join(wrong)


def test_functions_are_short():
    wrong = [
        f"{short(path)}:{node.lineno}: {node.name} has {length} lines, {FUNCTION_LINES_MAX} allowed"
        for path in python_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert not wrong, "\n".join(wrong)


def test_files_are_small():
    wrong = []
    for path in tracked():
        if path.suffix in (".py", ".qdsl"):
            lines = path.read_text(encoding="utf-8").splitlines()
            if len(lines) > FILE_LINES_MAX:
                wrong.append(f"{short(path)}: {len(lines)} lines, {FILE_LINES_MAX} allowed")
    assert not wrong, "\n".join(wrong)


def test_no_large_file_is_committed():
    wrong = [
        f"{short(path)}: {path.stat().st_size:,} bytes"
        for path in tracked()
        if path.stat().st_size > BLOB_BYTES_MAX
    ]
    assert not wrong, "\n".join(wrong)


def test_no_left_over_notes_and_no_path_of_a_machine():
    notes = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"))
    places = "|".join(("/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/t" + "mp/", "/Us" + "ers/"))
    pattern = re.compile(rf"\b(?:{notes})\b|(?<![\w.])(?:{places})")
    wrong = []
    for path in tracked():
        if "assets" in path.parts or path.suffix in (".gz", ".parquet", ".png"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if found := pattern.search(line):
                wrong.append(f"{short(path)}:{number}: {found[0]}")
    assert not wrong, "\n".join(wrong)


def test_every_module_is_used():
    """A module that nothing imports, by statement or by its name in quotes, is dead."""
    names = set()
    for path in python_files():
        names |= {name for _, name in imported(path)}
    used = names | {name.rpartition(".")[0] for name in names}
    used |= {f"quantdsl.cli.{module}" for module, _ in COMMANDS.values()}
    quoted = re.compile(r"[\"'](quantdsl\.[\w.]+)[\"']")
    for path in python_files(PACKAGE):
        used |= set(quoted.findall(path.read_text(encoding="utf-8")))
    wrong = []
    for path in python_files(PACKAGE):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if path.name not in ("__init__.py", "__main__.py") and module not in used:
            wrong.append(f"{short(path)}: nothing imports it")
    assert not wrong, "\n".join(wrong)


def test_every_definition_is_used():
    """A top-level function or class whose name occurs nowhere else is dead."""
    texts = [path.read_text(encoding="utf-8") for path in python_files()]
    words = re.findall(r"\w+", "\n".join([*texts, (ROOT / "pyproject.toml").read_text()]))
    count: dict[str, int] = {}
    for word in words:
        count[word] = count.get(word, 0) + 1
    wrong = [
        f"{short(path)}:{node.lineno}: {node.name} is used nowhere"
        for path in python_files(PACKAGE)
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.decorator_list  # a decorator registers it
        and count[node.name] == 1
    ]
    assert not wrong, "\n".join(wrong)


def test_the_product_needs_only_what_it_declares():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[\[<>=;~ ]", need)[0] for need in project["dependencies"]}
    # Extras: imported only when a GPU is asked for, or a Databento file.
    declared |= {"cuda", "databento-dbn"}
    declared |= {"hdrh"} if "hdrhistogram" in declared else set()  # its import name
    wrong = []
    for path in [*python_files(PACKAGE), *python_files(ROOT / "feeds")]:
        for line, name in imported(path):
            package = name.split(".")[0]
            known = package in sys.stdlib_module_names or package == "quantdsl"
            if not known and package.replace("_", "-") not in declared:
                wrong.append(f"{short(path)}:{line}: {package} is no run-time dependency")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["make demo", "make test"])
def test_the_readme_shows_the_two_commands(name):
    assert f"`{name}`" in (ROOT / "README.md").read_text(encoding="utf-8")
