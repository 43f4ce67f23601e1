"""The sandbox: hostile cells end as typed errors by the limits, leave nothing behind, and hold nobody up."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.crossing import Call, Fault, Later, Raised, Stop
from collect.plain import MAX_CHARS, MAX_NODES, TooLarge, plain
from collect.printed import Printed
from collect.sandbox import open_sandbox
from collect.settings import SandboxSettings
from sera_data.canonical import canonical_json

LIMITS = SandboxSettings(seconds=30, print_chars=100_000, output_chars=400)  # honest cells end long before, anywhere
SHORT = replace(LIMITS, seconds=0.5)
ENDLESS = ("TimeoutError", "OutputLimitError")
LAUGHS = "x = ['ha']\nfor _ in range(14): x = [x] * 10\n"  # 15 lists that are written as 10**14 texts


class Desk:
    """A host with one quick tool, one slow one, and one that ends the cell."""

    names = frozenset({"craft", "delegate", "finish", "broken"})
    anywhere = True

    def __init__(self):
        self.calls, self.spans, self.secret = [], [], "stored plan"

    def call(self, call: Call):
        self.calls.append((call.name, call.args, dict(call.kwargs)))
        self.spans.append(call.span)
        if len(self.calls) > 500:
            return Stop(Fault("CallLimitError", "too many"))
        if call.name == "broken":
            return Raised("ValueError", "no such thing")
        return {"delegate": Later(), "finish": Stop()}.get(call.name, "made")

    async def wait(self, call_ids):
        await asyncio.sleep(0)
        return {call_ids[0]: f"child {call_ids[0]}"}


def run(*codes, desk=None, limits=LIMITS, notebook=None):
    """Results of cells of one agent, one after another."""

    async def cells():
        left, results = notebook, []
        for code in codes:
            result = await open_sandbox(limits).run(code, notebook=left, host=desk or Desk(), seed=1)
            left = result.notebook
            results.append(result)
        return results

    return asyncio.run(cells())


HOSTILE = {
    "infinite loop": ("while True: pass", "TimeoutError"),
    "loop that catches everything": (
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        "TimeoutError",
    ),
    "endless arithmetic": ("x = 3**100_000\nwhile True: y = x * x", "TimeoutError"),
    "10 GB string": ("x = 'a' * (10 * 1024**3)", "MemoryError"),
    "growing string": ("x = 'a'\nwhile True: x += x", "MemoryError"),
    "huge number": ("10**10**10", "MemoryError"),
    "huge list": ("list(range(10**9))", "MemoryError"),
    "huge format": ("f'{1:>1000000000}'", "MemoryError"),
    "large variables": ("x = 'a' * 3_000_000", "MemoryError"),
    "environment": ("import os\nprint(os.environ)", "RuntimeError"),
    "environment variable": ("import os\nos.getenv('PATH')", "RuntimeError"),
    "subprocess": ("import subprocess", "ModuleNotFoundError"),
    "socket": ("import socket", "ModuleNotFoundError"),
    "http": ("import urllib.request", "ModuleNotFoundError"),
    "ctypes": ("import ctypes", "ModuleNotFoundError"),
    "importlib": ("import importlib", "ModuleNotFoundError"),
    "import by name": ("__import__('os')", "NameError"),
    "read a file": ("open('/etc/passwd').read()", "PermissionError"),
    "write a file": ("open('escaped', 'w').write('x')", "PermissionError"),
    "list a directory": ("from pathlib import Path\nlist(Path('/').iterdir())", "PermissionError"),
    "shell": ("import os\nos.system('touch escaped')", "AttributeError"),
    "fork bomb": ("import os\nwhile True: os.fork()", "AttributeError"),
    "exit": ("raise SystemExit", "SystemExit"),
    "kill": ("import os\nos.kill(1, 9)", "AttributeError"),
    "the tool's object": ("craft.__self__", "AttributeError"),
    "the tool's globals": ("craft.__globals__", "AttributeError"),
    "the tool's code": ("craft.__code__.co_consts", "AttributeError"),
    "the tool's closure": ("craft.__closure__", "AttributeError"),
    "attribute by name": ("getattr(craft, '__self' + '__')", "AttributeError"),
    "own globals": ("globals()", "NameError"),
    "classes": ("().__class__.__bases__[0].__subclasses__()", "AttributeError"),
    "frames": ("import sys\nsys._getframe()", "AttributeError"),
    "the stored plan": ("craft.__self__._task.misc['gold_trajectory']", "AttributeError"),
    "deep recursion": ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
    "deep source": ("(" * 5000 + ")" * 5000, "SyntaxError"),
    "100 MB print": ("print('x' * 100_000_000)", "MemoryError"),
    "100 MB in prints": ("while True: print('x' * 1000)", "OutputLimitError"),
    "monkey-patch a module": ("import json\njson.dumps = None", "AttributeError"),
    "monkey-patch asyncio": ("asyncio.gather = None", "AttributeError"),
    "endless calls": ("while True: craft()", "CallLimitError"),
    "many pending gathers": (
        "async def go():\n    await asyncio.gather(*[delegate({'a': i}) for i in range(100_000)])\nawait go()",
        "CallLimitError",
    ),
    "endless generator": ("(n for n in iter(int, 1))", "MemoryError"),
    "shared lists printed": (LAUGHS + "print(x)", "MemoryError"),
    "shared lists compared": (LAUGHS + "y = x\n" + LAUGHS + "x == y", "TimeoutError"),
    "backtracking": ("import re\nre.match(r'(.*)*\\1(.*)*\\2z', 'ab' * 2000)", "error"),
    "format by attribute": ("'{0.__class__}'.format(craft)", "AttributeError"),
    "format by width": ("'{:>9999999999}'.format(1)", "MemoryError"),
    "number as text": ("str(7**200_000)", "ValueError"),
    "await a number": ("await 3", "TypeError"),
    "await one's own": ("async def f():\n    return await g\ng = f()\nawait g", "RuntimeError"),
    "endless coroutines": ("async def f(): return await f()\nawait f()", "RecursionError"),
    "endless gathers": ("while True: await asyncio.gather()", "TimeoutError"),
    "long exception": ("raise ValueError('x' * 5_000_000)", "ValueError"),
    "5 MB of source": ("x = 1\n" * 833_333, "MemoryError"),
    "zero bytes": ("\0\0\0", "SyntaxError"),
    "half a character": ("'\\ud800'.encode('utf-8')\nchr(0xd800)", "ValueError"),
    "deep attributes": ("x" + ".a" * 200_000, "SyntaxError"),
    "syntax": ("def f(:", "SyntaxError"),
    "a tool's own error": ("broken()", "ValueError"),
    "an unknown function": ("exploit()", "NameError"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_cell_ends_as_a_typed_error(name):
    code, kind = HOSTILE[name]
    (hostile,) = run(code, limits=SHORT if kind in ENDLESS else LIMITS)
    (after,) = run("print(1 + 1)", notebook=hostile.notebook)
    assert hostile.fault is not None
    assert hostile.fault.kind == kind
    assert len(hostile.output) < LIMITS.output_chars + 100
    assert (after.fault, after.output) == (None, "2\n")
    assert not Path("escaped").exists()


def test_what_cannot_fail_is_harmless():
    desk = Desk()
    sleep, patched, named = run(
        "import time\ntime.sleep(1000)\nawait asyncio.sleep(1000)",
        "def craft(*a): return 'free'\nprint(craft())",
        "print(delegate)",
        desk=desk,
    )
    assert (sleep.fault, patched.fault, named.fault) == (None, None, None)
    assert desk.calls == []  # a patched tool is patched in the notebook of that agent only
    assert named.output == "<function 'delegate' external>\n"


def test_a_second_cell_progresses_while_hostile_ones_run():
    """Every worker is taken by a loop again and again; an honest agent still gets through all its cells."""
    limits = SandboxSettings(workers=2)
    rounds = [0]  # of the event loop

    async def hostile(box, until):
        count = 0
        while not until.is_set():
            before = rounds[0]
            result = await box.run("while True: pass", notebook=None, host=Desk(), seed=1)
            assert result.fault.kind == "TimeoutError"
            assert rounds[0] > before  # the event loop came round while the cell's loop ran
            count += 1
        return count

    async def honest(box):
        notebook = None
        for step in range(4):
            code = "x = 0" if step == 0 else "x += 1\nprint(craft(x), x)"
            result = await box.run(code, notebook=notebook, host=Desk(), seed=1)
            assert result.fault is None
            notebook = result.notebook
        return result.output

    async def turn(until):
        while not until.is_set():
            await asyncio.sleep(0.005)
            rounds[0] += 1

    async def together():
        box, until = open_sandbox(limits), asyncio.Event()
        others = [asyncio.create_task(hostile(box, until)) for _ in range(2)]
        clock = asyncio.create_task(turn(until))
        output = await honest(box)
        until.set()
        counts = [await task for task in others]
        await clock
        return output, counts

    output, counts = asyncio.run(together())
    assert output == "made 3\n"
    assert min(counts) >= 1


def test_variables_stay_and_a_limit_rolls_them_back():
    first, failed = run("x = [1]", "x.append(2)\n1 / 0")
    (limit,) = run("x.append(3)\nwhile True: pass", limits=SHORT, notebook=failed.notebook)
    (last,) = run("print(x)", notebook=limit.notebook)
    assert (first.kept, failed.kept, limit.kept) == (True, True, False)
    assert str(failed.fault) == "ZeroDivisionError: division by zero (line 2)"
    assert last.output == "[1, 2]\n"


def test_agents_do_not_share_variables():
    assert run("x = 1")[0].fault is None
    assert run("print(x)")[0].fault == Fault("NameError", "name 'x' is not defined", 1)


def test_launches_are_awaited_gathered_and_interleaved():
    desk = Desk()
    (result,) = run(
        "async def part(n):\n    text = await delegate({'a': n})\n    craft(n)\n    return text\n"
        "print(await asyncio.gather(part(1), part(2)))\nprint(await delegate(targets={'b': 1}))",
        desk=desk,
    )
    assert result.output == "['child 0', 'child 1']\nchild 4\n"
    assert [call[0] for call in desk.calls] == ["delegate", "delegate", "craft", "craft", "delegate"]


def test_finish_ends_the_cell_at_once():
    desk = Desk()
    (result,) = run("try:\n    finish('done')\nfinally:\n    craft()\ncraft()", desk=desk)
    assert [call[0] for call in desk.calls] == ["finish"]
    assert (result.fault, result.kept) == (None, False)


def test_spans_and_lines_are_those_of_the_cell():
    desk = Desk()
    code = "é = 'ü'; craft(é)"
    nested = "(" * 5000 + ")" * 5000
    results = run("def again():\n    return craft(1)", "def f(:", nested, code, "again()", "\n\n1 / 0", desk=desk)
    assert code[slice(*desk.spans[0])] == "craft(é)"
    assert desk.spans[1] is None  # made by code of an earlier cell
    assert [r.fault and r.fault.line for r in results] == [None, 1, None, None, None, 3]


def test_the_same_seed_draws_the_same_numbers_and_the_clock_stands_still():
    code = "import random, time\nprint([random.randint(0, 9**9) for _ in range(3)], time.time(), time.monotonic())"
    assert run(code)[0].output == run(code)[0].output


def test_a_failing_host_ends_the_cell_and_reaches_the_caller():
    class Failing(Desk):
        def call(self, call):
            msg = "the world broke"
            raise LookupError(msg)

    for anywhere in (True, False):
        desk = Failing()
        desk.anywhere = anywhere
        with pytest.raises(LookupError, match="the world broke"):
            run("craft()", desk=desk)


def test_calls_can_be_served_on_the_event_loop():
    class OnLoop(Desk):
        anywhere = False

        def call(self, call):
            asyncio.get_running_loop()  # raises elsewhere
            return super().call(call)

    desk = OnLoop()
    (result,) = run("for i in range(3): craft(i)\nprint(await delegate(1))", desk=desk)
    assert (result.fault, result.output, len(desk.calls)) == (None, "child 3\n", 4)


def test_a_cancelled_cell_frees_its_worker():
    class CancelledAtItsFirstCall(Desk):
        def __init__(self, anywhere, loop):
            super().__init__()
            self.anywhere, self.loop, self.task, self.gone = anywhere, loop, None, threading.Event()

        def call(self, call):
            self.loop.call_soon_threadsafe(self.task.cancel)
            if self.anywhere:  # in a thread: hold the call until the caller has seen the cancellation
                assert self.gone.wait(30)
            return super().call(call)

    async def cancelled():
        box = open_sandbox(SandboxSettings(seconds=60, workers=1))
        for anywhere in (True, False):
            desk = CancelledAtItsFirstCall(anywhere, asyncio.get_running_loop())
            desk.task = asyncio.create_task(box.run("while True: craft()", notebook=None, host=desk, seed=1))
            with pytest.raises(asyncio.CancelledError):
                await desk.task
            desk.gone.set()
        return await box.run("1 + 1", notebook=None, host=Desk(), seed=1)

    assert asyncio.run(cancelled()).output == "2\n"


def test_workers_know_no_environment_and_end_with_the_process():
    program = """
import asyncio
from pathlib import Path
from collect.sandbox import open_sandbox
from collect.settings import SandboxSettings
from tests.collect.test_sandbox import Desk

async def main():
    for code in ("1", "while True: pass", "1"):
        await open_sandbox(SandboxSettings(seconds=0.2)).run(code, notebook=None, host=Desk(), seed=1)

asyncio.run(main())
children = [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
print(len(children), [Path(f"/proc/{pid}/environ").read_text() for pid in children], children)
"""
    environment = {**os.environ, "SECRET_KEY": "planted"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    count, rest = done.stdout.split(" ", 1)
    assert int(count) >= 1
    assert "planted" not in rest
    pids = json.loads(rest[rest.rindex("[") :].replace("'", '"'))
    deadline = time.monotonic() + 120  # they end by themselves; what never ends fails
    while any(map(_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if _alive(pid)]


def _alive(pid):
    """Whether a worker still runs; one that waits to be reaped does not."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except FileNotFoundError:
        return False
    return "monty" in name and rest.split()[0] != "Z"


def test_output_keeps_its_ends():
    printed = Printed(shown=8, limit=100)
    for text in ("abc", "defgh", "ij", "klm"):
        printed.take("stdout", text)
    assert printed.text() == "abcdef\n[5 characters left out]\nlm"
    with pytest.raises(MemoryError, match="more than 100 characters"):
        printed.take("stdout", "x" * 100)
    assert printed.too_much


@given(st.lists(st.text(max_size=20), max_size=20), st.integers(4, 60))
def test_output_is_whole_or_marked(texts, shown):
    printed = Printed(shown=shown, limit=10_000)
    for text in texts:
        printed.take("stdout", text)
    whole = "".join(texts)
    if len(whole) <= shown - shown // 4:
        assert printed.text() == whole
    else:
        head, tail = whole[: shown - shown // 4], whole[-(shown // 4) :]
        assert printed.text().startswith(head)
        assert printed.text().endswith(tail)
        assert len(printed.text()) <= shown + 40 + len(str(len(whole)))


def test_the_last_expression_is_shown():
    shown = [r.output for r in run("1 + 1", "'text'", "{'a': (1, 2)}", "None", "x = 1")]
    assert shown == ["2\n", "text\n", "{'a': (1, 2)}\n", "", ""]
    (deep,) = run("x = []\nfor i in range(2_000): x = [x]\nx")
    assert deep.fault is None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values)
def test_plain_values_are_json_and_repeat(value):
    once = plain(value)
    text = canonical_json(once)
    assert json.loads(text) == once
    assert canonical_json(plain(once)) == text


def test_plain_values_are_bounded():
    assert plain({"a": (1, 2.5, None, True), "b": {1: "x"}}) == {"a": [1, 2.5, None, True], "b": [[1, "x"]]}
    assert plain([float("nan"), 2**70, b"x"]) == ["nan", "an integer of 71 bits", "a value of type bytes"]
    deep: list = []
    for _ in range(100):
        deep = [deep]
    for large, reason in ((["x"] * (MAX_NODES + 1), "values"), ("x" * (MAX_CHARS + 1), "characters"), (deep, "nested")):
        with pytest.raises(TooLarge, match=reason):
            plain(large)
