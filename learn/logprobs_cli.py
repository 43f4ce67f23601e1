"""`sera refresh logprobs` and `sera refresh mismatch`: what the trainer makes of stored completions.

Invariant: `logprobs` can be killed and repeated; it continues its own plan and ends with the same rows. What was
collected is never changed: the rows are shards of an addition. `mismatch` only reads. Both are registered in the
entry-point group `sera.refresh`.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sera_data.place import place
from sera_data.printing import print_facts

if TYPE_CHECKING:
    from learn.logprobs_config import LogprobsConfig
    from sera_data.store import Store

StorePath = Annotated[
    Path,
    typer.Argument(
        parser=place, metavar="STORE", help="Store with sealed epochs: the directory that holds store.json."
    ),
]


def logprobs(
    store: StorePath,
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Where the weights lie that sampled: behaviour (beside the store and where the configs say), a policy"
            " directory, or a run's with policies/ in it; may be repeated.",
            show_default="behaviour",
        ),
    ] = None,
    epoch: Annotated[list[int] | None, typer.Option("--epoch", help="Only this epoch; may be given again.")] = None,
    where: Annotated[Path | None, typer.Option(help="SQL file that says which turns: one column.")] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16"], typer.Option(help="Of the forward pass: that of the learner to come.")
    ] = "float32",
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where it is computed.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    tokens_per_unit: Annotated[int, typer.Option(min=1, help="Tokens that are committed together.")] = 200_000,
    tokens_per_micro_batch: Annotated[
        int | None, typer.Option(min=2, help="Tokens of a forward pass; as learn's by default.")
    ] = None,
    shard: Annotated[str, typer.Option(help="Work on part i of n, for example 0/2; the parts join one plan.")] = "0/1",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be computed; compute nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Compute the log-probabilities of stored completions again, with the learner's forward pass and their own weights.

    'sera learn --logprobs RUN' then takes ratios against these instead of the engine's; 'sera refresh mismatch' says
    how far the two are apart.

    Example: sera refresh logprobs runs/demo/store --policy behaviour
    """
    from collect.collect_cli import parse_shard
    from learn.behaviour import BEHAVIOUR
    from learn.logprobs_config import LogprobsConfig
    from learn.where import read_where
    from sera_data.config import checked

    values = {
        "epochs": epoch or None,
        "where": read_where(where).sql if where else None,
        "dtype": dtype,
        "device": device,
        "threads": threads,
        "tokens_per_unit": tokens_per_unit,
        "tokens_per_micro_batch": tokens_per_micro_batch,
    }
    config, part = checked(LogprobsConfig, values), parse_shard(shard)
    import sera_data

    opened, places = sera_data.open(store), policy or [BEHAVIOUR]
    if dry_run:
        print_facts(_plan(opened, config, places), as_json=as_json)
        return
    from collect.interruption import Interruption
    from learn.logprobs_job import recompute

    started = time.monotonic()
    with Interruption().active():
        done = recompute(opened, config, places=places, part=part)
    body = {"run_id": done.run_id, "plans": done.plans, "sealed": done.sealed}
    counts = {"turns": done.turns, "tokens": done.tokens, "seconds": round(time.monotonic() - started, 3)}
    print_facts({**body, **counts}, as_json=as_json)


def mismatch(
    store: StorePath,
    *,
    run: Annotated[str | None, typer.Option(help="Only this recomputation run; all of them by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Compare recomputed log-probabilities with the engine's, by epoch and role, in nats.

    'mean_abs' above 0.02 means that the engine and the trainer are two policies: every ratio starts off by that much.

    Example: sera refresh mismatch runs/demo/store
    """
    import sera_data
    from learn.registered import query
    from sera_data.errors import UsageError
    from sera_data.printing import print_table

    with sera_data.open(store).connect(queries=[query("logprob_mismatch")]) as connection:
        rows = connection.sql(query("logprob_mismatch"), params={"run_id": run}).pl()
        if rows.is_empty():
            runs = [name for (name,) in connection.sql("select distinct run_id from logprobs order by 1").fetchall()]
            msg = f"store {store} has no recomputed log-probabilities{f' of run {run!r}' if run else ''}"
            raise UsageError(
                msg + (f"; its runs: {', '.join(runs)}" if runs else ""),
                hint="sera refresh logprobs STORE computes some and prints its name",
            )
    if as_json:
        typer.echo(json.dumps(rows.to_dicts()))
    else:
        shown = [[f"{v:.3g}" if isinstance(v, float) else v for v in row] for row in rows.rows()]
        print_table(rows.columns, shown)


def _plan(store: Store, config: LogprobsConfig, places: list[str]) -> dict[str, Any]:
    """What the command would do, as plain JSON values; weights that are not at hand are refused as in earnest."""
    from collect.addition import own_additions
    from learn.behaviour import find_weights
    from learn.logprobs_selection import Selection

    with Selection(store, config) as selection:
        owed, configs = selection.owed(), selection.configs()
    found = find_weights(store, owed.samplers, places=places, configs=configs)
    return {
        "run_id": config.run_id,
        "continues": [plan.name for plan in own_additions(store, config, "open")],
        "turns": owed.turns,
        "tokens": owed.tokens,
        "policies": [
            f"{s.name} version {s.version} at {found[str(s.weights_sha256)].path} for {s.n_turns} turns"
            for s in owed.samplers
        ],
        "units_by_epoch": {str(epoch): len(units) for epoch, units in owed.units.items()},
    }
