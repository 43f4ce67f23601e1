"""Small files as other tools write them, for the tests of the importers."""

import json
import zipfile

TRACE = {
    "version": 1,
    "id": "trace-1",
    "task": {"type": "Sum", "key": "sum-7", "data": {"a": 3, "b": 4}},
    "agent": {"config": {}, "name": "solver", "trainable": True},
    "nodes": [
        {"parent": None, "message": {"role": "system", "content": "add"}, "token_ids": [1, 2], "mask": [False] * 2},
        {"parent": 0, "message": {"role": "user", "content": "3+4"}, "token_ids": [3, 4, 5], "mask": [False] * 3},
        {
            "parent": 1,
            "sampled": True,
            "message": {
                "role": "assistant",
                "content": "let me see",
                "tool_calls": [{"id": "c1", "name": "add", "arguments": '{"a":3}'}],
            },
            "token_ids": [6, 7, 8, 9],
            "mask": [False, True, True, False],
            "logprobs": [-0.1, -0.2],
        },
        {
            "parent": 2,
            "message": {"role": "tool", "content": "7", "tool_call_id": "c1"},
            "token_ids": [10],
            "mask": [False],
        },
        {
            "parent": 3,
            "sampled": True,
            "message": {"role": "assistant", "content": "7"},
            "token_ids": [11, 12],
            "mask": [False, True],
            "logprobs": [-0.3],
        },
        {
            "parent": 3,
            "sampled": True,
            "message": {"role": "assistant", "content": "seven"},
            "token_ids": [11, 13],
            "mask": [False, True],
            "logprobs": [-0.4],
        },
    ],
    "calls": [{"node": n, "model": "qwen", "sampling": {"temperature": 0.7}} for n in (2, 4, 5)],
    "rewards": {"right": {"score": 1.0, "weight": 1.0}, "short": {"score": 0.5, "weight": 0.0}, "late": None},
    "is_completed": True,
    "ok": True,
    "stop_condition": None,
    "errors": [],
}
RESULT = {
    "example_id": 3,
    "task": "sum",
    "prompt": [{"role": "user", "content": "1+1"}],
    "completion": [{"role": "assistant", "content": "2"}],
    "reward": 0.0,
    "answer": "2",
}
SAMPLE = {
    "id": 5,
    "epoch": 1,
    "input": "where?",
    "target": "here",
    "messages": [
        {"role": "user", "content": "attachment://abc", "source": "input"},
        {"role": "assistant", "content": [{"type": "text", "text": "he"}, {"type": "text", "text": "re"}]},
    ],
    "scores": {"match": {"value": "C", "answer": "here"}, "other": {"value": 0.2}},
    "attachments": {"abc": "where?"},
}
ATIF = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s-1",
    "agent": {"name": "harbor", "version": "1.0", "model_name": "m"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "be brief"},
        {"step_id": 2, "source": "user", "message": "price?"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "looking",
            "reasoning_content": "hm",
            "tool_calls": [{"tool_call_id": "k", "function_name": "search", "arguments": {"q": "x"}}],
            "observation": {"results": [{"source_call_id": "k", "content": "5"}]},
            "metrics": {"prompt_token_ids": [1, 2, 3], "completion_token_ids": [4, 5], "logprobs": [-0.1, -0.2]},
        },
        {
            "step_id": 4,
            "source": "agent",
            "message": "5",
            "metrics": {"prompt_token_ids": [1, 2, 3, 4, 5, 6], "completion_token_ids": [7], "logprobs": [-0.3]},
        },
    ],
    "extra": {"task_id": "t-9", "reward": 1},
}
SWE = {
    "environment": "swe",
    "trajectory": [
        {
            "query": [{"role": "system", "content": "fix"}, {"role": "user", "content": "bug 1"}],
            "response": "ls it",
            "action": "ls",
            "observation": "a.py",
        },
        {"response": "done", "action": "submit", "observation": None},
    ],
    "info": {"exit_status": "exit_cost", "submission": "diff"},
}
MINI = {
    "trajectory_format": "mini-swe-agent-1.1",
    "instance_id": "repo-1",
    "info": {"exit_status": "Submitted", "config": {"model": {"model_name": "gpt"}}},
    "messages": [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": "bug 2"},
        {"role": "assistant", "content": "cat a", "extra": {"cost": 1}},
        {"role": "user", "content": "text"},
        {"role": "assistant", "content": "submit"},
        {"role": "exit", "content": "bye"},
    ],
}
CHAT = {
    "id": "x",
    "task_id": "t",
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ho"},
        {"role": "user", "content": "bye"},
    ],
    "success": True,
}
SHAREGPT = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hey"}], "reward": 0.2}


def write_lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_json(path, value):
    path.write_text(json.dumps(value))
    return path


def write_eval(path, *samples):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"version": 2, "eval": {"task": "find", "model": "m"}}))
        archive.writestr("summaries.json", "[]")
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
    return path
