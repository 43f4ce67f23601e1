"""docs/method.md points at files with the text it names, near its line, and knows every method and fault."""

import re

from learn.method import shipped
from tests.packaging.method_page import LINK, PAGE, fault


def test_every_link_of_the_method_page_points_at_its_symbol():
    faults = [found for link in LINK.finditer(PAGE.read_text(encoding="utf-8")) if (found := fault(link))]
    assert not faults, "\n".join([*faults, "python tests/packaging/method_page.py moves the line numbers"])


def test_every_location_on_the_method_page_is_a_checked_link():
    text = PAGE.read_text(encoding="utf-8")
    assert len(LINK.findall(text)) == len(re.findall(r"\]\(\.\./", text)) > 50


def test_every_method_and_every_fault_of_the_public_code_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in shipped() if f"`{name}`" not in text] == []
    assert [f"B{n}" for n in range(1, 30) if f"| B{n} |" not in text] == []
