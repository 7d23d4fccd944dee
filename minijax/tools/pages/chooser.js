// The choices of loops and vmaps for the values on a page. They begin with the first iteration and all examples.
// choices.py has drawn a line for each choice.
function chooser(choices, changed) {
  const state = choices.map(() => 0);
  const box = make("span", "mjw-chooser");
  let offers = []; // the choices at this moment: [choice, its text, its number of states]
  let digits = "";
  let said = "";
  // The index of the current line among the lines drawn for all combinations of the choices `some`.
  function chosen(some) {
    return some.reduce((index, choice) => index * choices[choice].states + state[choice], 0);
  }
  function choose([choice, , count], wanted) {
    const { states, note } = choices[choice];
    const last = Math.max(Math.min(states, count) - 1, 0);
    state[choice] = Math.min(Math.max(wanted, 0), last);
    said = wanted > last && count > states ? note : "";
    changed();
  }
  function button(face, label, act) {
    const made = make("button", "", face);
    made.type = "button";
    made.title = label;
    made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    return made;
  }
  function draw(now) {
    offers = now;
    const focus = [...box.querySelectorAll("button, input")].indexOf(document.activeElement);
    box.replaceChildren();
    offers.forEach((offer, i) => {
      const [choice, text, count] = offer;
      const { states, loop, note } = choices[choice];
      const innermost = offers.findLastIndex((each) => choices[each[0]].loop === loop) === i;
      const what = loop ? "iteration" : "example";
      const keys = innermost ? (loop ? [" ([)", " (])"] : [" ({)", " (})"]) : ["", ""];
      const range = make("input");
      range.type = "range";
      range.min = 0;
      range.max = Math.max(Math.min(states, count) - 1, 0);
      range.value = state[choice];
      range.setAttribute("aria-label", "the " + what + " that is shown");
      range.setAttribute("aria-valuetext", text);
      range.addEventListener("input", () => choose(offer, Number(range.value)));
      const group = make("span", "mjw-offer");
      group.append(
        button("‹", "the " + what + " before" + keys[0], () => choose(offer, state[choice] - 1)),
        range,
        button("›", "the next " + what + keys[1], () => choose(offer, state[choice] + 1)),
        make("span", "mjw-chosen", text),
      );
      if (note) group.append(make("span", "mjw-held", note));
      box.append(group);
    });
    if (focus >= 0) [...box.querySelectorAll("button, input")][focus]?.focus();
  }
  // Whether a key belongs to the choices of iterations or examples. `say` shows a message.
  function pressed(key, say) {
    if ("0123456789".includes(key)) {
      digits += key;
      return true;
    }
    const [step, loop] = { "[": [-1, true], "]": [1, true], "{": [-1, false], "}": [1, false] }[key] || [];
    const number = digits === "" ? null : Number(digits);
    digits = "";
    if (!step) return false;
    const offer = offers.findLast((each) => choices[each[0]].loop === loop);
    if (!offer) {
      say(loop ? "no variable of a loop is known here" : "no value here is mapped");
      return true;
    }
    // 0 is the choice of all examples
    choose(offer, number === null ? state[offer[0]] + step : number + (loop ? 0 : 1));
    if (said) say(said);
    return true;
  }
  // Later parts add choices. An earlier choice may gain states, but never loses any.
  function extend(now) {
    now.slice(choices.length).forEach((each) => {
      choices.push(each);
      state.push(0);
    });
  }
  return { box, chosen, draw, pressed, extend };
}
