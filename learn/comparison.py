"""A comparison: one cell per row and seed, each a chain of `sera` commands; cells run side by side as processes.

Invariant: a cell's steps are a pure function of the config, every step is a command that resumes, and `cell.json` says
which are done; so the comparison can be killed at any moment, repeated, and ends with the same cells. A cell that
fails leaves the others running; its log says why. Nothing is chosen: the last policy of a cell is measured.

    OUT/  compare.json · start/ · sera.s1/ {cell.json, cell.log, loop/, evals/, probe/} ... · compare.md · compare.html
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learn.compare_config import START, CompareConfig
from learn.epochs import collect_epochs
from learn.process import COMMAND, environment, run_phase
from learn.state_file import read_object, replace_file
from sera_data.canonical import canonical_json
from sera_data.errors import ConfigError, SeraError

STATE, CELL, LOG = "compare.json", "cell.json", "cell.log"
POLL_S = 0.2
Runner = Callable[[list[str | Path]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Cell:
    """One trained policy and its measurements; the start weights are the cell without a seed."""

    row: str
    seed: int | None

    @property
    def name(self) -> str:
        """Directory of the cell."""
        return self.row if self.seed is None else f"{self.row}.s{self.seed}"


class CellError(SeraError):
    """Cells that did not end."""


def cells(config: CompareConfig) -> list[Cell]:
    """All cells, the start first, then seed by seed, so that a partial table has every row."""
    return [Cell(START, None), *(Cell(row, seed) for seed in config.seeds for row in config.rows)]


def steps(config: CompareConfig, cell: Cell, out: Path, *, policy: str) -> Iterator[tuple[str, list[str | Path]]]:
    """Names and commands of a cell; `policy` is the trained policy (the start's own for the start)."""
    home = out / cell.name
    if cell.seed is not None:
        yield "train", _train(config, cell, home)
    for key, protocol in config.protocols.items():
        if protocol.rows is not None and cell.row not in protocol.rows:
            continue
        command: list[str | Path] = ["eval", "--store", home / "evals", "--policy", policy, "--tasks", config.tasks]
        command += ["--samples", str(protocol.samples), "--temperature", str(protocol.temperature), "--protocol", key]
        command += ["--config", config.evaluation] if config.evaluation else []
        command += ["--limit", str(protocol.limit)] if protocol.limit else []
        yield f"eval {key}", command
    if config.probe is not None:
        command = ["collect", "--config", config.probe.config, "--tasks", config.probe.tasks, "--store", home / "probe"]
        command += [part for override in config.probe.overrides for part in ("--set", override)]
        yield "probe", [*command, "--set", f"policy.roles.writer={policy}", "--seal"]


def _train(config: CompareConfig, cell: Cell, home: Path) -> list[str | Path]:
    row = config.rows[cell.row]
    if config.snapshot is None:
        command: list[str | Path] = ["loop", "--config", config.loop, "--out", home / "loop"]
        changes = [f"seed={cell.seed}", f"learn.method={row.method}", *row.overrides]
    else:
        command = ["learn", "--config", home / "learn.yaml", "--store", config.snapshot.store, "--out", home / "learn"]
        command += ["--from", start_policy(config)]
        command += [] if config.snapshot.epoch is None else ["--epoch", str(config.snapshot.epoch)]
        learn = [name.removeprefix("learn.") for name in row.overrides if name.startswith("learn.")]
        changes = [f"seed={cell.seed}", f"method={row.method}", *learn]
    return [*command, *(part for change in changes for part in ("--set", change))]


def start_policy(config: CompareConfig) -> str:
    """The spec of the start weights."""
    from learn.config import LoopConfig
    from sera_data.config import load_config

    return load_config(LoopConfig, Path(config.loop)).policy


def play_cell(config: CompareConfig, cell: Cell, out: Path, *, run: Runner = run_phase) -> dict[str, Any]:
    """Run what is not done of one cell; returns its state {step: result}."""
    home = out / cell.name
    home.mkdir(parents=True, exist_ok=True)
    if config.snapshot is not None:
        _write_learn(config, home)
    done = read_cell(out, cell)
    policy = str(done.get("train", {}).get("policy") or start_policy(config))
    for name, command in _each(config, cell, out, policy, done):
        if name == "probe" and _sealed(home / "probe"):  # sealed, and killed before that was noted
            done[name] = {"sealed": True}
        else:
            started = time.monotonic()
            done[name] = {**run(command), "passed_s": round(time.monotonic() - started, 1)}
        replace_file(home / CELL, canonical_json(done).encode())
    return done


def _each(
    config: CompareConfig, cell: Cell, out: Path, policy: str, done: dict[str, Any]
) -> Iterator[tuple[str, list[str | Path]]]:
    """Steps to do. The measurements are known only when the policy is."""
    if cell.seed is not None and "train" not in done:
        yield next(steps(config, cell, out, policy=policy))
        policy = str(done["train"]["policy"])
    for name, command in steps(config, cell, out, policy=policy):
        if name not in done:
            yield name, command


def _write_learn(config: CompareConfig, home: Path) -> None:
    """The learn settings that the loop config states; what it leaves open is the row's method's, as in a loop."""
    import yaml

    from learn.config import LoopConfig
    from sera_data.config import load_config

    learn = load_config(LoopConfig, Path(config.loop)).learn.model_dump(mode="json", exclude_unset=True)
    replace_file(home / "learn.yaml", yaml.safe_dump(learn, sort_keys=False).encode())


def _sealed(store: Path) -> bool:
    import sera_data

    return (store / "store.json").exists() and bool(collect_epochs(sera_data.open(store)))


def read_cell(out: Path, cell: Cell) -> dict[str, Any]:
    """What is done of a cell, by step."""
    path = out / cell.name / CELL
    return read_object(path, hint="remove it: finished steps are found again in their stores") if path.exists() else {}


def finished(config: CompareConfig, cell: Cell, out: Path) -> bool:
    """True when every step of the cell is done."""
    done = read_cell(out, cell)
    return all(name in done for name, _ in steps(config, cell, out, policy=""))


def open_comparison(config: CompareConfig, out: Path) -> None:
    """Make the directory, or see that it belongs to this config; rows, seeds and contrasts may only be added."""
    out.mkdir(parents=True, exist_ok=True)
    path, body = out / STATE, {"config": config.resolved()}
    if path.exists():
        before = read_object(path, hint="give another --out").get("config", {})
        for key, value in body["config"].items():
            old = before.get(key)
            grown = key in ("rows", "seeds") and (
                all(value.get(k) == v for k, v in old.items()) if isinstance(old, dict) else {*old} <= {*value}
            )
            if old != value and not grown:
                msg = f"{out} holds a comparison with another config; different here: {key}"
                raise ConfigError(
                    msg, hint="give another --out; rows and seeds may be added, claims may not be changed"
                )
    replace_file(path, canonical_json(body).encode())


def play(
    config: CompareConfig,
    out: Path,
    *,
    config_file: Path,
    overrides: Sequence[str],
    jobs: int,
    on_change: Callable[[Cell, str], None],
) -> None:
    """Run all cells, `jobs` at a time, each a process; CellError names those that failed, after the others ended."""
    waiting = [cell for cell in cells(config) if not finished(config, cell, out)]
    running: dict[str, tuple[Cell, subprocess.Popen[bytes]]] = {}
    failed: list[str] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                cell = waiting.pop(0)
                running[cell.name] = (cell, _start(cell, out, config_file, overrides))
                on_change(cell, "started")
            for name, (cell, process) in list(running.items()):
                if process.poll() is not None:
                    del running[name]
                    failed += [name] if process.returncode else []
                    on_change(cell, f"failed, see {out / name / LOG}" if process.returncode else "done")
            time.sleep(POLL_S)
    finally:
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.wait()
    if failed:
        msg = f"{len(failed)} of {len(cells(config))} cells failed: {', '.join(failed)}"
        raise CellError(msg, hint=f"{out / failed[0] / LOG} says why; the same command runs them again")


def _start(cell: Cell, out: Path, config_file: Path, overrides: Sequence[str]) -> subprocess.Popen[bytes]:
    home = out / cell.name
    home.mkdir(parents=True, exist_ok=True)
    command = [*COMMAND, "compare", "--config", str(config_file), "--out", str(out), "--cell", cell.name, "--json"]
    command += [part for override in overrides for part in ("--set", override)]
    with (home / LOG).open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment())
