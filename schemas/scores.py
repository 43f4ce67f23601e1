"""`scores`: a frozen rubric applied to a finished node by a scorer; invalid attempts are rows too.

Invariant: credit reads attempt 0 only; `weighted_score` is recomputed from the rubric's weights and the item
scores and never replaces the scorer's own `final_score`.
"""

from schemas.table import BOOL, FLOAT64, INT8, INT32, INT64, STRING, Column, Table, list_of, provenance, struct_of
from schemas.words import PHASES

ITEM_SCORE = struct_of(name=STRING, score=FLOAT64)

SCORES = Table(
    name="scores",
    doc=__doc__ or "",
    key=("rubric_id", "node_id", "scorer", "scorer_version", "attempt"),
    sort=("tree_id", "node_id", "rubric_id", "scorer", "scorer_version", "attempt"),
    columns=(
        *provenance(),
        Column("rubric_id", STRING, "Rubric that was applied."),
        Column("node_id", STRING, "Node that was scored."),
        Column("delegation_id", STRING, "Delegation of both."),
        Column("tree_id", STRING, "Tree of the node."),
        Column("task_id", STRING, "Task of the tree."),
        Column("scorer", STRING, "Name of the scorer's policy."),
        Column("scorer_version", INT32, "Policy version of the scorer."),
        Column("attempt", INT8, "Attempt, from 0; later attempts only save the group."),
        Column("phase", STRING, "collect, or refresh.", values=PHASES),
        Column("valid", BOOL, "True when the reply parsed as a score."),
        Column("error", STRING, "Why it is invalid; null when valid.", nullable=True),
        Column("final_score", FLOAT64, "Scorer's score in [0, 1]; null when invalid.", nullable=True),
        Column("success", BOOL, "Scorer's success flag; null when invalid or absent.", nullable=True),
        Column("item_scores", list_of(ITEM_SCORE), "Score per criterion, in [0, 1]; empty when invalid or absent."),
        Column(
            "weighted_score",
            FLOAT64,
            "Sum of weight x item score; null when item scores do not cover the rubric.",
            nullable=True,
        ),
        Column("turn_id", STRING, "Score turn that holds the tokens."),
        Column("prompt_sha256", STRING, "sha256 of the scorer prompt."),
        Column("order_stamp", INT64, "Lamport clock when the score was received."),
    ),
)
