"""`quantdsl doctor` as users type it."""

import json

from click.testing import CliRunner

from quantdsl.cli import cli


def test_doctor_prints_what_is_there_and_what_is_not():
    done = CliRunner().invoke(cli, ["doctor"], standalone_mode=False, catch_exceptions=False)
    assert done.return_value == 0
    for name in ("processor", "cache folder", "isolated core", "timer source", "GPU"):
        assert name in done.output
    assert "placement  engine on core" in done.output
    lines = done.output.splitlines()
    for number, line in enumerate(lines):
        assert not line.lstrip().startswith("$") or lines[number - 1].startswith("lacks")


def test_doctor_as_json():
    done = CliRunner().invoke(cli, ["doctor", "--json"], standalone_mode=False)
    document = json.loads(done.output)
    assert {"name", "ok", "found", "needed", "mend"} == set(document["findings"][0])
    assert "engine" in document["placement"]
