"""The documentation builds, so every code block runs; pages open without a server; every link has a target."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from docs.site import gallery as site_gallery
from docs.site.blocks import Blocks
from docs.site.build import HERE, PAGES, made_apart
from docs.site.gallery import sections
from docs.site.layout import PageError
from minijax.core.trace import stack_depth
from minijax.tools import gallery
from minijax.tools.commands.table import COMMANDS
from minijax.tools.commands.tour_parts import PARTS
from minijax.tools.session import source
from tests.docs.conftest import RECORDINGS
from tests.docs.pages import ROOT, broken_links, faults

MADE = ("tour", "commands", "gallery", *(f"gallery/{name}" for name in RECORDINGS))
FILES = [f"{name}.html" for name in (*PAGES, *MADE)]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown(path: Path) -> str:
    """The text of a page, without its steppers' data."""
    text = re.sub(r"<(script|style).*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def test_every_page_is_written_and_every_block_is_on_it(site):
    assert sorted(str(path.relative_to(site)) for path in site.rglob("*.html")) == sorted(FILES)
    assert {path.stem for path in HERE.glob("*.md")} == {*PAGES, "gallery"}
    count = 0
    for name in PAGES:
        text = shown(site / f"{name}.html")
        for info, code in FENCE.findall((HERE / f"{name}.md").read_text(encoding="utf-8")):
            inputs = list(source.inputs(code.rstrip("\n"))) if info.startswith("minijax") else [code.rstrip("\n")]
            for each in inputs:
                assert each.strip("\n") in text, (name, each)
                count += 1
    assert count > 100


def test_pages_show_the_output_of_their_blocks(site):
    assert "Array(-2.979985, dtype=float32, weak_type=True)" in shown(site / "index.html")
    assert "first NaN made by mul" in shown(site / "problems.html")
    assert "0.07700378 after 48 events" in shown(site / "stepping.html")
    assert 'src="data:image/svg+xml;base64,' in (site / "notebooks.html").read_text(encoding="utf-8")
    assert re.search(r"1 recompile, [\d.]+ ms", shown(site / "notebooks.html"))
    assert "smallest example square_of_mine_p.bind" in shown(site / "primitives.html")
    assert "2 parts, each on 4" in shown(site / "sharding.html")
    assert shown(site / "sharding.html").count("ppermute asks for it") == 3
    # the last two columns of the page are bytes by the communication model and in the compiled program
    rows = re.findall(r"(?m)^(mlp|block) +(\w+) +(\w+) +([\d,]+) +([\d,]+)", shown(site / "communication.html"))
    assert len({row[:3] for row in rows}) == 20 and all(computed == compiled for *_, computed, compiled in rows)


def test_a_failed_page_process_stops_the_build():
    with pytest.raises(PageError, match="no_such_page"):
        made_apart("no_such_page", 2)


@pytest.mark.parametrize("file", FILES)
def test_a_page_opens_without_a_server(file, site, window):
    assert faults(window, site / file) == []


def test_links_have_targets(site):
    assert broken_links(site) == []


def test_the_reference_has_every_command_with_its_options_and_its_example(site):
    text = shown(site / "commands.html")
    parts = (site / "commands.html").read_text(encoding="utf-8").split("<h3 ")
    assert [re.match('id="(.*?)"', part)[1] for part in parts[1:]] == [
        command.name
        for group in dict.fromkeys(each.group for each in COMMANDS.values())
        for command in COMMANDS.values()
        if command.group == group
    ]
    for command in COMMANDS.values():
        assert command.usage in text and command.summary in text, command.name
        assert all(param.help in text for param in command.params)
        for each in source.inputs(command.example):
            assert each.strip() in text, (command.name, each)


def test_the_tour_has_every_stop(site):
    text = shown(site / "tour.html")
    for part in PARTS:
        for stop in part.stops:
            assert all(line in text for line in (*stop.line.splitlines(), *stop.text.splitlines())), stop
    assert text.count("The fourth equals sin(3), 0.14112;") == 1  # the build computes the number


def test_links_of_the_markdown_lead_to_files_of_the_repository():
    for path in HERE.glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)", FENCE.sub("", path.read_text(encoding="utf-8"))):
            assert (HERE / link).exists(), (path.name, link)


def test_without_its_libraries_a_page_uses_the_shipped_recording(monkeypatch):
    monkeypatch.setitem(site_gallery.PAGES, "adam", ("no_such_library",))
    recording, remark = site_gallery.recorded("adam")
    assert not recording.has_values and remark.endswith("this page was made without no_such_library.")


def test_a_narrow_page_folds_its_navigation(site, window):
    window.open(site / "index.html", width=480)
    assert not window.one("nav").is_displayed()
    window.one("header label").click()
    assert window.one("nav").is_displayed() and len(window.all("nav a")) == len(FILES) - len(RECORDINGS)
    window.open(site / "index.html", width=1200)
    assert window.one("nav").is_displayed() and not window.one("#menu").is_displayed()


def test_gallery_pages_recorded_at_build_have_values(site):
    page = (site / "gallery" / "graph_network.html").read_text(encoding="utf-8")
    assert "values are in the process that recorded them" not in page
    listed = shown(site / "gallery.html")
    for name in RECORDINGS:
        size = (site / "gallery" / f"{name}.html").stat().st_size
        assert gallery.PAGES[name].replace("``", "") in listed and f" events · {size / 1000:,.0f} kB" in listed


@pytest.mark.parametrize(
    ("kind", "words", "code", "expected"),
    [
        ("minijax", [], "1 / 0", "ZeroDivisionError"),
        ("minijax", ["fails"], "1 + 1", "None"),
        ("minijax", [], "%jaxprs sin(1.)", "there is no command"),
        ("ipython", [], "undefined", "undefined"),
        ("python", [], "raise ValueError(3)", "ValueError"),
        ("sh", [], "exit 3", "ended with 3"),
        ("text", [], "anything", "cannot be run"),
    ],
)
def test_a_failing_block_stops_the_build(kind, words, code, expected):
    before = Path.cwd()
    with pytest.raises(PageError, match=expected), Blocks("a page") as blocks:
        blocks.run(kind, words, code)
    assert Path.cwd() == before and stack_depth() == 0


def test_gallery_sections_without_a_recording_are_refused():
    with pytest.raises(PageError, match="differ: .*'nobody'"):
        sections("# The gallery\n\n## nobody\n\nsomething\n")


def test_install_commands_match_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in HERE.glob("*.md"):
        for info, code in FENCE.findall(path.read_text(encoding="utf-8")):
            if info == "sh install":
                assert f"```sh\n{code}```" in readme
