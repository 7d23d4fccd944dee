"""The texts and lines of the guided tour: seven parts, from one operation at the prompt to training a network."""

from __future__ import annotations

from minijax.tools.commands.guide import Part, Stop

INTERPRETERS = Part(
    "transformations are interpreters",
    "Evaluation, derivatives and batching are three ways to read the same operations. Each is an interpreter, and "
    "interpreters stack.",
    (
        Stop(
            "sin is a primitive: an operation that an interpreter has to know what to do with. Nobody transforms "
            "anything here, so the lowest interpreter, eval, computes it.",
            "sin(3.0)",
            "A line that is only evaluated shows its value and no panels.",
        ),
        Stop(
            "A function of primitives is ordinary Python.",
            "def f(x): return -(2. * sin(x)) + x",
        ),
        Stop(
            "%log shows each operation, who took it, and by which rule.",
            "%log f(3.0)",
            "Four primitives, all taken by eval; the value is {f(3.0)}.",
        ),
        Stop(
            "Now a second interpreter goes on top: jvp, which computes derivatives along with values. %push keeps it "
            "there while we type.",
            "%push jvp x=3. dx=1.",
            "x is no number now but a tracer: a box that belongs to level 1 and holds a primal and a tangent.",
        ),
        Stop(
            "An operation on a box of level 1 is given to level 1. The jvp rule of sin computes sin of the primal, and "
            "the tangent by the chain rule, each with primitives of its own, which the level below takes.",
            "y = sin(x)",
            "The tangent is the cosine of 3, {cos(3.0)}.",
        ),
        Stop(
            "%stack shows who is on the stack, and what belongs to whom.",
            "%stack",
        ),
        Stop(
            "%pop closes the level and unpacks what we want to have of it.",
            "%pop f(x)",
            "So f(3) is {value[0]} and its derivative there {value[1]}. x and y are plain values again.",
        ),
        Stop(
            "The function jvp does just this: push, run the function on boxes, pop.",
            "jvp(f, (3.,), (1.,))",
            "The same {value[1]}. The panel shows the deepest stack that the line reached.",
        ),
        Stop(
            "Boxes go into boxes. With two jvp levels, the tangent of the tangent is the second derivative.",
            "%push jvp a=3. da=1.",
        ),
        Stop(
            "The box a of level 1 is the primal in a box of level 2.",
            "%push jvp b=a db=1.",
        ),
        Stop(
            "One sin, three levels: jvp:2 calls primitives on boxes of jvp:1, which calls primitives on numbers.",
            "c = sin(b)",
        ),
        Stop(
            "%tracers unpacks them all, level by level.",
            "%tracers",
            "The innermost tangent of a tangent is minus the sine of 3.",
        ),
        Stop("Both levels can go.", "%pop --all"),
        Stop(
            "As functions, to the fourth derivative:",
            "def derivative(g): return lambda x: jvp(g, (x,), (1.,))[1]",
        ),
        Stop(
            "sin differentiated four times is sin again.",
            "d1 = derivative(sin); d2 = derivative(d1); d3 = derivative(d2); d4 = derivative(d3)\n"
            "[d1(3.), d2(3.), d3(3.), d4(3.)]",
            "The fourth equals sin(3), {sin(3.)}; five levels were on the stack for it.",
        ),
        Stop(
            "Python's control flow works: the if asks a box for a truth value, and the primal has one.",
            "def g(x): return 2. * x if x > 0. else x",
        ),
        Stop(
            "So each call follows one branch, and differentiates it.",
            "[derivative(g)(3.), derivative(g)(-3.)]",
        ),
        Stop(
            "Arguments and results may be trees of containers; only the leaves are boxed.",
            "jvp(lambda x: {'hi': f(x), 'there': [x, 2. * sin(x)]}, (3.,), (1.,))",
        ),
        Stop(
            "The third interpreter, vmap, lets one value stand for many. s is three numbers side by side, and looks "
            "like one.",
            "%push vmap s=[0., 1., 2.]",
            "The box knows which axis of its array is the batch: there is a logical shape, and a physical one.",
        ),
        Stop(
            "The code sees the logical shape: a scalar.",
            "s.ndim",
        ),
        Stop(
            "Batching rules work on the whole array at once; there is no loop.",
            "t = 1. + s",
        ),
        Stop("Popped, it is an array.", "%pop t"),
        Stop(
            "Stacked, the two make a Jacobian: jvp along each unit vector, all of them at once.",
            "vmap(lambda v: jvp(sin, (jnp.array([0., 1., 2.]),), (v,))[1])(jnp.eye(3))",
            "The cosines are on the diagonal. jacfwd(sin) is this, written once and for all.",
        ),
    ),
)

JAXPRS = Part(
    "jaxprs",
    "An interpreter can also compute nothing at all, and write down what it was asked to do. What it writes is a "
    "jaxpr: a small typed program that other interpreters read.",
    (
        Stop(
            "make_jaxpr calls the function with a box that has a type and no value.",
            "make_jaxpr(lambda x: 2. * x)(3.)",
            "The input has the name a and a type; the 2.0 is a literal, since it was written in the function.",
        ),
        Stop(
            "At the prompt we can watch it write.",
            "%push jaxpr z=f32[3]",
        ),
        Stop("Each operation is an equation.", "w = 2. * sin(z)"),
        Stop("A name of Python's is only a label: w moves on to the new variable.", "w = w + z"),
        Stop(
            "Everything is recorded here, on constants too: there is no box in this line, and yet it is not computed. "
            "That is why a program that is staged can be handed to a compiler whole.",
            "k = mul(2., 2.)",
            "Not 4.0 but one more equation. Nobody reads it, and it stays all the same.",
        ),
        Stop("%pop makes the jaxpr of what we name as its result.", "%pop w"),
        Stop("In a function without arguments it is the same.", "make_jaxpr(lambda: mul(2., 2.))()"),
        Stop(
            "The price: where there is no value, no if can look at it. The error says which argument it depends on.",
            "make_jaxpr(lambda x: 2. * x if x > 0. else x)(3.)",
            "Part 5 has a way around.",
            fails=True,
        ),
        Stop(
            "A jaxpr is a value. It has types, and it can be run.",
            "p = make_jaxpr(lambda x: -(2. * sin(x)) + x)(3.)",
        ),
        Stop(
            "Reading its equations and binding their primitives again is all it takes.",
            "from minijax.extend.core import jaxpr_as_fun\njaxpr_as_fun(p)(3.)",
        ),
        Stop(
            "Since running it calls primitives again, it can be run under any other interpreter. Here jvp reads it, "
            "and what jvp does is written down in turn.",
            "make_jaxpr(lambda x, t: jvp(jaxpr_as_fun(p), (x,), (t,)))(3., 1.)",
        ),
        Stop("For %diff, once more as a function:", "def f(x): return -(2. * sin(x)) + x"),
        Stop("%diff compares a program with what a transformation makes of it.", "%diff f(3.0) --by jvp"),
        Stop("%graph draws it.", "%graph f(3.0)"),
    ),
)

JIT = Part(
    "jit and XLA",
    "A jaxpr can be compiled. jit stages a function once for each signature, lowers the jaxpr to StableHLO, and has "
    "XLA make machine code of it.",
    (
        Stop(
            "The list tells us how often Python runs the function's body.",
            "seen = []\n@jit\ndef h(x, y):\n    seen.append((x, y))\n    return sin(x) * cos(y)\n",
        ),
        Stop(
            "The first call stages, lowers, compiles and runs. The panels show what each cost.",
            "h(3., 4.)",
            "The body has run {len(seen)} time so far.",
        ),
        Stop(
            "The next call has the same types, so there is nothing to do but run.",
            "h(4., 5.)",
            "The body has run {len(seen)} time still: the cache was hit.",
        ),
        Stop(
            "A new shape is a new signature.",
            "h(jnp.array([3., 4.]), 5.)",
            "Now it is {len(seen)}.",
        ),
        Stop("%why tells which argument was different, and from what.", "%why"),
        Stop("This is what was handed to XLA.", "%hlo h(3., 4.)"),
        Stop(
            "And this is what XLA made of it: the operations fused into one loop.",
            "%hlo h(3., 4.) --stage optimized",
        ),
        Stop(
            "jit is itself a primitive. Its parameter is a jaxpr, and in another program it stays a call.",
            "make_jaxpr(lambda x: h(x, 2. * x))(3.)",
        ),
        Stop(
            "So each interpreter needs a rule for it: to differentiate the call, differentiate the program in it.",
            "f = jit(lambda x: -(2. * sin(x)) + x)",
        ),
        Stop(
            "The jaxpr panel shows the new program. It is kept: another jvp of f makes no other.",
            "jvp(f, (3.,), (1.,))",
            "The derivative is {value[1]}, as it was in part 1.",
        ),
        Stop("The same with vmap.", "vmap(f)(jnp.array([0., 1., 2.]))"),
        Stop("A sum, compiled.", "jit(lambda v: reduce_sum(v, axis=0))(jnp.array([1., 2., 3.]))"),
        Stop(
            "At the prompt, lines are staged until the level is closed, and compiled then.",
            "%push jit x=3.",
        ),
        Stop("Recorded:", "y = -(2. * sin(x)) + x"),
        Stop("Compiled and run:", "%pop y"),
    ),
)

REVERSE = Part(
    "linearize, vjp and grad",
    "Reverse mode is no new rule for each operation. It is the jvp rule, with a tangent that is not known yet, and the "
    "recorded program run backwards.",
    (
        Stop(
            "%push linearize puts one interpreter on the stack. Its boxes hold a value, which is known, and a tangent, "
            "which is not: a variable of a program that is being written.",
            "%push linearize x=3.",
        ),
        Stop(
            "How to linearize sin is derived from its jvp rule. That asks for sin and cos of a number, which are known "
            "and computed at once, and for a product with the tangent, which is recorded.",
            "y = sin(x)",
            "One equation, in which the cosine, {cos(3.0)}, is a constant.",
        ),
        Stop("So the recorded program is linear, whatever the function is.", "y = -(2. * y) + x"),
        Stop("%tracers shows the known beside the unknown.", "%tracers"),
        Stop("Popped: the value, and the program as a function of tangents.", "%pop y"),
        Stop(
            "The function linearize does the same.",
            "out, linear = linearize(sin, 3.)",
        ),
        Stop(
            "The program is run as often as we like; sin is not looked at again.",
            "[out, linear(1.), linear(10.)]",
        ),
        Stop(
            "To divide a program into what is known and what is not, for a jaxpr: the jvp of x ↦ -sin x, with x known "
            "and the tangent t not.",
            "from minijax.interpreters.partial_eval import partial_eval_jaxpr\n"
            "p = make_jaxpr(lambda x, t: jvp(lambda a: -sin(a), (x,), (t,)))(3., 1.)\n"
            "known, unknown = partial_eval_jaxpr(p, [False, True])[:2]\n"
            "known",
            "Known are the value, and the cosine, which the other half needs: a residual.",
        ),
        Stop("The other half takes the residual and the tangent.", "unknown"),
        Stop(
            "A linear program can be read backwards, from the tangent of its result to that of its input. That is its "
            "transpose, and the pullback that vjp gives.",
            "out, pullback = vjp(sin, 3.)",
        ),
        Stop("For one input and one output it is the same number, from the other end.", "pullback(1.)"),
        Stop(
            "grad is the pullback at one. The panels show the stack, the linear program and the time of each phase.",
            "grad(lambda x: -(2. * sin(x)) + x)(3.)",
            "It is {value}, as jvp said.",
        ),
        Stop(
            "%log shows the way forward and the way back.",
            "%log grad(sin)(3.0)",
        ),
        Stop(
            "In the tutorial linearize is two interpreters: jvp, and below it partial evaluation, which evaluates what "
            "it knows and records the rest. Each operation is dispatched twice there; the program is the same.",
            "%diff sin(3.0) --by grad --tutorial",
            "jax.config.update('jax_use_direct_linearize', False) has it all done that way.",
        ),
        Stop(
            "The transformations nest, with jit anywhere.",
            "f = lambda x: -(2. * sin(x)) + x",
        ),
        Stop(
            "The second derivative, in three ways.",
            "[grad(grad(f))(3.), jit(grad(jit(grad(f))))(3.), jvp(grad(f), (3.,), (1.,))[1]]",
        ),
        Stop(
            "A gradient needs one number to be the gradient of.",
            "grad(lambda x: x * jnp.array([1., 2.]))(3.)",
            "For more than one there is jacrev.",
            fails=True,
        ),
        Stop("%grad --check compares a gradient with finite differences.", "%grad f(3.0) --check"),
    ),
)

CONTROL = Part(
    "control flow",
    "An if of Python's is over when the program is staged. cond is a primitive that holds both branches, so the choice "
    "is left to the program.",
    (
        Stop("Evaluated, it picks a branch.", "lax.cond(True, lambda: 3, lambda: 4)"),
        Stop(
            "Staged, it is one equation that holds a jaxpr for each branch.",
            "make_jaxpr(lambda x: lax.cond(x > 0., lambda v: v * v, lambda v: -v, x))(3.)",
        ),
        Stop(
            "Each interpreter has a rule for it, which does to the branches what it does to any program. jvp:",
            "jvp(lambda x: lax.cond(True, lambda: x * x, lambda: 0.), (1.,), (1.,))",
            "The tangent is {value[1]}.",
        ),
        Stop(
            "vmap, with one choice for all:",
            "vmap(lambda x: lax.cond(True, lambda: x + 1., lambda: 0.))(jnp.array([1., 2., 3.]))",
        ),
        Stop(
            "Where each example chooses for itself, both branches are computed, and a select takes from each.",
            "make_jaxpr(vmap(lambda x: lax.cond(x > 2., lambda: x * x, lambda: x)))(jnp.array([1., 2., 3.]))",
            "The selects before the branches keep from each what it would not have seen, so that no derivative passes "
            "through it.",
        ),
        Stop("Compiled:", "jit(lambda: lax.cond(False, lambda: 1, lambda: 2))()"),
        Stop(
            "Partially evaluated: what is known of a branch is computed now, and the rest is a cond again.",
            "out, linear = linearize(lambda x: lax.cond(True, lambda: x, lambda: 0.), 1.)",
        ),
        Stop("The linear program of it, applied:", "linear(3.14)"),
        Stop(
            "Transposed, that makes the gradient.",
            "grad(lambda x: lax.cond(True, lambda: x * x, lambda: 0.))(1.)",
        ),
        Stop("At the prompt, under two levels:", "%push grad x=2."),
        Stop("a recorded one on top of the other.", "%push jit y=x"),
        Stop(
            "The predicate is a variable now, and no if could look at it.",
            "z = lax.cond(y > 0., lambda: y * y, lambda: y)",
        ),
        Stop("Closing the inner level compiles the program under the outer one, for jvp.", "%pop z"),
        Stop("And the outer one, closed with what we have just got, transposes it.", "%pop"),
        Stop(
            "Both branches must give the same type, since the program has only one.",
            "lax.cond(True, lambda: 1, lambda: 2.)",
            "The error shows both.",
            fails=True,
        ),
        Stop(
            "scan is the loop: a carried value and one more element at each step, as one equation.",
            "lax.scan(lambda c, a: (c + a, c), 0., jnp.arange(4.))",
            "The sum is {value[0]}. %rules shows every primitive with its rules, %step walks through a call one "
            "operation at a time.",
        ),
    ),
)

DEVICES = Part(
    "programs over many devices",
    "A program can be divided: its arrays lie in parts on several devices, and what one needs of another is sent. One "
    "processor can be taken for several devices: JAX_NUM_CPU_DEVICES=8 minijax-repl starts with eight. Everything here "
    "runs on one device too, but then nothing is sent.",
    (
        Stop(
            "A mesh gives the devices places along named axes. This one has one, d, along which the compiler divides.",
            "from minijax import NamedSharding, P, shard_map\n"
            "from minijax.sharding import AxisType\n"
            "mesh = minijax.make_mesh((len(minijax.devices()),), ('d',), AxisType.Auto)",
            "Devices along d: {mesh.size}.",
        ),
        Stop(
            "A sharding says along which axis of the mesh each dimension of an array is divided; here rows.",
            "rows = NamedSharding(mesh, P('d', None))\nx = minijax.device_put(jnp.ones((2 * mesh.size, 4)), rows)",
        ),
        Stop("%shards shows which device has which part.", "%shards x"),
        Stop(
            "Data parallel: each device has some of the examples, and all have the parameters.",
            "def loss(w, x): return jnp.mean(jnp.tanh(x @ w)**2)",
        ),
        Stop(
            "The function says nothing of devices. jit divides it as its arguments are, and XLA puts in what has to be "
            "sent: each device has its examples' part of the gradient, and their sum is due.",
            "%hlo jit(grad(loss))(jnp.ones(4), x) --partitioned",
        ),
        Stop(
            "Tensor parallel: the parameters are divided, one matrix by columns and the other by rows.",
            "columns = NamedSharding(mesh, P(None, 'd'))\n"
            "u = minijax.device_put(jnp.ones((4, 2 * mesh.size)), columns)\n"
            "v = minijax.device_put(jnp.ones((2 * mesh.size, 4)), rows)\n"
            "def mlp(u, v, x): return jnp.tanh(x @ u) @ v",
        ),
        Stop(
            "The layer in between is divided too: no device needs all of it. One sum is all that it takes.",
            "%hlo jit(mlp)(u, v, jnp.ones((8, 4))) --partitioned",
        ),
        Stop(
            "In shard_map a function is written for the part of one device, and says itself what is sent. This adds up "
            "along a ring: each hands on what it has just got.",
            "right = [(i, (i + 1) % mesh.size) for i in range(mesh.size)]\n"
            "def ring(x):\n"
            "    total = part = jnp.sum(x, keepdims=True)\n"
            "    for step in range(mesh.size - 1):\n"
            "        part = lax.ppermute(part, 'd', right)\n"
            "        total = total + part\n"
            "    return total",
        ),
        Stop(
            "Each device gives back the sum that it has come to.",
            "shard_map(ring, mesh=mesh, in_specs=P('d'), out_specs=P('d'))(x)",
            "All have {jnp.sum(x)}.",
        ),
        Stop(
            "psum does the same, in one operation.",
            "def whole(x): return lax.psum(jnp.sum(x), 'd')\n"
            "g = shard_map(whole, mesh=mesh, in_specs=P('d'), out_specs=P())",
        ),
        Stop(
            "The types in the inner program are those of one part, and tell along which axes it varies.",
            "%jaxpr g(x)",
            "After psum it varies no more, so it can be given back as one.",
        ),
    ),
)

PROGRAMS = Part(
    "whole programs",
    "What you have seen of one operation holds for a program of thousands. A gallery of such has been recorded: "
    "networks, filters, samplers, equations, each on a page written for JAX.",
    (
        Stop("These come with minijax; nothing is run when one is opened.", "%gallery"),
        Stop(
            "A page is a program as one writes it, with the gradient of its loss somewhere in it.",
            "%gallery mlp --program",
        ),
        Stop(
            "One step of its training: the names on the left are the interpreters of part 1, the rules those that grad "
            "needs.",
            "%gallery mlp --text --most 30",
            "In a terminal or a notebook, %gallery mlp alone opens the stepper: it goes through every operation, "
            "forwards and backwards, beside the page. That is the tour; %step does the same to a call of yours.",
        ),
    ),
)

PARTS = (INTERPRETERS, JAXPRS, JIT, REVERSE, CONTROL, DEVICES, PROGRAMS)
