"""The report: several seeds and stores, published figures beside ours, Markdown and one self-contained HTML page."""

import json
import re
from pathlib import Path
from statistics import fmean, stdev

import pytest

import sera_data as sd
from collect.eval_page import markdown, page
from collect.eval_report import published_figures, report_of
from collect.eval_request import Asked, requests
from collect.evaluation import run_evaluation
from collect.protocol import protocol_names
from sera_data.cli import main
from sera_data.errors import UsageError

PUBLISHED = Path(__file__).parents[2] / "tests/data/textcraft_synth/val.jsonl"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Two seeds in one store, a third in another, and a plain evaluation of another policy beside it."""
    folder = tmp_path_factory.mktemp("evals")
    asked = Asked(
        protocol="textcraft-632", tasks=PUBLISHED, policy="scripted:careless", limit=8, seeds=(0, 1, 2),
        overrides=("tasks.difficulties=[easy]",),
    )  # fmt: skip
    made = [sd.create(folder / name) for name in ("a", "b")]
    for store, request in zip([made[0], made[0], made[1]], requests(asked), strict=True):
        run_evaluation(store, request, quiet=True)
    pool = "world.tasks={worlds: '1000-1001', n: 3, tier_mix: {2: 1}}"
    plain = Asked(policy="scripted:oracle", samples=1, overrides=("world.profile=strict", pool))
    run_evaluation(made[1], requests(plain)[0], quiet=True)
    return [store.path for store in made]


def test_three_seeds_of_two_stores_are_one_figure(stores):
    body = report_of(stores, protocol="textcraft-632")
    (group,) = body["groups"]
    found = [run["success"] for run in group["runs"]]
    assert [run["seed"] for run in group["runs"]] == [0, 1, 2]
    assert (group["seeds"]["success"]["mean"], group["seeds"]["success"]["sd"]) == (fmean(found), stdev(found))
    assert group["seeds"]["success"]["interval"] is not None
    assert group["pooled"]["trees"] == 24
    assert list(group["success_at"]) == ["1", "2"]
    assert group["source"] == "published"
    assert group["overlap"]["same_goals"] == 0
    assert set(group["by_depth_used"]) <= {"0", "1", "2", "3"}
    assert "tasks.difficulties" not in str(group["changed"])
    assert group["changed"] == ["groups.eval 8 (protocol: all)"]


def limited(tmp_path, steps, **more):
    """Failures by band of the delegating oracle with few steps an agent."""
    asked = Asked(
        protocol="textcraft-632", tasks=PUBLISHED, policy="scripted:delegating_oracle", seeds=(0,),
        overrides=("tasks.difficulties=[medium]", f"steps={steps}"), limit=3, **more,
    )  # fmt: skip
    store = sd.create(tmp_path / "s")
    run_evaluation(store, requests(asked)[0], quiet=True)
    (group,) = report_of([store.path])["groups"]
    return group


def test_the_report_says_which_limits_failed_trees_had_met(stores, tmp_path):
    group = limited(tmp_path, 3)
    counts = group["failures"]["medium"]
    assert counts["failed"] == counts["root_spent"] == group["pooled"]["trees"] - group["pooled"]["successes"] > 0
    assert (counts["truncated"], counts["loop"], counts["ended_early"]) == (0, 0, 0)
    assert f"| medium | {counts['failed']} | {counts['failed']} |" in markdown({"stores": [], "groups": [group]})
    careless, _ = report_of(stores)["groups"]  # gives up early, so that no limit explains it
    assert careless["failures"]["easy"]["ended_early"] > 0


def test_figures_are_quoted_with_their_source_and_belong_to_a_protocol():
    names = {name: published_figures(name) for name in protocol_names()}
    sera = next(row for row in names["textcraft-632"] if row["system"] == "SERA")
    weights = {"easy": 147, "medium": 213, "hard": 136, "extreme": 136}
    whole = sum(weights[band] * rate for band, rate in sera["by_difficulty"].items()) / 632
    assert (sera["success"], sera["dialect"]) == (0.7431, "code")
    assert whole == pytest.approx(sera["success"], abs=1e-4)
    assert all("arXiv" in row["source"] for rows in names.values() for row in rows)
    assert names["held-out"] == []
    assert {name for name, rows in names.items() if rows} == {
        "textcraft-632", "single-agent", "textworld-1400", "single-agent-textworld", "rao-100",
    }  # fmt: skip


def test_the_terminal_prints_ours_beside_the_published_rows(stores, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["eval", "report", *map(str, stores)]) == 0
    text = capsys.readouterr().out
    for words in ("Beside the published figures", "here: scripted:careless v0", "74.3 %", "95 % over seeds",
                  "target items", "Not the protocol as it is", "By true depth", "Why trees failed",
                  "[1] SERA paper (arXiv 2610.04902)"):  # fmt: skip
        assert words in text
    assert main(["eval", "report", *map(str, stores), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["groups"]) == 2


def test_markdown_and_html_hold_the_same_tables_and_load_nothing(stores, tmp_path, capsys):
    files = [tmp_path / "r.md", tmp_path / "r.html"]
    assert main(["eval", "report", *map(str, stores), "--markdown", str(files[0]), "--html", str(files[1])]) == 0
    capsys.readouterr()
    text, html = (path.read_text() for path in files)
    assert text.count("\n| ") == html.count("<tr>")
    assert "prefers-color-scheme: dark" in html
    assert not re.search(r"https?://|<script|@import|url\(|src=", html)
    assert html.count('class="strip"') > 5


def test_texts_of_a_store_are_escaped(stores):
    body = report_of(stores[:1])
    body["groups"][0]["policy"] = "<b>|x|</b>"
    body["groups"][0]["errors"] = {"<script>alert(1)</script>": 2}
    html, text = page(body), markdown(body)
    assert "<script" not in html
    assert "<b>|x|" not in html
    assert "\\|x\\|" in text
    assert "<script" not in text


def test_pending_trees_are_said(tmp_path):
    from collect.job import Share

    (request,) = requests(Asked(protocol="held-out-small", policy="scripted:oracle", samples=1, limit=4))
    store = sd.create(tmp_path / "s")
    run_evaluation(store, request, part=Share(1, 2), quiet=True)
    (group,) = report_of([store.path])["groups"]
    assert group["runs"][0]["pending"] == 2
    assert "2 trees are pending, so this is no final figure" in page({"stores": [], "groups": [group]})
    assert group["held_out"] is True


def test_a_filter_that_leaves_nothing_is_a_usage_error(stores):
    with pytest.raises(UsageError, match=r"no evaluation in .* for protocol tight"):
        report_of(stores, protocol="tight")
    assert main(["eval", "--store", "x", "report", "y"]) == 2


def test_protocols_are_listed_and_shown(capsys):
    assert main(["eval", "protocols"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in protocol_names())
    assert main(["eval", "protocols", "textcraft-632", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["prompt_tokens"] == 9728
    assert main(["eval", "protocols", "textcraft"]) == 2
