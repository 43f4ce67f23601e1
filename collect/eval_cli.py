"""`sera eval`: success of a policy on tasks, stored as `evals` rows with their trees; or two evaluations compared.

Invariant: resumable like every job; an evaluation that is finished is reported again from the store, not repeated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collect.interruption import Interruption
    from collect.job import Share

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command("eval")
def evaluate(
    *,
    store: Annotated[Path, typer.Option(help="Directory of the store; made when it is not there.")],
    policy: Annotated[str | None, typer.Option(help="Who plays: scripted:NAME, pocket, or a directory.")] = None,
    tasks: Annotated[Path | None, typer.Option(help="Task file, instead of the config's world.tasks.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Trees per task.")] = 4,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature; 0 = greedy.")] = 1.0,
    limit: Annotated[int | None, typer.Option(min=1, help="Number of tasks drawn; all without it.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Name of the protocol; 'greedy' or 't1' by default.")] = None,
    config: Annotated[Path | None, typer.Option(help="Collect config for world, style and budgets.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override of a collect setting, a.b=value; may be repeated.")
    ] = None,
    shard: Annotated[str, typer.Option(help="Play part i of n, for example 0/2.")] = "0/1",
    compare: Annotated[
        tuple[str, str] | None, typer.Option(help="Two evaluations, by run id or policy version: after minus before.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be played; do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Evaluate a policy on tasks, or compare two evaluations of a store, paired by task.

    Example: sera eval --policy pocket --tasks heldout.jsonl --samples 4 --temperature 1 --store runs/store
    Then: sera eval --store runs/store --compare 0 12
    """
    from collect.collect_cli import parse_shard
    from collect.interruption import Interruption

    if compare is not None:
        _print(_compare(store, compare, protocol), as_json=as_json)
        return
    part = parse_shard(shard)
    interruption = Interruption()
    with interruption.active():
        request = _request(
            config, tasks, policy, overrides or [], samples=samples, temperature=temperature, limit=limit
        )
        if dry_run:
            _print(request.plan(), as_json=as_json)
            return
        body = _evaluate(store, request, protocol, part, interruption)
    _print(body, as_json=as_json)


def _request(
    config: Path | None,
    tasks: Path | None,
    policy: str | None,
    overrides: list[str],
    *,
    samples: int,
    temperature: float,
    limit: int | None,
) -> Any:
    from collect.config import CollectConfig
    from collect.evaluation import EvalRequest, eval_phase
    from collect.policies import split_spec, with_model
    from collect.tasks import load_tasks
    from sera_data.config import load_config

    extra = [f"world.tasks={json.dumps(str(tasks))}"] if tasks else []
    base = load_config(CollectConfig, config, [*overrides, *extra])
    phase = eval_phase(base, n_tasks=limit or "all", samples=samples, temperature=temperature)
    chosen = with_model(phase.policy, policy)
    split_spec(chosen.spec("act"))
    return EvalRequest(phase, chosen, load_tasks(phase))


def _evaluate(
    path: Path, request: Any, protocol: str | None, part: Share, interruption: Interruption
) -> dict[str, Any]:
    import sera_data
    from collect.evaluation import find_evaluation, report, run_evaluation

    store = sera_data.create(path)
    run, complete = run_evaluation(store, request, protocol=protocol, part=part, interruption=interruption)
    return {**report(find_evaluation(store, run)), "complete": complete}


def _compare(path: Path, pair: tuple[str, str], protocol: str | None) -> dict[str, Any]:
    import sera_data
    from collect.evaluation import compare, find_evaluation

    store = sera_data.open(path)
    before, after = (find_evaluation(store, selector, protocol=protocol) for selector in pair)
    return compare(before, after)


def _print(body: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(body))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False)
    for key, value in _flat(body):
        table.add_row(key, value)
    Console().print(table)


def _flat(body: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in body.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and "bootstrap" in value:
            low, high = value["bootstrap"]
            rows.append((name, f"{_text(value['success'])} ({_text(low)} to {_text(high)}), {value['trees']} trees"))
        elif isinstance(value, dict):
            rows += _flat(value, f"{name}.")
        elif isinstance(value, list):
            rows.append((name, " to ".join(_text(part) for part in value)))
        else:
            rows.append((name, _text(value)))
    return rows


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
