"""Memory of the vocabulary loss: that of a tile, whatever the numbers of tokens and entries."""

import json
import os
import subprocess
import sys

import pytest

import learn.vocabulary as module
from learn.vocabulary import peak_bytes

MEASURE = """
import json, sys
from pathlib import Path
import torch
import learn.vocabulary as module
from learn.vocabulary import TokenLogprob
module.TILE, module.KEEP = json.loads(sys.argv[2])
torch.set_num_threads(1)
rows, vocabulary, hidden, kind = json.loads(sys.argv[1])
dtype = getattr(torch, kind)
def status(name):
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(name))
    return int(line.split()[1]) * 1024
def work(n, v):
    states = torch.randn(n, hidden).to(dtype).requires_grad_()
    weight = (torch.randn(v, hidden) / hidden).to(dtype).requires_grad_()
    targets = torch.randint(0, v, (n,))
    weight.grad = torch.zeros_like(weight)
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    TokenLogprob.apply(states, weight, targets, None, 1.0, 256, module.KEEP)[0].sum().backward()
    return status("VmHWM") - before
work(8, 64)
print(work(rows, vocabulary))
"""


def measured(rows, vocabulary, hidden, kind):
    """Peak growth in bytes of forward and backward in a process of its own; the gradient of the weight is in it."""
    arguments = [json.dumps([rows, vocabulary, hidden, kind]), json.dumps([module.TILE, module.KEEP])]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    env["MALLOC_MMAP_THRESHOLD_"] = "65536"  # what is freed goes back to the system
    done = subprocess.run([sys.executable, "-c", MEASURE, *arguments], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="peak memory is read from /proc")
@pytest.mark.parametrize("keep", [0, 2**22, 2**25])
def test_the_measured_peak_is_the_computed_one_and_a_fraction_of_the_logits(monkeypatch, keep):
    monkeypatch.setattr(module, "TILE", 2**22)
    monkeypatch.setattr(module, "KEEP", keep)
    rows, vocabulary, hidden = 512, 60_000, 8
    computed = peak_bytes(rows, vocabulary, hidden, chunk=256)
    found = measured(rows, vocabulary, hidden, "float32") - 4 * vocabulary * hidden  # the weight's gradient apart
    assert found == pytest.approx(computed, rel=0.15)
    if keep < rows * vocabulary:
        assert found < 4 * rows * vocabulary / (2 if keep else 3)


def test_sixty_thousand_tokens_of_qwen3_stay_below_two_gibibytes():
    for width in (2, 4):  # bf16 and fp32
        assert peak_bytes(60_000, 151_936, 2560, bytes_per_weight=width) < 2 * 2**30
    assert 4 * 60_000 * 151_936 > 33 * 2**30  # what one copy of the logits would take


def test_more_tokens_and_entries_take_no_more_tiles():
    small, large = (peak_bytes(n, v, 0) for n, v in ((2048, 2**15), (60_000, 2**20)))
    assert large - 16 * 60_000 == 4 * (2 * module.TILE + module.KEEP)
    assert small - 16 * 2048 == 4 * (module.TILE + 2048 * 2**15)  # all are kept, the last one beside its exponentials
