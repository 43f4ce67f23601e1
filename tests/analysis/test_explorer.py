"""The explorer without a browser: lists, drawing, panels, state differences, tokens, credit; on stores made by hand."""

import math
import re
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sera_data as sd
from analysis.explorer import Explorer
from analysis.explorer_delegation import main_rubric
from analysis.explorer_list import TITLES
from analysis.explorer_listing import files_of_tree
from analysis.explorer_marks import number, ranked_words
from analysis.explorer_state import Change, state_changes
from analysis.explorer_store import BY_TREE, PAGE, ExplorerStore, tree_of
from analysis.explorer_tokenizer import find_decoder, tokenizer_hash
from analysis.explorer_tokens import token_strip
from analysis.explorer_tree import Drawing
from analysis.explorer_turns import split_thought, turn_list
from sera_data.duck import connect_tables
from sera_data.errors import UsageError
from sera_data.sealing import MAX_ROWS

sys.path.insert(0, str(Path(__file__).parent.parent / "sera_data"))
sys.path.insert(0, str(Path(__file__).parent))
import small_store as small
from hard_stores import hard_store

from tests.sera_data.small_tree import tree_id

TREE = tree_id(small.RUN, 0, small.task_id(0), 0)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return small.small_store(tmp_path_factory.mktemp("small") / "store")


@pytest.fixture(scope="module")
def trees(store):
    return ExplorerStore(store)


def open_marks(html):
    return re.findall(r'data-open="([^"]+)"', html)


def test_every_entry_of_every_list_opens(trees):
    explorer = Explorer(trees)
    for which in TITLES:
        listed = explorer.answer({"filter": which})["list"]
        for place in open_marks(listed)[:2]:
            panels = explorer.answer({"open": place})
            assert panels["selected"] == place
            assert "in this store" not in panels["detail"]


def test_lists_hold_what_their_name_says(trees):
    assert {t["success"] for t in trees.trees("failed")} == {0.0}
    assert trees.counts["failed"] == len(trees.trees("failed")) == 2
    assert trees.counts["mixed"] == trees.counts["trees"] == 4  # sample 0 succeeds, sample 1 fails, for both tasks
    assert trees.trees("loops") == trees.trees("infra") == []
    worst = trees.delegations()
    assert [(d["n_pairs"], d["n_wrong"], d["n_ties"]) for d in worst] == [(16, 0, 0)] * 4
    assert trees.trees("all", text="no such goal") == []
    assert [t["tree_id"] for t in trees.trees("all", text=TREE)] == [TREE]
    assert len(trees.trees("all", text=small.task_id(1))) == 2
    assert len(trees.trees("all", text="CRAFT")) == 4
    assert trees.trees("all", epoch=7) == []


def test_worst_ranked_comes_first(tmp_path):
    trees = ExplorerStore(hard_store(tmp_path / "store", "misranked"))
    worst = trees.delegations()
    assert (worst[0]["n_wrong"], worst[0]["n_pairs"]) == (16, 16)
    assert worst[0]["mean_gap"] < 0 < worst[-1]["mean_gap"]
    explorer = Explorer(trees)
    first = open_marks(explorer.start()["list"])[0]
    assert first == f"delegation:{worst[0]['delegation_id']}"
    assert "<b>0 of 16 pairs ranked right</b>, 16 wrong" in explorer.answer({"open": first})["detail"]


def test_the_drawing_holds_every_node_and_launch_once(trees):
    panels = Explorer(trees).answer({"open": f"node:{TREE}"})
    items = re.findall(r'role="treeitem"[^>]*aria-label="([^"]*)"[^>]*data-open="([^"]*)"', panels["tree"])
    places = [place for _, place in items]
    assert len(places) == len(set(places)) == 11 + 3
    assert sorted(p for p in places if p.startswith("node:")) == sorted(
        f"node:{n['node_id']}" for n in trees.nodes(TREE)
    )
    words = {place: label for label, place in items}
    assert words[f"node:{TREE}"].startswith("Root, succeeded, finished, 100\u00a0% of the leaves")
    assert words[f"node:{TREE}/t1d0b1"].startswith("Branch 1, not taken, failed, finished, score 0.25:")
    assert words[f"delegation:{TREE}/t1d0"] == "Delegation t1d0, 8 of 8 branches, 0 of 16 pairs ranked wrong"


def test_a_large_tree_is_drawn_in_part_and_goes_on_from_any_node(trees):
    nodes, launches = trees.nodes(TREE), trees.launches(TREE)
    drawing = Drawing(nodes, launches, top=TREE, limit=4)
    assert drawing.shown == {TREE, *(f"{TREE}/t1d0b{b}" for b in range(3))}
    launch = next(row for row in launches if row["delegation_id"] == f"{TREE}/t1d0")
    assert drawing.below(launch) == 10
    explorer = Explorer(trees)
    panels = explorer.answer({"open": f"focus:{TREE}/t1d0b0"})
    assert panels["tree"].count('role="treeitem"') == 3
    assert f"focus:{TREE}" in open_marks(panels["tree"])
    assert "tree" not in explorer.answer({"open": f"node:{TREE}/t1d0b0"})  # what is drawn stays


def test_branches_stand_side_by_side(trees):
    detail = Explorer(trees).answer({"open": f"delegation:{TREE}/t1d0"})["detail"]
    table = detail[detail.index("8 branches from one state") :]
    assert re.findall(r">b(\d)</button>", table) == [str(b) for b in range(8)]
    assert table.count(" success</td>") == table.count(" failure</td>") == 4
    assert re.findall(r"<b>(0\.\d\d)</b>", table) == ["0.75", "0.25", "0.75", "0.25", "0.75", "0.50", "0.75", "0.25"]
    for word in ("The target item is there", "the target item is missing", "weighted sum", "order stamp"):
        assert word in detail
    assert 'scope="row">goal' in table
    assert 'scope="row">steps' in table
    assert table.count("as b0") == 7  # all end in the same state


def test_a_node_says_its_budgets_and_turns(trees):
    detail = Explorer(trees).answer({"open": f"node:{TREE}"})["detail"]
    assert "of 10" in detail
    assert "no limit" in detail
    assert detail.count('<article class="turn act"') == 3
    assert detail.count('<article class="turn rubric"') == 1
    assert "Delegates" in detail
    assert f"delegation:{TREE}/t1d0" in open_marks(detail)
    tokens = sum(len(t["completion_ids"]) for t in trees.node(TREE)["turns"])
    assert len(re.findall(r'class="t p3" title="id \d+, logprob −0.500, probability 0.607"', detail)) == tokens


def test_a_node_without_turns_has_no_legend_of_tokens(tmp_path):
    trees = ExplorerStore(hard_store(tmp_path / "store", "one node"))
    root = trees.trees("all")[0]["tree_id"]
    detail = Explorer(trees).answer({"open": f"node:{root}"})["detail"]
    assert "No turn was taken." in detail
    assert "Colour of a token" not in detail


def test_unknown_names_are_answered_in_words(trees):
    explorer = Explorer(trees)
    explorer.answer({"open": f"node:{TREE}"})
    for place in (
        "node:rnone",
        "delegation:rnone/t0d0",
        f"node:{TREE}/t9d9b9",
        f"delegation:{TREE}/t9d9",
        "turn:<b>#1",
    ):
        detail = explorer.answer({"open": place})["detail"]
        assert "in this store" in detail
        assert "<b>" not in detail
    assert explorer.answer({"filter": "nonsense", "epoch": "x", "text": "' or 1=1 --"})["list"]
    assert "Nothing passes" in explorer.answer({"filter": "all", "text": "<script>"})["list"]
    assert "<script>" not in explorer.answer({"filter": "all", "text": "<script>"})["list"]


def test_credit_marks_the_trained_spans(store, tmp_path):
    row = {
        "turn_id": f"{TREE}#0000", "trajectory_id": TREE, "stage": "execution", "token_start": 1, "token_end": 3,
        "reward": 1.0, "baseline": 0.5, "advantage": 0.5, "depth": 0, "group_id": "0/t",
    }  # fmt: skip
    frame = pl.DataFrame([row, row | {"turn_id": f"{TREE}/t1d0b0#0000", "advantage": -0.25}])
    for name, write in (("c.parquet", frame.write_parquet), ("c.csv", frame.write_csv), ("c.json", frame.write_json)):
        write(tmp_path / name)
        explorer = Explorer(ExplorerStore(store, credit=tmp_path / name))
        root = explorer.answer({"open": f"node:{TREE}"})["detail"]
        assert "execution: advantage +0.500 on tokens 1 to 2 (reward 1.00, baseline 0.50)" in root
        assert root.count('class="trained up"') == 1
        child = explorer.answer({"open": f"node:{TREE}/t1d0b0"})["detail"]
        assert (child.count('class="trained down"'), child.count('class="trained up"')) == (1, 0)
    frame.drop("advantage").write_parquet(tmp_path / "short.parquet")
    with pytest.raises(UsageError, match="lacks column 'advantage'"):
        ExplorerStore(store, credit=tmp_path / "short.parquet")
    with pytest.raises(UsageError, match="existing"):
        ExplorerStore(store, credit=tmp_path / "none.parquet")


def test_ratios_colour_the_tokens_when_they_are_given(store, tmp_path):
    turn = f"{TREE}#0000"
    size = len(ExplorerStore(store).node(TREE)["turns"][0]["completion_ids"])
    pl.DataFrame({"turn_id": [turn], "ratios": [[0.3, *[1.0] * (size - 1)]]}).write_parquet(tmp_path / "r.parquet")
    detail = Explorer(ExplorerStore(store, ratios=tmp_path / "r.parquet")).answer({"open": f"node:{TREE}"})["detail"]
    assert detail.count('class="t r0" title="id ') == 1
    assert detail.count('class="t r2" title="id ') == size - 1
    assert "ratio 0.300" in detail


def test_tokens_get_their_text_from_the_tokenizer_of_the_recorded_hash():
    directory = Path("collect/pocket")
    decode = find_decoder(["unknown", tokenizer_hash(directory)])
    assert decode is not None
    assert find_decoder(["unknown"]) is None
    named = find_decoder([], directory)
    assert [named(i) for i in range(9)] == [decode(i) for i in range(9)]
    with pytest.raises(UsageError, match=r"tokenizer\.json"):
        find_decoder([], Path("collect"))
    turn = {"completion_ids": [4, 4], "logprobs": [-0.1, -3.0], "turn_id": "x"}
    assert decode(4).replace("<", "&lt;").replace(">", "&gt;") in token_strip(turn, [], None, decode)


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.tuples(st.integers(0, n), st.integers(0, n), st.floats(-1, 1)), max_size=4)
        )
    )
)
def test_a_strip_draws_every_token_once_whatever_is_trained(drawn):
    size, spans = drawn
    paid = {"stage": "execution", "reward": 0.0, "baseline": 0.0}
    credit = [paid | {"token_start": min(a, b), "token_end": max(a, b), "advantage": x} for a, b, x in spans]
    turn = {"completion_ids": list(range(size)), "logprobs": None, "turn_id": "x"}
    assert re.findall(r'title="id (\d+)"', token_strip(turn, credit, None, None)) == [str(i) for i in range(size)]


def test_a_long_node_draws_the_tokens_it_is_asked_for(trees):
    node = trees.node(TREE)
    turns = [
        dict(node["turns"][0], turn_id=f"{TREE}#{i:04d}", completion_ids=[1] * 2000, logprobs=None) for i in range(3)
    ]
    node |= {"turns": turns}
    first = turn_list(node, decode=None)
    assert open_marks(first)[-1] == f"turn:{TREE}#0002"
    assert first.count('class="t ') == 2000
    asked = turn_list(node, decode=None, wanted=f"{TREE}#0002")
    assert asked.count('class="t ') == 4000
    assert asked.index("data-wanted") > asked.index(f"turn:{TREE}#0001")


def test_state_differences():
    assert state_changes(None, "{}") is None
    assert state_changes('{"a":1}', '{"a":1}') == []
    changes = state_changes('{"i":{"log":3,"gone":1},"at":[0,1]}', '{"i":{"log":1,"plank":4},"at":[0,2]}')
    assert [c.text for c in changes] == ["at[1]: 1 → 2", "i.gone: − 1", "i.log: 3 → 1", "i.plank: + 4"]
    assert state_changes("room a", "room b") == [Change("state", '"room a"', '"room b"')]


def test_thoughts_are_told_from_actions():
    assert split_thought("<think>a\nb</think>\n{}") == ("a\nb", "{}")
    assert split_thought("<thought>x</thought>y") == ("x", "y")
    assert split_thought("<think>never ends") == ("never ends", "")
    assert split_thought(" plain ") == ("", " plain ")


def test_numbers_that_are_none_say_so():
    assert [number(x) for x in (None, math.nan, math.inf, -math.inf, -0.5)] == ["none", "NaN", "∞", "−∞", "−0.50"]
    assert ranked_words(None, None, None) == "no pair to rank"
    assert ranked_words(1, 1, 0) == "1 of 1 pair ranked wrong"
    assert tree_of("r1/t3d0b0/t1d0~w~0~0") == tree_of("r1#0003") == "r1"
    assert main_rubric([]) is None


@pytest.mark.parametrize(
    ("kind", "which", "words"),
    [
        ("empty", "all", "This store has no trees yet."),
        ("one node", "all", "1 node"),
        ("only failures", "failed", "failed"),
        ("unscored", "worst", "No delegation has both"),
        ("not a number", "worst", "6 pairs"),
        ("faults", "infra", "infrastructure error"),
        ("faults", "loops", "1 loop"),
    ],
)
def test_hard_stores_are_shown_sensibly(tmp_path, kind, which, words):
    explorer = Explorer(ExplorerStore(hard_store(tmp_path / "store", kind)))
    listed = explorer.answer({"filter": which})["list"]
    assert words in re.sub(r"</?b>", "", listed)
    everything = explorer.answer({"filter": "all"})["list"]
    places = open_marks(listed)[:1] + open_marks(everything)[:1]
    panels = [explorer.answer({"open": place}) for place in places]
    inner = {
        mark for panel in panels for mark in re.findall(r'treeitem"[^>]*data-open="([^"]+)"', panel.get("tree", ""))
    }
    seen = [explorer.answer({"open": mark})["detail"] for mark in sorted(inner)]
    assert all(seen)
    if kind == "not a number":
        assert "NaN" in "".join(seen)
        assert "no score" in "".join(seen)
        assert "invalid" in "".join(seen)


def test_pages(tmp_path):
    trees = ExplorerStore(small.small_store(tmp_path / "store", tasks=14, samples=2, k=1))
    explorer = Explorer(trees)
    assert f"1–{PAGE} of 28" in explorer.answer({"filter": "all"})["list"]
    assert f"{PAGE + 1}–28 of 28" in explorer.answer({"page": PAGE})["list"]
    assert len(open_marks(explorer.answer({"page": PAGE})["list"])) == 28 - PAGE


def test_only_files_that_can_hold_the_tree_are_read(tmp_path, monkeypatch):
    monkeypatch.setitem(MAX_ROWS, "turns", 2_048)  # files of one row group
    store = small.small_store(tmp_path / "store", epochs=2, tasks=30)
    listing = store.listing()
    assert len(listing.files("turns")) >= 4
    whole = store.connect()
    read = set()
    for tree, epoch in whole.sql("select tree_id, epoch from trees order by tree_id").fetchall()[::17]:
        few = files_of_tree(store, listing, tree_id=tree, epoch=epoch)
        read.add(len(few.files("turns")))
        with connect_tables(few) as connection:
            for name in BY_TREE[1:]:
                query = f"select count(*) from {name} where tree_id = '{tree}'"
                assert connection.sql(query).fetchall() == whole.sql(query).fetchall()
    assert max(read) <= 2 < len(listing.files("turns"))


def test_unsealed_rows_are_seen_too(tmp_path):
    store = small.small_store(tmp_path / "store", sealed=False)
    assert ExplorerStore(sd.open(store.path)).counts["trees"] == 4
