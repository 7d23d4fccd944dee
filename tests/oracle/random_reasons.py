"""Why calls may differ from JAX's: of ``random_calls``, functions, what differs, and the reason, one a row."""

from __future__ import annotations

import re

# One of them is raised where the other library says the other: all are about a value that is not known.
UNKNOWN = ("ConcretizationTypeError", "TracerArrayConversionError", "TracerBoolConversionError")
UNKNOWN += ("TracerIntegerConversionError", "NonConcreteBooleanIndexError")
# An argument that is refused, in one of these ways.
REFUSED = ("TypeError", "ValueError", "AxisError", "LinAlgError", "OverflowError", "IndexError", "ZeroDivisionError")
REFUSED += ("NotImplementedError",)
# What Python, NumPy or JAX's machinery says where a function does not look at an argument, and a line of it breaks.
BREAKS = re.compile(
    r"object has no attribute|safe_zip|safe_map|(tuple|list|assignment) index out of range|must have __hash__|to unpack"
    r"|is not iterable|not supported between instances|unsized object|unhashable|Non-hashable static arguments"
    r"|(division|modulo) by zero|iteration over a 0-d array|setting an array element"
)
BROKEN = "an argument is refused; JAX does not look at it, and a line of its own breaks"
# functions (a pattern of names), a pattern of what differs, and why programs of theirs may differ in this way
REASONS: tuple[tuple[str, str, str], ...] = (
    (
        r"numpy\.(swapaxes|packbits|unpackbits)",
        r"minijax (alone )?raises TypeError: \"'(NoneType|tuple)' object cannot be interpreted as an integer\"",
        "an axis that is no integer: TypeError, as of every other function; JAX hands it to NumPy as an index",
    ),
    (
        r"lax\.reduce_(and|or|xor|min|max|sum|prod)",
        r"minijax raises (ValueError: 'reduction|TypeError: 'logical).* JAX (Index|ValueError: '\d is not in list)",
        "axes out of bounds: ValueError, which JAX's own check raises; in some reductions a line before it indexes",
    ),
    (
        r"numpy\.(setdiff1d|setxor1d|intersect1d|union1d|unique\w*)",
        r"JAX (alone raises )?(IndexError: 'index is out of bounds|ValueError: 'zero-size array to reduction)",
        "of nothing, or in size 0, there is nothing: JAX looks for an element to fill up with before it knows",
    ),
    (
        r"numpy\.(setdiff1d|setxor1d|intersect1d)",
        r"JAX (alone raises )?ValueError: '(Cannot broadcast|Incompatible .*\(0,\))|'\w+\[0\]'\], JAX's are \['",
        "what a result of size 0 is filled with counts for nothing, as where no element is missing",
    ),
    (
        r"numpy\.(unique\w*|intersect1d|union1d|setdiff1d|setxor1d)",
        r"^(grad|jvp) .*Not equal to tolerance",
        "distinct elements are elements, and so depend on the array; JAX's derivative of them is 0",
    ),
    (
        r"numpy\.(histogram\w*)",
        r"JAX alone raises ValueError: 'zero-size array to reduction",
        "the range of no elements is 0 to 1, as in NumPy; JAX means to do that and takes their minimum first",
    ),
    (
        r"numpy\.(intersect1d|union1d|setdiff1d|setxor1d|take\w*)",
        r"JAX alone raises ValueError: .Non-hashable static arguments",
        "a fill value that is an array: JAX needs its hash",
    ),
    (
        r"random\.f",
        r"JAX alone raises TypeError: 'div: arrays must have the same number of dimensions",
        "degrees of freedom of fewer dimensions than the samples broadcast, as JAX's page says of them too",
    ),
    (
        r"numpy\.vander",
        r"JAX alone raises OverflowError",
        "a matrix without columns of unsigned integers: JAX counts the powers down to -1",
    ),
    (
        r"numpy\.polymul",
        r"JAX alone raises ValueError: 'convolve",
        "coefficients that there are none of are those of 0, whatever their shape",
    ),
    (
        r"numpy\.polyfit",
        r"JAX alone raises ValueError: .data type .* not inexact",
        "points of integers are fitted, as in NumPy; JAX asks for the rounding error of integers",
    ),
    (
        r"numpy\.repeat",
        r"minijax alone raises ValueError: 'axis",
        "JAX does not look at the axis of a scalar; NumPy refuses it",
    ),
    (
        r"numpy\.fft\.irfftn",
        r"the results are \['complex.*, JAX's are \['complex",
        "along no axis nothing is transformed; JAX cuts the last one as if it were half a spectrum",
    ),
    (
        r"numpy\.(nan)?arg(max|min)|lax\.arg(max|min)",
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
        r"minijax raises TypeError: .'<=' not supported .* JAX IndexError",
        "an axis that is no integer: TypeError, as of other functions; JAX indexes a shape with it",
    ),
    (
        r"numpy\.nan(std|var)",
        r"JAX alone raises TypeError: 'sub: arrays must have the same number of dimensions",
        "a mean of more dimensions than the array is refused in a call; where the array is mapped, it is broadcast",
    ),
    (
        r"lax\.slice\w*",
        r"minijax (alone )?raises TypeError: 'slice (limit_indices must have the same|start_indices must have) length",
        "indices of different lengths are refused in derivatives and under vmap as they are in calls",
    ),
    (
        r"random\.beta",
        r"minijax raises (ValueError: 'Incompatible shapes|TypeError: 'Sizes must not be neg).* JAX TypePromotionError",
        "parameters that neither broadcast nor convert: shapes come first, as in JAX's other distributions",
    ),
    (
        r"random\.orthogonal",
        r"minijax raises ValueError: 'orthogonal: matrices have no negative dimensions.* JAX TypeError",
        "matrices of negative sizes: ValueError, which JAX raises unless a negative number of them is asked for",
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
        r"numpy\.(choose|compress|extract|place|ravel_multi_index|delete|trim_zeros|repeat)|ops\.segment_\w+",
        r"JAX (alone raises )?(Concretization|Tracer|NonConcreteBooleanIndex)\w*Error",
        "constants of a staged program are known here, also in functions that are calls of their own",
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
        r"lax\.(ragged_dot\w*|scaled_dot)|lax\.linalg\.\w+",
        r"JAX NotImplementedError: .(Differentiation rule|Batching rule|ragged_dot vmap)",
        "a borrowed function is traced by JAX before it is differentiated or mapped: its operands are refused first",
    ),
    (
        r"lax\.linalg\.\w+",
        r"minijax (alone )?raises TypeError: 'Input .*( JAX ValueError: 'symmetric_update|must have rank at least)",
        "a borrowed function is traced by JAX before it is mapped, of the operands as they are",
    ),
    (
        r".*",
        r"minijax raises NotImpl\w+: .Diff\w+ .* '(nextafter|reduce_or|population_count)'.*, JAX (Type|Value)Error",
        "differentiated, though it has no derivative, at operands that do not fit: JAX stages what is a jit before",
    ),
    (
        r"lax\.cum(max|min|logsumexp|prod|sum)",
        r"minijax alone raises ValueError: 'XLA operations do not allow negative axes",
        "a negative axis is refused in derivatives too, as JAX refuses it in calls",
    ),
    (
        r"numpy\.(array_equ(al|iv)|nan_to_num)",
        r"minijax (alone )?raises TypeError: .\w+ requires ndarray or scalar arguments, got <class 'list'>",
        "a list is refused, as JAX refuses it in its other functions",
    ),
    (
        r"numpy\.reshape",
        r"minijax raises TypeError: 'cannot reshape array .*, JAX ValueError: .(cannot reshape array of size|order m)",
        "JAX has NumPy reshape an array of NumPy's that is known, and so raises what NumPy does",
    ),
    (
        r"numpy\.array_equiv",
        r"JAX alone raises TypeError: 'eq got incompatible shapes",
        "arrays that do not broadcast are not equivalent, as in NumPy, and as JAX has it if their ranks differ",
    ),
    (
        r"numpy\.unravel_index",
        r"Arrays are not equal",
        "no index is within a negative size",
    ),
    (
        r"nn\.elu",
        r"nan location mismatch",
        "a nan times a false is a nan; XLA makes of a product with truth values a choice, also of ours",
    ),
    (
        r"numpy\.logspace",
        r"Arrays are not equal .* Max absolute difference among violations: 1 ",
        "powers that are rounded down to integers: the last bit of a float decides",
    ),
    (
        r"numpy\.(linspace|logspace)",
        r"minijax alone raises IndexError: 'linspace: axis",
        "an axis out of bounds is refused, as in NumPy; JAX cuts a tuple there, which goes well for one number",
    ),
    (
        r"numpy\.(cov|corrcoef)",
        r"JAX (alone raises )?ValueError: 'Incompatible shapes for broadcasting",
        "variables of different ranks stand one below the other, as in NumPy; JAX has their shapes broadcast before",
    ),
    (
        r"numpy\.(cov|corrcoef)",
        r"reshape\(\d, 0\).*the results are \['(float16|complex64)\S+( 0\])?'\], JAX's are \['float32",
        "the type that is asked for is that of the nan of no samples too, which JAX's is not",
    ),
    (
        r"numpy\.(atan2|arctan2)",
        r"Not equal to tolerance .*DESIRED",
        "integers beyond the other operand's type are converted to floats as they are; JAX takes them modulo its range",
    ),
    (
        r"numpy\.insert",
        r"JAX alone raises ValueError: 'jnp.insert\(\): index array must be integer typed; got .*\[\S*0\]",
        "no indices may be of any type, of any library's; JAX takes them of NumPy's arrays alone",
    ),
    (
        r"numpy\.intersect1d",
        r"reshape\((2, 0|0,)\).*(the results are \['\w+\[\d\]'.*, JAX's are \['\w+\[\d\] weak'|Not equal to tol)",
        "with no elements nothing is common: it is filled up with 0; JAX takes the one element of the other array",
    ),
    (
        r"numpy\.(polyder|polyint)|lax\.integer_pow",
        r"JAX alone raises (ValueError: .Non-hashable static|TypeError: .(unhashable type|As of JAX v0.7, parameters))",
        "an array of one integer is an integer, a known one of one truth value is that: JAX needs its hash",
    ),
    (
        r"lax\.collapse",
        r"JAX alone raises AttributeError: .*has no attribute 'shape'",
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


def reason(name: str, text: str, said: str) -> str:
    """Why a program of this function and text may differ in this way, '' if there is no reason."""
    told = f"{text}: {said}"
    return next((why for whose, how, why in REASONS if re.fullmatch(whose, name) and re.search(how, told)), "")
