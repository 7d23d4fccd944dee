"""Accepted differences of ``random_calls`` from JAX, one per row: functions, the difference, and the reason."""

from __future__ import annotations

import re

# Errors about traced values: where one library raises one of them, the other may raise another.
UNKNOWN = ("ConcretizationTypeError", "TracerArrayConversionError", "TracerBoolConversionError")
UNKNOWN += ("TracerIntegerConversionError", "NonConcreteBooleanIndexError")
# Errors about unsuitable arguments.
REFUSED = ("TypeError", "ValueError", "AxisError", "LinAlgError", "OverflowError", "IndexError", "ZeroDivisionError")
REFUSED += ("NotImplementedError",)
# Messages from the internals of Python, NumPy or JAX, raised when a function does not check an argument.
BREAKS = re.compile(
    r"object has no attribute|safe_zip|safe_map|(tuple|list|assignment) index out of range|must have __hash__|to unpack"
    r"|is not iterable|not supported between instances|unsized object|unhashable|Non-hashable static arguments"
    r"|(division|modulo) by zero|iteration over a 0-d array|setting an array element"
)
BROKEN = "an argument is refused; JAX does not look at it, and a line of its own breaks"
# functions (a pattern of names), a pattern of the difference, and the reason for it
REASONS: tuple[tuple[str, str, str], ...] = (
    (
        r"numpy\.swapaxes",
        r"minijax (alone )?raises TypeError: \"'(NoneType|tuple)' object cannot be interpreted as an integer\"",
        "an axis that is no integer: TypeError, as of every other function; JAX hands it to NumPy as an index",
    ),
    (
        r"lax\.reduce_(and|or|xor|min|max|sum|prod)",
        r"minijax raises (ValueError: 'reduction|TypeError: 'logical).* JAX (Index|ValueError: '\d is not in list)",
        "axes out of bounds: ValueError, which JAX's own check raises; in some reductions a line before it indexes",
    ),
    (
        r"numpy\.take\w*",
        r"JAX alone raises ValueError: .Non-hashable static arguments",
        "a fill value that is an array: JAX needs its hash",
    ),
    (
        r"(numpy|lax)\.arg(max|min)",
        r"minijax (alone )?raises TypeError: 'argmin and argmax do not accept dtype complex",
        "complex numbers have no order: refused when the program is staged, by JAX when it is lowered",
    ),
    (
        r"numpy\.full_like",
        r"JAX alone raises TypeError: .(int|float)\(\) argument must be a string.*, not 'complex'",
        "a complex fill value loses its imaginary part, as it does in JAX where the type is no class of Python's",
    ),
    (
        r".*",
        r"minijax raises TypeError: .\w+ requires ndarray or scalar arguments, got <class 'list'>.* JAX ValueError",
        "a list is refused before its shape is looked at",
    ),
    (
        r"random\.categorical",
        r"minijax raises TypeError: .'<=' not supported .* JAX (IndexError|ValueError: 'dtype argument)",
        "an axis that is no integer: TypeError, as of other functions; JAX indexes a shape with it or looks at dtypes",
    ),
    (
        r"lax\.slice\w*",
        r"minijax (alone )?raises TypeError: 'slice (limit_indices must have the same|start_indices must have) length",
        "indices of different lengths are refused in derivatives and under vmap as they are in calls",
    ),
    (
        r"lax\.random_gamma_grad",
        r"JAX (alone raises )?(AttributeError|TypeError: '(broadcast_in_dim|lax\.gt requires arguments))",
        "numbers are operands as arrays are, and arrays of all types broadcast; in JAX, some do",
    ),
    (
        r"numpy\.full\w*",
        r"shape must have every element be nonnegative.* JAX ValueError: '(Incompatible types|Cannot broadcast)",
        "a negative size is refused first; JAX says of it that the fill value does not broadcast",
    ),
    (
        r".*",
        r"minijax raises (Concretization|Tracer)\w*Error.* JAX TypeError: .*(concrete value|integer scalar|as a JAX v)",
        "a value that is not known: a class of errors derived from TypeError, which some functions of JAX raise",
    ),
    (
        r".*",
        r"minijax raises TypeError: .*(Value \[|list).* JAX ValueError: 'jax.lax.dot|JAX TracerArrayConversionError",
        "a list among the operands: JAX's jit takes it apart before the function can say that it takes arrays",
    ),
    (
        r".*",
        r"JAX NotImplementedError: .(Differentiation rule|Batching rule|ragged_dot vmap|Derivatives of)",
        "a borrowed function is traced by JAX before it is differentiated or mapped: its operands are refused first",
    ),
    (
        r"scipy\.stats\..*",
        r"minijax raises ValueError: '\w+ does not support complex.* JAX TypeError: '\w+ does not accept dtype complex",
        "a borrowed function is traced by JAX before it is differentiated: its operands are refused first",
    ),
    (
        r"(lax|numpy)\.linalg\.\w+",
        r"minijax (alone )?raises (TypeError: 'Input .*( JAX ValueError: '(symmetric_update|The input to)|must have "
        r"rank at least)|ValueError: 'Argument to symmetric eigendecomposition must have .* JAX TypeError: 'add got)",
        "a borrowed function is traced by JAX before it is mapped or differentiated, at the operands as they are",
    ),
    (
        r".*",
        r"minijax raises NotImpl\w+: .Diff\w+ .* '(nextafter|reduce_or|population_count)'.*, JAX (Type|Value)Error",
        "differentiated, though it has no derivative, at operands that do not fit: JAX stages what is a jit before",
    ),
    (
        r"lax\.cum(max|min|logsumexp|prod|sum)",
        r"minijax (alone )?raises ValueError: 'XLA operations do not allow negative axes",
        "a negative axis is refused in derivatives too, as JAX refuses it in calls",
    ),
    (
        r"numpy\.array_equal",
        r"minijax (alone )?raises TypeError: .\w+ requires ndarray or scalar arguments, got <class 'list'>",
        "a list is refused, as JAX refuses it in its other functions",
    ),
    (
        r"numpy\.reshape",
        r"minijax raises TypeError: 'cannot reshape array .*, JAX ValueError: .(cannot reshape array of size|order m)",
        "JAX has NumPy reshape an array of NumPy's that is known, and so raises what NumPy does",
    ),
    (
        r"numpy\.linspace",
        r"minijax alone raises IndexError: 'linspace: axis",
        "an axis out of bounds is refused, as in NumPy; JAX cuts a tuple there, which goes well for one number",
    ),
    (
        r"numpy\.(atan2|arctan2)",
        r"Not equal to tolerance .*DESIRED",
        "integers beyond the other operand's type are converted to floats as they are; JAX takes them modulo its range",
    ),
    (
        r"lax\.integer_pow",
        r"minijax alone raises TypeError: .'float' object cannot be interpreted as an integer",
        "a float is no integer exponent; JAX accepts 0., 2. and -1. and breaks in a line of its own at other floats",
    ),
    (
        r"lax\.pad",
        r"minijax raises ValueError: 'padding_value must be a scalar.* JAX TypeError: 'broadcast_in_dim",
        "a padding value with axes is refused; the batching rule of JAX does not look at it and broadcasts it",
    ),
    (
        r"lax\.reshape",
        r"minijax raises TypeError: 'reshape total size must be unchanged",
        "a wrong size is refused at once; JAX refuses it when it compiles, or the next function refuses the result",
    ),
    (
        r"numpy\.linspace",
        r"minijax raises ValueError: 'Incompatible shapes.* JAX TypeError: .linspace requires ndarray",
        "both the shapes and a list are wrong: minijax names the shapes, and JAX names the list",
    ),
    (
        r"random\.categorical",
        r"minijax raises ValueError: 'k argument to top_k must be nonneg.* JAX TypeError: 'Only non-negative indices",
        "a negative size is refused; minijax and JAX find it in different functions",
    ),
    (
        r"lax\.integer_pow",
        r"JAX alone raises (ValueError: .Non-hashable static|TypeError: .(unhashable type|As of JAX v0.7, parameters))",
        "an array of one integer is an integer, a known one of one truth value is that: JAX needs its hash",
    ),
    (
        r"lax\.(collapse|index_in_dim)",
        r"JAX (alone raises )?AttributeError: .*has no attribute 'shape'",
        "a number has a shape",
    ),
    (
        r"lax\.select_n",
        r"JAX alone raises IndexError: 'tuple index out of range'",
        "of one case that is chosen, without another: JAX's derivative looks for a second one",
    ),
    (
        r".*",
        r"JAX (\w+ when it is run|(MLIR|JaxRuntime|XlaRuntime)Error|ValueError: .Cannot lower jaxpr)",
        "JAX stages the program, and its compiler refuses it; here it is refused when it is staged",
    ),
    (
        r".*",
        rf"minijax raises ({'|'.join(REFUSED + UNKNOWN)}): (?!.*({BREAKS.pattern}).*, JAX )"
        rf".*, JAX (AssertionError|\w+: .*({BREAKS.pattern}))",
        BROKEN,
    ),
)


def reason(name: str, text: str, diff: str) -> str:
    """The reason for a difference of this function and text; '' if there is none."""
    whole = f"{text}: {diff}"
    return next((why for whose, how, why in REASONS if re.fullmatch(whose, name) and re.search(how, whole)), "")
