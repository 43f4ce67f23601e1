"""A policy directory made of a GGUF file: weights dequantised to safetensors, tokenizer and chat template beside them.

Invariant: the directory appears in one rename with its `policy.json`, or not at all; what is written loads in every
engine without the GGUF file and without its libraries. Quantised weights stay what they are: dequantising adds nothing.

Run: ``sera policy import model.Q4_1.gguf --out policies/smollm2 --name smollm2``; needs the extra `gguf`.
"""

from __future__ import annotations

import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from collect.model_files import loading_faults
from collect.policy_directory import PolicyDirectory, Style, read_policy_directory, write_policy_json
from sera_data.errors import UsageError

NEEDED = ("gguf", "accelerate")


def import_gguf(source: Path, *, out: Path, name: str, style: Style) -> PolicyDirectory:
    """Convert the GGUF file `source` (or the only one of a folder) to a policy directory of version 0 at `out`."""
    file = find_gguf(source)
    if out.exists():
        msg = f"{out} exists already"
        raise UsageError(msg, hint="name a new directory")
    for module in NEEDED:
        if find_spec(module) is None:
            msg = f"No module named {module!r}"
            raise ModuleNotFoundError(msg, name=module)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as aside:
        made = Path(aside) / out.name
        made.mkdir()
        with loading_faults(file):
            _save(file, made)
        write_policy_json(made, name=name, version=0, style=style)
        shutil.move(made, out)
    return read_policy_directory(out, verify=False)


def find_gguf(source: Path) -> Path:
    """The GGUF file that is meant; UsageError when there is none, or more than one."""
    if source.is_file() and source.suffix == ".gguf":
        return source
    found = sorted(source.glob("*.gguf")) if source.is_dir() else []
    if len(found) == 1:
        return found[0]
    shown = f"{len(found)} GGUF files in {source}" if source.is_dir() else f"no GGUF file at {source}"
    msg = f"{shown}; one is wanted"
    raise UsageError(msg, hint="name the .gguf file; a model in Hugging Face form: sera policy make DIR --name NAME")


def _save(file: Path, made: Path) -> None:
    """Read the GGUF file and write the model in float32, its tokenizer and its chat template."""
    import torch

    from collect.thin_transformers import transformers

    transformers.utils.logging.disable_progress_bar()
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    if not tokenizer.chat_template:
        msg = f"{file} carries no chat template, so no agent can talk with it"
        raise UsageError(msg, hint="take the GGUF of an instruction-tuned model")
    causal: Any = transformers.AutoModelForCausalLM
    quantised = causal.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    plain = {key: value for key, value in quantised.config.to_dict().items() if key != "quantization_config"}
    config = type(quantised.config).from_dict({**plain, "dtype": "float32"})
    model = causal.from_config(config, dtype=torch.float32)  # the read one refuses to be saved
    model.load_state_dict(quantised.state_dict())
    model.save_pretrained(made, safe_serialization=True)
    tokenizer.save_pretrained(made)
