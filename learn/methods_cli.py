"""`sera methods`: the methods, one line each, or one of them in full.

Invariant: reads method files only.

Run: ``sera methods`` or ``sera methods sera:recommended``.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="[METHOD]", help="A name, NAME:recommended, or a .yaml or .sql file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the methods, or show the switches of one and the settings that it needs from `sera collect`.

    Example: sera methods sera:recommended
    """
    body = method_lines() if name is None else method_facts(name)
    if as_json:
        print(json.dumps(body, indent=2))
    elif isinstance(body, list):
        print_methods(body)
    else:
        import yaml

        typer.echo(yaml.safe_dump(body, sort_keys=False, allow_unicode=True), nl=False)


def method_lines() -> list[dict[str, str]]:
    """Name, title, row of the paper and schedule of every method in the package."""
    from learn.method import open_method, shipped

    found = [open_method(name) for name in shipped()]
    return [{"name": m.name, "title": m.title, "paper": m.paper, "schedule": str(m.schedule)} for m in found]


def print_methods(lines: list[dict[str, str]]) -> None:
    """The list, one line each."""
    width = max(len(line["name"]) for line in lines)
    for line in lines:
        row = f" [{line['paper']}]" if line["paper"] else ""
        typer.echo(f"{line['name']:<{width}}  {line['title']}{row}, {line['schedule']}")
    typer.echo("each also with :recommended; 'sera methods NAME' shows its switches; [..] is its row in the paper")


def method_facts(name: str) -> dict[str, Any]:
    """Everything that makes one method, as plain JSON values."""
    from learn.collect_needs import flags
    from learn.method import open_method

    method = open_method(name)
    return {
        "name": method.name,
        "title": method.title,
        "paper": method.paper,
        "schedule": str(method.schedule),
        "control": method.control,
        "stages": [
            {"stages": list(rule.stages), "credit": str(rule.path), "params": _used(rule)} for rule in method.rules
        ],
        "depth_weights": method.depth_weights.resolved(),
        "loss": dict(method.loss),
        "collect": flags(method.needs),
    }


def _used(rule: Any) -> dict[str, Any]:
    names = rule.param_names()
    return {key: value for key, value in rule.params if key in names}
