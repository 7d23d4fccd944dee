"""Completion finds names without running user code."""

import subprocess
import sys
import textwrap

import pytest

from minijax.repl import batch
from minijax.tools.commands.completion import complete, signature
from minijax.tools.commands.table import COMMANDS
from minijax.tools.commands.tour_parts import PARTS

HOSTILE = """
ran = []
class Hostile:
    __slots__ = ("slot", "__dict__")
    kind = 1
    def __getattr__(self, name):
        ran.append(name)
        raise AttributeError(name)
    def __dir__(self):
        ran.append("dir")
        return []
    @property
    def trap(self):
        ran.append("trap")
        return "text"
    def method(self): pass
class Meta(type):
    def __getattribute__(cls, name):
        ran.append(name)
        return super().__getattribute__(name)
    def __dir__(cls):
        ran.append("metadir")
        return []
class Watched(metaclass=Meta):
    inner = 2
class Placed(type):
    @property
    def __module__(cls):
        ran.append("module of the metaclass")
        return "minijax"
class Named(metaclass=Placed):
    def __init__(self, size): pass
    def __call__(self, x): pass
class Key:
    __module__ = property(lambda self: "minijax")
    def __hash__(self): return hash("weights")
    def __eq__(self, other):
        ran.append("eq")
        return False
    def __repr__(self):
        ran.append("repr")
        return "k"
    def __call__(self):
        ran.append("signature")
    __bool__ = __call__
def defaults(first=Key(), *, second=Key()): pass
def signed(first): pass
signed.__signature__ = Key()
keyed, named, key = {Key(): 1, "weights": {"w": 1}}, Named(1), Key()
h = Hostile()
h.slot = "in a slot"
h.own = "in its dict"
"""


@pytest.fixture
def session():
    session = batch.new_session({})
    assert session.run_line(HOSTILE).error is None
    session.namespace["ran"].clear()
    return session


def texts(session, before):
    return [found.text for found in complete(session, before)]


def test_completion_runs_no_user_code(session):
    assert {"trap", "method", "kind", "slot", "own"} <= set(texts(session, "h."))
    assert texts(session, "h.trap.up") == []  # only running the property would tell what attributes its value has
    assert "upper" in texts(session, "h.slot.up") and "upper" in texts(session, "h.own.up")
    assert "inner" in texts(session, "Watched.in")
    assert texts(session, "Watched.inner.bit_l") == ["bit_length"]
    assert texts(session, "keyed['weights']['") == ["w']"]
    for before in ("h(", "named(", "Named(", "key(", "signed(", "named.x(", "keyed['we"):
        complete(session, before)
        signature(session, before)
    assert "".join(piece for piece, _ in signature(session, "defaults(")) == "defaults(first=..., *, second=...)"
    assert session.namespace["ran"] == []


def test_commands_and_their_arguments_are_completed(session):
    assert texts(session, "%gr") == ["grad", "graph"]
    cells = set(texts(session, "%%"))
    assert cells == {command.name for command in COMMANDS.values() if command.cell} >= {"jaxpr", "jit", "hlo", "passes"}
    assert not cells & {"push", "config", "sh"}
    assert texts(session, "%grad f(3.0) --") == ["--argnums", "--check"]
    assert texts(session, "%grad f(3.0) --check --") == ["--argnums"]
    assert texts(session, "%hlo f(3.0) --stage o") == ["optimized"]
    assert texts(session, "%help j") == ["jaxpr", "jvp", "jit"] and texts(session, "%help ke") == ["keys"]
    assert texts(session, "%config the") == ["theme"] and texts(session, "%config theme ") == [
        "auto",
        "light",
        "dark",
        "none",
    ]
    assert texts(session, "%config panels o") == ["on", "off"] and texts(session, "%config jax_enable_x64 o") == [
        "on",
        "off",
    ]
    assert texts(session, "%panels st") == ["stack"] and texts(session, "%panels stack st") == []
    assert texts(session, "%rules sin") == ["sin", "sinh"]
    assert texts(session, "%tour ")[: len(PARTS) + 1] == [*map(str, range(1, len(PARTS) + 1)), "next"]
    assert texts(session, "%tour ba") == ["back"] and texts(session, "%x64 ") == ["on", "off"]
    assert "jvp" in texts(session, "%push j") and "linearize" in texts(session, "%push li")
    assert texts(session, "%push jaxpr z=f32") == ["z=f32[]", "z=f32[3]", "z=f32[2,3]"]
    assert texts(session, "%%jaxpr z=f16") == ["z=f16[]", "z=f16[3]", "z=f16[2,3]"]
    assert "grad" in texts(session, "%doc gr") and "grad" in texts(session, "?gr")
    assert "arange" in texts(session, "%jaxpr jnp.ar")
    assert texts(session, "%nothing ") == []
    assert "sin" in texts(session, "%%jaxpr x=f32[3]\ny = si")


def test_file_names_are_completed(session, tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("")
    (tmp_path / "pages").mkdir()
    (tmp_path / ".hidden").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert texts(session, "%export pa") == ["page.html", "pages/"]
    assert texts(session, "%export ") == ["page.html", "pages/"] and texts(session, "%export .h") == [".hidden"]
    assert texts(session, "%export ~/page.") == ["~/page.html"]
    assert texts(session, f"%export {tmp_path}/pages") == [f"{tmp_path}/pages/"]
    assert texts(session, "%step --file pa") == ["page.html", "pages/"]
    assert texts(session, "%export nowhere/x") == []


def test_borrowed_names_are_marked_and_do_not_load_jax():
    program = """
        import sys
        from minijax.repl import batch
        from minijax.tools.session.namespace import initial_names
        from minijax.tools.commands.completion import complete, signature
        session = batch.new_session(initial_names())
        session.namespace["mj"] = sys.modules["minijax"]
        found = {each.text: each.kind for each in complete(session, "mj.scipy.special.hyp")}
        assert found["hyp2f1"] == "borrowed from JAX", found
        assert {each.text for each in complete(session, "jnp.uniq")} > {"unique", "unique_all"}
        assert {each.text: each.kind for each in complete(session, "jnp.tensord")} == {"tensordot": "attribute"}
        assert "logpdf" in {each.text for each in complete(session, "mj.scipy.stats.norm.logp")}
        assert not complete(session, "mj.nothing.of.")
        assert "jax" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("jnp.sum(x, ax", ["axis="]),
        ("g(1, se", ["second="]),
        ("g(second=fir", []),
        ("g(", ["first=", "second=", "third="]),
        ("compiled(1, th", ["third="]),
        ("Box(si", ["size="]),
        ("b.grow(f", ["factor="]),
        ("'g(' + fir", []),
        ("def g(fir", []),
        ("params['l", ["l1']", "l2']"]),
        ("layers[0]['k", ["key']"]),
    ],
)
def test_keywords_and_keys_are_completed(before, words):
    session = batch.new_session({})
    session.run_line(
        textwrap.dedent("""
            def g(first, second=2.0, *, third=print): return first
            class Box:
                def __init__(self, size): pass
                def grow(self, factor): pass
            compiled, b = jit(g), Box(1)
            params = {"l1": {"w": 1, "b": 2}, "l2": {}}
            layers = [{"key": 1}]
        """)
    )
    assert [each.text for each in complete(session, before) if each.kind in ("argument", "key")] == words


def test_the_signature_of_the_typed_call_is_shown():
    session = batch.new_session({})
    session.run_line("def g(first, second=2.0, /, *rest, third=print): return first")

    def shown(before):
        parts = signature(session, before)
        return "".join(piece for piece, _ in parts), "".join(piece for piece, at in parts if at)

    assert shown("g(") == ("g(first, second=2.0, /, *rest, third=...)", "first")
    assert shown("g(sin(1), ")[1] == "second=2.0"
    assert shown("g(1, [2, 3], 4, 5")[1] == "*rest"
    assert shown("g(1, third=2")[1] == "third=..."
    assert shown("g(1)") == shown("nothing(1") == shown("g") == ("", "")


def test_imports_and_files_are_completed(session, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").touch()
    (tmp_path / "own_module.py").write_text("raise AssertionError('imported')\n")
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").write_text("raise AssertionError('imported')\n")
    (tmp_path / "own_package" / "inner.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert texts(session, "import own_") == ["own_module", "own_package"]
    assert texts(session, "import os, own_m") == ["own_module"]
    assert texts(session, "import own_package.") == texts(session, "from own_package import in") == ["inner"]
    assert texts(session, "from os.path import basen") == ["basename"]
    assert texts(session, "import own_nothing.") == []
    assert texts(session, "open('no") == texts(session, "!cat no") == texts(session, "%run no") == ["notes.txt"]
    assert texts(session, "x = 1 # 'no") == [] and "print" in texts(session, "f'{pri")


def test_a_long_signature_keeps_the_typed_parameter(session):
    def fitted(before, columns):
        return "".join(f"[{piece}]" if at else piece for piece, at in signature(session, before, columns))

    assert fitted("jnp.linspace(", 42) == "linspace([start], stop, num=50, endpoint=Tr…"
    assert fitted("jnp.linspace(0, 1, axis=", 40) == "linspace(…, dtype=None, [axis=0], *, devi…"
    for columns in (20, 40, 80):
        parts = signature(session, "jnp.linspace(0, 1, axis=", columns)
        assert len("".join(piece for piece, _ in parts)) <= columns and any(at for _, at in parts)
