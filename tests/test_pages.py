"""The documentation pages are short, and their links are valid."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST_WORDS = {"minijax/ARCHITECTURE.md": 2500, "CHANGELOG.md": 500}
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "minijax/ARCHITECTURE.md", "tests/bench/README.md")


@pytest.mark.parametrize("page", MOST_WORDS)
def test_a_page_has_no_more_words_than_its_bound(page):
    assert len((ROOT / page).read_text(encoding="utf-8").split()) <= MOST_WORDS[page]


@pytest.mark.parametrize("page", PAGES)
def test_each_link_to_a_file_names_a_file_that_exists(page):
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    missing = [link for link in links if not ((ROOT / page).parent / link).exists()]
    assert not missing


def test_each_file_that_the_architecture_page_names_exists():
    text = (ROOT / "minijax/ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)(?:: \w+)?`", text))
    assert named
    folders = (ROOT, ROOT / "minijax", ROOT / "minijax/tools")
    assert not [name for name in named if not any((folder / name).exists() for folder in folders)]
