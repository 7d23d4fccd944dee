// The stepper: draws the data that widget.py has computed. page.py describes the format of changes.

// The items of a pane at a moment. Moments may be requested in any order; removed items are kept, to undo a change.
function track(changes) {
  let items = [];
  let done = 0; // number of changes made
  let at = 0; // the moment of the last change made
  const undone = [];
  function change([kept, taken, ...put]) {
    const removed = items.slice(kept, kept + taken);
    items = [...items.slice(0, kept), ...put, ...items.slice(kept + taken)];
    return [kept, put.length, ...removed];
  }
  return (position) => {
    while (done < changes.length && at + changes[done][0] <= position) {
      const [step, ...wanted] = changes[done];
      undone[done] = change(wanted);
      at += step;
      done += 1;
    }
    while (done > 0 && at > position) {
      done -= 1;
      at -= changes[done][0];
      change(undone[done]);
    }
    return items;
  };
}

// Maximum number of parts kept in memory.
const MOST_READ = 6;

// If a process makes the parts, `port` requests missing ones.
function stepper(data, stage, programs, drawnOutside, port) {
  // --- moments: "(" enters the next record, ")" leaves the innermost, "." is the next record alone
  const moments = [{ kind: "begin", parent: -1, other: 0 }];
  const open = [];
  for (const sign of data.moves) {
    const index = moments.length;
    const parent = open.length ? open[open.length - 1] : -1;
    if (sign === ")") {
      const enter = open.pop();
      moments[enter].other = index;
      moments.push({ ...moments[enter], kind: "leave", other: enter });
    } else {
      moments.push({ kind: sign === "(" ? "enter" : "event", parent, other: index });
      if (sign === "(") open.push(index);
    }
  }
  moments.push({ kind: "end", parent: -1, other: moments.length });
  // the number of a page's moment in the whole recording
  function numberOf(index) {
    const [place, number] = data.numbers.findLast((each) => each[0] <= index);
    return number + index - place;
  }

  // --- the parts of the page, each read on demand
  const read = new Map();
  const waiting = new Map(); // the callback of each part that was requested
  // The part with a moment. If it is missing, requests it, returns null, and calls `then` once it is there.
  function partAt(index, then) {
    const entry = data.parts.findLast((each) => each[0] <= index);
    const [begin, packed] = entry;
    let found = read.get(begin);
    if (!found && packed === null) {
      if (!waiting.has(begin)) {
        port.part(begin, (text, now) => {
          entry[1] = text;
          choosing.extend(now);
          const next = waiting.get(begin);
          waiting.delete(begin);
          next();
        });
      }
      waiting.set(begin, then);
      return null;
    }
    if (!found) {
      const made = JSON.parse(inflated(packed));
      const tracks = {};
      for (const [name, changes] of Object.entries(made.tracks)) tracks[name] = track(changes);
      found = { ...made, begin, tracks, ...drawing(made) };
      found.linesOf = linesOf(found);
    }
    // drop the part that was used least recently
    read.delete(begin);
    read.set(begin, found);
    if (read.size > MOST_READ) read.delete(read.keys().next().value);
    return found;
  }
  const choosing = chooser(data.choices, () => {
    for (const name of Object.keys(standing)) delete standing[name];
    draw();
  });
  let part = null; // the part with the current moment
  const shown = (name) => part.tracks[name](position - part.begin);
  const selections = data.programs.map(({ selected }) => track(selected));

  // --- drawing
  // The lines of an item: a line, a block of lines, or the block of the current choices.
  function linesOf({ blocks }) {
    const lines = (item) => {
      if (item >= 0) return { first: 0, lines: [item] };
      const [first, ...rest] = blocks[-1 - item];
      return Array.isArray(first) ? lines(rest[0][choosing.chosen(first)]) : { first, lines: rest };
    };
    return lines;
  }
  const textIn = (own, item) =>
    own.linesOf(item).lines.map((line) => own.segments(line).map((piece) => piece[1]).join("")).join("\n");
  const textOf = (item) => textIn(part, item);
  // Scrolls only the pane; scrollIntoView would scroll the page too.
  const reveal = (pane, line) => {
    if (!line) return;
    const top = line.offsetTop;
    if (top < pane.scrollTop || top + line.offsetHeight > pane.scrollTop + pane.clientHeight) {
      pane.scrollTop = Math.max(0, top - pane.clientHeight / 2);
    }
  };
  // The rows of an item, with numbers if it has a first number.
  function rows(item) {
    const { first, lines } = part.linesOf(item);
    return lines.map((line, i) => {
      const made = part.drawn(line);
      if (first) made.prepend(make("span", "mjw-number", first + i + " "));
      return made;
    });
  }
  // Shows the items of a pane. Returns whether they changed. Rows that stay are not drawn again.
  const standing = {};
  function filled(name, items, made = rows) {
    const old = standing[name] || { items: [], rows: [] };
    if (old.items === items) return false;
    const pane = panes[name];
    if (!standing[name]) pane.replaceChildren();
    const least = Math.min(old.items.length, items.length);
    let head = 0;
    while (head < least && old.items[head] === items[head]) head += 1;
    let tail = 0;
    while (tail < least - head && old.items.at(-1 - tail) === items.at(-1 - tail)) tail += 1;
    const kept = old.rows.slice(old.rows.length - tail);
    for (const row of old.rows.slice(head, old.rows.length - tail).flat()) row.remove();
    const fresh = items.slice(head, items.length - tail).map(made);
    const next = kept.flat()[0];
    for (const row of fresh.flat()) pane.insertBefore(row, next || null);
    standing[name] = { items, rows: [...old.rows.slice(0, head), ...fresh, ...kept] };
    return true;
  }
  // Gives only these rows of a pane a class. Returns the first of them.
  function marked(name, kind, numbers) {
    for (const each of panes[name].querySelectorAll("." + kind)) each.classList.remove(kind);
    const chosen = numbers.map((number) => panes[name].children[number]).filter((each) => each);
    for (const each of chosen) each.classList.add(kind);
    return chosen[0];
  }
  // Draws a pane with its marks. Some panes end with the newest line: they show their end if no line is marked.
  function drawPane(name) {
    const changed = filled(name, shown(name));
    const first = marked(name, "mjw-now", shown("now " + name));
    marked(name, "mjw-used", shown("used " + name));
    if (name === "rule" && changed) panes.rule.scrollTop = 0;
    reveal(panes[name], first || (name === "program" || name === "values" ? panes[name].lastChild : null));
  }
  function drawOffers() {
    const items = shown("offers");
    const offers = [];
    for (let i = 0; i < items.length; i += 3) offers.push([items[i], textOf(items[i + 1]), Number(textOf(items[i + 2]))]);
    choosing.draw(offers);
  }

  // --- the tree: the rows around the moment, as in the terminal
  function drawTree() {
    const items = shown("tree");
    const [current] = shown("now tree");
    filled("tree", items, (item) => [treeRow(item)]);
    marked("tree", "mjw-leaving", moments[position].kind === "leave" ? [current] : []);
    for (const each of panes.tree.querySelectorAll("[aria-current]")) each.removeAttribute("aria-current");
    const row = marked("tree", "mjw-now", [current]);
    row.setAttribute("aria-current", "step");
    reveal(panes.tree, row);
  }
  function treeRow(item) {
    const [line, depth, moment, closed] = part.rows[item];
    const made = part.drawn(line);
    made.dataset.moment = moment;
    made.setAttribute("role", "treeitem");
    made.setAttribute("aria-level", depth + 1);
    made.style.paddingLeft = Math.min(depth, 30) * 1.2 + 1.6 + "em";
    if (moment < 0) made.title = "not in this page";
    if (!closed) return made;
    made.setAttribute("aria-expanded", "false");
    if (moment >= 0) {
      const opening = make("button", "mjw-fold", "▸");
      opening.type = "button";
      opening.tabIndex = -1;
      opening.setAttribute("aria-label", "step into it");
      made.prepend(opening);
    }
    return made;
  }

  // --- moves
  let position = 0; // the current moment
  let wish = 0; // the moment requested last; its part may be missing yet
  const last = moments.length - 1;
  const ahead = () => (moments[wish].kind === "enter" ? moments[wish].other : wish + 1);
  const moves = {
    first: () => 0,
    back: () => wish - 1,
    backOver: () => (moments[wish].kind === "leave" ? moments[wish].other : wish - 1),
    backOut: () => Math.max(moments[wish].parent, 0),
    into: () => wish + 1,
    // skip everything in the current row of the tree
    over: () => (wish === position ? shown("past")[0] : undefined) ?? ahead(),
    out: () => (moments[wish].parent >= 0 ? moments[moments[wish].parent].other : last),
    last: () => last,
  };
  // the starting moments of the walk along values, and its choices as [name, moment]
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
    const items = shown(name);
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
    const target = (wish = Math.min(Math.max(wanted, 0), last));
    const found = partAt(target, () => {
      if (wish === target) go(target);
    });
    if (!found) {
      status.textContent = numberOf(target) + "/" + data.last + "  the kernel is asked for this step";
      return;
    }
    position = target;
    const before = part;
    part = found;
    // numbers of lines are valid only within one part
    if (part !== before) for (const name of Object.keys(standing)) delete standing[name];
    offer([], "");
    draw();
  }
  function draw() {
    const number = numberOf(position);
    const words = shown("status").map(textOf).join("") || note;
    status.textContent = number + "/" + data.last + "  " + words;
    slider.value = position;
    slider.setAttribute("aria-valuetext", "step " + number + " of " + data.last);
    for (const button of toolbar.querySelectorAll("button[data-move]")) {
      const backwards = ["first", "back", "backOver", "backOut"].includes(button.dataset.move);
      button.setAttribute("aria-disabled", String(position === (backwards ? 0 : last)));
    }
    drawTree();
    for (const name of Object.keys(panes)) if (name !== "tree") drawPane(name);
    // the place of the source is in the title
    const heading = shown("source").length > 1 ? panes.source.firstChild : null;
    titles.source.textContent = "source" + (heading ? " · " + heading.textContent : "");
    if (heading) heading.hidden = true;
    drawOffers();
    if (data.devices) panes.devices.parentElement.hidden = shown("devices").length === 0;
    programs.forEach(({ select }, i) => select(selections[i](position)));
  }
  function search(backwards, from = position + (backwards ? -1 : 1)) {
    const words = field.value.toLowerCase();
    if (!words) return;
    const step = backwards ? -1 : 1;
    for (let i = from; i >= 0 && i <= last; i += step) {
      const own = partAt(i, () => search(backwards, i));
      if (!own) {
        status.textContent = "looking for “" + field.value + "” from step " + numberOf(i) + " on";
        return;
      }
      if (own.found[i - own.begin].some((item) => textIn(own, item).toLowerCase().includes(words))) {
        go(i);
        return;
      }
    }
    status.textContent = "“" + field.value + "” does not occur " + (backwards ? "before" : "after") + " step " + numberOf(position);
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
  // further typing cancels a search that waits for a part
  field.addEventListener("input", () => waiting.forEach((_, begin) => waiting.set(begin, () => go(wish))));
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
    ["values", "values"], ...(data.devices ? [["devices", "devices side by side"]] : []),
  ]) {
    const section = make("section", "mjw-pane mjw-" + name);
    section.setAttribute("aria-label", title);
    titles[name] = make("div", "mjw-title", title);
    panes[name] = make("div", "mjw-scroll");
    panes[name].tabIndex = 0;
    panes[name].dataset.pane = name;
    section.append(titles[name], panes[name]);
    if (name === "values") titles.values.append(choosing.box);
    grid.append(section);
  }
  panes.tree.setAttribute("role", "tree");
  panes.tree.addEventListener("click", (event) => {
    const line = event.target.closest("[data-moment]");
    if (!line) return;
    const moment = Number(line.dataset.moment);
    if (moment < 0) status.textContent = "that step is not in this page" + (note ? ": " + note : "");
    else go(moment + event.target.classList.contains("mjw-fold"));
  });
  stage.append(toolbar, status, choices, grid);
  const outside = data.note >= 0 ? drawnOutside(data.note, "mjw-note") : null;
  const note = outside ? outside.textContent : "";
  if (outside) stage.append(outside);
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
    else if (choosing.pressed(event.key, (words) => (status.textContent = words))) stage.focus({ preventScroll: true });
    else return;
    event.preventDefault();
  });
  return { begin: () => go(data.start), moment: () => numberOf(position) };
}
