"""Import of Inspect logs: `.eval` (a zip of JSON) and the older one-file `.json`.

Invariant: a sample's messages are kept in order, attachments resolved; its score becomes a verdict by Inspect's own
letters (C 1, P 0.5, I and N 0). A sample that ended in an error is an infrastructure error and never a failure.

Run: ``sera data import STORE logs/run.eval --from inspect``.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sera_data.episode import Episode, fault, first_user, optional_object, require_list, require_object, shown, steps_of
from sera_data.import_text import json_document, json_value, messages_of, number_of

if TYPE_CHECKING:
    from schemas.words import Outcome
    from sera_data.losses import Losses

LOST = (
    "token ids (Inspect stores text)",
    "events, spans, stores, model usage and metadata of samples",
    "sampling parameters of single calls",
)
LETTERS: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
LIMITS: Mapping[str, Outcome] = {
    "time": "timeout",
    "working": "timeout",
    "message": "not_finished",
    "token": "truncated",
    "context": "truncated",
}
SCHEMES = ("attachment://", "tc://")


def read_inspect(path: Path, losses: Losses) -> Iterator[Episode]:
    """Episodes of a log; ImportFault names the member of a fault."""
    for place, sample, spec in _samples(path):
        yield _episode(require_object(sample, place, "a sample"), spec, place, losses)


def _samples(path: Path) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Place, sample and eval spec per sample, in the order of their names."""
    if not zipfile.is_zipfile(path):
        log = require_object(json_document(path), str(path), "a log")
        samples = require_list(log.get("samples"), str(path), "samples")
        yield from ((f"{path}:samples[{n}]", sample, _spec(log)) for n, sample in enumerate(samples))
        return
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        header = next((n for n in ("header.json", "_journal/start.json", "start.json") if n in names), None)
        if header is None:
            fault(str(path), "the archive has no header.json and no _journal/start.json", hint="is it an Inspect log?")
        spec = _spec(require_object(_member(archive, path, header), f"{path}!{header}", "the header"))
        for name in sorted(n for n in names if n.startswith("samples/") and n.endswith(".json")):
            yield f"{path}!{name}", _member(archive, path, name), spec


def _member(archive: zipfile.ZipFile, path: Path, name: str) -> Any:
    try:
        return json_value(archive.read(name), f"{path}!{name}")
    except NotImplementedError:
        fault(f"{path}!{name}", "is compressed in a way that Python cannot read", hint="inspect log convert --to json")
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        fault(f"{path}!{name}", f"is damaged: {error}")


def _spec(header: dict[str, Any]) -> dict[str, Any]:
    spec = header.get("eval")
    return spec if isinstance(spec, dict) else {}


def _episode(sample: dict[str, Any], spec: dict[str, Any], place: str, losses: Losses) -> Episode:
    attachments = optional_object(sample.get("attachments"), place, "attachments")
    messages = messages_of(_resolved(sample.get("messages"), attachments), place, losses)
    steps, after = steps_of(messages)
    if not steps:
        fault(place, "the sample has no assistant message")
    task = str(spec.get("task") or "inspect")
    checker, score = _score(sample.get("scores"), place, losses)
    limit = (sample.get("limit") or {}).get("type") if isinstance(sample.get("limit"), dict) else None
    error = sample.get("error")
    return Episode(
        place=place,
        source_id=f"{sample.get('id')}/{sample.get('epoch')}",
        key=f"{task}/{sample.get('id')}",
        goal=first_user(messages, "(no user message)"),
        steps=steps,
        after=after,
        score=None if error else score,
        checker=checker,
        details=sample.get("scores"),
        outcome="infra_error" if error else LIMITS.get(str(limit), "finished"),
        error=None if error is None else str(error.get("message") if isinstance(error, dict) else error),
        model=None if spec.get("model") is None else str(spec["model"]),
        extra={"task": task, "id": sample.get("id"), "target": sample.get("target")},
    )


def _resolved(value: Any, attachments: Mapping[str, Any]) -> Any:
    """The same value with references to attachments replaced by what they stand for."""
    if isinstance(value, str):
        scheme = next((s for s in SCHEMES if value.startswith(s)), None)
        return value if scheme is None else attachments.get(value.removeprefix(scheme), value)
    if isinstance(value, list):
        return [_resolved(v, attachments) for v in value]
    return {k: _resolved(v, attachments) for k, v in value.items()} if isinstance(value, dict) else value


def _score(scores: Any, place: str, losses: Losses) -> tuple[str, float | None]:
    """The first scorer's name and value; further scorers are counted as lost."""
    found = optional_object(scores, place, "scores")
    if not found:
        return "inspect", None
    losses.add("further scorers of samples (the first one is the verdict; all stand in `details`)", n=len(found) - 1)
    name, score = next(iter(found.items()))
    value = require_object(score, place, f"scores.{name}").get("value")
    if isinstance(value, str):
        try:
            value = LETTERS[value] if value in LETTERS else float(value)
        except ValueError:
            fault(place, f"scores.{name}.value is {shown(value)}; allowed: a number, {', '.join(LETTERS)}")
    if isinstance(value, (int, float)):
        return name, number_of(value, place, f"scores.{name}.value")
    losses.add("scores that are no single number")
    return name, None
