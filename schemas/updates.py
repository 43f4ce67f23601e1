"""`updates`: one optimizer step of a learn phase, or one skipped step with its reason.

Invariant: a skip has version_out = version_in, a skip_reason and no loss; everything else is measured on the
global batch.
"""

from schemas.table import FLOAT64, INT8, INT32, INT64, STRING, Column, Table, list_of, provenance, struct_of
from schemas.words import STAGES

TIMINGS = struct_of(load_s=FLOAT64, forward_backward_s=FLOAT64, step_s=FLOAT64, total_s=FLOAT64)


def _measure(name: str, doc: str) -> Column:
    return Column(name, FLOAT64, doc + " Null for a skip.", nullable=True)


UPDATES = Table(
    name="updates",
    doc=__doc__ or "",
    key=("run_id", "epoch", "update", "attempt"),
    sort=("run_id", "epoch", "update", "attempt"),
    columns=(
        *provenance(),
        Column("update", INT32, "Index of the update within the run, from 0; equals version_in unless skipped."),
        Column("attempt", INT8, "Attempt at this update, from 0."),
        Column(
            "stage",
            STRING,
            "execution|delegation|rubric, or joint: all stages of its schedule.",
            values=(*STAGES, "joint"),
        ),
        Column("method", STRING, "Method name, for example 'sera'."),
        Column("loss_kind", STRING, "cispo|sft|topr|m2po|grpo."),
        Column("version_in", INT32, "Policy version before the update."),
        Column("version_out", INT32, "Policy version after it."),
        Column("skip_reason", STRING, "Why nothing was trained; null for a real update.", nullable=True),
        Column("group_ids", list_of(STRING), "Groups consumed, as 'epoch/task_id'."),
        Column("datum_ids", list_of(STRING), "Datums trained, in packing order."),
        Column("n_groups_dropped", INT32, "Groups of the batch that gave no datum (homogeneous, invalid)."),
        Column("n_datums", INT32, "Training sequences."),
        Column("n_tokens", INT64, "Tokens in those sequences."),
        Column("n_trained_tokens", INT64, "Tokens with credit: N of the token mean."),
        _measure("loss", "Token-mean loss over the global batch."),
        _measure("grad_norm", "Global gradient norm before clipping."),
        _measure("lr", "Learning rate of the step."),
        _measure("entropy", "Mean entropy in nats per trained token."),
        _measure("ratio_mean", "Mean of exp(log pi - stored logprob)."),
        _measure("ratio_max", "Maximum of that ratio."),
        _measure("clip_share", "Share of trained tokens whose ratio was cut at ratio_max."),
        _measure("ess", "Effective sample size share (sum rho)^2 / (n sum rho^2)."),
        _measure("kl", "k3 estimate mean(rho - 1 - log rho)."),
        _measure("mismatch", "Mean absolute log ratio; at version gap 0 the engine-trainer floor."),
        _measure("advantage_mean", "Mean token advantage."),
        _measure("advantage_abs_mean", "Mean absolute token advantage."),
        _measure("version_gap_mean", "Mean of version_in minus the version that sampled the token."),
        Column("credit_sha256", STRING, "sha256 of the credit rows used."),
        Column("plan_sha256", STRING, "sha256 of the packing plan."),
        Column("snapshot_sha256", STRING, "sha256 of the snapshot file that the phase trained from."),
        Column("timings", TIMINGS, "Wall seconds by part.", nullable=True, volatile=True),
    ),
)
