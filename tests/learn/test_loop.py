"""The loop's bookkeeping with stand-ins for the phases: order, restart after a kill at any point, refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sera_data as sd
from collect.transformers_policy import POCKETS
from learn import loop as module
from learn import process
from learn.config import LearnConfig, LoopConfig
from learn.demo_cli import PRESETS
from learn.learn_cli import policy_directory
from learn.loop import Loop, LoopError
from learn.process import PhaseError, run_phase
from sera_data.config import load_config
from sera_data.errors import ConfigError, SeraError, UsageError

CONFIG = LoopConfig(epochs=2, margin=1.5, learn=LearnConfig(updates_per_collect=4, groups_per_update=2))


class Killed(Exception):
    pass


class World:
    """Phases that only count; `kill` says at which event the process dies."""

    def __init__(self, out, kill=None):
        self.out, self.kill, self.events, self.time = out, kill, [], 0
        self.sealed, self.version = [], 0

    def tick(self, event):
        self.time += 1
        if self.time == self.kill:
            raise Killed(event)

    def run(self, arguments):
        words = list(map(str, arguments))
        self.tick("before " + words[0])
        if words[0] == "collect":
            epoch = len(self.sealed)
            self.sealed.append(epoch)
            self.events.append(("collect", self.version, words[words.index("--groups") + 1]))
            self.tick("after collect")
            return {"epoch": epoch}
        epoch = int(words[words.index("--epoch") + 1])
        key = ("learn", epoch, words[words.index("--from") + 1])
        if key not in self.events:  # a learn phase is idempotent by itself
            self.version += 4
            self.events.append(key)
        self.tick("after learn")
        return {"policy": f"v{self.version}", "fruitless_in_a_row": 0, "skips": []}


@pytest.fixture
def make(tmp_path, monkeypatch):
    def build(world, config=CONFIG):
        loop = Loop(config, tmp_path / "run", run=world.run)
        monkeypatch.setattr(Loop, "_newest", lambda self: max(world.sealed, default=-1))
        monkeypatch.setattr(Loop, "version", lambda self: world.version)
        monkeypatch.setattr(module, "policy_directory", lambda spec: Path(spec))
        loop.open()
        return loop

    return build


WANTED = [
    ("collect", 0, "execution=12"),
    ("learn", 0, "pocket"),
    ("collect", 4, "execution=12"),
    ("learn", 1, "v4"),
]


def test_phases_alternate_and_hand_the_policy_on(make, tmp_path):
    world = World(tmp_path)
    loop = make(world)
    loop.play()
    assert world.events == WANTED
    assert str(loop.policy()) == "v8"
    body = json.loads((tmp_path / "run" / "loop.json").read_text())
    assert [s["kind"] for s in body["steps"]] == ["collect", "learn", "collect", "learn"]


@pytest.mark.parametrize("kill", range(1, 9))
def test_killed_anywhere_and_started_again_it_does_the_same(make, tmp_path, kill):
    world = World(tmp_path, kill=kill)
    with pytest.raises(Killed):
        make(world).play()
    make(world).play()
    assert world.events == WANTED


def test_every_save_is_a_point_of_return(make, tmp_path, monkeypatch):
    saves = Loop._save
    for stop in range(1, 9):
        world = World(tmp_path)
        (tmp_path / "run" / "loop.json").unlink(missing_ok=True)
        count = [0]

        def dying(self, count=count, stop=stop):
            saves(self)
            count[0] += 1
            if count[0] == stop:
                raise Killed

        monkeypatch.setattr(Loop, "_save", dying)
        with pytest.raises(Killed):
            make(world).play()
        monkeypatch.setattr(Loop, "_save", saves)
        make(world).play()
        assert world.events == WANTED


def test_another_config_in_the_directory_is_refused(make, tmp_path):
    make(World(tmp_path)).play()
    with pytest.raises(LoopError, match=r"learn.optimizer.lr"):
        make(
            World(tmp_path),
            load_config(LoopConfig, None, ["epochs=2", "margin=1.5", "learn.optimizer.lr=1", *_learn()]),
        )


def _learn():
    return ["learn.updates_per_collect=4", "learn.groups_per_update=2"]


def test_a_last_epoch_without_learning(make, tmp_path):
    loop = make(World(tmp_path), CONFIG.model_copy(update={"learn_last": False}))
    assert [kind for kind, _ in loop.plan()] == ["collect", "learn", "collect"]


def test_collect_and_learn_files_are_read_back_as_written(make, tmp_path):
    from collect.config import CollectConfig

    config = CONFIG.model_copy(update={"seed": 7, "name": "both"})
    make(World(tmp_path), config)
    collect = load_config(CollectConfig, tmp_path / "run" / "collect.yaml")
    learn = load_config(LearnConfig, tmp_path / "run" / "learn.yaml")
    assert (collect.name, collect.seed, learn.name, learn.seed) == ("both", 7, "both", 7)
    assert collect.model_copy(update={"name": "collect", "seed": 0}) == config.collect


@pytest.mark.parametrize("world", PRESETS)
def test_the_demo_trains_every_stage_between_two_epochs(world):
    preset = PRESETS[world]
    config = load_config(LoopConfig, preset)
    loop = Loop(config, Path("unused"))
    assert config.epochs == 2
    groups = loop.groups(0)
    assert set(groups) == {"execution", "delegation", "rubric"}
    assert config.learn.optimizer.lr == 1e-4
    assert config.collect.world.name == world


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda path: path.name)
def test_the_config_to_look_at_is_the_one_that_the_demo_runs(preset):
    """The wheel carries learn/presets, the reader of the repository finds configs/: the same bytes."""
    assert (Path(__file__).parents[2] / "configs" / preset.name).read_bytes() == preset.read_bytes()


def test_policies_to_train(tmp_path):
    assert policy_directory("pocket") == POCKETS["textcraft"]
    assert policy_directory("pocket:textworld") == POCKETS["textworld"]
    assert policy_directory(str(tmp_path)) == policy_directory(f"transformers:{tmp_path}") == tmp_path
    for spec in ("nowhere", "transformers:nowhere", "transformers:", "scripted:oracle", "pocket:chess"):
        with pytest.raises(UsageError, match=r"^no (pocket )?policy"):
            policy_directory(spec)


@pytest.mark.parametrize("text", ["{", "[]", '{"steps": []}', '{"config": {}, "steps": [{"kind": "learn", "x": 1}]}'])
def test_a_damaged_state_is_named_with_the_way_out(make, tmp_path, text):
    make(World(tmp_path)).play()
    (tmp_path / "run" / "loop.json").write_text(text)
    with pytest.raises(SeraError, match=r"loop\.json.*give another --out; the store beside it is whole"):
        make(World(tmp_path))


def test_the_leftover_of_a_kill_between_write_and_rename_is_no_obstacle(make, tmp_path):
    world = World(tmp_path)
    loop = make(world)
    (tmp_path / "run" / ".loop.json").write_text("half")
    loop.play()
    assert world.events == WANTED


def test_a_phase_killed_by_a_signal_is_said_so(monkeypatch):
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"))
    with pytest.raises(PhaseError, match=r"'sera collect' was killed by SIGKILL, as the system does when memory runs"):
        run_phase(["collect"])


@pytest.mark.parametrize("code", [75, 130])
def test_a_stopped_phase_leaves_the_line_to_the_loop(monkeypatch, capfd, code):
    stop = f"import sys; from sera_data.cli import _fail; sys.exit(_fail('stopped', {code}))"
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", stop))
    with pytest.raises(PhaseError, match=r"'sera collect' was stopped.*the same command continues") as caught:
        run_phase(["collect"])
    assert caught.value.exit_code == code
    assert capfd.readouterr().err == ""


LOOP = """
import os, sys
from learn import process
process.COMMAND = (sys.executable, "-c", "import os, time; print(os.getpid(), file=sys.stderr, flush=True);"
                   " time.sleep(600)".replace("sys", "__import__('sys')"))
process.run_phase(["collect"])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_phase_outlives_its_loop(number):
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    loop = subprocess.Popen([sys.executable, "-c", LOOP], env=env, stderr=subprocess.PIPE, text=True)
    phase = int(loop.stderr.readline())
    loop.send_signal(number)
    loop.wait(timeout=60)
    loop.stderr.close()
    deadline = time.monotonic() + 60
    while alive(phase) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(phase)


def alive(pid):
    """True while the process runs; a zombie that nobody has waited for yet is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_phase_that_fails_ends_the_loop_with_its_exit_code(tmp_path, capfd):
    with pytest.raises(PhaseError, match="exit code") as caught:
        run_phase(["data", "ls", tmp_path / "nowhere"])
    assert caught.value.exit_code == 1
    assert "does not exist" in capfd.readouterr().err


def test_a_phase_gives_its_json(tmp_path):
    sd.create(tmp_path / "store")
    assert isinstance(run_phase(["data", "ls", tmp_path / "store"]), dict)


@pytest.mark.parametrize("key", ["epsilon", "epsilon_high", "loss.epsilon", "loss.eps_clip"])
def test_epsilon_is_refused_with_the_name_of_the_bound(key):
    with pytest.raises(ConfigError, match="ratio_max"):
        load_config(LearnConfig, None, [f"{key}=0.2"])


@pytest.mark.parametrize(
    "override",
    [
        "loss.kl_coef=-1",
        "loss.kl_coef={rubric: -0.1}",
        "loss.stage_scale={rubric: -1}",
        "optimizer.betas=[2, 3]",
        "optimizer.betas=[-1, 0.5]",
        "optimizer.betas=[0.9, 1.0]",
        "engine.threads=100000",
        "schedule='execution:99999999999999999999'",
        "schedule='execution:²'",
        "schedule='execution:+3'",
    ],
)
def test_numbers_that_would_train_nonsense_are_refused(override):
    with pytest.raises(ConfigError):
        load_config(LearnConfig, None, [override])


def test_brakes_per_stage():
    config = load_config(
        LearnConfig, None, ["loss.ratio_max={rubric: 2}", "loss.stage_scale={rubric: 0.5}", "loss.kl_coef=0.01"]
    )
    assert [config.loss.ratio_bound(s) for s in ("execution", "rubric")] == [5, 2]
    assert [config.loss.scale(s) for s in ("execution", "rubric")] == [1, 0.5]
    assert config.loss.kl("delegation") == 0.01
    with pytest.raises(ConfigError, match="ratio_min"):
        load_config(LearnConfig, None, ["loss.ratio_max=0.5", "loss.ratio_min=1"])


class Running(World):
    """A world whose audit says from which epoch on scores run away from labels."""

    def __init__(self, out, *, rising_at, kill=None):
        super().__init__(out, kill)
        self.rising_at = rising_at

    def run(self, arguments):
        if str(arguments[0]) != "audit":
            return super().run(arguments)
        self.tick("before audit")
        self.events.append(("audit", len(self.sealed)))
        epochs = self.sealed[-3:]
        rising = len(self.sealed) - 1 >= self.rising_at
        return {"divergence": {"epochs": epochs, "biases": [0.0, 0.1, 0.2], "rise": 0.2, "rising": rising}}


def test_the_loop_ends_when_scores_run_away_from_labels(make, tmp_path):
    config = CONFIG.model_copy(update={"epochs": 6})
    world = Running(tmp_path, rising_at=3)
    loop = make(world, config)
    loop.play()
    assert loop.divergence["epochs"] == [1, 2, 3]
    assert [event[0] for event in world.events] == [
        "collect", "learn", "collect", "learn", "collect", "audit", "learn", "collect", "audit"
    ]  # fmt: skip
    asked = len(world.events)
    again = make(world, config)
    again.play()
    assert again.divergence == loop.divergence
    assert len(world.events) == asked  # started again it neither goes on nor asks again
    told = make(world, config.model_copy(update={"stop": "never"}))
    told.play()
    assert told.divergence is None
    assert len(told.steps) == 12


def test_a_loop_that_is_told_so_goes_on(make, tmp_path):
    world = Running(tmp_path, rising_at=2)
    loop = make(world, CONFIG.model_copy(update={"epochs": 4, "stop": "never"}))
    loop.play()
    assert loop.divergence is None
    assert len(loop.steps) == 8
