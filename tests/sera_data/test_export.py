"""`sera data export`: each format re-read by the call that its target's loader makes."""

import json
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest

import sera_data as sd
from schemas import TABLES
from sera_data.canonical import sha256_file
from sera_data.cli import main
from tests.sera_data.small_store import small_store

EXAMPLE = Path(__file__).parents[2] / "examples" / "store"
POCKET = Path(__file__).parents[2] / "collect" / "pocket"


def export(capsys, store, out, *args, code=0):
    assert main(["data", "export", str(store), str(out), *map(str, args), *([] if code else ["--json"])]) == code
    text, fault = capsys.readouterr()
    return fault if code else json.loads(text)


def load(kind, path, tmp_path):
    return datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """All exports of the example store, with prompts decoded by the policy that collected."""
    folder = tmp_path_factory.mktemp("exports")
    for to, out in (("chat", "chat.jsonl"), ("trl", "trl"), ("verl", "verl"), ("hf", "hf")):
        known = [] if to == "hf" else ["--tokenizer", str(POCKET)]
        assert main(["data", "export", str(EXAMPLE), str(folder / out), "--to", to, *known]) == 0
    return folder


def test_chats_are_the_successful_trees_with_their_prompts(example, tmp_path):
    rows = load("json", example / "chat.jsonl", tmp_path)
    wanted = sd.open(EXAMPLE).sql(
        "select node_id from factual join trees using (tree_id) where success = 1 order by node_id"
    )
    assert rows["node_id"] == [node for (node,) in wanted.fetchall()]
    for messages, ok in zip(rows["messages"], rows["ok"], strict=True):
        roles = [m["role"] for m in messages]
        assert roles == ["system", *["user", "assistant"] * (len(roles) // 2)]
        assert len(ok) == roles.count("assistant")
        assert messages[1]["content"].startswith("Goal: ")


def test_chats_hold_what_was_said(example):
    turns = sd.open(EXAMPLE).sql(
        "select node_id, text, observation from turns where kind = 'act' order by node_id, step"
    )
    said = {}
    for node, text, observation in turns.fetchall():
        said.setdefault(node, []).extend((text, observation))
    for row in lines(example / "chat.jsonl"):
        assert [m["content"] for m in row["messages"][2:]] == said[row["node_id"]][:-1]


def test_trl_files_have_the_columns_of_its_dataset_types(example, tmp_path):
    sft = load("json", example / "trl" / "sft.jsonl", tmp_path)
    assert {"role", "content"} == set(sft[0]["messages"][0])
    preference = load("json", example / "trl" / "preference.jsonl", tmp_path)
    assert {"prompt", "chosen", "rejected"} <= set(preference.column_names)
    for row in preference:
        assert [m["role"] for m in row["prompt"]] == ["system", "user"]
        assert row["chosen"][0]["role"] == row["rejected"][0]["role"] == "assistant"
        assert row["chosen"] != row["rejected"]
    unpaired = load("json", example / "trl" / "unpaired.jsonl", tmp_path)
    assert {"prompt", "completion", "label"} <= set(unpaired.column_names)
    assert set(unpaired["label"]) == {True, False}


def test_preference_pairs_are_branches_of_one_delegation(example):
    truth = sd.open(EXAMPLE).sql("select delegation_id, avg(value) from nodes join verdicts using (node_id) group by 1")
    mixed = {d for d, mean in truth.fetchall() if d and 0 < mean < 1}
    rows = lines(example / "trl" / "preference.jsonl")
    assert {row["delegation_id"] for row in rows} <= mixed
    counts = pd.Series([row["delegation_id"] for row in rows]).value_counts()
    assert counts.max() <= 4


def test_tokens_are_those_of_the_engine(example, tmp_path):
    rows = load("parquet", example / "trl" / "tokens.parquet", tmp_path)
    store = sd.open(EXAMPLE)
    for row in rows.select(range(20)):
        ids, labels = np.array(row["input_ids"]), np.array(row["labels"])
        assert set(ids[labels != -100]) <= set(labels)
        turns = store.sql(
            "select prompt_ids, completion_ids, ok from turns where node_id = $n and kind = 'act' order by step",
            {"n": row["node_id"]},
        ).fetchall()
        assert list(ids) == [i for prompt, completion, _ in turns for i in (*prompt, *completion)]
        assert list(labels[labels != -100]) == [i for _, completion, ok in turns if ok for i in completion]


def plain(value):
    """What verl's loader makes of pandas' nested arrays."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


def test_verl_files_load_as_verl_does(example, tmp_path):
    messages = [plain(m) for m in pd.read_parquet(example / "verl" / "sft.parquet")["messages"]]
    assert messages == [row["messages"] for row in lines(example / "chat.jsonl")]
    rl = load("parquet", example / "verl" / "rl.parquet", tmp_path)
    assert {"data_source", "prompt", "ability", "reward_model", "extra_info"} == set(rl.column_names)
    assert rl[0]["data_source"] == "textcraft"
    assert [row["extra_info"]["index"] for row in rl] == list(range(len(rl)))
    assert [m["role"] for m in rl[0]["prompt"]] == ["system", "user"]
    assert "inventory" in json.loads(rl[0]["reward_model"]["ground_truth"])
    assert len(rl) == len(sd.open(EXAMPLE).sql("from tasks").fetchall())


def test_hf_folder_loads_table_by_table_and_is_still_the_store(example, tmp_path):
    store, folder = sd.open(EXAMPLE), example / "hf"
    configs = datasets.get_dataset_config_names(str(folder))
    assert configs == [name for name in TABLES if name not in ("evals", "logprobs")]
    nodes = datasets.load_dataset(str(folder), "nodes", split="train", cache_dir=str(tmp_path))
    assert sorted(nodes["node_id"]) == sorted(store.nodes.arrow(["node_id"])["node_id"].to_pylist())
    assert len(datasets.load_dataset(str(folder), "updates", split="train", cache_dir=str(tmp_path))) == len(
        store.updates
    )
    assert sd.verify(sd.open(folder)).problems == ()
    for file in ("epochs/e000000/turns.parquet", "epochs/e000001/seal.json"):
        assert sha256_file(folder / file) == sha256_file(EXAMPLE / file)
    text = (folder / "README.md").read_text()
    assert "| textcraft | train |" in text
    assert "prompt_sha256" in text


def test_agents_chosen(capsys, sealed, tmp_path):
    counts = {}
    for agents in ("successful", "factual", "all"):
        facts = export(capsys, sealed.path, tmp_path / f"{agents}.jsonl", "--to", "chat", "--agents", agents)
        counts[agents] = facts["rows"][f"{agents}.jsonl"]
    assert counts == {"successful": 12, "factual": 24, "all": 88}
    assert any("goal" in line and line.endswith(": 88") for line in facts["lost"])


@pytest.mark.slow
def test_a_store_without_ids_gives_its_prompt_text_and_no_tokens(capsys, tmp_path):
    store = small_store(tmp_path / "s", tasks=1, samples=2, tokens=False)
    facts = export(capsys, store.path, tmp_path / "trl", "--to", "trl")
    assert facts["rows"]["tokens.parquet"] == 0
    assert any(line.startswith("agents without token ids") for line in facts["lost"])
    first = lines(tmp_path / "trl" / "sft.jsonl")[0]["messages"][0]
    assert first == {"role": "user", "content": "Goal: craft 1x m2_i3"}


@pytest.mark.parametrize("to", ["chat", "hf", "trl"])
def test_an_export_never_overwrites(capsys, sealed, tmp_path, to):
    (tmp_path / "out").write_text("mine")
    assert "never overwrites" in export(capsys, sealed.path, tmp_path / "out", "--to", to, code=2)
    assert (tmp_path / "out").read_text() == "mine"


def test_a_tokenizer_that_did_not_make_the_ids_is_refused(capsys, sealed, tmp_path):
    fault = export(capsys, sealed.path, tmp_path / "x.jsonl", "--to", "chat", "--tokenizer", POCKET, code=2)
    assert "the store's ids were made by none" in fault
    fault = export(capsys, EXAMPLE, tmp_path / "x.jsonl", "--to", "chat", "--tokenizer", tmp_path, code=2)
    assert "has no tokenizer.json" in fault
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(capsys, sealed, tmp_path, monkeypatch):
    def full(path, rows):
        path.write_text("half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("sera_data.export_files.write_jsonl", full)
    assert "the disk is full" in export(capsys, sealed.path, tmp_path / "x.jsonl", "--to", "chat", code=1)
    assert list(tmp_path.iterdir()) == []


def test_nothing_sealed_has_no_folder(capsys, tmp_path):
    store = small_store(tmp_path / "s", tasks=1, samples=1, k=2, sealed=False)
    assert "no sealed epoch" in export(capsys, store.path, tmp_path / "hf", "--to", "hf", code=1)
    assert not (tmp_path / "hf").exists()
