"""``replacing_jax``: packages written for JAX run on minijax, while other code still gets JAX."""

import asyncio
import builtins
import importlib
import inspect
import pickle
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import pytest

import minijax
from minijax.extend.rules import known_primitives
from minijax.interop import jax_modules
from minijax.interop.jax_modules import Missing
from minijax.interop.replaced import replacing_jax, run_as_jax
from minijax.interpreters import batching

PACKAGE = {
    "overjax/__init__.py": '''
"""A package as there are many."""
import sys
import typing
from overjax import layers as layers, late
from overjax._src.base import State, grad_of
from overjax._src.base import __version__
if typing.TYPE_CHECKING:
    from jax import Array
try:
    from jax.numpy import no_such_name
except ImportError as error:
    missing = str(error)
''',
    "overjax/_src/__init__.py": "",
    "overjax/_src/base.py": """
from typing import NamedTuple
import jax
import jax.numpy as jnp
import numpy
from .. import layers
__version__ = jax.__version__


class State(NamedTuple):
    count: jax.Array


def grad_of(f):
    return jax.grad(f)


def fails(x):
    return jnp.dot(x, jnp.ones(x.shape[0] + 1))
""",
    "overjax/layers.py": """
import jax.numpy
from jax import lax, tree_util as tu


def double(x):
    return jax.numpy.sin(x) + lax.mul(x, x)
""",
    "overjax/late.py": '''
import importlib


def engines():
    """What import statements that run late mean."""
    import jax
    from jax import numpy as jnp
    import overjax._src.base as base
    from overjax.later import after
    return jax.jit, jnp.sin, importlib.import_module("jax.lax").mul, base, after
''',
    "overjax/later.py": "import jax.lax\nafter = jax.lax.add\n",
    "onit.py": "import overjax\nState = overjax.State\n",
    "besides.py": "'''Says import jax.'''\nimport json\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder on the path with packages that use JAX."""
    root = tmp_path_factory.mktemp("packages")
    for name, text in PACKAGE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    sys.path.insert(0, str(root))
    importlib.invalidate_caches()
    yield root
    sys.path.remove(str(root))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("overjax", "onit", "besides")]:
        del sys.modules[name]
    for name in [name for name in sys.modules if name.startswith("minijax.interop.replaced.o")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def ours(folder):
    with replacing_jax():
        import overjax
    return overjax


def test_all_import_statements_mean_minijax(ours):
    assert ours.layers.double(3.0) == minijax.numpy.sin(3.0) + 9
    assert ours.grad_of(ours.layers.double)(2.0) == minijax.grad(ours.layers.double)(2.0)
    jit, sin, mul, base, after = ours.late.engines()
    assert (jit, sin, mul) == (minijax.jit, minijax.numpy.sin, minijax.lax.mul)
    assert base is ours._src.base and after is minijax.lax.add
    assert base.numpy is sys.modules["numpy"]
    assert ours.missing == "cannot import name 'no_such_name' from 'jax.numpy'."
    assert isinstance(ours.State(minijax.numpy.ones(3)).count, minijax.Array)


def test_the_block_leaves_no_changes(ours):
    finders, hooks, python = list(sys.meta_path), list(sys.path_hooks), builtins.__import__
    import overjax as real

    names = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("jax", "overjax")}
    with replacing_jax():
        import overjax
    assert overjax is ours and overjax is not real
    import overjax as again

    assert again is real and real.late.engines()[0].__module__.startswith("jax")
    assert {name: sys.modules[name] for name in names} == names
    assert (sys.meta_path, sys.path_hooks, builtins.__import__) == (finders, hooks, python)


def test_blocks_nest_and_end_with_an_exception(ours):
    python = builtins.__import__
    with pytest.raises(ZeroDivisionError):
        with replacing_jax():
            with replacing_jax():
                import overjax as inner
            import overjax as outer

            assert inner is outer is ours
            _ = 1 / 0
    assert builtins.__import__ is python
    import overjax

    assert overjax is not ours


def test_a_block_affects_only_its_thread_and_file(ours):
    found = {}

    def elsewhere():
        import overjax

        found["thread"] = overjax

    async def beside():
        import overjax

        found["task"] = overjax

    async def tasks():
        waiting = asyncio.create_task(beside())  # the task has a copy of the context before the block
        with replacing_jax():
            await asyncio.sleep(0)
            await waiting
            import overjax

            found["own"] = overjax

    with replacing_jax():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        import overjax._src.base as base

        code = {}
        exec("import onit", code)
    asyncio.run(tasks())
    assert found["thread"] is found["task"] is sys.modules["overjax"] is not ours
    assert found["own"] is ours and base is ours._src.base
    assert code["onit"].State is ours.State  # ``onit`` imports JAX only through another package


def test_import_errors_name_the_missing_name(folder):
    with replacing_jax():
        with pytest.raises(ModuleNotFoundError, match=r"No module named 'jax\.no_such'"):
            import jax.no_such
        with pytest.raises(ModuleNotFoundError, match="No module named 'overjax.nothing'") as caught:
            import overjax.nothing  # noqa: F401
        with pytest.raises(ImportError, match=r"'sine' from 'jax\.numpy'\. Did you mean jax\.numpy\.sin\?"):
            from jax.numpy import sine  # noqa: F401
        import jax
        from jax.sharding import Mesh as Mesh

        with pytest.raises(AttributeError, match="'jax' has no attribute 'gradd'. Did you mean jax.grad?"):
            _ = jax.gradd
        with pytest.raises(AttributeError, match="cannot be changed"):
            jax.grad = None
    assert caught.value.name == "overjax.nothing"


def test_replaced_modules_return_functions_not_methods(ours):
    module = importlib.import_module("minijax.interop.replaced.jax.experimental.checkify")
    assert module.check is importlib.import_module("minijax.experimental.checkify").check


def test_source_lines_are_those_of_the_file(ours, folder):
    assert inspect.getsource(ours.layers.double) == PACKAGE["overjax/layers.py"].split("\n\n\n")[1]
    assert ours.__file__ == str(folder / "overjax/__init__.py")
    with pytest.raises(TypeError) as caught:
        ours._src.base.fails(minijax.numpy.ones(3))
    frames = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if "overjax" in frame.filename]
    assert [(frame.filename, frame.line) for frame in frames] == [
        (str(folder / "overjax/_src/base.py"), "return jnp.dot(x, jnp.ones(x.shape[0] + 1))")
    ]
    eqn = minijax.make_jaxpr(ours.layers.double)(1.0).eqns[0]
    assert str(folder / "overjax/layers.py:7") in minijax.errors.summarize(eqn.source)


def test_objects_are_pickled_by_name_and_loaded_elsewhere(ours, folder, tmp_path):
    state = ours.State(minijax.numpy.arange(3))
    back = pickle.loads(pickle.dumps(state))
    assert type(back) is ours.State and back.count.tolist() == [0, 1, 2]
    (tmp_path / "state").write_bytes(pickle.dumps(ours.State(3)))
    code = "import pickle, sys; s = pickle.load(open(sys.argv[1], 'rb')); print(s, s.__module__, 'jax' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{folder}:{Path(minijax.__file__).parents[1]}"},
    ).stdout
    assert output == "State(count=3) minijax.interop.replaced.overjax._src.base False\n"


@pytest.mark.parametrize("on_minijax", [True, False], ids=["minijax", "jax"])
def test_a_batching_rule_may_take_the_axis_as_separate_arguments(on_minijax):
    if on_minijax:
        with replacing_jax():
            import jax
            from jax.extend.core import Primitive
            from jax.interpreters.batching import axis_primitive_batchers
    else:
        import jax
        from jax.extend.core import Primitive
        from jax.interpreters.batching import axis_primitive_batchers
    triple_p = Primitive("triple")
    triple_p.def_impl(lambda x: x * 3)
    seen = []

    def triple_batch(size, axis_name, main_type, args, dims):
        seen.append((size, axis_name, main_type, dims))
        return triple_p.bind(*args), *dims

    axis_primitive_batchers[triple_p] = triple_batch
    x = jax.numpy.arange(6.0).reshape(2, 3)
    assert jax.vmap(triple_p.bind, 1, 1, axis_name="i")(x).tolist() == (x * 3).tolist()
    assert [(size, axis_name, main_type, list(dims)) for size, axis_name, main_type, dims in seen] == [
        (3, "i", None, [1])
    ]


def test_missing_names_raise_at_use(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "partly.py").write_text(
        "import jax\n"
        "import jax.sharding as shd\n"
        "from jax._src import compiler\n"
        "maker = shd.make_single_device_sharding\n"
        "made = maker(1).spec\n"  # here the missing name is used while the module is imported
        "class Mine(maker):\n    field: maker | None = None\n"
        "def use(x: maker[int] | None = None):\n    return maker(1)\n"
        "def has(x):\n    return isinstance(x, maker) or isinstance(x, jax.Array | maker)\n"
        "def good(x):\n    return jax.numpy.sin(x)[jax.numpy.newaxis]\n"
    )
    with replacing_jax():
        import partly
    assert partly.good(1.0) == minijax.numpy.sin(1.0)
    assert partly.has(minijax.numpy.ones(1)) and not partly.has(1)
    for use in (partly.use, partly.Mine, partly.made, lambda: partly.maker.spec, lambda: bool(partly.made)):
        with pytest.raises(ImportError, match="minijax has no jax.sharding.make_single_device_sharding") as caught:
            use()
        assert caught.value.name == "jax.sharding.make_single_device_sharding"
    with pytest.raises(ImportError, match=f"which {tmp_path}/partly.py:9 "):
        partly.use()
    assert "minijax lacks" in repr(partly.made)
    with pytest.raises(AttributeError, match="compiler.backend_compile cannot be changed"):
        partly.compiler.backend_compile = None


def test_modules_can_be_imported_by_name(ours):
    with replacing_jax():
        assert importlib.import_module("overjax.layers") is ours.layers
        assert __import__("overjax") is ours
        assert importlib.import_module("jax.numpy").sin is minijax.numpy.sin
        with pytest.raises(ModuleNotFoundError, match="No module named 'overjax.nothing'"):
            importlib.import_module("overjax.nothing")
    assert importlib.import_module("overjax.layers") is not ours.layers


def test_a_submodule_of_importlib_is_imported_when_needed(monkeypatch):
    monkeypatch.delitem(sys.modules, "importlib.simple", raising=False)
    monkeypatch.delattr(importlib, "simple", raising=False)
    names = {}
    run_as_jax(names)
    exec("from importlib import import_module, simple", names)
    assert names["simple"] is sys.modules["importlib.simple"]
    assert names["import_module"]("jax.numpy").sin is minijax.numpy.sin


def test_other_code_may_replace_import_inside_a_block(folder, monkeypatch):
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    with replacing_jax():
        inner = builtins.__import__
        builtins.__import__ = lambda *args, **kwargs: inner(*args, **kwargs)
    others = builtins.__import__
    with replacing_jax():  # this block wraps the other code's import function, which wraps that of the first block
        import overjax.late as late
    assert late.engines()[0] is minijax.jit and builtins.__import__ is others


def test_classes_of_a_replaced_module_keep_the_name_of_the_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "named").mkdir()
    (tmp_path / "named/__init__.py").write_text("import jax\n")
    (tmp_path / "named/kinds.py").write_text(
        "class Kind: pass\ndef is_own(): return Kind.__module__ == 'named.kinds'\nother = 'named', 'named.kind'\n"
    )
    with replacing_jax():
        import named.kinds as kinds
    assert kinds.is_own() and kinds.other == ("named", "named.kind")


def test_rules_for_primitives_that_minijax_lacks_are_ignored():
    lacked = Missing("jax._src.ad_util.no_such_p")
    batching.primitive_batchers[lacked] = lambda args, dims: (args, dims)
    try:
        assert lacked not in known_primitives()
    finally:
        del batching.primitive_batchers[lacked]


def test_a_module_without_a_folder_is_no_module_of_jax():
    assert jax_modules.file_of("typing_extensions") == "" == jax_modules.file_of("no_such_module")
    assert jax_modules.file_of("jax.version").endswith("version.py")
