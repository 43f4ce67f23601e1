"""A small sealed store that scripts played once, copied for each test, and labelling it through a judge's endpoint."""

import functools
import json
import shutil
import sys
import tempfile
from pathlib import Path

import sera_data as sd
from collect.label_config import LabelConfig
from collect.label_job import run_labels
from collect.label_selection import select
from collect.labels import Opinion, open_labeller

sys.path.insert(0, str(Path(__file__).parent))
import job_lab

FAST = {"retry_wait_s": 0.0, "retries": 1, "timeout_s": 20.0}


@functools.cache
def _played():
    path = Path(tempfile.mkdtemp(prefix="label_lab"))
    store, job, _ = job_lab.play(path / "store", job_lab.small_config("policy.model=scripted:teacher"))
    sd.seal(store, job.plan.name)
    return path


def copied(tmp_path):
    """A copy of the played store."""
    return sd.open(shutil.copytree(_played() / "store", tmp_path / "store"))


def label(store, spec, *, part=None, labeller=None, **settings):
    """Run `sera label` without its command; returns the summary."""
    config = LabelConfig(labeller=spec, **{**FAST, **settings})
    chosen = labeller or open_labeller(spec, settings=config.settings())
    return run_labels(store, config, chosen, part=part, quiet=True)


def chosen(store, spec="rule:finish", **settings):
    """Nodes that `sera label` would label now, and with which probability."""
    config = LabelConfig(labeller=spec, **settings)
    found = select(store, config, open_labeller(spec, settings=config.settings()))
    units = [unit for units in found.units.values() for unit in units]
    return {node for unit in units for node, _, _ in unit["votes"]}, {unit["inclusion_probability"] for unit in units}


def judged(store):
    """Label rows of judges, in stored order."""
    return store.sql("from labels where kind = 'judge' order by node_id, source, version, attempt").pl().to_dicts()


def nodes(store):
    """Ids of the nodes, in order."""
    return [row[0] for row in store.sql("select node_id from nodes order by 1").fetchall()]


def texts_of(path):
    """Every byte of every file below a path, Parquet files decoded to JSON as well."""
    found = []
    for file in sorted(path.rglob("*")):
        if file.is_file():
            found.append(file.read_bytes().decode("latin-1"))
            if file.suffix == ".parquet":
                import polars as pl

                found.append(json.dumps(pl.read_parquet(file).to_dicts(), default=str))
    return "\n".join(found)


class Scripted:
    """A labeller that says yes, until it has said so `most` times: then it breaks."""

    kind, concurrency = "judge", 1

    def __init__(self, most=10**9):
        self.most, self.subjects, self.closed = most, [], False

    def signature(self, world):
        return "scripted", f"{world.name}-1"

    async def label(self, subject, *, attempt):
        if len(self.subjects) >= self.most:
            msg = "broken"
            raise RuntimeError(msg)
        self.subjects.append(subject)
        return Opinion(value=1.0)

    async def close(self):
        self.closed = True
