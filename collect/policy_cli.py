"""`sera policy`: look into a policy directory.

Invariant: only reads; a directory that differs from its `policy.json` is an error that names the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.callback()
def policy() -> None:
    """Inspect policy directories."""


@app.command()
def show(
    directory: Annotated[Path, typer.Argument(help="Policy directory, with its policy.json.")],
    *,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Hash every file.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show identity and hashes of a policy, and whether its files are what policy.json says.

    Example: sera policy show runs/demo/policies/v8
    """
    from collect.policy_directory import read_policy_directory

    found = read_policy_directory(directory, verify=verify)
    body = {
        "path": str(found.path),
        "name": found.name,
        "version": found.version,
        "style": found.style,
        "run_id": found.run_id,
        "parent": found.parent,
        "sha256": found.sha256,
        "weights_sha256": found.weights_sha256,
        "tokenizer_sha256": found.tokenizer_sha256,
        "template_sha256": found.template_sha256,
        "verified": found.verified,
        "files": dict(found.files),
    }
    if as_json:
        typer.echo(json.dumps(body))
        return
    for key, value in body.items():
        if isinstance(value, dict):
            for name, digest in value.items():
                typer.echo(f"  {name:<24}{digest}")
        else:
            typer.echo(f"{key:<18}{'-' if value is None else value}")
