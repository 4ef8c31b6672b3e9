"""Promise: who has no token is refused in 5 ms, and no flood of pages and strangers is felt by the
engine's side: a snapshot is taken in 50 ms, half of the time in which the next one comes.
"""

import threading
from contextlib import ExitStack, suppress

from quantdsl.cockpit.app import CLIENTS_MAX
from tests.cockpit.conftest import play  # noqa: F401 (a fixture)
from tests.cockpit.raw import ask
from tests.cockpit.test_app import stream

REFUSED_S_MAX = 0.005
TAKEN_S_MAX = 0.05


def test_a_refusal(benchmark, play):  # noqa: F811
    played = play()
    status, _, _ = benchmark(
        ask, played.port, "GET", "/metrics", {"Host": f"127.0.0.1:{played.port}"}
    )
    assert status == 401
    if benchmark.enabled:
        assert benchmark.stats["median"] <= REFUSED_S_MAX


def test_a_snapshot_in_a_flood(benchmark, play):  # noqa: F811
    played = play(warm=500)
    stop = threading.Event()

    def knock() -> None:
        while not stop.is_set():
            with suppress(OSError):
                ask(played.port, "GET", "/metrics", {"Host": f"127.0.0.1:{played.port}"})

    knocking = [threading.Thread(target=knock) for _ in range(4)]
    with ExitStack() as open_pages:
        for _ in range(CLIENTS_MAX):
            open_pages.enter_context(stream(played))
        for thread in knocking:
            thread.start()
        benchmark.pedantic(
            played.history.take, setup=lambda: ((played.script.next(),), {}), rounds=60
        )
        stop.set()
        for thread in knocking:
            thread.join()
    assert played.history.snapshot()[0].seq == played.script.seq
    if benchmark.enabled:
        assert benchmark.stats["median"] <= TAKEN_S_MAX
