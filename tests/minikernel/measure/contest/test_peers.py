"""Other people's kernels: who is here, and what is said of one that cannot be imported."""

import pytest

from minikernel.measure.contest import peers
from minilab.errors import LabError


def test_a_peer_whose_import_fails_refuses_in_its_own_words(monkeypatch):
    def fails():
        raise ImportError("undefined symbol: PyType_FromMetaclass")

    monkeypatch.setattr(peers, "_quack", fails)
    monkeypatch.setattr(peers, "versions", lambda: {"liger": None, "quack": "0.6.5"})
    peers.functions.cache_clear()
    try:
        for kind in ("forward", "backward", "call"):
            found = peers.contestants(kind)
            assert list(found) == ["quack"], "a peer that is not installed does not take part"
            with pytest.raises(LabError, match="ImportError: undefined symbol"):
                found["quack"](None)
    finally:
        peers.functions.cache_clear()


def test_versions_of_peers_that_are_not_installed_are_none(monkeypatch):
    monkeypatch.setattr(peers, "PACKAGES", {"liger": "no_such_package"})
    monkeypatch.setattr(peers, "DISTRIBUTIONS", {"liger": "no-such-distribution"})
    assert peers.versions() == {"liger": None}
