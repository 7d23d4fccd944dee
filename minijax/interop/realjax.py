"""The user's program on real JAX: its functions with every name of minijax's bound to JAX's of the same name.

A function is copied with other globals and another closure, recursively; arrays become JAX's arrays, jitted and
differentiated functions are made anew by JAX's transformations, primitives with the rules that their author registered.
Nothing of the user's is changed. What cannot be carried over is named (``Unmapped``).

jax is imported when the first program is carried over.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import inspect
import os
import site
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minijax import errors
from minijax.api.compile import JitFunction
from minijax.api.custom_jvp import custom_jvp
from minijax.api.custom_vjp import custom_vjp
from minijax.core.array import Array
from minijax.core.primitive import Primitive, abstract_rules, impl_rules
from minijax.core.stand_ins import ShapeDtypeStruct
from minijax.core.trace import Tracer
from minijax.interpreters import ad, batching
from minijax.lowering.foreign import AuthorsRule
from minijax.lowering.lower import lowering_rules
from minijax.pytree import nodes as pytree_nodes
from minijax.pytree.core import kinds

PACKAGE = "minijax"
# Below these nothing is public, or nothing is JAX's.
_INTERNAL = (
    *("interop", "tools", "repl", "ipython_ext", "api", "ops", "ir", "lowering", "backend"),
    *("test_util", "config"),
)
# Set on the type object of a class that a ``class`` statement made.
_HEAP_TYPE = 1 << 9
# What a transformed function remembers under another name than its transformation's parameter.
_REMEMBERED = {"static_argnums": ("numbers", "static")}


# What a copied class has of its own from the beginning.
_KEPT = ("__dict__", "__weakref__", "__module__", "__doc__")


class _Node:
    """The one copy of a pytree class, which JAX knows for good, and how it is taken apart for the latest program."""

    flatten: Callable[[Any], Any]
    unflatten: Callable[[Any, Any], Any]

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def flattened(self, x: Any) -> Any:
        """Children and auxiliary data."""
        return self.flatten(x)

    def unflattened(self, aux: Any, children: Any) -> Any:
        """The instance."""
        return self.unflatten(aux, children)


_nodes: weakref.WeakKeyDictionary[type, _Node] = weakref.WeakKeyDictionary()


class Unmapped(Exception):
    """Something of the program has no counterpart in JAX; the text names it and says why."""


def jax_module() -> Any:
    """The package jax."""
    return importlib.import_module("jax")


def in_x64(on: bool) -> Any:
    """A context in which JAX computes with 64 bits, or does not."""
    return jax_module().enable_x64(on)


@functools.cache
def _foreign_folders() -> tuple[str, ...]:
    """The folders of Python's own library and of installed packages: nobody's program."""
    folders = {*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()}
    return tuple(sorted(folder for folder in folders if folder and folder != sys.prefix))


def _is_users(code: types.CodeType) -> bool:
    if code.co_filename.startswith(_foreign_folders()):
        return False
    return errors.is_user_file(code.co_filename)


class Rebinder:
    """Carries values over to JAX. One instance keeps what is one object one object.

    Args:
      helpers: files of ours whose functions hold for JAX too, such as those that a command puts around the user's;
        the functions that take apart classes of the user's always do.
    """

    def __init__(self, helpers: Iterable[str] = ()) -> None:
        self._helpers = {pytree_nodes.__file__, *helpers}
        self.jax = jax_module()
        # id -> (what it stands for, the original, which keeps the id its own)
        self._done: dict[int, tuple[Any, Any]] = {}
        self._globals: dict[int, dict[str, Any]] = {}
        # names that a copied function lacks, and why
        self.failed: dict[str, str] = {}
        self._public = _public_objects()

    def __call__(self, x: Any) -> Any:
        """``x`` for JAX. Raises Unmapped."""
        if x is None or isinstance(x, (bool, int, float, complex, str, bytes, np.ndarray, np.generic, np.dtype)):
            return x
        if id(x) not in self._done:
            self._done[id(x)] = (self._carried(x), x)
        return self._done[id(x)][0]

    def _keep(self, x: Any, made: Any) -> Any:
        self._done[id(x)] = (made, x)
        return made

    def _carried(self, x: Any) -> Any:
        if isinstance(x, types.ModuleType):
            return self._module(x)
        if id(x) in self._public:
            return self._named(self._public[id(x)])
        for kind, carry in self._kinds():
            if isinstance(x, kind):
                return carry(x)
        return self._object(x)

    def _kinds(self) -> tuple[tuple[Any, Callable[[Any], Any]], ...]:
        return (
            (Array, self._array),
            (Tracer, self._refused),
            (ShapeDtypeStruct, self._spec),
            ((list, tuple, set, frozenset), self._sequence),
            (dict, self._dict),
            (JitFunction, self._jit),
            (custom_jvp, self._custom_jvp),
            (custom_vjp, self._custom_vjp),
            (functools.partial, self._partial),
            (Primitive, self._primitive),
            (types.FunctionType, self._function),
            (types.MethodType, lambda m: types.MethodType(self(m.__func__), self(m.__self__))),
            (staticmethod, lambda f: staticmethod(self(f.__func__))),
            (classmethod, lambda f: classmethod(self(f.__func__))),
            (property, lambda p: property(*(self(f) for f in (p.fget, p.fset, p.fdel)))),
            (type, self._class),
        )

    # ------------------------------------------------------------------------------------------ names

    def _named(self, names: list[tuple[str, str]]) -> Any:
        for module, name in names:
            try:
                return getattr(importlib.import_module("jax" + module[len(PACKAGE) :]), name)
            except (ImportError, AttributeError):
                continue
        module, name = names[0]
        raise Unmapped(f"{module}.{name}: jax{module[len(PACKAGE) :]} has no such name")

    def _module(self, module: types.ModuleType) -> Any:
        name = module.__name__
        if name == PACKAGE or name.startswith(PACKAGE + "."):
            place = "jax" + name[len(PACKAGE) :]
            try:
                return importlib.import_module(place)
            except ImportError:
                raise Unmapped(f"{name}: there is no {place}") from None
        file = getattr(module, "__file__", None)
        if file is None or file.startswith(_foreign_folders()) or not errors.is_user_file(file):
            return module
        return _UsersModule(module, self)

    # ------------------------------------------------------------------------------------------ data

    def _array(self, x: Array) -> Any:
        jnp = importlib.import_module("jax.numpy")
        if x.aval.weak_type and not x.shape:
            return jnp.asarray(np.asarray(x).item())
        made = jnp.asarray(np.asarray(x))
        return made if not x.aval.weak_type else jnp.broadcast_to(jnp.asarray(0, made.dtype.type), x.shape) + made

    def _refused(self, x: Any) -> Any:
        raise Unmapped(f"a tracer of type {x.aval.str_short()}: a transformation of minijax's is under way")

    def _spec(self, x: ShapeDtypeStruct) -> Any:
        return self.jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=bool(x.weak_type))

    def _sequence(self, x: Any) -> Any:
        items = [self(item) for item in x]
        if hasattr(type(x), "_fields"):
            return type(x)(*items)
        return type(x)(items) if type(x) in (list, tuple, set, frozenset) else self._object(x)

    def _dict(self, x: dict[Any, Any]) -> Any:
        if type(x) is not dict:
            return self._object(x)
        made = self._keep(x, {})
        made.update((self(key), self(value)) for key, value in x.items())
        return made

    def _object(self, x: Any) -> Any:
        cls = type(x)
        if (cls.__module__ or "").split(".")[0] == PACKAGE:
            raise Unmapped(f"{getattr(x, '__name__', '') or cls.__qualname__}: JAX has nothing to make it of")
        carried = self(cls)
        if not hasattr(x, "__dict__"):
            return x
        values = {name: self(value) for name, value in vars(x).items()}
        if carried is cls and all(values[name] is value for name, value in vars(x).items()):
            return x
        try:
            made = object.__new__(carried)
        except TypeError:  # made in C, such as NumPy's functions, which take JAX's arrays
            return x
        made.__dict__.update(values)
        return made

    # ------------------------------------------------------------------------------------------ functions

    def _function(self, fun: types.FunctionType) -> Any:
        # a transformed function calls itself by its function's name and module; the code tells whose it is
        code = fun.__code__
        if code.co_filename not in self._helpers:
            if code.co_filename.startswith(errors._PACKAGE + os.sep):
                return self._transformed(fun)
            if not _is_users(code):
                return fun
        cells = tuple(types.CellType() for _ in code.co_freevars)
        scope = self._scope(fun)
        made = self._keep(fun, types.FunctionType(code, scope, fun.__name__, None, cells))
        for name in _names(code):
            if name in fun.__globals__ and name not in scope:
                try:
                    scope[name] = self(fun.__globals__[name])
                except Unmapped as error:
                    self.failed[name] = str(error)
        for cell, old in zip(cells, fun.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self(old.cell_contents)
            except ValueError:  # the cell is empty
                pass
        made.__defaults__ = None if fun.__defaults__ is None else tuple(map(self, fun.__defaults__))
        made.__kwdefaults__ = None if fun.__kwdefaults__ is None else dict(self(fun.__kwdefaults__))
        made.__qualname__, made.__doc__, made.__module__ = fun.__qualname__, fun.__doc__, fun.__module__
        return made

    def _scope(self, fun: types.FunctionType) -> dict[str, Any]:
        """The globals of a function's copy, one dict for all functions of one module."""
        key = id(fun.__globals__)
        if key not in self._globals:
            own = {name: fun.__globals__.get(name) for name in ("__name__", "__file__", "__package__", "__spec__")}
            own["__builtins__"] = {**vars(builtins), "__import__": _importing}
            self._globals[key] = own
        return self._globals[key]

    def _transformed(self, fun: types.FunctionType) -> Any:
        """What ``grad(f)`` and its like returned: the same of JAX's, of the function inside."""
        transformation = fun.__code__.co_qualname.split(".")[0]
        public = getattr(sys.modules[PACKAGE], transformation, None)
        theirs = getattr(self.jax, transformation, None)
        held = inspect.getclosurevars(fun).nonlocals
        name = f"{transformation}({fun.__name__})" if public is not None else fun.__qualname__
        if public is None or theirs is None or "fun" not in held:
            raise Unmapped(f"{name}: a function of minijax's own that JAX has none like")
        given = {}
        for parameter in inspect.signature(public).parameters:
            for remembered in (parameter, *_REMEMBERED.get(parameter, ())):
                if remembered in held:
                    given[parameter] = self(held[remembered])
        return theirs(given.pop("fun"), **given)

    def _jit(self, fun: JitFunction) -> Any:
        names = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")
        options = {name: getattr(fun, name) for name in names if getattr(fun, name)}
        return self.jax.jit(self(fun.fun), **options)

    def _partial(self, fun: functools.partial[Any]) -> Any:
        keywords = {name: self(value) for name, value in fun.keywords.items()}
        return functools.partial(self(fun.func), *map(self, fun.args), **keywords)

    def _custom_jvp(self, fun: custom_jvp) -> Any:
        made = self._keep(fun, self.jax.custom_jvp(self(fun.fun), nondiff_argnums=tuple(fun.nondiff_argnums)))
        rule = fun.jvp
        if rule is None:
            return made
        is_ours = isinstance(rule, types.FunctionType) and not errors.is_user_file(rule.__code__.co_filename)
        held = inspect.getclosurevars(rule).nonlocals if is_ours else {}
        if "jvps" in held:
            made.defjvps(*map(self, held["jvps"]))
        else:
            made.defjvp(self(rule), symbolic_zeros=fun.symbolic_zeros)
        return made

    def _custom_vjp(self, fun: custom_vjp) -> Any:
        made = self._keep(fun, self.jax.custom_vjp(self(fun.fun), nondiff_argnums=tuple(fun.nondiff_argnums)))
        if fun.fwd is not None:
            made.defvjp(self(fun.fwd), self(fun.bwd), symbolic_zeros=fun.symbolic_zeros)
        return made

    # ------------------------------------------------------------------------------------------ classes, primitives

    def _class(self, cls: type) -> Any:
        if not cls.__flags__ & _HEAP_TYPE:
            return cls
        module = sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None)
        # what is typed at a prompt has no file
        if file is not None and file.startswith(_foreign_folders()):
            return cls
        if cls.__module__.split(".")[0] == PACKAGE:
            raise Unmapped(f"{cls.__qualname__}: a class of minijax's own that JAX has none like")
        if type(cls) is not type or hasattr(cls, "_fields") or "__slots__" in vars(cls):
            return cls
        bases = tuple(map(self, cls.__bases__))
        node = _nodes.get(cls)
        made = self._keep(cls, type(cls)(cls.__name__, bases, {}) if node is None else node.cls)
        if node is not None:  # the copy of an earlier program, with what its names meant then
            if made.__bases__ != bases:
                made.__bases__ = bases
            for name in [name for name in vars(made) if name not in _KEPT]:
                delattr(made, name)
        for name, value in vars(cls).items():
            if name not in _KEPT:
                setattr(made, name, self(value) if callable(value) or hasattr(value, "__get__") else value)
        kind = kinds[cls]
        if kind is not None and kind.flatten is not None and kind.unflatten is not None:
            if node is None:
                node = _nodes[cls] = _Node(made)
                self.jax.tree_util.register_pytree_node(made, node.flattened, node.unflattened)
            node.flatten, node.unflatten = self(kind.flatten), self(kind.unflatten)
        return made

    def _primitive(self, primitive: Primitive) -> Any:
        """An author's primitive with its rules, whose conventions are JAX's."""
        if not errors.is_user_file(primitive.defined_at.rpartition(":")[0]):
            raise Unmapped(f"{primitive.name}: a primitive of minijax's own")
        core, theirs_ad, theirs_batching, mlir = (
            importlib.import_module(f"jax.{name}")
            for name in ("extend.core", "interpreters.ad", "interpreters.batching", "interpreters.mlir")
        )
        made = self._keep(primitive, core.Primitive(primitive.name))
        made.multiple_results = primitive.multiple_results
        if primitive in impl_rules:
            made.def_impl(self(impl_rules[primitive]))
        if primitive in abstract_rules:
            made.def_abstract_eval(self(abstract_rules[primitive]))
        for ours, theirs in (
            (ad.primitive_jvps, theirs_ad.primitive_jvps),
            (ad.primitive_transposes, theirs_ad.primitive_transposes),
            (batching.primitive_batchers, theirs_batching.primitive_batchers),
        ):
            if primitive in ours:
                theirs[made] = self(ours[primitive])
        lowering = lowering_rules.get(primitive)
        if isinstance(lowering, AuthorsRule):
            if lowering.default is not None:
                mlir.register_lowering(made, self(lowering.default))
            for platform, rule in lowering.by_platform.items():
                mlir.register_lowering(made, self(rule), platform=platform)
        return made


class _UsersModule(types.ModuleType):
    """A module of the user's whose attributes are carried over when they are read."""

    def __init__(self, module: types.ModuleType, carry: Rebinder) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__["carried from"] = module, carry

    def __getattr__(self, name: str) -> Any:
        module, carry = self.__dict__["carried from"]
        return carry(getattr(module, name))


def _public_objects() -> dict[int, list[tuple[str, str]]]:
    """id -> [(module, name)] of everything public of minijax's that JAX may have too, the shortest module first."""
    found: dict[int, list[tuple[str, str]]] = {}
    modules = [name for name in sys.modules if name == PACKAGE or name.startswith(PACKAGE + ".")]
    for module in sorted(modules, key=lambda name: (name.count("."), name)):
        parts = module.split(".")
        if sys.modules[module] is None or (len(parts) > 1 and parts[1] in _INTERNAL):
            continue
        for name, value in vars(sys.modules[module]).items():
            ours = (getattr(value, "__module__", None) or "").split(".")[0] == PACKAGE
            if ours and not name.startswith("_") and not isinstance(value, types.ModuleType):
                found.setdefault(id(value), []).append((module, name))
    return found


def _names(code: types.CodeType) -> list[str]:
    """The global names that a function and the functions in it read."""
    out = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            out += _names(const)
    return list(dict.fromkeys(out))


def _importing(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:  # the signature of __import__
    """``import`` inside a copied function: jax for minijax."""
    if not level and (name == PACKAGE or name.startswith(PACKAGE + ".")):
        name = "jax" + name[len(PACKAGE) :]
    return builtins.__import__(name, globals, locals, fromlist, level)
