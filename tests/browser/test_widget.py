"""The stepping widget in a real browser: its panes at each step, its keys and buttons, and hostile texts."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from minijax.tools.documents.document import LINK, MARK, lay_out
from minijax.tools.documents.lexer import highlight
from minijax.tools.documents.theme import visible
from minijax.tools.documents.words import shortened
from minijax.tools.pages.choices import Choices
from minijax.tools.pages.part import WIDTH
from minijax.tools.pages.widget import widget_html
from minijax.tools.recording.cursor import Cursor
from minijax.tools.stepper import origins, panes
from minijax.tools.stepper.tree import REACH, past_repeated, tree_rows
from minijax.tools.values.moment import at_hand
from minijax.tools.values.table import PageTable
from tests.browser.page import Browser
from tests.browser.programs import CHOOSING, HOSTILE, NAMES, recording

# Key codes of the WebDriver standard.
LEFT, UP, RIGHT, DOWN, HOME, END, RETURN, SHIFT, CONTROL, BACKSPACE = (
    chr(0xE000 + code) for code in (0x12, 0x13, 0x14, 0x15, 0x11, 0x10, 0x07, 0x08, 0x09, 0x03)
)

# The widget's panes, as lists of lines.
READ = """
const root = arguments[0] || document.querySelector('.mjw');
const lines = (name) => [...root.querySelector('[data-pane=' + name + ']').children]
  .filter((line) => !line.hidden).map((line) => line.textContent);
const read = () => ({
  status: [root.querySelector('.mjw-status').textContent],
  where: root.querySelector('.mjw-source .mjw-title').textContent.replace(/^source( · )?/, ''),
  source: lines('source'), stack: lines('stack'), program: lines('program'),
  tree: lines('tree'), values: lines('values'), operation: lines('operation'), rule: lines('rule'),
  current: ['source', 'stack', 'tree'].flatMap((name) => marked(name, 'mjw-now')), used: marked('stack', 'mjw-used'),
});
const marked = (name, kind) =>
  [...root.querySelectorAll('[data-pane=' + name + '] .' + kind)].map((line) => line.textContent);
const press = (move) => root.querySelector('[data-move=' + move + ']').click();
"""


def squeezed(lines: Any) -> list[str]:
    """Lines without the terminal's marks, with white space normalised and empty lines removed."""
    texts = [" ".join(text.replace(MARK, "").replace(LINK, "").split()) for text in lines]
    return [text for text in texts if text]


def pane(view: Any, cursor: Cursor, width: int = 100_000) -> list[str]:
    """A pane of the terminal's stepper, as text."""
    return ["".join(visible(text) for _, text in each) for each in lay_out(view(cursor), width)]


def expected(cursor: Cursor) -> dict[str, list[str]]:
    """The text of all panes at the cursor's moment, computed in Python."""
    rows = tree_rows(cursor, REACH, REACH)
    tree = squeezed("".join(visible(text) for _, text in each) for each in rows.lines)
    return {
        "status": squeezed(pane(panes.status, cursor)[:1]),
        "source": squeezed(pane(panes.source_pane, cursor)),
        "stack": squeezed(pane(panes.stack_pane, cursor)),
        "program": squeezed(pane(panes.program_pane, cursor, WIDTH)),
        "tree": tree,
        "values": squeezed(values(cursor)),
        "rule": squeezed(pane(panes.rule_pane, cursor)),
        "current": [
            *squeezed(
                line for view in (panes.source_pane, panes.stack_pane) for line in pane(view, cursor) if MARK in line
            ),
            tree[rows.current],
        ],
        "used": squeezed(line for line in pane(panes.stack_pane, cursor) if LINK in line),
    }


def values(cursor: Cursor) -> list[str]:
    """The lines of the table of values at this moment, from a new ``PageTable``."""
    known = at_hand(cursor.recording)
    assert known is not None
    lines = PageTable(known, WIDTH).lines(cursor.moment.at)
    return [visible("".join(piece for _, piece in each)) for each in lines]


def shown(read: dict[str, Any]) -> dict[str, list[str]]:
    """The panes that ``read`` found on the page, in the form of ``expected``: headings and panes are joined."""
    return {
        "status": squeezed(read["status"]),
        "source": squeezed([read["where"], *read["source"]]),
        "stack": squeezed(read["stack"]),
        "program": squeezed(read["program"]),
        "tree": squeezed(each.lstrip("▸") for each in read["tree"]),
        "values": squeezed(read["values"]),
        "rule": squeezed([*read["operation"], *read["rule"]]),
        "current": squeezed(each.lstrip("▸") for each in read["current"]),
        "used": squeezed(read["used"]),
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_step_forwards_and_back_matches_python(name, window, monkeypatch):
    if name == "scan":  # some of its programs are longer than 2 equations
        monkeypatch.setattr(panes, "MOST_EQUATIONS", 2)
    window.show(widget_html(recording(name), highlight))
    cursor = Cursor(recording(name))
    script = READ + (
        "const out = [read()];"
        "for (let i = 0; i < arguments[1]; i += 1) { press('into'); out.push(read()); }"
        "for (let i = 0; i < arguments[1]; i += 1) { press('back'); out.push(read()); }"
        "return out;"
    )
    steps = len(cursor.moments) - 1
    reads = window.run(script, None, steps)
    for i, read in enumerate(reads):
        cursor.go(min(i, 2 * steps - i))
        wanted, got = expected(cursor), shown(read)
        for what in wanted:
            assert got[what] == wanted[what], (i, what)
    assert window.console() == []
    assert any("earlier equation" in line for read in reads for line in read["program"]) == (name == "scan")


# At every third step: the panes, then the panes with the slider of each loop and vmap at its end.
CHOOSE = (
    READ
    + """
const out = [];
for (let i = 0; i <= arguments[1]; i += 3) {
  const found = [read()];
  for (let k = 0; k < root.querySelectorAll('.mjw-offer').length; k += 1) {
    const slide = (wanted) => {
      const range = root.querySelectorAll('.mjw-offer input')[k];
      range.value = wanted;
      range.dispatchEvent(new Event('input'));
      return range.max;
    };
    slide(root.querySelectorAll('.mjw-offer input')[k].max);
    const said = root.querySelectorAll('.mjw-chosen')[k].textContent;
    found.push({ ...read(), said });
    slide(0);
  }
  out.push(found);
  for (const _ of 'abc') press('into');
}
return out;
"""
)


@pytest.mark.parametrize("name", CHOOSING)
def test_iterations_and_examples_match_python(name, window):
    window.show(widget_html(recording(name)))
    cursor = Cursor(recording(name))
    known = at_hand(recording(name))
    assert known is not None
    choices, table = Choices(known, ""), PageTable(known, WIDTH)
    chosen = 0
    for third, (first, *others) in enumerate(window.run(CHOOSE, None, len(cursor.moments) - 1)):
        cursor.go(i := 3 * third)
        assert shown(first) == expected(cursor), i
        at = cursor.moment.at
        here = choices.here(cursor, table.named(at)[0], table.row(at))
        assert len(others) == len(here), i
        for (choice, number), read in zip(here, others, strict=True):
            own = choices.listed[choice]
            last = choices.count(choice, number) - 1
            if own.is_loop:
                known.iterations[own.key] = last
            elif last:
                known.examples[own.key] = last - 1
            try:
                wanted, got = expected(cursor), shown(read)
                assert read["said"] == choices.label(choice, number), i
                for what in wanted:
                    assert got[what] == wanted[what], (i, read["said"], what)
            finally:
                known.iterations.clear()
                known.examples.clear()
            chosen += got != shown(first)
    assert chosen > 3 and window.console() == []


def test_keys_choose_iterations_and_examples(window):
    window.show(widget_html(recording("examples")))
    window.one("[data-move=last]").click()
    stage = window.one(".mjw-stage")
    assert [each.text for each in window.all(".mjw-chosen")] == ["all 2 examples of vmap:1", "iteration 0 of 2"]
    stage.send_keys("]", "}", "}")
    assert [each.text for each in window.all(".mjw-chosen")] == ["example 1 of 2 of vmap:1", "iteration 1 of 2"]
    stage.send_keys("]", "{", "0", "[")
    assert [each.text for each in window.all(".mjw-chosen")] == ["example 0 of 2 of vmap:1", "iteration 0 of 2"]
    assert position(window) == len(Cursor(recording("examples")).moments) - 1
    window.show(widget_html(recording("jit")))
    window.one(".mjw-stage").send_keys("]")
    assert "no variable of a loop is known here" in window.all(".mjw-status")[0].text


def test_a_page_reports_missing_iterations(window, monkeypatch):
    monkeypatch.setattr("minijax.tools.pages.choices.MOST_CHOICES", 2)
    window.show(widget_html(recording("rnn")))
    window.run(READ + "while (!root.querySelector('.mjw-held')) press('into')")
    text = "this page holds iterations 0 to 1; %values rnn --iteration N shows others"
    assert window.one(".mjw-held").text == text
    window.one(".mjw-stage").send_keys("2]")
    assert window.one(".mjw-chosen").text == "iteration 1 of 3" and window.one(".mjw-status").text == text


def over(cursor: Cursor) -> bool:
    """Step over all operations that share one row of the tree, as the terminal's stepper does."""
    past = past_repeated(cursor)
    return cursor.go(past) if past else cursor.over()


MOVES = {
    "first": Cursor.first,
    "last": Cursor.last,
    "into": Cursor.into,
    "back": Cursor.back,
    "over": over,
    "backOver": Cursor.back_over,
    "out": Cursor.out,
    "backOut": Cursor.back_out,
}


def position(window: Browser, number: int = 0) -> int:
    """The number of the step that a widget shows."""
    text = window.all(".mjw-status")[number].text
    return int(text.partition("/")[0])


WALK = (
    READ
    + """
const step = () => Number(root.querySelector('.mjw-slider').value);
const walk = (name) => {
  const before = step();
  root.querySelector('[data-walk=' + name + ']').click();
  const offered = [...root.querySelectorAll('[data-choice]')].map((button) => button.textContent);
  const there = step();
  if (there !== before) {
    root.querySelector('[data-walk=return]').click();
    if (step() !== before) throw new Error('not back at ' + before);
    return [there];
  }
  return offered;
};
const out = [];
for (let i = 0; i <= arguments[1]; i += 1) {
  out.push([walk('from'), walk('to')]);
  press('into');
}
return out;
"""
)


def choices(found: list[origins.OriginChoice], cursor: Cursor) -> list[Any]:
    """Return what the page offers: the only other position, or names with the digits that choose them."""
    others = [each for each in found if each.position != cursor.position]
    if len(others) == 1:
        return [others[0].position]
    return [visible(f"{i} {shortened(each.name)}") for i, each in enumerate(others[:9], 1)]


@pytest.mark.parametrize("name", NAMES)
def test_following_values_on_a_page_matches_python(name, window):
    window.show(widget_html(recording(name)))
    cursor = Cursor(recording(name))
    known: dict[int, Any] = {}
    for i, (sources, uses) in enumerate(window.run(WALK, None, len(cursor.moments) - 1)):
        cursor.go(i)
        bind = cursor.state().bind
        if bind is not None and bind.at not in known:
            known[bind.at] = origins.sources(cursor), origins.uses(cursor, origins.results(cursor))
        wanted = ([], []) if bind is None else known[bind.at]
        assert [sources, uses] == [choices(each, cursor) for each in wanted], i
    assert window.console() == []


def test_keys_walk_to_an_operand_and_back(window):
    window.show(widget_html(recording("vmap of grad")))
    cursor = Cursor(recording("vmap of grad"))
    assert cursor.to_bind(primitive="sub")
    found = origins.sources(cursor)
    assert len(found) == 2
    stage = window.one(".mjw-stage")
    for _ in range(cursor.position):
        stage.send_keys(RIGHT)
    stage.send_keys(RETURN)
    assert [each.text for each in window.all("[data-choice]")] == [f"{i} {c.name}" for i, c in enumerate(found, 1)]
    stage.send_keys("2")
    assert position(window) == found[1].position and not window.all("[data-choice]")
    stage.send_keys(BACKSPACE)
    assert position(window) == cursor.position
    stage.send_keys(BACKSPACE)
    assert "nothing to return to" in window.one(".mjw-status").text


def test_each_button_moves_like_the_cursor(window):
    window.show(widget_html(recording("vmap of grad")))
    cursor = Cursor(recording("vmap of grad"))
    rng = random.Random(4)
    moves = [rng.choice([*MOVES, "into", "into", "back"]) for _ in range(200)]
    script = READ + "return arguments[1].map((move) => { press(move); return read(); });"
    for move, read in zip(moves, window.run(script, None, moves), strict=True):
        MOVES[move](cursor)
        assert int(read["status"][0].partition("/")[0]) == cursor.position, move
        assert shown(read)["stack"] == expected(cursor)["stack"], move


def test_the_slider_and_a_click_in_the_tree_choose_a_step(window):
    window.show(widget_html(recording("vmap of grad")))
    window.run(
        "const slider = document.querySelector('.mjw-slider');"
        "slider.value = 9; slider.dispatchEvent(new Event('input'))"
    )
    assert position(window) == 9
    for row in (2, 5, 11):
        tree = tree_rows(Cursor(recording("vmap of grad"), position(window)), REACH, REACH)
        window.all("[data-pane=tree] .mjw-line")[row].click()
        assert position(window) == tree.positions[row]
        assert window.one("[aria-current=step]").get_attribute("data-moment") == str(tree.positions[row])


def test_equal_steps_share_a_row_that_can_be_opened(window):
    cursor = Cursor(recording("loop"))
    window.show(widget_html(recording("loop")))
    closed = "[data-pane=tree] [aria-expanded=false]"
    first = tree_rows(cursor, REACH, REACH)
    texts = ["".join(text for _, text in each) for each in first.lines]
    row = next(i for i, text in enumerate(texts) if "×6" in text)
    assert "×6" in window.all(closed)[0].text and len(window.all("[data-pane=tree] .mjw-line")) == len(texts)
    window.all(f"{closed} .mjw-fold")[0].click()
    cursor.go(first.positions[row] + 1)
    assert position(window) == cursor.position
    opened = ["".join(text for _, text in each) for each in tree_rows(cursor, REACH, REACH).lines]
    assert sum("×5" in text for text in opened) == 1 and texts[row] not in opened and len(opened) > len(texts)
    assert len(window.all("[data-pane=tree] .mjw-line")) == len(opened)


def test_keys_step_only_the_widget_that_has_the_focus(window):
    markup = widget_html(recording("vmap of grad"))
    window.show(markup, markup, widget_html(recording("error")))
    body, stages = window.one("body"), window.all(".mjw-stage")
    assert len(stages) == 3
    window.run("document.activeElement.blur()")
    body.send_keys(RIGHT)
    assert [position(window, i) for i in range(3)] == [0, 0, 0]
    stages[1].send_keys(RIGHT, RIGHT, RIGHT, LEFT)
    assert [position(window, i) for i in range(3)] == [0, 2, 0]
    stages[2].send_keys(END)
    stages[1].send_keys(HOME, DOWN)
    last = len(Cursor(recording("error")).moments) - 1
    over = Cursor(recording("vmap of grad"))
    over.over()
    assert [position(window, i) for i in range(3)] == [0, over.position, last]
    stages[2].send_keys(UP, "u", "i")
    assert position(window, 0) == 0 and position(window, 1) == over.position
    window.all(".mjw-search")[1].send_keys(LEFT, RIGHT, "b", RIGHT)  # arrows in the search field do not step
    assert position(window, 1) == over.position


# A page that handles keys as notebooks do. JupyterLab handles a key first, unless its target is inside an element with
# the attribute below. The classic notebook handles the keys that no listener stopped. Both focus a clicked cell.
LISTENING = """
window.heard = [];
document.addEventListener('keydown', (event) => {
  if (!event.target.closest('[data-lm-suppress-shortcuts]')) window.heard.push('lab ' + event.key);
}, true);
for (const kind of ['keydown', 'keypress', 'keyup']) {
  document.addEventListener(kind, (event) => window.heard.push('classic ' + event.key));
}
const cell = document.createElement('div');
cell.tabIndex = -1;
const mjw = document.querySelector('.mjw');
mjw.before(cell);
cell.append(mjw);
cell.addEventListener('mousedown', (event) => { event.preventDefault(); cell.focus(); });
"""


def test_no_plain_key_in_the_stepper_reaches_the_notebook(window):
    window.show("<p id=before>before</p>", widget_html(recording("jit"), highlight))
    window.run(LISTENING)
    plain = "ddxymz0a" + UP + RETURN
    places = ("[data-pane=stack]", "[data-pane=tree] .mjw-line", "[data-move=into]", ".mjw-programs > summary")
    for place in (*places, ".mjw-search"):
        window.all(place)[0].click()
        window.run("window.heard.length = 0")
        window.driver.switch_to.active_element.send_keys(plain)
        assert window.run("return window.heard") == [], place
    # keys that the stepper does not use reach the page
    window.one(".mjw-stage").send_keys(CONTROL + "j")
    assert "classic j" in window.run("return window.heard")
    window.run("document.activeElement.blur(); window.heard.length = 0")
    window.one("body").send_keys("d")
    assert {"lab d", "classic d"} <= set(window.run("return window.heard"))


def test_the_search_moves_forwards_and_back(window):
    window.show(widget_html(recording("vmap of grad")))
    cursor = Cursor(recording("vmap of grad"))
    window.one(".mjw-stage").send_keys("/")
    field = window.one(".mjw-search")
    assert field == window.driver.switch_to.active_element
    field.send_keys("reduce_sum", RETURN)
    found = []
    for _ in range(3):
        cursor.search("reduce_sum")
        found.append(cursor.position)
        assert position(window) == cursor.position
        field.send_keys(RETURN)
    field.send_keys(SHIFT + RETURN)
    assert position(window) == found[-1]
    field.clear()
    field.send_keys("no such words", RETURN)
    assert "does not occur after" in window.one(".mjw-status").text


def test_the_widget_is_accessible(window):
    window.show(widget_html(recording("vmap of grad")))
    assert window.one(".mjw-stage").get_attribute("role") == "group"
    for button in window.all(".mjw-bar button"):
        assert len(button.accessible_name) > 8
    for each in [*window.all(".mjw-bar input"), window.one(".mjw-stage"), *window.all("section")]:
        assert each.accessible_name
    assert window.one(".mjw-status").get_attribute("aria-live") == "polite"
    window.one("[data-move=into]").click()
    assert window.one("[aria-current=step]").get_attribute("data-moment") == "1"
    assert window.one("[data-move=into]").get_attribute("aria-disabled") == "false"
    window.one("[data-move=first]").click()
    assert window.one("[data-move=back]").get_attribute("aria-disabled") == "true"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("jupyter", ["", "true", "false"], ids=["page", "Jupyter light", "Jupyter dark"])
def test_every_text_has_contrast_in_light_and_dark(jupyter, dark, window):
    window.show(widget_html(recording("vmap of grad"), highlight), dark=dark)
    if jupyter:
        window.run(
            "document.body.dataset.jpThemeLight = arguments[0];"
            "document.body.style.background = arguments[0] === 'true' ? 'white' : '#111111'",
            jupyter,
        )
    window.run(READ + "for (let i = 0; i < 30; i += 1) press('into')")
    assert window.readable(jupyter == "false" if jupyter else dark) > 100


def test_the_widget_loads_nothing_and_adds_no_globals(window):
    window.show()
    before = set(window.run("return Object.getOwnPropertyNames(window)"))
    address = window.show(widget_html(recording("scan"), highlight))
    assert set(window.run("return Object.getOwnPropertyNames(window)")) == before
    window.run(READ + "for (const move of ['into', 'last', 'back', 'out', 'first', 'over']) press(move)")
    assert window.addresses() == {address} and window.console() == []


def test_hostile_text_is_shown_as_text(window):
    window.show(widget_html(recording("hostile"), highlight), "<p id=after>after</p>")
    window.run(READ + "for (let i = 0; i < 200; i += 1) press('into')")
    assert window.run("return document.querySelectorAll('img, iframe, object, embed, link, [onerror]').length") == 0
    assert window.run("return document.querySelectorAll('script').length") == 2
    text = window.run("return document.body.textContent.replace(/\\s+/g, ' ')")
    assert "\u202e" not in text and "\x07" not in text
    shown_as = visible(HOSTILE)
    for where in ("tree", "operation", "source", "status"):
        script = READ + (
            "press('first'); const seen = [];"
            "for (let i = 0; i < 200; i += 1) { press('into'); const now = read();"
            "seen.push(...(now[arguments[1]] || lines(arguments[1]))); } return seen.join('\\n');"
        )
        assert shown_as[:40] in window.run(script, None, where), where
    assert window.one("#after").is_displayed()
    assert window.console() == []


def test_without_scripts_the_log_is_shown_and_folds(window):
    window.show(widget_html(recording("vmap of grad")), scripts=False)
    assert not window.all(".mjw-stage")
    text = window.one(".mjw-static").text
    for words in ("vmap:1 begins for f", "linearize:2 begins", "eval batched = "):
        assert words in text
    outer = next(each for each in window.all(".mjw-static > details > summary") if "begins for f" in each.text)
    height = window.one(".mjw-static").size["height"]
    outer.click()
    assert window.one(".mjw-static").size["height"] < height / 2


# JupyterLab inserts the markup of an output, then replaces each script element so that it runs. A second view of an
# output inserts it twice.
INSERT = """
for (let i = 0; i < 2; i += 1) {
  const host = document.createElement('div');
  host.innerHTML = arguments[0];
  for (const old of host.querySelectorAll('script')) {
    const script = document.createElement('script');
    for (const { name, value } of old.attributes) script.setAttribute(name, value);
    script.textContent = old.textContent;
    old.replaceWith(script);
  }
  document.body.append(host);
}
"""


def test_an_inserted_output_starts_exactly_once(window):
    window.show()
    window.run(INSERT, widget_html(recording("vmap of grad"), highlight))
    assert len(window.all(".mjw-stage")) == 2
    window.all("[data-move=last]")[1].click()
    last = len(Cursor(recording("vmap of grad")).moments) - 1
    assert [position(window, i) for i in range(2)] == [0, last]
    window.run(INSERT, widget_html(recording("error"), highlight))
    assert [position(window, i) for i in range(4)] == [0, last, 0, 0]
    assert window.console() == []


def test_a_broken_widget_keeps_its_text_and_does_not_affect_others(window):
    markup = widget_html(recording("error"))
    broken = re.sub(r'(<script type="application/json">).*?(</script>)', r"\1{\2", markup, flags=re.S)
    window.show(broken, markup)
    assert len(window.all(".mjw-stage")) == 1
    assert [each.is_displayed() for each in window.all(".mjw-static")] == [True, False]
