// A stepper with a kernel (live.py): parts come on demand, and the call is recorded again when the reader moves an
// argument. `tell` sends a message; `hear` sets the function that receives messages.
function live({ root, tell, hear }) {
  const bar = make("div", "mjw-bar mjw-arguments");
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "arguments: moving one records the call again");
  bar.hidden = true;
  const said = make("span", "mjw-said");
  said.setAttribute("role", "status");
  const waiting = new Map(); // the callback of each part that was requested
  let made = null;
  let moved = null; // the latest move since the last request
  let asked = false; // whether a request is waiting for its answer
  const setters = []; // for each argument, a function that sets its numbers
  root.append(bar);
  keepKeys(root);
  const port = {
    part(begin, done) {
      waiting.set(begin, done);
      tell({ kind: "part", begin });
    },
  };
  function move(control, index, value) {
    moved = { kind: "again", control, index, value };
    if (asked) return; // the answer triggers a request for the latest move
    asked = true;
    said.textContent = "recording ...";
    tell({ ...moved, moment: made ? made.moment() : 0 });
    moved = null;
  }
  function answered() {
    asked = false;
    if (moved) move(moved.control, moved.index, moved.value);
  }
  function drawArguments({ controls, left }) {
    if (bar.dataset.drawn) return; // keep the sliders: the user may be dragging one
    bar.dataset.drawn = "1";
    bar.hidden = !controls.length;
    controls.forEach((each, i) => {
      const { group, set } = argument(each, (index, value) => move(i, index, value));
      setters.push(set);
      bar.append(group);
    });
    if (left) bar.append(make("span", "mj-muted", plural(left, "more argument") + " cannot be moved here"));
    bar.append(said);
  }
  hear((message) => {
    if (message.kind === "page") {
      waiting.clear();
      drawArguments(message);
      said.textContent = "";
      made = build(root, message.data, port);
      answered();
    } else if (message.kind === "part") {
      const done = waiting.get(message.begin);
      waiting.delete(message.begin);
      if (done) done(message.data, message.choices);
    } else if (message.kind === "failed") {
      said.textContent = message.said;
      // show the numbers of the current recording again, unless the user has moved on
      if (!moved) (message.controls || []).forEach(({ values }, i) => setters[i](values));
      answered();
    }
  });
  tell({ kind: "page" });
}

// A slider and a field for one argument. An array has a choice of its element before them.
function argument({ name, shape, whole, values, low, high, step }, moved) {
  const group = make("label", "mjw-argument");
  group.append(make("span", "mj-var", name));
  const now = [...values];
  let chosen = 0;
  const indices = (place) => {
    const out = [];
    for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
      out.unshift(place % shape[axis]);
      place = Math.floor(place / shape[axis]);
    }
    return out;
  };
  const range = make("input");
  const exact = make("input", "mjw-exact");
  range.type = "range";
  exact.type = "number";
  range.min = low;
  range.max = high;
  range.step = step;
  exact.step = whole ? 1 : "any";
  range.setAttribute("aria-label", name);
  exact.setAttribute("aria-label", name + ", exactly");
  const show = () => {
    range.value = now[chosen];
    exact.value = now[chosen];
  };
  const take = (from, to) => {
    const value = Number(from.value);
    if (from.value === "" || !Number.isFinite(value)) return;
    now[chosen] = to.value = whole ? Math.round(value) : value;
    moved(indices(chosen), now[chosen]);
  };
  range.addEventListener("input", () => take(range, exact));
  exact.addEventListener("change", () => take(exact, range));
  if (shape.length) {
    const element = make("select");
    element.setAttribute("aria-label", "the element of " + name);
    values.forEach((_, flat) => {
      const option = make("option", "", "[" + indices(flat).join(", ") + "]");
      option.value = flat;
      element.append(option);
    });
    element.addEventListener("change", () => {
      chosen = Number(element.value);
      show();
    });
    group.append(element);
  }
  group.append(range, exact);
  show();
  const set = (given) => {
    now.splice(0, now.length, ...given);
    show();
  };
  return { group, set };
}
