"""The contract between collectors, learners and auditors: ten tables, the rubric and score models.

Invariant: nothing here imports the other packages; everything else imports this.
Run: ``sera data describe`` prints the tables.
"""

from schemas.branches import BRANCHES
from schemas.evals import EVALS
from schemas.labels import LABELS
from schemas.nodes import NODES
from schemas.rubric import Rubric, RubricItem, rubric_from_json
from schemas.rubrics import RUBRICS
from schemas.runs import RUNS
from schemas.score import Score, score_from_json, weighted_score
from schemas.scores import SCORES
from schemas.table import Column, Table
from schemas.tasks import TASKS
from schemas.turns import TURNS
from schemas.updates import UPDATES
from schemas.version import SCHEMA_VERSION

TABLES: dict[str, Table] = {
    t.name: t for t in (RUNS, TASKS, NODES, TURNS, RUBRICS, BRANCHES, LABELS, SCORES, UPDATES, EVALS)
}

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
