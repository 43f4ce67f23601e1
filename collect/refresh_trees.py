"""One stored delegation judged again: new rubrics for it, and scores of its stored branches under each of them.

Invariant: the writer's prompt is made from what was known before the child started and the scorer's by the code that
made it in the tree, from stored rows; with the same policy style both have the hashes of the tree's own. Every row is
of phase `refresh` and names its run in its ids, so that no other row is touched and nobody takes it for a frozen
rubric. No step of a world is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from collect.config import CollectConfig
from collect.context import TreeContext
from collect.policies import style_of
from collect.policy import Policy
from collect.records import Clock, DelegationRecord, NodeRecord, Row
from collect.refresh_config import RefreshConfig
from collect.replay import introduce, task_of_row
from collect.rescoring import tree_context
from collect.reselect import query
from collect.revival import TreeRows, revive
from collect.rubrics import Edition, score_node, write_rubric
from collect.seeds import Seeds
from collect.together import together
from schemas.rubric import Rubric
from schemas.words import Role
from sera_data.canonical import derive_seed

if TYPE_CHECKING:
    import duckdb

TABLES = ("nodes", "turns", "branches", "rubrics")


@dataclass(slots=True)
class Judged:
    """Rows that a delegation got, in order: turns, rubrics, scores."""

    turns: list[Row] = field(default_factory=list)
    rubrics: list[Row] = field(default_factory=list)
    scores: list[Row] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """Calls that ended in a fault of a policy."""
        return sum(row["finish_reason"] == "error" for row in self.turns)


@dataclass(frozen=True, slots=True)
class StoredTree:
    """A tree as it was stored, ready to be judged: one context for each role, and the scores that are there."""

    tree: Mapping[str, str]
    writing: TreeContext
    scoring: TreeContext
    delegations: Mapping[str, DelegationRecord]
    rubrics: Sequence[Row]
    scored: set[tuple[str, str]]


class Shelf:
    """Loads stored trees from one connection; holds no rows itself."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        *,
        config: RefreshConfig,
        policies: Mapping[Role, Policy],
        phases: Mapping[str, CollectConfig],
    ) -> None:
        self.connection, self.config, self.policies, self.phases = connection, config, policies, phases
        specs: dict[Role, str] = {"writer": config.writer or config.scorer, "scorer": config.scorer}
        self.styles = {role: style_of(spec) for role, spec in specs.items()}

    def trees(self, names: Sequence[str]) -> dict[str, StoredTree]:
        """These trees by id."""
        tables = {name: self._rows(f"refresh_{name}", names) for name in TABLES}
        scorer = self.policies["scorer"].identity
        scored = self._rows("refresh_scored", names, scorer=scorer.name, version=scorer.version)
        tasks = {row["tree_id"]: row for row in self._rows("refresh_tasks", names)}
        found = {}
        for name in names:
            own = {table: [row for row in rows if row["tree_id"] == name] for table, rows in tables.items()}
            taken = {(row["rubric_id"], row["node_id"]) for row in scored if row["tree_id"] == name}
            found[name] = self._tree(name, own, taken, tasks[name])
        return found

    def _tree(self, name: str, rows: Mapping[str, list[Row]], scored: set[tuple[str, str]], task: Row) -> StoredTree:
        phase = self.phases[task["run_id"]]
        body = task_of_row({key: value for key, value in task.items() if key not in ("tree_id", "run_id")})
        root = next(row for row in rows["nodes"] if row["parent_id"] is None)
        contexts = {
            role: _again(tree_context(body, root, phase, self.policies, style), self.config, role)
            for role, style in self.styles.items()
        }
        world = contexts["scorer"].world
        introduce(world, body)
        records = revive(world, TreeRows(name, **rows))
        launches = {d.delegation_id: d for node in records.values() for d in node.delegations}
        own = {"tree_id": name, "task_id": body.task_id}
        return StoredTree(own, contexts["writer"], contexts["scorer"], launches, rows["rubrics"], scored)

    def _rows(self, name: str, trees: Sequence[str], **values: Any) -> list[Row]:
        cursor = self.connection.execute(query(name), {"trees": list(trees), **values})
        columns = [column[0] for column in cursor.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def _again(context: TreeContext, config: RefreshConfig, role: Role) -> TreeContext:
    """The tree's own context with what a refresh decides: attempts, seeds, and rubrics by the policy."""
    settings, version = context.settings, context.policy(role).identity.version
    rubric = replace(settings.rubric, attempts=config.attempts)
    if config.work == "rubrics":
        rubric = replace(rubric, source="policy")
    old = context.seeds
    seeds = Seeds(
        run_seed=derive_seed(old.run_seed, "refresh", config.seed),
        policy_version=version,
        task_id=old.task_id,
        sample=old.sample,
        tree_id=old.tree_id,
    )
    services = replace(context.services, settings=replace(settings, rubric=rubric))
    return replace(context, services=services, seeds=seeds)


async def judge_again(stored: StoredTree, delegation_id: str, config: RefreshConfig) -> Judged:
    """All rows that one delegation gets."""
    launch = stored.delegations[delegation_id]
    if config.work == "rubrics":
        editions = [(Edition(k, config.run_id), _blank(launch)) for k in range(config.k)]
        await together(write_rubric(stored.writing, copy, edition=edition) for edition, copy in editions)
    else:
        editions = [(Edition(row["k"], config.run_id), _under(launch, row)) for row in _chosen(stored, launch, config)]
    nodes = [
        (edition, replace(node, delegation=copy, turns=list(node.turns), score_rows=[], score_transcripts=[]))
        for edition, copy in editions
        for node in launch.branches
        if copy.rubric is not None and (copy.rubric_id, node.node_id) not in stored.scored
    ]
    await together(score_node(stored.scoring, node, edition=edition) for edition, node in nodes)
    return _collected(stored, config.run_id, [copy for _, copy in editions], [node for _, node in nodes])


def _blank(launch: DelegationRecord) -> DelegationRecord:
    """The delegation as its writer meets it, with rows and a clock of its own, so that no order decides anything."""
    parent = replace(launch.parent, turns=[], clock=Clock(launch.parent.order_end))
    return replace(
        launch, parent=parent, rubric=None, rubric_id=None, rubric_stamp=0, rubric_rows=[], rubric_transcripts=[]
    )


def _under(launch: DelegationRecord, row: Row) -> DelegationRecord:
    """The delegation under a stored rubric."""
    body = {key: row[key] for key in ("success_gate", "failure_conditions", "procedure")}
    rubric = Rubric.model_validate({**body, "items": [dict(item) for item in row["items"]]})
    return replace(launch, rubric=rubric, rubric_id=row["rubric_id"], rubric_stamp=row["order_stamp"], rubric_rows=[])


def _chosen(stored: StoredTree, launch: DelegationRecord, config: RefreshConfig) -> list[Row]:
    """Stored rubrics to be applied: the first valid one of every k."""
    rows = [row for row in stored.rubrics if row["valid"] and row["delegation_id"] == launch.delegation_id]
    if config.rubrics_of is None:
        rows = [row for row in rows if row["phase"] == "collect" and row["k"] == 0]
    else:
        rows = [row for row in rows if row["run_id"] == config.rubrics_of]
    return list({row["k"]: row for row in sorted(rows, key=lambda row: (row["k"], -row["attempt"]))}.values())


def _collected(
    stored: StoredTree, run_id: str, copies: Sequence[DelegationRecord], nodes: Sequence[NodeRecord]
) -> Judged:
    """The rows in an order that scheduling does not decide, with turn ids that name the run."""
    found = Judged()
    for rows, into, turns in (
        *((copy.rubric_rows, found.rubrics, copy.parent.turns) for copy in copies),
        *((node.score_rows, found.scores, node.turns) for node in nodes),
    ):
        for row in rows:
            turn = next(turn for turn in reversed(turns) if turn["turn_id"] == row["turn_id"])
            name = f"{turn['node_id']}#{run_id}.{_place(row, len(found.turns))}"
            found.turns.append({**turn, **stored.tree, "turn_id": name})
            into.append({**row, **stored.tree, "turn_id": name})
    return found


def _place(row: Row, n: int) -> str:
    """Part of a turn id that is one delegation's own: its launch, then a number."""
    return f"{row['delegation_id'].rpartition('/')[2]}.{n:04d}"
