"""Tasks chosen by SQL on a store: read back as they were played, or chosen among those of the config."""

from __future__ import annotations

import json

import pytest

import sera_data as sd
from collect.config import CollectConfig
from collect.tasks import load_tasks
from sera_data.cli import main
from sera_data.errors import ConfigError, SeraError

POOL = {"worlds": "2000-2003", "max_tier": 2, "n": 6, "tier_mix": {1: 0.5, 2: 0.5}}
HARD = "select task_id from trees group by task_id having avg(success) between 0.2 and 0.8"


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A store in which scripted agents that sometimes fail have played six tasks four times each."""
    path = tmp_path_factory.mktemp("old") / "store"
    config = {"name": "textcraft", "profile": "strict", "tasks": POOL}
    args = ["--set", f"world={json.dumps(config)}", "--set", "samples=4", "--policy", "scripted:careless"]
    code = main(["collect", "--store", str(path), "--groups", "execution=6", *args, "--seal", "--json"])
    assert code == 0
    return path


def config(old, sql: str, *, tasks: object = None) -> CollectConfig:
    world = {"name": "textcraft", "profile": "strict", "tasks": tasks, "chosen": {"sql": sql, "store": str(old)}}
    return CollectConfig(world=world)


def test_chosen_tasks_are_read_back_from_the_store(old):
    found = load_tasks(config(old, "select task_id from tasks"))
    assert {t.task_id for t in found} == {t for (t,) in sd.open(old).sql("select task_id from tasks").fetchall()}
    plain = load_tasks(CollectConfig(world={"name": "textcraft", "profile": "strict", "tasks": POOL}))
    assert sorted(found, key=lambda t: t.task_id) == sorted(plain, key=lambda t: t.task_id)


def test_tasks_of_the_config_are_kept_where_the_sql_names_them(old):
    (one,) = sd.open(old).sql("select min(task_id) from tasks").fetchall()[0]
    assert [t.task_id for t in load_tasks(config(old, f"select '{one}' as task_id", tasks=POOL))] == [one]
    with pytest.raises(ConfigError, match=r"none of the 6 tasks of world\.tasks is among the 1 that the tasks SQL"):
        load_tasks(config(old, "select 't0' as task_id", tasks=POOL))


@pytest.mark.parametrize("sql, fault", [
    ("select epoch from trees", "must return a column task_id"), ("select task_id from nowhere", "nowhere"),
    ("select task_id from trees where false", "chose no task of store"),
    ("select read_text('/etc/passwd') as task_id", "read_text|Permission"),
])  # fmt: skip
def test_sql_that_chooses_nothing_or_reads_elsewhere_is_refused(old, sql, fault):
    with pytest.raises(SeraError, match=fault):
        load_tasks(config(old, sql))


@pytest.mark.slow
def test_the_text_of_the_sql_is_in_the_run(old, tmp_path, capsys):
    path, sealed = tmp_path / "mine.sql", []
    for number, text in enumerate((HARD, HARD + " -- again")):
        path.write_text(text)
        args = ["--tasks-sql", str(path), "--tasks-store", str(old), "--policy", "scripted:careless"]
        world = ["--set", "samples=1", "--set", "world.profile=strict", "--groups", "execution=all", "--seal", "--json"]
        store = tmp_path / f"new{number}"
        capsys.readouterr()
        code = main(["collect", "--store", str(store), *args, *world])
        out = capsys.readouterr()
        assert code == 0, out.err
        sealed.append(json.loads(out.out)["run_id"])
        played = {t for (t,) in sd.open(store).sql("select distinct task_id from trees").fetchall()}
        assert played == {t for (t,) in sd.open(old).sql(HARD).fetchall()}
    assert sealed[0] != sealed[1]
