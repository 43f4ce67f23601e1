"""A sealed store whose scores are noisy but informative, made from the rows of `small_store`, with updates."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import sera_data as sd

sys.path.insert(0, str(Path(__file__).parent.parent / "sera_data"))
import small_store as small

BANDS = {"easy": 0.75, "medium": 0.5, "hard": 0.2}


def noisy_store(path: Path, *, epochs=2, tasks=12, samples=2, seed=0, signal=0.3, updates=True) -> sd.Store:
    """`epochs` sealed epochs of `tasks` tasks in three difficulty bands; scores on a 0.1 grid rise with success."""
    draw = np.random.default_rng(seed)
    store = sd.create(path)
    for epoch in range(epochs):
        units = [{"unit_id": f"u{i:04d}", "purpose": small.PURPOSES[i % 3]} for i in range(tasks)]
        plan = sd.claim_plan(
            store, run_id=small.RUN, phase="collect", policy_hash="b" * 64, config_hash=f"{epoch:064x}", units=units
        )
        for index, unit in enumerate(units):
            band = list(BANDS)[index % 3]
            rows = small.unit_rows(
                small.task_id(index), epoch=plan.epoch, samples=samples, purpose=unit["purpose"], version=4 * epoch
            )
            rows["tasks"] = [small.task_row(small.task_id(index), difficulty=band)]
            _disturb(rows, draw, rate=BANDS[band] + 0.08 * epoch, signal=signal + 0.12 * epoch)
            small.write_unit(store, plan, unit["unit_id"], rows)
        sd.seal(store, plan.name)
        if updates:
            _learn(store, plan.epoch)
    return store


def _disturb(rows, draw, *, rate, signal):
    won = {}
    for label in rows["labels"]:
        won[label["node_id"]] = label["value"] = float(draw.random() < rate)
    for score in rows["scores"]:
        level = 0.3 + signal * won[score["node_id"]] + 0.22 * draw.normal()
        score["final_score"] = round(float(np.clip(level, 0, 1)), 1)


def _learn(store, epoch):
    plan = sd.claim_addition(
        store, epoch, run_id=small.RUN, phase="learn", config_hash=f"{epoch:064x}", units=[{"unit_id": "u0000"}]
    )
    stages = ("execution", "execution", "delegation", "rubric")
    rows = [_update(4 * epoch + i, stage) for i, stage in enumerate(stages)]
    rows.append({**_update(4 * epoch + 4, "rubric"), **dict.fromkeys(MEASURES), "skip_reason": "no mixed group"})
    small.write_unit(store, plan, "u0000", {"runs": [small.run_row(phase="learn")], "updates": rows})
    sd.seal(store, plan.name)


MEASURES = (
    "loss", "grad_norm", "lr", "entropy", "ratio_mean", "ratio_max", "clip_share", "ess", "kl", "mismatch",
    "advantage_mean", "advantage_abs_mean", "version_gap_mean",
)  # fmt: skip


def _update(version, stage):
    return {
        "update": version, "attempt": 0, "stage": stage, "method": "sera", "loss_kind": "cispo",
        "version_in": version, "version_out": version + 1, "skip_reason": None, "group_ids": ["0/t"],
        "datum_ids": ["d"],
        "n_groups_dropped": 0, "n_datums": 8, "n_tokens": 900, "n_trained_tokens": 300, **dict.fromkeys(MEASURES, 0.1),
        "credit_sha256": "0" * 64, "plan_sha256": "0" * 64, "snapshot_sha256": "0" * 64,
    }  # fmt: skip
