"""`sera label` as a command: what it prints, what it refuses, and that a key never leaves the environment."""

import json
import sys
from pathlib import Path

import pytest

import sera_data as sd
from sera_data.cli import main

sys.path.insert(0, str(Path(__file__).parent))
from judge_lab import completion, endpoint, raw, say
from label_lab import copied, judged, nodes, texts_of

KEY = "sk-planted-8f2e6c1d9a7b4e35"


pytestmark = pytest.mark.usefixtures("no_keys")


@pytest.fixture
def store(tmp_path):
    return copied(tmp_path)


def run(capsys, *arguments):
    """Exit code, stdout and stderr of one command."""
    code = main(["label", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_run_says_what_it_did(store, capsys):
    with endpoint(say(True)) as server:
        command = (store.path, "--judge", f"openai:m-1@{server.url}", "--where", "depth > 0", "--epoch", "0")
        code, out, _ = run(capsys, *command, "--dry-run", "--json")
        plan = json.loads(out)
        n = store.sql("select count(*) from nodes where depth > 0").fetchall()[0][0]
        assert (code, plan["votes"], plan["nodes"], plan["votes_by_epoch"]) == (0, n, n, {"0": n})
        assert plan["prompt_tokens_about"] > 100 * n
        assert (server.requests, judged(store)) == ([], [])
        code, out, _ = run(capsys, *command, "--json")
        summary = json.loads(out)
        assert (code, summary["labels"], summary["success"], summary["invalid"]) == (0, n, n, 0)
        assert (summary["prompt_tokens"], summary["completion_tokens"]) == (120 * n, 9 * n)
        code, out, _ = run(capsys, *command)
        assert code == 0
        assert "labels              0" in out


USAGE = {
    "nobody": ([], "either --judge SPEC or --labeller NAME"),
    "both": (["--judge", "rule:finish", "--labeller", "program"], "either --judge SPEC or --labeller NAME"),
    "a program is no judge": (["--judge", "program"], "labeller of kind program, not a judge"),
    "a program has one vote": (["--labeller", "program", "--votes", "2"], "a program gives one vote"),
    "votes": (["--judge", "rule:finish", "--votes", "0"], "votes: Input should be greater than or equal to 1"),
    "share": (["--judge", "rule:finish", "--share", "0"], "share: Input should be greater than 0"),
    "purpose": (["--judge", "rule:finish", "--purpose", "fun"], "purposes"),
    "cap": (["--judge", "rule:finish", "--votes", "3", "--max-labels", "2"], "max_labels 2 is less than the 3 votes"),
    "body": (["--judge", "rule:finish", "--body", "{"], "--body is not JSON"),
    "body list": (["--judge", "rule:finish", "--body", "[]"], "--body must be a JSON object"),
    "body takes messages": (["--judge", "rule:finish", "--body", '{"messages": []}'], "must not hold messages"),
    "shard": (["--judge", "rule:finish", "--shard", "2/2"], "--shard wants i/n"),
    "spec": (["--judge", "openai:m@ftp://h"], "MODEL@URL"),
    "url with a password": (["--judge", "openai:m@http://me:secret-pass@h/v1"], "holds a user or a password"),
    "epoch": (["--judge", "rule:finish", "--epoch", "5"], "no sealed epoch 5"),
    "where": (["--judge", "rule:finish", "--where", "a = 1"], "--where 'a = 1'"),
}


@pytest.mark.parametrize("arguments, words", USAGE.values(), ids=USAGE)
def test_wrong_arguments_are_one_line(tmp_path, capsys, arguments, words):
    code, out, err = run(capsys, _shared(tmp_path), *arguments)
    assert code in (1, 2)
    assert words in err
    assert "secret-pass" not in err
    assert (out, err.count("\n")) == ("", 1)


_STORES = []


def _shared(tmp_path):
    """One copy for tests that write nothing."""
    if not _STORES:
        _STORES.append(copied(tmp_path).path)
    return _STORES[0]


def test_a_store_that_is_none(tmp_path, capsys):
    code, _, err = run(capsys, tmp_path / "nothing", "--judge", "rule:finish")
    assert code == 1
    assert "nothing" in err


def test_a_refused_key_is_one_line_and_a_code(store, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with endpoint(raw(401, f'{{"error": "bad key {KEY}"}}'.encode())) as server:
        code, out, err = run(capsys, store.path, "--judge", f"openai:m@{server.url}")
    assert (code, out) == (1, "")
    assert "HTTP 401" in err
    assert KEY not in err


def test_a_key_is_never_stored_logged_or_printed(store, capsys, monkeypatch):
    """An endpoint that repeats the key in every way it can: as verdict, as garbage, as model, as error, as header."""
    monkeypatch.setenv("SERA_JUDGE_KEY", KEY)
    monkeypatch.setenv("SERA_TRACEBACK", "1")
    verdict = json.dumps({"success": True, "reason": f"Bearer {KEY}"})
    escaped = json.dumps({"success": True, "reason": KEY}).replace("planted", "pl\\u0061nted")
    answers = [
        raw(200, completion(verdict, model=KEY)),
        raw(200, completion(escaped)),
        raw(200, completion(f"the key is {KEY}")),
        raw(200, f"not JSON {KEY}".encode()),
        raw(200, b"\xff" + KEY.encode()),
        raw(400, f"no {KEY}".encode(), X_Key=KEY),
        raw(500, f"oops {KEY}".encode()),
        raw(200, b"x", Content_Encoding=KEY),
        raw(200, completion(json.dumps({"success": KEY, "reason": "r"}))),
    ]

    def answer(handler):
        number = len(handler.server.requests) - 1
        answers[number % len(answers)](handler)

    with endpoint(answer) as server:
        command = ("--judge", f"openai:m@{server.url}", "--concurrency", "1", "--retries", "0")
        code, out, err = run(capsys, store.path, *command, "--json")
        assert server.requests[0][0]["Authorization"] == f"Bearer {KEY}"
    assert code == 0
    assert json.loads(out)["labels"] == len(nodes(store))
    assert json.loads(out)["invalid"] > 0
    assert KEY not in out + err
    everything = texts_of(store.path)
    assert "[key]" in everything
    assert KEY not in everything
    assert KEY[3:] not in everything
    sd.verify(store)
