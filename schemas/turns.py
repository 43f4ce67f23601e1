"""`turns`: one policy completion each, with the exact tokens.

Token rule, asserted at write time for trainable turns: full prompt = full prompt of the base turn + the base
turn's completion + own `prompt_ids`; a turn without `base_turn` is a keyframe and its `prompt_ids` are
the full prompt. So concatenation reproduces exactly what the engine saw. `logprobs` aligns one to one
with `completion_ids`; every logprob is finite. `base_turn` links only `act` turns of one node; rubric and
score turns are keyframes. Text is never re-tokenised.
"""

from schemas.table import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    Column,
    Table,
    list_of,
    provenance,
    struct_of,
)
from schemas.words import FINISH_REASONS, LOGPROBS_MODES, ROLES, TURN_KINDS

TOOL_CALL = struct_of(
    tool=STRING,
    arguments=STRING,
    ok=BOOL,
    result=STRING,
    delta=STRING,
    feedback=STRING,
    order_stamp=INT64,
)
LAUNCH = struct_of(
    delegation_id=STRING,
    status=STRING,
    reason=STRING,
    targets=STRING,
    char_start=INT32,
    char_end=INT32,
    token_start=INT32,
    token_end=INT32,
)

TURNS = Table(
    name="turns",
    doc=__doc__ or "",
    key=("turn_id",),
    sort=("tree_id", "node_id", "turn_id"),
    row_group=2_048,
    columns=(
        *provenance(),
        Column("turn_id", STRING, "'node#n'; n counts all turns whose node this is. Zero-padded to 4 digits."),
        Column("node_id", STRING, "act: the acting node; rubric: the delegating parent; score: the scored node."),
        Column("tree_id", STRING, "Tree of the node."),
        Column("task_id", STRING, "Task of the tree."),
        Column("kind", STRING, "What the completion is.", values=TURN_KINDS),
        Column(
            "step", INT32, "Index of an act turn within its node, from 0; null for rubric and score.", nullable=True
        ),
        Column("role", STRING, "Role whose policy answered.", values=ROLES),
        Column("policy", STRING, "Name of that policy."),
        Column("policy_version", INT32, "Completed optimizer steps of the policy when the turn was dispatched."),
        Column(
            "trainable", BOOL, "True when ids and finite processed logprobs of an untruncated distribution are here."
        ),
        Column("ok", BOOL, "False when the completion did not parse or the world answered with an error."),
        Column(
            "base_turn", STRING, "Earlier act turn of the node that the prompt extends; null = keyframe.", nullable=True
        ),
        Column(
            "prompt_ids",
            list_of(INT32),
            "Prompt tokens after base prompt + base completion; all of them for a"
            " keyframe. Null when the policy has no token ids.",
            nullable=True,
        ),
        Column(
            "completion_ids",
            list_of(INT32),
            "Sampled tokens, the end token included when it was sampled. Null when the policy has no token ids.",
            nullable=True,
        ),
        Column(
            "logprobs",
            list_of(FLOAT32),
            "Natural-log probability of each completion token under the distribution"
            " sampled from; same length as completion_ids; null with logprobs_mode none.",
            nullable=True,
        ),
        Column(
            "logprobs_mode",
            STRING,
            "processed_logprobs: after temperature and mask; raw_logprobs; none.",
            values=LOGPROBS_MODES,
        ),
        Column(
            "n_prompt",
            INT32,
            "Length of the full prompt in tokens; without ids as the endpoint counts it, null when it does not say.",
            nullable=True,
        ),
        Column(
            "n_cached",
            INT32,
            "Prompt tokens not recomputed thanks to a cache; null when unknown.",
            nullable=True,
            volatile=True,
        ),
        Column(
            "prompt_text",
            STRING,
            "Prompt delta as JSON messages, for policies without ids and for imported turns; null otherwise.",
            nullable=True,
        ),
        Column("text", STRING, "Completion as text, without the end token."),
        Column("temperature", FLOAT32, "Sampling temperature; 0 = greedy."),
        Column("top_p", FLOAT32, "Nucleus mass; 1 = off."),
        Column("max_tokens", INT32, "Completion cap in tokens."),
        Column("seed", INT64, "Seed of this completion."),
        Column("finish_reason", STRING, "stop|length|abort|error.", values=FINISH_REASONS),
        Column("action", STRING, "Parsed decision as sorted JSON; null when it did not parse.", nullable=True),
        Column(
            "observation",
            STRING,
            "Text returned to the agent after this turn; null when the node ended.",
            nullable=True,
        ),
        Column("error", STRING, "Why the turn is not ok; null when it is.", nullable=True),
        Column(
            "tool_calls",
            list_of(TOOL_CALL),
            "Calls in order: tool, arguments (JSON), ok, result (text), delta (state change as JSON, null when none),"
            " feedback (ok|rejected|info, or success|failure|exhausted when the call ended the world for all; null"
            " for launches, finish and worlds that give none), order_stamp (Lamport clock when the call was applied:"
            " calls on one shared state are totally ordered by it). Empty for rubric and score turns.",
        ),
        Column(
            "delegations",
            list_of(LAUNCH),
            "Launches of this turn in order: delegation_id (null unless launched),"
            " status launched|refused|invalid, reason, targets (JSON), character span in `text` and token span in"
            " `completion_ids` (half open; null without ids).",
        ),
        Column("order_stamp", INT64, "Lamport clock when the completion was received."),
        Column("prompt_sha256", STRING, "sha256 of the full prompt (ids as JSON, else text)."),
        Column(
            "n_completion",
            INT32,
            "Completion tokens: of completion_ids, else as the endpoint counts them; null when unknown.",
            nullable=True,
            volatile=True,
        ),
        Column(
            "served_model",
            STRING,
            "Model that the endpoint says has answered; null when the policy runs in this process.",
            nullable=True,
            volatile=True,
        ),
        Column(
            "cost",
            FLOAT64,
            "Price of the call in the currency of the price file that was given; null without a price.",
            nullable=True,
            volatile=True,
        ),
        Column("started_at", TIME, "Dispatch time (UTC).", nullable=True, volatile=True),
        Column("latency_s", FLOAT64, "Seconds from dispatch to completion.", nullable=True, volatile=True),
    ),
)
