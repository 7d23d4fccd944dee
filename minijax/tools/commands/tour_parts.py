"""The texts and lines of the guided tour: seven parts, from one operation at the prompt to training a network."""

from __future__ import annotations

from minijax.tools.commands.guide import Part, Stop

INTERPRETERS = Part(
    "transformations are interpreters",
    "Evaluation, derivatives and batching are three ways to read the same operations. Each is an interpreter, and "
    "interpreters stack.",
    (
        Stop(
            "sin is a primitive: an operation for which each interpreter has a rule. No transformation is active "
            "here, so the lowest interpreter, eval, computes it.",
            "sin(3.0)",
            "A line that is only evaluated shows its value and no panels.",
        ),
        Stop(
            "A function of primitives is ordinary Python.",
            "def f(x): return -(2. * sin(x)) + x",
        ),
        Stop(
            "%log shows each operation, the interpreter that handled it, and the rule.",
            "%log f(3.0)",
            "Four primitives, all handled by eval; the value is {f(3.0)}.",
        ),
        Stop(
            "Now a second interpreter goes on top: jvp, which computes derivatives along with values. %push keeps it "
            "on the stack while we type.",
            "%push jvp x=3. dx=1.",
            "x is now a tracer in place of a number: a box that belongs to level 1 and holds a primal and a tangent.",
        ),
        Stop(
            "Level 1 handles the operations on its boxes. The jvp rule of sin computes sin of the primal, and the "
            "tangent by the chain rule. It uses primitives for that, and the level below handles them.",
            "y = sin(x)",
            "The tangent is the cosine of 3, {cos(3.0)}.",
        ),
        Stop(
            "%stack shows the interpreters on the stack, and the values that belong to each.",
            "%stack",
        ),
        Stop(
            "%pop closes the level and unpacks the value that we name.",
            "%pop f(x)",
            "So f(3) is {value[0]} and its derivative there is {value[1]}. x and y are plain values again.",
        ),
        Stop(
            "The function jvp does just this: push, run the function on boxes, pop.",
            "jvp(f, (3.,), (1.,))",
            "The same {value[1]}. The panel shows the deepest stack that the line reached.",
        ),
        Stop(
            "A box can contain a box. With two jvp levels, the tangent of the tangent is the second derivative.",
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
            "%tracers unpacks all boxes, level by level.",
            "%tracers",
            "The innermost tangent of a tangent is minus the sine of 3.",
        ),
        Stop("Now we close both levels.", "%pop --all"),
        Stop(
            "The same with functions, up to the fourth derivative:",
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
            "The third interpreter, vmap, lets one value represent many. s holds three numbers and looks like one.",
            "%push vmap s=[0., 1., 2.]",
            "The box knows which axis of its array is the batch axis. So it has a logical shape and a physical one.",
        ),
        Stop(
            "The code sees the logical shape: a scalar.",
            "s.ndim",
        ),
        Stop(
            "Batching rules work on the whole array at once; there is no loop.",
            "t = 1. + s",
        ),
        Stop("After %pop it is an array.", "%pop t"),
        Stop(
            "vmap and jvp together compute a Jacobian: jvp along every unit vector at once.",
            "vmap(lambda v: jvp(sin, (jnp.array([0., 1., 2.]),), (v,))[1])(jnp.eye(3))",
            "The cosines are on the diagonal. jacfwd(sin) computes the same.",
        ),
    ),
)

JAXPRS = Part(
    "jaxprs",
    "An interpreter can also compute nothing, and record the operations instead. The record is a jaxpr: a small "
    "typed program that other interpreters can read.",
    (
        Stop(
            "make_jaxpr calls the function with a box that has a type and no value.",
            "make_jaxpr(lambda x: 2. * x)(3.)",
            "The input has the name a and a type; the 2.0 is a literal, because it was written in the function.",
        ),
        Stop(
            "At the prompt we can watch it record.",
            "%push jaxpr z=f32[3]",
        ),
        Stop("Each operation is an equation.", "w = 2. * sin(z)"),
        Stop("A Python name is only a label: now w names the new variable.", "w = w + z"),
        Stop(
            "Every operation is recorded here, even on constants: this line has no box, and still it is not "
            "computed. So the whole program can go to a compiler.",
            "k = mul(2., 2.)",
            "Not 4.0 but one more equation. It stays, although nothing reads its result.",
        ),
        Stop("%pop ends the jaxpr. Its result is the value that we name.", "%pop w"),
        Stop("A function without arguments is recorded too.", "make_jaxpr(lambda: mul(2., 2.))()"),
        Stop(
            "The price: an if needs a value, and here there is none. The error says which argument the condition "
            "depends on.",
            "make_jaxpr(lambda x: 2. * x if x > 0. else x)(3.)",
            "Part 5 shows a way around it.",
            fails=True,
        ),
        Stop(
            "A jaxpr is a value. It has types, and it can be run.",
            "p = make_jaxpr(lambda x: -(2. * sin(x)) + x)(3.)",
        ),
        Stop(
            "To run it, bind the primitives of its equations again, one by one.",
            "from minijax.extend.core import jaxpr_as_fun\njaxpr_as_fun(p)(3.)",
        ),
        Stop(
            "Running it calls primitives again, so it can run under any other interpreter. Here jvp runs it, and the "
            "operations of jvp are recorded in a new jaxpr.",
            "make_jaxpr(lambda x, t: jvp(jaxpr_as_fun(p), (x,), (t,)))(3., 1.)",
        ),
        Stop("For %diff we need the function again:", "def f(x): return -(2. * sin(x)) + x"),
        Stop("%diff compares a program with its transformed program.", "%diff f(3.0) --by jvp"),
        Stop("%graph draws the program.", "%graph f(3.0)"),
    ),
)

JIT = Part(
    "jit and XLA",
    "A jaxpr can be compiled. jit stages a function once for each signature and lowers the jaxpr to StableHLO, which "
    "XLA compiles to machine code.",
    (
        Stop(
            "The list shows how often Python runs the function's body.",
            "seen = []\n@jit\ndef h(x, y):\n    seen.append((x, y))\n    return sin(x) * cos(y)\n",
        ),
        Stop(
            "The first call stages, lowers, compiles and runs. The panels show the time of each step.",
            "h(3., 4.)",
            "The body has run {len(seen)} time so far.",
        ),
        Stop(
            "The next call has the same types, so it only runs the compiled program.",
            "h(4., 5.)",
            "The body has still run {len(seen)} time: a cache hit.",
        ),
        Stop(
            "A new shape is a new signature.",
            "h(jnp.array([3., 4.]), 5.)",
            "Now it has run {len(seen)} times.",
        ),
        Stop("%why says which argument changed, and how.", "%why"),
        Stop("This is the program that XLA gets.", "%hlo h(3., 4.)"),
        Stop(
            "And this is the compiled program: XLA fused the operations into one loop.",
            "%hlo h(3., 4.) --stage optimized",
        ),
        Stop(
            "jit is itself a primitive. Its parameter is a jaxpr, and in another program it stays a call.",
            "make_jaxpr(lambda x: h(x, 2. * x))(3.)",
        ),
        Stop(
            "So each interpreter needs a rule for jit: to differentiate the call, it differentiates the jaxpr.",
            "f = jit(lambda x: -(2. * sin(x)) + x)",
        ),
        Stop(
            "The jaxpr panel shows the new program. It is cached: the next jvp of f uses it again.",
            "jvp(f, (3.,), (1.,))",
            "The derivative is {value[1]}, as it was in part 1.",
        ),
        Stop("The same with vmap.", "vmap(f)(jnp.array([0., 1., 2.]))"),
        Stop("A sum, compiled.", "jit(lambda v: reduce_sum(v, axis=0))(jnp.array([1., 2., 3.]))"),
        Stop(
            "At the prompt, lines are staged until the level is closed. Then they are compiled.",
            "%push jit x=3.",
        ),
        Stop("Recorded:", "y = -(2. * sin(x)) + x"),
        Stop("Compiled and run:", "%pop y"),
    ),
)

REVERSE = Part(
    "linearize, vjp and grad",
    "Reverse mode needs no new rule for each operation. It applies the jvp rules to tangents that are not known yet, "
    "records the operations on these tangents, and runs the recorded program backwards.",
    (
        Stop(
            "%push linearize puts one interpreter on the stack. Each of its boxes holds a known value and an unknown "
            "tangent: a variable of a program that is being recorded.",
            "%push linearize x=3.",
        ),
        Stop(
            "The linearization of sin comes from its jvp rule. The rule needs sin and cos of a known number, which "
            "are computed at once, and a product with the tangent, which is recorded.",
            "y = sin(x)",
            "One equation, in which the cosine, {cos(3.0)}, is a constant.",
        ),
        Stop("So the recorded program is linear for every function.", "y = -(2. * y) + x"),
        Stop("%tracers shows the known values beside the unknown tangents.", "%tracers"),
        Stop("%pop returns the value, and the program as a function of tangents.", "%pop y"),
        Stop(
            "The function linearize does the same.",
            "out, linear = linearize(sin, 3.)",
        ),
        Stop(
            "The linear program can run many times. It does not call sin again.",
            "[out, linear(1.), linear(10.)]",
        ),
        Stop(
            "A jaxpr can be divided into a known and an unknown part. Here it is the jvp of x ↦ -sin x, where x is "
            "known and the tangent t is not.",
            "from minijax.interpreters.partial_eval import partial_eval_jaxpr\n"
            "p = make_jaxpr(lambda x, t: jvp(lambda a: -sin(a), (x,), (t,)))(3., 1.)\n"
            "known, unknown = partial_eval_jaxpr(p, [False, True])[:2]\n"
            "known",
            "The known part computes the value, and the cosine, which the other part needs: a residual.",
        ),
        Stop("The other part takes the residual and the tangent.", "unknown"),
        Stop(
            "A linear program has a transpose, which runs it backwards: from the cotangent of the result to the "
            "cotangent of the input. vjp returns the transpose as the pullback.",
            "out, pullback = vjp(sin, 3.)",
        ),
        Stop(
            "With one input and one output, the pullback multiplies by the same number, the derivative.", "pullback(1.)"
        ),
        Stop(
            "grad applies the pullback to 1. The panels show the stack, the linear program and the time of each phase.",
            "grad(lambda x: -(2. * sin(x)) + x)(3.)",
            "It is {value}, as with jvp.",
        ),
        Stop(
            "%log shows the forward pass and the backward pass.",
            "%log grad(sin)(3.0)",
        ),
        Stop(
            "In the tutorial, linearize uses two interpreters: jvp, and below it partial evaluation, which computes "
            "known values and records the rest. Each operation is dispatched twice there; the program is the same.",
            "%diff sin(3.0) --by grad --tutorial",
            "jax.config.update('jax_use_direct_linearize', False) makes minijax always do it that way.",
        ),
        Stop(
            "Transformations nest, with jit at any level.",
            "f = lambda x: -(2. * sin(x)) + x",
        ),
        Stop(
            "The second derivative, in three ways.",
            "[grad(grad(f))(3.), jit(grad(jit(grad(f))))(3.), jvp(grad(f), (3.,), (1.,))[1]]",
        ),
        Stop(
            "grad needs a function that returns one number. This one returns two.",
            "grad(lambda x: x * jnp.array([1., 2.]))(3.)",
            "For several numbers, use jacrev.",
            fails=True,
        ),
        Stop("%grad --check compares a gradient with finite differences.", "%grad f(3.0) --check"),
    ),
)

CONTROL = Part(
    "control flow",
    "Python decides an if while it stages the program. cond is a primitive that holds both branches, so the program "
    "itself decides.",
    (
        Stop("Evaluation runs one of the branches.", "lax.cond(True, lambda: 3, lambda: 4)"),
        Stop(
            "Staged, it is one equation that holds a jaxpr for each branch.",
            "make_jaxpr(lambda x: lax.cond(x > 0., lambda v: v * v, lambda v: -v, x))(3.)",
        ),
        Stop(
            "Each interpreter has a rule for cond, which transforms both branches. jvp:",
            "jvp(lambda x: lax.cond(True, lambda: x * x, lambda: 0.), (1.,), (1.,))",
            "The tangent is {value[1]}.",
        ),
        Stop(
            "vmap, if all examples take the same branch:",
            "vmap(lambda x: lax.cond(True, lambda: x + 1., lambda: 0.))(jnp.array([1., 2., 3.]))",
        ),
        Stop(
            "If examples may take different branches, both branches are computed, and a select chooses the result "
            "for each example.",
            "make_jaxpr(vmap(lambda x: lax.cond(x > 2., lambda: x * x, lambda: x)))(jnp.array([1., 2., 3.]))",
            "The selects before the branches hide from each branch the examples that do not take it, so that no "
            "derivative passes through it for them.",
        ),
        Stop("Compiled:", "jit(lambda: lax.cond(False, lambda: 1, lambda: 2))()"),
        Stop(
            "Partial evaluation computes the known part of the branches now. The rest becomes another cond.",
            "out, linear = linearize(lambda x: lax.cond(True, lambda: x, lambda: 0.), 1.)",
        ),
        Stop("Its linear program, applied to a tangent:", "linear(3.14)"),
        Stop(
            "The transpose of the linear program gives the gradient.",
            "grad(lambda x: lax.cond(True, lambda: x * x, lambda: 0.))(1.)",
        ),
        Stop("At the prompt we open a level that differentiates:", "%push grad x=2."),
        Stop("and on top of it one that records:", "%push jit y=x"),
        Stop(
            "The predicate is now a variable without a value, so an if could not read it.",
            "z = lax.cond(y > 0., lambda: y * y, lambda: y)",
        ),
        Stop("Closing the inner level compiles the recorded program, which the outer level differentiates.", "%pop z"),
        Stop("Closing the outer level, with the value that we just got, runs the backward pass.", "%pop"),
        Stop(
            "Both branches must return the same type, because the equation has one result type.",
            "lax.cond(True, lambda: 1, lambda: 2.)",
            "The error shows both types.",
            fails=True,
        ),
        Stop(
            "scan is a loop in one equation: each step takes the carried value and the next element.",
            "lax.scan(lambda c, a: (c + a, c), 0., jnp.arange(4.))",
            "The sum is {value[0]}. %rules shows every primitive with its rules, %step walks through a call one "
            "operation at a time.",
        ),
    ),
)

DEVICES = Part(
    "programs over many devices",
    "A program can run on several devices: each device has a part of every array, and the devices send each other "
    "what they need. One processor can act as several devices: JAX_NUM_CPU_DEVICES=8 minijax-repl starts with eight. "
    "All of these lines run on one device too, but then nothing is sent.",
    (
        Stop(
            "A mesh arranges the devices along named axes. This mesh has one axis, d, along which the compiler "
            "shards arrays.",
            "from minijax import NamedSharding, P, shard_map\n"
            "from minijax.sharding import AxisType\n"
            "mesh = minijax.make_mesh((len(minijax.devices()),), ('d',), AxisType.Auto)",
            "Devices along d: {mesh.size}.",
        ),
        Stop(
            "A sharding says along which mesh axis each dimension of an array is sharded. Here the rows are.",
            "rows = NamedSharding(mesh, P('d', None))\nx = minijax.device_put(jnp.ones((2 * mesh.size, 4)), rows)",
        ),
        Stop("%shards shows which device has which part.", "%shards x"),
        Stop(
            "Data parallelism: each device has some of the examples and all of the parameters.",
            "def loss(w, x): return jnp.mean(jnp.tanh(x @ w)**2)",
        ),
        Stop(
            "The function does not mention devices. jit shards the computation like its arguments, and XLA inserts "
            "the communication: each device computes the gradient for its examples, and these gradients are summed.",
            "%hlo jit(grad(loss))(jnp.ones(4), x) --partitioned",
        ),
        Stop(
            "Tensor parallelism: the parameters are sharded, one matrix by columns and the other by rows.",
            "columns = NamedSharding(mesh, P(None, 'd'))\n"
            "u = minijax.device_put(jnp.ones((4, 2 * mesh.size)), columns)\n"
            "v = minijax.device_put(jnp.ones((2 * mesh.size, 4)), rows)\n"
            "def mlp(u, v, x): return jnp.tanh(x @ u) @ v",
        ),
        Stop(
            "The layer in between is sharded too, because no device needs all of it. Only one sum is communicated.",
            "%hlo jit(mlp)(u, v, jnp.ones((8, 4))) --partitioned",
        ),
        Stop(
            "In shard_map, a function computes on one device's part and says itself what is sent. This function sums "
            "along a ring: each device passes on the part that it just received.",
            "right = [(i, (i + 1) % mesh.size) for i in range(mesh.size)]\n"
            "def ring(x):\n"
            "    total = part = jnp.sum(x, keepdims=True)\n"
            "    for step in range(mesh.size - 1):\n"
            "        part = lax.ppermute(part, 'd', right)\n"
            "        total = total + part\n"
            "    return total",
        ),
        Stop(
            "Each device returns its sum.",
            "shard_map(ring, mesh=mesh, in_specs=P('d'), out_specs=P('d'))(x)",
            "Every device has {jnp.sum(x)}.",
        ),
        Stop(
            "psum does the same, in one operation.",
            "def whole(x): return lax.psum(jnp.sum(x), 'd')\n"
            "g = shard_map(whole, mesh=mesh, in_specs=P('d'), out_specs=P())",
        ),
        Stop(
            "The types in the inner program are those of one device's part. They show the axes along which a value "
            "varies.",
            "%jaxpr g(x)",
            "After psum the value no longer varies, so it can be returned as one.",
        ),
    ),
)

PROGRAMS = Part(
    "whole programs",
    "All of this also holds for programs with thousands of operations. The gallery has recordings of such programs: "
    "networks, filters, samplers, equations. Each is written for JAX and fits on a page.",
    (
        Stop("These recordings come with minijax. Opening one runs nothing.", "%gallery"),
        Stop(
            "Each page is an ordinary program that computes the gradient of a loss.",
            "%gallery mlp --program",
        ),
        Stop(
            "One training step: the names on the left are the interpreters of part 1, and the rules are those that "
            "grad needs.",
            "%gallery mlp --text --most 30",
            "In a terminal or a notebook, %gallery mlp alone opens the stepper: it goes through every operation, "
            "forwards and backwards, beside the page. That was the tour; %step does the same for a call of your own.",
        ),
    ),
)

PARTS = (INTERPRETERS, JAXPRS, JIT, REVERSE, CONTROL, DEVICES, PROGRAMS)
