"""The SQL shell: from a pipe, and at a prompt fed with real key strokes."""

import _thread
import io
import json
from pathlib import Path

import duckdb
import polars as pl
import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from sera_data.cli import main
from sera_data.errors import StoreError, UsageError
from sera_data.query import run_query
from sera_data.shell import Shell, is_complete
from sera_data.shell_cli import converse, interruptible_call, prompt


@pytest.fixture(scope="module")
def connection(sealed):
    return sealed.connect()


def fed(connection, *lines):
    shell = Shell(connection)
    for line in lines:
        shell.feed(line)
    return shell


def piped(monkeypatch, sealed, text):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return main(["data", "shell", str(sealed.path)])


def test_a_script_from_a_pipe(monkeypatch, sealed, capsys, tmp_path):
    file = tmp_path / "out.parquet"
    script = (
        f".mode csv\nselect count(*) as n\nfrom trees;\nselect 2 as two; select 3 as three;\n.save {file}\nselect 4"
    )
    assert piped(monkeypatch, sealed, script) == 0
    assert capsys.readouterr().out.split() == [
        "n",
        "8",
        "two",
        "2",
        "three",
        "3",
        *f"1 rows in {file}".split(),
        "4",
        "4",
    ]
    assert pl.read_parquet(file).to_dicts() == [{"three": 3}]


def test_a_script_ends_at_its_first_fault(monkeypatch, sealed, capsys):
    assert piped(monkeypatch, sealed, "select 1 as one;\nselect x from treez;\nselect 2 as two;") == 2
    out, err = capsys.readouterr()
    assert "one" in out
    assert "two" not in out
    assert err.startswith("error: query failed")
    assert 'Did you mean "trees"' in err
    assert err.count("\n") == 1


def test_quit_leaves_the_rest_unread(monkeypatch, sealed, capsys):
    assert piped(monkeypatch, sealed, ".quit\nselect broken from nowhere;") == 0
    assert capsys.readouterr().out == ""


def test_tables_and_describe(connection, capsys):
    fed(connection, ".tables", ".describe pairs")
    out = capsys.readouterr().out
    assert "scored" in out
    assert "Score of the success." in out


@pytest.mark.parametrize(
    "line, fault",
    [
        (".nothing", "no command '.nothing'; commands: .help"),
        (".mode parquet", ".mode takes one of table, csv, json"),
        (".rows few", ".rows takes one number"),
        (".save x.csv", "nothing was asked yet"),
        (".read nowhere.sql", "cannot be read"),
        (".describe nowhere", "no table or view 'nowhere'; there are: runs"),
        ('.describe "open', "No closing quotation"),
        ("selec 1;", "syntax error"),
        ("create table x (a int);", "takes exactly one query"),
        ("copy (select 1) to 'x.csv';", "takes exactly one query"),
    ],
)
def test_faults_say_what_is_allowed_and_leave_the_shell_usable(connection, capsys, line, fault):
    shell = Shell(connection)
    with pytest.raises(UsageError, match=fault.replace(".", r"\.")) as error:
        shell.feed(line)
    assert error.value.hint or "names" in str(error.value)
    assert not shell.waiting
    shell.feed("select 1 as one;")
    assert "one" in capsys.readouterr().out


def test_long_results_are_cut_and_say_so(connection, capsys):
    fed(connection, ".rows 2", "select * from range(5);")
    out = capsys.readouterr().out
    assert "3 more rows" in out
    fed(connection, ".mode json", "select * from range(500);")
    assert len(json.loads(capsys.readouterr().out)) == 500


def test_a_result_that_cannot_be_saved_leaves_the_shell_usable(connection, tmp_path):
    shell = fed(connection, "select 1;")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="was not written"):
        shell.feed(f".save {tmp_path / 'file' / 'x.csv'}")
    shell.feed(f".save {tmp_path / 'x.json'}")
    assert json.loads((tmp_path / "x.json").read_text()) == [{"1": 1}]


def test_read_runs_a_file(connection, capsys, tmp_path):
    (tmp_path / "q.sql").write_text("select 41 + 1 as answer;\n")
    fed(connection, f".read {tmp_path / 'q.sql'}")
    assert "42" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text, complete",
    [
        ("select 1;", True),
        ("select 1", False),
        ("select ';", False),
        ("select ';';", True),
        ("select 1; -- more ;", True),
        ("select 1 /* ;", False),
        ('select 1 as ";', False),
        ("selec 1;", True),
    ],
)
def test_a_statement_ends_at_a_semicolon_outside_of_strings(text, complete):
    assert is_complete(text) is complete


def test_a_prompt_keeps_history_and_survives_faults(connection, capsys, tmp_path):
    shell = Shell(connection)
    keys = "select count(*)\rfrom trees;\rselect nothing;\rsel\x03.describe pairs\r.quit\r"
    with create_pipe_input() as pipe:
        pipe.send_text(keys)
        converse(shell, prompt(shell, tmp_path / "state" / "history", input=pipe, output=DummyOutput()))
    out, err = capsys.readouterr()
    assert "8" in out
    assert "Score of the success." in out
    assert err.count("error:") == 1
    assert "+from trees;" in (tmp_path / "state" / "history").read_text()


def test_completion_knows_commands_tables_and_columns(connection):
    assert {".tables", "scored", "task_rows", "gap", "n_all_tokens"} <= set(Shell(connection).words())


def test_ctrl_c_ends_the_query_and_not_the_connection(connection):
    def endless():
        _thread.interrupt_main()
        return run_query(connection, "select count(*) from range(10000000000) a, range(1000) b")

    with pytest.raises(KeyboardInterrupt):
        interruptible_call(connection, endless)
    assert interruptible_call(connection, lambda: run_query(connection, "select 40 + 2 as n")).item() == 42


def test_faults_of_the_other_thread_arrive(connection):
    with pytest.raises(duckdb.InvalidInputException, match="boom"):
        interruptible_call(connection, lambda: connection.sql("select error('boom')").fetchall())
    assert interruptible_call(connection, lambda: Path("x")) == Path("x")
