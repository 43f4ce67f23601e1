"""Policy directories: written whole, read verified, refused when anything differs."""

import json

import pytest

from collect.policy_directory import PolicyDirectoryError, read_policy_directory, write_policy_json


@pytest.fixture
def folder(tmp_path):
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab_mask.json"):
        (tmp_path / name).write_text(f"{{}} {name}")
    (tmp_path / "chat_template.jinja").write_text("template")
    (tmp_path / "README.md").write_text("read me")
    write_policy_json(tmp_path, name="pocket", version=4, style="terse", parent="ab" * 32, run_id="demo-00000000")
    return tmp_path


def test_round_trip(folder):
    policy = read_policy_directory(folder)
    assert (policy.name, policy.version, policy.style, policy.run_id) == ("pocket", 4, "terse", "demo-00000000")
    assert policy.verified
    identity = policy.identity(engine="transformers")
    assert identity.version == 4
    assert None not in (identity.weights_sha256, identity.tokenizer_sha256, identity.template_sha256)
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["model.safetensors", "vocab_mask.json", "tokenizer.json", "chat_template.jinja"])
def test_changed_file_is_named(folder, name):
    before = read_policy_directory(folder)
    with (folder / name).open("a") as handle:
        handle.write("x")
    with pytest.raises(PolicyDirectoryError, match=f"{name} differs"):
        read_policy_directory(folder)
    after = write_policy_json(folder, name="pocket", version=5, style="terse", parent=before.sha256)
    assert after.parent == before.sha256
    assert (after.weights_sha256 != before.weights_sha256) == (name in ("model.safetensors", "vocab_mask.json"))


def test_missing_and_added_files_are_named(folder):
    (folder / "vocab_mask.json").rename(folder / "other_mask.json")
    with pytest.raises(PolicyDirectoryError, match=r"other_mask\.json is not named"):
        read_policy_directory(folder)
    (folder / "other_mask.json").unlink()
    with pytest.raises(PolicyDirectoryError, match=r"vocab_mask\.json is missing"):
        read_policy_directory(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "format 2, this release reads format 1"),
        ({"style": "loud"}, "style"),
        ({"version": "4"}, "version"),
        ({"version": -1}, "version.*greater than or equal to 0"),
        ({"version": 2**70}, "version.*less than"),
        ({"files": {"../secret": "00"}}, "not a plain file name"),
        ({"extra": 1}, "extra"),
    ],
)
def test_wrong_policy_json_is_refused(folder, change, says):
    body = json.loads((folder / "policy.json").read_text())
    (folder / "policy.json").write_text(json.dumps(body | change))
    with pytest.raises(PolicyDirectoryError, match=says):
        read_policy_directory(folder)


def test_half_written_directory_is_refused(folder, tmp_path_factory):
    (folder / "policy.json").unlink()
    with pytest.raises(PolicyDirectoryError, match=r"policy\.json is missing"):
        read_policy_directory(folder)
    (folder / "policy.json").write_text('{"format": 1, "na')
    with pytest.raises(PolicyDirectoryError, match="cannot read"):
        read_policy_directory(folder)
    with pytest.raises(PolicyDirectoryError, match="no policy directory"):
        read_policy_directory(folder / "nowhere")
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(PolicyDirectoryError, match=r"no \.safetensors"):
        write_policy_json(empty, name="x", version=0, style="full")


def test_a_downloaded_model_becomes_a_policy(tmp_path):
    from typer.testing import CliRunner

    from collect.policy_cli import app

    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}", encoding="utf-8")
    (model / "model.safetensors").write_bytes(b"weights")
    made = CliRunner().invoke(app, ["make", str(model), "--name", "mine", "--json"])
    assert made.exit_code == 0, made.output
    found = read_policy_directory(model)
    assert (found.name, found.version, found.style, found.verified) == ("mine", 0, "full", True)
    again = CliRunner().invoke(app, ["make", str(model), "--name", "mine"])
    assert "is a policy already" in str(again.exception)


def test_the_shipped_policy_is_shown_by_its_name():
    from typer.testing import CliRunner

    from collect.policy_cli import app

    shown = CliRunner().invoke(app, ["show", "pocket", "--json"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.output)["name"] == "pocket"
    assert "no pocket policy for 'chess'" in str(CliRunner().invoke(app, ["show", "pocket:chess"]).exception)
