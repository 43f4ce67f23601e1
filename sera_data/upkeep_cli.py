"""`sera data seal`, `verify`, `snapshot` and `gc`: what keeps a store whole and small.

Invariant: a sealed directory never changes; `verify` changes nothing.

Run: ``sera data seal STORE``, ``sera data verify STORE``, ``sera data gc STORE --dry-run``.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sera_data.errors import StoreError, UsageError
from sera_data.printing import print_json
from sera_data.store_argument import Json, StorePath, open_path


def seal(
    store: StorePath,
    plan: Annotated[str | None, typer.Argument(help="Plan, for example e000003; default: every complete one.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Seal without the units that are missing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sealed.")] = False,
    as_json: Json = False,
) -> None:
    """Check, sort and compact a plan's shards into a directory that never changes.

    Example: sera data seal runs/demo/store e000000
    """
    from sera_data.plan import plan_names, read_plan
    from sera_data.sealing import seal as seal_plan

    opened = open_path(store)
    if partial and plan is None:
        msg = "--partial needs the name of the plan"
        raise UsageError(msg, hint="sera data ls STORE lists the plans")
    plans = [read_plan(opened, name) for name in ([plan] if plan else plan_names(opened))]
    chosen = [p for p in plans if plan or (not p.sealed() and p.committed() == set(p.unit_ids))]
    done: list[dict[str, Any]] = []
    for each in chosen:
        missing = sorted(set(each.unit_ids) - each.committed())
        if dry_run:
            done.append({"plan": each.name, "missing": missing, "sealed": each.sealed()})
            continue
        result = seal_plan(opened, each.name, partial=partial)
        facts = {"plan": each.name, "missing": list(result.missing), "rows": result.rows}
        done.append({**facts, "content_hash": result.content_hash, "already_sealed": result.already_sealed})
    if as_json:
        print_json({"dry_run": dry_run, "sealed": done})
        return
    for entry in done:
        what = "would seal" if dry_run else "already sealed" if entry["already_sealed"] else "sealed"
        tail = "" if dry_run else f": {sum(entry['rows'].values())} rows, content {entry['content_hash'][:16]}"
        print(
            f"{what} {entry['plan']}{tail}" + (f", without {', '.join(entry['missing'])}" if entry["missing"] else "")
        )
    if not done:
        print("nothing to seal: no complete plan is unsealed")


def verify(store: StorePath, as_json: Json = False) -> None:
    """Check hashes, sizes, schemas and rows of every published file; exit code 1 when a file is damaged.

    Example: sera data verify runs/demo/store
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    from sera_data.verification import verify as verify_store

    opened = open_path(store)
    console = Console(stderr=True)
    with Progress(SpinnerColumn(), TextColumn("verify {task.description}"), console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        found = verify_store(opened, on_problem="report", progress=lambda name: bar.update(task, description=name))
    facts = {"directories": found.directories, "files": found.files, "rows": found.rows, "bytes": found.bytes}
    if as_json:
        problems = [{"path": p.path, "fault": p.fault, "fix": p.fix} for p in found.problems]
        print_json({**facts, "problems": problems})
    else:
        for problem in found.problems:
            print(problem)
        print(", ".join(f"{value} {name}" for name, value in facts.items()) + f", {len(found.problems)} problems")
    if found.problems:
        msg = f"store {store} has {len(found.problems)} problems, the first: {found.problems[0]}"
        raise StoreError(msg)


def snapshot(
    store: StorePath,
    name: Annotated[str, typer.Argument(help="Name of the snapshot, for example demo-1f2e3d4c-e000003.")],
    directory: Annotated[list[str] | None, typer.Option(help="Sealed directory; repeat it. Default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Write down, once, which sealed directories a learn phase reads.

    Example: sera data snapshot runs/demo/store mine --directory e000000 --directory e000000.a001
    """
    from sera_data.snapshot import take_snapshot

    opened = open_path(store)
    taken = take_snapshot(opened, name, directories=directory or opened.sealed_names())
    if as_json:
        print_json({"name": taken.name, "sha256": taken.sha256, "directories": taken.directories})
    else:
        print(f"snapshot {taken.path}: {', '.join(taken.directories)}, sha256 {taken.sha256[:16]}")


def gc(
    store: StorePath,
    staging_hours: Annotated[float, typer.Option(help="Remove unfinished work older than this.")] = 24.0,
    sealed_hours: Annotated[float, typer.Option(help="Remove shards sealed for longer than this.")] = 1.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Remove what dead processes left and shards whose rows are sealed; never a sealed directory.

    Example: sera data gc runs/demo/store --dry-run
    """
    from sera_data.garbage import collect_garbage

    gone = collect_garbage(open_path(store), staging_hours=staging_hours, sealed_hours=sealed_hours, dry_run=dry_run)
    if as_json:
        facts = {"staging": list(gone.staging), "shards": list(gone.shards), "bytes": gone.bytes, "dry_run": dry_run}
        print_json(facts)
        return
    for name in [*gone.staging, *gone.shards]:
        print(f"{'would remove' if dry_run else 'removed'} {name}")
    print(f"{len(gone.staging)} unfinished, {len(gone.shards)} sealed shards, {gone.bytes} bytes")
