"""The name under which a strategy's code is kept changes with all that the code depends on."""

from quantdsl.check.checked import check_source, compile_file
from quantdsl.lang.source import Source

STRATEGY = """
strategy One:
    bars 1m

    on bar:
        if flat:
            buy(1 share)

    risk:
        max_position = 10 shares
"""
USES = frozenset()


def key_of(text, **how):
    checked, diagnostics = check_source(Source(text), **how)
    assert checked is not None, diagnostics
    return checked.module_key(USES)


def test_text_uses_and_how_it_is_checked():
    text = STRATEGY
    keys = [
        key_of(text),
        key_of(text.replace("buy(1 share)", "buy(2 shares)")),
        key_of(text, trace=True),
        check_source(Source(text))[0].module_key(frozenset({"USES_KILL"})),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of(text) == keys[0]


def test_the_size_of_a_universe():
    text = STRATEGY.replace("bars 1m", 'universe "U"\n    bars 1m')
    text = text.replace("max_position = 10 shares", "max_gross = 100 USD")
    checked, diagnostics = check_source(Source(text))
    assert checked is not None, diagnostics
    assert checked.module_key(USES) != checked.sized(40).module_key(USES)


def test_a_file_that_it_imports(tmp_path):
    main, lib = tmp_path / "one.qdsl", tmp_path / "lib" / "sizes.qdsl"
    lib.parent.mkdir()
    sized = STRATEGY.replace("buy(1 share)", "buy(sizes.SIZE * 1 share)")
    main.write_text("import lib.sizes\n" + sized)
    keys = []
    for size in (1, 2):
        lib.write_text(f"const SIZE = {size}\n")
        keys.append(compile_file(main).module_key(USES))
    assert keys[0] != keys[1]
