"""Graphs of jaxprs have the right edges and are drawn as text and as SVG, with every text escaped."""

import xml.etree.ElementTree as ET

from minijax import grad, jit, lax, make_jaxpr
from minijax import numpy as jnp
from minijax.repl import batch
from minijax.tools.compare import graph, graph_svg, graph_text
from minijax.tools.documents.document import Document, plain

SVG = "{http://www.w3.org/2000/svg}"


def f(x):
    return jnp.sin(x) * 2.0 - x


def text(fun, *args, width=80, most=100, depth=3):
    made = graph.build(make_jaxpr(fun)(*args), "title", ["x"], most)
    return plain(Document(graph_text.drawing(made, depth)), width)


def test_a_drawing_matches_its_golden_text(golden):
    golden("graph.txt", text(grad(f), 3.0))


def test_inner_jaxprs_follow_under_their_titles():
    shown = text(lambda x: lax.scan(lambda c, y: (jit(f)(c) * y, c), 1.0, x), jnp.ones(3))
    assert "◉" in shown and "\nscan · 3 equations\n" in shown and "\n  jit f · 3 equations\n    " in shown
    assert "jit f" not in text(lambda x: lax.scan(lambda c, y: (jit(f)(c) * y, c), 1.0, x), jnp.ones(3), depth=1)
    branches = text(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x), 1.0)
    assert "cond branches[0] · 1 equation" in branches and "cond branches[1] · 1 equation" in branches


def test_omitted_nodes_are_counted():
    assert text(f, 3.0, most=1).endswith("... 2 more equations (--most 3 shows them)")
    made = graph.build(make_jaxpr(f)(3.0), "t", (), 1)
    assert "... 2 more equations" in graph_svg.markup(made) and not any(n.kind == "output" for n in made.nodes)


def test_the_svg_has_the_edges_of_the_jaxpr():
    made = graph.build(make_jaxpr(f)(3.0), "f(3.0)", ["x"])
    root = ET.fromstring(graph_svg.page(made).encode())
    labels = [t.text for t in root.iter(f"{SVG}text")]
    assert {"x", "sin", "mul 2.0", "sub", "result"} <= set(labels)
    paths = [p for p in root.iter(f"{SVG}path") if p.get("marker-end")]
    assert len(paths) == len(made.edges) == 5
    boxes = [(float(r.get("x")), float(r.get("y")), float(r.get("width"))) for r in root.iter(f"{SVG}rect")]
    assert len(boxes) == len(made.nodes) == 5
    # nodes in one row do not overlap, and rows follow each other downwards
    for i, (x, y, width) in enumerate(boxes):
        for other_x, other_y, other_width in boxes[i + 1 :]:
            assert y != other_y or x + width < other_x or other_x + other_width < x
    assert [y for _, y, _ in boxes] == sorted(y for _, y, _ in boxes)
    width, height = float(root.get("width")), float(root.get("height"))
    assert all(x >= 0 and x + w <= width and y + 38 <= height for x, y, w in boxes)


def test_inner_jaxprs_fold_in_html_and_are_stacked_in_a_file():
    made = graph.build(make_jaxpr(lambda x: jit(lambda y: jit(f)(y))(x))(3.0), "t")
    markup = graph_svg.markup(made)
    assert markup.count("<details>") == 2 and markup.count("<svg") == 3 and markup.count("<style>") == 1
    ET.fromstring(f"<div>{markup}</div>")
    assert graph_svg.page(made).count("<svg") == 1 and "jit f · 3 equations" in graph_svg.page(made)


def test_hostile_names_are_text():
    def evil(x):
        return x + 1.0

    evil.__name__ = "</text><script>alert('&\x00\x1b[2J\n\ud800')</script>"
    made = graph.build(make_jaxpr(jit(evil))(3.0), "<b>\x07&", ["<i>x"])
    for shown in (graph_svg.page(made), f"<div>{graph_svg.markup(made)}</div>"):
        assert "<script" not in shown and "<b>" not in shown and "<i>" not in shown and "\x1b" not in shown
        ET.fromstring(shown.encode())


def test_a_file_is_written_but_not_overwritten(tmp_path):
    session = batch.new_session({})
    session.run_line("def f(x): return jnp.sin(x) * 2.0 - x")
    path = tmp_path / "a picture.svg"
    command = f"%graph f(3.0) --file {str(path)!r}"
    # the path has a space, so the command gets it in quotes, as in Python
    assert "written" in plain(session.run_line(command).shown)
    assert ET.parse(path).getroot().tag == f"{SVG}svg"
    path.write_text("mine")
    assert "--force writes over it" in plain(session.run_line(command).shown, 300)
    assert path.read_text() == "mine"
    assert "written" in plain(session.run_line(f"%graph f(3.0) --force --file {str(path)!r}").shown)
    assert path.read_text().startswith("<?xml")
