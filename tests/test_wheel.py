"""The wheel in a fresh environment, far from the checkout: one import name, and the demo runs."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = "--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", folder
    run(sys.executable, "-m", "pip", "wheel", *options, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Folder of the scripts of an environment that holds the wheel and, by path, what it needs.

    What it needs is taken from here and not downloaded; test_tidy.py holds that the product
    imports only what it declares.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    scheme = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", scheme))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # a plain path in a .pth file does not bring in the editable install of this checkout
    (site / "needs.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_one_import_name_with_everything_in_it(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {
        "quantdsl",
        "quantdsl_engine",
    }
    parts = "std/engine.qdsl feeds/synthetic.py report/assets/tearsheet.js py.typed"
    for part in [*parts.split(), "cockpit/assets/cockpit.html"]:
        assert f"quantdsl/{part}" in names
    folders = {name.split("/")[1] for name in names if name.startswith("quantdsl/")}
    assert {"strategies", "configs"} <= folders
    assert len(names) == len(set(names))
    assert not [name for name in names if name.endswith(".png")]  # the README's, not the product's


def test_the_demo_runs_from_another_folder(installed, tmp_path):
    code = "import quantdsl, sys; print(quantdsl.__file__)"
    where = run(installed / "python", "-c", code, cwd=tmp_path).strip()
    assert str(installed.parent) in where
    quantdsl = installed / "python", "-m", "quantdsl"
    out = run(*quantdsl, "demo", cwd=tmp_path)
    assert (tmp_path / "out" / "demo" / "report.html").exists()
    assert "Total return" in out
    run(*quantdsl, "new", "my_idea", cwd=tmp_path)
    run(*quantdsl, "check", "my_idea.qdsl", cwd=tmp_path)
