"""`sera learn`: one learn phase from a sealed epoch; the same command finishes it after a kill.

Invariant: runs alone, under torchrun and under the deepspeed launcher; only the first rank prints and writes rows.

Run: ``sera learn --store runs/store --method sera --from POLICY --out runs/learn``, or
``torchrun --nproc_per_node 8 -m sera_data learn ...``, or ``deepspeed --module learn.learn_cli ...`` (that launcher
puts its --local_rank before the command's own arguments).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sera_data.place import place

if TYPE_CHECKING:
    from collect.interruption import Interruption
    from learn.config import LearnConfig
    from learn.method import Method
    from learn.record import Phase, Result

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def learn(
    *,
    store: Annotated[Path, typer.Option(parser=place, metavar="STORE", help="The store that is learned from.")],
    start: Annotated[str, typer.Option("--from", help="Policy to start from: a policy directory, or pocket.")],
    out: Annotated[Path, typer.Option(help="Directory of the run: checkpoints/ and policies/.")],
    config: Annotated[Path | None, typer.Option(help="YAML file of the phase; defaults without one.")] = None,
    method: Annotated[str | None, typer.Option(help="A name of `sera methods`, or a .yaml or .sql file.")] = None,
    credit: Annotated[Path | None, typer.Option(help="Your own credit SQL file in place of the method's.")] = None,
    where: Annotated[Path | None, typer.Option(help="SQL file that says what of the credit is trained.")] = None,
    beside: Annotated[
        list[str] | None, typer.Option("--with", help="A further store, PATH or PATH@EPOCH; may be repeated.")
    ] = None,
    stage: Annotated[
        str | None, typer.Option(help="Train this stage alone: execution, delegation or rubric; schedule=STAGE:1.")
    ] = None,
    refresh: Annotated[
        str | None, typer.Option(help="Refresh run whose rubrics and scores the rubric stage reads.")
    ] = None,
    logprobs: Annotated[
        str | None, typer.Option(help="Run of sera refresh logprobs whose log-probabilities stand for the engine's.")
    ] = None,
    epoch: Annotated[int | None, typer.Option(help="Epoch to learn from; the newest sealed one by default.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override of a setting, a.b=value; may be repeated.")
    ] = None,
    allow_stale: Annotated[
        bool, typer.Option("--allow-stale", help="Train cispo or grpo on data older than loss.stale.limit updates too.")
    ] = False,
    replay: Annotated[
        str | None, typer.Option(help="Repeat this stored run, a run id or its directory, and compare every update.")
    ] = None,
    other_code: Annotated[
        bool, typer.Option("--other-code", help="Replay although the run was made by another version of the code.")
    ] = False,
    log: Annotated[str, typer.Option(help="Also show rows in: tensorboard,wandb,trackio. Off by default.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show config and batches; train nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    local_rank: Annotated[int | None, typer.Option("--local_rank", "--local-rank", hidden=True)] = None,
) -> None:
    """Train the policy on a sealed epoch, stage by stage, and write the next policy directory.

    Killed at any moment, the same command continues. On GPUs: torchrun --nproc_per_node 8 -m sera_data learn ...

    Example: sera learn --store runs/store --method sera --from pocket --out runs/learn --set optimizer.lr=1e-4
    """
    from learn.feed import with_loss
    from learn.refreshed import method_of
    from learn.sinks import parse_sinks
    from learn.slurm_ranks import ranks_of_step

    os.environ.update(ranks_of_step(os.environ))
    if local_rank is not None:
        os.environ.setdefault("LOCAL_RANK", str(local_rank))
    alone = [f"schedule={json.dumps(f'{stage}:1')}"] if stage else []
    alone += ["loss.stale.beyond=allow"] if allow_stale else []
    alone += [f"refresh={json.dumps(refresh)}"] if refresh else []
    alone += [f"logprobs={json.dumps(logprobs)}"] if logprobs else []
    if replay is not None:
        given: dict[str, Any] = {
            "--config": config,
            "--method": method,
            "--credit": credit,
            "--where": where,
            "--with": beside,
        }
        given |= {"--epoch": epoch, "--set": overrides, "--stage": stage, "--refresh": refresh}
        given |= {"--logprobs": logprobs}
        _replay(store, replay, policy_directory(start), out, given, other_code=other_code, as_json=as_json)
        return
    settings = _settings(config, method, credit, where, beside or [], [*(overrides or []), *alone])
    sinks = parse_sinks(log)
    chosen = method_of(settings)
    settings = with_loss(settings, chosen)
    policy = policy_directory(start)
    if dry_run:
        _show(store, settings, chosen, policy, epoch, as_json=as_json)
        return
    result, first, seconds = _run(store, settings, chosen, policy, out, epoch, sinks)
    if first:
        _print(result, seconds, as_json=as_json)
    from learn.record import require_fruitful

    require_fruitful(result)


def policy_directory(spec: str) -> Path:
    """The directory of a policy spec: a path, 'pocket' or 'pocket:WORLD'; UsageError when there is none."""
    from sera_data.errors import UsageError

    engine, _, argument = spec.partition(":")
    if engine == "pocket":
        from collect.model_argument import pocket_directory

        return pocket_directory(argument)
    text = argument if engine == "transformers" else spec
    if not text or not Path(text).is_dir():
        msg = f"no policy {spec!r} to train; allowed: a policy directory, pocket, or pocket:WORLD"
        raise UsageError(msg, hint="'sera policy make DIR' makes one of a downloaded model")
    return Path(text)


def _settings(
    path: Path | None,
    method: str | None,
    credit: Path | None,
    where: Path | None,
    beside: list[str],
    overrides: list[str],
) -> LearnConfig:
    from learn.config import LearnConfig
    from learn.where import read_where
    from sera_data.config import load_config

    extra = [f"method={json.dumps(method)}"] if method else []
    extra += [f"credit={json.dumps(str(credit))}"] if credit else []
    extra += [f"stores={json.dumps(beside)}"] if beside else []
    extra += [f"where={json.dumps(read_where(where).sql)}"] if where else []
    return load_config(LearnConfig, path, [*overrides, *extra])


def _run(
    store: Path, settings: LearnConfig, method: Method, policy: Path, out: Path, epoch: int | None, names: list[str]
) -> tuple[Result, bool, float]:
    import sera_data
    from collect.interruption import Interruption
    from learn.phase import open_phase
    from learn.run_lock import sole_process

    started = time.monotonic()
    with Interruption().active() as interruption:
        phase = open_phase(sera_data.open(store), config=settings, method=method, policy=policy, out=out, epoch=epoch)
        first = os.environ.get("RANK", "0") == "0"
        with sole_process(out, work="run") if first else contextlib.nullcontext():
            result = _train(phase, names, interruption)
    return result, first, time.monotonic() - started


def _train(phase: Phase, names: list[str], interruption: Interruption) -> Result:
    from learn.learn_progress import LearnProgress
    from learn.phase import learn_phase
    from learn.ranks import join, leave
    from learn.sinks import open_sinks
    from learn.stopping import Stopping

    ranks = join(threads=phase.config.engine.threads)
    sinks = open_sinks(names, directory=phase.out, run_id=phase.run_id) if ranks.first else []
    bar = LearnProgress(phase.config.updates_per_collect, epoch=phase.epoch, quiet=not ranks.first)
    try:
        with bar as progress:

            def show(row: dict[str, Any]) -> None:
                progress.update_done(row)
                for sink in sinks:
                    sink.add(row)

            return learn_phase(phase, ranks=ranks, on_row=show, stopping=Stopping(ranks, interruption))
    finally:
        for sink in sinks:
            sink.close()
        leave()


def _replay(
    store: Path,
    run: str,
    policy: Path,
    out: Path,
    given: dict[str, Any],
    *,
    other_code: bool,
    as_json: bool,
) -> None:
    import sera_data
    from collect.interruption import Interruption
    from learn.ranks import join, leave
    from learn.replaying import ReplayDiffersError, replay_run, run_named
    from learn.run_lock import sole_process
    from sera_data.errors import UsageError

    extra = [name for name, value in given.items() if value]
    if extra:
        msg = f"a replay takes everything from the stored run, got {', '.join(extra)} as well"
        raise UsageError(msg, hint="give --store, --from, --out and --replay only")
    opened, run_id = sera_data.open(store), run_named(run)
    with Interruption().active() as interruption, sole_process(out, work="run"):
        ranks = join(threads=1)
        try:
            code: Literal["same", "any"] = "any" if other_code else "same"
            done = replay_run(opened, run_id, policy=policy, out=out, ranks=ranks, code=code, interruption=interruption)
        finally:
            leave()
    body = {
        "run_id": run_id,
        "same": not any(phase.differences for phase in done),
        "updates": sum(phase.updates for phase in done),
        "policy": str(done[-1].policy),
        "phases": [
            {"epoch": phase.epoch, "version": phase.version, "differences": list(phase.differences)} for phase in done
        ],
    }
    if as_json:
        typer.echo(json.dumps(body))
    elif body["same"]:
        typer.echo(f"{run_id}: {body['updates']} updates repeated, every measured column is the same; {body['policy']}")
    if not body["same"]:
        found = done[-1].differences
        msg = f"run {run_id} did not repeat in epoch {done[-1].epoch}: {len(found)} values differ; first: {found[0]}"
        raise ReplayDiffersError(msg, hint="--json lists all; on GPUs and with several ranks sums are not bitwise")


def _show(
    store: Path, settings: LearnConfig, method: Method, policy: Path, epoch: int | None, *, as_json: bool
) -> None:
    from learn.rehearsal import rehearse

    body = rehearse(store, settings, method, policy, epoch)
    if as_json:
        typer.echo(json.dumps(body))
        return
    import yaml

    typer.echo(yaml.safe_dump(body, sort_keys=False, allow_unicode=True), nl=False)


def _print(result: Result, seconds: float, *, as_json: bool) -> None:
    from learn.learn_progress import print_result, summary

    if as_json:
        typer.echo(json.dumps(summary(result, seconds)))
    else:
        print_result(result, seconds)


if __name__ == "__main__":
    import sys

    from sera_data.cli import main

    sys.exit(main(["learn", *sys.argv[1:]]))
