"""The runner of a GPU against a fake driver: the interpreter's bits, chunks, pieces, memory."""

import msgspec
import numpy as np
import pytest

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.ptx import ENTRY
from quantdsl.devices import failure
from quantdsl.devices.cpu import scalar
from quantdsl.devices.cuda import lanes as cuda_lanes
from quantdsl.devices.cuda import order, tune
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.driver import Driver
from quantdsl.devices.cuda.kernel import Library
from quantdsl.devices.cuda.lanes import Compiled, CudaRunner, Part
from quantdsl.devices.loaded import Loaded
from quantdsl.devices.profile import Ceilings, Profile
from quantdsl.errors import DeviceError
from tests.devices.fake_driver import CUresult, FakeDriver, LaneKernel
from tests.devices.lane_work import expected, random_work, run


class Machine:
    """A fake GPU and a runner on it."""

    def __init__(self, work, profile=None, way=None, **options):
        self.fake = FakeDriver(**options)
        program, rows, _ = scalar(work)
        self.kernel = LaneKernel(program)
        self.fake.kernels[ENTRY] = self.kernel
        self.said = []
        self.device = CudaDevice(Driver(self.fake), 0)

        def load(_):
            return Compiled(Library(self.device.driver, b"\x7fELF", ENTRY), 32, rows, 0)

        self.runner = CudaRunner(self.device, self.said.append, profile, load, way)

    def close(self):
        self.runner.close()
        assert self.fake.used_bytes() == 0
        assert not self.fake.host_memory
        assert self.fake.live["event"] == 0
        assert self.device.pool.used_bytes == 0


@pytest.fixture(autouse=True)
def full_waves(monkeypatch):
    """Chunks of as many lanes as run at once, though the work is small: 128."""
    monkeypatch.setattr(cuda_lanes, "CHUNK_LANE_STEPS", 1)


@pytest.mark.parametrize("lanes", [1, 50, 400])
def test_lanes_have_the_interpreters_bits(lanes):
    work = random_work(1, lanes=lanes)
    machine = Machine(work)
    assert np.array_equal(run(machine.runner, work), expected(work))
    assert not machine.said
    machine.close()


@pytest.mark.parametrize("piece_share", [4, 1_000_000])
def test_lanes_in_another_order_come_back_in_that_of_their_points(monkeypatch, piece_share):
    """Whether all events are there at once or pass in pieces."""
    monkeypatch.setattr(cuda_lanes, "PIECE_SHARE", piece_share)
    work = random_work(11, lanes=300)
    machine = Machine(work, way=lambda _: 1)
    assert np.array_equal(run(machine.runner, work), expected(work))
    assert (np.diff(order.order_of(work.points, 1)) < 0).any()
    machine.close()


@pytest.mark.parametrize("piece_share", [4, 1_000_000])
@pytest.mark.parametrize("high", [False, True])
def test_lanes_in_front_have_warps_of_their_own(monkeypatch, piece_share, high):
    """Whether all events are there at once or pass in pieces."""
    monkeypatch.setattr(cuda_lanes, "PIECE_SHARE", piece_share)
    work = random_work(11, lanes=90)
    lead = order.Lead(0, high)
    machine = Machine(work, way=lambda _: lead)
    monkeypatch.setattr(cuda_lanes, "narrow", lambda *_: (Part(3, 1), Part(8, 2)))
    assert np.array_equal(run(machine.runner, work), expected(work))
    launches = {(grid, block) for grid, block, _ in machine.kernel.launches}
    assert launches == {(3, 1), (4, 2), (4, 24)}
    ordered = work.points[0][order.order_of(work.points, lead)]
    assert np.array_equal(ordered, np.sort(work.points[0])[:: -1 if high else 1])
    machine.close()


def test_lanes_too_few_for_some_in_front_are_spread_evenly():
    """They have as many warps as without an order."""
    work, launches = random_work(11, lanes=20), []
    for way in (None, order.Lead(0, high=False)):
        machine = Machine(work, way=lambda _, way=way: way)
        assert np.array_equal(run(machine.runner, work), expected(work))
        launches.append([(grid, block) for grid, block, _ in machine.kernel.launches])
        machine.close()
    assert launches[0] == launches[1]


@pytest.mark.parametrize(
    ("lanes", "block", "warps", "each"),
    [
        (10_000, 32, 528, 52),
        (1_000, 8, 528, 140),
        (100, 4, 528, 32),
        (16_000, 32, 528, 4),
        (16_896, 32, 528, 0),
    ],
)
def test_narrow_warps_fill_what_the_others_leave(lanes, block, warps, each):
    parts = cuda_lanes.narrow(lanes, block, warps)
    assert [part.lanes // part.block for part in parts] == [each] * len(parts)
    assert each % cuda_lanes.LANES_TOGETHER == 0
    left = lanes - sum(part.lanes for part in parts)
    assert left > 0
    assert sum(part.lanes // part.block for part in parts) + -(-left // block) <= warps


def test_events_stay_on_the_device_between_runs():
    work = random_work(2, lanes=300)
    machine = Machine(work)
    run(machine.runner, work, 0, 128)
    before = machine.fake.calls["cuMemcpyHtoDAsync"]
    results = run(machine.runner, work, 128, 300)
    assert machine.fake.calls["cuMemcpyHtoDAsync"] - before == len(machine.kernel.launches) - 1
    assert np.array_equal(results[:, 128:], expected(work)[:, 128:])
    machine.close()


def test_events_larger_than_memory_pass_in_pieces(monkeypatch):
    work = random_work(3, lanes=90)
    monkeypatch.setattr(cuda_lanes, "PIECE_SHARE", 1_000_000)
    machine = Machine(work)
    assert np.array_equal(run(machine.runner, work), expected(work))
    modes = {mode for _, _, mode in machine.kernel.launches}
    assert modes == {0, 1, 2}
    machine.close()


def test_out_of_memory_halves_the_chunk_and_says_so():
    work = random_work(4, lanes=256)
    machine = Machine(work)
    biggest = 8 * len(work.results) * 40

    def refuse(size, *_):
        return CUresult.CUDA_ERROR_OUT_OF_MEMORY if size > biggest else None

    machine.fake.refuse["cuMemAllocFromPoolAsync"] = refuse
    assert np.array_equal(run(machine.runner, work), expected(work))
    assert machine.said == [
        "cuda:0 Fake GPU: out of memory, going on with 64 lanes a chunk",
        "cuda:0 Fake GPU: out of memory, going on with 32 lanes a chunk",
    ]
    machine.close()


def test_memory_that_no_chunk_fits_is_one_error():
    work = random_work(5, lanes=128)
    machine = Machine(work)
    machine.fake.refuse["cuMemAllocFromPoolAsync"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(DeviceError, match="asked for") as caught:
        run(machine.runner, work)
    assert caught.value.kind == "memory"
    machine.fake.refuse.clear()
    machine.close()


def test_states_that_all_threads_together_cannot_have_are_named():
    """A smaller chunk does not mend that: the error says what takes the memory."""
    work = random_work(5, lanes=128)
    machine = Machine(work)
    machine.fake.local_bytes = machine.fake.memory_bytes // 100  # of 128 threads
    machine.fake.refuse["cuLaunchKernel"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(DeviceError, match="local memory, which the driver keeps for all 128"):
        run(machine.runner, work)
    machine.fake.refuse.clear()
    machine.close()


def test_a_fault_is_never_a_result():
    work = random_work(6, lanes=400)
    machine = Machine(work)
    reported = []

    def fail_late(*_):
        late = machine.fake.calls["cuEventQuery"] > 2
        return CUresult.CUDA_ERROR_ILLEGAL_ADDRESS if late else None

    machine.fake.refuse["cuEventQuery"] = fail_late
    machine.fake.refuse["cuEventSynchronize"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    before = failure.counts["launch"]
    with pytest.raises(DeviceError, match="words for 700") as caught:
        machine.runner.run(work, 0, 400, lambda lo, hi, _: reported.append((lo, hi)))
    assert caught.value.kind == "launch"
    assert failure.counts["launch"] == before + 1
    assert failure.history[-1] is caught.value
    assert len(reported) == 2
    machine.fake.refuse.clear()
    machine.close()


def test_what_finished_raises_leaves_nothing_behind():
    work = random_work(7, lanes=400)
    machine = Machine(work)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        machine.runner.run(work, 0, 400, stop)
    machine.close()


def test_a_plan_and_a_profile(monkeypatch):
    monkeypatch.setattr(cuda_lanes, "ceilings", lambda _: Ceilings(1e9, 1e12))
    work, profile = random_work(8, lanes=400), Profile()
    machine = Machine(work, profile)
    words = len(work.params) + len(work.results)
    assert str(machine.runner.plan(work)) == (
        f"cuda:0 Fake GPU: {8 * words:,} bytes a lane, 128 lanes a chunk"
    )
    run(machine.runner, work)
    (row,) = profile.rows()
    assert row.name == "lanes"
    assert row.times == 4
    assert "32 registers" in profile.facts["kernel on cuda:0"]
    assert "occupancy 100%" in profile.facts["kernel on cuda:0"]
    assert "measured copy" in profile.table()
    assert row.lane_steps_per_s == pytest.approx(400 * 12 / (4 * 2e-3))
    # By the clock of the device, where all marks lie 2 ms apart: not when the host came to them.
    assert len({one.begin_s for one in profile.intervals if one.lane_steps}) == 1
    machine.close()


@pytest.mark.parametrize(("waves", "launches"), [(1, 4), (2, 2), (3, 2), (9, 1)])
def test_a_chunk_has_several_waves_where_they_are_little_work(monkeypatch, waves, launches):
    work = random_work(9, lanes=400)
    monkeypatch.setattr(cuda_lanes, "CHUNK_LANE_STEPS", waves * 128 * work.lane_steps)
    machine = Machine(work)
    assert machine.runner.plan(work).lanes_a_chunk == min(waves * 128, 400)
    assert np.array_equal(run(machine.runner, work), expected(work))
    assert len(machine.kernel.launches) == launches
    machine.close()


@pytest.mark.parametrize(("shared_bytes", "share"), [(0, 1), (10_560, 10), (115_712, 100)])
def test_what_blocks_do_not_share_is_left_to_the_cache(shared_bytes, share):
    """Two blocks of 32 lanes run at once, each with 1,024 bytes that the driver takes."""
    work = random_work(10, lanes=256)
    machine = Machine(work)
    machine.fake.shared_bytes = shared_bytes
    run(machine.runner, work)
    assert machine.fake.chosen["PREFERRED_SHARED_MEMORY_CARVEOUT"] == share
    machine.close()


@pytest.mark.parametrize(
    ("most", "lanes", "threads"),
    [(128, 100_000, 128), (128, 10_000, 64), (32, 10_000, 20), (32, 17_000, 32), (32, 1_000, 4)],
)
def test_few_lanes_spread_over_all_schedulers(most, lanes, threads):
    """A large GPU has 132 multiprocessors of four."""
    assert cuda_lanes.threads_of_block(most, lanes, 132, grouped=False) == threads
    assert cuda_lanes.threads_of_block(most, lanes, 132, grouped=True) == max(threads, 32)


# ---- tuning ---------------------------------------------------------------------------------


def tried(work, cache, speeds):
    seen = []

    def measured(part, bounds):
        seen.append((bounds, part.n_lanes, part.lane_steps))
        return speeds[bounds]

    return tune.bounds_for(work, "GPU", "sm_90", cache, measured), seen


def test_a_large_sweep_is_tried_once_and_remembered(tmp_path, monkeypatch):
    work, cache = random_work(1, lanes=60), Cache(tmp_path / "cache")
    speeds = {bounds: -abs(bounds.blocks - 5) for bounds in tune.CANDIDATES}
    assert tried(work, cache, speeds) == (tune.FEW, [])
    monkeypatch.setattr(tune, "FEW_LANES", 1)
    assert tried(work, cache, speeds) == (tune.ROOMY, [])
    monkeypatch.setattr(tune, "WORTH_LANE_STEPS", 1)
    monkeypatch.setattr(tune, "TRIAL_EVENTS", 5)
    monkeypatch.setattr(tune, "TRIAL_LANES", 32)
    best, seen = tried(work, cache, speeds)
    assert best.blocks == 5
    assert seen == [(bounds, 32, 5) for bounds in tune.CANDIDATES]
    assert tried(work, cache, {}) == (best, [])


@pytest.mark.parametrize(
    ("orders", "alone", "few", "many"),
    [(1, tune.ALONE, tune.ONE_ORDER, tune.USUAL), (2, tune.FEW, tune.FEW, tune.ROOMY)],
)
def test_lanes_of_one_order_take_longer_tiles(orders, alone, few, many):
    work = random_work(1, lanes=60)
    module = msgspec.structs.replace(work.module, sizes=(("N_ORDERS", orders),))
    work = work._replace(module=module)
    assert tune.by_size(work) == alone
    counts = tune.ALONE_LANES, tune.ALONE_LANES + 1, tune.FEW_LANES, tune.FEW_LANES + 1
    assert [tune.for_lanes(work, count) for count in counts] == [alone, few, few, many]


def grid(*counts):
    """All points of params with so many values each, the last turning fastest."""
    return np.stack([axis.ravel() for axis in np.indices(counts)]).astype(np.int64)


def test_a_warp_has_as_many_values_of_the_param_beside_as_it_has_room_for():
    """Sixteen of the fastest and two of that; the warps behind it have the same two."""
    points = grid(2, 3, 16, 4)
    ordered = points[:, order.order_of(points, 2)]
    first, other, fastest, beside = (
        [sorted(set(warp)) for warp in row.reshape(-1, 32).tolist()] for row in ordered
    )
    assert first == 6 * [[0]] + 6 * [[1]]
    assert other == 4 * [[0], [1], [2]]
    assert fastest == 12 * [list(range(16))]
    assert beside == 2 * (3 * [[0, 1]] + 3 * [[2, 3]])


def test_the_order_of_lanes_is_tried_once_and_remembered(tmp_path, monkeypatch):
    """Params behind the first are candidates: that one stays the slowest."""
    work, cache = random_work(1, lanes=60, events=40), Cache(tmp_path / "cache")
    speeds, seen = {None: 100, 1: 104, 2: 103}, []

    def measured(trial, way):
        seen.append((way, trial.n_lanes, trial.lane_steps))
        return speeds[way]

    def tried(work, *, spread=False):
        return order.way_for(work, "GPU", "sm_90", cache, measured, spread=spread)

    assert tried(work) is None
    assert not seen
    monkeypatch.setattr(order, "WORTH_LANE_STEPS", 1)
    assert [tried(work), tried(work)] == [1, 1]
    assert seen == [(1, 60, 2), (2, 60, 2), (None, 60, 2)]
    speeds[1] = 102
    assert tried(work._replace(points=work.points[:, :40])) is None  # too little to count
    ends = [order.Lead(param, high) for param in range(3) for high in (False, True)]
    speeds |= dict.fromkeys(ends, 90) | {ends[3]: 120}
    few = work._replace(points=work.points[:, :30])
    seen.clear()
    monkeypatch.setattr(order, "LEAD_EVENTS", 6)
    assert tried(few, spread=True) is None  # leads would take longer than the sweep
    assert seen == [(way, 30, 2) for way in (1, 2, None)]
    seen.clear()
    monkeypatch.setattr(order, "LEAD_EVENTS", 5)
    few = few._replace(points=few.points[:, :29])
    assert [tried(few, spread=True), tried(few, spread=True)] == [ends[3]] * 2
    assert seen == [(way, 29, 5) for way in (1, 2, *ends, None)]


def test_a_program_serves_sweeps_of_its_size_alone(monkeypatch):
    """A strategy's lanes keep their module from sweep to sweep."""
    monkeypatch.setattr(tune, "FEW_LANES", 40)
    work = random_work(1, lanes=60)
    few = work._replace(points=work.points[:, :32])
    loaded = Loaded(tune.by_size, tune.by_size)
    assert [loaded(one) for one in (few, work, few)] == [tune.FEW, tune.ROOMY, tune.FEW]
    monkeypatch.setattr(tune, "WORTH_LANE_STEPS", 1)
    assert loaded(work) is None
