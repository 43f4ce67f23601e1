"""A policy on disk: weights, tokenizer, template and vocabulary mask, sealed by `policy.json`.

Invariant: `policy.json` is written last and in one rename and names the sha256 of every other file, so that a
directory either is whole or is refused, and what a `runs` row records is what the engine loaded.

Run: ``sera policy show DIR``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collect.policy import Identity
from sera_data.canonical import sha256_file, sha256_json
from sera_data.errors import SeraError

FILE = "policy.json"
FORMAT = 1
MASK = "vocab_mask.json"
TEMPLATE = "chat_template.jinja"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
READ_BY_ENGINES = (".json", ".jinja", ".safetensors")
Style = Literal["terse", "full"]


class PolicyDirectoryError(SeraError):
    """A policy directory that is incomplete, changed since it was written, or of another format."""


class PolicyJson(BaseModel):
    """The content of `policy.json`. parent: sha256 of the parent's policy.json; files: sha256 by file name."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    format: int
    name: str
    version: int = Field(ge=0, lt=2**31)
    parent: str | None
    run_id: str | None
    style: Style
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class PolicyDirectory:
    """A policy directory as read. `sha256` is the hash of its policy.json, `verified` whether all files were hashed."""

    path: Path
    name: str
    version: int
    parent: str | None
    run_id: str | None
    style: Style
    files: Mapping[str, str]
    sha256: str
    verified: bool

    @property
    def weights_sha256(self) -> str:
        """One hash of all weight files and the vocabulary mask, which is part of the policy."""
        return sha256_json({n: h for n, h in self.files.items() if n.endswith(".safetensors") or n == MASK})

    @property
    def tokenizer_sha256(self) -> str | None:
        """One hash of the tokenizer files; None when there are none."""
        found = {name: self.files[name] for name in TOKENIZER if name in self.files}
        return sha256_json(found) if found else None

    @property
    def template_sha256(self) -> str | None:
        """Hash of the chat template; None when there is none."""
        return self.files.get(TEMPLATE)

    def identity(self, *, engine: str) -> Identity:
        """What `runs.policies` stores of this policy."""
        return Identity(
            name=self.name,
            engine=engine,
            version=self.version,
            weights_sha256=self.weights_sha256,
            tokenizer_sha256=self.tokenizer_sha256,
            template_sha256=self.template_sha256,
        )


def is_policy_directory(path: Path) -> bool:
    """True when there is a `policy.json` to read."""
    return (path / FILE).is_file()


def read_policy_directory(path: Path | str, *, verify: bool = True) -> PolicyDirectory:
    """Read `policy.json` and, unless told otherwise, hash every file; raises PolicyDirectoryError naming the file."""
    path = Path(path)
    if not path.is_dir():
        msg = f"no policy directory at {path}"
        raise PolicyDirectoryError(msg, hint="give a folder with policy.json, or 'pocket', or 'scripted:NAME'")
    body = _read_json(path / FILE)
    _check_names(path, body)
    if verify:
        _check_hashes(path, body.files)
    return PolicyDirectory(
        path=path,
        name=body.name,
        version=body.version,
        parent=body.parent,
        run_id=body.run_id,
        style=body.style,
        files=dict(sorted(body.files.items())),
        sha256=sha256_file(path / FILE),
        verified=verify,
    )


def write_policy_json(
    path: Path | str, *, name: str, version: int, style: Style, parent: str | None = None, run_id: str | None = None
) -> PolicyDirectory:
    """Hash every file of the folder and seal it with `policy.json`, written in one rename."""
    path = Path(path)
    files = {name: sha256_file(path / name) for name in _files(path)}
    body = PolicyJson(format=FORMAT, name=name, version=version, parent=parent, run_id=run_id, style=style, files=files)
    if not any(name.endswith(".safetensors") for name in files):
        msg = f"{path} has no .safetensors file, so it is no policy yet"
        raise PolicyDirectoryError(msg, hint="write the weights before policy.json")
    temporary = path / f".{FILE}.{os.getpid()}"
    with temporary.open("w", encoding="utf-8") as handle:
        handle.write(json.dumps(body.model_dump(), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path / FILE)
    return read_policy_directory(path, verify=False)


def _files(path: Path) -> list[str]:
    return sorted(f.name for f in path.iterdir() if f.is_file() and f.name != FILE and not f.name.startswith("."))


def _read_json(file: Path) -> PolicyJson:
    try:
        raw: Any = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        msg = f"{file} is missing, so {file.parent} is not a complete policy directory"
        raise PolicyDirectoryError(msg, hint="export it again, or name another directory") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        msg = f"cannot read {file}: {' '.join(str(error).split())}"
        raise PolicyDirectoryError(msg, hint="export the policy again") from None
    if isinstance(raw, dict) and raw.get("format") != FORMAT:
        msg = f"{file} has format {raw.get('format')!r}, this release reads format {FORMAT}"
        raise PolicyDirectoryError(msg, hint="install the release that wrote it, or export the policy again")
    try:
        return PolicyJson.model_validate(raw)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"]) or "(root)"
        msg = f"{file}: {key}: {fault['msg']}"
        raise PolicyDirectoryError(msg, hint="export the policy again") from None


def _check_names(path: Path, body: PolicyJson) -> None:
    for name in body.files:
        if Path(name).name != name or name.startswith("."):
            msg = f"{path / FILE} names {name!r}, which is not a plain file name of its folder"
            raise PolicyDirectoryError(msg)
    for name in _files(path):
        if name not in body.files and name.endswith(READ_BY_ENGINES):
            msg = f"{path / name} is not named by {FILE}, but an engine would read it"
            raise PolicyDirectoryError(msg, hint="remove the file, or export the policy again")


def _check_hashes(path: Path, files: Mapping[str, str]) -> None:
    for name, expected in sorted(files.items()):
        try:
            got = sha256_file(path / name)
        except FileNotFoundError:
            msg = f"{path / name} is missing, but {FILE} names it"
            raise PolicyDirectoryError(msg, hint="restore the file, or export the policy again") from None
        if got != expected:
            msg = f"{path / name} differs from {FILE}: its sha256 is {got[:16]}..., expected {expected[:16]}..."
            raise PolicyDirectoryError(msg, hint="restore the file, or export the policy again as a new version")
