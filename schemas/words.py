"""The closed vocabularies used in columns and code; one place, so that a typo is an error.

Invariant: a value outside its vocabulary is refused by the writer with the allowed values.
"""

from typing import Literal, get_args

Outcome = Literal["finished", "not_finished", "truncated", "loop", "timeout", "infra_error"]
Stage = Literal["execution", "delegation", "rubric"]
Purpose = Literal["execution", "delegation", "rubric", "eval", "select", "warm"]
Role = Literal["act", "writer", "scorer", "judge"]
TurnKind = Literal["act", "rubric", "score"]
LaunchStatus = Literal["launched", "refused", "invalid"]
Phase = Literal["collect", "refresh"]
LabelKind = Literal["program", "judge", "human"]
LabelUse = Literal["train", "audit"]
FinishReason = Literal["stop", "length", "abort", "error"]
LogprobsMode = Literal["processed_logprobs", "raw_logprobs", "none"]
Dtype = Literal["float32", "bfloat16", "float16"]
Scheduling = Literal["parallel", "sequential"]
Selector = Literal["first", "random", "rubric", "judge"]
ShardPhase = Literal["collect", "label", "refresh", "learn", "eval", "warm"]

OUTCOMES: tuple[str, ...] = get_args(Outcome)
STAGES: tuple[str, ...] = get_args(Stage)
PURPOSES: tuple[str, ...] = get_args(Purpose)
ROLES: tuple[str, ...] = get_args(Role)
TURN_KINDS: tuple[str, ...] = get_args(TurnKind)
LAUNCH_STATUSES: tuple[str, ...] = get_args(LaunchStatus)
PHASES: tuple[str, ...] = get_args(Phase)
LABEL_KINDS: tuple[str, ...] = get_args(LabelKind)
LABEL_USES: tuple[str, ...] = get_args(LabelUse)
FINISH_REASONS: tuple[str, ...] = get_args(FinishReason)
LOGPROBS_MODES: tuple[str, ...] = get_args(LogprobsMode)
DTYPES: tuple[str, ...] = get_args(Dtype)
SCHEDULINGS: tuple[str, ...] = get_args(Scheduling)
SELECTORS: tuple[str, ...] = get_args(Selector)
SHARD_PHASES: tuple[str, ...] = get_args(ShardPhase)
