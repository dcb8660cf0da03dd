"""Faults come in the order of time: what is said of each is said of the word that it fell on."""

from types import SimpleNamespace
from typing import Any

import pytest

from pasture_tools.explain import writers
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.fields import Label
from pasture_tools.proc.page_faults import Fault

np = pytest.importorskip("numpy")

ADDRESSES = (0x7000, 0x3008, 0x9010, 0x3000, 0x7000)


def fault(address: int) -> Fault:
    return Fault(pid=1, tid=1, time_ns=0, address=address, instruction=0, stack=())


def classify(batch: Any, _: object) -> Any:
    """A classifier that needs ascending addresses, and labels each word by its address."""
    assert (np.diff(batch.addresses.astype(np.int64)) >= 0).all()
    assert batch.os_pages[batch.rows].tolist() == [a // 4096 * 4096 for a in batch.addresses]
    names = [Label("word", hex(address)) for address in batch.addresses]
    causes = np.full(len(names), Cause.REFERENCE_COUNT.value)
    return SimpleNamespace(causes=causes, labels=np.arange(len(names)), names=names)


def test_each_fault_gets_the_meaning_of_its_own_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        writers, "_had_by_parent", lambda parent, addresses: np.ones(len(addresses), dtype=bool)
    )
    monkeypatch.setattr(writers, "OS_PAGE_BYTES", 4096)
    monkeypatch.setattr(
        writers,
        "Batch",
        lambda pages, addresses, rows: SimpleNamespace(
            os_pages=pages, addresses=addresses, rows=rows
        ),
    )
    classifier: Any = SimpleNamespace(parent=None, worker=None, classify=classify)
    extents: Any = None
    found = writers._meanings([fault(address) for address in ADDRESSES], classifier, extents)
    assert [label for _, label in found] == [Label("word", hex(address)) for address in ADDRESSES]
