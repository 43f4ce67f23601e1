"""The contract between collectors, learners and auditors: eleven tables, the rubric and score models.

Invariant: nothing here imports the other packages; everything else imports this. Importing it is cheap: PyArrow loads
when a name that needs it is used, so the engine of the learner runs where only torch and DeepSpeed are installed.
Run: ``sera data describe`` prints the tables.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from schemas.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from schemas.branches import BRANCHES
    from schemas.evals import EVALS
    from schemas.labels import LABELS
    from schemas.logprobs import LOGPROBS
    from schemas.nodes import NODES
    from schemas.rubric import Rubric, RubricItem, rubric_from_json
    from schemas.rubrics import RUBRICS
    from schemas.runs import RUNS
    from schemas.score import Score, score_from_json, weighted_score
    from schemas.scores import SCORES
    from schemas.table import Column, Table
    from schemas.tables import TABLES
    from schemas.tasks import TASKS
    from schemas.turns import TURNS
    from schemas.updates import UPDATES

__all__ = [
    "SCHEMA_VERSION",
    "TABLES",
    "Column",
    "Rubric",
    "RubricItem",
    "Score",
    "Table",
    "BRANCHES",
    "EVALS",
    "LABELS",
    "LOGPROBS",
    "NODES",
    "RUBRICS",
    "RUNS",
    "SCORES",
    "TASKS",
    "TURNS",
    "UPDATES",
    "rubric_from_json",
    "score_from_json",
    "weighted_score",
]

_MODULES = {
    "TABLES": "tables",
    "Column": "table",
    "Table": "table",
    "Rubric": "rubric",
    "RubricItem": "rubric",
    "rubric_from_json": "rubric",
    "Score": "score",
    "score_from_json": "score",
    "weighted_score": "score",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module 'schemas' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f"schemas.{_MODULES.get(name, name.lower())}"), name)
    globals()[name] = value
    return value
