"""`sera worlds` lists what is registered."""

import json

from typer.testing import CliRunner

from collect import worlds, worlds_cli


class Entry:
    value = "nowhere:World"

    def load(self):
        msg = "No module named 'nowhere'"
        raise ModuleNotFoundError(msg)


def test_the_list_names_profiles_fork_and_tools():
    result = CliRunner().invoke(worlds_cli.app, ["--json"], catch_exceptions=False)
    (textcraft,) = [row for row in json.loads(result.stdout) if row["world"] == "textcraft"]
    assert (textcraft["profiles"], textcraft["fork"], textcraft["fault"]) == (["rao-42", "strict"], "pure", None)
    assert [tool["name"] for tool in textcraft["tools"]] == ["get_info", "view_inventory", "craft"]
    for tool in textcraft["tools"]:
        assert json.loads(tool["example"])["tool"] == tool["name"]


def test_a_world_that_cannot_be_loaded_hides_no_other(monkeypatch):
    table = {"broken": Entry(), **worlds.registered()}
    monkeypatch.setattr(worlds, "registered", lambda: table)
    result = CliRunner().invoke(worlds_cli.app, [], catch_exceptions=False)
    assert "broken: cannot be loaded: No module named 'nowhere'" in result.stdout
    assert "textcraft: profiles rao-42, strict" in result.stdout
