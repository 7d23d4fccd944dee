// A program on its way to machine code: the user's lines, and the chosen stage beside them. A chosen line marks the
// lines for the same user lines in all stages. stages_page.py has computed the content of the stages.

// The changes that turn the list `a` into `b`: ["-", i], ["+", j] and [" ", i, j], in order. Source: Myers, "An O(ND)
// difference algorithm and its variations", 1986. Beyond MOST_CHANGES, everything is removed and added.
const MOST_CHANGES = 800;
function changes(a, b) {
  let from = 0;
  let [toA, toB] = [a.length, b.length];
  while (from < toA && from < toB && a[from] === b[from]) from += 1;
  while (toA > from && toB > from && a[toA - 1] === b[toB - 1]) [toA, toB] = [toA - 1, toB - 1];
  const out = [];
  for (let i = 0; i < from; i += 1) out.push([" ", i, i]);
  out.push(...between(a.slice(from, toA), b.slice(from, toB)).map(([sign, i, j]) => [sign, i + from, j + from]));
  for (let i = toA; i < a.length; i += 1) out.push([" ", i, i - toA + toB]);
  return out;
}
function between(a, b) {
  const reach = [{ 1: 0 }]; // for each number of changes: how far each diagonal reaches in `a`
  let steps = 0;
  search: for (; ; steps += 1) {
    if (steps > MOST_CHANGES) return [...a.map((_, i) => ["-", i, 0]), ...b.map((_, j) => ["+", 0, j])];
    const last = reach[steps];
    const now = {};
    for (let k = -steps; k <= steps; k += 2) {
      const down = k === -steps || (k !== steps && (last[k - 1] ?? -1) < (last[k + 1] ?? -1));
      let i = down ? last[k + 1] : last[k - 1] + 1;
      while (i < a.length && i - k < b.length && a[i] === b[i - k]) i += 1;
      now[k] = i;
      if (i >= a.length && i - k >= b.length) break search;
    }
    reach.push(now);
  }
  const out = [];
  let [i, j] = [a.length, b.length];
  for (let step = steps; step >= 0; step -= 1) {
    const last = reach[step];
    const k = i - j;
    const down = k === -step || (k !== step && (last[k - 1] ?? -1) < (last[k + 1] ?? -1));
    const before = step ? (down ? last[k + 1] : last[k - 1]) : 0;
    const beforeJ = step ? before - (down ? k + 1 : k - 1) : 0;
    while (i > before && j > beforeJ) out.push([" ", (i -= 1), (j -= 1)]);
    if (step) out.push(down ? ["+", i, (j -= 1)] : ["-", (i -= 1), j]);
  }
  return out.reverse();
}

// `1–3, 8`
function ranges(numbers) {
  const parts = [];
  for (const number of [...new Set(numbers)].sort((a, b) => a - b)) {
    const last = parts[parts.length - 1];
    if (last && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([from, to]) => (from === to ? String(from) : from + "–" + to)).join(", ");
}

// Number of unchanged lines shown around a change.
const AROUND = 2;
const LINE_COLOURS = 8;
// Maximum number of characters for the equations of a fused instruction.
const MOST_NAMES = 40;
const MEANT = "choose a line: what belongs to the same line of yours is marked in every stage";

function browser({ title, files, spots, equations, stages, packed: text }, box) {
  const kept = JSON.parse(inflated(text));
  // the mark of each file's lines; the main file has no name in its mark
  const prefixes = files.map(([name, main]) => (main ? "L" : name.replace(/\.py$/, "") + ":"));
  const { drawn } = drawing(kept);
  const lines = kept.rows.map((flat) => {
    const out = [];
    for (let i = 0; i < flat.length; i += 6) {
      const [own, held] = kept.links[flat[i + 2]];
      const [note, xla, mark, sign] = kept.notes[flat[i + 3]];
      const name = flat[i + 4] < 0 ? "" : kept.strings[flat[i + 4]];
      out.push({ line: flat[i], number: flat[i + 1], own, held, note, xla, mark, sign, name, holds: flat[i + 5] });
    }
    return out;
  });
  // for each stage, the number of lines for each user line
  const counts = lines.map((rows) => {
    const found = new Map();
    for (const { own } of rows) for (const spot of own) found.set(spot, (found.get(spot) || 0) + 1);
    return found;
  });

  // --- the mark and the text of a line
  function marked(own) {
    const grouped = new Map();
    for (const spot of own) grouped.set(spots[spot][0], [...(grouped.get(spots[spot][0]) || []), spots[spot][1]]);
    return [...grouped].map(([file, found]) => prefixes[file] + ranges(found)).join(" ");
  }
  function markOf({ own, mark, sign }) {
    return own.length ? sign.join(marked(own)) : mark;
  }
  function told({ held, note, name }) {
    const found = new Map();
    const where = new Set();
    for (const [primitive, file, line] of held.map((number) => equations[number - 1])) {
      const key = line ? file + ":" + line : "";
      if (line) where.add(file);
      if (!found.has(key)) found.set(key, [file, line, new Set()]);
      found.get(key)[2].add(primitive);
    }
    const parts = [...found.values()].map(([file, line, names]) => {
      const place = where.size > 1 ? files[file]?.[0] + ":" + line : "line " + line;
      return [...names].join(", ") + (line ? " of " + place : "");
    });
    const said = [parts.join("; "), note].filter(Boolean).join(" · ");
    return name && said ? name + " = " + said : said;
  }

  // `tanh, mul +2`
  function names(held) {
    const found = [...new Set(held.map((number) => equations[number - 1][0]))];
    for (let count = found.length; count > 0; count -= 1) {
      const more = count < found.length ? " +" + (found.length - count) : "";
      const said = found.slice(0, count).join(", ") + more;
      if (said.length <= MOST_NAMES || count === 1) return said;
    }
    return "";
  }

  // --- panes
  const bar = make("div", "mjw-bar");
  const status = make("div", "mjw-status mjw-told", MEANT);
  status.setAttribute("role", "status");
  status.setAttribute("aria-live", "polite");
  const grid = make("div", "mjw-browse");
  function pane(name, label) {
    const section = make("section", "mjw-pane " + name);
    const head = make("div", "mjw-title", label);
    const scroll = make("div", "mjw-scroll");
    scroll.setAttribute("role", "listbox");
    scroll.setAttribute("aria-label", label);
    scroll.tabIndex = 0;
    section.append(head, scroll);
    grid.append(section);
    return { section, head, scroll, rows: [] };
  }
  const python = pane("mjw-yours", "your lines");
  const choice = pane("mjw-stages", "stages · ● changes or holds the chosen line, ○ leaves it");
  const view = pane("mjw-view", "stage");
  let chosen = []; // the chosen user lines
  let from = null; // the line that the reader clicked
  let at = -1; // the current stage
  let way = "changes"; // how a stage with a previous stage is shown

  function rowOf(where, stage, index, sign) {
    const each = lines[stage][index];
    const made = drawn(each.line);
    const stripes = make("span", "mjw-stripes");
    stripes.setAttribute("aria-hidden", "true");
    for (const spot of each.own.slice(0, 3)) stripes.append(span(["line-" + (spot % LINE_COLOURS), "▌"]));
    const mark = make("span", "mjw-mark", markOf(each));
    if (each.own.length && !each.xla) mark.classList.add("mj-line-" + (each.own[0] % LINE_COLOURS));
    else mark.classList.add(each.xla ? "mj-warning" : "mj-muted");
    const number = make("span", "mjw-number", String(each.number).padStart(4) + " ");
    if (sign) {
      const role = { "-": "error", "+": "good" }[sign] || "muted";
      made.prepend(span([role, sign + " "]));
      made.dataset.sign = sign;
    }
    made.prepend(stripes, mark, number);
    if (each.holds) made.append(make("span", "mjw-holds mj-muted", "  = " + names(each.held)));
    made.setAttribute("role", "option");
    made.setAttribute("aria-selected", "false");
    made.title = told(each);
    const row = { made, each, stage, index, where };
    if (each.own.length || made.title) {
      made.classList.add("mjw-link");
      made.addEventListener("click", () => choose(row));
    }
    if (each.own.length) {
      made.addEventListener("mouseenter", () => touch(each.own));
      made.addEventListener("mouseleave", () => touch([]));
    }
    where.rows.push(row);
    where.scroll.append(made);
    return row;
  }
  function touch(own) {
    for (const { rows } of [python, view]) {
      for (const { made, each } of rows) {
        made.classList.toggle("mjw-touch", each.own.some((spot) => own.includes(spot)));
      }
    }
  }
  // Marks the lines for the chosen user lines, and reveals the first one, except in the pane `still`.
  function paint(still) {
    for (const where of [python, view]) {
      let first = null;
      for (const { made, each } of where.rows) {
        const hit = each.own.some((spot) => chosen.includes(spot));
        made.classList.toggle("mjw-now", hit);
        made.setAttribute("aria-selected", String(hit));
        if (hit && !made.hidden && !first) first = made;
      }
      if (first && where !== still) reveal(where.scroll, first);
    }
    items.forEach(({ dot, stage }) => {
      const here = chosen.some((spot) => counts[stage].has(spot));
      dot.textContent = changed(stage) || (here && stages[stage][2] !== "pass") ? "● " : here ? "○ " : "  ";
    });
    say();
  }
  const changed = (stage) => stages[stage][6].some((spot) => chosen.includes(spot));
  function reveal(scroll, made) {
    const [top, sight] = [made.offsetTop, scroll.scrollTop];
    if (top < sight || top > sight + scroll.clientHeight - 20) {
      scroll.scrollTop = Math.max(0, top - scroll.clientHeight / 3);
    }
  }
  function say() {
    if (!from) {
      status.textContent = MEANT;
      return;
    }
    const here = lines[at].filter(({ own }) => own.some((spot) => chosen.includes(spot))).length;
    const among = counts.filter((found) => chosen.some((spot) => found.has(spot))).length;
    const by = stages.filter((_, stage) => changed(stage)).length;
    // the user lines of lines that were cut are unknown
    const least = stages.some((each) => each[5]) ? "at least " : "";
    const where = chosen.length
      ? plural(here, "line") + " here, in " + least + among + " of " + stages.length + " stages, changed by " + by
      : "";
    status.textContent = [markOf(from), where, told(from)].filter(Boolean).join(" · ");
    status.title = status.textContent;
  }
  function choose(row) {
    if (!row) return;
    from = row.each;
    chosen = row.each.own;
    paint(row.where);
    for (const where of [python, view]) for (const { made } of where.rows) made.classList.toggle("mjw-at", made === row.made);
    reveal(row.where.scroll, row.made);
  }
  for (const where of [python, view]) {
    where.scroll.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
      const own = where.rows.filter(({ made, each }) => !made.hidden && each.own.length);
      const now = own.findIndex(({ made }) => made.classList.contains("mjw-at"));
      choose(own[Math.min(Math.max(now < 0 ? 0 : now + step, 0), own.length - 1)]);
      event.preventDefault();
    });
  }

  // --- the chosen stage
  function show(stage) {
    at = stage;
    const [, name, kind, detail, previous, cut] = stages[stage];
    const label = (kind === "llvm" ? "LLVM IR of " : kind === "machine" ? "machine code of " : "") + name;
    view.head.textContent = label + (detail ? " · " + detail : "");
    view.scroll.setAttribute("aria-label", label);
    view.rows = [];
    view.scroll.replaceChildren();
    view.scroll.scrollTop = 0;
    if (previous >= 0 && way === "changes") {
      showChanges(previous, stage);
    } else {
      const shown = previous >= 0 && way === "before" ? previous : stage;
      lines[shown].forEach((_, index) => rowOf(view, shown, index, ""));
    }
    if (cut) view.scroll.append(make("div", "mjw-line mj-muted", "… " + cut));
    for (const each of items) {
      each.made.setAttribute("aria-selected", String(each.stage === stage));
      each.made.classList.toggle("mjw-now", each.stage === stage);
      if (each.stage === stage) reveal(choice.scroll, each.made);
    }
    ways.hidden = previous < 0;
    ways.querySelectorAll("button").forEach((each) => {
      each.setAttribute("aria-pressed", String(each.dataset.way === way));
    });
    paint(null);
  }
  function showChanges(previous, stage) {
    const ids = [previous, stage].map((each) => lines[each].map(({ line }) => line));
    const found = changes(...ids);
    // differences at the end may come from the cut
    let open = 0;
    const cutOff = stages[previous][5] || stages[stage][5];
    while (cutOff && found.length && found[found.length - 1][0] !== " ") open += found.splice(-1).length;
    const near = found.map(() => false);
    found.forEach(([sign], i) => {
      if (sign !== " ") for (let k = Math.max(0, i - AROUND); k <= i + AROUND; k += 1) near[k] = true;
    });
    for (let i = 0; i < found.length; i += 1) {
      let end = i;
      while (end < found.length && !near[end]) end += 1;
      const hidden = [];
      const more = end - i > 1 ? make("button", "mjw-more", "… " + (end - i) + " lines alike") : null;
      if (more) {
        more.type = "button";
        more.addEventListener("click", () => {
          for (const each of hidden) each.hidden = false;
          more.remove();
        });
        view.scroll.append(more);
      }
      for (const last = more ? end : i + 1; i < last; i += 1) {
        const [sign, a, b] = found[i];
        const { made } = rowOf(view, sign === "-" ? previous : stage, sign === "-" ? a : b, sign);
        if (more) {
          made.hidden = true;
          hidden.push(made);
        }
      }
      i -= 1;
    }
    const said = "… " + plural(open, "line") + " not compared: what stands there in the other program is cut here";
    if (open) view.scroll.append(make("div", "mjw-line mj-muted", said));
  }

  // --- the choice of the stage
  const items = [];
  let group = "";
  let passes = 0;
  stages.forEach(([under, name, kind, detail], stage) => {
    if (kind === "python") {
      if (stages.filter((each) => each[2] === "python").length > 1) {
        python.scroll.append(make("div", "mjw-line mj-heading", name));
      }
      lines[stage].forEach((_, index) => rowOf(python, stage, index, ""));
      if (stages[stage][5]) python.scroll.append(make("div", "mjw-line mj-muted", "… " + stages[stage][5]));
      return;
    }
    if (under !== group) choice.scroll.append(make("div", "mjw-line mj-muted", under));
    group = under;
    const made = make("div", "mjw-line mjw-link");
    made.setAttribute("role", "option");
    const dot = make("span", "mj-current", "  ");
    dot.setAttribute("aria-hidden", "true");
    if (kind === "pass") passes += 1;
    const number = kind === "pass" ? String(passes).padStart(3) + "  " : "";
    made.append(dot, span(["muted", number]), span(["primitive", name]), span(["muted", detail && "  " + detail]));
    made.title = name + (detail ? " · " + detail : "");
    made.addEventListener("click", () => show(stage));
    items.push({ made, dot, stage });
    choice.scroll.append(made);
  });
  if (!python.rows.length) python.scroll.append(make("div", "mjw-line mj-muted", "no line of yours is known"));
  function step(by) {
    const now = items.findIndex(({ stage }) => stage === at);
    show(items[Math.min(Math.max(now + by, 0), items.length - 1)].stage);
  }
  choice.scroll.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1, Home: -items.length, End: items.length }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    step(by);
    event.preventDefault();
  });
  box.addEventListener("keydown", (event) => {
    const by = { "]": 1, "[": -1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (by) step(by);
    else if (event.key === "Escape") {
      chosen = [];
      from = null;
      paint(null);
    } else return;
    event.preventDefault();
  });
  function button(face, label, act) {
    const made = make("button", "", face);
    made.type = "button";
    made.title = label;
    made.addEventListener("click", act);
    return made;
  }
  const ways = make("span", "mjw-bar mjw-ways");
  for (const each of ["changes", "before", "after"]) {
    const made = button(each, "show " + (each === "changes" ? "what changed" : "the program " + each), () => {
      way = each;
      show(at);
    });
    made.dataset.way = each;
    ways.append(made);
  }
  bar.append(
    make("span", "mj-heading", title),
    button("‹", "the stage before ([)", () => step(-1)),
    button("›", "the next stage (])", () => step(1)),
    ways,
  );
  box.append(bar, status, grid);
  return () => {
    show((items.find(({ stage }) => stages[stage][2] === "final") || items[0]).stage);
    const first = python.rows.find(({ each }) => each.own.length);
    if (first) reveal(python.scroll, first.made);
  };
}
