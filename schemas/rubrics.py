"""`rubrics`: what a writer wrote for a delegation before the child started; invalid attempts are rows too.

Invariant: a rubric of phase `collect` is frozen before the child's first token: its order_stamp is lower
than order_start of every branch of its delegation (checked at seal). The child never sees it.
"""

from schemas.table import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Column,
    Table,
    list_of,
    provenance,
    struct_of,
)
from schemas.words import PHASES

ITEM = struct_of(name=STRING, description=STRING, weight=FLOAT64)

RUBRICS = Table(
    name="rubrics",
    doc=__doc__ or "",
    key=("rubric_id",),
    sort=("tree_id", "rubric_id"),
    columns=(
        *provenance(),
        Column("rubric_id", STRING, "'delegation~writer~k~attempt'; a refresh run puts its run id before the writer."),
        Column("delegation_id", STRING, "Delegation it was written for."),
        Column("node_id", STRING, "Delegating parent node."),
        Column("tree_id", STRING, "Tree of that node."),
        Column("task_id", STRING, "Task of that tree."),
        Column("turn_id", STRING, "Rubric turn that holds the tokens."),
        Column("writer", STRING, "Name of the writer's policy, or 'global'."),
        Column("writer_version", INT32, "Policy version of the writer."),
        Column("k", INT16, "Index among the rubrics sampled for one delegation, from 0."),
        Column("attempt", INT8, "Attempt, from 0; later attempts only save the group and are never trained."),
        Column("phase", STRING, "collect, or refresh (written later for stored branches).", values=PHASES),
        Column("valid", BOOL, "True when the text parsed as a rubric."),
        Column("error", STRING, "Why it is invalid; null when valid.", nullable=True),
        Column(
            "items", list_of(ITEM), "Criteria in order: name, description, weight (weights sum to 1). Empty if invalid."
        ),
        Column("success_gate", STRING, "Condition for any score above 0; null if invalid.", nullable=True),
        Column("failure_conditions", STRING, "Conditions that force 0; null if invalid.", nullable=True),
        Column("procedure", STRING, "How to combine the criteria; null if invalid.", nullable=True),
        Column(
            "rubric_sha256",
            STRING,
            "sha256 of the canonical rubric JSON that scorers see; null if invalid.",
            nullable=True,
        ),
        Column("prompt_sha256", STRING, "sha256 of the writer prompt."),
        Column("order_stamp", INT64, "Lamport clock when the rubric was frozen."),
    ),
)
