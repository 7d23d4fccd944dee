// The stepper: see widget.py for the data that it is given.

// what a record is, as widget.py numbers them
const BIND = 0, SCOPE = 1, EQUATION = 2, PROGRAM = 4;

function stepper(data, stage, programs, { span, segments, row, drawn }) {
  const { strings, nodes, rules, sources, places, lives } = data;

  // --- moments: "(" enters the next record, ")" leaves the innermost, "." is the next record alone
  const moments = [{ kind: "begin", node: -1, depth: 0, parent: -1, other: 0, at: 0 }];
  const open = [];
  const entered = new Array(nodes.length);
  let next = 0;
  for (const sign of data.moves) {
    const index = moments.length;
    const parent = open.length ? open[open.length - 1] : -1;
    if (sign === ")") {
      const enter = open.pop();
      const node = moments[enter].node;
      moments[enter].other = index;
      moments.push({ ...moments[enter], kind: "leave", other: enter, at: nodes[node][2] });
    } else {
      entered[next] = index;
      const kind = sign === "(" ? "enter" : "event";
      moments.push({ kind, node: next, depth: open.length, parent, other: index, at: nodes[next][1] });
      if (sign === "(") open.push(index);
      next += 1;
    }
  }
  moments.push({ kind: "end", node: -1, depth: 0, parent: -1, other: moments.length, at: data.end });

  const equations = new Map(); // scope -> indices of its equations, in order
  nodes.forEach((node, index) => {
    if (node[0] !== EQUATION) return;
    const [scope] = node[6];
    if (!equations.has(scope)) equations.set(scope, []);
    equations.get(scope).push(index);
  });
  const living = new Map(); // scope -> its tracers, in the order of their births
  for (const life of lives) {
    if (!living.has(life[0])) living.set(life[0], []);
    living.get(life[0]).push(life);
  }

  // What Cursor.state gives in Python.
  function state(position) {
    const moment = moments[position];
    const path = [];
    for (let p = moment.parent; p >= 0; p = moments[p].parent) path.unshift(moments[p].node);
    if (moment.kind === "enter" || moment.kind === "leave") path.push(moment.node);
    let stack = data.base;
    let scopes = data.base.map((_, level) => -level || 0);
    const subjects = new Map();
    let bind = -1;
    let place = -1;
    let rule = -1; // of the innermost bind, or of a backward pass in it
    for (const index of path) {
      const [kind, at, , , where, , extra, loose] = nodes[index];
      if (kind === SCOPE) {
        stack = extra[1];
        scopes = scopes.slice(0, extra[0]).concat(at);
        subjects.set(extra[2], extra[3]);
        if (loose >= 0) rule = loose;
      } else {
        bind = index;
        rule = extra[1];
      }
      if (where >= 0) place = where;
    }
    if (moment.kind === "event" && nodes[moment.node][7] >= 0) rule = nodes[moment.node][7];
    if (moment.node >= 0 && nodes[moment.node][4] >= 0) place = nodes[moment.node][4];
    const levels = stack.map((label, level) => {
      const scope = level < scopes.length ? scopes[level] : null;
      const tracers = (living.get(scope) || []).filter(
        (life) => life[1] <= moment.at && (life[2] < 0 || life[2] > moment.at));
      const built = (equations.get(scope) || []).filter((index) => nodes[index][1] <= moment.at);
      return { label, tracers, equations: built, subject: subjects.has(label) ? strings[subjects.get(label)] : "" };
    });
    return { moment, path, bind, place, rule, levels };
  }

  // --- drawing
  const textOf = (line) => segments(line).map((part) => part[1]).join("");
  const fill = (pane, rows, otherwise) => {
    pane.replaceChildren(...(rows.length ? rows : [row([["muted", otherwise || ""]])]));
  };
  // Scrolls the pane alone: scrollIntoView would move the page under the reader as well.
  const reveal = (pane, line) => {
    if (!line) return;
    const top = line.offsetTop;
    if (top < pane.scrollTop || top + line.offsetHeight > pane.scrollTop + pane.clientHeight) {
      pane.scrollTop = Math.max(0, top - pane.clientHeight / 2);
    }
  };

  function numbered(source) {
    const [first, listed] = sources[source];
    const width = String(first + listed.length - 1).length;
    return listed.map((each, i) => {
      const made = drawn(each);
      made.prepend(make("span", "mjw-number", String(first + i).padStart(width) + " "));
      return made;
    });
  }

  let shownSource = null;
  function drawSource(now) {
    const pane = panes.source;
    const [text, source, line] = now.place >= 0 ? places[now.place] : [-1, -1, 0];
    titles.source.textContent = "source" + (text >= 0 ? " · " + strings[text] : "");
    if (source < 0) {
      fill(pane, [], text >= 0 ? "its source was not kept" : "no line of yours is being run here");
      shownSource = null;
      return;
    }
    if (source !== shownSource) fill(pane, numbered(source));
    shownSource = source;
    for (const each of pane.querySelectorAll(".mjw-now")) each.classList.remove("mjw-now");
    const current = pane.children[line - sources[source][0]];
    if (current) current.classList.add("mjw-now");
    reveal(pane, current);
  }

  function drawStack(now) {
    const rows = [];
    const working = now.bind >= 0 ? nodes[now.bind][6] : null;
    for (let depth = now.levels.length - 1; depth >= 0; depth -= 1) {
      const { label, tracers, subject } = now.levels[depth];
      const alive = depth ? " · " + plural(tracers.length, "tracer") + " alive" : "";
      const head = row([["level", strings[label]], ["muted", subject + alive]]);
      if (working && working[3] === label) head.classList.add("mjw-now");
      rows.push(head);
      const older = tracers.length - data.mostTracers;
      if (older > 0) rows.push(row([["muted", "... " + older + " older ones"]], "mjw-in"));
      for (const life of tracers.slice(Math.max(older, 0))) {
        const used = working && life[4] && working[2].includes(life[4]);
        rows.push(drawn(life[3], "mjw-in" + (used ? " mjw-used" : "")));
      }
    }
    fill(panes.stack, rows);
    reveal(panes.stack, panes.stack.querySelector(".mjw-now"));
  }

  function drawProgram(now) {
    const rows = [];
    const { node, at } = now.moment;
    if (node >= 0 && nodes[node][0] === PROGRAM) rows.push(...nodes[node][6].map((line) => drawn(line)));
    let newest = null;
    for (const { label, equations: built } of [...now.levels].reverse()) {
      if (!built.length) continue;
      rows.push(row([["level", strings[label]], ["muted", " has recorded " + plural(built.length, "equation")]]));
      const width = String(built.length).length;
      const cut = Math.max(built.length - data.mostEquations, 0);
      if (cut) rows.push(row([["muted", "... " + plural(cut, "earlier equation")]]));
      built.slice(cut).forEach((index, i) => {
        const made = drawn(nodes[index][6][1]);
        made.prepend(make("span", "mjw-number", String(cut + i + 1).padStart(width) + " "));
        if (nodes[index][1] === at) {
          made.classList.add("mjw-now");
          newest = made;
        }
        rows.push(made);
      });
    }
    fill(panes.program, rows, "no equation has been recorded here");
    if (node >= 0 && nodes[node][0] === PROGRAM) panes.program.scrollTop = 0;
    else reveal(panes.program, newest || panes.program.lastChild);
  }

  // What an operation is given and gives, or what an event tells, in one pane; the rule's source in another.
  function drawOperation(now) {
    const { node, kind } = now.moment;
    const listed = [];
    if (kind === "event") listed.push(...nodes[node][5]);
    if (now.bind >= 0) {
      listed.push(...nodes[now.bind][5]);
      if (kind === "leave" && node === now.bind) listed.push(...nodes[node][6][0]);
    }
    fill(panes.operation, listed.map((line) => drawn(line)), "no operation is under way here");
    if (now.rule === shownRule) return;
    shownRule = now.rule;
    const rows = [];
    if (now.rule >= 0) {
      const [heading, source] = rules[now.rule];
      rows.push(...heading.map((line) => drawn(line)));
      if (source >= 0) rows.push(...numbered(source));
    }
    fill(panes.rule, rows, "no rule is being applied here");
    panes.rule.scrollTop = 0;
  }
  let shownRule = null;

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
      const node = nodes[treeRows.length];
      const made = drawn(node[3]);
      if (node[0] === BIND && node[6][4] >= 0) {
        const outcome = make("span", "mjw-outcome");
        outcome.append(...segments(node[6][4]).map(span));
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
    fill(panes.tree, treeRows, "nothing was recorded");
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
  function drawTree(now) {
    for (const index of now.path) {
      if (index !== now.moment.node && treeRows[index].getAttribute("aria-expanded") === "false") fold(index, false);
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
    currentRow = now.moment.node >= 0 ? treeRows[now.moment.node] : null;
    if (currentRow) {
      currentRow.classList.add("mjw-now");
      currentRow.classList.toggle("mjw-leaving", now.moment.kind === "leave");
      currentRow.setAttribute("aria-current", "step");
      reveal(panes.tree, currentRow);
    } else {
      panes.tree.scrollTop = now.moment.kind === "end" ? panes.tree.scrollHeight : 0;
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
  const tell = ({ kind, node }) => {
    if (node < 0) return kind !== "end" ? "the beginning" : data.note < 0 ? "the end" : textOf(data.note);
    const { 0: type, 3: said, 6: extra } = nodes[node];
    if (kind === "event") return textOf(said);
    if (type === SCOPE) return (kind === "enter" ? "into " : "done ") + strings[extra[2]] + strings[extra[3]];
    if (kind === "enter") return "into " + textOf(said);
    return "done " + textOf(said) + (type === BIND && extra[4] >= 0 ? textOf(extra[4]) : "");
  };
  function go(wanted) {
    position = Math.min(Math.max(wanted, 0), last);
    const now = state(position);
    const { node } = now.moment;
    status.textContent = position + "/" + last + "  " + tell(now.moment);
    slider.value = position;
    slider.setAttribute("aria-valuetext", "step " + position + " of " + last);
    for (const button of toolbar.querySelectorAll("button[data-move]")) {
      const backwards = ["first", "back", "backOver", "backOut"].includes(button.dataset.move);
      button.setAttribute("aria-disabled", String(position === (backwards ? 0 : last)));
    }
    drawTree(now);
    drawSource(now);
    drawOperation(now);
    drawStack(now);
    drawProgram(now);
    for (const { at, names, select } of programs) {
      const here = at[now.place] || [];
      const known = node >= 0 ? nodes[node][6] : [];
      const primitive = node < 0 ? -1 : nodes[node][0] === BIND ? known[5] : nodes[node][0] === EQUATION ? known[2] : -1;
      const own = here.filter((number) => names[number] === primitive);
      select(own.length ? own : here);
    }
  }
  function search(backwards) {
    const words = field.value.toLowerCase();
    if (!words) return;
    const step = backwards ? -1 : 1;
    for (let i = position + step; i >= 0 && i <= last; i += step) {
      const { kind, node } = moments[i];
      if (node < 0 || kind === "leave") continue;
      const known = nodes[node];
      const outcome = known[0] === BIND && known[6][4] >= 0 ? [known[6][4]] : [];
      if ([known[3], ...known[5], ...outcome].some((line) => textOf(line).toLowerCase().includes(words))) {
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
  stage.append(toolbar, status, grid);
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
    else return;
    event.preventDefault();
  });
  return () => {
    buildTree();
    go(data.start);
  };
}
