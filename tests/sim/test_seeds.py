"""Sessions that fail as a seed says keep their promises; and a broken promise is noticed."""

import re
from pathlib import Path

import pytest

from quantdsl.cli import run
from quantdsl.errors import InternalError, JournalError
from quantdsl.live import simulator
from quantdsl.live.simulator import Market, Ran, Simulation

SEEDS, GROUPS = 200, 8

@pytest.fixture(scope="module")
def market() -> Market:
    return Market.opened()


def simulated(market: Market, seed: int, folder: Path, kind=Simulation) -> Ran:
    folder.mkdir()
    return kind(market, seed, folder).run()


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_seed_keeps_its_promises(market, tmp_path, group):
    ran = [simulated(market, seed, tmp_path / str(seed)) for seed in range(group, SEEDS, GROUPS)]
    assert min(one.events for one in ran) > 500
    assert sum(one.records for one in ran) > 100 * len(ran)
    assert sum(one.kills for one in ran) > len(ran) / 4, "too few are killed to say anything"
    assert sum(one.failures for one in ran) > len(ran) / 4
    assert len({one.digest for one in ran}) == len(ran)


def test_a_seed_gives_the_same_run_bit_for_bit(market, tmp_path, capsys):
    seed = 3
    one, two = (simulated(market, seed, tmp_path / name) for name in "ab")
    assert one == two
    assert run(["sim", "--seed", str(seed)]) == 0
    assert one.digest[:16] in capsys.readouterr().out


def found_by_some(market: Market, folder: Path, kind=Simulation) -> str:
    """What the first of a few seeds says that finds a fault."""
    for seed in range(30):
        try:
            simulated(market, seed, folder / str(seed), kind)
        except (InternalError, JournalError) as found:
            return str(found)
    return ""


def test_a_disk_that_lies_about_flushing_is_noticed(market, tmp_path, monkeypatch):
    class Lying(simulator.SimDisk):
        def sync(self, descriptor: int) -> None:
            pass

    monkeypatch.setattr(simulator, "SimDisk", Lying)
    said = found_by_some(market, tmp_path)
    assert re.search(r"frame \d+ was on disk and is not whole|that was committed is lost", said)


def test_an_event_that_bypasses_the_journal_is_noticed(market, tmp_path):
    class Bypassing(Simulation):
        def inputs(self, events):
            if len(self.truth) % 40 != 39:
                super().inputs(events)
            else:
                self.truth.append(events[:0])

    said = found_by_some(market, tmp_path, Bypassing)
    assert "the replay of the journal differs" in said


def test_an_engine_that_forgets_a_fill_is_noticed(market, tmp_path):
    class Forgetting(Simulation):
        def _check(self, records):
            super()._check(records[(records["kind"] != 8) | (records["a"] % 3 != 0)])

    assert "a position is not its fills" in found_by_some(market, tmp_path, Forgetting)
