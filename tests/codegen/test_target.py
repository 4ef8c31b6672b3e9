import pytest

from quantdsl.codegen.target import X86_64_V3, native, require
from quantdsl.errors import UnavailableError

V3 = dict.fromkeys(X86_64_V3, True)


def test_this_machine_can_be_compiled_for():
    assert native().triple.startswith(("x86_64", "aarch64", "arm64"))
    assert native() == native()
    assert native().machine().triple == native().triple


def test_what_is_enough():
    require("x86_64-unknown-linux-gnu", V3)
    require("arm64-apple-darwin", {"neon": True})


@pytest.mark.parametrize("missing", X86_64_V3)
def test_a_cpu_below_v3_is_refused_and_the_lack_named(missing):
    with pytest.raises(UnavailableError, match=f"this CPU lacks {missing}; .* Haswell"):
        require("x86_64-unknown-linux-gnu", {**V3, missing: False})


def test_another_architecture_is_refused():
    with pytest.raises(UnavailableError, match="riscv64; compiled strategies run on x86-64"):
        require("riscv64-unknown-linux-gnu", {})
    with pytest.raises(UnavailableError, match="lacks neon"):
        require("aarch64-unknown-linux-gnu", {})
