"""`branches`: the continuations forked at a delegation, one row each. A plain launch has row 0 and k = 1.

Invariant: exactly one branch of a delegation is committed; it is branch 0, unless a selector chose among candidates
(`selected_by`). All branches start from the same snapshot digest. `inclusion_probability` is the probability with which
this delegation was chosen for forking (1 for the committed branch, which exists anyway).
"""

from schemas.table import BOOL, FLOAT64, INT8, INT16, INT32, INT64, STRING, Column, Table, provenance
from schemas.words import SCHEDULINGS, SELECTORS

BRANCHES = Table(
    name="branches",
    doc=__doc__ or "",
    key=("delegation_id", "branch"),
    sort=("tree_id", "delegation_id", "branch"),
    columns=(
        *provenance(),
        Column("delegation_id", STRING, "Launch at which the branches fork."),
        Column("branch", INT8, "Index, from 0."),
        Column("k", INT8, "Planned number of branches of this delegation (1 = plain launch)."),
        Column("node_id", STRING, "Node that ran this branch; null when the branch never started.", nullable=True),
        Column("parent_id", STRING, "Delegating node."),
        Column("tree_id", STRING, "Tree of the delegating node."),
        Column("task_id", STRING, "Task of the tree."),
        Column("depth", INT8, "Depth of the branch nodes (parent's depth + 1)."),
        Column("turn_id", STRING, "Act turn of the parent that launched."),
        Column("launch", INT16, "Index of the launch within that turn, from 0."),
        Column("committed", BOOL, "True for the branch whose result the parent received."),
        Column("seed", INT64, "Seed of the branch's node."),
        Column(
            "scheduling",
            STRING,
            "parallel: the child shared its parent's live state with what ran beside it; sequential: it had a copy that"
            " was committed when it returned. Null when it was not recorded.",
            nullable=True,
            values=SCHEDULINGS,
        ),
        Column("snapshot_digest", STRING, "sha256 of the state that all branches start from."),
        Column(
            "selection",
            STRING,
            "How the delegation was chosen for forking: plain|reference|recommended|best_of (every one is).",
            values=("plain", "reference", "recommended", "best_of"),
        ),
        Column(
            "selected_by",
            STRING,
            "Who chose the committed branch among the candidates of best_of; null elsewhere.",
            nullable=True,
            values=SELECTORS,
        ),
        Column(
            "selection_reason", STRING, "Why this one, for the whole delegation; null without a choice.", nullable=True
        ),
        Column("budget_position", INT32, "Environments of the tree that existed before this group."),
        Column(
            "inclusion_probability",
            FLOAT64,
            "Probability with which this row's delegation was forked; null under"
            " the reference rule, where it is unknown.",
            nullable=True,
        ),
        Column("complete", BOOL, "True when all k branches ran to an outcome other than infra_error."),
        Column("exclusion_reason", STRING, "Why the group is not complete; null when it is.", nullable=True),
    ),
)
