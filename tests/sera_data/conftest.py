"""Fixtures: one sealed two-epoch store that tests only read, and a fresh path for those that write."""

import pytest

from tests.sera_data.small_store import small_store


@pytest.fixture(scope="session")
def sealed(tmp_path_factory):
    return small_store(tmp_path_factory.mktemp("sealed") / "store", epochs=2)
