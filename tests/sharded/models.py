"""Training steps of a perceptron and a transformer, sharded over many devices in many ways, for either library.

A model is written once; a ``Plan`` shards it. Mesh axis ``data`` shards the batch; ``model`` shards the hidden units,
heads and words. The step is one program that XLA partitions (``jit``), or each device has its own program that calls
collectives (``shard_map``). With ``gathered`` weights each device keeps a shard of every parameter along ``data``, and
has the whole parameter only while it uses it (fully sharded data parallelism, ZeRO stage 3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

RATE, FADING = 0.05, 0.9


class Sizes(NamedTuple):
    """The sizes of the batch and of the models. The ``model`` axis divides ``hidden``, ``heads`` and ``words``."""

    batch: int = 16
    width: int = 16
    hidden: int = 32
    heads: int = 8
    length: int = 8
    words: int = 32
    layers: int = 2


class Plan(NamedTuple):
    """How a step is sharded.

    ``style``: 'placed' (only arguments have shardings), 'named' (jit has ``in_shardings`` and ``out_shardings``),
    'constrained' (activations have shardings too), 'mapped' (``shard_map`` of the whole step), 'outside' (the gradient
    of a loss in ``shard_map``), 'partly' (``shard_map`` along ``data``; XLA partitions along ``model``).
    """

    style: str
    data: int = 1
    model: int = 1
    gathered: bool = False

    @property
    def manual(self) -> bool:
        """Whether the loss runs in ``shard_map`` along ``data``."""
        return self.style in ("mapped", "outside", "partly")

    @property
    def in_parts(self) -> bool:
        """Whether the loss sees only one device's shard of hidden units, heads and words."""
        return self.style in ("mapped", "outside")


class Hooks(NamedTuple):
    """Operations of a model that depend on its plan.

    ``whole(leaf, axis)``: a parameter ready for use, gathered along ``axis`` if it is sharded. ``summed``: adds partial
    sums over ``model``. ``largest``: takes maxima over ``model``. ``first(n)``: the number of this device's first word.
    ``kept(x, *spec)``: constrains the sharding of an activation. ``mean``: the mean over the batches of all devices.
    """

    whole: Callable[[Any, Any], Any]
    summed: Callable[[Any], Any]
    largest: Callable[[Any], Any]
    first: Callable[[int], Any]
    kept: Callable[..., Any]
    mean: Callable[[Any], Any]


class Model(NamedTuple):
    """``start`` and ``batch`` make NumPy trees. ``specs`` and ``batch_specs`` name the mesh axes that shard them."""

    start: Callable[[Sizes], Any]
    specs: Callable[[Sizes], Any]
    batch: Callable[[Sizes], Any]
    batch_specs: tuple[Any, ...]
    loss: Callable[..., Any]


def _draw(seed: int) -> Callable[..., np.ndarray]:
    draw = np.random.default_rng(seed)
    return lambda *shape: (draw.normal(size=shape) * (shape[0] ** -0.5)).astype(np.float32)


def perceptron_start(sizes: Sizes) -> Any:
    """Pairs of layers: the first of a pair is sharded by columns, the second by rows."""
    draw = _draw(0)

    def layer() -> dict[str, np.ndarray]:
        return {
            "in": draw(sizes.width, sizes.hidden),
            "bias": np.zeros(sizes.hidden, np.float32),
            "out": draw(sizes.hidden, sizes.width),
        }

    return [layer() for _ in range(sizes.layers)]


def perceptron_specs(sizes: Sizes) -> Any:
    """For each parameter, the mesh axis of each of its dimensions."""
    layer = {"in": ("data", "model"), "bias": ("model",), "out": ("model", "data")}
    return [layer for _ in range(sizes.layers)]


def perceptron_batch(sizes: Sizes) -> Any:
    """Inputs and targets."""
    draw = _draw(1)
    return draw(sizes.batch, sizes.width) * 3, draw(sizes.batch, sizes.width) * 3


def perceptron_loss(ns: Any, hooks: Hooks, params: Any, inputs: Any, targets: Any) -> Any:
    """The mean squared error."""
    x = inputs
    for layer in params:
        hidden = ns.nn.gelu(x @ hooks.whole(layer["in"], 0) + layer["bias"])
        hidden = hooks.kept(hidden, "data", "model")
        x = x + hooks.kept(hooks.summed(hidden @ hooks.whole(layer["out"], 1)), "data", None)
    return hooks.mean(ns.jnp.mean((x - targets) ** 2))


def transformer_start(sizes: Sizes) -> Any:
    """The embeddings of words and positions; the blocks, stacked in one array per parameter; and the head."""
    draw = _draw(2)
    each = sizes.width // sizes.heads

    def block() -> dict[str, np.ndarray]:
        return {
            "look": draw(sizes.width, 3, sizes.heads, each),
            "take": draw(sizes.heads, each, sizes.width),
            "widen": draw(sizes.width, sizes.hidden),
            "narrow": draw(sizes.hidden, sizes.width),
            "scales": np.ones((2, sizes.width), np.float32),
        }

    blocks = [block() for _ in range(sizes.layers)]
    return {
        "words": draw(sizes.words, sizes.width),
        "places": draw(sizes.length, sizes.width),
        "blocks": {name: np.stack([each[name] for each in blocks]) for name in blocks[0]},
        "head": draw(sizes.width, sizes.words),
    }


def transformer_specs(sizes: Sizes) -> Any:
    """For each parameter, the mesh axis of each of its dimensions."""
    block = {
        "look": (None, "data", None, "model", None),
        "take": (None, "model", None, "data"),
        "widen": (None, "data", "model"),
        "narrow": (None, "model", "data"),
        "scales": (None, None, None),
    }
    return {"words": ("model", "data"), "places": (None, None), "blocks": block, "head": ("data", "model")}


def transformer_batch(sizes: Sizes) -> Any:
    """Words, and the word after each."""
    words = np.random.default_rng(3).integers(0, sizes.words, (sizes.batch, sizes.length + 1)).astype(np.int32)
    return words[:, :-1], words[:, 1:]


def _normalized(ns: Any, x: Any, scale: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return scale * centred * ns.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def _attended(ns: Any, hooks: Hooks, block: Any, x: Any) -> Any:
    jnp = ns.jnp
    query, key, value = jnp.einsum("bpw,wkhd->kbhpd", x, hooks.whole(block["look"], 0))
    scores = jnp.einsum("bhpd,bhqd->bhpq", query, key) / query.shape[-1] ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    taken = jnp.einsum("bhpq,bhqd->bhpd", ns.nn.softmax(scores), value)
    taken = hooks.kept(taken, "data", "model", None, None)
    return hooks.summed(jnp.einsum("bhpd,hdw->bpw", taken, hooks.whole(block["take"], 2)))


def _block(ns: Any, hooks: Hooks, block: Any, x: Any) -> Any:
    x = x + hooks.kept(_attended(ns, hooks, block, _normalized(ns, x, block["scales"][0])), "data", None, None)
    wide = ns.nn.gelu(_normalized(ns, x, block["scales"][1]) @ hooks.whole(block["widen"], 0))
    wide = hooks.kept(wide, "data", None, "model")
    return x + hooks.kept(hooks.summed(wide @ hooks.whole(block["narrow"], 1)), "data", None, None)


def transformer_loss(ns: Any, hooks: Hooks, params: Any, words: Any, following: Any) -> Any:
    """The mean negative log probability of the next word.

    The table of words is sharded along ``model``: each device looks up its own words, and the results are added.
    """
    jnp = ns.jnp
    table = hooks.whole(params["words"], 1)
    x = hooks.summed(_looked_up(ns, hooks, table, words)) + params["places"]
    again = ns.checkpoint(lambda x, block: _block(ns, hooks, block, x))  # the backward pass recomputes blocks
    x, _ = ns.lax.scan(lambda x, block: (again(x, block), None), x, params["blocks"])
    scores = hooks.kept(x @ hooks.whole(params["head"], 0), "data", None, "model")
    scores = scores - hooks.largest(ns.lax.stop_gradient(scores.max(-1, keepdims=True)))
    total = hooks.summed(jnp.exp(scores).sum(-1))
    right = hooks.summed((scores * _is(ns, hooks, following, scores.shape[-1])).sum(-1))
    return hooks.mean(jnp.mean(jnp.log(total) - right))


def _is(ns: Any, hooks: Hooks, words: Any, count: int) -> Any:
    """One-hot vectors of ``words`` over the ``count`` words that this device has."""
    return (words[..., None] - hooks.first(count) == ns.jnp.arange(count)).astype("float32")


def _looked_up(ns: Any, hooks: Hooks, table: Any, words: Any) -> Any:
    """The table's rows for ``words``; zeros for words that are not in this device's shard of the table."""
    at = words - hooks.first(len(table))
    here = (at >= 0) & (at < len(table))
    return ns.jnp.where(here[..., None], table[ns.jnp.where(here, at, 0)], 0.0)


_ROWS = (("data", None), ("data", None))
MODELS = {
    "perceptron": Model(perceptron_start, perceptron_specs, perceptron_batch, _ROWS, perceptron_loss),
    "transformer": Model(transformer_start, transformer_specs, transformer_batch, _ROWS, transformer_loss),
}


PLANS = {
    "data": Plan("placed", 8),
    "model": Plan("placed", 1, 8),
    "data x model": Plan("placed", 4, 2),
    "data x model, gathered, named": Plan("named", 4, 2, True),
    "data x model, constrained": Plan("constrained", 2, 4),
    "data, mapped": Plan("mapped", 8),
    "model, mapped": Plan("mapped", 1, 8),
    "data x model, mapped": Plan("mapped", 4, 2),
    "data x model, gathered, mapped": Plan("mapped", 2, 4, True),
    "data x model, gathered, mapped loss": Plan("outside", 4, 2, True),
    "data x model, mapped along data": Plan("partly", 4, 2),
}


def whole_here(ns: Any) -> Hooks:
    """The hooks of a program that sees whole arrays: nothing needs communication."""
    return Hooks(lambda w, _: w, lambda x: x, lambda x: x, lambda n: 0, lambda x, *_: x, lambda x: x)


def hooks_of(ns: Any, plan: Plan, mesh: Any) -> Hooks:
    """The hooks that ``plan`` needs."""
    hooks = whole_here(ns)
    if plan.style == "constrained":
        return hooks._replace(
            kept=lambda x, *spec: ns.lax.with_sharding_constraint(x, ns.sharding.NamedSharding(mesh, ns.P(*spec)))
        )
    if plan.manual and plan.data > 1:
        hooks = hooks._replace(mean=lambda x: ns.lax.pmean(x, "data"))
        if plan.gathered:
            hooks = hooks._replace(whole=lambda w, axis: ns.lax.all_gather(w, "data", axis=axis, tiled=True))
    if plan.in_parts and plan.model > 1:
        hooks = hooks._replace(
            summed=lambda x: ns.lax.psum(x, "model"),
            largest=lambda x: ns.lax.pmax(x, "model"),
            first=lambda n: ns.lax.axis_index("model") * n,
        )
    return hooks


def mesh_of(ns: Any, plan: Plan) -> Any:
    """The mesh of ``plan``, without axes of size 1."""
    sizes = {name: size for name, size in (("data", plan.data), ("model", plan.model)) if size > 1}
    devices = np.array(ns.devices()[: plan.data * plan.model])
    return ns.sharding.Mesh(devices.reshape(*sizes.values()), tuple(sizes))


class Training(NamedTuple):
    """A jitted ``step`` from (state, *batch) to (state, loss), with an initial state and a batch."""

    step: Any
    state: Any
    batch: Any


def _momentum(ns: Any, state: Any, slope: Any) -> Any:
    params, speed = state
    speed = ns.tree.map(lambda s, g: FADING * s + g, speed, slope)
    return ns.tree.map(lambda p, s: p - RATE * s, params, speed), speed


def on_one_device(ns: Any, model: Model, sizes: Sizes) -> Training:
    """The training without sharding."""
    hooks = whole_here(ns)

    def step(state: Any, inputs: Any, targets: Any) -> Any:
        loss, slope = ns.value_and_grad(lambda p: model.loss(ns, hooks, p, inputs, targets))(state[0])
        return _momentum(ns, state, slope), loss

    params = model.start(sizes)
    state = params, ns.tree.map(np.zeros_like, params)
    return Training(ns.jit(step), state, model.batch(sizes))


def sharded(ns: Any, model: Model, plan: Plan, sizes: Sizes) -> Training:
    """The training, sharded by ``plan``."""
    mesh = mesh_of(ns, plan)
    hooks = hooks_of(ns, plan, mesh)

    def spec(names: Any, parameter: bool = True) -> Any:
        there = [name for name in mesh.axis_names if name != "data" or plan.gathered or not parameter]
        return ns.P(*[name if name in there else None for name in names])

    def over(params: Any, wanted: Callable[[Any], Any]) -> Any:
        # the shardings of the parameters are tuples of names, which must count as leaves
        leaves, form = ns.tree.flatten(params)
        names = ns.tree.leaves(model.specs(sizes), is_leaf=lambda x: isinstance(x, tuple))
        return ns.tree.unflatten(form, [wanted(each) for each, _ in zip(names, leaves, strict=True)])

    def along_data(spec: Any) -> Any:
        return ns.P(*["data" if name == "data" else None for name in spec])

    params, batch = model.start(sizes), model.batch(sizes)
    param_specs = over(params, spec)
    batch_specs = tuple(spec(each, False) for each in model.batch_specs)
    sharding = lambda s: ns.sharding.NamedSharding(mesh, s)  # noqa: E731
    param_shardings = over(params, lambda names: sharding(spec(names)))
    batch_shardings = tuple(map(sharding, batch_specs))

    def loss(p: Any, inputs: Any, targets: Any) -> Any:
        return model.loss(ns, hooks, p, inputs, targets)

    if plan.style in ("outside", "partly"):
        # in 'partly', the specs omit the axis ``model``, along which XLA partitions
        part = along_data if plan.style == "partly" else lambda spec: spec
        loss = ns.shard_map(
            loss,
            mesh=mesh,
            in_specs=(over(params, lambda names: part(spec(names))), *map(part, batch_specs)),
            out_specs=ns.P(),
            **({"axis_names": {"data"}} if plan.style == "partly" else {}),
        )

    def step(state: Any, inputs: Any, targets: Any) -> Any:
        value, slope = ns.value_and_grad(loss)(state[0], inputs, targets)
        return _momentum(ns, state, slope), value

    if plan.style == "mapped":
        state_specs = (param_specs, param_specs)
        step = ns.shard_map(step, mesh=mesh, in_specs=(state_specs, *batch_specs), out_specs=(state_specs, ns.P()))
    options = {}
    if plan.style == "named":
        states = (param_shardings, param_shardings)
        options = {"in_shardings": (states, *batch_shardings), "out_shardings": (states, sharding(ns.P()))}
    state = params, ns.tree.map(np.zeros_like, params)
    if plan.style != "named":
        state = ns.device_put(state, (param_shardings, param_shardings))
        batch = ns.device_put(batch, batch_shardings)
    return Training(ns.jit(step, donate_argnums=0, **options), state, batch)
