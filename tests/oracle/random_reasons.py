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
BROKEN = "minijax refuses an argument; JAX does not check it and fails in its own code"
# Each row: a pattern of function names, a pattern of the call with its difference, and the reason.
REASONS: tuple[tuple[str, str, str], ...] = (
    (
        r"numpy\.swapaxes",
        r"minijax (alone )?raises TypeError: \"'(NoneType|tuple)' object cannot be interpreted as an integer\"",
        "an axis must be an integer, as in all other functions; JAX passes any axis to NumPy as an index",
    ),
    (
        r"lax\.reduce_(and|or|xor|min|max|sum|prod)",
        r"minijax raises (ValueError: 'reduction|TypeError: 'logical).* JAX (Index|ValueError: '\d is not in list)",
        "minijax raises JAX's ValueError for axes out of bounds; some reductions of JAX use an axis before its check",
    ),
    (
        r"numpy\.take\w*",
        r"JAX alone raises ValueError: .Non-hashable static arguments",
        "a fill value that is an array: JAX accepts only a hashable value",
    ),
    (
        r"(numpy|lax)\.arg(max|min)",
        r"minijax (alone )?raises TypeError: 'argmin and argmax do not accept dtype complex",
        "complex numbers have no order: minijax refuses them when it stages the program, JAX when it lowers it",
    ),
    (
        r"lax\.betainc",
        r"minijax alone raises TypeError: 'regularized_incomplete_beta: arrays must have the same number of",
        "minijax refuses operands of different ranks under vmap too; JAX checks them only without vmap",
    ),
    (
        r"lax\.pad",
        r"minijax raises ValueError: 'not enough values to unpack .* JAX TypeError: 'As of JAX v0\.7",
        "both refuse a padding that is an array without columns, JAX because it cannot be hashed",
    ),
    (
        r"numpy\.full_like",
        r"JAX alone raises TypeError: .(int|float)\(\) argument must be a string.*, not 'complex'",
        "a complex fill value loses its imaginary part; JAX raises an error if the dtype is a Python class",
    ),
    (
        r".*",
        r"minijax raises TypeError: .\w+ requires ndarray or scalar arguments, got <class 'list'>.* JAX ValueError",
        "minijax refuses a list before it looks at the list's shape",
    ),
    (
        r"random\.categorical",
        r"minijax raises TypeError: .'<=' not supported .* JAX (IndexError|ValueError: 'dtype argument)",
        "an axis must be an integer, as in other functions; JAX indexes a shape with the axis, or checks dtypes first",
    ),
    (
        r"lax\.slice\w*",
        r"minijax (alone )?raises TypeError: 'slice (limit_indices must have the same|start_indices must have) length",
        "indices of different lengths are refused in calls, in derivatives and under vmap",
    ),
    (
        r"lax\.random_gamma_grad",
        r"JAX (alone raises )?(AttributeError|TypeError: '(broadcast_in_dim|lax\.gt requires arguments))",
        "minijax accepts numbers, and broadcasts arrays of all types; JAX does so only in some cases",
    ),
    (
        r"numpy\.full\w*",
        r"shape must have every element be nonnegative.* JAX ValueError: '(Incompatible types|Cannot broadcast)",
        "minijax refuses a negative size first; JAX's message is that the fill value does not broadcast",
    ),
    (
        r".*",
        r"minijax raises (Concretization|Tracer)\w*Error.* JAX TypeError: .*(concrete value|integer scalar|as a JAX v)",
        "for a traced value minijax raises a subclass of TypeError; some functions of JAX raise TypeError itself",
    ),
    (
        r".*",
        r"minijax raises TypeError: .*(Value \[|list).* JAX ValueError: 'jax.lax.dot|JAX TracerArrayConversionError",
        "a list among the operands: JAX's jit flattens the list before the function can check for arrays",
    ),
    (
        r".*",
        r"JAX NotImplementedError: .(Differentiation rule|Batching rule|ragged_dot vmap|Derivatives of)",
        "JAX traces a borrowed function, and so refuses its operands, before it differentiates or maps the function",
    ),
    (
        r"scipy\.stats\..*",
        r"minijax raises ValueError: '\w+ does not support complex.* JAX TypeError: '\w+ does not accept dtype complex",
        "JAX traces a borrowed function, and so refuses its operands, before it differentiates the function",
    ),
    (
        r"(lax|numpy)\.linalg\.\w+",
        r"minijax (alone )?raises (TypeError: 'Input .*( JAX ValueError: '(symmetric_update|The input to)|must have "
        r"rank at least)|ValueError: 'Argument to symmetric eigendecomposition must have .* JAX TypeError: 'add got)",
        "JAX traces a borrowed function on the unchanged operands, before it is mapped or differentiated",
    ),
    (
        r".*",
        r"minijax raises NotImpl\w+: .Diff\w+ .* '(nextafter|reduce_or|population_count)'.*, JAX (Type|Value)Error",
        "the function has no derivative, and the operands do not fit: JAX stages a jitted function first",
    ),
    (
        r"lax\.cum(max|min|logsumexp|prod|sum)",
        r"minijax (alone )?raises ValueError: 'XLA operations do not allow negative axes",
        "a negative axis is refused in calls, as in JAX, and in derivatives too",
    ),
    (
        r"numpy\.array_equal",
        r"minijax (alone )?raises TypeError: .\w+ requires ndarray or scalar arguments, got <class 'list'>",
        "a list is refused, as in JAX's other functions",
    ),
    (
        r"numpy\.reshape",
        r"minijax raises TypeError: 'cannot reshape array .*, JAX ValueError: .(cannot reshape array of size|order m)",
        "JAX reshapes a known NumPy array by NumPy, and so raises NumPy's error",
    ),
    (
        r"numpy\.linspace",
        r"minijax alone raises IndexError: 'linspace: axis",
        "an axis out of bounds is refused, as in NumPy; JAX slices a tuple at the axis, which accepts it for a scalar",
    ),
    (
        r"numpy\.(atan2|arctan2)",
        r"Not equal to tolerance .*DESIRED",
        "integers beyond the range of the other operand's type are converted to floats; JAX wraps them around first",
    ),
    (
        r"lax\.integer_pow",
        r"minijax alone raises TypeError: .'float' object cannot be interpreted as an integer",
        "a float is no integer exponent; JAX accepts 0., 2. and -1. and fails in its own code at other floats",
    ),
    (
        r"lax\.pad",
        r"minijax raises ValueError: 'padding_value must be a scalar.* JAX TypeError: 'broadcast_in_dim",
        "a padding value with axes is refused; JAX's batching rule does not check the value and broadcasts it",
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
        "minijax accepts an array of one integer, or of one known boolean; JAX accepts only a hashable value",
    ),
    (
        r"lax\.(collapse|index_in_dim)",
        r"JAX (alone raises )?AttributeError: .*has no attribute 'shape'",
        "minijax gives a number a shape; JAX does not",
    ),
    (
        r"lax\.select_n",
        r"JAX alone raises IndexError: 'tuple index out of range'",
        "a select with only one case: JAX's derivative looks for a second one",
    ),
    (
        r".*",
        r"JAX (\w+ when it is run|(MLIR|JaxRuntime|XlaRuntime)Error|ValueError: .Cannot lower jaxpr)",
        "JAX stages the program, and its compiler refuses it; minijax refuses the program when it stages it",
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
