// Programs side by side: a chosen line marks the lines of the same equations in all programs. An equation includes its
// inner equations; `inside` lists them.
function linked({ title, inside, panes }, drawn) {
  const box = make("details", "mjw-programs");
  box.append(make("summary", "", title));
  const grid = make("div", "mjw-columns");
  const status = make("div", "mjw-status", "choose a line to see what it comes from and what it became");
  status.setAttribute("role", "status");
  status.setAttribute("aria-live", "polite");
  const rows = [];
  for (const [name, listed] of panes) {
    const section = make("section", "mjw-pane");
    const scroll = make("div", "mjw-scroll");
    scroll.setAttribute("role", "listbox");
    scroll.setAttribute("aria-label", name);
    scroll.dataset.pane = name;
    section.append(make("div", "mjw-title", name), scroll);
    for (const [line, number, own, note] of listed) {
      const made = drawn(line);
      made.prepend(make("span", "mjw-number", String(number).padStart(4) + " "));
      made.setAttribute("role", "option");
      if (note) made.title = note;
      rows.push({ made, own, scroll, name });
      if (own.length) {
        made.classList.add("mjw-link");
        made.tabIndex = -1;
        made.addEventListener("click", () => choose(rows.find((each) => each.made === made)));
      }
      scroll.append(made);
    }
    scroll.tabIndex = 0;
    scroll.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
      const own = rows.filter((each) => each.scroll === scroll && each.own.length);
      const at = own.findIndex((each) => each.made === chosen);
      choose(own[Math.min(Math.max(at < 0 ? 0 : at + step, 0), own.length - 1)]);
      event.preventDefault();
    });
    grid.append(section);
  }
  let chosen = null;
  function choose(line) {
    if (!line) return;
    chosen = line.made;
    select(line.own, line.scroll);
  }
  // Marks the lines of the equations `own`; `from` is the pane of the chosen line.
  function select(own, from) {
    const wanted = new Set(own);
    for (const number of own) for (const inner of inside[number] || []) wanted.add(inner);
    const counts = new Map();
    for (const { made, own: belongs, scroll, name } of rows) {
      const hit = belongs.some((number) => wanted.has(number));
      made.classList.toggle("mjw-now", hit);
      made.setAttribute("aria-selected", String(hit));
      if (!hit) continue;
      if (!counts.has(scroll)) {
        const first = made.offsetTop;
        const sight = scroll.scrollTop;
        if (scroll !== from && (first < sight || first > sight + scroll.clientHeight - 20)) {
          scroll.scrollTop = Math.max(0, first - scroll.clientHeight / 3);
        }
      }
      counts.set(scroll, (counts.get(scroll) || 0) + 1);
    }
    if (!wanted.size) {
      status.textContent = "choose a line to see what it comes from and what it became";
      return;
    }
    const found = [...counts.values()].reduce((all, each) => all + each, 0);
    const listed = [...wanted].sort((a, b) => a - b).join(", ");
    status.textContent = (wanted.size === 1 ? "equation " : "equations ") + listed + " · " + plural(found, "line");
  }
  box.append(status, grid);
  return { box, select };
}
