"""Carry a user's program from one library to the other: copy its functions, bound to the other library's names.

A copied function has other globals and another closure, whose contents are carried too; its code and lines stay the
same. Arrays are converted. A jitted or differentiated function is transformed again, by the other library's
transformation with the same name. A primitive keeps the rules that its author registered. The user's objects do not
change. From JAX to minijax, functions of third parties that compute with JAX are imported *whole*, not copied:
``from_jax`` imports the program of each call. An object that can be neither copied nor imported raises ``Unmapped``.

The same code serves both directions; ``libraries`` describes each of the two libraries.
"""

from __future__ import annotations

import abc
import builtins
import dis
import enum
import functools
import importlib
import operator
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minijax import errors
from minijax.core.primitive import Primitive, abstract_rules, impl_rules
from minijax.interop.functions import from_jax, originals
from minijax.interop.libraries import (
    JAX,
    MINIJAX,
    CallPart,
    CustomPart,
    Library,
    LibraryPart,
    Node,
    Unmapped,
    ValuePart,
    check_authors,
    jax_flatten,
    jax_unflatten,
)
from minijax.interop.lines import foreign_folders
from minijax.interop.uses import NEUTRAL, is_of_a_statement, jax_use
from minijax.interop.values import jax_module
from minijax.interpreters import ad, batching
from minijax.lowering.foreign import AuthorsRule
from minijax.lowering.lower import lowering_rules
from minijax.pytree import nodes as pytree_nodes

# The attributes that a new class already has.
_KEPT = ("__dict__", "__weakref__", "__module__", "__doc__", "__slots__", "_abc_impl")
_PLAIN = (bool, int, float, complex, str, bytes, np.ndarray, np.generic, np.dtype)
_NOTHING = object()


def is_third_partys(cls: type) -> bool:
    """Whether ``cls``, a base or its metaclass belongs to a third party's package that computes with JAX."""
    return any(
        computes_with_jax(base.__module__) and not JAX.owns(base.__module__)
        for base in (*cls.__mro__, type(cls))
        if not _is_users_class(base)
    )


class _Copy:
    """The only copy of a pytree class. It is registered once; later programs replace ``flatten``."""

    flatten: Callable[[Any], Any]
    unflatten: Callable[[Any, Any], Any]

    def __init__(self, original: type, cls: type) -> None:
        self.original, self.cls = original, cls

    def flattened_with_keys(self, x: Any) -> Any:
        """Flatten to children, each with JAX's key, and auxiliary data."""
        children, aux = self.flatten(x)
        pairs, _ = jax_module().tree_util.default_registry.flatten_one_level_with_keys(_as_instance(x, self.original))
        return tuple([(key, child) for (key, _), child in zip(pairs, children, strict=True)]), aux

    def flattened(self, x: Any) -> Any:
        return self.flatten(x)

    def unflattened(self, aux: Any, children: Any) -> Any:
        return self.unflatten(aux, children)


def _is_users(filename: str) -> bool:
    if filename.startswith(foreign_folders()):
        return False
    return errors.is_user_file(filename)


def computes_with_jax(module: str | None) -> bool:
    """Whether a module belongs to an installed package built on JAX."""
    top = (module or "").partition(".")[0]
    if not top or top in NEUTRAL or top in sys.stdlib_module_names or MINIJAX.owns(top) or "jax" not in sys.modules:
        return False
    if JAX.owns(top):
        return True
    files = [getattr(sys.modules.get(name), "__file__", None) for name in (top, module or "")]
    file = files[0] or files[1]
    if file is None or _is_users(file):
        return False
    return _names_jax(top, sum(name == top or name.startswith(top + ".") for name in list(sys.modules)))


@functools.lru_cache(256)
def _names_jax(top: str, count: int) -> bool:
    """Whether a loaded module of package ``top`` has imported a module of JAX. ``count``: how many are loaded."""
    loaded = [module for name, module in list(sys.modules.items()) if name == top or name.startswith(top + ".")]
    return any(
        isinstance(value, types.ModuleType) and JAX.owns(getattr(value, "__name__", ""))
        for module in loaded
        if module is not None
        for value in list(vars(module).values())
    )


def called(x: Any) -> str:
    """The name of ``x`` with its package: ``optax.adam``."""
    public = JAX.name_of(x)
    if public:
        return public
    if isinstance(x, types.MethodType) and not isinstance(x.__self__, type):
        return f"{type(x.__self__).__qualname__}.{x.__name__}"
    name = getattr(x, "__qualname__", "") or getattr(x, "__name__", "")
    top = (getattr(x, "__module__", None) or "").partition(".")[0]
    if not name:
        return f"a {type(x).__qualname__} of {type(x).__module__.partition('.')[0]}"
    name = name.replace(".<locals>", "")
    return name if top in ("", "__main__", "builtins") else f"{top}.{name}"


class Carrier:
    """Carries values from one library to the other; an instance carries each object once.

    Args:
      source, target: the libraries.
      helpers: minijax files whose functions work for both libraries, such as wrappers that a command adds. The
        functions that flatten pytree classes are always among these.
      whole: import all functions of the program whole, by ``from_jax``, instead of copying them.
      home: restore originals that came from the target, and leave objects without a counterpart unchanged.
      values: carry arrays too.

    Attributes:
      failed: names that a copied function lacks -> the reason.
      kept: names of called functions that were imported whole -> the reason; '' for library code.
      fixed: whether no copied object can be mutated by the user.
    """

    def __init__(
        self,
        source: Library,
        target: Library,
        helpers: Iterable[str] = (),
        whole: bool = False,
        home: bool = False,
        values: bool = True,
    ) -> None:
        self.source, self.target = source, target
        self.whole, self.home, self.values = whole, home, values
        self.failed: dict[str, str] = {}
        self.kept: dict[str, str] = {}
        self.fixed = True
        # the names and cells that copied functions read: (globals or cell, name, value)
        self._read: list[tuple[Any, str, Any]] = []
        # copied containers and objects: the copy, the original, key -> (the original's part, the copy's part)
        self._copies: list[tuple[Any, Any, dict[Any, tuple[Any, Any]]]] = []
        # global names that copied functions assign: the copy's globals, the user's, the name, the old value
        self._stored: list[tuple[dict[str, Any], dict[str, Any], str, Any]] = []
        self._helpers = {pytree_nodes.__file__, *helpers}
        self._root = importlib.import_module(target.package)
        # id -> (the copy, the original, kept alive so that its id stays unique)
        self._done: dict[int, tuple[Any, Any]] = {}
        self._globals: dict[int, dict[str, Any]] = {}
        self._public = source.public()

    @property
    def imports(self) -> bool:
        """Whether functions of third parties can be imported whole: only if the target is minijax."""
        return self.target is MINIJAX

    def __call__(self, x: Any) -> Any:
        """Carry ``x`` to the target. Raises Unmapped."""
        if x is None or isinstance(x, _PLAIN):
            return x
        if id(x) not in self._done:
            try:
                made = self._carried(x)
            except Unmapped:
                if not self.home:
                    raise
                made = x
            self._done[id(x)] = (made, x)
        return self._done[id(x)][0]

    @property
    def holds(self) -> bool:
        """Whether the carried functions are still valid: all values that they read are unchanged."""
        return self.fixed and all(_at(place, name) is value for place, name, value in self._read)

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Carry arguments. Mutable arguments do not change ``fixed``, which is about functions."""
        fixed = self.fixed
        given: tuple[tuple[Any, ...], dict[str, Any]] = self(args), self(kwargs)
        self.fixed = fixed
        return given

    def forget_values(self) -> None:
        """Drop all copies except functions and modules."""
        kept = (types.FunctionType, types.ModuleType)
        self._done = {
            key: pair for key, pair in self._done.items() if isinstance(pair[1], kept) or hasattr(pair[1], "_jit_info")
        }
        self._copies = []

    def settle(self) -> None:
        """Write the program's changes to copies, except tracers, back to the user's objects and names."""
        home = Carrier(self.target, self.source, self._helpers, home=True)
        for scope, names, name, was in self._stored:
            if scope.get(name, was) is not was and not self.target.is_tracer(scope[name]):
                names[name] = home(scope[name])
        for made, original, parts in self._copies:
            if isinstance(made, list):
                known = {id(now): was for was, now in parts.values()}
                if len(made) != len(parts) or any(parts[i][1] is not x for i, x in enumerate(made)):
                    values = [x for x in made if not self.target.is_tracer(x)]
                    original[:] = [known[id(x)] if id(x) in known else home(x) for x in values]
                continue
            made, original = (made, original) if isinstance(made, dict) else (vars(made), vars(original))
            for name in parts.keys() - made.keys():
                original.pop(name, None)
            for name, now in made.items():
                if (name not in parts or parts[name][1] is not now) and not self.target.is_tracer(now):
                    original[name] = home(now)

    def _note_copy(self, made: Any, original: Any, parts: dict[Any, tuple[Any, Any]]) -> Any:
        """Record ``made`` as the copy of a mutable object."""
        self.fixed = False
        self._copies.append((made, original, parts))
        return made

    def function(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Carry ``fun``, which will be called; an object of a third party's class is imported whole."""
        if self.imports and self.whole and is_third_partys(type(fun)):
            return self.whole_function(fun)
        return self(fun)  # type: ignore[no-any-return]

    def _keep(self, x: Any, made: Any) -> Any:
        self._done[id(x)] = (made, x)
        return made

    def _carried(self, x: Any) -> Any:
        if type(x) is Foreign:
            return x.__dict__["carried from"][0]
        if isinstance(x, (types.FunctionType, type, types.ModuleType)) and x in originals:
            x = originals[x]
            if self.home or not isinstance(x, (types.FunctionType, type, types.ModuleType)):
                return x
        if isinstance(x, types.FunctionType) and x.__code__.co_filename in self._helpers:
            return self._copied(x)
        if isinstance(x, types.ModuleType):
            return self._module(x)
        if id(x) in self._public:
            return self._named(x, self._public[id(x)])
        if self.source.is_tracer(x):
            if not self.values:
                return x
            raise Unmapped(
                f"a tracer of type {x.aval.str_short()}: a transformation of {self.source.package} is active"
            )
        if self.source.is_array(x) and not self.values:
            return x
        if isinstance(x, Primitive) and self.source is MINIJAX:
            return self._primitive(x)
        part = self.source.part(x)
        if part is not None:
            return self._made(x, part)
        for kind, carry in self._kinds():
            if isinstance(x, kind):
                return carry(x)
        return self._object(x)

    def _kinds(self) -> tuple[tuple[Any, Callable[[Any], Any]], ...]:
        return (
            ((list, tuple, set, frozenset), self._sequence),
            (dict, self._dict),
            (functools.partial, self._partial),
            (types.FunctionType, self._function),
            (types.MethodType, self._method),
            (staticmethod, lambda f: staticmethod(self(f.__func__))),
            (classmethod, lambda f: classmethod(self(f.__func__))),
            (property, lambda p: property(*(self(f) for f in (p.fget, p.fset, p.fdel)))),
            (enum.Enum, self._member),
            (type, self._class),
        )

    def _named(self, x: Any, names: list[tuple[str, str]]) -> Any:
        for module, name in names:
            try:
                found = operator.attrgetter(name)(importlib.import_module(self.target.package + module))
            except (ImportError, AttributeError):
                continue
            is_borrowed = isinstance(found, types.FunctionType) and hasattr(found, "borrowed_from")
            return self.whole_function(x, imported=found) if is_borrowed else found
        if self.imports and callable(x) and not isinstance(x, type):
            return self.whole_function(x)
        module, name = names[0]
        theirs = self.target.package + module
        raise Unmapped(f"{self.source.package}{module}.{name}: {theirs} has no such name")

    def _module(self, module: types.ModuleType) -> Any:
        name = module.__name__
        if self.source.owns(name):
            # an internal module of the library has no counterpart, but some objects in it may have one
            return _CarriedModule(module, self)
        file = getattr(module, "__file__", None)
        if file is None:
            return module
        if _is_users(file) or (self.imports and computes_with_jax(name)):
            return _CarriedModule(module, self)
        return module

    def _made(self, x: Any, part: LibraryPart) -> Any:
        if isinstance(part, ValuePart):
            return part.value
        if isinstance(part, CallPart):
            return self._call(x, part)
        assert isinstance(part, CustomPart), part
        return self._custom(x, part)

    def _call(self, x: Any, part: CallPart) -> Any:
        """Call the target's public function of the same name, with the carried inner function and the same options."""
        if self.imports and not self._is_program(part.fun):
            return self.whole_function(x)
        make = operator.attrgetter(part.name)
        try:
            made = make(self._root)
        except AttributeError:
            made = None
        if self.imports and (made is None or hasattr(made, "borrowed_from")):
            return self.whole_function(x)
        if made is None:
            raise Unmapped(
                f"{part.name}({getattr(part.fun, '__name__', part.fun)}): a function of {self.source.package} without "
                f"a counterpart in {self.target.package}"
            )
        options = {name: self(value) for name, value in part.options.items()}
        return made(self.function(part.fun), **options)

    def _is_program(self, fun: Any) -> bool:
        """Whether a function that JAX made holds a function of the user's program; if not, it is imported whole."""
        while isinstance(fun, functools.partial):
            fun = fun.func
        if isinstance(fun, types.MethodType):
            fun = fun.__func__
        if isinstance(fun, types.FunctionType):
            if not computes_with_jax(fun.__globals__.get("__name__")):
                return True
            part = self.source.part(fun)
            return isinstance(part, CallPart) and self._is_program(part.fun)
        part = self.source.part(fun)
        if isinstance(part, (CallPart, CustomPart)):
            return self._is_program(part.fun)
        return not computes_with_jax(type(fun).__module__)

    def _custom(self, x: Any, part: CustomPart) -> Any:
        if self.imports and not self._is_program(part.fun):
            return self.whole_function(x)
        transformation = getattr(self._root, part.name)
        made = self._keep(x, transformation(self.function(part.fun), nondiff_argnums=part.nondiff_argnums))
        self.fixed = False  # its rules may be redefined
        if part.define:
            getattr(made, part.define)(*map(self, part.rules), **part.options)
        return made

    def _primitive(self, p: Primitive) -> Any:
        """Carry an author's primitive of minijax with its rules; both libraries use the same conventions."""
        check_authors(p)

        def module(name: str) -> Any:
            return importlib.import_module(f"{self.target.package}.{name}")

        made = self._keep(p, module("extend.core").Primitive(p.name))
        made.multiple_results = p.multiple_results
        if p in impl_rules:
            made.def_impl(self(impl_rules[p]))
        if p in abstract_rules:
            made.def_abstract_eval(self(abstract_rules[p]))
        for ours, name in ((ad, "primitive_jvps"), (ad, "primitive_transposes"), (batching, "primitive_batchers")):
            if p in (table := getattr(ours, name)):
                getattr(module(f"interpreters.{ours.__name__.rpartition('.')[2]}"), name)[made] = self(table[p])
        lowering = lowering_rules.get(p)
        if isinstance(lowering, AuthorsRule):
            register = module("interpreters.mlir").register_lowering
            if lowering.default is not None:
                register(made, self(lowering.default))
            for platform, rule in lowering.by_platform.items():
                register(made, self(rule), platform=platform)
        return made

    def whole_function(self, x: Callable[..., Any], why: str = "", imported: Any = None) -> Callable[..., Any]:
        """Import a function whole, at each of its calls. ``imported``: the minijax function, if it exists already."""
        imported = from_jax(x) if imported is None else imported

        def borrowed(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            self.kept.setdefault(called(x), why)
            args, kwargs = self._back(args), self._back(kwargs)
            return self._results(imported(*args, **kwargs))

        functools.update_wrapper(borrowed, x, updated=())
        originals[borrowed] = x
        return borrowed

    @functools.cached_property
    def _results(self) -> Carrier:
        """The carrier for results of JAX's functions: it imports functions in these results whole too."""
        if self.whole:
            return self
        made = Carrier(self.source, self.target, self._helpers, whole=True)
        made.kept = self.kept
        return made

    @functools.cached_property
    def _back(self) -> Carrier:
        """The carrier that restores the user's own functions and objects for JAX's functions; arrays stay unchanged."""
        return Carrier(self.target, self.source, self._helpers, home=True, values=False)

    def _sequence(self, x: Any) -> Any:
        items = [self(item) for item in x]
        cls = type(x)
        if hasattr(cls, "_fields"):
            made = self(cls)
            same = made is cls and all(map(operator.is_, items, x))
            return x if same else made(*items)
        if cls not in (list, tuple, set, frozenset):
            return self._object(x)
        self.fixed = self.fixed and cls in (tuple, frozenset)
        if all(map(operator.is_, items, x)):
            return x
        made = cls(items)
        return self._note_copy(made, x, dict(enumerate(zip(x, items, strict=True)))) if cls is list else made

    def _dict(self, x: dict[Any, Any]) -> Any:
        if type(x) is not dict:
            return self._object(x)
        self.fixed = False
        made = self._keep(x, {})
        made.update((self(key), self(value)) for key, value in x.items())
        if len(made) == len(x) and all(made[key] is value for key, value in x.items() if key in made):
            return x
        return self._note_copy(made, x, {key: (x.get(key), value) for key, value in made.items()})

    def _member(self, x: enum.Enum) -> Any:
        cls = self(type(x))
        return x if cls is type(x) else cls[x.name]

    def _object(self, x: Any) -> Any:
        cls = type(x)
        if self.source.owns(cls.__module__) and id(cls) not in self._public:
            if self.imports and callable(x):
                return self.whole_function(x)
            raise Unmapped(
                f"{getattr(x, '__name__', '') or cls.__qualname__}: {self.target.package} has no counterpart"
            )
        if self.imports and is_third_partys(cls):
            if hasattr(x, "__wrapped__") and callable(x):
                return self.whole_function(x)
            if self.source.node(cls) is None:
                return Foreign(x, self)
            if self.whole:
                return self._node(x, cls)
        carried = self(cls)
        if carried is cls and not self.imports and JAX.node(cls) is not None and is_third_partys(cls):
            return self._node(x, cls)  # its arrays may be in objects that only the class itself can open
        if not hasattr(x, "__dict__"):
            return x
        self.fixed = False
        values = {name: self(value) for name, value in vars(x).items()}
        if carried is cls and all(values[name] is value for name, value in vars(x).items()):
            return x
        try:
            made = object.__new__(carried)
        except TypeError:  # an object from C, such as NumPy's functions, which accept JAX's arrays
            return x
        made.__dict__.update(values)
        return self._note_copy(made, x, {name: (vars(x)[name], value) for name, value in values.items()})

    def _node(self, x: Any, cls: type) -> Any:
        """Carry the arrays in an instance of a third party's pytree class."""
        children, structure = jax_flatten(x)
        return jax_unflatten(structure, [self(child) for child in children])

    def _method(self, method: types.MethodType) -> Any:
        owner = method.__self__
        if self.source.is_array(owner):
            return getattr(self(owner), method.__func__.__name__.lstrip("_"))
        if self.imports and not isinstance(owner, type) and is_third_partys(type(owner)):
            return self.whole_function(method)
        return types.MethodType(self(method.__func__), self(owner))

    def _partial(self, fun: functools.partial[Any]) -> Any:
        keywords = {name: self(value) for name, value in fun.keywords.items()}
        return self(type(fun))(self(fun.func), *map(self, fun.args), **keywords)

    def _function(self, fun: types.FunctionType) -> Any:
        code = fun.__code__
        home = fun.__globals__.get("__name__")
        if self.source.owns(home) and not self.imports:
            ours, theirs = self.source.package, self.target.package
            raise Unmapped(f"{fun.__qualname__}: a function of {ours} without a counterpart in {theirs}")
        if self.imports and (self.whole or computes_with_jax(home)):
            return self.whole_function(fun)
        if not _is_users(code.co_filename) or (self.home and not _is_carried_scope(fun.__globals__)):
            return fun
        if self.imports and not jax_use(fun) and "__class__" not in code.co_freevars:  # super() needs the copied class
            return fun
        return self._copied(fun)

    def _copied(self, fun: types.FunctionType) -> Any:
        code = fun.__code__
        cells = tuple(types.CellType() for _ in code.co_freevars)
        scope = self._scope(fun)
        made = self._keep(fun, types.FunctionType(code, scope, fun.__name__, None, cells))
        originals[made] = fun
        reason = ""
        for name in _names(code):
            self._read.append((fun.__globals__, name, fun.__globals__.get(name, _NOTHING)))
            if name in fun.__globals__ and name not in scope:
                try:
                    scope[name] = self(fun.__globals__[name])
                except Unmapped as error:
                    self.failed[name] = str(error)
            if name in self.failed and name not in scope:
                reason = reason or f"it names {name}: {self.failed[name]}"
        if self.imports:
            reason = reason or self._unmapped_path(fun)
            if reason:
                return self.whole_function(fun, reason)
        for cell, old in zip(cells, fun.__closure__ or (), strict=True):
            try:
                content = old.cell_contents
            except ValueError:  # the cell is empty
                continue
            self._read.append((old, "", content))
            try:
                cell.cell_contents = self(content)
            except Unmapped as error:
                if not self.imports:
                    raise
                return self.whole_function(fun, str(error))
        for name in _names(code, "STORE_GLOBAL"):
            self._stored.append((scope, fun.__globals__, name, scope.get(name, _NOTHING)))
            self.fixed = False
        made.__defaults__ = None if fun.__defaults__ is None else tuple(map(self, fun.__defaults__))
        made.__kwdefaults__ = None if fun.__kwdefaults__ is None else dict(self(fun.__kwdefaults__))
        made.__qualname__, made.__doc__, made.__module__ = fun.__qualname__, fun.__doc__, fun.__module__
        return made

    def _unmapped_path(self, fun: types.FunctionType) -> str:
        """Return why a module member that ``fun`` names (``diffrax.ODETerm``) cannot be carried, or '' if all can."""
        for first, *attributes in _paths(fun.__code__):
            value = fun.__globals__.get(first)
            for attribute in attributes:
                if not isinstance(value, types.ModuleType):
                    break
                value = getattr(value, attribute, None)
            try:
                self(value)
            except Unmapped as error:
                return f"it names {first}.{'.'.join(attributes)}: {error}"
        return ""

    def _scope(self, fun: types.FunctionType) -> dict[str, Any]:
        """The globals of a function's copy: one dict for all functions of a module."""
        key = id(fun.__globals__)
        if key not in self._globals:
            own = {name: fun.__globals__.get(name) for name in ("__name__", "__file__", "__package__", "__spec__")}
            own["__builtins__"] = {**vars(builtins), "__import__": self._import}
            self._globals[key] = own
        return self._globals[key]

    def _import(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:  # the signature of __import__
        """``import`` inside a copied function: carry the imported module."""
        return self(builtins.__import__(name, globals, locals, fromlist, level))

    def _class(self, cls: type) -> Any:
        if not is_of_a_statement(cls):
            return cls
        if self.source.owns(cls.__module__):
            if self.imports and hasattr(cls, "_fields"):
                return cls  # a named tuple computes nothing, so minijax can return it as it is
            raise Unmapped(
                f"{cls.__qualname__}: a class of {self.source.package} without a counterpart in {self.target.package}"
            )
        if not self.imports and (self.home or self.target.node(cls) is not None):
            return cls  # the target's own class
        if not _is_users_class(cls):
            if self.imports and computes_with_jax(cls.__module__) and not hasattr(cls, "_fields"):
                raise Unmapped(f"{called(cls)} stays in JAX")
            return cls
        if self.imports:
            if is_third_partys(cls):
                base = next(each for each in (*cls.__mro__, type(cls)) if computes_with_jax(each.__module__))
                raise Unmapped(f"{cls.__qualname__} is a class that {called(base)} makes, which stays in JAX")
            if not any(jax_use(base) for base in cls.__mro__):
                return cls
        if type(cls) not in (type, abc.ABCMeta) or ("__slots__" in vars(cls) and not hasattr(cls, "_fields")):
            if not self.imports:
                return cls
            raise Unmapped(f"{cls.__qualname__}: a class with slots or a metaclass is not copied")
        return self._copied_class(cls)

    def _copied_class(self, cls: type) -> Any:
        self.fixed = False
        bases = tuple(map(self, cls.__bases__))
        known = self.target.copies.get(cls)
        made = self._keep(cls, _empty(cls, bases) if known is None else known.cls)
        originals[made] = cls
        if known is not None:  # reuse the copy from an earlier program, with its names refreshed
            if made.__bases__ != bases:
                made.__bases__ = bases
            for name in [name for name in vars(made) if name not in _KEPT]:
                delattr(made, name)
        for name, value in vars(cls).items():
            if name not in _KEPT:
                setattr(made, name, self(value) if callable(value) or hasattr(value, "__get__") else value)
        node = self.source.node(cls)
        if node is not None:
            if known is None:
                known = self.target.copies[cls] = _Copy(cls, made)
                keyed = (known.flattened_with_keys,) if self.source is JAX else ()
                self._root.tree_util.register_pytree_node(made, known.flattened, known.unflattened, *keyed)
            known.flatten, known.unflatten = self._taken_apart(cls, made, node)
        return made

    def _taken_apart(self, cls: type, made: type, node: Node) -> tuple[Any, Any]:
        """``flatten`` and ``unflatten`` for ``made``, the copy of the pytree class ``cls``."""
        if self.source is not JAX:
            return self(node[0]), self(node[1])
        if hasattr(made, "tree_flatten") and hasattr(made, "tree_unflatten"):
            return made.tree_flatten, made.tree_unflatten

        def flatten(x: Any) -> Any:
            return node[0](_as_instance(x, cls))

        def unflatten(aux: Any, children: Any) -> Any:
            return _as_instance(node[1](aux, children), made)

        return flatten, unflatten


def _empty(cls: type, bases: tuple[type, ...]) -> Any:
    body = {"__slots__": ()} if hasattr(cls, "_fields") else {}
    return type(cls)(cls.__name__, bases, {**body, "__module__": cls.__module__})


def _as_instance(x: Any, cls: type) -> Any:
    made: Any = object.__new__(cls)
    made.__dict__.update(vars(x))
    return made


def _is_users_class(cls: type) -> bool:
    """Whether a class is the user's; a class typed at a prompt has no file."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if not is_of_a_statement(cls):
        return False
    return file is None or _is_users(file)


def _is_carried_scope(scope: dict[str, Any]) -> bool:
    """Whether ``scope`` is the globals of a copied function, or of a function defined in a copied one."""
    names = scope.get("__builtins__")
    return isinstance(names, dict) and isinstance(getattr(names.get("__import__"), "__self__", None), Carrier)


class Foreign:
    """Stands for an object of a third party that computes with JAX. Calls of it and of its methods are imported."""

    def __init__(self, original: Any, carry: Carrier) -> None:
        self.__dict__["carried from"] = original, carry

    def __getattr__(self, name: str) -> Any:
        original, carry = self.__dict__["carried from"]
        return carry(getattr(original, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        original, carry = self.__dict__["carried from"]
        if "called" not in self.__dict__:
            self.__dict__["called"] = carry.whole_function(original)
        return self.__dict__["called"](*args, **kwargs)


class _CarriedModule(types.ModuleType):
    """A module that carries its attributes when they are read."""

    def __init__(self, module: types.ModuleType, carry: Carrier) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__["carried from"] = module, carry
        originals[self] = module

    def __getattr__(self, name: str) -> Any:
        module, carry = self.__dict__["carried from"]
        return carry(getattr(module, name))


def _paths(code: types.CodeType) -> list[tuple[str, ...]]:
    """The dotted global names (``a.b`` as a tuple) that a function and its nested functions read."""
    out: list[list[str]] = []
    is_open = False
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            out.append([instruction.argval])
            is_open = True
        elif is_open and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            out[-1].append(instruction.argval)
        else:
            is_open = False
    found = [tuple(path) for path in out if len(path) > 1]
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found += _paths(const)
    return list(dict.fromkeys(found))


def _at(place: Any, name: str) -> Any:
    """The value of a name in a dict, or the content of a cell; ``_NOTHING`` if there is none."""
    if isinstance(place, dict):
        return place.get(name, _NOTHING)
    try:
        return place.cell_contents
    except ValueError:  # the cell has been emptied
        return _NOTHING


def _names(code: types.CodeType, *does: str) -> list[str]:
    """The global names used by instructions of the kinds ``does`` (by default, loads), also in nested functions."""
    kinds_of = does or ("LOAD_GLOBAL", "LOAD_NAME")
    out = [i.argval for i in dis.get_instructions(code) if i.opname in kinds_of]
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            out += _names(const, *does)
    return list(dict.fromkeys(out))
