"""Imports go only from higher layers to lower ones. The test reads sources with ``ast`` and executes nothing.

The layers, lowest first, are those of the design::

    errors, config, pytree -> core -> ir -> interpreters -> lowering, backend -> ops -> api -> lax -> numpy -> nn
        -> extend and JAX's other modules -> interop -> tools -> front ends -> the root

Every import counts: at the top of a file, inside a function, for type checkers only, and as a string that names a
module. If a module needs a higher one, it declares a role (``HigherModule`` in ``minijax/core/lazy.py``);
``minijax/__init__.py`` says which module has the role.

Also tested: which files may import jax and the front-end libraries, that functions import no module of minijax
(``LAZY_ALLOWED`` has the exceptions), that every third-party import is a declared dependency, that ``packages`` in
pyproject.toml matches the tree, that class names are unique, and the size limits of files and folders.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from minijax.core import lazy
from tests.quick import QUICK

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
PACKAGE_DIRS = {name: ROOT / folder for name, folder in SETUPTOOLS["package-dir"].items()}

# Lowest first. A module may import its own layer and everything below it. The longest matching prefix decides,
# so a facade with JAX's names for extension authors can rank above the package that contains it.
LAYERS = (
    ("minijax.errors", "minijax.config", "minijax.pytree"),
    ("minijax.core",),
    ("minijax.ir",),
    ("minijax.interpreters",),
    ("minijax.lowering", "minijax.backend"),
    ("minijax.ops",),
    ("minijax.api",),
    ("minijax.lax",),
    ("minijax.numpy",),
    ("minijax.nn", "minijax.jacobians", "minijax.scipy", "minijax.image", "minijax.random"),
    # public names for authors of primitives and rules, as in JAX
    (
        "minijax.extend",
        "minijax.interpreters.ad",
        "minijax.interpreters.batching",
        "minijax.interpreters.mlir",
        "minijax.interpreters.xla",
    ),
    # other modules of JAX; all except test_util only re-export names
    (
        "minijax.ad_checkpoint",
        "minijax.api_util",
        "minijax.custom_derivatives",
        "minijax.debug",
        "minijax.distributed",
        "minijax.dlpack",
        "minijax.dtypes",
        "minijax.flatten_util",
        "minijax.lib",
        "minijax.sharding",
        "minijax.ref",
        "minijax.stages",
        "minijax.test_util",
        "minijax.tree",
        "minijax.tree_util",
        "minijax.typing",
        "minijax.version",
    ),
    ("minijax.interop",),
    # these also provide JAX's own objects, through interop
    ("minijax.example_libraries", "minijax.experimental", "minijax.monitoring", "minijax.profiler"),
    ("minijax.tools.files", "minijax.tools.usage"),
    ("minijax.tools.documents",),
    ("minijax.tools.programs",),
    ("minijax.tools.recording",),
    ("minijax.tools.trees",),
    ("minijax.tools.values",),
    ("minijax.tools.gallery",),
    ("minijax.tools.stepper",),
    ("minijax.tools.live",),
    ("minijax.tools.session",),
    ("minijax.tools.pages",),
    ("minijax.tools.compare",),
    ("minijax.tools.explain",),
    ("minijax.tools.xla",),
    ("minijax.tools.exercises",),
    ("minijax.tools",),  # ``minijax/tools/__init__.py`` itself: public names from the packages below it
    ("minijax.tools.commands",),
    ("minijax.repl", "minijax.ipython_ext", "minijax.__main__"),  # ``python -m minijax`` starts the terminal program
    ("minijax",),  # ``minijax/__init__.py``: the public names, and the modules that have the roles of higher modules
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FRONT_ENDS = ("minijax.repl", "minijax.ipython_ext")

UI_LIBRARIES = {"IPython", "prompt_toolkit", "pygments"}
PYGMENTS_MODULE = "minijax.tools.documents.lexer"
JAX_LIBRARIES = {"jax", "jaxlib"}
JAX_PLACES = ("minijax.lowering", "minijax.backend", "minijax.interop")

# (importing module, imported module, as patterns) -> why the import may be inside a function. Avoiding a circular
# import is not a valid reason.
LAZY_ALLOWED = {
    ("minijax.api.compile", "minijax.api.key_reuse"): "only debug_key_reuse needs it",
    ("minijax.api.compile", "minijax.api.misses"): "only a call that traces needs it; start-up has a budget",
    ("*", "minijax.backend"): "imports jaxlib, which only the first compilation needs",
    ("minijax.repl.__main__", "minijax.repl"): "-c and files need no terminal library; start-up has a budget",
    ("minijax.repl.*", "minijax.tools.documents.lexer"): "Pygments is loaded only where output is coloured",
    ("minijax.repl.*", "minijax.tools.commands.completion"): "imports the commands; the first prompt does not wait",
    ("minijax.repl.app", "minijax.repl.stepper"): "a prompt starts without the stepper",
    ("minijax.repl.app", "minijax.repl.fullscreen"): "a prompt starts without full screens",
    ("minijax.tools", "minijax.tools.explain.caches"): "only a question about a cache miss needs it",
    ("minijax.tools.commands", "minijax.tools.commands.table"): "imports a dozen modules, which only commands need",
    ("minijax.tools.recording.recorder", "minijax.tools.recording.full"): "few sessions record a tree",
    ("minijax.tools.commands.*", "minijax.tools"): "only one command needs it, and few sessions run it",
    ("minijax.tools.session.real_jax", "minijax.interop"): "few sessions run JAX's programs",
    ("minijax.tools.session.real_jax", "minijax.tools.session.watch"): "few sessions run JAX's programs",
    ("minijax.tools.session.values", "minijax.tools.trees"): "only a container of arrays is shown as a tree",
    ("minijax.tools.session.session", "minijax.tools.live.views"): "a session without pushed levels needs no views",
    ("minijax.ipython_ext.display", "minijax.tools"): "loading the extension does not wait for the stepper's views",
    ("minijax.ipython_ext.display", "minijax.ipython_ext.live"): "only a notebook that steps needs anywidget",
    ("minijax.ipython_ext.terminal", "minijax.repl"): "only %step in a terminal opens the full-screen stepper",
    ("minijax", "minijax.ipython_ext"): "load_ipython_extension runs only inside IPython",
}
# Strings that name a module but import nothing.
NAMED_ONLY = {
    ("minijax.core.primitive", "minijax.ops"): "frames of these modules are skipped",
    ("minijax.core.numpy_warnings", "minijax.ops.callback"): "warnings of this module count as the user's",
    ("minijax.interop.uses", "minijax.interop"): "functions of these modules run on minijax",
    ("minijax.numpy.*", "minijax.numpy"): "its functions name it as their module",
    ("minijax.ops.nary", "minijax.lax"): "the functions name it as their module",
    ("minijax.random.keys", "minijax.random"): "the module whose names are borrowed",
    ("minijax.tools.explain.leaks", "minijax"): "frames of these modules are not the user's",
    ("minijax.tools.session.tracebacks", "minijax"): "frames of these modules are not the user's",
}
# Size limits: files in a folder, lines in a file.
MOST_FILES = 40
MOST_LINES = 900
IGNORED = re.compile(r"\..*|__pycache__|.*\.egg-info|build|dist|htmlcov")

IMPORTING_CALLS = ("importlib.import_module", "_importlib.import_module", "import_module", "__import__")


@dataclass(frozen=True)
class Import:
    """An import of the module ``target`` by the module ``importer``. ``lazy``: it is inside a function."""

    importer: str
    target: str
    line: int
    lazy: bool

    def __str__(self):
        where = " inside a function" if self.lazy else ""
        return f"{self.importer}:{self.line} imports {self.target}{where}"


def modules():
    """Name of the installed module -> its file, for every module of the distribution."""
    found = {}
    for package, folder in PACKAGE_DIRS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            found[".".join((package, *parts))] = path
    return found


MODULES = modules()


def absolute(importer, is_package, node):
    """The absolute name of the module in the ``from`` import ``node``."""
    if not node.level:
        return node.module or ""
    base = importer.split(".") if is_package else importer.split(".")[:-1]
    base = base[: len(base) - (node.level - 1)]
    return ".".join((*base, *([node.module] if node.module else [])))


def imports_of(importer, path):
    """All imports in one file, including those for type checkers only."""

    def visit(node, lazy):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(importer, alias.name, child.lineno, lazy)
            elif isinstance(child, ast.ImportFrom):
                base = absolute(importer, path.name == "__init__.py", child)
                for alias in child.names:
                    full = f"{base}.{alias.name}"
                    yield Import(importer, full if full in MODULES else base, child.lineno, lazy)
            elif isinstance(child, ast.Call) and ast.unparse(child.func) in IMPORTING_CALLS:
                if child.args and isinstance(child.args[0], ast.Constant):
                    yield Import(importer, str(child.args[0].value), child.lineno, lazy)
                yield from visit(child, lazy)
            else:
                inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                yield from visit(child, lazy or inside)

    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    yield from visit(tree, False)


def strings_naming_modules(importer, path):
    """The strings in one file that are names of modules.

    If the file imports ``f"minijax.{name}"``, ``f"{__name__}.{name}"`` or ``f"{package}.extend"``, strings that
    complete such a name count too. Names that the user supplies are not in the file.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    bases = {""}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in IMPORTING_CALLS:
            if node.args and isinstance(node.args[0], ast.JoinedStr):
                bases.add(base_of(node.args[0], importer))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in ("", "minijax"):
            for target in sorted(base + node.value for base in bases):
                if target in MODULES and target != importer:
                    yield Import(importer, target, node.lineno, True)


def base_of(name, importer):
    """The beginning of the module names that a file builds with the f-string ``name``."""
    first = name.values[0]
    if isinstance(first, ast.Constant):
        return str(first.value)
    assert isinstance(first, ast.FormattedValue)
    return f"{importer}." if ast.unparse(first.value) == "__name__" else "minijax"


def in_package(module, package):
    return module == package or module.startswith(package + ".")


def rank(module):
    """The number of a module's layer, from its longest listed prefix. ``minijax`` stands only for the root package."""
    name = module
    while "." in name:
        if name in RANK:
            return RANK[name]
        name = name.rpartition(".")[0]
    return RANK["minijax"] if module == "minijax" else None


def reaches_up(imported):
    importer, target = rank(imported.importer), rank(imported.target)
    return importer is not None and target is not None and target > importer


def is_listed(imported, listed):
    return any(fnmatchcase(imported.importer, who) and in_package(imported.target, what) for who, what in listed)


@cache
def imports():
    """The imports of all files. They are cached, because parsing takes seconds and several tests use them."""
    return [found for name, path in MODULES.items() for found in imports_of(name, path)]


@cache
def internal():
    return [found for found in imports() if in_package(found.target, "minijax")]


@cache
def strings():
    return [found for name, path in MODULES.items() for found in strings_naming_modules(name, path)]


def every_import():
    """All imports of minijax modules, including strings that may import one."""
    return internal() + [found for found in strings() if not is_listed(found, NAMED_ONLY)]


def report(offenders):
    assert not offenders, "\n" + "\n".join(offenders)


def test_every_module_has_a_layer():
    report([f"{name}: add it to LAYERS" for name in MODULES if rank(name) is None])


def test_listed_layers_exist():
    late = [(found.importer, found.target) for found in internal() if found.lazy]
    unused = [
        (who, what)
        for who, what in LAZY_ALLOWED
        if not any(fnmatchcase(importer, who) and in_package(target, what) for importer, target in late)
    ]
    report(
        [f"{name} is in LAYERS and does not exist" for name in RANK if name not in MODULES]
        + [f"LAZY_ALLOWED lets {who} import {what}, which it does not" for who, what in unused]
        + [
            f"NAMED_ONLY says that {who} names {what}, which it does not"
            for who, what in NAMED_ONLY
            if not any(is_listed(found, [(who, what)]) for found in strings())
        ]
    )


def test_imports_go_down():
    offenders = []
    for found in every_import():
        if found.target not in MODULES:
            offenders.append(f"{found}, which does not exist")
        elif reaches_up(found):
            offenders.append(f"{found}, which is a higher layer")
    report(offenders)


def test_no_import_of_minijax_hides_inside_a_function():
    report([str(found) for found in internal() if found.lazy and not is_listed(found, LAZY_ALLOWED)])


def test_no_modules_import_each_other_in_a_circle():
    """No circle is allowed, not even within a layer. Every kind of import counts."""
    graph = {name: set() for name in MODULES}
    for found in every_import():
        if found.target in graph and found.target != found.importer:
            graph[found.importer].add(found.target)
    done = set()
    circles = []

    def visit(name, path):
        if name in path:
            circles.append(" -> ".join((*path[path.index(name) :], name)))
        elif name not in done:
            for target in sorted(graph[name]):
                visit(target, (*path, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())
    report(circles)


def test_front_ends_never_import_each_other():
    """There is one exception: IPython in a terminal opens the full-screen stepper of the REPL."""
    repl, ipython = FRONT_ENDS
    report(
        [
            str(found)
            for found in internal()
            if (in_package(found.importer, repl) and in_package(found.target, ipython))
            or (in_package(found.importer, ipython) and in_package(found.target, repl) and not shares_stepper(found))
        ]
    )


def shares_stepper(found):
    shared = ("minijax.repl.stepper.app", "minijax.repl.fullscreen", "minijax.repl.style")
    return found.lazy and found.importer == "minijax.ipython_ext.terminal" and found.target.startswith(shared)


def test_the_engine_knows_no_front_end_library():
    offenders = []
    for found in imports():
        library = found.target.partition(".")[0]
        if library not in UI_LIBRARIES or any(in_package(found.importer, end) for end in FRONT_ENDS):
            continue
        if not (library == "pygments" and found.importer == PYGMENTS_MODULE):
            offenders.append(str(found))
    offenders += [
        f"{found}: the lexer needs Pygments, which the engine and its tools must not load"
        for found in internal()
        if found.target == PYGMENTS_MODULE and not any(in_package(found.importer, end) for end in FRONT_ENDS)
    ]
    report(offenders)


def test_only_some_layers_import_jax():
    """``tests/test_packaging.py`` checks *when* these layers import jax."""
    offenders = []
    for found in imports():
        if found.target.partition(".")[0] in JAX_LIBRARIES:
            if not any(in_package(found.importer, place) for place in JAX_PLACES):
                offenders.append(f"{found}: only lowering/, backend/ and interop/ may")
    report(offenders)


def test_every_third_party_import_is_a_declared_dependency():
    def names(requirements):
        found = (re.match(r"[A-Za-z0-9_.-]+", requirement) for requirement in requirements)
        return {name.group().lower() for name in found if name}

    project = PYPROJECT["project"]
    known = names(project["dependencies"]) | {"minijax"} | {name.lower() for name in sys.stdlib_module_names}
    optional = {"minijax.ipython_ext.live": names(project["optional-dependencies"]["notebook"])}
    allowed = {found: known | optional.get(found.importer, set()) for found in imports()}
    report([str(found) for found in imports() if found.target.partition(".")[0].lower() not in allowed[found]])


def test_packages_in_pyproject_match_the_folders():
    """If a subpackage is missing in ``packages``, an editable install works but the wheel lacks it."""
    in_tree = {
        ".".join((package, *path.parent.relative_to(folder).parts))
        for package, folder in PACKAGE_DIRS.items()
        for path in folder.rglob("*.py")
    }
    assert set(SETUPTOOLS["packages"]) == in_tree


def test_every_package_has_quick_tests():
    assert set(QUICK) == set(SETUPTOOLS["packages"])
    tests = ROOT / "tests"
    report([f"{name}: no file tests/{f}" for name, files in QUICK.items() for f in files if not (tests / f).exists()])
    assert all(QUICK.values())


def test_every_package_has_an_init():
    bare = {path.parent for path in MODULES.values() if not (path.parent / "__init__.py").exists()}
    report([f"{folder.relative_to(ROOT)} has no __init__.py" for folder in sorted(bare)])


def defined_classes():
    """Class name -> the places that define it."""
    places = {}
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{name}:{node.lineno}")
    return places


def test_no_class_name_occurs_twice():
    """A class name in a traceback, a recording or a search means only one class."""
    places = defined_classes()
    assert len(places) > 100
    report([f"{name} is defined at {' and at '.join(at)}" for name, at in places.items() if len(at) > 1])


def repository_files():
    """All files of the repository except ignored ones and those in hidden folders."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not IGNORED.match(name)]
        yield from (Path(folder, name) for name in files)


def test_files_and_folders_stay_within_size_limits():
    files = list(repository_files())
    assert ROOT / "minijax" / "core" / "trace.py" in files
    in_folder = Counter(path.parent.relative_to(ROOT) for path in files)
    offenders = [f"{folder} holds {count} files" for folder, count in in_folder.items() if count > MOST_FILES]
    for path in files:
        if path.suffix in (".py", ".js", ".css"):
            lines = len(path.read_text(encoding="utf-8").splitlines())
            if lines > MOST_LINES:
                offenders.append(f"{path.relative_to(ROOT)} has {lines} lines")
    report(offenders)


@pytest.mark.parametrize(
    ("importer", "source", "expected"),
    [
        ("minijax.core.trace", "def f():\n    from minijax import api", ("minijax.api", True)),
        ("minijax.core.trace", "from . import avals", ("minijax.core.avals", False)),
        ("minijax.ops.reduce", "from ..core.trace import bind", ("minijax.core.trace", False)),
        ("minijax.ops.reduce", "if TYPE_CHECKING:\n    from minijax.core import trace", ("minijax.core.trace", False)),
        ("minijax.ops.reduce", "import jaxlib.xla_client as xc", ("jaxlib.xla_client", False)),
        ("minijax.ops.reduce", "x = importlib.import_module('jax')", ("jax", False)),
    ],
)
def test_imports_of_every_form_are_found(importer, source, expected, tmp_path, monkeypatch):
    """``imports_of`` finds each form of import, and knows which imports are lazy."""
    monkeypatch.setitem(MODULES, "minijax.api", ROOT / "minijax" / "api.py")
    file = tmp_path / "module.py"
    file.write_text(source)
    assert [(found.target, found.lazy) for found in imports_of(importer, file)] == [expected]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("later('minijax.ops.reduce')", ["minijax.ops.reduce"]),
        ("NAMES = ['reduce']", []),
        ("NAMES = ['reduce']\nimportlib.import_module(f'minijax.ops.{NAMES[0]}')", ["minijax.ops.reduce"]),
        ("importlib.import_module(f'{package}.ops.reduce')", ["minijax.ops.reduce"]),
        ("'See minijax.ops.reduce.'", []),
    ],
)
def test_strings_that_name_modules_are_found(source, expected, tmp_path):
    file = tmp_path / "module.py"
    file.write_text(source)
    assert [found.target for found in strings_naming_modules("minijax.ops", file)] == expected


def roles():
    """Role -> the modules that declare it."""
    found = {}
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("HigherModule", "_HigherModule"):
                assert isinstance(node.args[0], ast.Constant)
                found.setdefault(str(node.args[0].value), []).append(name)
    return found


def test_every_role_is_used_and_filled():
    assert lazy._higher.keys() == roles().keys()
    named = [(role, name) for role, had in lazy._higher.items() for name in had]
    report([f"{role}: {name} does not exist" for role, name in named if name not in MODULES])
