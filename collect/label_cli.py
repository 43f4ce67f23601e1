"""`sera label`: add labels to stored nodes, without playing or training anything.

Invariant: the command can be killed and repeated; it continues its own plan, gives no vote twice and ends with the same
labels. A labeller's key comes from the environment and is neither stored nor printed.
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
    from collect.label_config import LabelConfig
    from collect.labels import Labeller
    from sera_data.store import Store

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)
CHARS_PER_TOKEN = 4


@app.command()
def label(
    store: Annotated[
        Path,
        typer.Argument(
            parser=place, metavar="STORE", help="Store with sealed epochs: the directory that holds store.json."
        ),
    ],
    *,
    judge: Annotated[
        str | None,
        typer.Option(
            help="openai:MODEL@URL of an OpenAI-compatible endpoint, rule:finish, rule:change, or any policy."
        ),
    ] = None,
    labeller: Annotated[
        str | None, typer.Option(help="Another registered labeller instead, for example program.")
    ] = None,
    votes: Annotated[int, typer.Option(help="Votes per node; the majority is the verdict.")] = 1,
    temperature: Annotated[float, typer.Option(help="Sampling of the judge; votes differ only above 0.")] = 0.0,
    max_tokens: Annotated[int, typer.Option(help="Longest reply of the judge, thinking included.")] = 1024,
    retries: Annotated[int, typer.Option(help="Tries again after 429, 5xx or a lost connection.")] = 4,
    concurrency: Annotated[int, typer.Option(help="Requests in flight.")] = 16,
    timeout: Annotated[float, typer.Option(help="Longest wait for one reply, in seconds.")] = 300.0,
    body: Annotated[str, typer.Option(help="Further fields of the request, as JSON.")] = "{}",
    key_variable: Annotated[
        str | None, typer.Option(help="Environment variable that holds the key, instead of the usual ones.")
    ] = None,
    epoch: Annotated[list[int] | None, typer.Option(help="Only this epoch; may be given again.")] = None,
    depth: Annotated[list[int] | None, typer.Option(help="Only nodes of this depth; may be given again.")] = None,
    purpose: Annotated[list[str] | None, typer.Option(help="Only trees of this purpose; may be given again.")] = None,
    where: Annotated[
        str | None, typer.Option(help="SQL condition over nodes and their task: \"difficulty = 'hard' and on_path\".")
    ] = None,
    only: Annotated[
        Literal["all", "missing"], typer.Option(help="all matching nodes, or only those without a verdict.")
    ] = "all",
    use: Annotated[Literal["train", "audit"], typer.Option(help="audit: never trained on.")] = "train",
    share: Annotated[float, typer.Option(help="Share of the matching nodes, drawn by --seed.")] = 1.0,
    max_labels: Annotated[int | None, typer.Option(help="Most labels that these options may ever add.")] = None,
    prices: Annotated[Path | None, typer.Option(help="Price file; what a vote cost is written down with it.")] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Stop before these options have spent more, in the currency of --prices.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw and of the votes.")] = 0,
    again: Annotated[
        Literal["none", "invalid"], typer.Option(help="invalid: ask again where a vote was invalid.")
    ] = "none",
    shard: Annotated[str, typer.Option(help="Work on part i of n, for example 0/2; the parts join one plan.")] = "0/1",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be asked; ask and write nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Add labels to the nodes of sealed epochs: votes of a judge, or the program's verdict computed again.

    Keys are read from SERA_JUDGE_KEY or OPENAI_API_KEY. Stopped at any moment, the same command continues; stopped by
    --max-cost (exit code 3) it goes on under a higher one. A higher --max-labels adds the nodes that are then chosen.

    Example: sera label runs/store --judge openai:qwen3-32b@http://localhost:8000/v1 --votes 3 --temperature 0.7
    """
    import sera_data
    from collect.collect_cli import parse_shard
    from collect.interruption import Interruption
    from collect.label_job import open_elsewhere, run_labels
    from collect.limits import raise_when_stopped, read_limits

    limits = read_limits(prices, max_cost=max_cost)
    started = time.monotonic()
    config = _config(
        labeller=_spec(judge, labeller),
        votes=votes,
        temperature=temperature,
        max_tokens=max_tokens,
        retries=retries,
        concurrency=concurrency,
        timeout_s=timeout,
        body=_fields(body),
        key_variable=key_variable,
        epochs=epoch or None,
        depths=depth or None,
        purposes=purpose or None,
        where=where,
        only=only,
        use=use,
        share=share,
        max_labels=max_labels,
        seed=seed,
        again=again,
    )
    part = parse_shard(shard)
    opened = sera_data.open(store)
    chosen = _labeller(config, judge=judge)
    if dry_run:
        print_facts(_plan(opened, config, chosen), as_json=as_json)
        return
    interruption = Interruption()
    with interruption.active():
        summary = run_labels(opened, config, chosen, part=part, interruption=interruption, limits=limits)
    report = {
        "run_id": summary.run_id,
        "plans": summary.plans,
        "sealed": summary.sealed,
        "open_elsewhere": open_elsewhere(opened, config),
        "labels": sum(summary.labels.values()),
        **{name: summary.labels[name] for name in ("success", "failure", "invalid")},
        "reasons": dict(summary.reasons.most_common(5)),
        "prompt_tokens": summary.prompt_tokens,
        "completion_tokens": summary.completion_tokens,
        "cost": summary.cost,
        "stopped": summary.stopped,
        "seconds": round(time.monotonic() - started, 3),
    }
    print_facts(report, as_json=as_json)
    raise_when_stopped(summary.stopped)


def _spec(judge: str | None, labeller: str | None) -> str:
    from sera_data.errors import UsageError

    if (judge is None) == (labeller is None):
        msg = "name who labels: either --judge SPEC or --labeller NAME"
        raise UsageError(msg, hint="for example --judge openai:qwen3-32b@http://localhost:8000/v1")
    return judge or labeller or ""


def _fields(text: str) -> dict[str, Any]:
    from sera_data.errors import UsageError

    try:
        fields = json.loads(text)
    except ValueError as error:
        msg = f"--body is not JSON: {error}"
        raise UsageError(msg) from None
    if not isinstance(fields, dict):
        msg = f"--body must be a JSON object, got {text[:40]}"
        raise UsageError(msg, hint='for example --body \'{"reasoning_effort": "none"}\'')
    return fields


def _config(**values: Any) -> LabelConfig:
    from collect.label_config import LabelConfig
    from sera_data.config import load_config

    return load_config(LabelConfig, None, [f"{name}={json.dumps(value)}" for name, value in values.items()])


def _labeller(config: LabelConfig, *, judge: str | None) -> Labeller:
    from collect.labels import open_judge, open_labeller
    from sera_data.errors import UsageError

    chosen = (open_judge if judge is not None else open_labeller)(config.labeller, settings=config.settings())
    if chosen.kind == "program" and config.votes > 1:
        msg = f"a program gives one vote, got --votes {config.votes}"
        raise UsageError(msg)
    return chosen


def _plan(store: Store, config: LabelConfig, labeller: Labeller) -> dict[str, Any]:
    """What the command would do, as plain JSON values; the prompt's size is measured on the first unit."""
    from collect.addition import own_additions
    from collect.label_job import open_elsewhere
    from collect.label_selection import select

    selection = select(store, config, labeller)
    body: dict[str, Any] = {
        "labeller": config.labeller,
        "continues": [plan.name for plan in own_additions(store, config, "open")],
        "open_elsewhere": open_elsewhere(store, config),
        "matching_nodes": selection.matching,
        "chosen_nodes": selection.chosen,
        "nodes": selection.nodes,
        "votes": selection.votes,
        "votes_by_epoch": {
            str(epoch): sum(count for unit in units for _, _, count in unit["votes"])
            for epoch, units in selection.units.items()
        },
    }
    first = next((unit for units in selection.units.values() for unit in units), None)
    if labeller.kind == "judge" and first is not None:
        chars = _prompt_chars(store, config, [node for node, _, _ in first["votes"]])
        body["prompt_tokens_about"] = int(selection.votes * chars / CHARS_PER_TOKEN)
    return body


def _prompt_chars(store: Store, config: LabelConfig, nodes: list[str]) -> float:
    """Mean characters of these nodes' prompts."""
    from collect.judge_prompts import judge_messages
    from collect.label_subjects import load_subjects
    from collect.subject import case_of

    con = store.connect()
    try:
        subjects = load_subjects(con, nodes).values()
    finally:
        con.close()
    prompts = [judge_messages(case_of(s), trajectory_chars=config.trajectory_chars) for s in subjects]
    return sum(len(message.content) for prompt in prompts for message in prompt) / len(prompts)
