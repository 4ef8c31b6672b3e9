"""A real session on the invented market, watched and stopped from a real browser."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from quantdsl.cockpit.security import TOKEN_FILE
from tests.cockpit.chrome import Page, needs_browser
from tests.waiting import WAIT_S, until

STRATEGY = Path(__file__).parents[2] / "strategies" / "crypto_breakout.qdsl"
STATE = "document.getElementById('state').textContent"


class Session:
    """`quantdsl paper` in a process of its own; its port is whichever is free."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder / "session", folder / "out.txt"
        config = folder / "any_port.toml"
        shipped = (STRATEGY.parents[1] / "configs" / "paper_synthetic.toml").read_text()
        config.write_text(shipped + "\n[cockpit]\nport = 0\n")
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "quantdsl", "paper", str(STRATEGY),
                    "--config", str(config), "--session", str(self.folder),
                ],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                cwd=folder,
            )  # fmt: skip

    def link(self) -> str:
        """That of its page, with the token from its folder, when it is there."""

        def address() -> str:
            assert self.process.poll() is None, self.out.read_text()
            found = re.search(r"http://127\.0\.0\.1:\d+", self.out.read_text())
            return found[0] if found and (self.folder / TOKEN_FILE).exists() else ""

        return f"{until(address, self.out.read_text)}/#{self.token}"

    @property
    def token(self) -> str:
        return (self.folder / TOKEN_FILE).read_text().strip()

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(WAIT_S)


@pytest.fixture
def session(tmp_path):
    started = Session(tmp_path)
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()


@needs_browser
@pytest.mark.slow
def test_fills_are_seen_and_a_halt_is_obeyed_and_lifted(session, tmp_path):
    with Page(tmp_path) as page:
        page.open(session.link())
        page.wait(f"{STATE} === 'active'")
        page.wait("document.querySelectorAll('#fills tbody tr').length >= 2")
        assert page.text("#price-title") == "Price"
        assert page.value("bars.times.length") > 50
        page.wait("document.getElementById('n-positions').textContent === '1'")
        page.click("[data-command=halt]")
        page.click("#confirm-yes")
        page.wait(f"{STATE} === 'halted'")
        assert page.text("#why")
        page.wait("document.getElementById('n-working').textContent === '0'")
        page.click("[data-command=flatten]")
        page.click("#confirm-yes")
        page.wait("document.getElementById('n-positions').textContent === '0'")
        assert page.text("#state").lower() == "halted"
        page.click("[data-command=rearm]")
        page.click("#confirm-yes")
        page.wait(f"{STATE} === 'active'")
        page.click("#tab-log")
        assert len(page.text("#log tbody").splitlines()) >= 3
        assert not page.complaints
    assert session.end() == 0, session.out.read_text()
    token = session.token.encode()
    for file in session.folder.rglob("*"):
        if file.is_file() and file.name != TOKEN_FILE:
            assert token not in file.read_bytes(), file
    assert token not in session.out.read_bytes()  # it is no terminal


@needs_browser
@pytest.mark.slow
def test_a_killed_engine_is_shown_as_lost(session, tmp_path):
    with Page(tmp_path) as page:
        page.open(session.link())
        page.wait(f"{STATE} === 'active'")
        children = Path(f"/proc/{session.process.pid}/task/{session.process.pid}/children")
        if not children.exists():
            pytest.skip("this system does not list the children of a process")
        for child in children.read_text().split():
            os.kill(int(child), 9)
        page.wait(f"['lost', 'not connected'].includes({STATE})")
    assert session.end() != 0
    assert msgspec.json.decode((session.folder / "session.json").read_bytes())
