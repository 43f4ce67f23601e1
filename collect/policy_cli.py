"""`sera policy`: look into a policy directory, or make one of a downloaded model.

Invariant: a directory that differs from its `policy.json` is an error that names the file; `make` writes that file
and nothing else; `import` writes a new directory.
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
        from collect.model_argument import pocket_directory

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


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="GGUF file of an instruction-tuned model, or the folder with it.")],
    *,
    out: Annotated[Path, typer.Option(help="Policy directory to make.")],
    name: Annotated[str, typer.Option(help="Name of the policy, as it will stand in the store.")],
    style: Annotated[
        Literal["full", "terse"], typer.Option(help="Prompt style: full for instruction models, terse for the pocket.")
    ] = "full",
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Make a policy of version 0 from a GGUF file: weights dequantised to float32, tokenizer and chat template.

    Example: sera policy import models/SmolLM2-135M-Instruct.Q4_1.gguf --out policies/smollm2 --name smollm2
    """
    from collect.gguf_policy import import_gguf

    _print(import_gguf(source, out=out, name=name, style=style), as_json=as_json)


@app.command()
def check(
    directory: Annotated[str, typer.Argument(help="Policy directory; or pocket, pocket:WORLD.")],
    *,
    engine: Annotated[
        Literal["vllm", "transformers", "vllm-server"], typer.Option(help="What serves the policy in the job to come.")
    ] = "vllm",
    url: Annotated[list[str] | None, typer.Option(help="Server of engine vllm-server; may be repeated.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Collect config whose trees are played; short TextCraft trees without one.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override of its settings, a.b=value; may be repeated.")
    ] = None,
    trees: Annotated[int, typer.Option(min=1, max=10_000, help="Trees to play.")] = 16,
    dtype: Annotated[
        Literal["float32", "bfloat16"], typer.Option(help="Of the trainer's forward pass: that of the learner to come.")
    ] = "float32",
    device: Annotated[str, typer.Option(help="Of the trainer's forward pass: cpu or cuda.")] = "cpu",
    bound: Annotated[float, typer.Option(min=0, help="Largest mean difference of a log-probability, in nats.")] = 0.05,
    clip_bound: Annotated[float, typer.Option(min=0, help="Largest share of ratios outside [0, 5].")] = 0.001,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Compare an engine's log-probabilities with the trainer's forward pass, before a long job.

    Plays trees, computes the sampled tokens again with the learner's network and says how far the two are apart and
    what that does to the importance ratio. Exit code 3 above a bound.

    Example: sera policy check runs/demo/policies/v8 --engine vllm
    """
    from collect.model_argument import split_argument
    from collect.policies import open_policy, style_of
    from collect.policy_check import check as compare
    from collect.policy_check import read_config
    from sera_data.errors import GateFailed, UsageError

    if (engine == "vllm-server") != bool(url):
        msg = "--url and --engine vllm-server go together"
        raise UsageError(msg, hint="for example --engine vllm-server --url http://localhost:8000")
    settings = read_config(config, overrides or [])
    path, _ = split_argument(directory)
    spec = f"{engine}:{path}" + (f"@{','.join(url)}" if url else "")
    style = style_of(spec) if settings.style == "auto" else settings.style
    policy = open_policy(spec, options=settings.policy.options)
    report = compare(policy, path, config=settings, style=style, trees=trees, dtype=dtype, device=device)
    holds = report.mismatch_mean <= bound and report.clip_share <= clip_bound
    body = {**report.as_dict(), "engine": engine, "bound": bound, "clip_bound": clip_bound, "holds": holds}
    if as_json:
        typer.echo(json.dumps(body))
    else:
        for key, value in body.items():
            typer.echo(f"{key:<16}{value:.6g}" if isinstance(value, float) else f"{key:<16}{value}")
    if not holds:
        msg = (
            f"engine and trainer disagree: mean difference {report.mismatch_mean:.3g}, clipped {report.clip_share:.2%}"
        )
        raise GateFailed(msg, hint=f"bounds: --bound {bound:g} --clip-bound {clip_bound:g}; see docs/engines.md")


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
