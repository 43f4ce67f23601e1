import asyncio

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from collect.causal_lm import CausalDecoder
from collect.policy import PolicyError, Sampling
from collect.qwen3 import Qwen3Decoder
from collect.slots import Row, SlotEngine, sample, uniform

VOCABULARY, STOP = 40, 3


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        tie_word_embeddings=True,
        max_position_embeddings=600,
        eos_token_id=STOP,
        pad_token_id=0,
    )
    made = Qwen3ForCausalLM(config).eval()
    for parameter in made.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return made


def make(model, kind, slots=4, **options):
    if kind == "transformers":
        decoder = CausalDecoder(model, slots=slots)
    else:
        tensors = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        decoder = Qwen3Decoder(tensors, model.config.to_dict(), slots=slots)
    return SlotEngine(decoder, slots=slots, stop_ids={STOP}, **options)


@pytest.fixture(params=["qwen3", "transformers"])
def kind(request):
    return request.param


def prompts(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 30, (count,), generator=generator).tolist()
    return [torch.randint(4, VOCABULARY, (n,), generator=generator).tolist() for n in lengths]


def run_all(engine, asked, **sampling):
    settings = {"temperature": 1.0, "max_tokens": 12, **sampling}

    async def main():
        return await asyncio.gather(
            *(engine.generate(f"s{i}", p, Sampling(seed=100 + i, **settings)) for i, p in enumerate(asked))
        )

    return asyncio.run(main())


def reference(model, prompt, got, temperature=1.0):
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([prompt + got.ids])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / temperature, -1).gather(1, torch.tensor(got.ids).unsqueeze(1)).squeeze(1)


def test_both_decoders_give_the_models_logits(model, kind):
    decoder = make(model, kind, slots=40).decoder
    asked = [p * 12 for p in prompts(40)]  # more rows than attend together, of lengths that lie far apart
    decoder.forward([Row(i, 0, p[: 1 + i % 7]) for i, p in enumerate(asked)])
    decoder.forward([Row(i, 1 + i % 7, p[1 + i % 7 : -1]) for i, p in enumerate(asked)])
    logits = decoder.forward([Row(i, len(p) - 1, p[-1:]) for i, p in enumerate(asked)])
    with torch.inference_mode():
        expected = torch.stack([model(input_ids=torch.tensor([p])).logits[0, -1] for p in asked])
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_the_distribution_sampled_from(model, kind, temperature):
    asked = prompts(6)
    for prompt, got in zip(asked, run_all(make(model, kind), asked, temperature=temperature), strict=True):
        expected = reference(model, prompt, got, temperature)
        torch.testing.assert_close(torch.tensor(got.logprobs), expected, atol=1e-5, rtol=0)
        assert got.logprobs_mode == "processed_logprobs"
        assert got.finish_reason == ("stop" if got.ids[-1] == STOP else "length")


def test_batched_equals_one_at_a_time_and_repeats(model, kind):
    asked = prompts(7)
    together = run_all(make(model, kind), asked)
    alone = []
    for i, prompt in enumerate(asked):
        engine = make(model, kind)
        alone.append(asyncio.run(engine.generate("x", prompt, Sampling(temperature=1.0, max_tokens=12, seed=100 + i))))
    assert [g.ids for g in together] == [g.ids for g in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    again = run_all(make(model, kind), asked)
    assert [(g.ids, g.logprobs) for g in again] == [(g.ids, g.logprobs) for g in together]


def test_greedy_equals_generate(model, kind):
    asked = prompts(4)
    for prompt, got in zip(asked, run_all(make(model, kind), asked, temperature=0.0, max_tokens=20), strict=True):
        expected = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=20)[0, len(prompt) :]
        assert got.ids == expected.tolist()
        assert got.logprobs_mode == "raw_logprobs"
        torch.testing.assert_close(torch.tensor(got.logprobs), reference(model, prompt, got), atol=1e-5, rtol=0)


def test_the_mask_is_part_of_the_distribution(model, kind):
    allowed = [STOP, 7, 8, 9, 21]
    asked = prompts(6)
    for prompt, got in zip(asked, run_all(make(model, kind, allowed=allowed), asked), strict=True):
        assert set(got.ids) <= set(allowed)
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([prompt])).logits[0, -1]
        expected = torch.log_softmax(logits[allowed], -1)[allowed.index(got.ids[0])]
        assert got.logprobs[0] == pytest.approx(float(expected), abs=1e-5)


def two_turns(engine, between=()):
    settings = Sampling(temperature=1.0, max_tokens=6, seed=5)
    first_prompt = prompts(1)[0]

    async def main():
        first = await engine.generate("a", first_prompt, settings)
        for i, other in enumerate(between):
            await engine.generate(f"other{i}", other, settings)
        before = engine.counters.prefilled
        second_prompt = [*first_prompt, *first.ids, 11, 12]
        second = await engine.generate("a", second_prompt, settings)
        return first_prompt, first, second_prompt, second, engine.counters.prefilled - before

    return asyncio.run(main())


def test_the_previous_turn_is_not_computed_again(model, kind):
    _, first, prompt, second, prefilled = two_turns(make(model, kind))
    assert prefilled == 3  # the last sampled token, which was never fed, and the two new ones
    assert second.n_cached == len(prompt) - 3
    assert first.n_cached == 0


def test_eviction_changes_nothing(model, kind):
    kept, evicted = make(model, kind), make(model, kind, slots=2)
    others = prompts(3, seed=1)
    *_, expected, few = two_turns(kept)
    *_, got, all_of_it = two_turns(evicted, others)
    assert evicted.counters.evictions > 0
    assert all_of_it > few
    assert got.ids == expected.ids
    assert got.logprobs == pytest.approx(expected.logprobs, abs=1e-5)


def test_waiting_parents_do_not_block_their_children(model, kind):
    engine = make(model, kind, slots=2)
    settings = Sampling(temperature=1.0, max_tokens=3, seed=1)

    async def agent(name, depth):
        prompt = [5, 6, 7]
        got = await engine.generate(name, prompt, settings)
        if depth < 3:
            await asyncio.gather(agent(name + "x", depth + 1), agent(name + "y", depth + 1))
        await engine.generate(name, [*prompt, *got.ids, 9], settings)
        engine.release(name)

    async def main():
        await asyncio.wait_for(asyncio.gather(*(agent(str(i), 0) for i in range(3))), 60)

    asyncio.run(main())
    assert engine.counters.requests == 2 * 3 * 15


def test_who_holds_a_slot_goes_first_then_older_trees_then_older_requests(model, kind):
    engine, ended = make(model, kind, slots=1), []

    async def ask(name):
        await engine.generate(name, [5], Sampling(temperature=1.0, max_tokens=2, seed=1))
        ended.append(name)

    async def main():
        await asyncio.gather(*(ask(name) for name in ("old/1", "new/1", "old/2", "new/2")))
        await asyncio.gather(ask("old/3"), ask("new/2"))

    asyncio.run(main())
    assert ended == ["old/1", "old/2", "new/1", "new/2", "new/2", "old/3"]


def test_a_request_without_room_is_cut_at_once(model, kind):
    engine = make(model, kind)
    got = run_all(engine, [[5] * 600, [5] * 597], max_tokens=50)
    assert (got[0].ids, got[0].finish_reason) == ([], "length")
    assert len(got[1].ids) <= 3


def test_a_fault_of_the_engine_is_a_policy_error_and_the_next_request_works(model):
    engine = make(model, "qwen3")
    working = engine.decoder.forward

    def broken(rows):
        msg = "out of memory"
        raise RuntimeError(msg)

    engine.decoder.forward = broken
    with pytest.raises(PolicyError, match="out of memory"):
        run_all(engine, prompts(2))
    engine.decoder.forward = working
    assert len(run_all(engine, prompts(2))) == 2


def test_a_cancelled_request_frees_its_slot(model):
    engine = make(model, "qwen3", slots=1)

    async def main():
        slow = asyncio.create_task(engine.generate("a", [5], Sampling(temperature=1.0, max_tokens=500, seed=1)))
        await asyncio.sleep(0.02)
        slow.cancel()
        return await asyncio.wait_for(engine.generate("b", [5], Sampling(temperature=1.0, max_tokens=2, seed=1)), 30)

    assert asyncio.run(main()).ids


def test_requests_cancelled_while_they_wait_leave_the_queue(model):
    engine, settings = make(model, "qwen3", slots=1), Sampling(temperature=1.0, max_tokens=6, seed=1)

    async def main():
        ask = [asyncio.create_task(engine.generate(name, [5], settings)) for name in ("a", "a", "a", "b", "c", "c")]
        while not engine.counters.sampled:
            await asyncio.sleep(0)
        for index in (1, 3, 5):
            ask[index].cancel()
        return await asyncio.wait_for(asyncio.gather(*ask, return_exceptions=True), 30)

    found = asyncio.run(main())
    assert [isinstance(one, asyncio.CancelledError) for one in found] == [False, True] * 3
    assert engine.counters.sampled == sum(len(one.ids) for one in found[::2])
    assert not engine._waiting
    assert not engine._asked


def test_uniform_is_a_pure_even_counter_hash():
    draws = torch.tensor([uniform(seed, i) for seed in range(200) for i in range(50)])
    assert uniform(7, 3) == uniform(7, 3)
    assert float(draws.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(draws.std()) == pytest.approx(12**-0.5, abs=0.01)
    assert draws.min() >= 0
    assert draws.max() < 1


def test_samples_follow_the_distribution_and_the_nucleus_cuts_its_tail():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]])).expand(20000, -1)
    full = [Sampling(temperature=1.0, max_tokens=1, seed=i) for i in range(20000)]
    ids, _ = sample(logits, None, full, [0] * 20000)
    shares = torch.bincount(torch.tensor(ids), minlength=4) / 20000
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.3, 0.15, 0.05]), atol=0.015, rtol=0)
    cut = [Sampling(temperature=1.0, max_tokens=1, seed=i, top_p=0.7) for i in range(500)]
    ids, logprobs = sample(logits[:500], None, cut, [0] * 500)
    assert set(ids) == {0, 1}
    assert logprobs[0] == pytest.approx(float(logits[0, ids[0]]), abs=1e-6)
