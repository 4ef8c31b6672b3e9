"""Time zones by their names."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from quantdsl.errors import ConfigError

UTC = "UTC"
"""What times are read in where no setting names a zone."""


def zone(name: str) -> ZoneInfo:
    """The time zone of this IANA name, or ConfigError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"time zone {name!r} is not known: use an IANA name such as UTC or America/New_York"
        ) from None
