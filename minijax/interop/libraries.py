"""JAX and minijax as two libraries with the same names: describe each one's values in common terms.

In: an object of a library. Out: a ``LibraryPart``, whose arrays are already converted to the other library. Transformed
functions, custom rules and authors' primitives are described by their parts, so that the other library can rebuild them
with its transformation of the same name. The first use of JAX's library imports jax.
"""

from __future__ import annotations

import collections
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from minijax import errors
from minijax.api.compile import JitFunction
from minijax.api.shard_map import ShardMapped
from minijax.core.array import Array
from minijax.core.meshes import AbstractMesh
from minijax.core.primitive import Primitive
from minijax.core.records import Frozen
from minijax.core.shardings import PartitionSpec, Sharding
from minijax.core.structural import UNSPECIFIED
from minijax.core.trace import Tracer
from minijax.interop.borrowed import borrowed
from minijax.interop.values import (
    dtype_of,
    from_jax_value,
    jax_module,
    mesh_for_jax,
    sharding_for_jax,
    spec_for_jax,
    spec_of,
    to_jax_value,
)
from minijax.pytree.core import kinds

# parameter of a transformation -> other names of the variables in which a transformed function may hold its value
_REMEMBERED = {"static_argnums": ("numbers", "static"), "fun": ("pyfunc",)}
_JIT_OPTIONS = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")


class Unmapped(Exception):
    """An object of the program has no counterpart in the other library; the message names it and the reason."""


Node = tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]


class LibraryPart(Frozen):
    """An object of a library, in terms that both libraries share."""


class ValuePart(LibraryPart):
    """An array, a type or a primitive, already converted to the other library."""

    value: Any


class CallPart(LibraryPart):
    """A call of the public function ``name`` (``grad``, ``jit``, ...) with ``fun`` and ``options``."""

    name: str
    fun: Any
    options: dict[str, Any]


class CustomPart(LibraryPart):
    """A function with custom derivatives. ``define`` is the name of the method that sets its ``rules``."""

    name: str
    fun: Any
    nondiff_argnums: tuple[int, ...]
    define: str
    rules: tuple[Any, ...]
    options: dict[str, Any]


class Library:
    """One of the two libraries.

    Attributes:
      package, own: the public package, and all packages with the library's code.
      internal: names of modules whose submodules have no public names that both libraries share.
    """

    package: str
    own: tuple[str, ...]
    internal: tuple[str, ...] = ()

    def __init__(self) -> None:
        # class in the other library's program -> its only copy, which stays registered with this library
        self.copies: weakref.WeakKeyDictionary[type, Any] = weakref.WeakKeyDictionary()
        self._public: tuple[int, dict[int, list[tuple[str, str]]]] = (0, {})

    def owns(self, module: str | None) -> bool:
        """Whether the library owns a module of this name."""
        return (module or "").partition(".")[0] in self.own

    def public(self) -> dict[int, list[tuple[str, str]]]:
        """id -> [(module without the package, name)] of all public objects, the shortest module first."""
        modules = [name for name in sys.modules if name == self.package or name.startswith(self.package + ".")]
        count, found = self._public
        if count != len(modules):
            self._public = len(modules), self._listed(modules)
        return self._public[1]

    def _listed(self, modules: list[str]) -> dict[int, list[tuple[str, str]]]:
        found: dict[int, list[tuple[str, str]]] = {}
        for module in sorted(modules, key=lambda name: (name.count("."), name)):
            parts = module.split(".")
            if sys.modules[module] is None or (len(parts) > 1 and parts[1] in self.internal):
                continue
            if any(part.startswith("_") for part in parts):
                continue
            suffix = module[len(self.package) :]
            for name, value in vars(sys.modules[module]).items():
                if name.startswith("_") or isinstance(value, types.ModuleType):
                    continue
                if isinstance(value, types.SimpleNamespace):  # checkpoint_policies
                    for inner, each in vars(value).items():
                        found.setdefault(id(each), []).append((suffix, f"{name}.{inner}"))
                elif self.owns(getattr(value, "__module__", None)):
                    found.setdefault(id(value), []).append((suffix, name))
        return found

    def name_of(self, x: Any) -> str:
        """Return the public name of a library object, such as ``jax.numpy.sin``, or '' if it has none."""
        module, name = self.public().get(id(x), [("", "")])[0]
        return f"{self.package}{module}.{name}" if name else ""

    def is_array(self, x: Any) -> bool:
        """Whether ``x`` is an array, not a tracer."""
        raise NotImplementedError

    def is_tracer(self, x: Any) -> bool:
        """Whether ``x`` is a tracer of an active transformation."""
        raise NotImplementedError

    def part(self, x: Any) -> LibraryPart | None:
        """Describe ``x``. Return None if this library does not know objects of this kind."""
        raise NotImplementedError

    def node(self, cls: type) -> Node | None:
        """How to flatten a class that is registered as a pytree with this library; None if it is not registered."""
        raise NotImplementedError


def _remembered(transformation: Any, held: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The function and options that a transformed function closes over, named as the transformation's parameters."""
    first, *parameters = inspect.signature(transformation).parameters
    given = {}
    for parameter in (first, *parameters):
        for name in (parameter, *_REMEMBERED.get(parameter, ())):
            if name in held:
                given[parameter] = held[name]
    return given.pop(first, None), given


def _custom(x: Any, kind: str) -> CustomPart:
    """Describe a ``custom_jvp`` or ``custom_vjp`` function; both libraries use the same attribute names."""
    options = {"symbolic_zeros": bool(getattr(x, "symbolic_zeros", False))}
    define: str = ""
    rules: tuple[Any, ...] = ()
    if kind == "custom_vjp":
        if x.fwd is not None:
            define, rules = "defvjp", (x.fwd, x.bwd)
    elif (rule := getattr(x, "jvp", None)) is not None:
        held = inspect.getclosurevars(rule).nonlocals if isinstance(rule, types.FunctionType) else {}
        if "jvps" in held and rule.__qualname__.endswith("defjvps.<locals>.jvp"):
            define, rules, options = "defjvps", tuple(held["jvps"]), {}
        else:
            define, rules = "defjvp", (rule,)
    return CustomPart(kind, x.fun, tuple(x.nondiff_argnums), define, rules, options)


class Minijax(Library):
    """minijax itself."""

    package = "minijax"
    own = ("minijax",)
    internal = (
        *("interop", "tools", "repl", "ipython_ext", "api", "ops", "ir", "lowering", "backend"),
        *("test_util", "config"),
    )

    def is_array(self, x: Any) -> bool:
        return isinstance(x, Array)

    def is_tracer(self, x: Any) -> bool:
        return isinstance(x, Tracer)

    def part(self, x: Any) -> LibraryPart | None:
        root = sys.modules[self.package]
        if isinstance(x, Array):
            return ValuePart(to_jax_value(x))
        if isinstance(x, root.ShapeDtypeStruct):
            return ValuePart(spec_of(x))
        if isinstance(x, (Sharding, AbstractMesh, PartitionSpec)):
            return ValuePart(_place_for_jax(x))
        if isinstance(x, JitFunction):
            options = {name: getattr(x, name) for name in _JIT_OPTIONS if getattr(x, name)}
            shardings = {name: getattr(x, name) for name in ("in_shardings", "out_shardings")}
            options.update((name, value) for name, value in shardings.items() if value is not UNSPECIFIED)
            return CallPart("jit", x.fun, options)
        for kind in ("custom_jvp", "custom_vjp"):
            if isinstance(x, getattr(root, kind)):
                return _custom(x, kind)
        if isinstance(x, types.FunctionType) and not errors.is_user_file(x.__code__.co_filename):
            return self._transformed(x)
        return None

    def _transformed(self, fun: types.FunctionType) -> LibraryPart | None:
        # a transformed function has the name and module of the inner one; its code object names its real module
        name = fun.__code__.co_qualname.split(".")[0]
        public = getattr(sys.modules[self.package], name, None)
        if not callable(public):
            return None
        held = inspect.getclosurevars(fun).nonlocals
        if isinstance(held.get("mapped"), ShardMapped):
            return _shard_mapped(held["mapped"])
        inner, options = _remembered(public, held)
        return None if inner is None else CallPart(name, inner, options)

    def node(self, cls: type) -> Node | None:
        kind = kinds[cls]
        if kind is None or kind.flatten is None:
            return None
        return kind.flatten, kind.unflatten  # type: ignore[return-value]


def _place_for_jax(x: Sharding | AbstractMesh | PartitionSpec) -> Any:
    """Convert a placement to JAX's, over devices with the same ids."""
    if isinstance(x, PartitionSpec):
        return spec_for_jax(x)
    try:
        return mesh_for_jax(x) if isinstance(x, AbstractMesh) else sharding_for_jax(x)
    except NotImplementedError as error:
        raise Unmapped(str(error)) from None


def _shard_mapped(x: ShardMapped) -> CallPart:
    """Describe a function that runs on each device of a mesh."""
    options = {"mesh": x.given_mesh, "in_specs": x.in_specs, "out_specs": x.out_specs, "check_vma": x.check_vma}
    return CallPart("shard_map", x.fun, {**options, "axis_names": set(x.axes)})


def check_authors(p: Primitive) -> None:
    """Raise Unmapped unless ``p`` is a user's primitive."""
    if p.borrowed_from:
        raise Unmapped(f"{p.name}: a primitive that is borrowed from {p.borrowed_from}")
    if not errors.is_user_file(p.defined_at.rpartition(":")[0]):
        raise Unmapped(f"{p.name}: a primitive of minijax itself")


# Classes that both libraries treat as pytrees without registration.
_BUILTIN_NODES = (list, tuple, dict, type(None), collections.OrderedDict, collections.defaultdict, collections.deque)
# The wrapper that JAX puts around all its public functions, so that all transformed functions look alike.
_BOUNDARY = "api_boundary.<locals>.reraise_with_filtered_traceback"


class Jax(Library):
    """The real JAX."""

    package = "jax"
    own = ("jax", "jaxlib")

    def is_array(self, x: Any) -> bool:
        jax = sys.modules.get("jax")
        return jax is not None and isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)

    def is_tracer(self, x: Any) -> bool:
        jax = sys.modules.get("jax")
        return jax is not None and isinstance(x, jax.core.Tracer)

    def part(self, x: Any) -> LibraryPart | None:
        jax = jax_module()
        if isinstance(x, jax.Array):
            try:
                return ValuePart(from_jax_value(x))
            except NotImplementedError as error:
                raise Unmapped(str(error)) from None
        if isinstance(x, jax.ShapeDtypeStruct):
            weak, dtype = bool(getattr(x, "weak_type", False)), dtype_of(x.dtype)
            return ValuePart(sys.modules["minijax"].ShapeDtypeStruct(x.shape, dtype, weak_type=weak))  # type: ignore[attr-defined]
        if isinstance(x, jax_module("extend.core").Primitive):
            return ValuePart(borrowed(x))
        # functools.wraps copies a jitted function's attributes to its wrappers
        if type(x).__module__ == "jaxlib._jax" and hasattr(x, "__wrapped__") and hasattr(x, "_jit_info"):
            return self._jitted(x)
        for kind in ("custom_jvp", "custom_vjp"):
            if isinstance(x, getattr(jax, kind)):
                return self._of_custom_gradient(x) or _custom(x, kind)
        if isinstance(x, types.FunctionType) and self.owns(x.__globals__.get("__name__")):
            return self._transformed(x)
        return None

    def _of_custom_gradient(self, x: Any) -> CallPart | None:
        """Describe a ``custom_gradient`` function, which in JAX is a ``custom_vjp`` function with rules from JAX."""
        if not getattr(x.fun, "__qualname__", "").startswith("custom_gradient.<locals>"):
            return None
        return CallPart("custom_gradient", inspect.getclosurevars(x.fun).nonlocals["fun"], {})

    def _jitted(self, x: Any) -> LibraryPart:
        info = x._jit_info
        if info.user_specified_in_shardings or info.device is not None or info.backend is not None:
            raise Unmapped(f"{x.__name__}: its jit sets shardings, a device or a backend")
        options = {name: getattr(info, name) for name in _JIT_OPTIONS if getattr(info, name)}
        return CallPart("jit", x.__wrapped__, options)

    def _transformed(self, fun: types.FunctionType) -> LibraryPart | None:
        fun = _within(fun)
        name = fun.__code__.co_qualname.split(".")[0]
        place = "numpy." if fun.__globals__["__name__"].startswith("jax._src.numpy") else ""
        public: Any = getattr(jax_module("numpy") if place else jax_module(), name, None)
        # jax.experimental.sparse has transformations of the same names
        if getattr(inspect.unwrap(public), "__globals__", None) is not fun.__globals__:
            return None
        held = inspect.getclosurevars(fun).nonlocals
        if name == "grad":  # ``grad_f`` closes over ``value_and_grad_f``, which has the options
            held = inspect.getclosurevars(_within(held["value_and_grad_f"])).nonlocals
        inner, options = _remembered(public, held)
        if inner is None:
            return None
        parameters = inspect.signature(public).parameters
        changed = {each: value for each, value in options.items() if not _is_default(value, parameters[each].default)}
        return CallPart(place + name, inner, changed)

    def node(self, cls: type) -> Node | None:
        registry = jax_module().tree_util.default_registry
        if not registry.is_node(cls) or hasattr(cls, "_fields") or cls in _BUILTIN_NODES:
            return None
        return jax_flatten, jax_unflatten


def _within(fun: types.FunctionType) -> types.FunctionType:
    """Unwrap JAX's wrapper around its public functions."""
    while fun.__code__.co_qualname == _BOUNDARY:
        fun = inspect.getclosurevars(fun).nonlocals["fun"]
    return fun


def _is_default(value: Any, default: Any) -> bool:
    """Whether ``value`` is the option's default, or the ``object()`` that JAX uses for an axis without a name."""
    if value is default or type(value) is object:
        return True
    return type(value) is type(default) and isinstance(value, (bool, int, str, tuple, frozenset)) and value == default


def jax_flatten(x: Any) -> tuple[Any, Any]:
    """Flatten an instance of a class that is registered with JAX. Return its children and its structure."""
    tree_util = jax_module().tree_util
    children, _ = tree_util.default_registry.flatten_one_level(x)
    return children, tree_util.tree_structure(x, is_leaf=lambda each: each is not x)


def jax_unflatten(structure: Any, children: Any) -> Any:
    """Rebuild an instance from ``jax_flatten``'s structure with other children."""
    return structure.unflatten(children)


MINIJAX = Minijax()
JAX = Jax()
