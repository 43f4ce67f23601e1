"""The ranks of a learn phase that `srun` starts: one task is one rank.

Invariant: what a launcher (torchrun, deepspeed) has set is left as it is; a step of one task stays a lone process.
"""

from __future__ import annotations

from collections.abc import Mapping

FIRST_PORT, PORTS = 20_000, 20_000


def ranks_of_step(environment: Mapping[str, str]) -> dict[str, str]:
    """RANK and its companions of this task of a Slurm step; empty where another launcher is at work, or none.

    MASTER_ADDR is the node that `srun` was called on, which in a batch job is the one of rank 0; the port is the
    job's own.
    """
    tasks = environment.get("SLURM_STEP_NUM_TASKS", "1")
    if "RANK" in environment or not tasks.isdigit() or int(tasks) < 2 or "SLURM_PROCID" not in environment:
        return {}
    port = FIRST_PORT + int(environment.get("SLURM_JOB_ID", "0")) % PORTS
    found = {
        "RANK": environment["SLURM_PROCID"],
        "LOCAL_RANK": environment.get("SLURM_LOCALID", "0"),
        "WORLD_SIZE": tasks,
        "MASTER_ADDR": environment.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"),
        "MASTER_PORT": str(port),
    }
    return found | {name: environment[name] for name in ("MASTER_ADDR", "MASTER_PORT") if name in environment}
