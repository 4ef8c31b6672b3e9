"""The words of the language: reserved words, words that open a line, and the closed unit table."""

RESERVED = frozenset(
    "and or not is na true false mod of crosses in "
    "if elif else for while return break continue let var".split()
)
"""Words that are never names (except after a dot)."""

AFTER_WORDS = frozenset("step log when max reduce as on".split())
"""Contextual words that stand after an expression."""

DATA_WORDS = frozenset("bars quotes trades book session instrument universe".split())
TOP_WORDS = frozenset(
    "language import from const enum struct fn indicator kernel strategy test".split()
)
ITEM_WORDS = DATA_WORDS | frozenset(
    "param require invariant const let state on every at action fn risk backtest test".split()
)
STATEMENT_WORDS = frozenset(
    "let var state if match for parallel while atomic return break continue assert".split()
)
TEST_WORDS = frozenset("set feed given expect".split())

BINDING_WORDS = frozenset("let var state param const".split())
"""Words that declare one name with `=`."""

TIME_UNITS = frozenset("ns us ms s m h d w mo y".split())
RATIO_UNITS = frozenset(("%", "bps"))
COUNT_UNITS = frozenset(
    "tick ticks share shares unit units lot lots contract contracts bar bars day days".split()
)
RISK_UNITS = frozenset(("R",))
CURRENCIES = frozenset(
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP "
    "BYN BZD CAD CDF CHF CLP CNH CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP "
    "GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS "
    "KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR "
    "MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF "
    "SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD "
    "TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG USDC USDT".split()
)
"""ISO 4217 codes of currencies in use, CNH, and those that crypto venues keep accounts in."""

UNITS = TIME_UNITS | RATIO_UNITS | COUNT_UNITS | RISK_UNITS | CURRENCIES
"""All that may follow a number. The table is closed, so that `5..50 step 5` is no unit `step`."""

UNITS_SHOWN = (
    "units: ns us ms s m h d w mo y, % bps R, ticks shares units lots contracts bars days, USD ..."
)
UNIT_SYNONYMS = {
    "sec": "s",
    "secs": "s",
    "second": "s",
    "seconds": "s",
    "min": "m",
    "mins": "m",
    "minute": "m",
    "minutes": "m",
    "hr": "h",
    "hrs": "h",
    "hour": "h",
    "hours": "h",
    "week": "w",
    "weeks": "w",
    "month": "mo",
    "months": "mo",
    "year": "y",
    "years": "y",
    "bp": "bps",
    "pct": "%",
    "percent": "%",
    "dollars": "USD",
}
"""What people write for a unit elsewhere; never accepted, only understood."""

_CLOCK = "a time of day is written 09:00, and 21:00 in the evening"
NO_UNITS = {"am": _CLOCK, "pm": _CLOCK}
"""What is no unit anywhere, and what is meant."""

_COSTS = "costs and cash stand in 'backtest:', such as fees = 10bps, cash = 10_000 USD"
_FN = "a function stands above the strategy: 'fn name(x: float) -> float:'"
_LET = "write 'let x = 3', or 'var x = 3' for what changes in the handler"
_BARS = "write 'bars 1d'"
_RISK = "limits stand in 'risk:', such as max_position = 500 shares, max_drawdown = 20%"
_ORDER = "an order is a call in a handler: {}(100 shares)"
ELSEWHERE = {
    **{word: _ORDER.format(word) for word in ("buy", "sell", "short", "cover", "target")},
    "timeframe": _BARS,
    "resolution": _BARS,
    "interval": _BARS,
    "input": "write 'param length = 20 in 5..50 step 5'",
    "symbol": "write 'instrument \"XNYS:KO\" as ko', or leave it out for what --data holds",
    "commission": _COSTS,
    "capital": _COSTS,
    "initial_capital": _COSTS,
    "cash": _COSTS,
    "fees": _COSTS,
    "slippage": _COSTS,
    "def": _FN,
    "function": _FN,
    "int": _LET,
    "float": _LET,
    "bool": _LET,
    "max_position": _RISK,
    "max_positions": _RISK,
    "max_drawdown": _RISK,
    "max_daily_loss": _RISK,
    "var": "what changes from bar to bar is a 'state', an equation a 'let'",
}
"""Words that begin lines in other tools, and how what they mean is said here."""

CLOSE_UNITS = TIME_UNITS | RATIO_UNITS | RISK_UNITS
"""Units that are written without a space: `5m`, `10%`, `2R`."""
