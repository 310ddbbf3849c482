"""Texts in Secret blocks of an available Prefect server; without one, no server is started and Prefect not imported."""

import os
import sys

from tasks.text import one_line


async def secret_block(block: str) -> str:
    """Return the text in a Secret block.

    Raises:
        LookupError: there is none, in words that go on from "… and".
    """
    if not _server_at_hand():
        raise LookupError(f"no Prefect server to ask for the Secret block {block}: PREFECT_API_URL is not set")
    from prefect.blocks.system import Secret
    from prefect.exceptions import ObjectNotFound

    try:
        value = (await Secret.aload(block)).value.get_secret_value()  # pyright: ignore
    except Exception as error:  # any fault of a block, of a server, or of the way to it
        if isinstance(error.__cause__, ObjectNotFound):
            raise LookupError(f"the Prefect server has no Secret block {block}") from None
        # The words of a ValueError may quote the text in the block.
        words = type(error).__name__ if isinstance(error, ValueError) else one_line(str(error))
        raise LookupError(f"the Prefect server gives no Secret block {block}: {words}") from None
    if not isinstance(value, str):
        raise LookupError(f"the Secret block {block} holds JSON, where a key is a string")
    return value


def _server_at_hand() -> bool:
    if os.environ.get("PREFECT_API_URL"):
        return True
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None
