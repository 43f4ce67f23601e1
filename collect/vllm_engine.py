"""vLLM's asynchronous engine behind a thread of its own.

Invariant: the engine's event loop is not the caller's, so an engine outlives the loop of one collect phase and can be
kept over a hand-over of weights; a cancelled caller aborts its request in the engine; whatever the engine raises is a
PolicyError. The engine's model runs in a process of its own, which ends with `close` or with this process.

Run: by ``collect.vllm_policy``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import warnings
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from collect.policy import PolicyError, Sampling
from collect.token_engine import Answer, Limits
from sera_data.errors import UsageError

T = TypeVar("T")
LATEST_STOP_S = 30.0
QUIET = {
    "VLLM_NO_USAGE_STATS": "1",  # nothing is reported to anyone
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",  # stdout belongs to --json
}


class VllmEngine:
    """One engine; `max_context` is the most prompt and completion tokens that one request may have."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._numbers = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        self._thread.start()
        self._llm: Any = None
        try:
            with (
                _environment(one_process=arguments.get("distributed_executor_backend") == "uni"),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore")  # of libraries that vLLM imports
                self._llm = self._wait(_started(dict(arguments)))
        except BaseException:
            self._stop()
            raise
        self.max_context = int(self._llm.model_config.max_model_len)

    async def generate(self, prompt: Sequence[int], sampling: Sampling, limits: Limits, *, group: str = "") -> Answer:
        """Sample after `prompt` (see collect.token_engine); one engine needs no groups to find prefixes again."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        asked = SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=sampling.seed,
            max_tokens=limits.length,
            logprobs=0,
            stop_token_ids=list(limits.stop_ids),
            ignore_eos=True,  # the stop tokens above are the only ones
            allowed_token_ids=None if limits.allowed is None else list(limits.allowed),
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        output = await self._run(self._request(prompt, asked))
        made = output.outputs[0]
        ids = [int(token) for token in made.token_ids]
        logprobs = [float(step[token].logprob) for token, step in zip(ids, made.logprobs or (), strict=True)]
        return Answer(ids, logprobs, made.finish_reason or "abort", output.num_cached_tokens)

    async def score(self, prompt: Sequence[int]) -> list[float]:
        """Log-probability of every token of `prompt` after the first, unmasked, at temperature 1."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        asked = SamplingParams(
            temperature=0.0,
            max_tokens=1,
            prompt_logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        output = await self._run(self._request(prompt, asked))
        return [float(step[token].logprob) for token, step in zip(prompt[1:], output.prompt_logprobs[1:], strict=True)]

    async def call(self, method: str, **arguments: Any) -> list[Any]:
        """Result of a method of every worker (see collect.vllm_worker)."""
        got: list[Any] = await self._run(self._llm.collective_rpc(method, kwargs=arguments))
        return got

    async def take_weights(self, directory: Path) -> float:
        """New weights in every worker and an empty prefix cache; see `collect.vllm_worker`."""
        gaps = await self.call("take_weights", directory=str(directory.resolve()))
        await self.forget_prefixes()
        return max(gaps)

    async def forget_prefixes(self) -> None:
        """Empty the prefix cache; PolicyError when requests that still run hold a part of it."""
        if not await self._run(self._llm.reset_prefix_cache()):
            msg = "the engine did not empty its prefix cache"
            raise PolicyError(msg)

    async def close(self) -> None:
        """End the engine's process and thread; may be called again."""
        await asyncio.to_thread(self.shut_down)

    def shut_down(self) -> None:
        """`close` for callers without an event loop."""
        if self._llm is not None:
            llm, self._llm = self._llm, None
            self._wait(_ended(llm))
        self._stop()

    async def _request(self, prompt: Sequence[int], asked: Any) -> Any:
        number = f"r{next(self._numbers)}"
        last = None
        async for output in self._llm.generate({"prompt_token_ids": list(prompt)}, asked, number):
            last = output
        return last

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` on the engine's loop; faults become PolicyError."""
        if self._llm is None or not self._thread.is_alive():
            work.close()
            msg = "the engine was closed"
            raise PolicyError(msg)
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except (PolicyError, asyncio.CancelledError):
            raise
        except Exception as error:  # vLLM raises errors of many kinds; none of them is the agent's doing
            msg = f"vLLM: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            raise PolicyError(msg) from error

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=LATEST_STOP_S)
        if not self._thread.is_alive() and not self._loop.is_closed():
            self._loop.close()


async def _started(arguments: dict[str, Any]) -> Any:
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    try:
        made = AsyncEngineArgs(**arguments)
    except TypeError as error:  # a dataclass: unknown names
        msg = f"policy option 'arguments': {error}"
        raise UsageError(msg, hint="names of vLLM's engine arguments, with underscores") from None
    return AsyncLLM.from_engine_args(made)


async def _ended(llm: Any) -> None:
    llm.shutdown()
    await asyncio.sleep(0)  # its output task is cancelled now


@contextlib.contextmanager
def _environment(*, one_process: bool) -> Iterator[None]:
    """What vLLM and the processes that it starts read from the environment; ours is as before afterwards.

    one_process: the model lives in the engine's own process, without one more for its only worker.
    """
    wanted = {name: value for name, value in QUIET.items() if name not in os.environ}
    if one_process:
        wanted["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if "OMP_NUM_THREADS" in os.environ and "VLLM_CPU_OMP_THREADS_BIND" not in os.environ:
        wanted["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"  # the user said how many threads
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
