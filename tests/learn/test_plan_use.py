import pytest
from hypothesis import given
from hypothesis import strategies as st

from learn.config import LoopConfig
from learn.model_shape import read_shape
from learn.plan_cost import cost_of, models_of, plan_cost
from learn.plan_memory import Machine, Training
from learn.plan_speed import decode_speed, open_accelerator, prefill_speed, train_speed
from learn.plan_store import per_tree
from learn.plan_use import Calls, assumptions, limited, stated_use
from learn.planning import Terms, plan_epochs
from learn.schedule import parse_schedule
from learn.spread import Spread, parse_spread
from sera_data.errors import UsageError
from sera_data.prices import Price, Prices

QWEN = read_shape("qwen3-4b")
numbers = st.floats(0, 1e6)
spreads = st.tuples(numbers, numbers, numbers).map(lambda x: Spread(*sorted(x)))


@given(spreads, spreads, st.floats(0, 100))
def test_spreads_keep_their_order(a, b, factor):
    for found in (a + b, a * b, a * factor, factor * a, a.less(b), a.at_most(5)):
        assert 0 <= found.low <= found.expected <= found.high
    assert (a + b).less(b).expected == pytest.approx(a.expected, abs=1e-6)


def test_faster_is_shorter_and_wrong_spreads_are_refused():
    assert Spread(10, 20, 40).at_speed(Spread(1, 2, 4)) == Spread(2.5, 10, 40)
    with pytest.raises(UsageError, match="low <= expected"):
        Spread(3, 2, 1)
    with pytest.raises(UsageError, match="one number or three"):
        parse_spread("1,2", what="--rate")
    with pytest.raises(UsageError, match="--rate wants"):
        parse_spread("fast", what="--rate")


def test_the_limits_of_an_h200_are_those_of_its_bandwidth_and_products():
    device = open_accelerator("H200")
    decode = decode_speed(QWEN, device, sequences=64, context=2048)
    assert decode.expected / 0.65 == pytest.approx(64 / ((8.045e9 + 64 * 2048 * 147_456) / 4.3e12), rel=1e-3)
    # 6 N of the layers, 8 of the output layer, attention of 0.885 MFLOP per token of length
    train = train_speed(QWEN, device, length=10_240, trained=1.0, recompute=False)
    assert train.expected / 0.35 == pytest.approx(790e12 / (6 * 3.6333e9 + 8 * 0.38896e9 + 0.8847e6 * 10_240), rel=1e-3)
    assert prefill_speed(QWEN, device, context=2048).high < device.flops / (2 * QWEN.body)
    with pytest.raises(UsageError, match="no accelerator 'b300'"):
        open_accelerator("b300")


def terms(**changed):
    config = LoopConfig(
        epochs=3, learn_last=False, margin=1.5, learn={"updates_per_collect": 20, "groups_per_update": 8}
    )
    base = {
        "config": config,
        "schedule": parse_schedule("execution:16,delegation:2,rubric:2"),
        "shape": QWEN,
        "machine": Machine(2, 8, 150e9),
        "training": Training(recompute=True),
        "stated": assumptions("textcraft"),
    }
    return Terms(**base | changed)


def test_a_plan_counts_groups_and_trees_as_the_loop_deals_them():
    epochs = plan_epochs(terms())
    assert [e.groups for e in epochs] == [{"execution": 192, "delegation": 24, "rubric": 24}] * 3
    assert [e.trees for e in epochs] == [1920] * 3
    assert [(e.version, e.updates) for e in epochs] == [(0, 20), (20, 20), (40, 0)]
    assert epochs[2].learned.high == 0
    assert epochs[0].collect_s is None  # no speed is known, none is made up
    from learn.planning import sources

    assert sources(terms())["collect speed"] == "unknown"


def test_seconds_are_tokens_over_the_speed_of_all_gpus():
    known = plan_epochs(terms(speeds={"collect": Spread.of(100), "learn": Spread.of(50)}))[0]
    assert known.collect_s.expected == pytest.approx(known.written.expected / (100 * 16))
    assert known.learn_s.expected == pytest.approx(known.learned.expected / (50 * 16))
    stated = plan_epochs(terms(device=open_accelerator("h200")))[0]
    assert 0 < stated.collect_s.low < stated.collect_s.expected < stated.collect_s.high


def test_roles_that_others_serve_cost_no_time_here():
    device = open_accelerator("h200")
    ours, theirs = (
        plan_epochs(terms(device=device))[0],
        plan_epochs(terms(device=device, away=frozenset({"scorer"})))[0],
    )
    assert theirs.collect_s.expected < ours.collect_s.expected
    assert theirs.written == ours.written


def test_only_forked_trees_have_branches_and_budgets_cut_assumptions():
    config = terms().config.collect
    stated = assumptions("textcraft")
    plain, forked = (stated_use(config, stage, stated) for stage in ("execution", "rubric"))
    branches = config.delegation.forks_per_tree * (config.delegation.k - 1)
    assert forked.agents.expected == plain.agents.expected + branches * stated["fork_agents"].expected
    assert forked.roles["scorer"].calls.expected == plain.roles["scorer"].calls.expected + branches
    assert "writer" not in stated_use(config, "delegation", stated).roles
    alone = config.model_copy(update={"budgets": config.budgets.model_copy(update={"depth": 0, "turns": 3})})
    assert limited(stated, alone)["turns"] == Spread(3, 3, 3)
    assert stated_use(alone, "execution", stated).agents == Spread.of(1)
    assert stated_use(alone, "execution", stated).roles["writer"].calls == Spread.of(0)
    with pytest.raises(UsageError, match="no assumption 'agent'"):
        assumptions("textcraft", {"agent": Spread.of(1)})


def test_means_are_per_tree_with_errors_over_tasks():
    found = per_tree([8, 8, 8, 8], [8, 16, 24, 32])
    assert found.expected == 2.5
    # sd of the task means is 1.29; two standard errors of four tasks
    assert found.high - found.expected == pytest.approx(2 * 1.2909944 / 2, rel=1e-6)
    assert per_tree([2, 6], [2, 18]).expected == 2.5  # by trees, not by tasks
    assert per_tree([8], [16]) == Spread(1, 2, 4)  # one task says little


def test_cost_is_fresh_cached_and_written_tokens_by_role():
    calls = Calls(Spread.of(10), Spread.of(3e6), Spread.of(1e6), Spread.of(2e6), Spread.of(0))
    assert cost_of(calls, Price(0.5, 0.1, 2.0)) == Spread.of(0.5 + 0.2 + 4.0)
    config = terms().config.collect
    config = config.model_copy(
        update={
            "policy": config.policy.model_copy(
                update={"roles": config.policy.roles.model_copy(update={"scorer": "openai:big@http://example.com/v1"})}
            )
        }
    )
    models = models_of(config, "qwen3-4b")
    assert models == {"act": "qwen3-4b", "writer": "qwen3-4b", "scorer": "big"}
    epochs = plan_epochs(terms(speeds={"collect": Spread.of(1e4), "learn": Spread.of(1e4)}))
    prices = Prices(models={"big": {"input": 1.0, "output": 4.0}})
    cost = plan_cost(epochs, models=models, prices=prices, gpu_hour=Spread(2, 3, 4), world=16)
    assert cost.unpriced == ("act", "writer")
    scorer = [e.roles["scorer"] for e in epochs]
    want = sum(c.read.expected + 4 * c.written.expected for c in scorer) / 1e6
    assert cost.tokens["scorer"].expected == pytest.approx(want)
    assert cost.gpus.expected == pytest.approx(3 * cost.hours.expected)
    assert cost.total.expected == pytest.approx(want + cost.gpus.expected)
