"""The one rule of success."""

import pytest

from collect.success import counts_as_success
from collect.world import Verdict

YES, NO = Verdict(True, {}), Verdict(False, {})

CASES = [
    ("finished", True, "done", "failure", True),
    ("finished", True, " \n", "failure", False),
    ("finished", True, None, "failure", False),
    ("finished", False, None, "failure", True),  # the world ended in success
    ("not_finished", False, None, "failure", False),
    ("not_finished", True, "done", "failure", False),
    ("truncated", False, None, "verdict", False),
    ("timeout", False, None, "verdict", False),
    ("loop", False, None, "failure", False),
    ("loop", False, None, "verdict", True),
]


@pytest.mark.parametrize("outcome, called, message, loop, success", CASES)
def test_success_needs_the_verdict_and_an_end(outcome, called, message, loop, success):
    facts = {"outcome": outcome, "called_finish": called, "message": message, "loop": loop}
    assert counts_as_success(YES, **facts) is success
    assert counts_as_success(NO, **facts) is False
