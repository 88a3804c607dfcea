"""Pictures of the page for docs/page.md: `make pictures` takes them anew."""

import io
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image

from levelwind.daemon.api.views.lag_history import LagHistory
from levelwind_testing.page.api_client import TOKEN, ApiClient, wait_until_served
from levelwind_testing.page.page_browser import open_browser
from levelwind_testing.page.scripted_decisions import scripted_decisions
from levelwind_testing.page.scripted_groups import STEP_MS, small_installation
from levelwind_testing.page.served_page import ServedPage, write_tokens

SIZE = {"width": 1280, "height": 800}
POINTS = 60
COLOURS = 128
SHOTS = (
    ("groups", "light", "groups"),
    ("group", "light", "groups/clickstream-etl"),
    ("group-dark", "dark", "groups/payments-ledger"),
    ("decisions", "dark", "decisions"),
    ("levers", "light", "levers?group=payments-ledger"),
)


def take(directory: Path) -> None:
    """Take all pictures."""
    now = round(time.time() * 1000)
    installation = small_installation()
    installation.at = now - (POINTS + 2) * STEP_MS
    with tempfile.TemporaryDirectory() as scratch:
        tokens = write_tokens(Path(scratch), anna=TOKEN)
        served = ServedPage(installation, token_file=tokens)
        try:
            wait_until_served(ApiClient(served.url))
            served.server._context.view.history = LagHistory()  # its first point is of now
            served.take_points(POINTS)
            for part in scripted_decisions(now):
                served.decisions.log.add(part)
            with open_browser() as browser:
                _shoot(browser, served.url, directory)
        finally:
            served.close()


def _shoot(browser: Any, url: str, directory: Path) -> None:
    for name, scheme, route in SHOTS:
        page = browser.new_page(viewport=SIZE, color_scheme=scheme)
        page.goto(f"{url}#/{route}")
        page.wait_for_timeout(2500)
        if name == "levers":
            _run_dry(page)
        _save(page.screenshot(), directory / f"{name}.png")
        page.close()


def _run_dry(page: Any) -> None:
    page.fill("#token", TOKEN)
    page.select_option("select", "drain")
    page.fill("label:has-text('Member') input", "payments-003")
    page.click("text=Dry run")
    page.wait_for_selector(".result .card")


def _save(picture: bytes, path: Path) -> None:
    """Save with few colours: a third of the size."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
