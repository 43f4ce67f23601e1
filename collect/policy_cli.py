"""`sera policy`: look into a policy directory, or make one of a downloaded model.

Invariant: a directory that differs from its `policy.json` is an error that names the file; `make` writes that file
and nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from collect.policy_directory import PolicyDirectory

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.callback()
def policy() -> None:
    """Inspect policy directories, or make one.

    Example: sera policy make models/Qwen3-4B-Instruct-2507 --name qwen3-4b
    """


@app.command()
def show(
    directory: Annotated[str, typer.Argument(help="Policy directory, with its policy.json; or pocket, pocket:WORLD.")],
    *,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Hash every file.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show identity and hashes of a policy, and whether its files are what policy.json says.

    Example: sera policy show runs/demo/policies/v8
    """
    from collect.policy_directory import read_policy_directory

    engine, _, world = directory.partition(":")
    path = Path(directory)
    if engine == "pocket" and not path.is_dir():
        from collect.transformers_policy import pocket_directory

        path = pocket_directory(world)
    _print(read_policy_directory(path, verify=verify), as_json=as_json)


@app.command()
def make(
    directory: Annotated[
        Path, typer.Argument(help="Model in Hugging Face form: config, safetensors, tokenizer and chat template.")
    ],
    *,
    name: Annotated[str, typer.Option(help="Name of the policy, as it will stand in the store.")],
    style: Annotated[
        Literal["full", "terse"], typer.Option(help="Prompt style: full for instruction models, terse for the pocket.")
    ] = "full",
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Make a downloaded model a policy of version 0: hash its files into policy.json, so that it can be trained.

    Example: sera policy make models/Qwen3-4B-Instruct-2507 --name qwen3-4b
    """
    from collect.policy_directory import write_policy_json
    from sera_data.errors import UsageError

    if not directory.is_dir():
        msg = f"no model directory at {directory}"
        raise UsageError(msg, hint="download the model first, for example with huggingface-cli download")
    if (directory / "policy.json").exists():
        msg = f"{directory} is a policy already"
        raise UsageError(msg, hint=f"look at it with: sera policy show {directory}")
    _print(write_policy_json(directory, name=name, version=0, style=style), as_json=as_json)


def _print(found: PolicyDirectory, *, as_json: bool) -> None:
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
