"""`sera refresh`: judge stored branches again, without playing anything; commands of other packages may join.

Invariant: the commands can be killed and repeated; they continue their own plan and end with the same rows. What was
collected is never changed: new rubrics and scores are shards of an addition.
"""

from __future__ import annotations

import json
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sera_data.place import place
from sera_data.printing import print_facts

if TYPE_CHECKING:
    from collect.policy import Policy
    from collect.refresh_config import RefreshConfig
    from schemas.words import Role

GROUP = "sera.refresh"
app = typer.Typer(
    help="Judge stored branches again.\n\nExample: sera refresh rubrics runs/store --policy pocket --k 4",
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)

StorePath = Annotated[
    Path,
    typer.Argument(
        parser=place, metavar="STORE", help="Store with sealed epochs: the directory that holds store.json."
    ),
]
Only = Annotated[
    Literal["mixed", "complete"],
    typer.Option(
        help="mixed: delegations with a success and a failure, which credit can use; complete: all forked ones."
    ),
]
Epochs = Annotated[list[int] | None, typer.Option("--epoch", help="Only this epoch; may be given again.")]
Purposes = Annotated[
    list[str] | None, typer.Option("--purpose", help="Only trees of this purpose; may be given again.")
]
Seed = Annotated[int, typer.Option(help="Seed of the sampling.")]
Attempts = Annotated[int, typer.Option(help="Replies asked until one is valid; credit reads the first one only.")]
Concurrency = Annotated[int, typer.Option(help="Delegations in flight.")]
Shard = Annotated[str, typer.Option(help="Work on part i of n, for example 0/2; the parts join one plan.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be asked; ask and write nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


@app.command()
def rubrics(
    store: StorePath,
    *,
    policy: Annotated[str, typer.Option(help="Policy that writes, and scores unless --scorer names another.")],
    scorer: Annotated[str | None, typer.Option(help="Policy that scores; the writer without it.")] = None,
    k: Annotated[int, typer.Option("--k", help="Rubrics written for each delegation.")] = 4,
    only: Only = "mixed",
    epoch: Epochs = None,
    purpose: Purposes = None,
    seed: Seed = 0,
    attempts: Attempts = 1,
    concurrency: Concurrency = 8,
    shard: Shard = "0/1",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write K new rubrics for every forked delegation and score its stored branches with each of them.

    'sera learn --stage rubric --refresh RUN' then trains the writer on its own words. No step of a world is taken.

    Example: sera refresh rubrics runs/store --policy runs/learn/policies/v000020 --k 4
    """
    values = {"work": "rubrics", "writer": policy, "scorer": scorer or policy, "k": k}
    shared = {"only": only, "epochs": epoch or None, "seed": seed, "attempts": attempts, "concurrency": concurrency}
    _refresh(store, {**values, **shared}, purpose, shard, dry_run=dry_run, as_json=as_json)


@app.command()
def scores(
    store: StorePath,
    *,
    scorer: Annotated[str, typer.Option(help="Policy that scores.")],
    of: Annotated[
        str | None, typer.Option(help="Refresh run whose rubrics are applied; without it those of the trees.")
    ] = None,
    only: Only = "mixed",
    epoch: Epochs = None,
    purpose: Purposes = None,
    seed: Seed = 0,
    attempts: Attempts = 1,
    concurrency: Concurrency = 8,
    shard: Shard = "0/1",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Score the stored branches of forked delegations with another policy, under the rubrics that are stored.

    What this policy and version has scored already is not asked again.

    Example: sera refresh scores runs/store --scorer runs/learn/policies/v000020
    """
    values = {"work": "scores", "scorer": scorer, "rubrics_of": of}
    shared = {"only": only, "epochs": epoch or None, "seed": seed, "attempts": attempts, "concurrency": concurrency}
    _refresh(store, {**values, **shared}, purpose, shard, dry_run=dry_run, as_json=as_json)


@app.command()
def report(
    store: StorePath,
    *,
    hold_out: Annotated[
        float, typer.Option(min=0, max=1, help="Share of tasks kept from training, as learn's hold_out.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Compare rubrics by pair accuracy: fresh ones beside refreshed ones, by the age of their branches.

    Intervals hold over tasks. 'versus_fresh' is the distance to the control: fresh rubrics of the same writer and
    scorer on branches of their own version.

    Example: sera refresh report runs/store --hold-out 0.2
    """
    import sera_data
    from collect.reselect import query
    from sera_data.printing import print_table

    rows = sera_data.open(store).sql(query("refresh_report"), {"share": hold_out}).pl()
    if as_json:
        typer.echo(json.dumps(rows.to_dicts()))
    else:
        print_table(rows.columns, rows.rows())


def _refresh(
    store: Path,
    values: dict[str, Any],
    purposes: list[str] | None,
    shard: str,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    import sera_data
    from collect.collect_cli import parse_shard
    from collect.interruption import Interruption
    from collect.refresh_job import run_refresh

    started = time.monotonic()
    part = parse_shard(shard)
    opened = sera_data.open(store)
    config, policies = _opened({**values, **({"purposes": purposes} if purposes else {})})
    _require_run(opened, config)
    if dry_run:
        print_facts(_plan(opened, config, policies), as_json=as_json)
        return
    interruption = Interruption()
    with interruption.active():
        summary = run_refresh(opened, config, policies, part=part, interruption=interruption)
    names = (
        "delegations",
        "rubrics",
        "invalid_rubrics",
        "scores",
        "invalid_scores",
        "prompt_tokens",
        "completion_tokens",
    )
    body = {"run_id": summary.run_id, "plans": summary.plans, "sealed": summary.sealed}
    counts = {name: summary.counts[name] for name in names}
    print_facts({**body, **counts, "seconds": round(time.monotonic() - started, 3)}, as_json=as_json)


def _opened(values: dict[str, Any]) -> tuple[RefreshConfig, dict[Role, Policy]]:
    """The configuration with who serves it, and the policies by role."""
    from collect.policies import open_policy, policy_hash
    from collect.refresh_config import RefreshConfig
    from sera_data.config import checked

    checked(RefreshConfig, {**values, "served": ""})
    specs: dict[Role, str] = {"writer": values.get("writer") or values["scorer"], "scorer": values["scorer"]}
    opened = {spec: open_policy(spec) for spec in dict.fromkeys(specs.values())}
    policies = {role: opened[spec] for role, spec in specs.items()}
    return checked(RefreshConfig, {**values, "served": policy_hash(policies)}), policies


def _require_run(store: Any, config: RefreshConfig) -> None:
    from sera_data.errors import UsageError

    if config.rubrics_of is None:
        return
    runs = [
        row[0] for row in store.sql("select distinct run_id from rubrics where phase = 'refresh' order by 1").fetchall()
    ]
    if config.rubrics_of not in runs:
        msg = f"store {store.path} has no refreshed rubrics of run {config.rubrics_of!r}; its runs: {runs or 'none'}"
        raise UsageError(msg, hint="sera refresh rubrics STORE --policy POLICY writes some")


def _plan(store: Any, config: RefreshConfig, policies: dict[Role, Policy]) -> dict[str, Any]:
    """What the command would do, as plain JSON values."""
    from collect.addition import own_additions
    from collect.refresh_selection import select_delegations

    selection = select_delegations(store, config, policies["scorer"])
    rubrics = selection.delegations * config.k if config.work == "rubrics" else 0
    return {
        "run_id": config.run_id,
        "continues": [plan.name for plan in own_additions(store, config, "open")],
        "delegations": selection.delegations,
        "branches": selection.branches,
        "rubric_calls": rubrics,
        "score_calls_at_least" if config.work == "scores" else "score_calls": selection.branches
        * (config.k if config.work == "rubrics" else 1),
        "units_by_epoch": {str(epoch): len(units) for epoch, units in selection.units.items()},
    }


def _add_registered() -> None:
    """Commands that other packages add to `sera refresh` by the entry-point group `sera.refresh`."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        app.command(entry.name)(entry.load())


_add_registered()
