"""A store of two planned units in object storage, and what a reader finds in it."""

import sera_data as sd
from schemas import TABLES
from sera_data.bucket import bucket as bucket_of
from tests.sera_data.small_store import CONFIG_HASH, RUN, task_id, unit_rows

ROWS = {unit: unit_rows(task_id(i), samples=1, k=2) for i, unit in enumerate(("u0000", "u0001"))}


def planned(where):
    store = sd.create(where)
    units = [{"unit_id": unit} for unit in ROWS]
    return store, sd.claim_plan(store, run_id=RUN, phase="collect", config_hash=CONFIG_HASH, units=units)


def counts(where):
    store = sd.open(where)
    return {name: len(store.table(name)) for name in TABLES}


def keys(where):
    return [fact.key.removeprefix(f"{where.key}/") for fact in bucket_of(where.bucket).listing(where.key)]
