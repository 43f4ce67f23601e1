"""`sera pocket`: rebuild the shipped policy from scripted trajectories, or check its required figures.

Invariant: `check` measures on worlds that training never saw and exits 3 when a figure is missed.

Run: ``sera pocket check``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sera_data.errors import GateFailed, UsageError

if TYPE_CHECKING:
    from learn.pocket_check import Report
    from learn.pocket_ground import Ground, Recipe
    from learn.pocket_training import Progress

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)
World = Annotated[str, typer.Option(help="textcraft or textworld.")]


@app.callback()
def pocket() -> None:
    """Rebuild the shipped policy from scripted trajectories, or check its required figures.

    Example: sera pocket check
    """


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="Policy directory to write.")],
    world: World = "textcraft",
    minutes: Annotated[float | None, typer.Option(min=0.01, max=100_000, help="End training after this time.")] = None,
    warm: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Blocks of scripted trees, first course.")
    ] = None,
    late: Annotated[int | None, typer.Option(min=0, max=100_000, help="Blocks beside practice, second course.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of weights and order.")] = 0,
    threads: Annotated[
        int, typer.Option(min=1, max=1024, help="Processes of one CPU thread; 1 where others use the cores.")
    ] = 2,
    work: Annotated[Path | None, typer.Option(help="Folder for data and checkpoints [default: OUT.work].")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Rebuild a world's pocket policy on CPUs from scripted trees; continues when interrupted.

    Example: sera pocket build --out pocket      or: sera pocket build --world textworld --out pocket_textworld
    """
    import json
    import os
    from dataclasses import replace

    from learn.pocket_ground import ground

    if (out / "policy.json").exists():
        msg = f"{out} already holds a policy"
        raise UsageError(msg, hint="name a new folder with --out")
    field = ground(world)
    sizes = field.recipe.warm if warm is None else warm, field.recipe.late if late is None else late
    recipe = replace(field.recipe, warm=sizes[0], late=sizes[1])
    folder = work or out.with_name(out.name + ".work")
    size = {"warm": recipe.warm, "late": recipe.late, "minutes": minutes, "seed": seed}
    plan = {"out": str(out), "world": world, "work": str(folder), **size}
    if dry_run:
        trees = recipe.trees * (recipe.warm + recipe.late)
        told = f"would build {out} for {world} from {trees:,} scripted trees; work folder {folder}"
        typer.echo(json.dumps(plan) if as_json else told)
        return
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads that spin would take the other core
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    final = _build(field, recipe, out, folder, plan, threads)
    done = {**plan, "loss": round(final.loss, 4), "tokens": final.tokens}
    typer.echo(
        json.dumps(done) if as_json else f"wrote {out}; check it with: sera pocket check --world {world} --policy {out}"
    )


@app.command()
def check(
    policy: Annotated[Path | None, typer.Option(help="Policy directory [default: the shipped one].")] = None,
    world: World = "textcraft",
    tasks: Annotated[int, typer.Option(min=1, max=100_000, help="Held-out tasks.")] = 128,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of tasks and sampling.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure every required figure on held-out tasks at temperature 1; exit 3 when one is missed.

    Example: sera pocket check --json      or: sera pocket check --world textworld
    """
    import json

    import torch

    from collect.transformers_policy import open_policy
    from learn.pocket_check import check as measure
    from learn.pocket_ground import ground

    field = ground(world)
    directory = policy or field.shipped
    if not (directory / "policy.json").is_file():
        msg = f"no policy directory at {directory}"
        raise UsageError(msg, hint="give a folder that `sera pocket build` or `sera learn` wrote")
    torch.set_num_threads(1)
    opened = open_policy(str(directory), options={"slots": 128})
    with _bars() as shown:
        trees = shown.add_task("trees", total=tasks)
        report = measure(field, opened, tasks=tasks, seed=seed, tree_done=lambda: shown.advance(trees))
    typer.echo(json.dumps(as_rows(report)) if as_json else table(report, directory))
    if not report.holds:
        missed = [figure.requirement.name for figure in report.figures if not figure.holds]
        msg = f"{directory} misses {len(missed)} of {len(report.figures)} figures: {', '.join(missed)}"
        raise GateFailed(msg, hint=f"train it longer: sera pocket build --world {world} --out DIR --warm N")


def as_rows(report: Report) -> dict[str, Any]:
    """The report as plain JSON."""
    figures = [
        {"figure": f.requirement.name, "value": f.value, "low": f.requirement.low, "high": f.requirement.high}
        | {"n": f.n, "holds": f.holds}
        for f in report.figures
    ]
    return {"holds": report.holds, "figures": figures, "extra": dict(report.extra)}


def table(report: Report, directory: Path) -> str:
    """The report as text."""
    lines = [f"{directory} on held-out tasks at temperature 1"]
    for figure in report.figures:
        value = "none" if figure.value is None else f"{figure.value:.3f}"
        low, high = figure.requirement.low, figure.requirement.high
        verdict = "ok" if figure.holds else "MISSED"
        lines.append(f"  {figure.requirement.name:<40} {value:>6}  {low:.2f}-{high:.2f}  n={figure.n:<6} {verdict}")
    lines += [f"  {name:<40} {value:>8}" for name, value in report.extra.items()]
    return "\n".join(lines)


def _bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _build(field: Ground, recipe: Recipe, out: Path, folder: Path, plan: dict[str, Any], threads: int) -> Progress:
    from learn.pocket_build import Watcher
    from learn.pocket_build import build as make
    from learn.pocket_training import Course

    last: list[Progress] = []
    with _bars() as shown:
        data = shown.add_task("scripted trees", total=plan["warm"] + plan["late"])
        training = shown.add_task("training", total=1.0)

        def on_training(course: str, progress: Progress) -> None:
            last.append(progress)
            note = f"{course}  loss {progress.loss:.3f}  {progress.tokens_per_second:,.0f} tokens/s"
            shown.update(training, completed=progress.done, description=note)

        make(
            field,
            out,
            folder,
            watch=Watcher(lambda index: shown.update(data, completed=index + 1), on_training),
            recipe=recipe,
            course=Course(minutes=plan["minutes"], seed=plan["seed"], batch_tokens=field.batch_tokens),
            threads=threads,
        )
    return last[-1]
