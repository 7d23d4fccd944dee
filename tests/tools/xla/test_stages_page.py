"""The page of a call's stages has a bounded size, and shows its content without scripts."""

import base64
import json
import re
import zlib

import numpy as np

import minijax
import minijax.numpy as jnp
from minijax.repl.batch import new_session
from minijax.tools.documents.document import plain
from minijax.tools.documents.html import to_html
from minijax.tools.documents.lexer import highlight
from minijax.tools.documents.room import MOST_HTML_OF_BLOCK
from minijax.tools.xla import pipeline
from minijax.tools.xla.stages import stages
from minijax.tools.xla.stages_page import stages_html

V = np.linspace(0.1, 0.9, 8, dtype=np.float32)


def of(fun, *args):
    return stages(pipeline.descent(minijax.jit(fun).lower(*args)))


def data(markup):
    found = re.search(r'<script type="application/json">(.*?)</script>', markup, re.S)
    assert found is not None
    made = json.loads(found[1])
    made["packed"] = json.loads(zlib.decompress(base64.b64decode(made["packed"]), -15))
    return made


def unrolled(x):
    for i in range(120):
        x = jnp.sin(x * (1 + i)) + jnp.cos(x)
    return x


def test_a_stages_page_is_bounded_and_reports_cuts():
    found = of(unrolled, V)
    markup = stages_html(found, highlight)
    assert len(markup) <= MOST_HTML_OF_BLOCK
    made = data(markup)
    assert {"keyword", "type", "var"} <= {*made["packed"]["roles"]}
    longest = max(len(stage.lines) for stage in found.all)
    rows = [len(flat) // 6 for flat in made["packed"]["rows"]]
    assert len(rows) == len(found.all) + 1 and max(rows) < longest
    for (_, title, kind, _, _, cut, _), count in zip(made["stages"], rows, strict=True):
        (stage,) = [each for each in found.all if each.title.endswith(title) and each.kind == kind] or [None]
        if stage is not None and len(stage.lines) > count:
            assert cut.startswith(f"{len(stage.lines) - count} more line") and "--kernel" in cut
        elif stage is not None:
            assert cut == "" and count == len(stage.lines)
    # of a short program, the page has all lines
    short = of(lambda x: jnp.sin(x) * 2, V)
    listed = data(stages_html(short))["stages"]
    assert not any(cut for *_, cut, _ in listed)
    # each pass has its time, if the time is known
    passes = [detail for _, _, kind, detail, *_ in listed if kind == "pass"]
    assert [detail.partition(" · ")[2] for detail in passes] == [each.time for each in short.descent.passes]
    assert any(each.time for each in short.descent.passes)


def test_passes_returns_the_page_as_html():
    session = new_session({})
    session.run_line("def f(x): return jnp.sin(x) * 2")
    outcome = session.run_line("%passes f(jnp.ones(3))")
    assert "--pass 1 shows before and after" in plain(outcome.shown)
    markup = to_html(outcome.shown, highlight)
    assert 'class="minijax mjw' in markup and data(markup)["title"] == "f(jnp.ones(3))"
    assert "HloModule" in markup.partition("</details>")[2] and "sin(x) * 2" in markup
