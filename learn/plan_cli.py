"""`sera plan`: memory, tokens, bytes, time and cost of a loop before it runs.

Invariant: loads no model and imports no torch, so it runs on any machine with the base install; with --from it reads
what an earlier, smaller run measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from sera_data.place import place

if TYPE_CHECKING:
    from learn.config import LoopConfig
    from learn.plan_memory import Training
    from learn.plan_report import Outlook
    from learn.plan_store import Measured
    from learn.planning import Terms
    from learn.spread import Spread

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def plan(
    *,
    config: Annotated[Path | None, typer.Option(help="YAML file of a loop; its defaults without one.")] = None,
    model: Annotated[
        str | None, typer.Option(help="A name (qwen3-4b), or a directory with config.json; the config's by default.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Method instead of learn.method.")] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", parser=place, metavar="STORE", help="Store of an earlier run, whose use and speed are taken."
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes.")] = 1,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of each node; on CPUs processes.")] = 1,
    accelerator: Annotated[
        str | None, typer.Option(help="h200, h100, a100-80gb, l4 or rtx-4090: memory and limits of speed.")
    ] = None,
    gpu_memory: Annotated[
        float | None, typer.Option(min=0.1, help="GB of one GPU; the accelerator's, else 24.")
    ] = None,
    lora: Annotated[int | None, typer.Option(min=1, help="Rank of adapters, instead of learn.lora.")] = None,
    rate: Annotated[
        list[str] | None, typer.Option(help="Known tokens/s of a GPU: collect=9000 or learn=8000,12000,14000.")
    ] = None,
    assume: Annotated[
        list[str] | None, typer.Option(help="Other use of a tree: agents=4,8,16; names are in --json.")
    ] = None,
    prices: Annotated[Path | None, typer.Option(help="Price file: tokens by model and role.")] = None,
    gpu_hour: Annotated[str | None, typer.Option(help="Price of a GPU hour, one number or low,expected,high.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override of the config, a.b=value; may be repeated.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="File that gets the same JSON too, whatever is printed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON: bytes, seconds, tokens.")] = False,
) -> None:
    """Plan a loop: memory of a GPU by ZeRO stage, calls and tokens by role, store bytes, hours, cost.

    Example: sera plan --config configs/h200_textcraft.yaml --nodes 2 --gpus 8 --accelerator h200 --gpu-hour 2.5,3,4

    One 24 GB GPU: sera plan --model qwen3-4b --lora 16 --gpu-memory 24 --set learn.engine.recompute=true
    """
    from learn.config import LoopConfig
    from learn.plan_report import body, print_plan
    from learn.state_file import replace_file
    from sera_data.config import load_config

    extra = [f"learn.method={json.dumps(method)}"] if method else []
    settings = load_config(LoopConfig, config, [*(overrides or []), *extra])
    terms, notes = _terms(
        settings,
        model=model,
        start=start,
        machine=(nodes, gpus, gpu_memory),
        accelerator=accelerator,
        lora=lora,
        speeds=_pairs(rate or [], option="--rate", names=("collect", "learn")),
        assume=_pairs(assume or [], option="--assume"),
    )
    outlook = _outlook(terms, notes, prices=prices, gpu_hour=gpu_hour)
    if save is not None:
        replace_file(save, f"{json.dumps(body(outlook))}\n".encode())
    if as_json:
        typer.echo(json.dumps(body(outlook)))
    else:
        print_plan(outlook)


def _terms(
    settings: LoopConfig,
    *,
    model: str | None,
    start: Path | None,
    machine: tuple[int, int, float | None],
    accelerator: str | None,
    lora: int | None,
    speeds: dict[str, Spread],
    assume: dict[str, Spread],
) -> tuple[Terms, list[str]]:
    """What the plan is made from, and what is to be said about it."""
    from learn.feed import schedule_of
    from learn.method import open_method
    from learn.model_shape import read_shape
    from learn.plan_cost import away
    from learn.plan_memory import Machine
    from learn.plan_speed import open_accelerator
    from learn.plan_use import assumptions
    from learn.planning import Terms

    device = None if accelerator is None else open_accelerator(accelerator)
    nodes, gpus, memory = machine
    size = 1e9 * memory if memory is not None else (device.memory if device else 24e9)
    settings = settings.model_copy(update={"collect": _settled(settings)})
    measured, notes = _measured(start, settings)
    terms = Terms(
        config=settings,
        schedule=schedule_of(settings.learn, open_method(settings.learn.method)),
        shape=read_shape(model or _model_of(settings.policy)),
        machine=Machine(nodes, gpus, size),
        training=_training(settings, lora),
        stated=assumptions(settings.collect.world.name, assume),
        measured=measured,
        device=device,
        speeds=speeds,
        away=away(settings.collect),
    )
    return terms, notes


def _outlook(terms: Terms, notes: list[str], *, prices: Path | None, gpu_hour: str | None) -> Outlook:
    from learn.plan_cost import models_of, plan_cost
    from learn.plan_memory import serving_memory
    from learn.plan_report import Outlook, memory_by_stage
    from learn.planning import plan_epochs, sources
    from learn.spread import parse_spread
    from sera_data.prices import read_prices

    collect, machine = terms.config.collect, terms.machine
    epochs = plan_epochs(terms)
    found, most = memory_by_stage(terms)
    cost = plan_cost(
        epochs,
        models=models_of(collect, terms.shape.name),
        prices=None if prices is None else read_prices(prices),
        gpu_hour=None if gpu_hour is None else parse_spread(gpu_hour, what="--gpu-hour"),
        world=machine.world,
    )
    context = float(collect.budgets.context or terms.shape.context or 10_240)
    serving = serving_memory(terms.shape, machine.memory, context=context)
    return Outlook(terms, epochs, found, most, serving, cost, sources(terms), notes)


def _measured(start: Path | None, settings: LoopConfig) -> tuple[Measured, list[str]]:
    """Figures of an earlier store, and in which settings it differs from the plan."""
    from learn.plan_store import Measured, differences, measure

    if start is None:
        return Measured(), []
    import sera_data

    found = measure(sera_data.open(start))
    other = differences(found.settings, settings.collect.resolved())
    text = f"the store was collected with another {', '.join(other)}: its use per tree may not hold"
    return found, [text] if other else []


def _settled(settings: LoopConfig) -> Any:
    """The collect settings with what the method needs."""
    from learn.collect_needs import settle
    from learn.method import open_method

    chosen = open_method(settings.learn.method)
    return settle(chosen.needs, settings.collect, start=Path(settings.policy), method=chosen.name)


def _model_of(policy: str) -> str:
    """The start policy's directory, or the name of a model that is not here: /models/Qwen3-4B -> qwen3-4b."""
    from collect.model_argument import split_argument
    from learn.model_shape import presets

    path = split_argument(policy)[0]
    name = path.name.lower()
    return name if not path.is_dir() and name in presets() else str(path)


def _training(settings: LoopConfig, lora: int | None) -> Training:
    from dataclasses import replace

    from learn.config import BUDGET
    from learn.plan_memory import Training
    from schemas.words import Stage

    engine, adapters = settings.learn.engine, settings.learn.lora
    how = Training(
        tokens=engine.tokens_per_micro_batch or BUDGET["cuda"],
        chunk=engine.vocabulary_chunk,
        recompute=engine.recompute,
        offload=engine.offload,
        precision="fp32" if engine.dtype == "float32" else "mixed",
        # loaded at the first update with data of other weights, which any phase may meet
        start_kept=any(settings.learn.loss.kl(stage) for stage in get_args(Stage)),
    )
    if adapters is None and lora is None:
        return how
    rank = lora if lora is not None else adapters.r if adapters is not None else None
    targets = how.targets if adapters is None else tuple(adapters.targets)
    return replace(how, rank=rank, targets=targets)


def _pairs(texts: list[str], *, option: str, names: tuple[str, ...] | None = None) -> dict[str, Spread]:
    """['collect=9000', 'learn=8000,12000,14000'] -> spreads by name."""
    from learn.spread import parse_spread
    from sera_data.errors import UsageError

    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or (names is not None and name not in names):
            msg = f"{option} wants {'|'.join(names or ('NAME',))}=NUMBER, got {text!r}"
            raise UsageError(msg, hint=f"for example {option} {(names or ('agents',))[0]}=8,10,12")
        found[name] = parse_spread(value, what=f"{option} {name}")
        if names is not None and found[name].low <= 0:
            msg = f"{option} {name} wants a speed above 0, got {value}"
            raise UsageError(msg, hint="tokens per second of one GPU")
    return found
