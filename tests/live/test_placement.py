"""Plans on machines of every kind, told by a tree of files as Linux has it."""

from pathlib import Path

import pytest

from quantdsl.errors import ConfigError
from quantdsl.live.machine import Core, Machine, read_machine
from quantdsl.live.placement import Wish, flaws, plan, settle


def machine(*cores: Core, timer: str = "tsc", steady: bool = True) -> Machine:
    return Machine(cores, timer, steady, None, 99)


def core(number: int, siblings: set[int] = frozenset(), node: int = 0, **more: object) -> Core:
    facts = {"isolated": False, "governor": "", **more}
    return Core(number, node, frozenset(siblings) | {number}, **facts)


PLAIN = machine(*(core(n) for n in range(4)))
THREADS = machine(*(core(n, {n % 2, n % 2 + 2}) for n in range(4)))
NODES = machine(*(core(n, node=n // 2) for n in range(4)))


def test_an_engine_alone_and_its_feeds_beside_it():
    found = plan(PLAIN, [Wish("engine", None)])
    assert [tuple(seat) for seat in found.seats] == [("engine", 3), ("feed", 0), ("journal", 1)]
    assert found.beside == {0, 1, 2}


def test_the_core_that_the_strategy_names():
    found = plan(PLAIN, [Wish("engine", 1)], ["feed", "journal", "gpu"])
    assert found.core("engine") == 1
    assert 1 not in {found.core(name) for name in ("feed", "journal", "gpu")}


def test_a_core_that_is_not_there_is_replaced_and_told():
    found = plan(PLAIN, [Wish("maker", 64)])
    assert found.core("maker") in range(4)
    assert "maker: @cpu asks for core 64, which this process may not use" in found.notes[0]
    assert "(it may use 0, 1, 2, 3)" in found.notes[0]


def test_two_engines_on_one_core_are_refused():
    with pytest.raises(ConfigError, match="core 2 is asked for by a and by b"):
        plan(PLAIN, [Wish("a", 2), Wish("b", 2)])


def test_more_engines_than_cores_are_refused():
    with pytest.raises(ConfigError, match="5 engines cannot run on 4 cores"):
        plan(PLAIN, [Wish(str(n), None) for n in range(5)])


def test_engines_keep_off_each_others_hyperthreads():
    found = plan(THREADS, [Wish("a", None), Wish("b", None)], [])
    a, b = (found.core(name) for name in "ab")
    assert a % 2 != b % 2


def test_feeds_keep_off_the_engines_hyperthread():
    found = plan(THREADS, [Wish("engine", 3)])
    assert {found.core("feed"), found.core("journal")} == {0, 2} == found.beside
    assert any("shares its execution units with CPU 1" in note for note in found.notes)


def test_feeds_stay_on_the_engines_node():
    found = plan(NODES, [Wish("engine", 2)])
    assert {found.core("feed"), found.core("journal")} == {3}


def test_an_isolated_core_is_the_engines():
    found = plan(machine(core(0), core(1, isolated=True), core(2)), [Wish("engine", None)])
    assert found.core("engine") == 1
    assert not any("is not isolated" in note for note in found.notes)


def test_one_core_for_everything_is_said():
    found = plan(machine(core(7)), [Wish("engine", None)])
    assert found.core("feed") == 7
    assert found.beside == {7}
    assert any("there is no core beside the engine's" in note for note in found.notes)
    assert "placement  engine on core 7, feed on core 7, journal on core 7" in found.lines()[0]


def test_what_disturbs_is_named():
    slow = machine(core(0, governor="powersave"), timer="hpet", steady=False)
    text = "\n".join(flaws(slow, 0))
    assert "governor is powersave" in text
    assert "timer source is hpet" in text
    assert "cycle counter is not known" in text


def tree(root: Path) -> Path:
    """Four CPUs on two cores and two nodes; CPU 3 isolated."""
    cpu = root / "sys/devices/system/cpu"
    files = {
        cpu / "isolated": "3",
        root / "sys/devices/system/node/node0/cpulist": "0,2",
        root / "sys/devices/system/node/node1/cpulist": "1,3",
        root / "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        root / "proc/cpuinfo": "flags : fpu constant_tsc nonstop_tsc avx2\n",
        root / "proc/self/status": "Name: x\nCapEff:\t0000000000000000\n",
        root / "proc/self/limits": "Limit                     Soft Limit           Hard\n"
        "Max locked memory         8388608              8388608      bytes\n"
        "Max realtime priority     0                    0\n",
    }
    for n in range(4):
        files[cpu / f"cpu{n}/topology/thread_siblings_list"] = f"{n % 2},{n % 2 + 2}"
        files[cpu / f"cpu{n}/cpufreq/scaling_governor"] = "schedutil\n"
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_machine_is_read_from_its_files(tmp_path):
    found = read_machine(tree(tmp_path), {1, 3})
    assert found.cores == (
        Core(1, 1, frozenset({1, 3}), False, "schedutil"),
        Core(3, 1, frozenset({1, 3}), True, "schedutil"),
    )
    assert found.timer == "tsc"
    assert found.tsc_steady
    assert found.locked_bytes == 8 << 20
    assert found.priority_max == 0


def test_the_container_s_cpus_are_the_only_ones(tmp_path):
    found = read_machine(tree(tmp_path), {2})
    assert found.core(0) is None
    assert plan(found, [Wish("engine", 0)]).core("engine") == 2


def test_a_system_without_these_files(tmp_path):
    found = read_machine(tmp_path, {0})
    assert found.cores == (core(0),)
    assert not found.tsc_steady
    assert found.locked_bytes is None


def test_what_the_system_refuses_is_said(monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.sched_setaffinity", refuse)
    monkeypatch.setattr("os.sched_setscheduler", refuse)
    monkeypatch.setattr("quantdsl.live.placement._lock", refuse)
    assert settle(0, priority=10, lock_memory=True) == [
        "pinning to core 0: refused: Operation not permitted",
        "SCHED_FIFO priority 10: refused: Operation not permitted",
        "locking memory: refused: Operation not permitted",
    ]
