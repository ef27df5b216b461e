"""What a store offers besides the contract is found also where the store is wrapped."""

import inspect
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider

from andon.contract import optional
from andon.contract.measured_store import measured
from andon.contract.optional import (
    CountsDeadLetters,
    CreatesTogether,
    CreatesWithNotes,
    ParksClaims,
    SettlesAtOnce,
    TakesMany,
    TransactionalInsert,
    offered,
)
from andon.stores.registry import open_store
from andon.telemetry.metrics import Instruments

OFFERS: dict[str, set[type]] = {
    "memory://": {CreatesTogether, CreatesWithNotes},
    "sqlite:///a.db": {CreatesTogether, CreatesWithNotes, SettlesAtOnce},
    "redis://localhost": {ParksClaims},
    "postgresql://localhost/a": {CreatesTogether, ParksClaims, TakesMany, TransactionalInsert},
    "nats://localhost": {CountsDeadLetters},
}

PROTOCOLS = {
    protocol
    for _, protocol in inspect.getmembers(optional, inspect.isclass)
    if protocol.__module__ == optional.__name__ and protocol is not optional.Joined
}


@pytest.mark.parametrize("url", OFFERS)
def test_each_store_offers_what_it_is_known_for(url: str) -> None:
    store = open_store(url)
    assert {p for p in PROTOCOLS if offered(store, p) is store} == OFFERS[url]


@pytest.mark.parametrize("url", OFFERS)
def test_a_measured_store_offers_the_same(url: str) -> None:
    instruments = Instruments(MeterProvider().get_meter("a"))
    store: Any = measured(measured(open_store(url), instruments), instruments)
    assert {p for p in PROTOCOLS if offered(store, p) is store} == OFFERS[url]
