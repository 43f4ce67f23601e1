"""Datums that share prefixes: strategies for tries whose tokens are trained by several datums at once."""

import numpy as np
from hypothesis import strategies as st

from learn.datum import Datum


def datum_of(name, ids, trained, seed):
    """A datum of these ids with log-probabilities and advantages of its own, also where another has the same token."""
    draw = np.random.default_rng(seed)
    trained = np.array(trained, np.bool_)
    trained[0], trained[-1] = False, True
    return Datum(
        datum_id=name,
        stage="execution",
        trajectory_id=name,
        group_id="0/t0",
        depth=0,
        token_ids=np.array(ids, np.int32),
        trained=trained,
        logprobs=np.where(trained, -draw.exponential(2.0, len(ids)) - 0.5, 0).astype(np.float32),
        advantages=np.where(trained, draw.normal(size=len(ids)), 0).astype(np.float32),
        versions=np.where(trained, 0, -1).astype(np.int32),
        policy_version=0,
    )


@st.composite
def families(draw, *, vocabulary=4, longest=10, most=7):
    """Id lists of which most continue a prefix of an earlier one; equal ones and prefixes of others among them."""
    tokens = st.integers(0, vocabulary - 1)
    lists = [draw(st.lists(tokens, min_size=2, max_size=longest))]
    for _ in range(draw(st.integers(0, most - 1))):
        parent = draw(st.sampled_from(lists))
        cut = draw(st.integers(0, len(parent)))
        rest = draw(st.lists(tokens, max_size=longest))
        lists.append((parent[:cut] + rest)[: 3 * longest])
    return [ids for ids in lists if len(ids) > 1]


@st.composite
def forests(draw, **settings):
    """Datums over `families`, each token trained or not in each of them."""
    lists = draw(families(**settings))
    masks = [draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids))) for ids in lists]
    return [datum_of(f"d{i:02d}", ids, mask, i) for i, (ids, mask) in enumerate(zip(lists, masks, strict=True))]


def story(vocabulary=37):
    """Eight branches of one delegation: a prompt, a trained turn that they share half of, then each its own."""
    draw = np.random.default_rng(7)
    prompt, turn = draw.integers(0, vocabulary, 20), draw.integers(0, vocabulary, 8)
    datums = []
    for branch in range(8):
        ids = np.concatenate([prompt, turn[:5], [branch], draw.integers(0, vocabulary, 4 + branch)])
        trained = np.arange(len(ids)) >= len(prompt)
        datums.append(datum_of(f"d{branch:02d}", ids, trained, branch))
    return datums
