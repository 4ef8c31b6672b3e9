"""`--device`: a word of the command line to what runs lanes.

auto        the first GPU that works, else the cores, saying in one line why
cpu         every core that this process may use
simulated   a GPU played on the CPU, to test with
cuda:N      one GPU
all         every GPU and the cores, each taking lanes by its measured speed
"""

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.profile import Profile
from quantdsl.devices.together import Together
from quantdsl.devices.work import Runner
from quantdsl.errors import ConfigError, DeviceError, UnavailableError

if TYPE_CHECKING:
    from quantdsl.devices.panels import Opened

Say = Callable[[str], None]
"""Takes one line for the user."""

CHOICES = "auto, cpu, simulated, cuda:N or all"
ONE_CHOICES = "auto, cpu, simulated or cuda:N"
"""Of what computes signals, which is one device."""
GPU = re.compile(r"cuda(?::(\d{1,3}))?")


def runner(choice: str, say: Say, profile: Profile | None = None) -> Runner:
    """What runs lanes for a value of --device, telling a profile of each kernel.

    Raises ConfigError for a word that is none, UnavailableError where the device is not there.
    """
    if choice == "cpu":
        return CpuRunner(profile=profile)
    if choice == "simulated":
        from quantdsl.devices.simulated import SimulatedRunner

        return SimulatedRunner(profile)
    if match := GPU.fullmatch(choice):
        with _asked_for(choice):
            return _gpu(int(match[1] or 0), say, profile)
    hold_choice(choice, f"device {choice}")
    gpus, cpu = _gpus(say, profile), CpuRunner(profile=profile)
    if choice == "all":
        return Together([*gpus, cpu]) if gpus else cpu
    return gpus[0] if gpus else cpu


def hold_choice(choice: str, said: str) -> None:
    """ConfigError for a word that is no device of a sweep, which was `said` so."""
    if choice not in ("auto", "cpu", "simulated", "all") and not GPU.fullmatch(choice):
        raise ConfigError(f"{said}: there is no such device; give {CHOICES}")


def hold_live(choice: str) -> None:
    """ConfigError for a word that is no device of a session's signals."""
    if choice not in ("auto", "cpu", "simulated") and not GPU.fullmatch(choice):
        raise ConfigError(f"--device {choice}: there is no such device; give {ONE_CHOICES}")


def hold_there(choice: str) -> None:
    """UnavailableError where a GPU that is asked for is not there, whatever is to run on it."""
    if match := GPU.fullmatch(choice):
        from quantdsl.devices.cuda.device import open_device

        with _asked_for(choice):
            open_device(int(match[1] or 0))


def panel_on(choice: str) -> "Opened | None":
    """What opens the panel of a universe's signals for a value of --device but `auto`; None: the
    cores. Raises as `runner`.
    """
    if choice == "cpu":
        return None
    if choice == "simulated":
        from quantdsl.devices.panels import SimulatedPanel

        return SimulatedPanel
    if choice == "all":
        raise UnavailableError(
            "device all: a cross-section needs all instruments, so signals are of one device\n"
            f"help: give {ONE_CHOICES}"
        )
    match = GPU.fullmatch(choice)
    if match is None:
        raise ConfigError(f"device {choice}: there is no such device; give {ONE_CHOICES}")
    with _asked_for(choice):
        return _panel(int(match[1] or 0))


def first_panel() -> "tuple[Opened | None, str]":
    """What opens a panel on the first GPU, and its name; without one None, and why."""
    from quantdsl.devices.cuda.device import open_device

    try:
        return _panel(0), open_device(0).name
    except (UnavailableError, DeviceError) as error:
        return None, str(error).partition("\n")[0]


def _panel(number: int) -> "Opened":
    from quantdsl.devices.cuda.device import open_device
    from quantdsl.devices.cuda.panels import CudaPanel

    return functools.partial(CudaPanel, open_device(number))


def on_gpu(choice: str) -> bool:
    """Whether a GPU would run lanes for a value of --device."""
    from quantdsl.devices.cuda.driver import driver

    if choice not in ("auto", "all"):
        return GPU.fullmatch(choice) is not None
    try:
        return driver().device_count() > 0
    except UnavailableError:
        return False


@contextmanager
def _asked_for(choice: str) -> Iterator[None]:
    """Have the error of a GPU that is not there say who asked for it, and what runs without."""
    try:
        yield
    except UnavailableError as error:
        raise UnavailableError(
            f"device {choice}: {error}\nhelp: take device auto, which is the best there is, or cpu"
        ) from error


def _gpus(say: Say, profile: Profile | None) -> list[Runner]:
    """A runner for each GPU; where there is none, one line says why."""
    from quantdsl.devices.cuda.driver import driver

    try:
        return [_gpu(number, say, profile) for number in range(driver().device_count())]
    except UnavailableError as error:
        say(f"no GPU: {error}; running on the CPU")
        return []


def _gpu(number: int, say: Say, profile: Profile | None) -> Runner:
    from quantdsl.devices.cuda.device import open_device
    from quantdsl.devices.cuda.lanes import CudaRunner

    return CudaRunner(open_device(number), say, profile)
