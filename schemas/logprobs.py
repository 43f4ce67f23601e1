"""`logprobs`: log-probabilities of stored completions, computed again by the trainer.

Invariant: a row stands beside its turn and never in place of it: `turns.logprobs` stays what the engine said. It is
computed by the very weights that sampled the turn, at the turn's temperature and under the policy's vocabulary mask, so
what differs from the engine is numerics alone. `logprobs` aligns one to one with the turn's `completion_ids`; every
element is finite. Only trainable turns have rows, at most one for each recomputation run.

An overlay: an epoch has this table only where somebody asked for it (`sera refresh logprobs`), as an addition.
"""

from schemas.table import FLOAT32, FLOAT64, INT32, STRING, TIME, Column, Table, list_of, provenance
from schemas.words import DTYPES, LOGPROBS_MODES

LOGPROBS = Table(
    name="logprobs",
    doc=__doc__ or "",
    key=("run_id", "turn_id"),
    sort=("tree_id", "turn_id", "run_id"),
    row_group=2_048,
    sealed="with_rows",
    columns=(
        *provenance(),
        Column("turn_id", STRING, "Turn whose completion was computed again; its tokens are in `turns`."),
        Column("tree_id", STRING, "Tree of the turn."),
        Column("task_id", STRING, "Task of the tree."),
        Column("policy", STRING, "Name of the policy that sampled the turn and computed it again."),
        Column("policy_version", INT32, "Its version: that of the turn."),
        Column("weights_sha256", STRING, "Its weights and vocabulary mask, as in `runs.policies` of the turn's run."),
        Column("engine", STRING, "What computed: trainer, the learner's own forward pass on packed sequences."),
        Column("dtype", STRING, "Of weights and activations there; the softmax is always fp32.", values=DTYPES),
        Column(
            "logprobs",
            list_of(FLOAT32),
            "Natural-log probability of each completion token given all tokens before it; same length and order as"
            " completion_ids of the turn.",
        ),
        Column(
            "logprobs_mode",
            STRING,
            "As of turns: processed_logprobs, after temperature and vocabulary mask.",
            values=LOGPROBS_MODES,
        ),
        Column("temperature", FLOAT32, "Temperature that was applied: that of the turn."),
        Column("n_tokens", INT32, "Length of logprobs, of completion_ids, in tokens."),
        Column(
            "seconds",
            FLOAT64,
            "The turn's part, by completion tokens, of the wall time of the forward passes of its unit and weights.",
            nullable=True,
            volatile=True,
        ),
        Column("computed_at", TIME, "When they ended (UTC).", nullable=True, volatile=True),
    ),
)
