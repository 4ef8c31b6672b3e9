"""The registry of diagnostic codes: what each means, and an example with its cure.

Families: 01 syntax, 02 names, 03 types, 04 time, 05 na, 06 bounds, 07 params, 08 orders,
09 kernels, 90 internal. A code is never given a second meaning and never reused. Each family is
defined by a module of its own on import, syntax by lang/syntax_codes.py.
"""

import re
from textwrap import indent

import msgspec

from quantdsl.errors import InternalError

_CODE = re.compile(r"QD(0[1-9]|90)[0-9]{2}")


class Code(msgspec.Struct, frozen=True):
    """A kind of finding. `wrong` and `mended` are QuantDSL sources, before and after the cure."""

    code: str
    title: str
    why: str
    wrong: str
    mended: str


_codes: dict[str, Code] = {}


def define(code: str, title: str, why: str, wrong: str, mended: str) -> None:
    """Enter a code; InternalError if it is malformed or taken."""
    if not _CODE.fullmatch(code) or code in _codes:
        raise InternalError(f"diagnostic code {code} is malformed or defined twice")
    _codes[code] = Code(code, title, why, wrong, mended)


def lookup(code: str) -> Code | None:
    return _codes.get(code.upper())


def defined() -> list[Code]:
    """All codes, in order."""
    return [_codes[code] for code in sorted(_codes)]


def explanation(code: Code) -> str:
    """The page that `explain QD0106` prints."""
    return (
        f"{code.code}: {code.title}\n\n{code.why}\n\n"
        f"Wrong:\n\n{_example(code.wrong)}\n\nMended:\n\n{_example(code.mended)}\n"
    )


def _example(text: str) -> str:
    shown = text if text.isprintable() else "".join(map(_visible, text))
    return indent(shown.rstrip("\n"), "    ")


def _visible(character: str) -> str:
    known = character.isprintable() or character == "\n"
    return character if known else f"<{ord(character):04X}>"
