"""The networks whose weights a store keeps, for pictures of them."""

import logging
from collections.abc import Iterable

import torch

from statewise.errors import StatewiseError, StoreError
from statewise.machines import machine
from statewise.machines.catalogue import from_file
from statewise.models import SequenceModel
from statewise.models.table import LEVELS, kind_of
from statewise.report.entries import Entry
from statewise.runs.record import Record
from statewise.runs.weights import build_untrained, rebuild
from statewise.store import Store


def kept_network(store: Store, record: Record) -> SequenceModel | None:
    """Rebuild the network of a run; None where its weights are not kept, or fit no network of its options.

    Damaged weights are warned of, and all else that a page shows is still shown. A user's own class is never imported,
    and of machines only those that a name of the catalogue builds are known to be what they were.
    """
    options, kind = record.config, kind_of(record.config.model)
    if kind is None or kind.name not in LEVELS or record.key is None or options.machine is not None:
        return None
    if from_file(options.task):
        return None
    try:
        weights = store.weights(record.key)
    except StoreError as error:
        logging.getLogger("statewise").warning("statewise: %s; until then there is no picture of it", error)
        return None
    if weights is None:
        return None
    tensors = {name: torch.from_numpy(value.copy()) for name, value in weights.items()}
    try:
        network = build_untrained(options, machine(options.task))
        return rebuild(network, tensors, str(store.directory)).eval()
    except StatewiseError:
        # the machine's file is gone, or the weights are of another version
        return None


def first_kept(store: Store, entries: Iterable[Entry]) -> tuple[Entry, SequenceModel] | None:
    """Return the first run whose network is kept, with the network."""
    for entry in entries:
        network = kept_network(store, entry.record)
        if network is not None:
            return entry, network
    return None
