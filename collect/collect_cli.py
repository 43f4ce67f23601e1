"""`sera collect`: play one collect phase into a store.

Invariant: the command can be killed and repeated, alone, as one of several `--shard i/n` processes or on Ray; it
continues its own plan and ends with the same store.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sera_data.place import place

if TYPE_CHECKING:
    from collect.config import CollectConfig
    from collect.job import Share
    from collect.ray_job import RayOptions
    from collect.spending import Limits
    from collect.world import Task

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def collect(
    *,
    store: Annotated[Path, typer.Option(parser=place, metavar="STORE", help="The store, made when it is not there.")],
    config: Annotated[Path | None, typer.Option(help="YAML file of the phase; defaults without one.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="Who plays, instead of policy.model: scripted:NAME, pocket, or a directory.")
    ] = None,
    tasks: Annotated[Path | None, typer.Option(help="Task file, instead of world.tasks.")] = None,
    tasks_sql: Annotated[
        Path | None, typer.Option("--tasks-sql", help="SQL file that names the tasks to play: a column task_id.")
    ] = None,
    tasks_store: Annotated[
        Path | None,
        typer.Option(
            "--tasks-store", parser=place, metavar="STORE", help="Store that --tasks-sql reads; --store by default."
        ),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="Groups per purpose, instead of the config's: execution=4,rubric=2 or eval=all.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override of a setting, a.b=value; may be repeated.")
    ] = None,
    shard: Annotated[
        str,
        typer.Option(help="Play part i of n, for example 0/2, or slurm: this array task's; the parts join one plan."),
    ] = "0/1",
    epoch: Annotated[
        int | None, typer.Option(help="Epoch that this must be; done when it is sealed. The store's next by default.")
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Play on Ray: one actor per replica of the policies.")] = False,
    ray_actors: Annotated[int, typer.Option("--ray-actors", min=1, help="Number of replicas on Ray.")] = 1,
    ray_address: Annotated[
        str | None, typer.Option("--ray-address", help="Ray cluster; RAY_ADDRESS, or one of this machine, without it.")
    ] = None,
    ray_gpus: Annotated[
        float | None, typer.Option("--ray-gpus", min=0, help="GPUs of a replica; 1 where the cluster has any.")
    ] = None,
    seal: Annotated[bool, typer.Option("--seal", help="Seal the epoch when all its units are committed.")] = False,
    prices: Annotated[
        Path | None, typer.Option(help="Price file: what tokens cost by model and role; written down with every call.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Stop before the run has spent more, in the currency of --prices.")
    ] = None,
    max_labels: Annotated[int | None, typer.Option(help="Stop before the judge has given more votes.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the resolved config and the units; do nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Play one collect phase: trees, rubrics, branches, labels and scores into a store.

    Stopped at any moment, the same command continues where it stopped. A limit (--max-cost, --max-labels) stops it
    between units with exit code 3; the same command with a higher limit goes on.

    Example: sera collect --config configs/textcraft_scripted.yaml --tasks val.jsonl --store runs/store --seal
    """
    from collect.interruption import Interruption
    from collect.limits import raise_when_stopped, read_limits

    started = time.monotonic()
    limits = read_limits(prices, max_cost=max_cost, max_labels=max_labels)
    chosen = _task_query(tasks_sql, tasks_store or store)
    settings = _config(config, tasks, groups, [*(overrides or []), *chosen])
    part = parse_shard(shard)
    replicas = _replicas(part, ray_actors, ray_address, ray_gpus) if ray else None
    interruption = Interruption()
    with interruption.active():
        found = _tasks(settings)
        if dry_run:
            _show_plan(settings, found, policy, as_json=as_json)
            return
        summary = _run(store, settings, found, policy, replicas or part, interruption, limits, epoch=epoch, seal=seal)
    if as_json:
        typer.echo(json.dumps({**summary, "seconds": round(time.monotonic() - started, 3)}))
    else:
        from collect.summary import print_summary

        print_summary(summary, seconds=time.monotonic() - started)
    raise_when_stopped(summary["stopped"])


def parse_shard(text: str) -> Share:
    """'0/2' -> part 0 of 2, 'slurm' -> the part of this task of a job array; UsageError for anything else."""
    from collect.array_task import share_of_array
    from collect.job import Share
    from sera_data.errors import UsageError

    if text == "slurm":
        return Share(*share_of_array(os.environ))
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if match is None or int(match[1]) >= int(match[2]):
        msg = f"--shard wants i/n with i from 0 to n-1, got {text!r}"
        raise UsageError(msg, hint="for two processes: --shard 0/2 and --shard 1/2")
    return Share(int(match[1]), int(match[2]))


def _replicas(part: Share, actors: int, address: str | None, gpus: float | None) -> RayOptions:
    from collect.ray_job import RayOptions
    from sera_data.errors import UsageError

    if part.of > 1:
        msg = f"--ray hands out the units itself, got --shard {part.index}/{part.of} as well"
        raise UsageError(msg, hint="give one of them")
    return RayOptions(replicas=actors, address=address, gpus=gpus)


def parse_groups(text: str) -> str:
    """'execution=4,rubric=2' -> the override of the whole `groups` setting."""
    from sera_data.errors import UsageError

    parts = [part.partition("=") for part in text.split(",")]
    if any(not equals for _, equals, _ in parts):
        msg = f"--groups wants purpose=number,..., got {text!r}"
        raise UsageError(msg, hint="for example --groups execution=4,delegation=2,rubric=2")
    return "groups={" + ", ".join(f"{name.strip()}: {count.strip()}" for name, _, count in parts) + "}"


def _config(path: Path | None, tasks: Path | None, groups: str | None, overrides: list[str]) -> CollectConfig:
    from collect.config import CollectConfig
    from sera_data.config import load_config

    extra = [parse_groups(groups)] if groups else []
    extra += [f"world.tasks={json.dumps(str(tasks))}"] if tasks else []
    return load_config(CollectConfig, path, [*overrides, *extra])


def _task_query(path: Path | None, store: Path) -> list[str]:
    """--tasks-sql as the override of `world.chosen`."""
    from sera_data.errors import UsageError

    if path is None:
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"tasks SQL {path} cannot be read: {error}"
        raise UsageError(msg, hint="name an SQL file in UTF-8") from None
    return [f"world.chosen={json.dumps({'sql': text, 'store': str(store)})}"]


def _tasks(settings: CollectConfig) -> list[Task]:
    from collect.tasks import load_tasks

    return load_tasks(settings)


def _run(
    path: Path,
    settings: CollectConfig,
    tasks: list[Task],
    policy: str | None,
    part: Share | RayOptions,
    interruption: Any,
    limits: Limits | None,
    *,
    epoch: int | None,
    seal: bool,
) -> dict[str, Any]:
    import sera_data
    from collect.job import Share, claim_job, run_job
    from collect.policies import open_policies, style_of, with_model
    from collect.summary import phase_summary

    chosen = with_model(settings.policy, policy)
    style = style_of(chosen.spec("act")) if settings.style == "auto" else settings.style
    store = sera_data.create(path)
    if isinstance(part, Share):
        policies = open_policies(chosen, roles=settings.roles())
        job = claim_job(store, settings, tasks=tasks, policies=policies, epoch=epoch)
        work = run_job(store, job, policies=policies, style=style, part=part, interruption=interruption, limits=limits)
    else:
        from collect.ray_job import run_ray

        how: dict[str, Any] = {"policy": chosen, "style": style, "options": part, "limits": limits}
        job, work = run_ray(store, settings, tasks, **how, interruption=interruption, epoch=epoch)
    sealed = seal and work.complete
    if sealed and not job.plan.sealed():
        sera_data.seal(store, job.plan.name)
    return {
        **phase_summary(store, job.plan),
        "sealed": job.plan.sealed(),
        "skipped_units": len(work.skipped),
        "stopped": work.stopped,
    }


def _show_plan(settings: CollectConfig, tasks: list[Task], policy: str | None, *, as_json: bool) -> None:
    from collect.dealing import lay_out, resolve_counts
    from collect.phase_judge import require_phase_judge
    from collect.policies import split_spec, with_model
    from sera_data.config import run_id

    chosen = with_model(settings.policy, policy)
    for role in settings.roles():
        split_spec(chosen.spec(role))
    require_phase_judge(settings)
    counts = resolve_counts(settings.groups.counts(), n_tasks=len(tasks))
    units = lay_out(counts, groups_per_unit=settings.groups_per_unit)
    body = {
        "run_id": run_id(settings.name, settings),
        "policy": chosen.resolved(),
        "tasks": len(tasks),
        "groups": {purpose: count for purpose, count in counts.items() if count},
        "units": len(units),
        "trees": sum(counts.values()) * settings.samples,
        "config": settings.resolved(),
    }
    if as_json:
        typer.echo(json.dumps(body))
        return
    import yaml

    typer.echo(yaml.safe_dump(body, sort_keys=False, allow_unicode=True), nl=False)
