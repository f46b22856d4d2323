"""A headless Chromium and a page in it; skips where there is none. `make console` fetches both."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import platformdirs
import pytest

TIMEOUT_MS = 10_000
INSTALLED = shutil.which("chromium") or shutil.which("google-chrome")


def need_browser() -> None:
    """Skip the test where nothing can open a page."""
    pytest.importorskip("playwright")
    own = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or platformdirs.user_cache_path(
        "ms-playwright"
    )
    if INSTALLED is None and not list(Path(own).glob("chromium*")):
        pytest.skip("no Chromium is here; `make console` fetches it")


@asynccontextmanager
async def page_of(url: str, **options: Any) -> AsyncIterator[Any]:
    """Open the console; fails where a script does, or the policy refuses something."""
    driver = pytest.importorskip("playwright.async_api")
    async with driver.async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=INSTALLED, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            page = await browser.new_page(**options)
            page.set_default_timeout(TIMEOUT_MS)
            wrong: list[str] = []
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on("console", lambda one: wrong.append(one.text) if _is_fault(one) else None)
            await page.goto(url)
            yield page
            assert wrong == []
        finally:
            await browser.close()


def _is_fault(message: Any) -> bool:
    """Whether it is an error; a refusal that the page tells its reader is none."""
    return message.type == "error" and "status of 401" not in message.text
