"""Protocols: the files that ship, the published task sets, and what is refused."""

import json
import random
import re
from pathlib import Path

import pytest

from collect.overlap import overlap_of, overlap_words, recipes_below, training_tasks
from collect.protocol import is_protocol, protocol_names, read_protocol, split_overrides
from collect.protocol_tasks import protocol_tasks, read_any
from collect.recipes import recipe_book
from collect.textcraft_tasks import build_tasks, world_seeds
from sera_data.errors import ConfigError, UsageError

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "tests/data/textcraft_synth/val.jsonl"
NAMES = ("held-out", "held-out-small", "rao-100", "single-agent", "single-agent-textworld", "textcraft-632",
         "textworld-1400", "tight", "true-depth")  # fmt: skip


def test_the_named_protocols_ship_and_are_named_by_their_files():
    assert protocol_names() == NAMES
    assert [read_protocol(name).name for name in NAMES] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_protocol_becomes_a_collect_phase_that_only_evaluates(name):
    protocol = read_protocol(name)
    phase = protocol.phase(seed=3, dialect=protocol.dialects[0])
    assert phase.seed == 3
    assert phase.sampling.act.temperature == protocol.temperature
    assert phase.sampling.act.max_tokens == protocol.completion_tokens
    assert (phase.budgets.context, phase.budgets.prompt) == (protocol.context_tokens, protocol.prompt_tokens)
    assert (phase.budgets.turns, phase.budgets.depth) == (protocol.steps, protocol.depth)
    assert phase.delegation.mode == "plain"
    assert phase.roles() == ("act",)
    assert not phase.groups.trains()


def test_published_budgets_are_as_published():
    found = {name: read_protocol(name) for name in NAMES}
    craft, cook = found["textcraft-632"], found["textworld-1400"]
    assert (craft.context_tokens, craft.prompt_tokens, craft.completion_tokens) == (10_240, 9_728, 512)
    assert (cook.context_tokens, cook.prompt_tokens, cook.completion_tokens) == (13_312, 10_240, 3_072)
    assert {(p.steps, p.depth, p.temperature) for p in (craft, cook)} == {(20, 3, 0.0)}
    alone = found["single-agent"], found["single-agent-textworld"]
    assert {(p.steps, p.depth) for p in alone} == {(200, 0)}
    assert len(craft.seeds) == 3


def test_the_published_file_is_recognised_and_ours_has_the_same_goals():
    protocol = read_protocol("textcraft-632")
    published, own = protocol_tasks(protocol, PUBLISHED), protocol_tasks(protocol, None)
    assert (published.source, own.source) == ("published", "same goals")
    assert dict(published.counts()) == dict(own.counts()) == {"easy": 147, "medium": 213, "hard": 136, "extreme": 136}
    assert published.task_set != own.task_set
    assert [task.upstream_id for task in published.tasks[:2]] == ["textcraft_synth.val.0", "textcraft_synth.val.1"]


def test_other_goals_under_a_published_name_are_refused(tmp_path):
    part = tmp_path / "part.jsonl"
    part.write_text("".join(PUBLISHED.read_text().splitlines(keepends=True)[:40]))
    with pytest.raises(UsageError, match=rf"{part}: these 40 tasks .* are not the 632 of protocol textcraft-632"):
        protocol_tasks(read_protocol("textcraft-632"), part)


def test_rao_takes_100_tasks_without_the_extreme_band_by_seed_42():
    chosen = protocol_tasks(read_protocol("rao-100"), PUBLISHED).tasks
    rest = [task for task in read_any(PUBLISHED) if task.difficulty != "extreme"]
    random.Random(42).shuffle(rest)
    assert list(chosen) == rest[:100]


def test_tight_tasks_hold_exactly_what_is_needed_or_s_times_of_it():
    tight = protocol_tasks(read_protocol("tight"), None)
    loose = protocol_tasks(read_protocol("tight", ["tasks.build.surplus=2.0", "tasks.build.distractors=0"]), None)
    plenty = protocol_tasks(read_protocol("textcraft-632"), None)

    def units(found):
        return sum(sum(task.spec["inventory"].values()) for task in found.tasks)

    assert tight.source == "same goals"
    assert units(tight) < units(loose) < units(plenty)
    with pytest.raises(UsageError, match="surplus"):
        protocol_tasks(read_protocol("tight", ["tasks.build.surplus=0.5"]), None)


def test_true_depth_bands_are_equal_and_measured():
    found = protocol_tasks(read_protocol("true-depth", ["tasks.build.n=200", "tasks.per_true_depth=5"]), None)
    assert set(found.counts().values()) <= set(range(1, 6))
    assert len(found.counts()) >= 8
    for task in found.tasks:
        (item,) = task.spec["targets"]
        book = recipe_book(task.spec["world_seed"], task.spec["items_per_tier"], task.spec["max_tier"])
        assert found.bands[task.task_id] == f"depth {book.depths[item]}"


def test_the_tier_label_is_larger_than_the_true_depth_for_164_items():
    book = recipe_book(42, 25)
    assert sum(book.depths[item] < recipe.tier for item, recipe in book.recipes.items()) == 164
    assert all(book.depths[item] <= recipe.tier for item, recipe in book.recipes.items())
    assert {book.depths[item] for item in book.recipes if item.startswith("x10_")} == {8}


def test_held_out_worlds_are_in_no_training_configuration():
    held_out = set()
    for name in NAMES:
        protocol = read_protocol(name)
        if protocol.held_out:
            held_out |= set(world_seeds(protocol.tasks.build["worlds"]))
    assert held_out
    texts = [*(ROOT / "configs").glob("*.yaml"), *(ROOT / "learn").rglob("*.yaml"), *(ROOT / "learn").glob("*.py")]
    ranges = [found for path in texts for found in re.findall(r"(?:worlds: |WORLDS = \")(\d+-\d+)", path.read_text())]
    assert len(ranges) >= 2
    for text in ranges:
        assert not held_out & set(world_seeds(text)), text


def test_published_validation_targets_are_mostly_intermediates_of_training_goals():
    training = build_tasks({"world_seed": 42, "items_per_tier": 25, "split": "train"})
    body = overlap_of(read_any(PUBLISHED), training)
    assert len(training) == 2522
    assert (body["targets_seen"], body["targets"]) == (221, 256)
    assert (body["same_tasks"], body["same_goals"]) == (0, 0)
    assert "221 of 256 target items" in overlap_words(body)


def test_equal_names_in_other_worlds_are_no_overlap(tmp_path):
    first, second = (build_tasks({"worlds": str(seed), "n": 5, "split": "x"}) for seed in (1000, 1001))
    assert overlap_of(first, first)["recipes_seen"] == overlap_of(first, first)["recipes"] > 0
    assert overlap_of(first, first)["same_tasks"] == 5
    shared = set().union(*map(recipes_below, first)) & set().union(*map(recipes_below, second))
    assert overlap_of(second, first)["recipes_seen"] == len(shared) < overlap_of(second, first)["recipes"]
    path = tmp_path / "train.jsonl"
    path.write_text(PUBLISHED.read_text())
    assert len(training_tasks(path, protocol=None)) == 632
    assert training_tasks(None, protocol=None) is None
    assert "unknown" in overlap_words(None)


def test_names_files_and_mistakes(tmp_path):
    assert is_protocol("tight")
    assert not is_protocol("t1")
    with pytest.raises(UsageError, match="did you mean 'textcraft-632'"):
        is_protocol("textcraft-623")
    with pytest.raises(UsageError, match="no protocol 'mine'; allowed: held-out,"):
        read_protocol("mine")
    path = tmp_path / "mine.yaml"
    body = read_protocol("held-out-small").resolved() | {"name": "mine", "steps": [4, 4]}
    path.write_text(json.dumps(body))
    with pytest.raises(ConfigError, match=r"mine.yaml: .*steps lists one number per depth: depth 2 wants 3, got 2"):
        read_protocol(str(path))
    assert read_protocol(str(path), ["depth=1"]).steps == (4, 4)
    with pytest.raises(ConfigError, match=r"unknown key 'deep'; allowed here: .*depth"):
        read_protocol("tight", ["deep=1"])
    assert split_overrides(["depth=1", "collect.concurrency=3"]) == (["depth=1"], ["concurrency=3"])
