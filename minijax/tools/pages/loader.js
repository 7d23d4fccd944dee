// The module of a notebook's live stepper. It is small, because a saved notebook may hold one for each output. The
// kernel sends the drawing script, once for a page.
function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "minijax mjw tex2jax_ignore mathjax_ignore";
  root.dataset.lmSuppressShortcuts = "true";
  el.append(root);
  const view = Math.random().toString(36).slice(2); // an output may be shown twice
  const tell = (asked) => model.send({ ...asked, view });
  let heard = () => {};
  const detail = { root, tell, hear: (does) => (heard = does), taken: false };
  const begin = () => document.dispatchEvent(new CustomEvent("mjw@VERSION@", { detail }));
  const receive = (told) => {
    if (told.view !== view) return;
    if (told.kind !== "script") return heard(told);
    if (!document.head.querySelector('.mjw-style[data-mjw="@VERSION@"]')) {
      const style = document.createElement("style");
      style.className = "mjw-style";
      style.dataset.mjw = "@VERSION@";
      style.textContent = told.style;
      document.head.append(style);
    }
    begin();
    if (detail.taken) return;
    const script = document.createElement("script");
    script.textContent = told.script;
    document.head.append(script);
    script.remove();
    begin();
  };
  model.on("msg:custom", receive);
  begin();
  if (!detail.taken) tell({ kind: "script" });
  return () => model.off("msg:custom", receive);
}
export default { render };
