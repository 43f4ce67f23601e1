"""`evals`: one evaluated root episode each.

Invariant: an infrastructure error has outcome infra_error and a null success, so that it can be counted apart.
"""

from schemas.table import BOOL, FLOAT64, INT16, INT32, INT64, STRING, Column, Table, provenance
from schemas.words import OUTCOMES

EVALS = Table(
    name="evals",
    doc=__doc__ or "",
    key=("run_id", "protocol", "policy_version", "task_id", "sample"),
    sort=("run_id", "protocol", "policy_version", "task_id", "sample"),
    columns=(
        *provenance(),
        Column("protocol", STRING, "Name of the evaluation protocol."),
        Column("policy", STRING, "Name of the policy."),
        Column("policy_version", INT32, "Policy version evaluated."),
        Column("weights_sha256", STRING, "Hash of its weights; null for scripts.", nullable=True),
        Column("task_id", STRING, "Task that was evaluated."),
        Column("sample", INT16, "Sample index, from 0."),
        Column("difficulty", STRING, "Band of the task."),
        Column("temperature", FLOAT64, "Sampling temperature; 0 = greedy."),
        Column("outcome", STRING, "Outcome of the root.", values=OUTCOMES),
        Column("success", BOOL, "Program label of the root; null after infra_error.", nullable=True),
        Column("n_turns", INT32, "Act turns over the tree."),
        Column("n_nodes", INT32, "Nodes of the tree."),
        Column("n_prompt_tokens", INT64, "Prompt tokens over the tree, deltas only."),
        Column("n_completion_tokens", INT64, "Completion tokens over the tree."),
        Column("n_delegations", INT32, "Launches over the tree."),
        Column("error", STRING, "Error text; null when none.", nullable=True),
        Column("wall_s", FLOAT64, "Wall seconds of the tree.", nullable=True, volatile=True),
    ),
)
