"""The tables by name: ten that every epoch has, and the overlay `logprobs`.

Invariant: the order is that in which they are written and described.
"""

from schemas.branches import BRANCHES
from schemas.evals import EVALS
from schemas.labels import LABELS
from schemas.logprobs import LOGPROBS
from schemas.nodes import NODES
from schemas.rubrics import RUBRICS
from schemas.runs import RUNS
from schemas.scores import SCORES
from schemas.table import Table
from schemas.tasks import TASKS
from schemas.turns import TURNS
from schemas.updates import UPDATES

TABLES: dict[str, Table] = {
    t.name: t for t in (RUNS, TASKS, NODES, TURNS, RUBRICS, BRANCHES, LABELS, SCORES, UPDATES, EVALS, LOGPROBS)
}
