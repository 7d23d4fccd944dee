// A stepper for which a kernel answers (live.py): parts come when they are asked for, and arguments can be moved, which has
// the call recorded again. `tell` sends a message, `hear` is given what is to be done with those that come.
function live({ root, tell, hear }) {
  const bar = make("div", "mjw-bar mjw-arguments");
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "arguments: moving one records the call again");
  bar.hidden = true;
  const said = make("span", "mjw-said");
  said.setAttribute("role", "status");
  const waiting = new Map(); // what is done with a part that was asked for
  let made = null;
  let moved = null; // what was moved since the last question
  let asked = false; // whether the answer to one is awaited
  const setters = []; // for each argument, what shows numbers of its own again
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
    if (asked) return; // the last of what is moved meanwhile is asked for then
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
    if (bar.dataset.drawn) return; // the hand may be on a slider
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
      // what was refused is not what is shown; but the hand may have moved on
      if (!moved) (message.controls || []).forEach(({ values }, i) => setters[i](values));
      answered();
    }
  });
  tell({ kind: "page" });
}

// A slider and a field for a number among the arguments; for an array with a choice of the element before them.
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
