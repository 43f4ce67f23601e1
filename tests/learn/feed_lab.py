"""The feed of a learn phase on a sealed store, without the phase: what it would train from, and what it refuses."""

import sera_data as sd
from collect.policy_directory import read_policy_directory
from learn.config import LearnConfig
from learn.feed import Feed
from learn.refreshed import method_of
from sera_data.config import load_config


def feed(store, policy, *settings):
    """The feed of epoch 0 of the store at a path, for a phase with these settings that starts at a policy directory."""
    config = load_config(LearnConfig, None, settings)
    start = read_policy_directory(policy)
    return Feed(
        sd.open(store).connect(view="sealed"),
        config=config,
        method=method_of(config),
        epoch=0,
        start=start.version,
        tokenizer_sha256=start.tokenizer_sha256,
    )
