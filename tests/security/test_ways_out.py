"""C1, C8: user text never becomes code, and a strategy reaches nothing outside its folder."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from quantdsl.check import check_source, compile_file
from quantdsl.codegen.emit import emit
from quantdsl.codegen.target import native
from quantdsl.errors import QuantDSLError
from quantdsl.lang.source import Source
from tests.security.mutants import SHIPPED

ROOT = Path(__file__).parents[2]
ORDER = "    on bar:\n        buy(1 shares)\n"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
PLACES = 13
SANDBOX = """
import json, resource, socket, sys
from pathlib import Path
from quantdsl.check import check_source, compile_file
from quantdsl.codegen.jit import object_code
from quantdsl.codegen.target import native
from quantdsl.lang.source import Source

def refuse(*_):
    raise AssertionError("the compiler opened a socket")

socket.socket = refuse
pages = int(Path("/proc/self/statm").read_text().split()[0])
memory = pages * resource.getpagesize() + 1024 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
sizes = {}
for path in sys.argv[1:]:
    checked, found = check_source(Source.read(Path(path)))
    sizes[path] = len(object_code(checked.module(), native()))
print(json.dumps(sizes))
"""


def named(marks):
    """A strategy whose every name, string and comment is one of the marks."""
    a, b, c, d, e, f, g, h, i, j, k, m, n = marks
    return (
        f"# {a}\nconst {b} = 2.0\nenum {c}: {d}, {e}\n"
        f"fn {f}({g}: float) -> float = {g} * {b}\n"
        f"strategy {h}:\n    \"{a}\"\n    bars 5m\n    param {i} = 5 in 2..9\n"
        f"    let {j} = {f}(ta.sma(close, {i}))\n    state {k} = {c}.{d}\n"
        f"    action {m}({n}: float):\n        if close > {n}:\n"
        f"            buy(1 shares, tag = \"{a}\")\n            {k} = {c}.{e}\n"
        f"    on bar:\n        {m}({j})\n        log(\"{a} {{{j}}}\")\n"
        f"        if {k} == {c}.{e}:\n            flatten()\n    plot({j}, \"{a}\")\n"
    )


@pytest.mark.parametrize("seed", range(8))
def test_names_and_texts_of_the_user_are_not_in_the_machine_code(seed):
    random = Random(seed)
    marks = ["q" + "".join(random.choices(LETTERS, k=random.randint(5, 63))) for _ in range(PLACES)]
    checked, found = check_source(Source(named(marks)))
    assert checked is not None, found[:1]
    text = emit(checked.module(), native())
    assert [mark for mark in marks if mark in text] == []


def test_the_corpus_compiles_confined():
    files = [str(path) for path in sorted(SHIPPED.glob("*.qdsl"))]
    run = subprocess.run([sys.executable, "-c", SANDBOX, *files], cwd=ROOT, capture_output=True,
                         text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert set(json.loads(run.stdout)) == set(files)


OUTSIDE = ("import ..secret", "import /etc/passwd", 'import "../secret"', "import lib/../secret",
           "from .. import secret", "import lib.../secret", "import ~.secret", "import C:.secret")


@pytest.mark.parametrize("line", OUTSIDE)
def test_an_import_names_no_place_outside(tmp_path, line):
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.qdsl").write_text("const a = 1\n")
    text = f"{line}\nstrategy S:\n    bars 5m\n{ORDER}"
    checked, found = check_source(Source(text, str(tmp_path / "inside" / "s.qdsl")))
    assert checked is None
    assert found


@pytest.mark.parametrize("place", ["file", "folder", "deep folder"])
def test_an_import_follows_no_symbolic_link(tmp_path, place):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    (outside / "b").mkdir(parents=True)
    inside.mkdir()
    (outside / "secret.qdsl").write_text("const a = 1\n")
    (outside / "b" / "secret.qdsl").write_text("const a = 1\n")
    if place == "file":
        (inside / "lib").mkdir()
        (inside / "lib" / "secret.qdsl").symlink_to(outside / "secret.qdsl")
        path = "lib.secret"
    elif place == "folder":
        (inside / "lib").symlink_to(outside)
        path = "lib.secret"
    else:
        (inside / "lib").symlink_to(outside)
        path = "lib.b.secret"
    text = f"import {path}\nstrategy S:\n    bars 5m\n{ORDER}"
    checked, found = check_source(Source(text, str(inside / "s.qdsl")))
    assert checked is None
    assert [d.code for d in found if d.severity == "error"] == ["QD0213"]


def test_imports_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a.qdsl").write_text("import b\nfn f(x: float) -> float = x\n")
    (tmp_path / "b.qdsl").write_text("import a\nfn g(x: float) -> float = x\n")
    text = f"import a\nstrategy S:\n    bars 5m\n{ORDER}"
    with pytest.raises(QuantDSLError, match="QD0213"):
        compile_text(text, tmp_path)


def compile_text(text, folder):
    path = folder / "s.qdsl"
    path.write_text(text)
    return compile_file(path)


@pytest.mark.parametrize("call", ["open_file(1)", "exec(1)", "eval(1)", "system(1)", "getenv(1)",
                                  "random()", "now()", "host(1)", "malloc(8)", "printf(1)"])
def test_there_is_no_function_that_reaches_out(call):
    checked, found = check_source(Source(f"strategy S:\n    bars 5m\n    plot({call})\n{ORDER}"))
    assert checked is None
    assert found
