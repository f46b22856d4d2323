"""A headless Chromium and a page in it; skips where there is none. `make console` fetches both."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

TIMEOUT_MS = 10_000


@asynccontextmanager
async def page_of(url: str, **options: Any) -> AsyncIterator[Any]:
    """Open the console; fails where a script does, or the policy refuses something."""
    driver = pytest.importorskip("playwright.async_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    async with driver.async_playwright() as playwright:
        if chromium is None and not os.path.exists(playwright.chromium.executable_path):
            pytest.skip("no Chromium is here; `make console` fetches it")
        browser = await playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
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
