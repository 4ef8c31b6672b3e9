"""Functions of the host for tests: some keep to the rules, some do not."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
CALLS: list[int] = []
NO_FUNCTION = 1.0


def move(src: Floats, n: int) -> Floats:
    """src - src[n]; n is an int, as it is declared."""
    CALLS.append(len(src))
    found = np.full(len(src), np.nan)
    found[n:] = src[n:] - src[: -n or None]
    return found


def ratio(x: Floats, y: Floats) -> Floats:
    """x / y."""
    return x / y


def ahead(src: Floats, n: float) -> Floats:
    """The next value: what no signal may know."""
    return np.append(src[1:], np.nan)


def whole(src: Floats, n: float) -> Floats:
    """Standardised by the whole sample, as is often done."""
    return (src - np.nanmean(src)) / np.nanstd(src)


def filled(src: Floats, n: float) -> Floats:
    """A mean of 20 bars, whose first values are filled with the one that comes later."""
    found = smoothed(src, n)
    found[:19] = found[19]
    return found


def smoothed(src: Floats, n: float) -> Floats:
    """A mean of 20 bars, which rounds otherwise over fewer of them and needs 20."""
    if len(src) < 20:
        raise ValueError("too few")
    return np.convolve(src, np.full(20, 0.05))[: len(src)]


def drawn(src: Floats, n: float) -> Floats:
    """Noise, and another one in each call."""
    return src + np.random.default_rng().random(len(src))


def short(src: Floats, n: float) -> Floats:
    """One value too few."""
    return src[1:]


def broken(src: Floats, n: float) -> Floats:
    """Fails."""
    raise ValueError("no such window")


def masked(src: Floats, n: float) -> npt.NDArray[np.float64]:
    """Hides the first two, whose values lie behind the mask all the same."""
    found = np.ma.masked_array(src.copy(), mask=np.arange(len(src)) < 2)
    return found


def gaps(src: Floats, n: float) -> list[float | None]:
    """None where there is no value."""
    return [None, None, *src[2:].tolist()]


def texts(src: Floats, n: float) -> list[str]:
    """Texts that read like numbers."""
    return [str(x) for x in src]


def mixed(src: Floats, n: float) -> list[object]:
    """A text among them."""
    return [None, "3.0", *src[2:].tolist()]


def complex_numbers(src: Floats, n: float) -> npt.NDArray[np.complex128]:
    """Two numbers each."""
    return src + 1j


def moments(src: Floats, n: float) -> npt.NDArray[np.datetime64]:
    """Times."""
    return np.zeros(len(src), "datetime64[ns]")


def leaves(src: Floats, n: float) -> Floats:
    """Ends the process, or would."""
    raise SystemExit(0)


def writes(src: Floats, n: float) -> Floats:
    """Spoils its argument, which is its own copy."""
    src[:] = 0.0
    return src
