"""`evals`: one evaluated root episode each.

Invariant: an infrastructure error has outcome infra_error and a null success, so that it can be counted apart. Rows of
one run share protocol, weights, code version, seed and task set: together they say what a figure may be compared with.
"""

from schemas.table import BOOL, FLOAT64, INT8, INT16, INT32, INT64, STRING, Column, Table, provenance
from schemas.words import OUTCOMES, SELECTORS

SELECTIONS = ("none", *SELECTORS)

EVALS = Table(
    name="evals",
    doc=__doc__ or "",
    key=("run_id", "protocol", "policy_version", "task_id", "sample"),
    sort=("run_id", "protocol", "policy_version", "task_id", "sample"),
    columns=(
        *provenance(),
        Column("protocol", STRING, "Name of the evaluation protocol."),
        Column(
            "protocol_sha256",
            STRING,
            "Hash of everything the protocol fixes (budgets, caps, temperature, dialect, tasks), the seed left out;"
            " evaluations with equal hashes may be averaged.",
            nullable=True,
        ),
        Column("code_version", STRING, "Version of the code that played it.", nullable=True),
        Column("task_set", STRING, "Hash of the ids of all tasks of the evaluation.", nullable=True),
        Column("seed", INT64, "Run seed; the evaluation seed when several are averaged.", nullable=True),
        Column("policy", STRING, "Name of the policy."),
        Column("policy_version", INT32, "Policy version evaluated."),
        Column("weights_sha256", STRING, "Hash of its weights; null for scripts.", nullable=True),
        Column("dialect", STRING, "How agents write their calls: json, code or blocks.", nullable=True),
        Column(
            "selection",
            STRING,
            "How one of several candidates was chosen at each delegation; none = plain delegation.",
            nullable=True,
            values=SELECTIONS,
        ),
        Column("candidates", INT8, "Candidates at each delegation; 1 = plain delegation or a control.", nullable=True),
        Column("task_id", STRING, "Task that was evaluated."),
        Column("sample", INT16, "Sample index, from 0."),
        Column("world", STRING, "World of the task.", nullable=True),
        Column("difficulty", STRING, "Band of the task."),
        Column("family", STRING, "Family of the task; null where the world has none.", nullable=True),
        Column(
            "true_depth",
            INT16,
            "Longest chain of steps that the task needs, measured by its world; null where the world has no measure.",
            nullable=True,
        ),
        Column("temperature", FLOAT64, "Sampling temperature; 0 = greedy."),
        Column("outcome", STRING, "Outcome of the root.", values=OUTCOMES),
        Column("success", BOOL, "Program label of the root; null after infra_error.", nullable=True),
        Column("tries", INT16, "Plays of the tree; above 1 when infrastructure errors were retried.", nullable=True),
        Column("n_turns", INT32, "Act turns over the tree."),
        Column("n_nodes", INT32, "Nodes of the tree."),
        Column("max_depth", INT16, "Depth of its deepest agent; 0 = nothing was delegated.", nullable=True),
        Column("n_prompt_tokens", INT64, "Prompt tokens over the tree, deltas only."),
        Column("n_completion_tokens", INT64, "Completion tokens over the tree."),
        Column("n_delegations", INT32, "Launches over the tree."),
        Column("error", STRING, "Error text; null when none.", nullable=True),
        Column("wall_s", FLOAT64, "Wall seconds of the tree.", nullable=True, volatile=True),
    ),
)
