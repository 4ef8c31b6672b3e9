"""Sources of market data, one adapter a module; nothing outside this package knows a venue.

A checkout keeps the modules in `feeds/` beside the package and a wheel holds them right here, so
`quantdsl.feeds.synthetic` is one name in a bare checkout, an editable install and a wheel.
"""

from pathlib import Path

__path__.append(str(Path(__file__).parents[2] / "feeds"))
