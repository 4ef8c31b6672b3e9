"""The command line as a user meets it: every command, its messages and its exit codes."""

import importlib
import os
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

import pytest

from quantdsl import cli
from quantdsl.cli.new import starter
from quantdsl.errors import DataError
from quantdsl.lang.format import format_source
from quantdsl.report.metrics import evaluate
from quantdsl.report.store import load, save
from quantdsl.shipped import shipped
from tests.report.synthetic import synthetic_run


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Without files of compiled modules: a limit on the size of files would cut those off too."""
    return subprocess.run(
        [sys.executable, "-B", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_imports_nothing_that_a_command_needs():
    """Which is what makes it quick; bench_startup.py times it."""
    code = "import sys, quantdsl.cli; quantdsl.cli.run(['--help']); print(*sys.modules)"
    loaded = python("-c", code).stdout.split()
    heavy = {"numpy", "pyarrow", "msgspec", "rich", "llvmlite", "quantdsl.lang", "asyncio"}
    assert "click" in loaded
    assert not heavy & set(loaded)


MAKES = {"rich", "tomllib", "numpy.random", "quantdsl.passes", "quantdsl.codegen.emit",
         "quantdsl.backtest.critical"}  # fmt: skip
"""For a progress bar, a config, a market that is not kept, code that is not cached."""
COMPILES = {"llvmlite", "pyarrow", "rich", "quantdsl.ir.interp", "quantdsl.codegen.emit"}


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        (["check"], {"numpy", *COMPILES}),
        (["backtest", "--out", "out"], {"pandas", "pyarrow.compute", "numpy.ma", *MAKES}),
    ],
    ids=["check", "backtest"],
)
def test_a_command_imports_what_it_needs_alone(command: list[str], heavy: set[str], tmp_path):
    """Each of these would be as much as a tenth of the time that it takes."""
    path = str(shipped("strategies/sma_cross.qdsl"))
    run = f"quantdsl.cli.run({[command[0], path, *command[1:]]!r})"
    for _ in range(2):  # the second finds in the cache what the first had to make
        done = python("-c", f"import os, sys, quantdsl.cli; os.chdir({str(tmp_path)!r}); "
                      f"status = {run}; print(status, *sys.modules)")  # fmt: skip
    status, *loaded = done.stdout.splitlines()[-1].split()
    assert status == "0", done.stderr
    assert "quantdsl.check.checked" in loaded
    assert not heavy & set(loaded)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_describes_itself(name, capsys):
    module = importlib.import_module(f"quantdsl.cli.{cli.COMMANDS[name][0]}")
    assert module.command.name == name
    assert cli.run([name, "--help"]) == 0
    assert "Usage: quantdsl" in capsys.readouterr().out


def test_version(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("quantdsl, version 0.")


def test_the_package_runs_as_a_module():
    assert python("-m", "quantdsl", "--version").stdout.startswith("quantdsl")


def test_a_misspelt_command_is_answered_with_the_right_one(capsys):
    assert cli.run(["bcktest"]) == 2
    assert "Did you mean 'backtest'?" in capsys.readouterr().err


def test_completion_lists_commands():
    completed = python(
        "-m",
        "quantdsl",
        _QUANTDSL_COMPLETE="bash_complete",
        COMP_WORDS="quantdsl ba",
        COMP_CWORD="1",
    )
    assert completed.stdout.split() == ["plain,backtest"]


# ---- errors ----------------------------------------------------------------------------------


@pytest.fixture
def failing(monkeypatch):
    """Makes `quantdsl cache` raise what the test wants."""

    def plant(error: BaseException) -> None:
        def raises(**_: object) -> None:
            raise error

        module = types.ModuleType("quantdsl.cli.failing")
        module.command = cli.click.Command("cache", callback=raises)
        monkeypatch.setitem(sys.modules, "quantdsl.cli.failing", module)
        monkeypatch.setitem(cli.COMMANDS, "cache", ("failing", ""))

    return plant


def test_a_users_error_is_its_message_and_exit_code_2(failing, capsys):
    failing(DataError("bars.csv:3: no number\nhelp: mend it"))
    assert cli.run(["cache"]) == 2
    assert capsys.readouterr().err == "error: bars.csv:3: no number\nhelp: mend it\n"


def test_our_own_failure_is_a_report_file_and_exit_code_70(failing, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failing(ZeroDivisionError("division by zero"))
    assert cli.run(["cache"]) == 70
    message = capsys.readouterr().err
    assert message.startswith("error QD9001: quantdsl itself failed: ZeroDivisionError")
    assert "Traceback" not in message
    (report,) = tmp_path.iterdir()
    assert str(report) in message
    assert "Traceback" in report.read_text()


def test_a_folder_that_cannot_be_made_is_a_message(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert cli.run(["demo", "--out", str(tmp_path / "file" / "run")]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: {tmp_path}/file/run: the report cannot be written: Not a")
    assert "--out" in message


def test_a_full_disk_is_a_message_and_leaves_no_half_a_file(tmp_path):
    """A limit on the size of files stands for the disk: writing beyond it fails in the same way."""
    code = (
        "import resource, sys\n"
        "from quantdsl import cli\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "sys.exit(cli.run(['demo', '--out', sys.argv[1]]))"
    )
    failed = python("-c", code, str(tmp_path))
    assert failed.returncode == 2
    assert f"{tmp_path}: the report cannot be written: File too large\n" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".part"]
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("command", ["backtest", "data"])
def test_a_name_that_is_not_utf_8_is_a_message(command, tmp_path, capsys):
    """Arrow opens no such file; of a folder's file it is not the user who named it."""
    bars = b"time,close\n2024-01-02,1\n2024-01-03,2\n2024-01-04,3\n"
    folder = tmp_path / "folder"
    folder.mkdir()
    named = os.fsdecode(os.fsencode(folder) + b"/b\xe4r.csv")
    try:
        Path(named).write_bytes(bars)
    except OSError:
        pytest.skip("names are UTF-8 on this file system")
    for path in (named, str(folder)):
        if command == "backtest":
            argv = ["backtest", str(shipped("strategies/buy_and_hold.qdsl")), "--data", path]
        else:
            argv = ["data", "check", path]
        assert cli.run(argv) == 2
        assert "b\\udce4r.csv: the name is not text in UTF-8: rename it" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fmt", "new"])
def test_a_full_disk_leaves_the_users_files_as_they_were(command, tmp_path):
    """A strategy that is formatted is exchanged, not cut off; a new one is whole or not there."""
    file = tmp_path / "idea.qdsl"
    text = starter("idea").replace(" = ", "  =  ")
    if command == "fmt":
        file.write_text(text)
    code = (
        "import resource, sys\n"
        "from quantdsl import cli\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "sys.exit(cli.run(sys.argv[1:]))"
    )
    failed = python("-c", code, command, str(file))
    assert failed.returncode == 2
    assert failed.stderr == f"error: {file}: File too large\n"
    assert [path.read_text() for path in tmp_path.iterdir()] == [text] * (command == "fmt")


def test_a_module_that_a_full_disk_cut_off_is_no_interrupt(monkeypatch, capsys):
    """Python writes what it compiles, and reads of it as much as there is room for."""

    def cut(_name):
        raise EOFError("marshal data too short")

    monkeypatch.setattr(importlib, "import_module", cut)
    assert cli.run(["devices"]) == 2
    said = capsys.readouterr().err
    assert "is cut off, as a full disk leaves it\nhelp: remove the folders __pycache__" in said
    assert "interrupted" not in said


@pytest.mark.parametrize("command", ["compile", "paper"])
def test_a_full_disk_is_named_with_the_file_that_it_refuses(command, tmp_path):
    sizes = {"compile": 100, "paper": 2_000}  # of a session the sources fit, the manifest does not
    code = (
        "import resource, sys\n"
        "from quantdsl import cli\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({sizes[command]}, {sizes[command]}))\n"
        "sys.exit(cli.run(sys.argv[1:]))"
    )
    file = tmp_path / "idea.qdsl"
    file.write_text(starter("idea"))
    made = tmp_path / "made"
    options = {
        "compile": ("--backend", "llvm", "-o", str(made)),
        "paper": ("--session", str(made), "--no-cockpit"),
    }
    failed = python("-c", code, command, str(file), *options[command])
    assert failed.returncode == 2
    refused = made if command == "compile" else made / "session.json"
    assert failed.stderr == f"error: {refused}: File too large\n"
    assert command == "paper" or [path.name for path in tmp_path.iterdir()] == ["idea.qdsl"]


def test_a_param_that_is_none_leaves_no_session_behind(tmp_path, capsys):
    file, folder = tmp_path / "idea.qdsl", tmp_path / "made"
    file.write_text(starter("idea"))
    said = ("paper", str(file), "--session", str(folder), "--no-cockpit", "--set", "nope=1")
    assert cli.run([*said]) == 2
    assert "the strategy has no param 'nope'" in capsys.readouterr().err
    assert not folder.exists()


def test_fmt_keeps_the_mode_of_a_file_and_what_a_link_points_to(tmp_path):
    file, link = tmp_path / "idea.qdsl", tmp_path / "link.qdsl"
    file.write_text(starter("idea").replace(" = ", "  =  "))
    file.chmod(0o640)
    link.symlink_to(file)
    assert cli.run(["fmt", str(link)]) == 0
    assert link.is_symlink()
    assert file.read_text() == starter("idea")
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("line", [["--help"], ["help"], ["check", "-h"], ["devices"]])
def test_a_reader_that_has_gone_is_no_failure(line):
    """As with `quantdsl help | head -1`: click of its own accord would end with 1."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "quantdsl", *line]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_streams_are_no_failure():
    command = shlex.join([sys.executable, "-m", "quantdsl", "cache", "info"])
    done = subprocess.run(["/bin/sh", "-c", f"exec {command} >&- 2>&-"], check=False)
    assert done.returncode == 0


def in_an_extension() -> SystemError:
    """What C code makes of Ctrl-C while it is imported."""
    error = SystemError("returned a result with an exception set")
    error.__cause__ = KeyboardInterrupt()
    return error


def test_a_cache_that_cannot_be_used_is_told_once(tmp_path):
    place = tmp_path / "a file"
    place.touch()
    command = [sys.executable, "-m", "quantdsl", "demo", "--out", str(tmp_path / "out")]
    env = {**os.environ, "XDG_CACHE_HOME": str(place)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stderr == f"warning: {place}/quantdsl is not used: Not a directory\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), in_an_extension()])
def test_an_interrupt_is_clean(failing, capsys, error):
    failing(error)
    assert cli.run(["cache"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


# ---- commands --------------------------------------------------------------------------------


def test_new_writes_a_canonical_strategy_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["new", "my_idea"]) == 0
    text = Path("my_idea.qdsl").read_text()
    assert "strategy MyIdea:" in text
    assert format_source(text) == text
    assert cli.run(["new", "my_idea.qdsl"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert Path("my_idea.qdsl").read_text() == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("sweep FILE --top 3 --top=5", "--top is given as 3 and as 5\nhelp: give it once"),
        ("signals FILE --device cpu --device auto", "--device is given as cpu and as auto"),
        ("compile FILE -o a --out b", "--out is given as a and as b"),
        ("backtest FILE --data a --data b", "help: name all at once, --data a,b"),
        ("compile FILE --arch sm_80 --arch sm_90", "help: name all at once, --arch sm_80,sm_90"),
        ("bench kernels FILE --device simulated --device cuda:0", "--device is given as simulated"),
        ("journal show FILE --last 1 --last 2", "--last is given as 1 and as 2"),
    ],
)
def test_an_option_that_is_given_two_values_is_refused(arguments, said, capsys):
    """The last was taken, and the others left out."""
    file = str(shipped("strategies/sma_cross.qdsl"))
    assert cli.run(arguments.replace("FILE", file).split()) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["backtest", "sweep", "signals", "verify", "paper", "bench latency"]
)
def test_a_config_that_names_nothing_is_not_a_run_without_costs(command, capsys):
    file = str(shipped("strategies/sma_cross.qdsl"))
    assert cli.run([*command.split(), file, "--config", ""]) == 2
    assert "--config names nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    ["backtest FILE --out=", "sweep FILE --save-best=", "compile FILE -o ''", "demo --out="],
)
def test_a_place_that_is_empty_is_not_this_folder(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = shlex.split(arguments.replace("FILE", str(shipped("strategies/sma_cross.qdsl"))))
    assert cli.run(command) == 2
    assert " names nothing\nhelp: leave it out" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_an_option_may_stand_twice_with_one_value(tmp_path, capsys):
    file = str(shipped("strategies/sma_cross.qdsl"))
    command = ["check", file, "--json", "--json"]
    assert cli.run(command) == 0
    repeated = ["--set", "fast=5", "--set", "slow=30", "--tz", "UTC", "--tz", "UTC"]
    assert cli.run(["backtest", file, *repeated, "--out", str(tmp_path / "out")]) == 0


def test_a_backtest_says_which_command_a_device_is_for(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["backtest", str(shipped("strategies/sma_cross.qdsl"))]
    assert cli.run([*command, "--device", "cuda:0"]) == 2
    error = capsys.readouterr().err
    assert "--device cuda:0: a backtest is one run" in error
    assert "help: quantdsl sweep FILE --device" in error
    assert not [*tmp_path.iterdir()]
    assert cli.run([*command, "--device", "cpu", "--out", "told"]) == 0
    assert cli.run([*command, "--out", "untold"]) == 0
    assert (tmp_path / "told/report.html").read_bytes() == (
        tmp_path / "untold/report.html"
    ).read_bytes()


def test_what_new_writes_checks_clean_passes_its_test_and_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["new", "x"],
        ["check", "x.qdsl"],
        ["test", "x.qdsl"],
        ["backtest", "x.qdsl"],
    ):
        assert cli.run(arguments) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "warning" not in said
    assert "1 test, 0 failed" in said
    assert load(Path("out/x")).metrics["trades"] > 0


def test_the_demo_trades(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["demo"]) == 0
    metrics = load(Path("out/demo")).metrics
    assert metrics["trades"] >= 100
    assert metrics["rejected_orders"] < 0.01 * metrics["orders"]
    assert "out/demo/report.html" in capsys.readouterr().out


def test_equal_runs_of_two_processes_write_equal_bytes(tmp_path):
    file = str(shipped("strategies/sma_cross.qdsl"))
    for seed in ("1", "2"):
        arguments = "-m", "quantdsl", "backtest", file, "--out", str(tmp_path / seed)
        assert python(*arguments, PYTHONHASHSEED=seed).returncode == 0
    for path in (tmp_path / "1").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes(), path.name


@pytest.mark.parametrize("name", ["My Idea", "1st", "a-b", "grün"])
def test_new_refuses_what_is_no_name(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["new", name]) == 2
    assert "cannot be the name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_fmt_formats_in_place_and_checks(tmp_path, capsys):
    file = tmp_path / "idea.qdsl"
    file.write_text(starter("idea").replace("    bars 5m ", "    bars   5m "))
    assert cli.run(["fmt", "--check", str(file)]) == 1
    assert cli.run(["fmt", str(file)]) == 0
    assert file.read_text() == starter("idea")
    assert cli.run(["fmt", "--check", str(file)]) == 0
    assert capsys.readouterr().err.count("idea.qdsl") == 2


def test_fmt_of_a_broken_file_shows_where(tmp_path, capsys):
    file = tmp_path / "idea.qdsl"
    file.write_text("language 1\nstrategy A:\n    let x = (1 +\n")
    assert cli.run(["fmt", str(file)]) == 2
    assert "idea.qdsl:3" in capsys.readouterr().err


def test_explain_shows_a_page_or_what_there_is(capsys):
    assert cli.run(["explain", "qd0106"]) == 0
    assert capsys.readouterr().out.startswith("QD0106: ")
    assert cli.run(["explain", "QD0199"]) == 2
    assert "QD0106" in capsys.readouterr().err
    assert cli.run(["explain", str(shipped("strategies/sma_cross.qdsl"))]) == 2
    assert "--stage" in capsys.readouterr().err
    assert cli.run(["explain", "nope.qdsl"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: nope.qdsl: there is no such file")
    assert "QD0106" not in told


@pytest.mark.parametrize(
    ("stage", "part"),
    [
        ("ast", "name: Ident id='SmaCross'"),
        ("ir", "fn "),
        ("known", "fn "),
        ("llvm", "define "),
        ("asm", "ret"),
    ],
)
def test_explain_prints_a_stage(stage, part, capsys):
    file = str(shipped("strategies/sma_cross.qdsl"))
    assert cli.run(["explain", file, "--stage", stage]) == 0
    assert part in capsys.readouterr().out
    assert cli.run(["explain", file, "--stage", "nothing"]) == 2
    assert "one of ast, plan, ir" in capsys.readouterr().err


def test_explain_prints_what_a_sweep_computes_once(capsys):
    file = str(shipped("strategies/sma_cross.qdsl"))
    assert cli.run(["explain", file, "--stage", "plan", "--range", "slow=50..90:10"]) == 0
    shown = capsys.readouterr().out
    rows = {line.split()[2]: line for line in shown.splitlines() if " let " in line}
    assert rows["f"].split()[-9:-7] == ["fast", "10"]
    assert rows["s"].split()[-9:-7] == ["slow", "5"]
    assert rows["s"].endswith("4,000,000  column on a GPU")
    assert rows["atr"].endswith("once, for it is the same at every point")
    assert "On a GPU 2 of 3 equations are columns, 12,000,000 bytes." in shown
    assert "On a CPU 0 of 3 equations are columns, 0 bytes." in shown
    assert cli.run(["explain", file, "--stage", "ir", "--range", "slow=50..90:10"]) == 2
    assert "--range belongs to --stage plan" in capsys.readouterr().err


def test_explain_prints_the_kernels_of_signals(capsys):
    file = str(Path(__file__).parents[2] / "bench/signals.qdsl")
    assert cli.run(["explain", file, "--stage", "plan"]) == 0
    shown = capsys.readouterr().out
    assert "1. along time: a lane an instrument, 15 equations in one loop" in shown
    assert "reads high, low, close: 24 bytes" in shown
    assert "2. across: a lane an instant, xs.neutralize, xs.rank, xs.rank" in shown
    assert "reads z60, gap, range, z20, rsi: 40 bytes" in shown
    assert "Moved 264 bytes a bar; the least is 184: 3 words in, 20 out." in shown
    each = re.findall(r"(\d+) registers, (\d+) bytes spilled", shown)
    most, spilled = max(int(one) for one, _ in each), sum(one != "0" for _, one in each)
    told = f"{most} of 255 registers at most on sm_90, {spilled or 'no'} kernel"
    assert f"Fused as far as equations need each other: {told}" in shown
    # The first piece of a window, those amid time and the last one have a stream each.
    assert "7 parts beside each other on 15 streams" in shown
    assert "ret, mean60, std60: 32 bytes, 2520 bars in 7 pieces that begin 62 bars" in shown
    file = str(shipped("strategies/xs_momentum.qdsl"))
    assert cli.run(["explain", file, "--stage", "plan"]) == 0
    told = capsys.readouterr().out
    assert "factor of adjusted prices" in told
    assert "--device auto takes" in told


def test_explain_prints_a_plan_where_nothing_is_swept(tmp_path, capsys):
    path = tmp_path / "kernel.qdsl"
    path.write_text(
        "kernel last(r: window[float, 8]) -> float:\n    return r[7]\n\nstrategy S:\n    bars 1d\n"
        "    param share = 0.5 in 0.1..0.9\n    let x = last(close)\n    plot(x * share)\n"
    )
    assert cli.run(["explain", str(path), "--stage", "plan"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == ["S: nothing to sweep", "kernel last: elementwise, over 8 values"]
    path.write_text(path.read_text().replace("last(close)", "close[7]").partition("\n\n")[2])
    assert cli.run(["explain", str(path), "--stage", "plan"]) == 2
    assert "there is nothing to sweep" in capsys.readouterr().err


def test_help_describes_a_function(capsys):
    assert cli.run(["help", "ta.sma"]) == 0
    page = capsys.readouterr().out
    assert "ta.sma(src: series[price], len: const int) -> float" in page
    assert "warm-up  len" in page
    assert cli.run(["help", "ta.smma"]) == 2
    assert "ta.sma" in capsys.readouterr().err
    assert cli.run(["help", "len"]) == 2  # what it takes is told with it alone
    assert cli.run(["help", "ioc"]) == 0
    assert capsys.readouterr().out.startswith("tif = ")
    assert cli.run(["help", "month_end"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("at 15:45 | session_open + 5m | session_close - 5m [on ")
    for space in ("xs", "xs."):
        assert cli.run(["help", space]) == 0
        page = capsys.readouterr().out
        assert page.startswith("xs\n  xs.bottom ")
        assert "xs.neutralize          What a straight line through `y`" in page  # the first form


def test_cache_is_shown_and_cleared(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("QUANTDSL_CACHE_DIR", str(tmp_path / "cache"))
    assert cli.run(["cache", "info"]) == 0
    assert "0 entries" in capsys.readouterr().out
    assert cli.run(["cache", "clear"]) == 0


def test_compare_says_what_differs(tmp_path, capsys):
    for days in (10, 12):
        run = synthetic_run(days)
        save(run, evaluate(run), tmp_path / str(days))
    assert cli.run(["compare", str(tmp_path / "10"), str(tmp_path / "12")]) == 0
    said = capsys.readouterr().out
    assert "Net profit" in said
    assert "in the second run only" in said
    assert cli.run(["compare", str(tmp_path / "10"), str(tmp_path / "10")]) == 0
    assert "Every figure is the same." in capsys.readouterr().out
    assert cli.run(["compare", str(tmp_path), str(tmp_path / "10")]) == 2
    assert "not the folder of a run" in capsys.readouterr().err


def test_backtest_passes_its_options_on_and_writes_the_report(tmp_path, monkeypatch, capsys):
    asked = {}

    def backtest(path, **options):
        asked.update(options, path=path)
        return synthetic_run(10)

    monkeypatch.setattr("quantdsl.backtest.run.backtest", backtest)
    file = tmp_path / "idea.qdsl"
    file.write_text(starter("idea"))
    out = tmp_path / "run"
    arguments = ["--set", "fast=5", "--set", "slow = 20", "--from", "2024-01-01", "--out", str(out)]
    assert cli.run(["backtest", str(file), *arguments]) == 0
    assert asked["path"] == file
    assert asked["params"] == {"fast": "5", "slow": "20"}
    assert asked["start"] == "2024-01-01"
    assert (out / "report.html").exists()
    assert "Total return" in capsys.readouterr().out
    assert cli.run(["backtest", str(file), "--set", "fast"]) == 2
    assert "--set NAME=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize("words", [
    ["record", "binance", "BTCUSDT", "--out", "there", "--for"],
    ["record", "binance", "BTCUSDT", "--out", "there", "--minutes-a-file"],
    ["bench", "latency", "--rate"],
])  # fmt: skip
@pytest.mark.parametrize("number", ["nan", "inf"])
def test_no_number_of_seconds_is_nan_or_inf(capsys, tmp_path, monkeypatch, words, number):
    monkeypatch.chdir(tmp_path)
    assert cli.run([*words, number]) == 2
    assert f"'{words[-1]}': {number} is not a finite number." in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
