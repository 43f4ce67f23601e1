"""`sera data push` and `sera data pull`: a store to and from the Hugging Face Hub.

Invariant: see `sera_data/hub.py`; a push says which repository, how visible it is and what was left out.

Run: ``sera data push STORE me/my-store``.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sera_data.printing import print_json
from sera_data.store_argument import Json, StorePath, open_path

Repo = Annotated[str, typer.Argument(metavar="REPO", help="Dataset on the Hub, for example me/my-store.")]


class Visibility(StrEnum):
    """Who may read a repository."""

    private = "private"
    public = "public"


def push(
    store: StorePath,
    repo: Repo,
    visibility: Annotated[Visibility, typer.Option(help="Of a repository that is made.")] = Visibility.private,
    revision: Annotated[str, typer.Option(help="Branch to commit to.")] = "main",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be uploaded.")] = False,
    as_json: Json = False,
) -> None:
    """Upload the sealed part of a store with a card, one config per table; the token is HF_TOKEN.

    Example: HF_TOKEN=... sera data push runs/demo/store me/my-store
    """
    from sera_data import hub
    from sera_data.losses import Losses

    losses = Losses()
    done = hub.push(
        open_path(store), repo, losses=losses, visibility=visibility.value, revision=revision, dry_run=dry_run
    )
    if as_json:
        facts = {"repo": repo, "visibility": done.visibility, "commit": done.commit, "files": done.files}
        print_json({**facts, "bytes": done.bytes, "deleted": done.deleted, "left_out": losses.lines()})
        return
    what = "would push" if dry_run else "pushed"
    print(f"{what} {done.files} files, {done.bytes} bytes to the {done.visibility} dataset {repo}")
    if done.commit:
        print(f"  commit {done.commit}")
    for path in done.deleted:
        print(f"  removed there: {path}")
    for line in losses.lines():
        print(f"  left out: {line}")


def pull(
    repo: Repo,
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Directory to make.")],
    revision: Annotated[str, typer.Option(help="Branch, tag or commit.")] = "main",
    as_json: Json = False,
) -> None:
    """Download a store that was pushed and check every file's hash; a private one needs HF_TOKEN.

    Example: sera data pull me/my-store runs/theirs
    """
    from sera_data import hub
    from sera_data.errors import UsageError
    from sera_data.place import in_objects, place

    if in_objects(place(store)):
        msg = f"pull makes a directory on disk, got {place(store)}"
        raise UsageError(msg, hint="pull to a directory, then copy it into the bucket: aws s3 sync")
    done = hub.pull(repo, store, revision=revision)
    names = done.sealed_names()
    if as_json:
        print_json({"repo": repo, "store": str(store), "sealed": names})
        return
    print(f"pulled {repo} to {store}: {', '.join(names)}, every file has its recorded hash")
