"""`sera data import`: what each form keeps, what it loses, and that a fault writes nothing."""

import copy
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sera_data as sd
from sera_data.cli import main
from sera_data.errors import SeraError
from sera_data.import_rows import ImportOptions, episode_rows, task_row
from sera_data.importing import FORMS, _require_sound, import_files
from sera_data.losses import Losses
from tests.sera_data.foreign_files import (
    ATIF,
    CHAT,
    MINI,
    RESULT,
    SAMPLE,
    SHAREGPT,
    SWE,
    TRACE,
    write_eval,
    write_json,
    write_lines,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "store"


def imported(tmp_path, form, *files, **options):
    done = import_files(tmp_path / "store", files, ImportOptions(form, **options))
    return done, sd.open(tmp_path / "store")


def rows(form, *files, **options):
    """The rows of files, checked as a commit checks them, and what was lost; no store is made."""
    known, losses = ImportOptions(form, **options), Losses()
    found = {"nodes": [], "turns": [], "labels": [], "tasks": []}
    for file in files:
        for number, episode in enumerate(FORMS[form][0](file, losses)):
            task = task_row(episode, known)
            made = episode_rows(episode, known, run_id="r", epoch=0, task_id=task["task_id"], sample=number)
            for table, more in {**made, "tasks": [task]}.items():
                found[table] += more
    _require_sound(found)
    return found, losses.lines()


def changed(value, path, new):
    """A copy with one place replaced."""
    found = copy.deepcopy(value)
    at = found
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = new
    return found


def test_verifiers_traces_keep_graph_ids_and_logprobs(tmp_path):
    found, _ = rows("verifiers", write_lines(tmp_path / "t.jsonl", TRACE))
    first, second, fork = found["turns"]
    assert (first["prompt_ids"], first["completion_ids"]) == ([1, 2, 3, 4, 5, 6], [7, 8])
    assert (second["prompt_ids"], second["completion_ids"]) == ([9, 10, 11], [12])
    assert (fork["prompt_ids"], fork["completion_ids"]) == ([9, 10, 11], [13])
    assert second["base_turn"] == fork["base_turn"] == first["turn_id"]
    assert [t["logprobs"] for t in found["turns"]] == [[-0.1, -0.2], [-0.3], [-0.4]]
    assert first["temperature"] == 0.7
    assert [c["result"] for c in first["tool_calls"]] == ["7"]
    assert first["observation"] == "7"
    assert {(t["logprobs_mode"], t["trainable"]) for t in found["turns"]} == {("raw_logprobs", False)}
    assert found["tasks"][0]["goal"] == "3+4"
    assert [label["value"] for label in found["labels"]] == [1.0]


def test_logprobs_declared_as_processed_are_trainable(tmp_path):
    two = changed(changed(TRACE, ["id"], "b"), ["rewards", "right", "score"], 0.0)
    greedy = changed(TRACE, ["calls", 0, "sampling", "temperature"], 0)
    other = changed(TRACE, ["agent", "trainable"], False)
    found, _ = rows(
        "verifiers", write_lines(tmp_path / "t.jsonl", TRACE, two, greedy, other), logprobs="processed_logprobs"
    )
    assert [sum(t["trainable"] for t in found["turns"] if t["node_id"] == n["node_id"]) for n in found["nodes"]] == [
        3,
        3,
        2,
        0,
    ]
    assert [label["value"] for label in found["labels"]] == [1.0, 0.0, 1.0, 1.0]
    assert len({n["task_id"] for n in found["nodes"]}) == 1


def test_verifiers_results_are_text(tmp_path):
    found, lost = rows("verifiers", write_lines(tmp_path / "r.jsonl", RESULT))
    (turn,) = found["turns"]
    assert (turn["text"], turn["completion_ids"]) == ("2", None)
    assert turn["prompt_text"] == '[{"content":"1+1","role":"user"}]'
    assert [label["value"] for label in found["labels"]] == [0.0]
    assert any(line.startswith("token ids (result lines") for line in lost)


def test_inspect_logs(tmp_path):
    failed = {**SAMPLE, "epoch": 2, "error": {"message": "boom"}}
    partial = {**SAMPLE, "id": 6, "scores": {"match": {"value": "P"}}, "limit": {"type": "token", "limit": 1}}
    found, lost = rows("inspect", write_eval(tmp_path / "a.eval", SAMPLE, failed, partial), threshold=0.6)
    verdicts = {label["node_id"]: label["value"] for label in found["labels"]}
    ends = [(n["outcome"], verdicts.get(n["node_id"]), n["error"]) for n in found["nodes"]]
    assert ends == [("finished", 1.0, None), ("infra_error", None, "boom"), ("truncated", 0.0, None)]
    assert {t["prompt_text"] for t in found["turns"]} == {'[{"content":"where?","role":"user"}]'}
    assert {t["text"] for t in found["turns"]} == {"here"}
    assert len({t["task_id"] for t in found["tasks"]}) == 2
    assert "further scorers of samples (the first one is the verdict; all stand in `details`): 2" in lost


def test_inspect_json_logs_are_read_too(tmp_path):
    log = {"version": 2, "eval": {"task": "find", "model": "m"}, "samples": [SAMPLE]}
    found, _ = rows("inspect", write_json(tmp_path / "a.json", log))
    assert [label["value"] for label in found["labels"]] == [1.0]
    assert found["turns"][0]["policy"] == "m"


def test_atif_keeps_ids_calls_and_reasoning(tmp_path):
    found, _ = rows("trajectory", write_json(tmp_path / "a.json", ATIF), logprobs="processed_logprobs")
    first, second = found["turns"]
    assert (first["prompt_ids"], second["prompt_ids"]) == ([1, 2, 3], [6])
    assert second["base_turn"] == first["turn_id"]
    assert (second["n_prompt"], first["trainable"], second["trainable"]) == (6, True, True)
    assert (first["tool_calls"][0]["tool"], first["tool_calls"][0]["result"]) == ("search", "5")
    assert json.loads(first["action"])["reasoning_content"] == "hm"
    assert [label["value"] for label in found["labels"]] == [1.0]


def test_an_atif_prompt_that_extends_nothing_stands_alone(tmp_path):
    rewritten = changed(ATIF, ["steps", 3, "metrics", "prompt_token_ids"], [9, 9])
    found, _ = rows("trajectory", write_json(tmp_path / "a.json", rewritten))
    second = found["turns"][1]
    assert second["base_turn"] is None
    assert [m["role"] for m in json.loads(second["prompt_text"])] == ["system", "user", "assistant", "tool"]


def test_ids_with_holes_are_left_out_and_counted(tmp_path):
    holes = changed(ATIF, ["steps", 3, "metrics"], {})
    found, lost = rows("trajectory", write_json(tmp_path / "a.json", holes))
    assert {t["completion_ids"] for t in found["turns"]} == {None}
    assert "token ids of trajectories in which some steps have none: 1" in lost
    bare = changed(changed(TRACE, ["nodes", 4, "token_ids"], []), ["nodes", 4, "mask"], [])
    found, lost = rows("verifiers", write_lines(tmp_path / "t.jsonl", changed(bare, ["nodes", 4, "logprobs"], [])))
    assert {t["completion_ids"] for t in found["turns"]} == {None}
    assert "token ids of traces in which some turns have none: 1" in lost


def test_swe_agent_and_mini_swe_agent(tmp_path):
    found, _ = rows("trajectory", write_json(tmp_path / "django-1.traj", SWE), write_json(tmp_path / "m.json", MINI))
    outcomes = {n["node_id"]: (n["goal"], n["outcome"]) for n in found["nodes"]}
    assert [(*outcomes[t["node_id"]], t["policy"], t["text"], t["observation"]) for t in found["turns"]] == [
        ("bug 1", "truncated", "imported", "ls it", "a.py"),
        ("bug 1", "truncated", "imported", "done", None),
        ("bug 2", "finished", "gpt", "cat a", "text"),
        ("bug 2", "finished", "gpt", "submit", None),
    ]
    assert found["labels"] == []
    assert [t["upstream_id"] for t in found["tasks"]] == ["django-1", "repo-1"]


def test_chats_of_both_families(tmp_path):
    found, _ = rows("chat", write_lines(tmp_path / "c.jsonl", CHAT, SHAREGPT))
    assert [(t["text"], t["observation"]) for t in found["turns"]] == [("ho", "bye"), ("hey", None)]
    assert [label["value"] for label in found["labels"]] == [1.0, 0.0]


def test_our_own_chats_come_back_as_they_were(tmp_path, capsys):
    chats, again = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    assert main(["data", "export", str(EXAMPLE), str(chats), "--to", "chat"]) == 0
    assert main(["data", "import", str(tmp_path / "s"), str(chats), "--from", "chat"]) == 0
    assert main(["data", "export", str(tmp_path / "s"), str(again), "--to", "chat", "--agents", "all"]) == 0
    before, after = ([json.loads(line) for line in p.read_text().splitlines()] for p in (chats, again))
    kept = ("messages", "goal", "success", "ok")
    assert sorted(json.dumps([r[k] for k in kept]) for r in before) == sorted(
        json.dumps([r[k] for k in kept]) for r in after
    )
    assert "sera learn trains token ids" in capsys.readouterr().out


def test_tool_calls_survive_the_round_trip(tmp_path):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "went", "tool_call_id": "c"},
        {"role": "assistant", "content": "done", "reasoning_content": "ok"},
    ]
    _, store = imported(tmp_path, "chat", write_lines(tmp_path / "c.jsonl", {"messages": messages}))
    assert main(["data", "export", str(store.path), str(tmp_path / "o.jsonl"), "--to", "chat", "--agents", "all"]) == 0
    assert json.loads((tmp_path / "o.jsonl").read_text())["messages"] == messages


def test_the_same_files_are_imported_once_and_other_files_beside_them(tmp_path):
    file = write_lines(tmp_path / "c.jsonl", CHAT)
    first, store = imported(tmp_path, "chat", file)
    second, _ = imported(tmp_path, "chat", file)
    third, _ = imported(tmp_path, "chat", write_lines(tmp_path / "d.jsonl", SHAREGPT))
    assert [first.plan, second.plan, third.plan] == ["e000000", "e000000", "e000001"]
    assert [first.already, second.already] == [False, True]
    assert len(sd.open(store.path).nodes) == 2
    assert sd.verify(sd.open(store.path)).problems == ()


def test_a_dry_run_writes_nothing(tmp_path, capsys):
    file = write_lines(tmp_path / "c.jsonl", CHAT)
    assert main(["data", "import", str(tmp_path / "s"), str(file), "--from", "chat", "--dry-run"]) == 0
    assert "would import" in capsys.readouterr().out
    assert not (tmp_path / "s").exists()


BAD_LINES = [
    ("chat", '{"messages": [', ":2: not JSON"),
    ("chat", '{"messages": []}', ":2: messages is empty"),
    ("chat", '{"text": "x"}', ":2: a line needs 'messages'"),
    ("chat", "[1]", ":2: a line must be a JSON object"),
    (
        "chat",
        '{"messages": [{"role": "robot", "content": "x"}]}',
        ':2: messages\\[0\\] has role "robot"; allowed: system',
    ),
    ("chat", '{"messages": [{"role": "user", "content": 5}]}', ":2: messages\\[0\\] has content 5"),
    ("chat", '{"messages": [{"role": "user", "content": "x"}]}', ":2: the chat has no assistant message"),
    (
        "chat",
        '{"messages": [{"role": "assistant", "content": "x"}], "ok": [true, false]}',
        ":2: 'ok' has 2 values for 1",
    ),
    ("chat", '{"messages": [{"role": "assistant", "content": "x"}], "reward": "high"}', ":2: reward must be a finite"),
    ("chat", '{"messages": [{"role": "assistant", "content": "x"}], "reward": NaN}', ":2: not JSON: NaN is no number"),
    ("chat", '{"messages": [{"role": "assistant", "content": "\\ud800"}]}', ":2: not UTF-8"),
    ("verifiers", "{}", ":2: a trace needs 'nodes'"),
    ("verifiers", json.dumps(changed(TRACE, ["version"], 2)), ":2: trace version 2"),
    ("verifiers", json.dumps(changed(TRACE, ["nodes", 2, "parent"], 4)), ":2: a parent of nodes\\[2\\] is 4"),
    ("verifiers", json.dumps(changed(TRACE, ["nodes", 2, "logprobs"], [-1])), ":2: nodes\\[2\\] has 1 logprobs for 2"),
    ("verifiers", json.dumps(changed(TRACE, ["nodes", 2, "mask"], [True, False, True, False])), "not one run"),
    ("verifiers", json.dumps(changed(TRACE, ["nodes", 2, "token_ids"], [6, 7, -8, 9])), "token ids are integers"),
    ("verifiers", json.dumps(changed(TRACE, ["nodes", 2, "mask"], [True])), "1 mask values for 4 token ids"),
]


@pytest.mark.parametrize("form, line, message", BAD_LINES)
def test_a_bad_line_is_named_and_nothing_is_written(tmp_path, capsys, form, line, message):
    good = {"chat": CHAT, "verifiers": TRACE}[form]
    file = tmp_path / "f.jsonl"
    file.write_text(json.dumps(good) + "\n" + line + "\n")
    with pytest.raises(SeraError, match=message):
        import_files(tmp_path / "s", [file], ImportOptions(form))
    assert not (tmp_path / "s").exists()
    assert main(["data", "import", str(tmp_path / "s"), str(file), "--from", form]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {file}:2: ")
    assert err.count("\n") == 1


def test_bad_files_are_named(tmp_path):
    def refused(form, file, message):
        with pytest.raises(SeraError, match=message):
            import_files(tmp_path / "s", [file], ImportOptions(form))
        assert not (tmp_path / "s").exists()

    refused("chat", tmp_path / "none.jsonl", "there is no such file")
    (tmp_path / "empty.jsonl").write_text("")
    refused("chat", tmp_path / "empty.jsonl", "no episode in it")
    (tmp_path / "latin.jsonl").write_bytes(b'{"a": 1}\n{"b": "\xe9"}\n')
    refused("chat", tmp_path / "latin.jsonl", "latin.jsonl:2: not UTF-8")
    refused("inspect", write_json(tmp_path / "x.json", {"a": 1}), "samples must be a list")
    with zipfile.ZipFile(tmp_path / "odd.eval", "w") as archive:
        archive.writestr("other.txt", "x")
    refused("inspect", tmp_path / "odd.eval", "no header.json")
    broken = write_eval(tmp_path / "broken.eval", SAMPLE)
    body = bytearray(broken.read_bytes())
    place = body.index(b"samples/5_epoch_1.json") + 60
    body[place : place + 8] = b"\xff" * 8
    broken.write_bytes(body)
    refused("inspect", broken, r"samples/5_epoch_1.json: (is damaged|not)")
    refused(
        "inspect",
        write_eval(tmp_path / "s.eval", changed(SAMPLE, ["scores", "match", "value"], "good")),
        'value is "good"',
    )
    refused("trajectory", write_json(tmp_path / "t.json", {"steps": []}), "no known trajectory")
    refused("trajectory", write_json(tmp_path / "u.json", changed(ATIF, ["steps", 0, "source"], "robot")), "source is")
    refused(
        "trajectory", write_json(tmp_path / "v.traj", changed(SWE, ["trajectory", 1, "response"], None)), "must be text"
    )
    (tmp_path / "w.traj").write_text('{\n "trajectory": [\n')
    refused("trajectory", tmp_path / "w.traj", "w.traj:3: not JSON")


KEYS = (
    *("messages", "role", "content", "nodes", "message", "token_ids", "mask", "sampled", "parent"),
    *("steps", "source", "rewards", "results", "value", "score", "config", "model"),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
PLACES = [
    ("chat", CHAT, ["messages"]),
    ("chat", CHAT, ["success"]),
    ("verifiers", TRACE, ["nodes"]),
    ("verifiers", TRACE, ["nodes", 2, "message"]),
    ("verifiers", TRACE, ["rewards"]),
    ("verifiers", TRACE, ["calls"]),
    ("verifiers", TRACE, ["task"]),
    ("inspect", {"eval": {}, "samples": [SAMPLE]}, ["samples", 0, "scores"]),
    ("inspect", {"eval": {}, "samples": [SAMPLE]}, ["samples", 0, "messages"]),
    ("trajectory", ATIF, ["steps", 2]),
    ("trajectory", ATIF, ["steps", 2, "metrics"]),
    ("trajectory", ATIF, ["steps", 2, "observation"]),
    ("trajectory", MINI, ["info"]),
    ("trajectory", SWE, ["trajectory", 0]),
]


@settings(max_examples=80, suppress_health_check=list(HealthCheck), deadline=None)
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_whatever_stands_in_a_file_it_is_read_or_refused_in_words(tmp_path_factory, place, value):
    form, good, path = place
    file = tmp_path_factory.getbasetemp() / f"fuzz.{'jsonl' if form in ('chat', 'verifiers') else 'json'}"
    file.write_text(json.dumps(changed(good, path, value)))
    place_of_fault = ""
    try:
        done = import_files(tmp_path_factory.getbasetemp() / "fuzzed", [file], ImportOptions(form), dry_run=True)
    except SeraError as error:
        place_of_fault = str(error)
        done = None
    assert done is not None or str(file) in place_of_fault
    assert done is None or done.episodes == 1
