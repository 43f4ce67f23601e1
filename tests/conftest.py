"""What all tests share, and the order of their files."""

import gc
import signal
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard():
    """Runners that work side by side ignore Ctrl-C, and what is ignored stays so in a command and its children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_keys(monkeypatch):
    """Neither keys nor proxies of whoever runs the tests."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    for name in ("SERA_POLICY_KEY", "SERA_JUDGE_KEY", "OPENAI_API_KEY", *proxies, *map(str.lower, proxies)):
        monkeypatch.delenv(name, raising=False)


LONGEST = (
    "learn/test_h200_script.py",
    "analysis/test_browser.py",
    "collect/test_published_tasks.py",
    "learn/test_stopping.py",
    "learn/test_launchers.py",
    "learn/test_checkpoint.py",
    "learn/test_loop_kills.py",
    "learn/test_compare_run.py",
    "learn/test_loop_divergence.py",
    "learn/test_slurm.py",
    "packaging/test_wheel.py",
    "learn/test_engine.py",
    "sera_data/test_processes.py",
    "collect/test_ray.py",
    "collect/test_smollm2.py",
    "sera_data/test_object_crashes.py",
    "sera_data/test_crash.py",
    "analysis/test_plants.py",
    "learn/test_object_store.py",
    "learn/test_lora.py",
    "learn/test_phase.py",
)
"""Files whose slow tests take minutes, the longest first: what starts last should be short, so that no core waits."""


def pytest_collection_modifyitems(items):
    """Files of many minutes come first, the others stay as they are; runners side by side start them in this order."""
    here = Path(__file__).parent
    places = {str(here / name): place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(str(item.path), len(LONGEST)))


def pytest_collection_finish():
    """What was imported stays: looked through once more in every collection of garbage, it took a second each."""
    gc.collect()
    gc.freeze()
