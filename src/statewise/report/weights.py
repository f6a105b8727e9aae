"""The weights that a store keeps, for pictures of them."""

import logging
from typing import Any

from statewise.errors import StoreError
from statewise.store import Store


def kept_weights(store: Store, key: str) -> dict[str, Any] | None:
    """Gives the weights of a run; None where none are kept, or where they are damaged, of which it warns.

    All else that a page shows is worth showing.
    """
    try:
        return store.weights(key)
    except StoreError as error:
        logging.getLogger("statewise").warning("statewise: %s; until then there is no picture of it", error)
        return None
