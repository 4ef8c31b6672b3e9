"""What `doctor` looks at, on machines made of files and on folders made here."""

from pathlib import Path

import pytest

from quantdsl.live.checkup import Finding, checkup
from quantdsl.live.machine import Core, Machine


def bare(number: int = 0, **more: object) -> Core:
    return Core(number, 0, frozenset({number}), **{"isolated": False, "governor": "", **more})


GOOD = Machine(
    (bare(0, governor="performance"), bare(1, governor="performance", isolated=True)),
    "tsc", True, None, 99,
)  # fmt: skip
POOR = Machine((Core(0, 0, frozenset({0, 1}), False, "powersave"),), "hpet", False, 8 << 20, 0)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTDSL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def found(machine: Machine, root: Path, gpu: tuple[str, str] = ("H200", "")) -> dict[str, Finding]:
    return {one.name: one for one in checkup(root, machine, lambda: gpu)}


def test_a_good_machine_lacks_nothing(tmp_path):
    path = tmp_path / "proc/sys/kernel/sched_rt_runtime_us"
    path.parent.mkdir(parents=True)
    path.write_text("-1\n")
    lacks = [one for one in found(GOOD, tmp_path).values() if not one.ok]
    assert not lacks


def test_each_lack_has_its_command(tmp_path):
    path = tmp_path / "proc/sys/kernel/sched_rt_runtime_us"
    path.parent.mkdir(parents=True)
    path.write_text("950000\n")
    got = found(POOR, tmp_path, ("", "no driver"))
    mends = {name: one.mend for name, one in got.items() if not one.ok}
    assert mends["isolated core"].startswith("sudo grubby")
    assert "isolcpus=0 nohz_full=0" in mends["isolated core"]
    assert mends["governor"] == "sudo cpupower frequency-set -g performance"
    assert "smt/control" in mends["hyperthreads"]
    assert "current_clocksource" in mends["timer source"]
    assert "memlock unlimited" in mends["locked memory"]
    assert "rtprio 99" in mends["priority"]
    assert mends["throttling"] == "sudo sysctl kernel.sched_rt_runtime_us=-1"
    assert {"cores", "cycle counter", "GPU"} <= set(mends)
    assert "no driver" in got["GPU"].found
    assert not any(one.needed for one in got.values() if not one.ok)


def test_debian_is_told_its_own_command(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/debian_version").write_text("12.5\n")
    mend = found(POOR, tmp_path)["isolated core"].mend
    assert "isolcpus=0 nohz_full=0" in mend
    assert "sudo update-grub" in mend


def test_a_cache_folder_that_others_may_read(tmp_path, own_cache):
    own_cache.mkdir()
    own_cache.chmod(0o755)
    lack = found(GOOD, tmp_path)["cache folder"]
    assert not lack.ok
    assert lack.mend == f"chmod 700 {own_cache}"
    own_cache.chmod(0o700)
    assert found(GOOD, tmp_path)["cache folder"].ok


def test_a_package_that_is_not_installed(tmp_path, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "hdrh" else real(name)
    )
    lack = found(GOOD, tmp_path)["hdrhistogram"]
    assert not lack.ok
    assert lack.needed
    assert lack.mend == "pip install hdrhistogram"
