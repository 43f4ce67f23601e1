"""`sera loop`: alternate collect and learn phases in one run directory.

Invariant: the command can be killed at any moment and repeated; it continues, and ends with the same store.

Run: ``sera loop --config FILE --out runs/NAME``.
"""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from learn.config import LoopConfig
    from learn.slurm import SlurmOptions

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def loop(
    *,
    config: Annotated[Path, typer.Option(help="YAML file of the loop: epochs, policy, collect, learn.")],
    out: Annotated[Path, typer.Option(help="Directory of the run; made when it is not there.")],
    policy: Annotated[str | None, typer.Option(help="Start policy instead of the config's: pocket or a path.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override of a setting, a.b=value; may be repeated.")
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Run `sera audit` on the store at the end.")] = False,
    until: Annotated[str | None, typer.Option(help="Stop after this step, for example learn:0.")] = None,
    only: Annotated[
        str | None, typer.Option(help="Play --shard of this collect step, collect:0, beside processes with the others.")
    ] = None,
    shard: Annotated[str, typer.Option(help="With --only: part i/n, or slurm for the task of a job array.")] = "0/1",
    launch: Annotated[
        str, typer.Option(help="Launcher that starts the ranks of a learn phase, put before its command: 'srun ...'.")
    ] = "",
    slurm: Annotated[
        Path | None, typer.Option(help="Write the loop as jobs for Slurm into this directory; play nothing.")
    ] = None,
    slurm_time: Annotated[str, typer.Option(help="Time limit of a job.")] = "24:00:00",
    slurm_partition: Annotated[str | None, typer.Option(help="Partition of the jobs.")] = None,
    slurm_account: Annotated[str | None, typer.Option(help="Account of the jobs.")] = None,
    slurm_gpus: Annotated[int, typer.Option(min=0, help="GPUs per node of a learn job; a collector gets one.")] = 0,
    slurm_nodes: Annotated[int, typer.Option(min=1, help="Nodes of a learn job.")] = 1,
    slurm_cpus: Annotated[int, typer.Option(min=1, help="Processors of a task.")] = 4,
    slurm_array: Annotated[int, typer.Option(min=1, help="Collectors of an epoch: tasks of its job array.")] = 4,
    slurm_line: Annotated[
        list[str] | None, typer.Option(help="A further option of sbatch, --name=value; may be repeated.")
    ] = None,
    slurm_setup: Annotated[
        list[str] | None, typer.Option(help="A shell line before the command, 'module load cuda'; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show config and steps; do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final figures as JSON.")] = False,
) -> None:
    """Collect an epoch, seal it, learn from it, and again; every phase is a process that can be resumed.

    Example: sera loop --config configs/pocket_table_loop.yaml --out runs/pocket --set epochs=4 --audit
    """
    from learn.config import LoopConfig
    from sera_data.config import load_config

    extra = [f"policy={json.dumps(policy)}"] if policy else []
    settings = load_config(LoopConfig, config, [*(overrides or []), *extra])
    if only is not None:
        _play_part(settings, out, only, shard, as_json=as_json)
    elif slurm is not None:
        from learn.slurm import SlurmOptions

        options = SlurmOptions(
            time=slurm_time,
            partition=slurm_partition,
            account=slurm_account,
            gpus=slurm_gpus,
            nodes=slurm_nodes,
            cpus=slurm_cpus,
            array=slurm_array,
            lines=tuple(slurm_line or ()),
            setup=tuple(slurm_setup or ()),
        )
        _write_jobs(settings, out, slurm, options, as_json=as_json)
    else:
        play_loop(settings, out, audit, dry_run, as_json, until=until, launch=launch)


def _play_part(config: LoopConfig, out: Path, only: str, shard: str, *, as_json: bool) -> None:
    from collect.interruption import Interruption
    from learn.loop import Loop
    from sera_data.errors import UsageError

    played = Loop(config, out)
    kind, index = parse_step(only, played.plan())
    if kind != "collect":
        msg = f"--only plays a part of a collect step, got {only!r}"
        raise UsageError(msg, hint="a learn step is played by --until, which plays what is missing before it too")
    with Interruption().active():
        result = played.collect_part(index, shard)
    if as_json:
        typer.echo(json.dumps(result))


def _write_jobs(config: LoopConfig, out: Path, directory: Path, options: SlurmOptions, *, as_json: bool) -> None:
    from learn.loop import Loop
    from learn.run_lock import sole_process
    from learn.slurm import write_jobs

    with sole_process(out, work="loop"):
        paths = write_jobs(Loop(config, out), options, directory)
    if as_json:
        typer.echo(json.dumps({"jobs": [str(path) for path in paths]}))
        return
    typer.echo(f"{len(paths) - 1} jobs in {directory}; submit them: bash {paths[-1]}")


def parse_step(text: str, plan: list[tuple[str, int]]) -> tuple[str, int]:
    """'learn:0' -> that step of a loop; UsageError for one that it does not have."""
    from sera_data.errors import UsageError

    kind, _, index = text.partition(":")
    for step in plan:
        if (kind, index) == (step[0], str(step[1])):
            return step
    names = ", ".join(f"{kind}:{index}" for kind, index in plan[:6])
    msg = f"the loop has no step {text!r}; it has {names}{' and more' if len(plan) > 6 else ''}"
    raise UsageError(msg)


def play_loop(
    config: LoopConfig,
    out: Path,
    audit: bool,
    dry_run: bool,
    as_json: bool,
    *,
    until: str | None = None,
    launch: str = "",
) -> None:
    """Play a loop, up to a step if one is named, and show its report."""
    from collect.interruption import Interruption
    from learn.loop import Loop
    from learn.loop_report import loop_report, print_report
    from learn.run_lock import sole_process

    played = Loop(config, out, launch=shlex.split(launch))
    last = None if until is None else parse_step(until, played.plan())
    if dry_run:
        _show(played, as_json=as_json)
        return
    started = time.monotonic()
    with Interruption().active(), sole_process(out, work="loop"):
        played.open()
        _play(played, last)
        report: dict[str, Any] = {
            **loop_report(played.store),
            "policy": str(played.policy()),
            "version": played.version(),
        }
        if audit:
            report["page"] = _audit(played.store, out)
        if played.divergence is not None:
            report["stopped"] = played.divergence
    report["seconds"] = round(time.monotonic() - started, 1)
    if as_json:
        typer.echo(json.dumps(report))
        _end(played)
        return
    print_report(report)
    typer.echo(f"policy of version {report['version']}: {report['policy']}")
    typer.echo(f"report: {report['page']}" if audit else f"audit it: sera audit {played.store}")
    typer.echo(f"{report['seconds']:.0f} s")
    _end(played)


def _end(played: Any) -> None:
    """Exit code 3 when the loop ended because scores run away from labels."""
    if played.divergence is None:
        return
    from sera_data.errors import GateFailed

    steps = ", ".join(f"{bias:+.3f}" for bias in played.divergence["biases"])
    msg = f"score minus label rose over two epochs ({steps}, epochs {played.divergence['epochs']}), so it ended"
    raise GateFailed(msg, hint=f"see 'sera audit {played.store}'; with --set stop=never it goes on all the same")


def _play(played: Any, until: tuple[str, int] | None) -> None:
    from rich.console import Console

    console = Console(stderr=True)
    started = time.monotonic()

    def announce(step: Any, total: int) -> None:
        number = played.steps.index(step) + 1
        passed = time.monotonic() - started
        text = f"[{number}/{total}] {step.kind} {step.index} with policy version {played.version()}  ({passed:.0f} s)"
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    played.play(announce, until=until)


def _audit(store: Path, out: Path) -> str:
    from learn.process import run_phase

    page = out / "report.html"
    run_phase(["audit", store, "--html", page, "--gates", "none"])
    return str(page)


def _show(played: Any, *, as_json: bool) -> None:
    start = _start(played)
    version = start["version"] or 0
    body = {
        "start": start,
        "steps": [f"{kind} {index}" for kind, index in played.plan()],
        "groups_of_first_epoch": played.groups(version),
        "samples": played.config.collect.samples,
        "config": played.config.resolved(),
    }
    if as_json:
        typer.echo(json.dumps(body))
        return
    import yaml

    typer.echo(yaml.safe_dump(body, sort_keys=False, allow_unicode=True), nl=False)


def _start(played: Any) -> dict[str, Any]:
    """The start policy; on a machine without it the config is checked all the same, and version null says so."""
    from collect.policies import engines
    from learn.collect_needs import settle
    from learn.feed import require_loss, schedule_of
    from sera_data.errors import UsageError

    config = played.config
    if config.engine not in engines():
        msg = f"no engine {config.engine!r} for the collect phases; allowed: {', '.join(engines())}"
        raise UsageError(msg, hint="engine: transformers, or engine: vllm")
    method = played.method()
    require_loss(config.learn, method, schedule_of(config.learn, method))
    here = ":" in config.policy or config.policy == "pocket" or Path(config.policy).is_dir()
    path = played.policy() if here else Path(config.policy)
    settle(method.needs, config.collect, start=path, method=method.name)
    return {"policy": str(path), "version": played.version() if here else None, "here": here, "engine": config.engine}
