// The stepper: draws what widget.py computed; see there, and track.py, for the data that it is given.

// The items that a pane shows at a moment, which may be before or after the one that was asked for last. What a change
// took away is kept, to be put back.
function track(changes) {
  let items = [];
  let done = 0; // changes that have been made
  let at = 0; // the moment of the last of them
  const undone = [];
  function changed(rows, change) {
    if (!Array.isArray(change[0])) return [change, rows];
    const out = [];
    const back = [];
    let i = 0;
    for (const [kept, taken, ...put] of change) {
      out.push(...rows.slice(i, i + kept), ...put);
      back.push([kept, put.length, ...rows.slice(i + kept, i + kept + taken)]);
      i += kept + taken;
    }
    return [out.concat(rows.slice(i)), back];
  }
  return (position) => {
    while (done < changes.length && at + changes[done][0] <= position) {
      const [step, ...change] = changes[done];
      [items, undone[done]] = changed(items, change);
      at += step;
      done += 1;
    }
    while (done > 0 && at > position) {
      done -= 1;
      at -= changes[done][0];
      [items] = changed(items, undone[done]);
    }
    return items;
  };
}

function stepper(data, stage, programs, { span, segments, drawn }) {
  const { nodes, lists, parts, views } = data;

  // --- moments: "(" enters the next record, ")" leaves the innermost, "." is the next record alone
  const moments = [{ kind: "begin", node: -1, depth: 0, parent: -1, other: 0 }];
  const open = [];
  const entered = new Array(nodes.length);
  let next = 0;
  for (const sign of data.moves) {
    const index = moments.length;
    const parent = open.length ? open[open.length - 1] : -1;
    if (sign === ")") {
      const enter = open.pop();
      moments[enter].other = index;
      moments.push({ ...moments[enter], kind: "leave", other: enter });
    } else {
      entered[next] = index;
      const kind = sign === "(" ? "enter" : "event";
      moments.push({ kind, node: next, depth: open.length, parent, other: index });
      if (sign === "(") open.push(index);
      next += 1;
    }
  }
  moments.push({ kind: "end", node: -1, depth: 0, parent: -1, other: moments.length });

  const tracks = {};
  for (const [name, changes] of Object.entries(data.tracks)) tracks[name] = track(changes);
  const selections = data.programs.map(({ selected }) => track(selected));

  // --- drawing
  const textOf = (line) => segments(line).map((part) => part[1]).join("");
  // Scrolls the pane alone: scrollIntoView would move the page under the reader as well.
  const reveal = (pane, line) => {
    if (!line) return;
    const top = line.offsetTop;
    if (top < pane.scrollTop || top + line.offsetHeight > pane.scrollTop + pane.clientHeight) {
      pane.scrollTop = Math.max(0, top - pane.clientHeight / 2);
    }
  };
  // The rows of an item: of a line itself, or of a part of a list, numbered if the list has a first number.
  function rows(item) {
    if (item >= 0) return [drawn(item)];
    const [list, start, end] = parts[-1 - item];
    const [first, ...lines] = lists[list];
    return lines.slice(start, end).map((line, i) => {
      const made = drawn(line);
      if (first) made.prepend(make("span", "mjw-number", first + start + i + " "));
      return made;
    });
  }
  // Shows the items of a pane; whether they were not there already.
  const standing = {};
  function filled(name, items) {
    if (standing[name] === items) return false;
    standing[name] = items;
    panes[name].replaceChildren(...items.flatMap(rows));
    return true;
  }
  // Gives the rows with these numbers a class, and takes it from all others; the first of them.
  function marked(name, kind, numbers) {
    for (const each of panes[name].querySelectorAll("." + kind)) each.classList.remove(kind);
    const chosen = numbers.map((number) => panes[name].children[number]).filter((each) => each);
    for (const each of chosen) each.classList.add(kind);
    return chosen[0];
  }
  function drawSource() {
    const heading = tracks.heading(position).map(textOf).join("");
    titles.source.textContent = "source" + (heading && " · " + heading);
    filled("source", tracks.source(position));
    reveal(panes.source, marked("source", "mjw-now", tracks.here(position)));
  }
  function drawStack() {
    filled("stack", tracks.stack(position));
    const [working, ...used] = tracks.marks(position);
    marked("stack", "mjw-used", used);
    reveal(panes.stack, marked("stack", "mjw-now", [working]));
  }
  function drawValues() {
    // the newest are in sight
    if (filled("values", tracks.values(position))) reveal(panes.values, panes.values.lastChild);
  }
  function drawProgram() {
    const items = tracks.program(position);
    filled("program", items);
    const newest = marked("program", "mjw-now", tracks.newest(position));
    // a program that has been finished begins at the top
    if (items[0] < 0) panes.program.scrollTop = 0;
    else reveal(panes.program, newest || panes.program.lastChild);
  }
  // What an operation is given and gives, or what an event tells, in one pane; the rule's source in another.
  function drawOperation() {
    filled("operation", tracks.operation(position));
    const [view] = tracks.rule(position);
    if (filled("rule", views[view])) panes.rule.scrollTop = 0;
  }

  // --- the tree
  const treeRows = [];
  function buildTree() {
    let depth = 0;
    for (let at = 0; at < data.moves.length; at += 1) {
      const sign = data.moves[at];
      if (sign === ")") {
        depth -= 1;
        continue;
      }
      const [line, gave] = nodes[treeRows.length];
      const made = drawn(line);
      if (gave >= 0) {
        const outcome = make("span", "mjw-outcome");
        outcome.append(...segments(gave).map(span));
        made.append(outcome);
      }
      made.dataset.node = treeRows.length;
      made.setAttribute("role", "treeitem");
      made.setAttribute("aria-level", depth + 1);
      made.style.paddingLeft = Math.min(depth, 40) * 1.2 + 1.6 + "em";
      if (sign === "(") {
        if (data.moves[at + 1] !== ")") {
          const toggle = make("button", "mjw-fold", "▾");
          toggle.type = "button";
          toggle.tabIndex = -1;
          toggle.setAttribute("aria-label", "fold");
          made.prepend(toggle);
          made.setAttribute("aria-expanded", "true");
        }
        depth += 1;
      }
      treeRows.push(made);
    }
    panes.tree.replaceChildren(...treeRows);
  }
  const levelOf = (index) => moments[entered[index]].depth;
  function fold(index, closed) {
    const made = treeRows[index];
    made.setAttribute("aria-expanded", String(!closed));
    made.querySelector(".mjw-fold").textContent = closed ? "▸" : "▾";
    const own = levelOf(index);
    let below = Infinity; // rows deeper than this stay hidden: they are inside a row that is folded itself
    for (let i = index + 1; i < treeRows.length && levelOf(i) > own; i += 1) {
      if (levelOf(i) <= below) below = Infinity;
      treeRows[i].hidden = closed || below < Infinity;
      if (below === Infinity && treeRows[i].getAttribute("aria-expanded") === "false") below = levelOf(i);
    }
  }
  let currentRow = null;
  function drawTree() {
    const { kind, node, parent } = moments[position];
    for (let around = parent; around >= 0; around = moments[around].parent) {
      const index = moments[around].node;
      if (treeRows[index].getAttribute("aria-expanded") === "false") fold(index, false);
    }
    // what is still to come is faint, and does not tell its results yet
    treeRows.forEach((made, index) => {
      const { other } = moments[entered[index]];
      made.classList.toggle("mjw-later", entered[index] > position);
      made.classList.toggle("mjw-pending", other > position);
    });
    if (currentRow) {
      currentRow.classList.remove("mjw-now", "mjw-leaving");
      currentRow.removeAttribute("aria-current");
    }
    currentRow = node >= 0 ? treeRows[node] : null;
    if (currentRow) {
      currentRow.classList.add("mjw-now");
      currentRow.classList.toggle("mjw-leaving", kind === "leave");
      currentRow.setAttribute("aria-current", "step");
      reveal(panes.tree, currentRow);
    } else {
      panes.tree.scrollTop = kind === "end" ? panes.tree.scrollHeight : 0;
    }
  }

  // --- moves
  let position = 0;
  const last = moments.length - 1;
  const moves = {
    first: () => 0,
    back: () => position - 1,
    backOver: () => (moments[position].kind === "leave" ? moments[position].other : position - 1),
    backOut: () => Math.max(moments[position].parent, 0),
    into: () => position + 1,
    over: () => (moments[position].kind === "enter" ? moments[position].other : position + 1),
    out: () => (moments[position].parent >= 0 ? moments[moments[position].parent].other : last),
    last: () => last,
  };
  // where the walk along values went on from, and what is offered: pairs of a name and a moment
  const walked = [];
  let offered = [];
  function offer(pairs, word) {
    offered = pairs;
    choices.replaceChildren();
    choices.hidden = pairs.length === 0;
    if (pairs.length) choices.append(make("span", "", word));
    pairs.slice(0, 9).forEach(([name], i) => {
      const button = make("button", "", i + 1 + " " + textOf(name));
      button.type = "button";
      button.dataset.choice = i;
      button.addEventListener("click", () => pick(i));
      choices.append(button);
    });
    const more = pairs.length - 9;
    if (more > 0) choices.append(make("span", "", "and " + more + " more"));
  }
  function pick(index) {
    if (index >= Math.min(offered.length, 9)) return;
    walked.push(position);
    const [, moment] = offered[index];
    go(moment);
    stage.focus();
  }
  function walk(name, word, nothing) {
    const items = tracks[name](position);
    const pairs = [];
    for (let i = 0; i < items.length; i += 2) pairs.push([items[i], items[i + 1]]);
    offer(pairs, word);
    if (pairs.length === 1) pick(0);
    else if (pairs.length === 0) status.textContent = nothing;
  }
  const WALKS = {
    from: () => walk("from", "from", "no operand of an operation here was made in this page"),
    to: () => walk("to", "used by", "no operation of this page is given a result from here"),
    return: () => {
      if (walked.length) go(walked.pop());
      else status.textContent = "nothing to return to: “from” and “uses” go on from where they are pressed";
    },
  };
  function go(wanted) {
    position = Math.min(Math.max(wanted, 0), last);
    offer([], "");
    status.textContent = position + "/" + last + "  " + tracks.status(position).map(textOf).join("");
    slider.value = position;
    slider.setAttribute("aria-valuetext", "step " + position + " of " + last);
    for (const button of toolbar.querySelectorAll("button[data-move]")) {
      const backwards = ["first", "back", "backOver", "backOut"].includes(button.dataset.move);
      button.setAttribute("aria-disabled", String(position === (backwards ? 0 : last)));
    }
    drawTree();
    drawSource();
    drawOperation();
    drawStack();
    drawProgram();
    drawValues();
    programs.forEach(({ select }, i) => select(selections[i](position)));
  }
  function search(backwards) {
    const words = field.value.toLowerCase();
    if (!words) return;
    const step = backwards ? -1 : 1;
    for (let i = position + step; i >= 0 && i <= last; i += step) {
      const { kind, node } = moments[i];
      if (node < 0) continue;
      const [line, gave, list, own] = nodes[node];
      const came = gave >= 0 ? [gave] : [];
      // where a bind is left it tells what it came to, if it has a row of its own there
      const leaving = own >= 0 ? [own, ...came] : [];
      const told = kind === "leave" ? leaving : [line, ...came, ...(list >= 0 ? lists[list].slice(1) : [])];
      if (told.some((each) => textOf(each).toLowerCase().includes(words))) {
        go(i);
        return;
      }
    }
    status.textContent = "“" + field.value + "” does not occur " + (backwards ? "before" : "after") + " step " + position;
  }

  // --- the page
  const toolbar = make("div", "mjw-bar");
  toolbar.setAttribute("role", "toolbar");
  toolbar.setAttribute("aria-label", "steps");
  const BUTTONS = [
    ["first", "«", "to the beginning (Home)"],
    ["backOut", "⇤", "back to where the enclosing call was entered (U)"],
    ["backOver", "↑", "back over the call that ends here (arrow up)"],
    ["back", "← back", "one step back (arrow left)"],
    ["into", "→ into", "one step on, into the call (arrow right)"],
    ["over", "↓ over", "over the call (arrow down)"],
    ["out", "⇥ out", "out of the enclosing call (O)"],
    ["last", "»", "to the end (End)"],
  ];
  for (const [move, face, label] of BUTTONS) {
    const button = make("button", "", face);
    button.type = "button";
    button.title = label;
    button.dataset.move = move;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", () => go(moves[move]()));
    toolbar.append(button);
  }
  for (const [name, face, label] of [
    ["from", "from", "to where an operand of this operation was made (Enter)"],
    ["to", "uses", "to what uses its result (t)"],
    ["return", "return", "to where from or uses was pressed (Backspace)"],
  ]) {
    const button = make("button", "", face);
    button.type = "button";
    button.title = label;
    button.dataset.walk = name;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", () => WALKS[name]());
    toolbar.append(button);
  }
  const choices = make("div", "mjw-bar mjw-choices");
  choices.setAttribute("role", "group");
  choices.setAttribute("aria-label", "values to go to");
  choices.hidden = true;
  const slider = make("input", "mjw-slider");
  slider.type = "range";
  slider.min = 0;
  slider.max = last;
  slider.setAttribute("aria-label", "step");
  slider.addEventListener("input", () => go(Number(slider.value)));
  const field = make("input", "mjw-search");
  field.type = "search";
  field.placeholder = "search, Enter";
  field.setAttribute("aria-label", "search the steps: Enter finds the next, Shift-Enter the one before");
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") search(event.shiftKey);
    else if (event.key === "Escape") stage.focus();
  });
  const status = make("div", "mjw-status");
  status.setAttribute("role", "status");
  status.setAttribute("aria-live", "polite");
  toolbar.append(slider, field);
  const panes = {};
  const titles = {};
  const grid = make("div", "mjw-grid");
  for (const [name, title] of [
    ["tree", "calls"], ["source", "source"], ["operation", "operation, and why this interpreter"],
    ["stack", "stack and live tracers"], ["rule", "rule"], ["program", "jaxpr so far"],
    ["values", "values"],
  ]) {
    const section = make("section", "mjw-pane mjw-" + name);
    section.setAttribute("aria-label", title);
    titles[name] = make("div", "mjw-title", title);
    panes[name] = make("div", "mjw-scroll");
    panes[name].tabIndex = 0;
    panes[name].dataset.pane = name;
    section.append(titles[name], panes[name]);
    grid.append(section);
  }
  panes.tree.setAttribute("role", "tree");
  panes.tree.addEventListener("click", (event) => {
    const line = event.target.closest("[data-node]");
    if (!line) return;
    const index = Number(line.dataset.node);
    if (event.target.classList.contains("mjw-fold")) fold(index, line.getAttribute("aria-expanded") === "true");
    else go(entered[index]);
  });
  stage.append(toolbar, status, choices, grid);
  if (data.note >= 0) stage.append(drawn(data.note, "mjw-note"));
  stage.setAttribute("role", "group");
  stage.setAttribute("aria-label", "stepper: arrow keys step, / searches");
  const KEYS = {
    ArrowRight: "into", ArrowLeft: "back", ArrowDown: "over", ArrowUp: "backOver", Home: "first", End: "last",
    i: "into", b: "back", o: "out", n: "over", u: "backOut", U: "backOut", O: "out",
  };
  stage.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
    if (event.key === "/") field.focus();
    else if (KEYS[event.key]) go(moves[KEYS[event.key]]());
    else if (event.key === "Enter" && event.target.tagName !== "BUTTON") WALKS.from();
    else if (event.key === "t") WALKS.to();
    else if (event.key === "Backspace") WALKS.return();
    else if (event.key === "Escape" && offered.length) offer([], "");
    else if (offered.length && "123456789".includes(event.key)) pick(Number(event.key) - 1);
    else return;
    event.preventDefault();
  });
  return () => {
    buildTree();
    go(data.start);
  };
}
