"""What determines a session, written down before it begins: from it and the journal all is made.

    SESSION/session.json          this manifest
    SESSION/NAME/source/          the strategy's text and what it imports
    SESSION/NAME/                 its journal and checkpoints

The same manifest gives the same run, to the bit: recovery, replay and report prepare a run from it
as the session did.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

import quantdsl
from quantdsl.backtest.prepare import Arranged, Prepared, data_spec, make_ready
from quantdsl.backtest.universe import awaited
from quantdsl.check import Checked, compile_file
from quantdsl.check.checked import WORKER
from quantdsl.check.precompiled import source_digest
from quantdsl.codegen.compile import compiler_version
from quantdsl.config import Resolved
from quantdsl.data.instrument import Instrument, instrument_of, show_fraction
from quantdsl.data.session_data import SessionData
from quantdsl.data.universe import Change
from quantdsl.errors import ConfigError
from quantdsl.live.feed import FeedSpec

FILE = "session.json"
FORMAT = 2
SOURCE = "source"
LIVE_USES = frozenset({"USES_COMMAND", "USES_HOUSE", "USES_INSIDE"})
"""Parts of the core that a session needs, and a backtest may not."""
FUNDED = "USES_CORPORATE"

Events = npt.NDArray[np.void]


class Traded(msgspec.Struct, frozen=True):
    """An instrument of the session and where it comes from."""

    symbol: str
    """As the feed has it."""
    feed: int
    """Place of its feed."""
    terms: dict[str, str]
    """As its feed had it when the session began, in the form of an instrument file: what a strategy
    counts by may differ, by an instrument file of the user's or a rate of currencies."""


class StrategyPart(msgspec.Struct, frozen=True):
    """One strategy of a session."""

    name: str
    """Of its folder, unique in the session."""
    file: str
    """Of its text, in its folder of sources."""
    path: str
    """As it was given."""
    sources: dict[str, str]
    """File -> SHA-256."""
    params: dict[str, str]
    places: tuple[int, ...]
    """For each of its instruments the session's."""
    terms: tuple[dict[str, str], ...]
    """Of each of its instruments, as in an instrument file."""
    prices: tuple[float, ...]
    """The highest each may have had before the start, in its currency."""
    settings: Resolved
    trade_from: int
    """When it may trade, ns; before that it warms up."""
    begin: int
    """When its data begin, ns."""
    finer: tuple[str, ...]
    """Length of the bars that the feed gives of each of its instruments; none on ticks."""
    changes: tuple[Change, ...] = ()
    """What the files of its universe said of the instruments when it began."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session, before its first event."""

    format: int
    version: str
    build: str
    created: int
    name: str
    config: str
    """Of the session, as a file or a name; for people."""
    strategies: tuple[StrategyPart, ...]
    instruments: tuple[Traded, ...]
    feeds: tuple[FeedSpec, ...]
    simulated: bool
    """Whether time is that of a replay or an invented market, not the machine's."""
    uses: tuple[str, ...]

    @property
    def digest(self) -> bytes:
        """SHA-256 of all of it."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).digest()

    def part(self, name: str) -> StrategyPart:
        """The strategy of this name."""
        for one in self.strategies:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.strategies)
        raise ConfigError(f"this session has no strategy {name!r}; it has {known}")


def terms_of(one: Instrument) -> dict[str, str]:
    """An instrument as an instrument file has it."""
    terms = {
        "symbol": one.symbol,
        "venue": one.venue,
        "tick": show_fraction(one.tick),
        "lot": show_fraction(one.lot),
        "multiplier": show_fraction(one.multiplier),
        "currency": one.currency,
        "calendar": one.calendar,
    }
    for name in ("price_min", "price_max"):
        if (value := getattr(one, name)) is not None:
            terms[name] = show_fraction(value)
    return {key: value for key, value in terms.items() if value}


def write(folder: Path, manifest: Manifest) -> None:
    """Keep a manifest; a session's folder has one, and it never changes."""
    path = folder / FILE
    fresh = path.with_suffix(".new")
    with _named(path):
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        fresh.chmod(0o600)
        fresh.replace(path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """An error of writing, as of a full disk, says which file."""
    try:
        yield
    except OSError as refused:
        raise OSError(refused.errno, refused.strerror, str(path)) from None


def read(folder: Path) -> Manifest:
    """The manifest of a session; ConfigError where there is none, or it is of another program."""
    path = folder / FILE
    try:
        data = path.read_bytes()
    except OSError as refused:
        from quantdsl.report.folders import instead

        missing = f": {refused.strerror}\nhelp: name the folder of a session"
        raise ConfigError(f"{folder}: is no session{instead(folder) or missing}") from None
    try:
        form = msgspec.json.decode(data, type=dict[str, Any]).get("format")
        if form != FORMAT:
            raise ConfigError(
                f"{path}: is of format {form}, and this program reads {FORMAT}\n"
                "help: open it with the version of quantdsl that wrote it"
            )
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as wrong:
        raise ConfigError(f"{path}: is damaged: {wrong}") from None


def build_digest() -> str:
    """Hash of what the bits of a run depend on: the library, the compiler, LLVM."""
    return hashlib.sha256(compiler_version() + source_digest().encode()).hexdigest()


def same_build(manifest: Manifest) -> None:
    """ConfigError unless this program is the one that began the session."""
    if manifest.build != build_digest():
        raise ConfigError(
            f"the session was begun by another build of quantdsl ({manifest.version}, "
            f"{manifest.build[:12]}); this one is {quantdsl.__version__}, {build_digest()[:12]}\n"
            "help: a session goes on with the very program that began it; begin a new session"
        )


def hold_terms(folder: Path, manifest: Manifest, now: Sequence[Instrument]) -> None:
    """ConfigError where the feeds count prices or sizes otherwise than when the session began.

    `now` are the session's instruments as their feeds have them.
    """
    for traded, one in zip(manifest.instruments, now, strict=True):
        began = instrument_of(dict(traded.terms), FILE)
        for what in ("tick", "lot", "multiplier"):
            before, after = getattr(began, what), getattr(one, what)
            if before != after:
                raise ConfigError(
                    f"{folder}: {one.symbol} has a {what} of {show_fraction(after)} now, and "
                    f"the session counts by the {show_fraction(before)} that it began with\n"
                    "help: --new begins anew and puts the old session aside"
                )


def keep_sources(checked: Checked, folder: Path) -> dict[str, str]:
    """Copy a strategy and what it imports into a folder; file -> SHA-256 of the text."""
    main = Path(checked.source.path)
    texts = {main.name: checked.source.text}
    for module in checked.library.modules:
        if not module.std and module.source.path != checked.source.path:
            texts[str(Path(module.source.path).relative_to(main.parent))] = module.source.text
    for name, text in texts.items():
        target = folder / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _named(target):
            target.write_text(text, encoding="utf-8")
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def prepared(folder: Path, name: str, events: Events | None = None) -> Prepared:
    """A fresh run of a strategy of the session in this folder, ready for its first event.

    With the session's own events its report can be made of it. Raises ConfigError where the folder
    is no session of this very program, or its sources are not what they were.
    """
    manifest = read(folder)
    same_build(manifest)
    part = manifest.part(name)
    sources = folder / part.name / SOURCE
    for file, digest in part.sources.items():
        path = sources / file
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise ConfigError(f"{path}: is not the text that the session was begun with")
    checked = compile_file(sources / part.file)
    known: list[Instrument | None] = [instrument_of(dict(one), FILE) for one in part.terms]
    members = None
    if checked.strategy.universe is not None:
        members = awaited([manifest.instruments[place].symbol for place in part.places])
    spec = data_spec(checked, part.settings, known, members, part.changes)
    data = SessionData(
        spec, part.prices, part.begin, manifest.name, events, trade_ns=max(part.trade_from, 0)
    )
    uses = frozenset(manifest.uses) | ({WORKER} if checked.strategy.signals else set())
    return make_ready(
        checked, Arranged(part.settings, data, part.params, (), uses), part.trade_from
    )


def folder_name(text: str) -> str:
    """A name that is safe as a folder's."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:64] or "strategy"
