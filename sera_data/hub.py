"""Stores on the Hugging Face Hub: one commit up, one verified download back.

Invariant: a repository is private unless the person says otherwise, and a public one is never filled by accident; a
push is one commit, so a reader sees the old store or the new one; a pull appears at its place only after every file has
its recorded hash. The token comes from HF_TOKEN and is handed to the client only: never stored, never printed.

Run: ``sera data push STORE me/my-store`` and ``sera data pull me/my-store STORE``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sera_data.dataset_folder import CARD, UNSEALED, card, published_files
from sera_data.errors import SeraError, StoreError, UsageError
from sera_data.export_files import new_target
from sera_data.layout import shard_plan

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from sera_data.losses import Losses
    from sera_data.store import Store

Visibility = Literal["private", "public"]
TOKEN = "HF_TOKEN"
ENDPOINT = "HF_ENDPOINT"
KIND = "dataset"
PATTERNS = ["store.json", "plans/*.json", "epochs/*", "snapshots/*.json", CARD]


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did. commit: id of the commit, None for a dry run; deleted: files that the store no longer has."""

    repo: str
    visibility: Visibility
    commit: str | None
    files: int
    bytes: int
    deleted: list[str]


def push(
    store: Store,
    repo: str,
    *,
    losses: Losses,
    visibility: Visibility = "private",
    revision: str = "main",
    dry_run: bool,
) -> Pushed:
    """Upload a store's sealed part and its card as one commit of a dataset repository."""
    files = published_files(store)
    if not store.sealed_names():
        msg = f"store {store.path} has no sealed epoch to publish"
        raise StoreError(msg, hint=f"sera data seal {store.path}")
    losses.add(UNSEALED, n=sum(shard_plan(shard) not in store.sealed_names() for shard in store.shard_ids()))
    size = sum((store.path / file).stat().st_size for file in files)
    if dry_run:
        return Pushed(repo, visibility, None, len(files) + 1, size, [])
    api = _api(needed_for=f"push to {repo}")
    with _hub_faults(repo):
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        found = _make_repo(api, repo, visibility)
        stale = sorted(path for path in _remote_files(api, repo, revision) if _is_ours(path) and path not in files)
        operations: list[Any] = [CommitOperationAdd(file, str(store.path / file)) for file in files]
        operations.append(CommitOperationAdd(CARD, card(store, repo=repo).encode()))
        operations += [CommitOperationDelete(path) for path in stale]
        done = api.create_commit(
            repo,
            operations,
            commit_message=f"sera data push: {len(store.sealed_names())} sealed directories",
            repo_type=KIND,
            revision=revision,
        )
    return Pushed(repo, found, str(done.oid), len(files) + 1, size, stale)


def pull(repo: str, target: Path, *, revision: str = "main") -> Store:
    """Download a store, check every file's hash, and publish it at `target`, which must not exist."""
    from sera_data.store import open_store
    from sera_data.verification import verify

    with new_target(target) as part:
        with _hub_faults(repo):
            from huggingface_hub import snapshot_download

            snapshot_download(
                repo,
                repo_type=KIND,
                revision=revision,
                local_dir=part,
                allow_patterns=PATTERNS,
                endpoint=os.environ.get(ENDPOINT),
                token=os.environ.get(TOKEN) or False,
            )
        shutil.rmtree(part / ".cache", ignore_errors=True)
        if not (part / "store.json").is_file():
            msg = f"dataset {repo} at revision {revision} is not a store (it has no store.json)"
            raise StoreError(msg, hint=f'datasets.load_dataset("{repo}") reads other datasets')
        for directory in ("epochs", "plans", "shards", "snapshots"):
            (part / directory).mkdir(exist_ok=True)
        verify(open_store(part), on_problem="raise")
    return open_store(target)


def _api(*, needed_for: str) -> HfApi:
    from huggingface_hub import HfApi

    token = os.environ.get(TOKEN)
    if not token:
        msg = f"{TOKEN} is not set; it is needed to {needed_for}"
        raise UsageError(msg, hint="make a token with write access at huggingface.co/settings/tokens and export it")
    return HfApi(endpoint=os.environ.get(ENDPOINT), token=token)


def _make_repo(api: HfApi, repo: str, visibility: Visibility) -> Visibility:
    """Make the repository when there is none; refuse one that more people can read than was asked for."""
    api.create_repo(repo, repo_type=KIND, private=visibility == "private", exist_ok=True)
    found: Visibility = "private" if api.repo_info(repo, repo_type=KIND).private else "public"
    if found == "public" and visibility == "private":
        msg = f"dataset {repo} exists and is public"
        raise UsageError(msg, hint="push with --visibility public if everybody may read it, or name another repository")
    return found


def _remote_files(api: HfApi, repo: str, revision: str) -> list[str]:
    from huggingface_hub.errors import RevisionNotFoundError

    try:
        return api.list_repo_files(repo, repo_type=KIND, revision=revision)
    except RevisionNotFoundError:
        return []


def _is_ours(path: str) -> bool:
    return path.startswith(("epochs/", "plans/", "snapshots/"))


@contextmanager
def _hub_faults(repo: str) -> Iterator[None]:
    """Faults of the Hub and of the way to it in one line that says what to do."""
    import httpx2

    try:
        yield
    except (
        RuntimeError,
        ValueError,
        OSError,
        httpx2.HTTPError,
    ) as error:  # the client wraps what happened in threads of its own
        known = _known(error, repo) or (_known(error.__cause__, repo) if error.__cause__ else None)
        if known is None:
            raise
        raise known from None


def _known(error: BaseException, repo: str) -> SeraError | None:
    """What a fault of the client means to the person who asked; None for any other."""
    import httpx2
    from huggingface_hub import errors

    if isinstance(error, errors.HFValidationError):
        return UsageError(f"{repo!r} is no name of a dataset: {_line(error)}", hint="for example me/my-store")
    if isinstance(error, errors.OfflineModeIsEnabled):
        return UsageError("HF_HUB_OFFLINE forbids to reach the Hub", hint="unset HF_HUB_OFFLINE")
    if isinstance(error, errors.RepositoryNotFoundError):
        hint = f"check the name, and that {TOKEN} has access to it"
        return StoreError(f"there is no dataset {repo} that this token may read", hint=hint)
    if isinstance(error, errors.RevisionNotFoundError):
        return StoreError(f"dataset {repo} has no such revision", hint="name a branch, tag or commit of the dataset")
    if isinstance(error, errors.HfHubHTTPError):
        status = getattr(error.response, "status_code", None)
        hint = f"check that {TOKEN} is valid and may write" if status in (401, 403) else "try the same command again"
        return StoreError(f"the Hub answered {status}: {_line(error)}", hint=hint)
    if isinstance(error, (httpx2.TransportError, errors.LocalEntryNotFoundError)):
        hint = "check the network and HF_ENDPOINT, then try the same command again"
        return StoreError(f"the Hub cannot be reached: {_line(error)}", hint=hint)
    return None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
