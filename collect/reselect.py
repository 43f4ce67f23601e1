"""Selecting again: the choices that another rule or another scorer would have made among stored candidates.

Invariant: no step of a world is taken. A choice is compared with the stored one by the same rule that a running tree
uses (`collect.selection.choose`), with the same seeds; what would have happened after another choice is not claimed:
the root's success counts only for trees in which every choice on the path stays as it was.

Run: ``sera eval reselect runs/store --select random``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from typing import Any

from collect.config import CollectConfig
from collect.seeds import Seeds
from collect.selection import SEED_ROLE, choose
from schemas.words import Selector
from sera_data.config import checked
from sera_data.errors import UsageError
from sera_data.store import Store

STORED = "stored"


@dataclass(frozen=True, slots=True)
class Reselected:
    """One delegation chosen again. success: the program's verdict on the candidate, or None."""

    delegation_id: str
    tree_id: str
    depth: int
    on_path: bool
    stored: int
    stored_by: str
    chosen: int
    reason: str
    stored_success: float | None
    chosen_success: float | None
    mean_success: float | None
    best_success: float | None

    @property
    def agrees(self) -> bool:
        """Whether the choice is the stored one."""
        return self.stored == self.chosen


def query(name: str) -> str:
    """Text of a query of this module's family."""
    return files("collect").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def stored_candidates(store: Store, *, run: str | None) -> list[dict[str, Any]]:
    """Rows of the candidates of all complete delegations; UsageError when there is none."""
    rows: list[dict[str, Any]] = store.sql(query("reselect_candidates"), {"run": run}).pl().to_dicts()
    if not rows:
        msg = f"store {store.path} holds no complete delegation with several candidates of run {run or 'any'}"
        raise UsageError(msg, hint="sera eval run --select rubric --n 2 --store STORE makes some")
    return rows


def played_with(store: Store) -> dict[str, CollectConfig]:
    """The collect phase of every run, as it was stored."""
    found = {}
    for row in store.sql(query("reselect_runs")).pl().to_dicts():
        body = json.loads(row["config"])
        found[row["run_id"]] = checked(CollectConfig, body.get("collect", body))
    return found


def reselect(
    rows: Sequence[Mapping[str, Any]],
    *,
    selector: Selector,
    seeds: Mapping[str, int],
    scores: Mapping[str, float] | None = None,
) -> list[Reselected]:
    """Choose again in every delegation.

    seeds: run seed by run id. scores: score by node of another scorer, None = those that are stored.
    """
    found = []
    for _, group in groupby(rows, key=lambda row: row["delegation_id"]):
        found.append(_again(list(group), selector, seeds, scores))
    return found


def _again(
    group: Sequence[Mapping[str, Any]],
    selector: Selector,
    seeds: Mapping[str, int],
    scores: Mapping[str, float] | None,
) -> Reselected:
    first = group[0]
    names = Seeds(
        run_seed=seeds[first["run_id"]],
        policy_version=first["policy_version"],
        task_id=first["task_id"],
        sample=first["sample"],
        tree_id=first["tree_id"],
    )
    if selector == "judge":
        values = [row["judged"] for row in group]
    else:
        values = [row["score"] if scores is None else scores.get(row["node_id"]) for row in group]
    choice = choose(selector, values, seed=names.of(first["delegation_id"], role=SEED_ROLE))
    stored = next(place for place, row in enumerate(group) if row["committed"])
    known = [row["success"] for row in group if row["success"] is not None]
    whole = len(known) == len(group)
    return Reselected(
        delegation_id=first["delegation_id"],
        tree_id=first["tree_id"],
        depth=first["depth"],
        on_path=first["on_path"],
        stored=stored,
        stored_by=first["selected_by"],
        chosen=choice.branch,
        reason=choice.reason,
        stored_success=group[stored]["success"],
        chosen_success=group[choice.branch]["success"],
        mean_success=sum(known) / len(known) if whole else None,
        best_success=max(known) if whole else None,
    )


def summary(found: Sequence[Reselected], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Agreement, and what is known of the success of the chosen candidates and of the trees, as plain JSON values."""
    roots = {row["tree_id"]: row["tree_success"] for row in rows}
    changed = {each.tree_id for each in found if each.on_path and not each.agrees}
    kept = [roots[tree] for tree in sorted(roots) if tree not in changed]
    labelled = [each for each in found if each.mean_success is not None]
    return {
        "delegations": len(found),
        "agree": sum(each.agrees for each in found),
        "agreement": sum(each.agrees for each in found) / len(found),
        "fallbacks": sum("so branch 0" in each.reason for each in found),
        "labelled": len(labelled),
        "chosen_success": _mean(each.chosen_success for each in labelled),
        "stored_success": _mean(each.stored_success for each in labelled),
        "mean_candidate_success": _mean(each.mean_success for each in labelled),
        "best_candidate_success": _mean(each.best_success for each in labelled),
        "trees": len(roots),
        "trees_unchanged": len(kept),
        "root_success_unchanged": _mean(value for value in kept if value is not None),
    }


def _mean(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
