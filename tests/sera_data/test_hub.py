"""Push and pull against a stand-in for the Hub's API, through the real client and real HTTP."""

import json
import os
import subprocess
import sys

import huggingface_hub.constants
import pytest
import yaml

import sera_data as sd
from schemas import TABLES
from sera_data.cli import main
from tests.sera_data.hub_stand_in import TOKEN, serving
from tests.sera_data.small_store import small_store, write_epoch

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the client's own old call


@pytest.fixture
def hub(monkeypatch):
    with serving() as (hub, address):
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
        yield hub


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return small_store(tmp_path_factory.mktemp("hub") / "s", tasks=1, samples=1, k=2)


def sera(capsys, *args, code=0):
    assert main(["data", *map(str, args), *([] if code else ["--json"])]) == code
    out, err = capsys.readouterr()
    assert TOKEN not in out + err
    return err if code else json.loads(out)


def test_a_store_goes_up_private_with_a_card_and_comes_back_whole(hub, store, capsys, tmp_path):
    pushed = sera(capsys, "push", store.path, "me/trees")
    repo = hub.repos["me/trees"]
    assert (pushed["visibility"], repo["private"], repo["commits"]) == ("private", True, 1)
    head = yaml.safe_load(repo["files"]["README.md"].decode().split("---")[1])
    rows = {name: len(store.table(name)) for name in TABLES}
    assert [c["config_name"] for c in head["configs"]] == [name for name in TABLES if rows[name]]
    assert all(c["data_files"] == f"epochs/*/{c['config_name']}*.parquet" for c in head["configs"])
    assert '"me/trees", "nodes"' in repo["files"]["README.md"].decode()
    assert any(path.startswith("/lfs/") for _, path in hub.requests)
    pulled = sera(capsys, "pull", "me/trees", tmp_path / "back")
    assert pulled["sealed"] == ["e000000"]
    back = sd.open(tmp_path / "back")
    assert sd.content_hash(back, "e000000") == sd.content_hash(store, "e000000")
    assert sd.verify(back).problems == ()
    assert sorted(p.name for p in (tmp_path / "back").iterdir()) == sorted(
        ["README.md", "_staging", "epochs", "plans", "shards", "snapshots", "store.json"]
    )
    assert TOKEN.encode() not in b"".join(p.read_bytes() for p in (tmp_path / "back").rglob("*") if p.is_file())


@pytest.mark.slow
def test_a_pulled_store_goes_on(hub, store, capsys, tmp_path):
    sera(capsys, "push", store.path, "me/trees")
    sera(capsys, "pull", "me/trees", tmp_path / "back")
    write_epoch(sd.open(tmp_path / "back"), tasks=1, samples=1, k=2)
    pushed = sera(capsys, "push", tmp_path / "back", "me/trees")
    assert hub.repos["me/trees"]["commits"] == 2
    assert pushed["deleted"] == []
    assert "epochs/e000001/nodes.parquet" in hub.repos["me/trees"]["files"]
    again = sera(capsys, "push", store.path, "me/trees")
    assert "epochs/e000001/nodes.parquet" in again["deleted"]
    assert "epochs/e000001/nodes.parquet" not in hub.repos["me/trees"]["files"]


def test_a_dry_run_and_a_missing_token_reach_nobody(hub, store, capsys, monkeypatch):
    facts = sera(capsys, "push", store.path, "me/trees", "--dry-run")
    assert facts["commit"] is None
    assert facts["files"] > 10
    monkeypatch.delenv("HF_TOKEN")
    assert "HF_TOKEN is not set" in sera(capsys, "push", store.path, "me/trees", code=2)
    assert hub.requests == []


def test_a_public_repository_is_never_filled_by_accident(hub, store, capsys):
    sera(capsys, "push", store.path, "me/open", "--visibility", "public")
    assert hub.repos["me/open"]["private"] is False
    assert "exists and is public" in sera(capsys, "push", store.path, "me/open", code=2)
    assert hub.repos["me/open"]["commits"] == 1


def test_faults_of_the_hub_are_one_line(hub, store, capsys, monkeypatch, tmp_path):
    assert "there is no dataset me/none" in sera(capsys, "pull", "me/none", tmp_path / "x", code=1)
    assert "is no name of a dataset" in sera(capsys, "pull", "a/b/c", tmp_path / "x", code=2)
    sera(capsys, "push", store.path, "me/trees")
    assert "no such revision" in sera(capsys, "pull", "me/trees", tmp_path / "x", "--revision", "v9", code=1)
    hub.fail = ("/commit/", 403)
    assert "the Hub answered 403" in sera(capsys, "push", store.path, "me/trees", code=1)
    hub.fail = None
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert "there is no dataset me/trees" in sera(capsys, "pull", "me/trees", tmp_path / "x", code=1)
    fault = sera(capsys, "push", store.path, "me/trees", code=1)
    assert "the Hub answered 401" in fault
    assert "hf_wrong" not in fault
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_changed_on_the_way_is_noticed(hub, store, capsys, tmp_path):
    sera(capsys, "push", store.path, "me/trees")
    hub.broken = "epochs/e000000/turns.parquet"
    assert "turns.parquet" in sera(capsys, "pull", "me/trees", tmp_path / "back", code=1)
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_that_is_no_store_and_a_place_that_is_taken(hub, capsys, tmp_path):
    hub.repos["me/other"] = {"private": False, "files": {"README.md": b"hi"}, "sha": "1" * 40, "commits": 1}
    assert "is not a store" in sera(capsys, "pull", "me/other", tmp_path / "back", code=1)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "back").mkdir()
    assert "never overwrites" in sera(capsys, "pull", "me/other", tmp_path / "back", code=2)


def test_unsealed_shards_stay_at_home(hub, capsys, tmp_path):
    made = small_store(tmp_path / "s", tasks=1, samples=1, k=2)
    write_epoch(made, tasks=1, samples=1, k=2, sealed=False)
    pushed = sera(capsys, "push", made.path, "me/trees")
    assert pushed["left_out"] == ["committed shards that no seal holds (sera data seal STORE seals complete plans): 1"]
    assert not any(path.startswith("shards/") for path in hub.repos["me/trees"]["files"])
    empty = sd.create(tmp_path / "empty")
    assert "no sealed epoch" in sera(capsys, "push", empty.path, "me/trees", code=1)


@pytest.mark.slow
def test_the_command_reads_its_environment(hub, store, tmp_path):
    environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home")}
    for args in (["push", str(store.path), "me/env"], ["pull", "me/env", str(tmp_path / "back")]):
        run = subprocess.run(
            [sys.executable, "-m", "sera_data", "data", *args],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert TOKEN not in run.stdout + run.stderr
    assert sd.content_hash(sd.open(tmp_path / "back"), "e000000") == sd.content_hash(store, "e000000")
    assert not any(TOKEN.encode() in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
