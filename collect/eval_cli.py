"""`sera eval`: success of a policy on tasks, stored as `evals` rows with their trees; protocols, reports, comparisons.

Invariant: resumable like every job; an evaluation that is finished is reported again from the store, not repeated.
`sera eval` with options is the same as `sera eval run`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sera_data.place import place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collect.eval_plan import EvalRequest
    from collect.interruption import Interruption
    from collect.job import Share

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


@app.command("run")
@app.callback(invoke_without_command=True)
def evaluate(
    ctx: typer.Context,
    *,
    store: Annotated[
        Path | None, typer.Option(parser=place, metavar="STORE", help="The store, made when it is not there.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="Who plays: scripted:NAME, pocket, or a directory.")] = None,
    tasks: Annotated[Path | None, typer.Option(help="Task file, instead of the protocol's or config's tasks.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Trees per task; 4 without a protocol.")] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Sampling temperature, 0 = greedy; 1 without a protocol.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Number of tasks drawn; all without it.")] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="A protocol ('sera eval protocols') or its YAML file; else the name to store, 'greedy' or 't1'."
        ),
    ] = None,
    dialect: Annotated[str | None, typer.Option(help="Dialect of the agents, one that the protocol allows.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Run seed; repeated, each is an evaluation.")] = None,
    select: Annotated[
        str | None,
        typer.Option(help="Best of N at every delegation: rubric or judge chooses; first and random are the controls."),
    ] = None,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Candidates per delegation with --select; 2.")] = None,
    config: Annotated[Path | None, typer.Option(help="Collect config for world, style and budgets.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Override a.b=value of the collect config; with a protocol of its keys, or collect.a.b."
        ),
    ] = None,
    shard: Annotated[str, typer.Option(help="Play part i of n, for example 0/2, dealt by band.")] = "0/1",
    train: Annotated[
        Path | None,
        typer.Option(
            parser=place,
            metavar="PATH",
            help="Task file or store of the training, for the overlap; else the protocol's.",
        ),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None, typer.Option(help="Two evaluations, by run id or policy version: after minus before.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be played; do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Evaluate a policy on tasks or under a protocol, or compare two evaluations of a store, paired by task.

    Example: sera eval run --protocol held-out-small --policy pocket --store runs/store

    Example: sera eval run --protocol textworld-1400 --select rubric --n 2 --policy pocket --store runs/store

    Example: sera eval --policy pocket --tasks heldout.jsonl --samples 4 --temperature 1 --store runs/store

    Then: sera eval report runs/store, or sera eval --store runs/store --compare 0 12
    """
    if ctx.invoked_subcommand is not None:
        _only_subcommand(ctx)
        return
    if store is None:
        from sera_data.errors import UsageError

        msg = "no store: give --store DIRECTORY"
        raise UsageError(msg, hint="it is made when it is not there")
    from collect.collect_cli import parse_shard
    from collect.eval_request import Asked, requests
    from collect.interruption import Interruption

    if compare is not None:
        _print(_compare(store, compare, protocol), as_json=as_json)
        return
    asked = Asked(
        protocol=protocol, policy=policy, tasks=tasks, samples=samples, temperature=temperature, limit=limit,
        dialect=dialect, seeds=tuple(seed or ()), select=select, n=n, config=config, overrides=tuple(overrides or ()),
    )  # fmt: skip
    part = parse_shard(shard)
    interruption = Interruption()
    with interruption.active():
        found = requests(asked)
        if dry_run:
            bodies = [request.plan() for request in found]
        else:
            bodies = _evaluate(store, found, part, interruption)
        overlap = _overlap(found[0], asked.protocol, train)
    from collect.overlap import overlap_words

    for body in bodies:
        _print({**body, "overlap": overlap if as_json else overlap_words(overlap)}, as_json=as_json)


@app.command()
def protocols(
    name: Annotated[str | None, typer.Argument(help="Show one protocol in full.")] = None, *, as_json: Json = False
) -> None:
    """List the evaluation protocols, or show one in full.

    Example: sera eval protocols textcraft-632
    """
    from collect.protocol import protocol_names, read_protocol

    found = [read_protocol(each) for each in ([name] if name else protocol_names())]
    if as_json:
        typer.echo(json.dumps([protocol.resolved() for protocol in found]))
        return
    if name:
        import yaml

        typer.echo(yaml.safe_dump(found[0].resolved(), sort_keys=False, allow_unicode=True), nl=False)
        return
    width = max(len(protocol.name) for protocol in found)
    for p in found:
        held_out = ", held-out worlds" if p.held_out else ""
        typer.echo(f"{p.name:<{width}}  {p.title}{held_out}")
        typer.echo(
            f"{'':<{width}}  {p.world}/{p.profile}, {' or '.join(p.dialects)}; temperature {p.temperature:g},"
            f" samples {p.samples}, seeds {_list(p.seeds)}; {_list(p.steps)} steps, depth {p.depth};"
            f" {p.context_tokens or 'any'} context, {p.completion_tokens} completion tokens"
        )


@app.command("report")
def show_report(
    stores: Annotated[
        list[Path], typer.Argument(parser=place, metavar="STORE...", help="Stores that hold evaluations.")
    ],
    *,
    protocol: Annotated[str | None, typer.Option(help="Only this protocol.")] = None,
    run: Annotated[list[str] | None, typer.Option(help="Only this run id; may be repeated.")] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            parser=place,
            metavar="PATH",
            help="Task file or store of the training, for the overlap; else the protocol's.",
        ),
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the report as Markdown.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML file.")] = None,
    as_json: Json = False,
) -> None:
    """Report the evaluations of stores beside the published figures: both rates, bands, depths, seeds, overlap.

    Example: sera eval report runs/store --html runs/eval.html
    """
    from collect import eval_page, eval_report

    body = eval_report.report_of(stores, protocol=protocol, runs=run or (), train=train)
    if markdown:
        eval_page.write(markdown, eval_page.markdown(body))
    if html:
        eval_page.write(html, eval_page.page(body))
    if as_json:
        typer.echo(json.dumps(body))
        return
    eval_page.print_report(body)
    for path in (markdown, html):
        if path:
            typer.echo(f"written to {path}")


@app.command("reselect")
def select_again(
    store: Annotated[
        Path,
        typer.Argument(
            parser=place, metavar="STORE", help="Store with candidates: of `--select`, or of counterfactual forks."
        ),
    ],
    *,
    select: Annotated[str, typer.Option(help="Rule that chooses: rubric, judge, random or first.")] = "rubric",
    scorer: Annotated[
        str, typer.Option(help="Whose scores: `stored`, or a policy that scores the stored candidates again.")
    ] = "stored",
    run: Annotated[str | None, typer.Option(help="Only candidates of this run id.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the candidates; score nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Choose again among stored candidates, by another rule or another scorer, without any step of a world.

    Scores by a policy are added to the store as new rows; the same command continues where it was stopped.

    Example: sera eval reselect runs/store --select random --json

    Example: sera eval reselect runs/store --scorer pocket --select rubric
    """
    import sera_data
    from collect import reselect as again
    from collect.rescoring import RescoreConfig, rescore
    from schemas.words import SELECTORS
    from sera_data.errors import UsageError

    if select not in SELECTORS:
        msg = f"--select {select!r} is no selector; allowed: {', '.join(SELECTORS)}"
        raise UsageError(msg)
    if scorer != again.STORED and select != "rubric":
        msg = f"--scorer {scorer} gives scores, which only --select rubric looks at, got --select {select}"
        raise UsageError(msg)
    opened = sera_data.open(store)
    rows = again.stored_candidates(opened, run=run)
    about = {"store": str(store), "select": select, "scorer": scorer}
    if dry_run:
        _print({**about, "candidates": len(rows)}, as_json=as_json)
        return
    scores: dict[str, float] | None = None
    additions: list[str] = []
    if scorer != again.STORED:
        scores, additions = rescore(opened, RescoreConfig(scorer=scorer, run=run))
    seeds = {name: phase.seed for name, phase in again.played_with(opened).items()}
    found = again.reselect(rows, selector=select, seeds=seeds, scores=scores)  # type: ignore[arg-type]
    body = {**about, "additions": additions, **again.summary(found, rows)}
    if as_json:
        from dataclasses import asdict

        typer.echo(json.dumps({**body, "choices": [asdict(each) for each in found]}))
        return
    _print(body, as_json=False)


def _only_subcommand(ctx: typer.Context) -> None:
    """Refuse options before a subcommand: they would be lost."""
    from sera_data.errors import UsageError

    for name in ctx.params:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = name.replace("_", "-")
            msg = f"options come after the subcommand: sera eval {ctx.invoked_subcommand} --{option} ..."
            raise UsageError(msg)


def _evaluate(
    path: Path, found: Sequence[EvalRequest], part: Share, interruption: Interruption
) -> list[dict[str, Any]]:
    import sera_data
    from collect.evaluation import find_evaluation, report, run_evaluation

    store = sera_data.create(path)
    bodies = []
    for request in found:
        run, complete = run_evaluation(store, request, part=part, interruption=interruption)
        bodies.append({**report(find_evaluation(store, run)), "complete": complete})
    return bodies


def _overlap(request: EvalRequest, protocol: str | None, train: Path | None) -> dict[str, Any] | None:
    from collect.overlap import overlap_of, training_tasks
    from collect.protocol import is_protocol, read_protocol

    default = read_protocol(protocol) if protocol and is_protocol(protocol) else None
    training = training_tasks(train, protocol=default)
    return None if training is None else overlap_of(request.drawn(), training)


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


def _list(value: int | tuple[int, ...]) -> str:
    return str(value) if isinstance(value, int) else "/".join(map(str, value))


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
