"""What a client asks before it sends work: the account of whoever it works for."""

from typing import Protocol

import anyio

from sie_mcp.errors import RateLimited


class Account(Protocol):
    """What whoever a client works for may still do."""

    def check_model(self, model: str) -> None:
        """Refuse a model that is not theirs; counts nothing.

        Raises:
            NotAllowed: not this one.
        """

    async def admit(self, model: str, num_bytes: int) -> None:
        """Let a request go to a model.

        Raises:
            NotAllowed, RateLimited: not this one, or not now.
        """


async def admit(account: Account | None, model: str, num_bytes: int, *, wait_s: float) -> None:
    """Ask an account, and wait for it as long as may be: a long list need not fail in its middle.

    Raises:
        NotAllowed, RateLimited: not this model, or not within `wait_s`.
    """
    ends_s = anyio.current_time() + wait_s
    while account is not None:
        try:
            await account.admit(model, num_bytes)
        except RateLimited as error:
            pause_s = error.retry_after_s or 1.0
            if anyio.current_time() + pause_s >= ends_s:
                raise
            await anyio.sleep(pause_s)
        else:
            return
