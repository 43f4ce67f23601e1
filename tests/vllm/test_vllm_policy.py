"""The engine in this process: trees into a sealed store, the same log-probabilities as transformers, new weights."""

import asyncio
import multiprocessing
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

import sera_data as sd
from collect.hand_over import HEAD_GAP, hand_over
from collect.interruption import Interruption
from collect.model_files import read_mask
from collect.policies import open_policy, style_of
from collect.policy import Message, PolicyError, Request, Sampling
from collect.policy_check import check, read_config
from collect.policy_directory import write_policy_json
from collect.summary import phase_summary
from sera_data.errors import Preempted, UsageError
from tests.collect.job_lab import play, small_config

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]
HEAT, BLOCK = 0.8, 32


class Kept:
    """A policy that stays open when a job ends; `before(self)` is called ahead of every completion."""

    trainable = True

    def __init__(self, inner, before=lambda kept: None):
        self.inner, self.before, self.requests = inner, before, 0

    @property
    def identity(self):
        return self.inner.identity

    @property
    def renderer(self):
        return self.inner.renderer

    async def complete(self, request):
        self.requests += 1
        self.before(self)
        return await self.inner.complete(request)

    def release(self, session):
        self.inner.release(session)

    async def close(self):
        pass


@pytest.fixture(scope="module")
def served():
    policy = open_policy("vllm:pocket", options={"slots": 16, "context": 1024, "cache_gib": 0.5, "block": BLOCK})
    yield policy
    policy.engine.shut_down()


def request(policy, text="make 2x oak_planks", *, session="s", max_tokens=24, **sampling):
    messages = [Message("user", text)]
    how = {"temperature": 1.0, "max_tokens": max_tokens, "seed": 2**62 + 11} | sampling
    return Request("act", session, messages, policy.renderer.open(messages), Sampling(**how))


def ask(policy, *requests):
    async def everything():
        return await asyncio.gather(*(policy.complete(r) for r in requests))

    return asyncio.run(everything())


def job_config(*overrides):
    return small_config(
        "policy.model=vllm:pocket",
        "concurrency=32",
        "samples=4",
        "groups={execution: 2, rubric: 2}",
        "budgets={turns: [8, 6], depth: 1, context: 1000}",
        f"sampling.act={{temperature: {HEAT}, max_tokens: 48}}",
        "sampling.writer={max_tokens: 96}",
        "sampling.scorer={max_tokens: 48, temperature: 0.0}",
        "groups_per_unit=1",
        *overrides,
    )


def test_trees_seal_and_their_logprobs_are_those_of_transformers(served, pocket, reference, tmp_path):
    assert style_of("vllm:pocket") == "terse"
    config = job_config()
    store, job, work = play(tmp_path / "store", config, policies=dict.fromkeys(config.roles(), Kept(served)))
    assert work.complete
    sd.seal(store, job.plan.name)
    sd.verify(store)
    (runs,) = {(p["engine"], p["name"], p["version"]) for row in store.runs.pl()["policies"] for p in row}
    assert runs == ("vllm", "pocket", 0)
    rows = store.turns.pl().sort("turn_id").to_dicts()
    assert {row["kind"] for row in rows} == {"act", "rubric", "score"}
    allowed, whole, compared = set(read_mask(pocket, 510)), {}, 0
    for row in rows:
        before = whole.get(row["base_turn"], [])
        prompt = [*before, *row["prompt_ids"]]
        ids = [*prompt, *row["completion_ids"]]
        whole[row["turn_id"]] = ids
        assert row["n_prompt"] == len(prompt)
        assert set(row["completion_ids"]) <= allowed
        assert row["trainable"] == (row["kind"] != "score") == (row["logprobs_mode"] == "processed_logprobs")
        heat = {"act": HEAT, "rubric": 1.0, "score": 1.0}[row["kind"]]
        want = reference(pocket, ids, temperature=heat, masked=True)[len(prompt) - 1 :]
        np.testing.assert_allclose(row["logprobs"], want, atol=1e-3)
        compared += len(want)
    assert compared > 1000
    prefix = phase_summary(store, job.plan)["prefix_tokens"]
    # the pocket's prompts share some sixty tokens and only whole blocks are found again: nine tenths of those
    whole_blocks = sum(n // BLOCK * BLOCK for n in shared_lengths(rows))
    assert prefix["cached"] >= 0.9 * whole_blocks > 0, prefix


def shared_lengths(rows):
    """Shared prompt tokens of each turn, counted as phase_prefixes.sql does."""
    seen = set()
    for row in sorted(rows, key=lambda row: (row["started_at"], row["turn_id"])):
        if row["base_turn"] is not None:
            yield row["n_prompt"] - len(row["prompt_ids"])
        elif row["prompt_sha256"] in seen:
            yield row["n_prompt"] - 1
        seen.add(row["prompt_sha256"])


def test_nine_tenths_of_a_shared_prompt_of_usual_length_come_from_the_cache(served):
    ids = served.renderer.open([Message("user", "have {oak_planks: 4}, make 3x stick. " * 40)])[:900]
    assert len(ids) >= 600
    asked = [replace(request(served, session=f"s{i}", seed=i), prompt_ids=ids) for i in range(8)]
    first, *others = ask(served, *asked)
    assert sum(got.n_cached for got in others) >= 0.9 * 7 * (len(ids) - 1)
    longer = [*ids, *first.completion_ids, *served.renderer.append(first.completion_ids, first.finish_reason, "ok")]
    (later,) = ask(served, replace(asked[0], prompt_ids=longer))
    assert later.n_cached >= 0.9 * len(ids)


def test_a_stop_cancels_the_requests_in_the_engine_and_the_same_job_goes_on(served, tmp_path):
    def stop(kept):
        if kept.requests == 60:
            os.kill(os.getpid(), signal.SIGTERM)

    config = job_config()
    interruption = Interruption()
    with pytest.raises(Preempted), interruption.active():
        play(
            tmp_path / "store",
            config,
            policies=dict.fromkeys(config.roles(), Kept(served, stop)),
            interruption=interruption,
        )
    assert served.running == 0
    asyncio.run(_idle(served.engine))
    _, _, work = play(tmp_path / "store", config, policies=dict.fromkeys(config.roles(), Kept(served)))
    assert work.complete


async def _idle(engine):
    """Until the engine has no request left: the prefix cache can be emptied only then."""
    for _ in range(200):
        try:
            await engine.forget_prefixes()
        except PolicyError:
            await engine.score([5, 6, 7])
        else:
            return
    pytest.fail("requests were not aborted")


def test_a_cancelled_request_leaves_the_engine(served):
    async def go():
        task = asyncio.create_task(served.complete(request(served, max_tokens=900)))
        await served.engine.score([5, 6, 7])  # by now the request is there
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _idle(served.engine)

    asyncio.run(go())
    assert served.running == 0


def test_seeds_limits_and_end_tokens(served):
    one, same, other = ask(served, request(served), request(served, session="t"), request(served, session="u", seed=3))
    assert one.completion_ids == same.completion_ids
    assert one.completion_ids != other.completion_ids
    assert len(one.completion_ids) == len(one.logprobs)
    ends = [c for c in (one, other) if c.finish_reason == "stop"]
    assert all(c.completion_ids[-1] in served.renderer.stop_ids for c in ends)
    assert all("<|end|>" not in c.text for c in ends)
    most = len(one.completion_ids) - 1
    (short,) = ask(served, request(served, max_tokens=most))
    assert (short.finish_reason, short.completion_ids) == ("length", one.completion_ids[:most])
    full = replace(request(served), prompt_ids=[5] * 1024)
    (nothing,) = ask(served, full)
    assert (nothing.finish_reason, nothing.completion_ids, nothing.logprobs) == ("length", [], [])
    almost = replace(request(served, max_tokens=100), prompt_ids=[5] * 1022)
    (last,) = ask(served, almost)
    assert len(last.completion_ids) <= 2
    (greedy,) = ask(served, request(served, temperature=0.0))
    assert greedy.logprobs_mode == "raw_logprobs"


def test_the_check_before_a_long_job(served, pocket):
    config = read_config(None, [])
    report = check(Kept(served), pocket, config=config, style="terse", trees=8, dtype="float32", device="cpu")
    assert report.tokens > 200
    assert report.mismatch_max < 1e-3
    assert report.clip_share == 0
    assert report.ratio_mean == pytest.approx(1, abs=1e-3)


def test_new_weights_reach_the_output_layer_and_the_prefix_cache(served, pocket, newer, reference, tmp_path):
    ids = served.renderer.open([Message("user", "make 3x stick, have {oak_planks: 4}. " * 8)])[:200]
    engine = served.engine
    np.testing.assert_allclose(asyncio.run(engine.score(ids)), reference(pocket, ids), atol=1e-3)
    long = replace(request(served), prompt_ids=ids)
    ask(served, long)
    assert ask(served, long)[0].n_cached > 0

    async def without_repair():
        await engine.call("reload_weights", weights_path=str(newer))
        await engine.forget_prefixes()
        (gap,) = await engine.call("head_gap", directory=str(newer))
        return await engine.score(ids), gap

    stale, gap = asyncio.run(without_repair())
    assert gap > HEAD_GAP  # what hand_over refuses
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(stale, reference(newer, ids), atol=1e-3)

    ask(served, long)  # keys and values of the old weights
    asyncio.run(hand_over(served, newer))
    (after,) = ask(served, long)
    assert after.n_cached == 0
    np.testing.assert_allclose(asyncio.run(engine.score(ids)), reference(newer, ids), atol=1e-3)
    assert (after.policy_version, served.identity.version, served.directory) == (1, 1, newer)

    asyncio.run(hand_over(served, pocket))
    np.testing.assert_allclose(asyncio.run(engine.score(ids)), reference(pocket, ids), atol=1e-3)
    assert served.identity.version == 0


def test_weights_of_another_policy_or_amid_requests_are_refused(served, newer, tmp_path):
    import shutil

    other = tmp_path / "other"
    shutil.copytree(newer, other)
    (other / "policy.json").unlink()
    (other / "chat_template.jinja").write_text("{{ messages }}")
    write_policy_json(other, name="other", version=2, style="terse")
    with pytest.raises(UsageError, match=r"another chat_template\.jinja"):
        asyncio.run(hand_over(served, other))
    with pytest.raises(UsageError, match="no policy directory"):
        asyncio.run(hand_over(served, tmp_path))

    async def amid():
        task = asyncio.create_task(served.complete(request(served, max_tokens=900)))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="requests still run"):
            await hand_over(served, newer)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(amid())
    assert served.identity.version == 0


def test_a_dead_engine_is_an_infrastructure_fault(served):
    """The last test of this file: the engine does not come back."""

    async def die():
        asked = [request(served, session=f"s{i}", seed=i) for i in range(64)]  # four times as many as run at once
        tasks = [asyncio.create_task(served.complete(each)) for each in asked]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)
        faults = [a for a in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(a, BaseException)]
        assert faults
        assert all(isinstance(fault, PolicyError) and "EngineDead" in str(fault) for fault in faults)
        with pytest.raises(PolicyError):
            await served.complete(request(served))

    asyncio.run(die())
    asyncio.run(served.close())
    with pytest.raises(PolicyError, match="closed"):
        asyncio.run(served.complete(request(served)))
