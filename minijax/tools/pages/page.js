// Shared functions, and the start of each element; page.py joins the files.

// All content is text nodes: no string of a recording is parsed as markup.
const make = (tag, name, text) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
};
const plural = (count, noun) => count + " " + noun + (count === 1 ? "" : "s");

const span = ([role, text]) => make("span", role ? "mj-" + role : "", text);

// Draws the lines of a table of texts.
function drawing({ strings, roles, lines }) {
  const segments = (line) => {
    const flat = lines[line];
    const out = [];
    for (let i = 0; i < flat.length; i += 2) out.push([roles[flat[i]], strings[flat[i + 1]]]);
    return out;
  };
  const drawn = (line, name) => {
    const made = make("div", "mjw-line" + (name ? " " + name : ""));
    made.append(...segments(line).map(span));
    return made;
  };
  return { segments, drawn };
}

function start(root) {
  root.dataset.ready = "1";
  const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  build(root, data);
  keepKeys(root);
  root.querySelector(".mjw-static").hidden = true;
}

// Puts the stage of `data` on the page, and replaces an older one. Returns its stepper, if it has one.
function build(root, data, port) {
  const stage = make("div", "mjw-stage");
  stage.tabIndex = 0;
  const made = data.stages ? { begin: browser(data, stage) } : programs(data, stage, port);
  const before = root.querySelector(":scope > .mjw-stage");
  if (before) before.replaceWith(stage);
  else root.append(stage);
  // only now, because scrolling needs the stage on the page
  if (made && made.begin) made.begin();
  return made;
}

// The compiled programs and, if there is one, the stepper. Returns the stepper.
function programs(data, stage, port) {
  const { drawn } = drawing(data);
  const made = data.programs.map((each) => linked(each, drawn));
  const stepping = data.moves === undefined ? null : stepper(data, stage, made, drawn, port);
  for (const { box } of made) {
    stage.append(box);
    box.open = !stepping;
  }
  return stepping;
}

// A notebook acts on plain keys ("d d" deletes a cell), so no plain key leaves the element while it has the focus.
// Combinations with Ctrl, Alt and Meta belong to the page. JupyterLab listens before any element, so an attribute turns
// its shortcuts off (see page.py).
function keepKeys(root) {
  for (const kind of ["keydown", "keypress", "keyup"]) {
    root.addEventListener(kind, (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
    });
  }
  // take the focus back from a page that takes it on a click
  root.addEventListener("click", () => {
    if (!root.contains(document.activeElement)) root.querySelector(".mjw-stage")?.focus({ preventScroll: true });
  });
}

// Keeps the style after its element is removed: other elements on the page have no style of their own.
function keepStyle() {
  const known = '.mjw-style[data-mjw="@VERSION@"]';
  const own = document.querySelector('.mjw[data-mjw="@VERSION@"] > .mjw-style');
  if (!own || document.head.querySelector(known)) return;
  const kept = own.cloneNode(true);
  kept.dataset.mjw = "@VERSION@";
  document.head.append(kept);
}

function startAll() {
  for (const root of document.querySelectorAll('.mjw[data-mjw="@VERSION@"]:not([data-ready])')) {
    try {
      start(root);
    } catch (error) {
      console.error(error); // the text stays in place of the widget
    }
  }
}

keepStyle();
startAll();
// Later elements without a script dispatch this event, and so do elements with a kernel.
document.addEventListener("mjw@VERSION@", (event) => {
  if (!event.detail) startAll();
  else if (!event.detail.taken) {
    event.detail.taken = true;
    live(event.detail);
  }
});
