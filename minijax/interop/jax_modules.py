"""``jax`` and its modules as seen by a package that runs on minijax: minijax's names under JAX's.

A name that minijax lacks and JAX has can be imported; using it raises an ImportError that names it. A name that JAX
lacks too raises JAX's own error, since packages test for JAX versions this way.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import importlib.util
import inspect
import os
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from types import FrameType, MappingProxyType, ModuleType
from typing import Any, NoReturn

import numpy as np

from minijax import errors
from minijax.core import dtypes
from minijax.core.array import LiteralArray
from minijax.core.lazy import HigherModule
from minijax.core.lists import safe_map, safe_zip
from minijax.ir.evaluate import eval_jaxpr
from minijax.pytree import core as pytree_core

JAX = ("jax", "jaxlib")
# A package that uses JAX registers names in these packages. Its second copy needs second copies of them.
_REGISTRIES = ("absl",)
# minijax itself, and large packages that do not use JAX. Their files are not searched for imports of JAX.
_NEVER = frozenset({"minijax", "numpy", "scipy", "pytest", "_pytest", "IPython", "__main__"} | sys.stdlib_module_names)
_NAMES_JAX = re.compile(rb"^[ \t]*(?:import|from)[ \t]+jax(?:lib)?\b|^[ \t]*import[ \t].*,[ \t]*jax\b", re.MULTILINE)
# Import statements outside of functions. A package cannot be imported without these modules.
_OUTER = re.compile(rb"^(?:from|import)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_known: dict[str, bool] = {}


def spec_of(name: str) -> ModuleSpec | None:
    """The import spec of the top-level module ``name``."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a loaded module may have no spec
        return PathFinder.find_spec(name)


def written_on_jax(name: str) -> bool:
    """Whether the module or package ``name`` is JAX, or pure Python that imports JAX, perhaps through other modules."""
    if name not in _known:
        _known[name] = name in (*JAX, *_REGISTRIES) or _found(name, frozenset())
    return _known[name]


def also(names: tuple[str, ...]) -> None:
    """Treat these packages as if they imported JAX."""
    _known.update(dict.fromkeys(names, True))


def _found(name: str, asking: frozenset[str]) -> bool:
    if name in _NEVER or name in asking:
        return False
    if name in _known:
        return _known[name]
    spec = spec_of(name)
    files = list(_sources(spec)) if spec is not None else []
    if any(path.endswith(tuple(EXTENSION_SUFFIXES)) for path in files):
        return False
    outer: set[str] = set()
    for path in files:
        try:
            with open(path, "rb") as file:
                text = file.read()
        except OSError:
            continue
        if _NAMES_JAX.search(text) and _imports_jax(text):
            return True
        outer.update(found.decode() for found in _OUTER.findall(text))
    return any(_found(each, asking | {name}) for each in sorted(outer - {name, *JAX}))


def _sources(spec: ModuleSpec) -> Iterator[str]:
    """The files of a module or package, except tests."""
    if spec.submodule_search_locations is None:
        if spec.has_location and spec.origin:
            yield spec.origin
        return
    for root in spec.submodule_search_locations:
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(each for each in folders if each not in ("tests", "test", "__pycache__"))
            for each in sorted(files):
                if each.endswith((".py", *EXTENSION_SUFFIXES)) and not each.endswith("_test.py"):
                    yield os.path.join(folder, each)


def _imports_jax(text: bytes) -> bool:
    """Whether a statement imports JAX (an example in a docstring does not count)."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        if any(name.partition(".")[0] in JAX for name in names):
            return True
    return False


_root = HigherModule("public_names")
# Packages of minijax whose names JAX does not use, or uses for something else.
_INTERNAL = frozenset(
    {"api", "backend", "interop", "ipython_ext", "ir", "jacobians", "lowering", "pytree", "repl", "tools"}
)
_PUBLIC = re.compile(
    r"\b([A-Za-z]\w*) as \1\b|^(?:def|class) ([A-Za-z]\w*)|^([A-Za-z]\w*)(?: ?: [\w.\[\], ]+)? = ", re.MULTILINE
)


# A marker for no value where None is a value (``jax.numpy.newaxis``).
_NOTHING = object()


class Missing:
    """A name of JAX that minijax lacks: using it raises an ImportError that names it.

    While a module is imported, annotations, decorators and calls may use it; a call gives another ``Missing``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]

    def _refuse(self) -> NoReturn:
        module, _, name = self._name.rpartition(".")
        where = errors.source_line()
        raise ImportError(f"minijax has no {self._name}, which {where} uses.{near(module, name)}", name=self._name)

    def _used_by(self, frame: FrameType) -> Missing:
        if not getattr(frame.f_globals.get("__spec__"), "_initializing", False):
            self._refuse()
        return Missing(self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._used_by(sys._getframe(1))

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return self._used_by(sys._getframe(1))

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Allow subclasses of a missing class; they have no instances."""

        def new(cls: type, *args: Any, **kwargs: Any) -> Any:
            return self._used_by(sys._getframe(1))

        return (type(self.__name__, (), {"__new__": new}),)

    def __bool__(self) -> bool:
        self._refuse()

    def __iter__(self) -> Any:
        self._refuse()

    def __instancecheck__(self, x: Any) -> bool:
        return False  # no minijax object is an instance of a missing class

    def __subclasscheck__(self, cls: type) -> bool:
        return False

    def __getitem__(self, item: Any) -> Missing:
        return self

    def __or__(self, other: Any) -> Any:
        return typing.Union[self, other]  # noqa: UP007  (only Union accepts a non-type)

    def __ror__(self, other: Any) -> Any:
        return typing.Union[other, self]  # noqa: UP007

    def __repr__(self) -> str:
        return f"<{self._name}, which minijax lacks>"


class JaxModule(ModuleType):
    """JAX's module ``name`` with minijax's contents; ``fullname`` is its name in ``sys.modules``."""

    def __init__(self, fullname: str, name: str) -> None:
        super().__init__(fullname, f"minijax in the place of {name}.")
        self.__dict__["_name"] = name
        self.__dict__["_twin"] = twin(name)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [each for each in dir(self) if each[0] != "_"]
        value = self._found(name)
        self.__dict__[name] = value
        return value

    def _found(self, name: str) -> Any:
        full = f"{self._name}.{name}"
        if full in _VALUES:
            return _VALUES[full]()
        if name[:2] != "__":
            value = getattr(self._twin, name, _NOTHING)
            if value is not _NOTHING and not isinstance(value, ModuleType):
                return value
            if exists(full):
                return importlib.import_module(f"{self.__name__}.{name}")
            if name in jax_names(self._name):
                return Missing(full)
        raise AttributeError(f"module {self._name!r} has no attribute {name!r}.{near(self._name, name)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name[:2] != "__" and not isinstance(value, ModuleType):
            raise AttributeError(f"{self._name}.{name} cannot be changed: minijax would not see it")
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_public(self._twin), *jax_names(self._name)})

    def __repr__(self) -> str:
        return f"<module {self._name!r}, which is minijax>"


def check_names(module: JaxModule, names: Iterable[str]) -> None:
    """Raise the error of ``from jax import names`` for a name that ``module`` lacks."""
    for name in names:
        if name != "*" and not hasattr(module, name):
            message = f"cannot import name {name!r} from {module._name!r}.{near(module._name, name)}"
            raise ImportError(message, name=module._name)


def _public(module: ModuleType | None) -> list[str]:
    return [] if module is None else [each for each in dir(module) if each[0] != "_"]


def near(module: str, name: str) -> str:
    """Return `` Did you mean jax.numpy.sin?`` if ``name`` is similar to a known name, and '' if not."""
    close = difflib.get_close_matches(name, _public(twin(module)), 1)
    return f" Did you mean {module}.{close[0]}?" if close else ""


def no_module(name: str) -> str:
    """The error message for a missing module."""
    if name.partition(".")[0] != "jax":
        return f"No module named {name!r}"
    return f"No module named {name!r}: JAX or minijax has no such module"


@functools.cache
def twin(name: str) -> ModuleType | None:
    """Return minijax's module for JAX's module ``name``, or None if minijax has no such module."""
    first, *rest = name.split(".")
    if first != "jax" or (rest and rest[0] in _INTERNAL):
        return None
    module = _root.load()
    for part in rest:
        found = getattr(module, part, None)
        if not isinstance(found, ModuleType):
            try:
                found = importlib.import_module(f"{module.__name__}.{part}")
            except ModuleNotFoundError:
                return None
        if found.__name__.partition(".")[0] != "minijax":
            return None
        module = found
    return module


def exists(name: str) -> bool:
    """Whether JAX has a module ``name``, public or private."""
    return bool(file_of(name))


@functools.cache
def file_of(name: str) -> str:
    """Return the path of a JAX module's file, or '' if JAX has no such module."""
    top, *rest = name.split(".")
    spec = spec_of(top)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = os.path.join(folder, *rest)
        for file in (os.path.join(path, "__init__.py"), path + ".py"):
            if os.path.isfile(file):
                return file
    return ""


@functools.cache
def jax_names(module: str) -> frozenset[str]:
    """A JAX module's public names, read from its file, since importing jax takes most of a second."""
    file = file_of(module)
    if not file:
        return frozenset()
    with open(file, encoding="utf-8") as opened:
        found = _PUBLIC.findall(opened.read())
    return frozenset(name for names in found for name in names if name)


def _version() -> str:
    file = file_of("jax.version")
    with open(file, encoding="utf-8") as opened:
        return re.findall(r'^_version = "([^"]+)"', opened.read(), re.MULTILINE)[0]


def _version_info() -> tuple[int, ...]:
    return tuple(int(part) for part in _version().split(".")[:3])


@functools.cache
def registry(name: str) -> dict[type, Any]:
    """A table in which packages register classes. minijax ignores it and refuses instances of these classes."""
    return {np.ndarray: None}


def api_boundary(fun: Any, **options: Any) -> Any:
    """Return ``fun`` unchanged: minijax does not hide frames at this boundary."""
    return fun


def register_exclusion(path: str) -> None:
    """Do nothing: minijax hides no files from tracebacks."""


def include_frame(frame: FrameType) -> bool:
    """Whether a frame belongs to the user's program or to a library."""
    return errors.is_user_file(frame.f_code.co_filename)


def unzip2(pairs: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split pairs into first and second elements."""
    found = list(pairs)
    return tuple(first for first, _ in found), tuple(second for _, second in found)


def infer_argnums_and_argnames(signature: inspect.Signature, argnums: Any, argnames: Any) -> Any:
    """Return ``argnums`` and ``argnames``. If one of them is None, it is inferred from the other."""
    positional = [name for name, p in signature.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    numbers = () if argnums is None else (argnums,) if isinstance(argnums, int) else tuple(argnums)
    names = () if argnames is None else (argnames,) if isinstance(argnames, str) else tuple(argnames)
    if argnames is None:
        names = tuple(positional[number] for number in numbers if number < len(positional))
    if argnums is None:
        numbers = tuple(number for number, name in enumerate(positional) if name in names)
    return numbers, names


# Names that minijax has in another module or only for packages, and the private names that packages import from JAX.
_VALUES: dict[str, Callable[[], Any]] = {
    "jax.__version__": _version,
    "jax.__version_info__": _version_info,
    "jax.version.__version__": _version,
    "jax.version.__version_info__": _version_info,
    "jaxlib.__version__": _version,
    "jaxlib.version.__version__": _version,
    "jax.core.eval_jaxpr": lambda: eval_jaxpr,
    "jax.core.pytype_aval_mappings": lambda: registry("pytype_aval_mappings"),
    "jax.extend.source_info_util.register_exclusion": lambda: register_exclusion,
    "jax.interpreters.xla.canonicalize_dtype_handlers": lambda: registry("canonicalize_dtype_handlers"),
    "jax._src.api_util.infer_argnums_and_argnames": lambda: infer_argnums_and_argnames,
    "jax._src.dispatch.wait_for_tokens": lambda: _root.effects_barrier,
    "jax._src.dtypes.DType": lambda: np.dtype,
    "jax._src.dtypes.TypePromotionError": lambda: dtypes.TypePromotionError,
    "jax._src.literals.TypedNdArray": lambda: LiteralArray,
    "jax._src.tree_util._registry": lambda: MappingProxyType(pytree_core._registered),
    "jax._src.traceback_util.api_boundary": lambda: api_boundary,
    "jax._src.traceback_util.include_frame": lambda: include_frame,
    "jax._src.traceback_util.register_exclusion": lambda: register_exclusion,
    "jax._src.util.safe_map": lambda: safe_map,
    "jax._src.util.safe_zip": lambda: safe_zip,
    "jax._src.util.unzip2": lambda: unzip2,
}
