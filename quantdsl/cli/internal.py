"""What happens when quantdsl itself fails: a QD9001 message and a file with the details."""

import platform
import tempfile
import traceback

from quantdsl import __version__


def report_internal(error: Exception, argv: list[str]) -> str:
    """Write the details of our own failure to a new private file; the message for the user."""
    details = "\n".join(
        [
            f"quantdsl {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"arguments: {argv!r}",
            "",
            *traceback.format_exception(error),
        ]
    )
    message = (
        f"error QD9001: quantdsl itself failed: {type(error).__name__}: {error}\n"
        "   = This is a fault of quantdsl, not of your strategy or data.\n"
    )
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="quantdsl-report-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(details)
    except OSError as refused:
        reason = f"   = No report file could be written ({refused}); the details:\n"
        return message + reason + details
    return f"{message}   help: send {file.name} with a bug report; it holds paths and no data."
