"""Every error that quantdsl raises on purpose.

    QuantDSLError              one clear message: where, what, why, how to mend; exit code 2
      SourceError              a strategy file is wrong; carries its diagnostics
      DataError                a data file is wrong; names file and row
      ConfigError              a configuration is wrong; names key and line
        SessionError           a session that no calendar has; the caller knows who asks for it
      LimitError               something exceeds a limit of limits.py; names the limit
      UnavailableError         the thing asked for is not there (device, optional package)
      DeviceError              a device is there and failed; names call, kernel, sizes, way out
      RingError                a ring of events is used wrongly, or a file is none
      FeedError                a live feed cannot be used; names feed, address, answer
        UnreachableError       its venue gives no answer now, and may later
        RefusedError           its venue says that what was asked is wrong
      JournalError             a journal is damaged, foreign, in use, or not what a replay gives
    InternalError              our own fault (QD9xxx); exit code 70

Anything else that escapes is a bug: the command line turns it into an InternalError report.
"""

EXIT_USER_ERROR = 2
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


class QuantDSLError(Exception):
    """Bad input of any kind; `str(error)` is what the user reads."""


class DataError(QuantDSLError):
    """A data file cannot be used as it stands."""


class ConfigError(QuantDSLError):
    """A configuration file or command-line setting cannot be used as it stands."""


class SessionError(ConfigError):
    """A session is of no known calendar, or has no hours in the span."""


class LimitError(QuantDSLError):
    """An input exceeds a named limit of limits.py."""


class UnavailableError(QuantDSLError):
    """A device or an optional package that the request needs is not there."""


class CoreAloneError(UnavailableError):
    """No device runs this kernel, whatever device it is; one core does."""


class DeviceError(QuantDSLError):
    """A device failed or refused; `kind` is one of those of devices/failure.py."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class RingError(QuantDSLError):
    """A ring is used against its rules (a second producer, more published than claimed)."""


class FeedError(QuantDSLError):
    """A live feed is not known, cannot be reached, or gives no answer that can be used.

    `retry_s` is how long the venue asks to be left alone.
    """

    def __init__(self, message: str, retry_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class UnreachableError(FeedError):
    """A venue gives no answer, or says that it cannot now: the same question may be answered later.
    """


class RefusedError(FeedError):
    """A venue says that what it was asked for is wrong: the same question gets the same answer."""


class JournalError(QuantDSLError):
    """A journal cannot be trusted or written; nothing was changed in it."""


class InternalError(Exception):
    """An invariant of quantdsl itself is broken."""
