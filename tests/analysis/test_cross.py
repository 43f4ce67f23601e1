"""Writers x scorers: every figure against plain loops, missing scores as worst, differences on the same tasks."""

import numpy as np
import pytest

from analysis.cross import crossed
from analysis.page_cross import crossing

OPTIONS = {"store": "s", "reps": 200, "seed": 17, "margin": 0.2}


def lines(*, seed=0, tasks=12):
    """Two writers and two scorers on the same branches; the second writer's scores are noise, some are missing."""
    draw = np.random.default_rng(seed)
    branches = [(f"t{t}", f"d{t}.{d}", f"n{t}.{d}.{b}", float(draw.random() < 0.5))
                for t in range(tasks) for d in range(2) for b in range(6)]  # fmt: skip
    made = []
    for writer, signal in (("good", 0.4), ("noise", 0.0)):
        for scorer in ("one", "two"):
            for task, delegation, node, y in branches:
                score = round(float(np.clip(0.3 + signal * y + 0.1 * draw.normal(), 0, 1)), 1)
                missing = draw.random() < 0.1
                made.append({"writer": writer, "scorer": scorer, "task_id": task, "delegation_id": delegation,
                             "node_id": node, "y": y, "score": None if missing else score})  # fmt: skip
    return made


def test_combinations_equal_plain_loops():
    made = lines()
    result = crossed(made, {"key": "k"}, **OPTIONS)
    assert [(c.writer, c.scorer) for c in result.combinations] == [
        ("good", "one"), ("good", "two"), ("noise", "one"), ("noise", "two")
    ]  # fmt: skip
    for found in result.combinations:
        own = [r for r in made if (r["writer"], r["scorer"]) == (found.writer, found.scorer)]
        scores = [1 - r["y"] if r["score"] is None else r["score"] for r in own]
        marked = list(zip(scores, own, strict=True))
        pairs = [(a, b) for a, ra in marked for b, rb in marked
                 if ra["delegation_id"] == rb["delegation_id"] and ra["y"] > rb["y"]]  # fmt: skip
        gaps = np.array([round(a - b, 9) for a, b in pairs])
        assert (found.pairs, found.nodes, found.tasks) == (len(gaps), len(own), 12)
        assert found.pair_accuracy == pytest.approx(np.mean((gaps > 0) + 0.5 * (gaps == 0)))
        assert found.mean_hinge == pytest.approx(np.mean(np.maximum(0, 0.2 - gaps)))
        assert found.bias == pytest.approx(np.mean([s - r["y"] for s, r in zip(scores, own, strict=True)]))
        assert found.missing == pytest.approx(np.mean([r["score"] is None for r in own]))
        assert found.low <= found.pair_accuracy <= found.high


def test_a_better_writer_is_told_from_noise_on_the_same_tasks():
    good, _, noise, _ = crossed(lines(), {}, **OPTIONS).combinations
    assert (good.against_first, good.against_low, good.against_high) == (0, 0, 0)
    assert noise.against_first == pytest.approx(noise.pair_accuracy - good.pair_accuracy)
    assert noise.against_high < 0


def test_the_section_of_the_page_shows_every_combination_and_what_it_was_measured_for():
    about = {"policies": {"<pocket>": ["pocket", 3, "ab" * 32]}, "key": "cd" * 32}
    result = crossed(lines(), about, **OPTIONS)
    text = crossing(result)
    assert text.count("<tr>") == 1 + len(result.combinations)
    assert f"{100 * result.combinations[2].pair_accuracy:.1f} %" in text
    assert "&lt;pocket&gt; version 3, weights abababababab" in text
    assert "hash to cdcdcdcdcdcd" in text
    assert crossing(None) == ""
    assert "No mixed delegation" in crossing(crossed([], about, **OPTIONS))
