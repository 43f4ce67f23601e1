"""Records become tasks of a profile, from files, manifests and configurations; bad input is located."""

import copy
import json

import pytest
from typer.testing import CliRunner

from collect.task_file import read_records, read_tasks, write_tasks
from collect.tasks_cli import app
from collect.textworld_foods import open_foods
from collect.textworld_form import check_record
from collect.textworld_manifest import SOURCES, write_manifest
from collect.textworld_records import build_records, record_line
from collect.textworld_tasks import SPEC_FIELDS, TextWorldParams, build_tasks, records_of, task_of, tasks_of
from collect.world_config import WorldConfig
from collect.worlds import open_world
from sera_data.canonical import sha256_file
from sera_data.errors import UsageError

RECORDS = list(build_records("test", open_foods(None), per_cell=1))


def write_records(path, records):
    path.write_text("".join(map(record_line, records)))
    return path


def test_a_task_carries_what_the_world_needs():
    for record in RECORDS:
        check_record(record)
        task = task_of(record, profile="strict")
        assert (task.world, task.profile, task.split) == ("textworld", "strict", "test")
        assert (task.family, task.difficulty, task.seed) == (
            record["task_family"],
            record["difficulty"],
            record["seed"],
        )
        assert task.goal == record["task_descriptions"][record["task_view"]]
        sampled = record["generation"]["v7_sampled_parameters"]["inventory_capacity"]
        assert task.spec == {name: record[name] for name in SPEC_FIELDS} | {"inventory_capacity": sampled}
        assert task.upstream_id == record["task_id"]


def test_profiles_are_different_tasks_of_one_record():
    (sync, strict) = (task_of(RECORDS[0], profile=name) for name in ("sync-v9", "strict"))
    assert sync.task_id != strict.task_id
    assert (sync.upstream_id, sync.spec) == (strict.upstream_id, strict.spec)


@pytest.mark.parametrize(
    "source, splits, count", [("installed", ("train", "dev", "test"), 3_100), (None, ("dev",), 200)]
)
def test_all_tasks_differ(source, splits, count):
    params = (TextWorldParams(generator="textworld", split=split, food_db=source) for split in splits)
    ids = [task.task_id for some in params for task in tasks_of(some, profile="sync-v9")]
    assert len(set(ids)) == len(ids) == count


def test_a_file_of_records_is_read_under_a_profile(tmp_path):
    path = write_records(tmp_path / "r.jsonl", RECORDS)
    assert read_tasks(path) == [task_of(record, profile="sync-v9") for record in RECORDS]
    strict = read_tasks(path, profile="strict")
    assert {task.profile for task in strict} == {"strict"}
    write_tasks(tmp_path / "t.jsonl", strict)
    assert read_tasks(tmp_path / "t.jsonl") == read_tasks(tmp_path / "t.jsonl", profile="sync-v9") == strict


def test_records_and_tasks_may_share_a_file(tmp_path):
    tasks = [task_of(record, profile="strict") for record in RECORDS]
    write_tasks(tmp_path / "t.jsonl", tasks[:3])
    lines = (tmp_path / "t.jsonl").read_text() + "".join(map(record_line, RECORDS[3:5]))
    (tmp_path / "mixed.jsonl").write_text(lines)
    assert read_tasks(tmp_path / "mixed.jsonl", profile="strict") == tasks[:5]
    (tmp_path / "twice.jsonl").write_text(lines + record_line(RECORDS[0]))
    with pytest.raises(UsageError, match=r"twice\.jsonl:6: task .* occurs already in line 1"):
        read_tasks(tmp_path / "twice.jsonl", profile="strict")


DELETED = object()


@pytest.mark.parametrize(
    "path, value, reason",
    [
        ("game_params", DELETED, "field 'game_params' is missing"),
        ("parallelism.mechanisms.tool_cooldown_steps", DELETED, "field 'parallelism.mechanisms.tool_cooldown_steps'"),
        ("colour", "red", "field 'colour': Extra inputs are not permitted, got 'red'"),
        ("seed", "5", "field 'seed': Input should be a valid integer, got '5'"),
        ("seed", 2**70, "field 'seed'"),
        ("schema_version", 2, "field 'schema_version'"),
        ("task_family", "pie", "field 'task_family': Input should be 'multi_dish_fork_join', .* got 'pie'"),
        ("difficulty", "brutal", "field 'difficulty'"),
        ("split", "val", "field 'split'"),
        ("task_id", "", "field 'task_id'"),
        ("task_id", "a\ud800", "field 'task_id'"),
        ("game_params.includeDoors", True, "field 'game_params.includeDoors'"),
        ("game_params.includeDoors", 2, "field 'game_params.includeDoors'"),
        ("game_params.numDishes", 9, "numDishes is 9, the record has 2 dishes"),
        ("dishes", [], "field 'dishes'"),
        ("dishes.0.recipe.1.preparation", ["uncut", "raw"], "field 'dishes.0.recipe.1.preparation.0'"),
        ("dishes.0.recipe.1.preparation", ["raw"], "field 'dishes.0.recipe.1.preparation"),
        ("dishes.0.recipe.0.candidate_source_locations", [], "field 'dishes.0.recipe.0.candidate_source_locations'"),
        ("dishes.0.ingredient_names.0", "x", "ingredient_names of dish_1 differ"),
        ("dishes.1.dish_id", "dish_1", "dishes must have different ids"),
        ("task_description", "Cook.", "task_description is not the structured one"),
        ("parallelism.dependencies", [{"from": "gate_1", "to": "dish_9", "type": "door"}], "a door leads to a dish"),
        ("parallelism.resource_capacity", {"inventory": 0}, "field 'parallelism.resource_capacity.inventory'"),
        ("parallelism.ideal_parallel_speedup", float("nan"), "field 'parallelism.ideal_parallel_speedup'"),
    ],
)
def test_a_malformed_record_names_its_field(path, value, reason):
    record = copy.deepcopy(RECORDS[0])
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    place = record
    for key in parents:
        place = place[key]
    if value is DELETED:
        del place[last]
    else:
        place[last] = value
    with pytest.raises(ValueError, match=reason):
        task_of(record, profile="sync-v9")


def test_a_malformed_line_is_located(tmp_path):
    path = write_records(tmp_path / "r.jsonl", [RECORDS[0], {**RECORDS[1], "seed": -1}])
    for read in (read_tasks, read_records):
        with pytest.raises(UsageError, match="field 'seed'") as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}:2: ")
    path.write_text(record_line(RECORDS[0]) + "{oops\n")
    for read in (read_tasks, read_records):
        with pytest.raises(UsageError, match=":2: not a JSON object"):
            read(path)
    write_records(path, [RECORDS[0], RECORDS[0]])
    with pytest.raises(UsageError, match=r":2: record .* occurs already in line 1"):
        read_records(path)
    with pytest.raises(ValueError, match="a record is a JSON object, got list"):
        check_record([])


def test_records_come_from_a_manifest_too(tmp_path):
    path = tmp_path / "m.json"
    write_manifest(path, RECORDS, open_foods(None))
    assert read_records(path) == RECORDS
    body = json.loads(path.read_text())
    body["tasks"][2]["seed"] = -1
    path.write_text(json.dumps(body))
    with pytest.raises(UsageError, match=f"{RECORDS[2]['task_id']}: field 'seed'"):
        read_records(path)


def test_a_configuration_may_build_its_tasks():
    config = WorldConfig.model_validate(
        {
            "name": "textworld",
            "profile": "strict",
            "tasks": {"generator": "textworld", "difficulties": ["easy"], "per_cell": 2},
        }
    )
    assert isinstance(config.tasks, TextWorldParams)
    assert WorldConfig.model_validate(config.resolved()) == config
    tasks = tasks_of(config.tasks, profile=config.profile)
    assert (len(tasks), {task.profile for task in tasks}, {task.split for task in tasks}) == (14, {"strict"}, {"train"})


def test_plain_parameters_build_the_same_tasks():
    plain = {"split": "dev", "per_cell": 1, "profile": "strict"}
    params = TextWorldParams(generator="textworld", split="dev", per_cell=1)
    assert build_tasks(plain) == tasks_of(params, profile="strict")
    assert {task.profile for task in build_tasks({"split": "dev", "limit": 1})} == {"sync-v9"}
    with pytest.raises(UsageError, match=r"task parameter 'split': .*got 'eval'"):
        build_tasks({"split": "eval"})


def test_unknown_words_in_a_configuration():
    for wrong in ({"split": "val"}, {"families": ["pie"]}, {"families": []}, {"per_cell": 0}, {"colour": "red"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            TextWorldParams.model_validate({"generator": "textworld", **wrong})


def run(*args):
    return CliRunner().invoke(app, list(args), catch_exceptions=False)


def test_build_writes_the_published_files(tmp_path):
    out, manifest = tmp_path / "deep" / "dev.jsonl", tmp_path / "dev.json"
    args = ("build", "textworld", "--split", "dev", "--food-db", "installed")
    facts = json.loads(run(*args, "--out", str(out), "--manifest", str(manifest), "--json").stdout)
    assert (facts["n_tasks"], facts["published"], facts["foods"]) == (200, True, "textworld-express-1.1.0")
    assert sha256_file(out) == SOURCES["dev"] == facts["jsonl_sha256"] == facts["source_sha256"]
    assert read_records(manifest) == read_records(out)
    assert "(the published split)" in run(*args).stdout


def test_build_with_our_foods_and_a_choice(tmp_path):
    out = tmp_path / "easy.jsonl"
    options = ("--difficulty", "easy,hard", "--family", "conflict", "--per-cell", "4", "--limit", "7")
    result = run("build", "textworld", *options, "--out", str(out), "--json")
    facts = json.loads(result.stdout)
    assert facts["difficulties"] == {"hard": 4, "easy": 3}
    assert (facts["families"], facts["published"]) == ({"conflict": 7}, False)
    assert len(read_tasks(out)) == 7
    shown = run("build", "textworld", *options).stdout
    assert "foods sera-kitchen-1" in shown
    assert "(not a published split)" in shown


@pytest.mark.parametrize(
    "args, reason",
    [
        (("--split", "val"), "--split: .*'train', 'dev' or 'test', got 'val'"),
        (("--family", "pie"), "--family: .*'hierarchical', got 'pie'"),
        (("--difficulty", "easy"), "has no easy tasks"),
        (("--per-cell", "0"), "--per-cell"),
        (("--per-cell", "201"), "from 1 to 200"),
        (("--limit", "0"), "--limit"),
        (("--food-db", __file__), "has sha256"),
        (("--out", "x", "--manifest", "x"), "the same file"),
    ],
)
def test_wrong_options_are_usage_errors(tmp_path, args, reason):
    with pytest.raises(UsageError, match=reason):
        run("build", "textworld", *args)


@pytest.mark.parametrize("profile", ["sync-v9", "strict"])
def test_import_writes_tasks_of_a_profile(tmp_path, profile):
    out = tmp_path / "t.jsonl"
    manifest = tmp_path / "m.json"
    write_manifest(manifest, RECORDS, open_foods(None))
    for source in (write_records(tmp_path / "r.jsonl", RECORDS), manifest):
        args = ("import", "textworld", str(source), "--profile", profile, "--out", str(out), "--json")
        facts = json.loads(run(*args).stdout)
        assert (facts["n_tasks"], facts["profile"], facts["published"]) == (28, profile, False)
        assert read_tasks(out) == [task_of(record, profile=profile) for record in RECORDS]


def test_import_refuses_what_it_cannot_play(tmp_path):
    path = write_records(tmp_path / "r.jsonl", [*RECORDS[:2], {**RECORDS[2], "difficulty": "brutal"}])
    with pytest.raises(UsageError, match=r"r\.jsonl:3: field 'difficulty'"):
        run("import", "textworld", str(path), "--out", str(tmp_path / "out.jsonl"))
    assert not (tmp_path / "out.jsonl").exists()
    write_records(path, RECORDS[:1])
    with pytest.raises(UsageError, match="no profile 'lax'; allowed: sync-v9, strict"):
        run("import", "textworld", str(path), "--profile", "lax")


@pytest.mark.parametrize("profile", ["sync-v9", "strict"])
def test_tasks_with_our_foods_can_be_started(profile):
    world = open_world("textworld", profile=profile)
    for task in tasks_of(TextWorldParams(generator="textworld", split="test", per_cell=3), profile=profile):
        assert world.over(world.reset(task)) is None


def test_records_of_nothing_asked_are_the_published_counts():
    assert len(records_of(TextWorldParams(generator="textworld", split="dev"))) == 200
