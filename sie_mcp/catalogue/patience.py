"""A limit for a question to the network that holds whatever the library does. Knows no question."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import httpx2

ResultT = TypeVar("ResultT")


def within(seconds: float, call: Callable[[], ResultT]) -> ResultT:
    """Return what a call returns, if it does so in time; a late one is left to itself.

    A library's timeout counts for each address of a host, and not for the look-up of its name;
    behind a firewall that drops packets the sum is minutes. A daemon thread does not keep the
    process alive for that.

    Raises:
        TimeoutError: no answer in time.
        Exception: what the call raised.
    """
    answer: Future[ResultT] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except (OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="patience", daemon=True).start()
    try:
        return answer.result(timeout=seconds)
    except TimeoutError as error:
        raise TimeoutError(f"no answer within {seconds:g} s") from error
