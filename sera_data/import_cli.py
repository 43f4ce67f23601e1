"""`sera data import`: episodes that other tools recorded, as an epoch of a store.

Invariant: a file with a fault is refused with its path and line and nothing is written; what is lost is listed; what a
store without token ids can be used for is said.

Run: ``sera data import STORE FILE --from chat``.
"""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sera_data.place import place
from sera_data.printing import print_json
from sera_data.store_argument import Json

if TYPE_CHECKING:
    from sera_data.importing import Imported


class Form(StrEnum):
    """What the files are."""

    chat = "chat"
    verifiers = "verifiers"
    inspect = "inspect"
    trajectory = "trajectory"


class Kind(StrEnum):
    """Who gave the verdicts."""

    program = "program"
    judge = "judge"
    human = "human"


class Logprobs(StrEnum):
    """What the files' log-probabilities are."""

    raw = "raw_logprobs"
    processed = "processed_logprobs"


def import_(
    store: Annotated[
        Path, typer.Argument(parser=place, metavar="STORE", help="Store to add an epoch to; made when there is none.")
    ],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of one form.")],
    form: Annotated[
        Form,
        typer.Option(
            "--from",
            help="chat: JSON lines of messages; verifiers: traces or results; inspect: .eval or .json;"
            " trajectory: ATIF, SWE-agent, mini-swe-agent.",
        ),
    ],
    split: Annotated[str, typer.Option(help="Split that the tasks are of.")] = "train",
    threshold: Annotated[float, typer.Option(help="Lowest score that counts as success.")] = 0.5,
    verdicts: Annotated[Kind, typer.Option(help="Who gave the scores.")] = Kind.program,
    logprobs: Annotated[
        Logprobs,
        typer.Option(help="processed_logprobs only if they are of the untruncated distribution that was sampled from."),
    ] = Logprobs.raw,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check only.")] = False,
    as_json: Json = False,
) -> None:
    """Add other tools' episodes to a store as an epoch of their own, and list what is lost.

    Example: sera data import runs/mine/store chats.jsonl --from chat
    """
    from sera_data.import_rows import ImportOptions
    from sera_data.importing import import_files

    options = ImportOptions(
        form=form.value, split=split, threshold=threshold, label_kind=verdicts.value, logprobs=logprobs.value
    )
    done = import_files(store, files, options, dry_run=dry_run)
    if as_json:
        print_json({"store": str(store), "serves": serves(done), **asdict(done)})
        return
    what = "would import" if dry_run else "was imported before as" if done.already else "imported as"
    print(f"{what} {done.plan or store}: {done.episodes} episodes of {done.tasks} tasks, {done.turns} turns")
    print(f"  token ids in {done.turns_with_ids} turns, trainable: {done.trainable_turns}; verdicts: {done.verdicts}")
    print(f"  serves: {serves(done)}")
    for line in done.lost:
        print(f"  lost: {line}")


def serves(done: Imported) -> str:
    """What the imported rows can be used for."""
    if done.trainable_turns:
        return "audit, SFT exports, and RL from the trainable turns"
    if done.turns_with_ids:
        return "audit and SFT exports (chats and token files); RL not: no log-probabilities declared as processed"
    return "audit and SFT exports (chats) only: sera learn trains token ids, and these turns have none"
