"""quantdsl: a low-latency trading strategy engine."""

__version__ = "0.1.0"
