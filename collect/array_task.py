"""The part of a job that a task of a Slurm job array plays: `--shard slurm`.

Invariant: the tasks of one array share the units without gap or overlap, whatever its first index and step are; an
array with holes is refused, because its tasks cannot know which part is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from sera_data.errors import UsageError

NAMES = ("ID", "MIN", "MAX", "STEP", "COUNT")


def share_of_array(environment: Mapping[str, str]) -> tuple[int, int]:
    """(index, number of tasks) from SLURM_ARRAY_TASK_ID and its companions; UsageError where they are not there."""
    values = {}
    for name in NAMES:
        key = f"SLURM_ARRAY_TASK_{name}"
        text = environment.get(key, "1" if name == "STEP" else "")
        if not text.isascii() or not text.isdigit():
            msg = f"--shard slurm needs {key}, a number, got {text!r}"
            raise UsageError(msg, hint="run it as a task of 'sbatch --array=0-7', or give --shard i/n")
        values[name] = int(text)
    first, last, step, count = values["MIN"], values["MAX"], max(values["STEP"], 1), values["COUNT"]
    if (last - first) // step + 1 != count or not first <= values["ID"] <= last:
        msg = f"--shard slurm wants an array without holes, got {count} tasks from {first} to {last} by {step}"
        raise UsageError(msg, hint="tasks that are run again alone take --shard i/n with the numbers of the whole job")
    return (values["ID"] - first) // step, count
