"""The engine: one optimizer step of a DeepSpeed engine over the micro-batches of a packing plan.

Invariant: the gradient is that of sum / N over the global batch, whatever the split into micro-batches, ranks and ZeRO
stages: the accumulation boundary is set by hand on every backward, each loss is scaled by ranks / N because DeepSpeed
averages, and clipping is explicit. A non-finite gradient changes no weight; it stops on every rank with the datum ids.
On CPU all is fp32, on GPU bf16 with fp32 masters; the optimizer is torch's AdamW, so no op is compiled. Masters,
moments and weights may lie in CPU memory (`offload`); with LoRA only the adapters are trained.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from learn.config import EngineConfig, LoraConfig, OptimizerConfig
from learn.lora import merged
from learn.m2po import highest_square, squares
from learn.measures import Measures
from learn.network import Network, load_network
from learn.objective import Objective
from learn.packing import Pack, Plan, micro_batch
from learn.ranks import Ranks, import_deepspeed
from learn.reference import with_reference
from sera_data.errors import ConfigError, SeraError

ZERO_ON_GPU = {"stage3_param_persistence_threshold": 100_000}
ZERO_ON_CPU = {"stage3_param_persistence_threshold": 0, "reduce_bucket_size": 2**24}
"""Of `zero_optimization`. A bucket of DeepSpeed's default size is 2 GB of address space that lives as long as the
process: with several engines in one, a fork is refused for want of memory that nobody touches."""


class NonFiniteError(SeraError):
    """A loss or gradient that is not a number; no weight was changed."""


class StaleDataError(SeraError):
    """Data too far from the weights for the ratio to mean anything; no weight was changed."""


class Engine:
    """A network with its optimizer, on all ranks."""

    def __init__(
        self,
        network: Network,
        *,
        ranks: Ranks,
        config: EngineConfig,
        optimizer: OptimizerConfig,
        universal: bool = False,
        lora: LoraConfig | None = None,
    ) -> None:
        self.ranks = ranks
        self.lora = lora
        self.zero = zero_stage(config, ranks.device)
        self.half = half_precision(config, ranks.device)
        self.lr = optimizer.lr
        self.tied = network.model.config.tie_word_embeddings
        adam = torch.optim.AdamW(
            [parameter for parameter in network.parameters() if parameter.requires_grad],
            lr=optimizer.lr,
            betas=optimizer.betas,
            eps=optimizer.eps,
            weight_decay=optimizer.weight_decay,
        )
        self.clip = optimizer.gradient_clip
        self.deepspeed, *_ = import_deepspeed().initialize(
            model=network, optimizer=adam, config=self._settings(config, universal=universal), dist_init_required=False
        )
        self.deepspeed.train()

    def _settings(self, config: EngineConfig, *, universal: bool) -> dict[str, Any]:
        by_hand = self.zero == 0 and not self.half  # there DeepSpeed clips without telling the norm
        return {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 1,
            "gradient_clipping": 0.0 if by_hand else self.clip,
            "bf16": {"enabled": self.half},
            "zero_optimization": {
                "stage": self.zero,
                "stage3_gather_16bit_weights_on_model_save": True,
                **(ZERO_ON_CPU if self.ranks.device.type == "cpu" else ZERO_ON_GPU),
                **_offload(config, pinned=self.ranks.device.type == "cuda"),
            },
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "checkpoint": {"load_universal": universal},
            "steps_per_print": 10**9,
            "wall_clock_breakdown": False,
        }

    def update(
        self,
        plan: Plan,
        objective: Objective,
        *,
        version: int,
        lr_scale: float = 1.0,
        start: Network | None = None,
    ) -> dict[str, Any]:
        """One optimizer step over a plan that is not empty; returns the measured columns of `updates`.

        start: the frozen start weights, where the KL brake needs them. Where the mean entropy is below the floor no
        weight changes, and all that is returned is a `skip_reason`.
        """
        started = time.perf_counter()
        gaps = sorted({version - datum.policy_version for pack in plan.packs for datum in pack.datums})
        measures, suspects = Measures(gaps), []
        packs = plan.of_rank(self.ranks.rank)
        objective = self._after_a_look(objective, packs, gaps, version)
        if gaps and len(objective.low_versions) == len(gaps):
            return {"skip_reason": f"filter.min_ess {objective.filter_ess:g} leaves no version of the data"}
        for index, pack in enumerate(packs):
            self.deepspeed.set_gradient_accumulation_boundary(index == len(packs) - 1)
            batch = with_reference(micro_batch(pack, self.ranks.device), start)
            logprobs, entropies = self.deepspeed(batch)
            total = objective.total(logprobs, batch.tokens)
            self.deepspeed.backward(total * (self.ranks.size / plan.n_trained))
            if not math.isfinite(total.item()):
                suspects += [d.datum_id for d in pack.datums]
            measures.add(
                total,
                logprobs.detach(),
                entropies,
                batch.tokens,
                ratio_max=objective.cap(batch.tokens),
                version=version,
                stopped=objective.stopped(logprobs.detach(), batch.tokens),
                vetoed=objective.vetoed(logprobs, batch.tokens),
            )
        passed = time.perf_counter()
        measures.sums = self.ranks.sum(measures.sums)
        self._require_samples(measures.ess, objective.min_ess, version)
        if objective.entropy_floor and measures.entropy < objective.entropy_floor:
            return {"skip_reason": flat(measures.entropy, objective.entropy_floor)}
        norm = self._step(self.lr * lr_scale, self.ranks.gather(suspects) or plan.datum_ids)
        measures.gaps = self.ranks.sum(measures.gaps)
        measures.gap_ratio_max = self.ranks.max(measures.gap_ratio_max)
        measures.ratio_max = self.ranks.max(measures.ratio_max)
        ended = time.perf_counter()
        timings = {"forward_backward_s": passed - started, "step_s": ended - passed, "total_s": ended - started}
        return {
            **measures.row(),
            "gaps": measures.gap_rows(fresh_gap=math.inf if objective.stale is None else objective.stale.fresh_gap),
            "grad_norm": norm,
            "lr": self.lr * lr_scale,
            "timings": timings,
        }

    @torch.no_grad()
    def _after_a_look(
        self, objective: Objective, packs: Sequence[Pack], gaps: Sequence[int], version: int
    ) -> Objective:
        """A forward pass over the whole update first, where m2po or the filter by samples needs all ratios."""
        if objective.kind != "m2po" and not objective.filter_ess:
            return objective
        found, measures = [torch.zeros(0, dtype=torch.float64)], Measures(gaps)
        for pack in packs:
            batch = micro_batch(pack, self.ranks.device)
            logprobs, entropies = self.deepspeed(batch)
            found.append(squares(logprobs, batch.tokens).cpu())
            measures.add(logprobs.sum(), logprobs, entropies, batch.tokens, ratio_max=math.inf, version=version)
        measures.gaps = self.ranks.sum(measures.gaps)
        rows = measures.gap_rows(fresh_gap=math.inf) if objective.filter_ess else []
        low = tuple(version - int(row["gap"]) for row in rows if row["ess"] < objective.filter_ess)
        every = self.ranks.gather_numbers(torch.cat(found)) if objective.kind == "m2po" else None
        line = None if every is None else highest_square(every, bound=objective.m2_bound)
        return replace(objective, highest=line, low_versions=low)

    def _require_samples(self, ess: float, lowest: float, version: int) -> None:
        if ess >= lowest:
            return
        msg = (
            f"effective sample size {ess:.3f} at version {version}, want {lowest:g} or more: the data are too far away"
        )
        raise StaleDataError(
            msg, hint="no weight was changed; collect anew, use loss.kind=topr or m2po, or set loss.stale.min_ess to 0"
        )

    def _step(self, lr: float, suspects: list[str]) -> float:
        for group in self.deepspeed.optimizer.param_groups:
            group["lr"] = lr
        norm = math.nan
        if self.zero == 0 and not self.half:
            parameters = [p for p in self.deepspeed.module.parameters() if p.grad is not None]
            norm = float(torch.nn.utils.get_total_norm([p.grad for p in parameters]))
            if not math.isfinite(norm):
                self.deepspeed.zero_grad()  # as DeepSpeed does in the other stages
            self._require_finite(norm, suspects)
            torch.nn.utils.clip_grads_with_norm_(parameters, self.clip, torch.tensor(norm))
            self.deepspeed.step()
        else:
            self.deepspeed.step()
            norm = float(self.deepspeed.get_global_grad_norm())
            self._require_finite(norm, suspects)
        return norm

    def _require_finite(self, norm: float, suspects: list[str]) -> None:
        if math.isfinite(norm):
            return
        shown = ", ".join(suspects[:8]) + (f" and {len(suspects) - 8} more" if len(suspects) > 8 else "")
        msg = f"gradient norm is {norm}, want a finite number; datums of the update: {shown}"
        raise NonFiniteError(
            msg, hint="no weight was changed; look at these datums' logprobs and lower optimizer.lr or loss.ratio_max"
        )

    def weights(self) -> dict[str, torch.Tensor]:
        """Weights by Hugging Face name, adapters merged, on the first rank (empty elsewhere); every rank calls this."""
        found = self.tensors()
        return found if self.lora is None else merged(found, self.lora.scale)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All tensors as they are in the engine, frozen ones and adapters apart; every rank must call this."""
        parameters = dict(self.deepspeed.module.named_parameters())
        found = {}
        for name, parameter in parameters.items():
            with self._gathered(parameter):
                if self.ranks.first:
                    found[name.removeprefix("model.")] = parameter.detach().cpu().clone().contiguous()
        return found

    def _gathered(self, parameter: torch.Tensor) -> Any:
        return import_deepspeed().zero.GatheredParameters([parameter], enabled=self.zero == 3)

    def save(self, directory: Path) -> None:
        """Write this engine's shards below `directory`; every rank must call this."""
        self.deepspeed.save_checkpoint(str(directory), tag="engine", save_latest=True)

    def load(self, directory: Path) -> None:
        """Read what `save` wrote, weights, moments and step count."""
        path, _ = self.deepspeed.load_checkpoint(str(directory), tag="engine")
        if path is None:
            msg = f"no engine state in {directory}"
            raise SeraError(msg, hint="remove this checkpoint; the one before it is used then")


def flat(entropy: float, floor: float) -> str:
    """The skip reason of an update below the entropy floor."""
    return (
        f"mean entropy {entropy:.4g} nats is below loss.entropy_floor {floor:g}: the phase ends here, no weight was"
        " changed; lower optimizer.lr, set loss.kl_coef or loss.veto, or collect harder tasks"
    )


def zero_stage(config: EngineConfig, device: torch.device) -> int:
    """The ZeRO stage, resolved; ConfigError for one that cannot offload what the config says."""
    lowest = {"none": 0, "optimizer": 1, "parameters": 3}[config.offload]
    default = max(1 if device.type == "cuda" else 0, lowest)
    stage = default if config.zero is None else config.zero
    if stage < lowest:
        msg = f"engine.offload={config.offload} needs ZeRO stage {lowest} or more, engine.zero is {stage}"
        raise ConfigError(msg, hint=f"set engine.zero={lowest}, or engine.offload=none")
    return stage


def _offload(config: EngineConfig, *, pinned: bool) -> dict[str, Any]:
    place = {"device": "cpu", "pin_memory": pinned}
    names = {"none": (), "optimizer": ("offload_optimizer",), "parameters": ("offload_optimizer", "offload_param")}
    return {name: dict(place) for name in names[config.offload]}


def half_precision(config: EngineConfig, device: torch.device) -> bool:
    """True for bf16 weights with fp32 masters."""
    return config.dtype == "bfloat16" or (config.dtype == "auto" and device.type == "cuda")


def open_engine(
    policy: Path,
    *,
    ranks: Ranks,
    config: EngineConfig,
    optimizer: OptimizerConfig,
    temperature: float = 1.0,
    universal: bool = False,
    lora: LoraConfig | None = None,
) -> Engine:
    """An engine with the weights and the vocabulary mask of a policy directory, and with new adapters if told so."""
    dtype = torch.bfloat16 if half_precision(config, ranks.device) else torch.float32
    network = load_network(
        policy,
        dtype=dtype,
        temperature=temperature,
        chunk=config.vocabulary_chunk,
        recompute=config.recompute,
        lora=lora,
    ).to(ranks.device)
    return Engine(network, ranks=ranks, config=config, optimizer=optimizer, universal=universal, lora=lora)
