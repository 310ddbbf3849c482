"""Texts that are kept as Secret blocks on a Prefect server.

Only asks a server that is there: looking for a block is no reason to start one, nor to import Prefect.
"""

import os
import sys

from tasks.text import one_line


async def secret_block(block: str) -> str:
    """The text in a Secret block.

    Raises:
        LookupError: there is none, in words that go on from "… and".
    """
    if not _server_at_hand():
        raise LookupError(f"no Prefect server to ask for the Secret block {block}: PREFECT_API_URL is not set")
    value = await _value(block)
    if not isinstance(value, str):
        raise LookupError(f"the Secret block {block} holds JSON, where a key is a string")
    return value


async def _value(block: str) -> object:
    from prefect.blocks.system import Secret
    from prefect.exceptions import ObjectNotFound

    try:
        return (await Secret.aload(block)).value.get_secret_value()  # pyright: ignore
    except ValueError as error:
        if isinstance(error.__cause__, ObjectNotFound):
            raise LookupError(f"the Prefect server has no Secret block {block}") from None
        # Its words are left out: they may quote what the block holds.
        raise LookupError(f"the Secret block {block} cannot be read ({type(error).__name__})") from None
    except Exception as error:  # whatever may be wrong with a server or the way to it
        raise LookupError(
            f"the Prefect server could not be asked for the Secret block {block}: {one_line(str(error))}"
        ) from None


def _server_at_hand() -> bool:
    """Whether a Prefect server is known or running."""
    if os.environ.get("PREFECT_API_URL"):
        return True
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None
