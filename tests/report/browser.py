"""A page of ours: what it may load, and how a real browser draws it, where there is one."""

import base64
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


def drawn(page: str, folder: Path) -> str:
    """The elements of a page after its scripts have run; none of them may complain."""
    assert CHROMIUM is not None
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=3000",
            "--enable-logging=stderr",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "CONSOLE" not in done.stderr
    return done.stdout


def assert_closed(page: str) -> None:
    """A page loads nothing, and its policy lets in exactly its own scripts and style."""
    assert not re.search(r"<(link|img|iframe|object|embed)\b", page)
    assert not re.search(r"<script[^>]*\bsrc\b", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    blocks = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    blocks += re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert not re.search(r'\sstyle="|\son\w+="', page.split("<script")[0])
