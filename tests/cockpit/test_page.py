"""The page in a real browser: clicked through, in both themes, without one complaint."""

import re
import time

import pytest

from quantdsl.cockpit.server import Cockpit
from quantdsl.config import CockpitConfig
from tests.cockpit import script
from tests.cockpit.chrome import Page, needs_browser
from tests.cockpit.script import CASH, Script

pytestmark = needs_browser
HOSTILE = "<img src=x onerror=document.body.dataset.owned=1>"
STATE = "document.getElementById('state').textContent"


def number(text):
    return float(text.translate({0x2212: "-", ord(","): None}))


def opened(played, page):
    page.open(played.cockpit.link)
    page.wait(f"{STATE} === 'active'")


def test_a_session_is_watched_halted_and_armed_again(play, tmp_path):
    played = play(warm=3_000, runs=True)
    with Page(tmp_path) as page:
        opened(played, page)
        assert played.token not in page.value("location.href")
        assert page.value("document.cookie") == ""
        shown = number(page.text("#equity"))
        assert shown == pytest.approx(played.history.snapshot()[0].equity, abs=500)
        assert shown != CASH
        fills = page.value("document.querySelectorAll('#fills tbody tr').length")
        assert fills >= 10
        page.wait(f"document.querySelectorAll('#fills tbody tr').length > {fills}")
        assert page.value("document.querySelectorAll('#chart canvas').length") > 0
        assert page.value("document.querySelectorAll('#latency rect').length") > 5
        assert page.text("#book .ask b") > ""
        assert page.value("document.querySelector('#gauges [role=meter]').ariaValueMax") == "2000"

        page.click("[data-command=halt]")
        assert page.text("#confirm-title") == "Halt trading?"
        assert page.value("document.activeElement.id") == "confirm-no"
        page.click("#confirm-no")
        time.sleep(0.3)
        assert not played.script.sent  # nothing is done unless it is confirmed
        page.click("[data-command=halt]")
        page.key("Escape")
        page.wait("!document.getElementById('confirm').open")
        assert not played.script.sent
        page.click("[data-command=halt]")
        page.click("#confirm-yes")
        page.wait(f"{STATE} === 'halted'")
        assert page.text("#why") == "halted by cockpit"
        page.wait("document.getElementById('toast').textContent === 'Sent: halt, all strategies'")
        page.wait("document.getElementById('n-working').textContent === '0'")
        assert page.text("#n-log") == "1"
        page.click("#tab-log")
        assert "halt by cockpit" in page.text("#log tbody tr")

        for command, done in (("flatten", "n-positions"), ("cancel_all", "n-working")):
            page.click(f"[data-command={command}]")
            page.click("#confirm-yes")
            page.wait(f"document.getElementById('{done}').textContent === '0'")
        page.click("[data-command=rearm]")
        page.click("#confirm-yes")
        page.wait(f"{STATE} === 'active'")
        kinds = [command.kind for command in played.script.sent]
        assert kinds == ["halt", "flatten", "cancel_all", "rearm"]
        assert {command.by for command in played.script.sent} == {"cockpit"}
        assert not page.complaints


def test_signals_have_a_list_of_their_own_where_there_are_any(play, tmp_path):
    played = play(warm=100, runs=True)
    with Page(tmp_path) as page:
        opened(played, page)
        page.click("#tab-signals")
        cells = "[...document.querySelectorAll('#signals tbody td')].map((one) => one.textContent)"
        name, asked, ready, stale, dropped, *_ = page.value(cells)
        assert (name, stale, dropped) == ("forecast", "1", "1")
        assert number(asked) == number(ready) + 2 >= 300
        assert page.text("#n-signals") == "2"
        assert page.value("document.getElementById('positions').hidden")
        assert not page.complaints


def test_candles_are_as_wide_as_one_likes(play, tmp_path):
    played = play(warm=2_000, runs=True)
    with Page(tmp_path) as page:
        opened(played, page)
        assert page.value("bars.each") == 5
        narrow = page.value("[...bars.rows.values()].slice(0, 12)")
        choose = "at('width').value = '60'; at('width').dispatchEvent(new Event('change'))"
        page.value(choose)
        assert page.value("bars.times.every((time) => time % 60 === 0)")
        first = page.value("candles.data()[0]")
        inside = [row for row in narrow if row["time"] // 60 == first["time"] // 60]
        assert first["open"] == inside[0]["open"]
        assert first["close"] == inside[-1]["close"]
        assert first["high"] == max(row["high"] for row in inside)
        assert first["low"] == min(row["low"] for row in inside)
        minutes = "new Set([...bars.rows.values()].map((row) => Math.floor(row.time / 60))).size"
        assert page.value(f"[bars.times.length - {minutes}, bars.times.length >= 4]") == [0, True]
        page.wait("candles.data().at(-1).close === [...bars.rows.values()].at(-1).close")
        assert not page.complaints


def test_keys_alone_are_enough(play, tmp_path):
    played = play(warm=500, runs=True)
    with Page(tmp_path) as page:
        opened(played, page)
        page.value("document.querySelector('[data-command=halt]').focus()")
        page.key("Enter")
        page.wait("document.getElementById('confirm').open")
        page.key("Tab")  # from "Not now" to "Halt now"
        page.wait("document.activeElement.id === 'confirm-yes'")
        page.key("Enter")
        page.wait(f"{STATE} === 'halted'")
        page.value("document.getElementById('tab-positions').focus()")
        page.key("ArrowRight")
        assert page.value("document.activeElement.id") == "tab-working"
        assert page.value("document.getElementById('positions').hidden")
        assert not page.complaints


def test_every_control_has_a_name(play, tmp_path):
    played = play(warm=500, runs=True)
    with Page(tmp_path) as page:
        opened(played, page)
        tree = page.call("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "tab", "combobox", "meter", "dialog", "tabpanel", "textbox"}
        found = [node for node in tree if node.get("role", {}).get("value") in roles]
        assert len(found) >= 12
        assert not [node for node in found if not node.get("name", {}).get("value")]


def test_without_the_link_the_page_asks_for_the_token(play, tmp_path):
    played = play(warm=100, runs=True)
    with Page(tmp_path) as page:
        page.open(played.cockpit.address.url)
        page.wait("document.getElementById('door').open")
        for text in ("wrong", played.token):
            page.click("#token")
            page.call("Input.insertText", text=text)
            page.click("#door button")
            if text == "wrong":
                page.wait("document.getElementById('door-wrong').textContent > ''")
        page.wait(f"{STATE} === 'active'")
        assert not page.value("document.getElementById('door').open")


def test_a_page_finds_the_session_again(play, tmp_path):
    played = play(warm=100, runs=True)
    with Page(tmp_path) as page:
        opened(played, page)
        played.history.say("info", "test", "before")
        page.wait("fills.length > 0 && log.length > 0")
        played.cockpit.close()
        page.wait(f"{STATE} === 'not connected'")
        assert page.value("document.querySelector('[data-command=halt]').disabled")
        assert "The figures are those of" in page.text("#why")
        again = Cockpit(
            played.history, played.script.send, played.folder, CockpitConfig(port=played.port)
        )
        again.start()
        try:
            page.wait(f"{STATE} === 'active'")  # by the token of the folder, at the same port
            for rows in ("fills", "log"):
                assert page.value(f"{rows}.length - new Set({rows}.map((r) => r.seq)).size") == 0
            page.click("[data-command=halt]")
            page.click("#confirm-yes")
            page.wait(f"{STATE} === 'halted'")
        finally:
            again.close()


def test_a_silent_session_is_not_shown_as_a_good_one(play, tmp_path):
    played = play(warm=100)
    with Page(tmp_path) as page:
        page.open(played.cockpit.link)
        page.wait(f"{STATE} === 'silent'")
        assert re.search(r"has not been heard for \d+ s", page.text("#why"))


def test_hostile_names_stay_text(monkeypatch, play, tmp_path):
    # What is patched comes back when the script, which reads it on a thread, has ended.
    monkeypatch.setitem(script.SYMBOLS, HOSTILE, (50.0, 2, 2, 0.1))
    played = play(Script(name=HOSTILE), warm=800, runs=True)
    played.history.say("error", HOSTILE, HOSTILE)
    with Page(tmp_path) as page:
        opened(played, page)
        page.click("#tab-log")
        page.wait("document.querySelectorAll('#log tbody tr').length > 0")
        assert page.text("#session") == HOSTILE
        assert HOSTILE in page.text("#log tbody")
        assert page.value("document.querySelectorAll('img[src=x]').length") == 0
        assert page.value("document.body.dataset.owned ?? ''") == ""
        assert not page.complaints


@pytest.mark.parametrize(
    ("width", "height", "dark"), [(1440, 790, False), (1280, 640, True), (820, 1100, False)]
)
def test_nothing_jumps_and_nothing_is_cut(play, tmp_path, width, height, dark):
    played = play(warm=1_500, runs=True)
    with Page(tmp_path, width=width, height=height, dark=dark) as page:
        opened(played, page)
        time.sleep(0.5)
        boxes = (
            "JSON.stringify([...document.querySelectorAll('section, header > *, .strip')]"
            ".map((e) => { const r = e.getBoundingClientRect();"
            " return [r.x, r.y, r.width, r.height].map(Math.round); }))"
        )
        before = page.value(boxes)
        time.sleep(2)
        assert page.value(boxes) == before
        assert page.value("document.documentElement.scrollWidth") <= width
        theme = page.value("document.documentElement.dataset.theme")
        assert theme == ("dark" if dark else "light")
        page.click("#theme")
        assert page.value("document.documentElement.dataset.theme") != theme
        page.open(played.cockpit.address.url)  # the tab keeps its token, the browser the theme
        page.wait(f"{STATE} === 'active'")
        assert page.value("document.documentElement.dataset.theme") != theme
        assert not page.complaints
