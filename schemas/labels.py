"""`labels`: a verdict on a node from a program, a judge or a person. A new verdict is a new row.

Invariant: a failed judge leaves an invalid row with its reason, never a guess; an invalid label has a null value.
"""

from schemas.table import BOOL, FLOAT64, INT8, INT32, STRING, Column, Table, provenance
from schemas.words import LABEL_KINDS, LABEL_USES

LABELS = Table(
    name="labels",
    doc=__doc__ or "",
    key=("node_id", "source", "version", "attempt"),
    sort=("tree_id", "node_id", "source", "version", "attempt"),
    columns=(
        *provenance(),
        Column("node_id", STRING, "Node that is judged."),
        Column("tree_id", STRING, "Tree of the node."),
        Column("task_id", STRING, "Task of the tree."),
        Column("source", STRING, "Checker, model or person, for example 'textcraft'."),
        Column("version", STRING, "Version of the source; the newest program version wins."),
        Column("attempt", INT8, "Vote or retry, from 0."),
        Column("kind", STRING, "program|judge|human.", values=LABEL_KINDS),
        Column("use", STRING, "train, or audit (never trained on).", values=LABEL_USES),
        Column("inclusion_probability", FLOAT64, "Probability with which the node was chosen for labelling."),
        Column("valid", BOOL, "False when no verdict was reached."),
        Column("value", FLOAT64, "1 success, 0 failure; null when invalid.", nullable=True),
        Column("error", STRING, "Why it is invalid; null when valid.", nullable=True),
        Column("details", STRING, "What the verdict rests on, as sorted JSON; null when none.", nullable=True),
        Column("raw_text", STRING, "Judge's reply; null for programs.", nullable=True),
        Column("prompt_sha256", STRING, "sha256 of the judge prompt; null for programs.", nullable=True),
        Column("params", STRING, "Judge's parameters as sorted JSON; null for programs.", nullable=True),
        Column("prompt_tokens", INT32, "Judge's prompt tokens; null for programs.", nullable=True),
        Column("completion_tokens", INT32, "Judge's completion tokens; null for programs.", nullable=True),
        Column("latency_s", FLOAT64, "Seconds for the verdict; null when not measured.", nullable=True, volatile=True),
        Column(
            "cost",
            FLOAT64,
            "Price of the vote in the currency of the price file that was given; null without a price.",
            nullable=True,
            volatile=True,
        ),
    ),
)
