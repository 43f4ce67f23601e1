"""`nodes`: one agent's episode in a tree. One row per node, off-path branches included.

Invariant: a root has null parent_id, delegation_id and branch; every other node has all three. `on_path`
is true when the branch of the node and of all its ancestors is committed; a child below branch 3 is off
path. Success is a label, never an outcome.
"""

from schemas.table import BOOL, FLOAT64, INT8, INT16, INT32, INT64, STRING, TIME, Column, Table, provenance
from schemas.words import OUTCOMES, PURPOSES

NODES = Table(
    name="nodes",
    doc=__doc__ or "",
    key=("node_id",),
    sort=("tree_id", "node_id"),
    columns=(
        *provenance(),
        Column("node_id", STRING, "Root: the tree id. Child: 'parent/t3d0b0' = parent's turn 3, launch 0, branch 0."),
        Column("tree_id", STRING, "'r' + 16 hex digits: hash(run, epoch, task, sample)."),
        Column("task_id", STRING, "Root problem of the tree (foreign key to tasks)."),
        Column("sample", INT16, "Index of the tree among the samples of its task in this epoch, from 0."),
        Column("parent_id", STRING, "Node that launched this one; null for roots.", nullable=True),
        Column("delegation_id", STRING, "Launch that made this node: 'parent/t3d0'; null for roots.", nullable=True),
        Column(
            "branch", INT8, "Index among the branches forked at the delegation; null only for roots.", nullable=True
        ),
        Column("on_path", BOOL, "True when this node's branch and every ancestor's branch is committed."),
        Column("depth", INT8, "Root 0, child of a root 1, and so on."),
        Column("purpose", STRING, "Stage that the plan dealt the group to, or eval|select|warm.", values=PURPOSES),
        Column("goal", STRING, "Goal in words, as shown to this agent."),
        Column("targets", STRING, "Typed targets as sorted JSON; null when the world has none.", nullable=True),
        Column("context", STRING, "Free text given by the parent; null when none.", nullable=True),
        Column("start_state", STRING, "World state when the node started, as the world dumps it (JSON)."),
        Column("end_state", STRING, "World state as this node left it; null after infra_error.", nullable=True),
        Column("start_digest", STRING, "sha256 of start_state."),
        Column("end_digest", STRING, "sha256 of end_state; null with it.", nullable=True),
        Column("outcome", STRING, "How the episode ended; not whether it succeeded.", values=OUTCOMES),
        Column("message", STRING, "Finish message, exactly as the agent wrote it; null without one.", nullable=True),
        Column("turn_budget", INT32, "Turns this node was allowed."),
        Column("token_budget", INT32, "Completion tokens this node was allowed; null when unlimited.", nullable=True),
        Column("n_turns", INT32, "`act` turns taken."),
        Column("n_children", INT32, "Committed children launched by this node."),
        Column("n_prompt_tokens", INT32, "Sum of prompt delta lengths of its act turns; 0 without token ids."),
        Column("n_completion_tokens", INT32, "Sum of completion lengths of its act turns; 0 without token ids."),
        Column(
            "policy_version_min", INT32, "Lowest policy version over its act turns; null without turns.", nullable=True
        ),
        Column(
            "policy_version_max", INT32, "Highest policy version over its act turns; null without turns.", nullable=True
        ),
        Column("seed", INT64, "Seed of the node, from which its turns' seeds derive."),
        Column("order_start", INT64, "Lamport clock when the node started; greater than its rubric's order_stamp."),
        Column("order_end", INT64, "Lamport clock when the node ended."),
        Column("error", STRING, "Text of the error that ended the node; null when none.", nullable=True),
        Column("started_at", TIME, "Wall clock start (UTC).", nullable=True, volatile=True),
        Column("ended_at", TIME, "Wall clock end (UTC).", nullable=True, volatile=True),
        Column("wall_s", FLOAT64, "Wall seconds, children included.", nullable=True, volatile=True),
    ),
)
