import pytest

from quantdsl.codegen import target
from quantdsl.codegen.target import X86_64_V3, X86_64_V4, Target, native, require
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


@pytest.mark.skipif(not native().triple.startswith("x86_64"), reason="of x86-64")
@pytest.mark.parametrize(("lacks", "lanes"), [("", 8), ("avx512dq", 4), ("avx512vl", 4)])
def test_lanes_take_the_widest_vectors_of_the_machine(lacks, lanes, monkeypatch):
    features = {**V3, **dict.fromkeys(X86_64_V4, True), lacks: False}
    monkeypatch.setattr(target.llvm, "get_host_cpu_features", lambda: features)
    assert target.native_lanes.__wrapped__().lanes == lanes


def test_lanes_of_an_aarch64_machine(monkeypatch):
    monkeypatch.setattr(target, "native", lambda: Target("aarch64-unknown-linux-gnu", "cpu", ""))
    found = target.native_lanes.__wrapped__()
    assert (found.lanes, found.cpu, found.features) == (2, "cpu", "+neon")
