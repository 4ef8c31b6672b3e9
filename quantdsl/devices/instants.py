"""The kernels of instants of a worker of signals, on a GPU or the simulated one.

The host writes events and five words of control, starts an instant, and looks at one word of
memory until it is the number of that instant; then the values are there. On a GPU all three lie in
pinned memory, the launches are one graph that was captured once, and nothing is copied by a call.
"""

from typing import Protocol

import numpy as np

from quantdsl.codegen.blocks import ENTRY, batch_text
from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.instants import (
    CONTROL,
    CONTROL_WORDS,
    EVENT_WORDS,
    EVENTS,
    NUMBER,
    STATE,
    Instants,
)
from quantdsl.codegen.target import native
from quantdsl.devices.batches import ptx_of
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.kernel import Library
from quantdsl.devices.cuda.memory import words_at
from quantdsl.devices.cuda.stream import Stream
from quantdsl.devices.simulated import kernel_of
from quantdsl.devices.work import Words
from quantdsl.passes.instants import KEPT, VALUES


class InstantRunner(Protocol):
    """Runs instants on one state, in order. For one thread at a time."""

    name: str
    """Of the device."""
    control: Words
    """Written by the host before an instant starts, but for its number."""
    events: Words
    """[event, word], written by the host likewise."""
    values: Words
    """Written by the device; whole once the number of the instant stands there."""

    def put(self, state: Words) -> None:
        """Begin from this state, which is copied."""

    def start(self, number: int) -> None:
        """Start an instant; returns at once. Raises DeviceError."""

    def check(self) -> None:
        """Raise DeviceError where the device has failed."""

    def fetch(self, state: Words) -> None:
        """Copy the state into this one, behind all that was started. Raises DeviceError."""

    def close(self) -> None:
        """Give memory back."""


class SimulatedInstants:
    """On a GPU played by this CPU."""

    name = "simulated"

    def __init__(self, made: Instants, state_words: int, events_max: int) -> None:
        self.control = np.zeros(CONTROL_WORDS, np.int64)
        self.events = np.zeros((events_max, made.event_words), np.int64)
        self.values = np.zeros(made.value_words, np.int64)
        self._state = np.zeros(state_words, np.int64)
        self._kept = np.zeros(made.kept_words, np.int64)
        memory = {
            STATE.name: self._state,
            EVENTS.name: self.events,
            CONTROL.name: self.control,
            VALUES: self.values,
            KEPT: self._kept,
            EVENT_WORDS.name: self.events,
        }
        self._steps = [
            (
                kernel_of(batch_text(step.code, native(), gpu=False), ENTRY, len(memory)),
                step,
                [int(memory[name].ctypes.data) for name in step.code.params],
            )
            for step in made.steps
        ]

    def put(self, state: Words) -> None:
        """As InstantRunner promises."""
        self._state[:] = state

    def start(self, number: int) -> None:
        """As InstantRunner promises, but that it is done at the return."""
        self.control[NUMBER] = number
        for kernel, step, words in self._steps:
            shared = 8 * step.code.shared_words
            kernel.launch(step.blocks, step.code.threads, words, shared_bytes=shared)

    def check(self) -> None:
        """It never fails."""

    def fetch(self, state: Words) -> None:
        """As InstantRunner promises."""
        state[:] = self._state

    def close(self) -> None:
        """Nothing is held."""


class CudaInstants:
    """On a GPU: one graph an instant."""

    def __init__(
        self, device: CudaDevice, made: Instants, state_words: int, events_max: int
    ) -> None:
        """Raises DeviceError where the device refuses memory or the code."""
        self.device, self.name = device, device.name
        device.use()
        self._stream = stream = device.streams.take()
        sizes = (CONTROL_WORDS, events_max * made.event_words, made.value_words)
        self._pinned = [device.pinned.take(8 * size) for size in sizes]
        at_control, at_events, at_values = (part.address for part in self._pinned)
        self.control = words_at(at_control, CONTROL_WORDS)
        self.events = words_at(at_events, events_max, made.event_words)
        self.values = words_at(at_values, made.value_words)
        self.control[:] = 0
        self.values[:] = 0
        self._state = device.pool.allocate(8 * state_words, stream, "the state of signals")
        self._kept = device.pool.allocate(8 * made.kept_words, stream, "words of signals")
        where = {
            STATE.name: self._state.address,
            EVENTS.name: at_events,
            CONTROL.name: at_control,
            VALUES: at_values,
            KEPT: self._kept.address,
            EVENT_WORDS.name: at_events,
        }
        launches = []
        for step in made.steps:
            code = assembled(ptx_of(step.code, device.target), device.architecture)
            kernel = Library(device.driver, code, step.name).kernel(device, ENTRY)
            words = [where[name] for name in step.code.params]
            launches.append(kernel.prepare(words, step.blocks, step.code.threads))

        def instant(stream: Stream) -> None:
            for launch in launches:
                launch(stream)

        stream.synchronize()
        self._launches = launches  # the graph holds their arguments by address
        self._graph = stream.record(instant)

    def put(self, state: Words) -> None:
        """As InstantRunner promises."""
        self._stream.upload(self._state, state)
        self._stream.synchronize()

    def start(self, number: int) -> None:
        """As InstantRunner promises."""
        self.device.use()
        self.control[NUMBER] = number
        self._graph(self._stream)

    def check(self) -> None:
        """As InstantRunner promises."""
        self._stream.check()

    def fetch(self, state: Words) -> None:
        """As InstantRunner promises."""
        self._stream.download(state, self._state)
        self._stream.synchronize()

    def close(self) -> None:
        """As InstantRunner promises; what a failed device holds is lost with it."""
        self._stream.synchronize()
        self._graph.close()
        for buffer in (self._state, self._kept):
            buffer.free(self._stream)
        for part in self._pinned:
            self.device.pinned.give(part)
        self.device.streams.give(self._stream)
