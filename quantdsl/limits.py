"""Every limit of the product in one table: its name, its value, its unit and its reason.

A `Limit` is an int, so code compares with it directly; an error that it causes names it, so that
whoever meets it can find this line.
"""


class Limit(int):
    """The largest accepted value of something; equal to the constant that holds it.

    `name` is the constant's own name, `unit` what is counted, `why` the reason for the value.
    """

    name: str
    unit: str
    why: str

    def __new__(cls, name: str, value: int, unit: str, why: str) -> "Limit":
        limit = super().__new__(cls, value)
        limit.name, limit.unit, limit.why = name, unit, why
        return limit

    def __str__(self) -> str:
        return f"{self.name} ({int(self):,} {self.unit})"


# ---- source text ----------------------------------------------------------------------------

SOURCE_BYTES = Limit(
    "SOURCE_BYTES", 64 * 1024, "bytes", "a strategy is read by people; bounds the compile time"
)
STD_SOURCE_BYTES = Limit(
    "STD_SOURCE_BYTES", 1024 * 1024, "bytes", "files of the standard library, which ship with us"
)
CONFIG_BYTES = Limit(
    "CONFIG_BYTES", 4 * 1024 * 1024, "bytes", "a venue's instruments fit, and it is read in seconds"
)
NAME_CHARS = Limit("NAME_CHARS", 64, "characters", "names fit reports and record fields")
NUMBER_CHARS = Limit("NUMBER_CHARS", 40, "characters", "more than any double or int64 needs")
BRACKET_DEPTH = Limit("BRACKET_DEPTH", 64, "open brackets", "the parser's stack is bounded")
BLOCK_DEPTH = Limit("BLOCK_DEPTH", 32, "nested blocks", "every later stage recurses over blocks")
EXPRESSION_DEPTH = Limit(
    "EXPRESSION_DEPTH",
    100,
    "nested operations",
    "every later stage recurses over expressions; a sum of n terms is n - 1 deep",
)
DIAGNOSTICS = Limit("DIAGNOSTICS", 100, "messages", "nobody mends more than that at once")

# ---- what a strategy may ask for --------------------------------------------------------------

WINDOW = Limit(
    "WINDOW", 1_000_000, "bars back", "ten years of minutes; a longer window is a coarser clock"
)
TURNS = Limit(
    "TURNS", 1_000_000, "turns of nested loops", "an event must be over before the next one comes"
)
STATEMENTS = Limit(
    "STATEMENTS", 4_000, "steps in one handler", "bounds the compile time, actions included"
)
SERIES = Limit("SERIES", 300, "equations and indicators", "bounds the compile time")
HOST_CALLS = Limit("HOST_CALLS", 64, "calls of the host", "each is a trait, which is one byte")
PARAMS = Limit("PARAMS", 64, "params", "more than anybody can sweep or understand")
POINTS = Limit("POINTS", 1_000_000, "points of one param", "a sweep must end; steps can be wider")
SWEEP_POINTS = Limit(
    "SWEEP_POINTS", 10_000_000, "points of one sweep", "the table of its results fits in memory"
)
CLOCKS = Limit("CLOCKS", 62, "instruments times clocks", "a bit of one word says which ticked")
KERNEL_BYTES = Limit(
    "KERNEL_BYTES", 256 * 1024, "bytes", "what a kernel keeps lies on the stack"
)
LANES_STACK_BYTES = Limit(
    "LANES_STACK_BYTES", 64 * 1024 * 1024, "bytes", "lanes side by side lie on a thread's stack"
)
GRID_BYTES = Limit(
    "GRID_BYTES", 2 * 1024 * 1024, "bytes", "what a core keeps of threads lies on its stack"
)
GRID_BLOCKS = Limit(
    "GRID_BLOCKS", 2**31 - 1, "blocks", "what every GPU takes of one launch, so a core no more"
)
SHARED_BYTES = Limit(
    "SHARED_BYTES", 48 * 1024, "bytes", "what a block of threads has on every GPU"
)
CONSTANT_BYTES = Limit(
    "CONSTANT_BYTES", 64 * 1024, "bytes", "what every GPU has of constant memory"
)
BOOK_DEPTH = Limit("BOOK_DEPTH", 1_000, "levels", "what a strategy looks at is bounded")
TIMERS = Limit("TIMERS", 62, "'at' and 'every' handlers", "a bit of one word says which fired")
MOMENTS = Limit(
    "MOMENTS", 50_000_000, "moments of an 'every'", "those between two chunks of data are in memory"
)
OPERATIONS = Limit(
    "OPERATIONS", 150_000, "operations of one event", "bounds the compile time and the latency"
)
STATE_BYTES = Limit(
    "STATE_BYTES", 64 * 1024 * 1024, "bytes", "the state of a run is one block of memory"
)
UNIVERSE_BYTES = Limit(
    "UNIVERSE_BYTES", 256 * 1024 * 1024, "bytes", "the same for 5,000 instruments with 50 kB each"
)
COLUMN_BYTES = Limit(
    "COLUMN_BYTES", 1 << 30, "bytes", "what a sweep computes ahead fits beside its data"
)
LATENCY_ROWS = Limit(
    "LATENCY_ROWS", 5_000_000, "rows", "measured latencies of a run are kept in memory"
)
LANE_STATE_BYTES = Limit(
    "LANE_STATE_BYTES", 512 * 1024, "bytes", "the local memory of a thread on a GPU"
)
