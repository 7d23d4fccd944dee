// What the parts share, and what brings each element to life; see page.py, which puts the files together.

// Everything is built from text nodes: no string of the recording is ever read as markup.
const make = (tag, name, text) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
};
const plural = (count, noun) => count + " " + noun + (count === 1 ? "" : "s");

function start(root) {
  root.dataset.ready = "1";
  const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const { strings, roles, lines } = data;
  const span = ([role, text]) => make("span", role ? "mj-" + role : "", text);
  const segments = (line) => {
    const flat = lines[line];
    const out = [];
    for (let i = 0; i < flat.length; i += 2) out.push([roles[flat[i]], strings[flat[i + 1]]]);
    return out;
  };
  const row = (parts, name) => {
    const made = make("div", "mjw-line" + (name ? " " + name : ""));
    made.append(...parts.map(span));
    return made;
  };
  const drawn = (line, name) => row(segments(line), name);
  const stage = make("div", "mjw-stage");
  const programs = data.programs.map((each) => linked(each, drawn));
  const begin = data.moves === undefined ? null : stepper(data, stage, programs, { span, segments, row, drawn });
  for (const { box } of programs) {
    stage.append(box);
    box.open = !begin;
  }
  root.append(stage);
  // on the page by now: what is scrolled into sight must have its place
  if (begin) begin();
  root.querySelector(".mjw-static").hidden = true;
}

for (const root of document.querySelectorAll('.mjw[data-mjw="@VERSION@"]:not([data-ready])')) {
  try {
    start(root);
  } catch (error) {
    console.error(error); // the text stays in place of the widget
  }
}
