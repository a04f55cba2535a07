// Search over everything, and the list of keys.

const MOST_FOUND = 120;
const SEARCH_HINT = "Everything on this page: causes, lines, nodes at every stage, kernels, guards, compiled code.";

// What can be searched: functions that yield the kind of an item, its text, and its place in this page.
const SEARCHED = [];

async function* everything() {
  for (const part of SEARCHED) yield* part();
}

const rest = () => new Promise((done) => setTimeout(done));

class Search {
  constructor() {
    this.field = h("input", { type: "search", placeholder: "Search", "aria-label": "Search", autocomplete: "off", spellcheck: "false", oninput: () => this.later(), onkeydown: (event) => this.key(event) });
    this.found = h("div", { class: "found", role: "list", "aria-label": "Results", onkeydown: (event) => this.key(event) });
    this.state = h("p", { class: "dim", role: "status" });
    this.dialog = h("dialog", { class: "search", "aria-label": "Search", onclick: (event) => { if (event.target === this.dialog) this.dialog.close(); } }, h("form", { method: "dialog", onsubmit: (event) => event.preventDefault() }, this.field), this.state, this.found);
  }

  open() {
    if (!this.dialog.open) this.dialog.showModal();
    this.field.select();
    this.run();
  }

  words() {
    return this.field.value.trim().toLowerCase();
  }

  later() {
    clearTimeout(this.timer);
    if (this.words() === this.searched) return; // a space changes no result, and must not take the focus from one
    this.timer = setTimeout(() => this.run(), 120);
  }

  async run() {
    const turn = (this.turn = (this.turn || 0) + 1);
    const words = (this.searched = this.words());
    fill(this.found);
    if (!words) { fill(this.state, SEARCH_HINT); return; }
    let count = 0;
    let began = performance.now();
    try {
      for await (const [kind, text, hash] of everything()) {
        if (turn !== this.turn) return;
        if (text.toLowerCase().includes(words)) {
          count += 1;
          if (count <= MOST_FOUND) put(this.found, this.result(kind, text, hash, words));
          else break;
        }
        if (performance.now() - began > 30) {
          fill(this.state, `${number(count)} found, searching…`);
          await rest();
          began = performance.now();
        }
      }
      if (turn === this.turn) fill(this.state, count > MOST_FOUND ? `The first ${MOST_FOUND} results; add words to narrow them.` : count ? plural(count, "result") : "Nothing found.");
    } catch (error) {
      fill(this.state, String(error.message || error));
    }
  }

  result(kind, text, hash, words) {
    const line = visible(text, 400).replaceAll("\n", " ");
    const at = line.toLowerCase().indexOf(words);
    const from = at > 90 ? at - 60 : 0;
    const shown = from ? `…${line.slice(from)}` : line;
    const mark = shown.toLowerCase().indexOf(words);
    return h("div", { role: "listitem" }, h("a", { href: hash, onclick: () => this.dialog.close() }, h("span", { class: "kind" }, kind), h("span", { class: "hit" }, mark < 0 ? shown : [shown.slice(0, mark), h("mark", {}, shown.slice(mark, mark + words.length)), shown.slice(mark + words.length)])));
  }

  key(event) {
    const links = [...this.found.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown" && links.length) { event.preventDefault(); links[Math.min(at + 1, links.length - 1)].focus(); }
    if (event.key === "ArrowUp" && links.length) { event.preventDefault(); if (at <= 0) this.field.focus(); else links[at - 1].focus(); }
    if (event.key === "Enter" && at < 0 && links.length) { event.preventDefault(); links[0].click(); }
  }
}

const KEYS = [
  ["/", "Search over everything"], ["?", "This list"], ["1 … 9, 0", "Go to one of the first ten pages"], ["↑ ↓", "Move the selection in a pane"], ["Tab", "Go to the next pane"],
  ["[ ]", "Previous and next stage of the graph"], ["d", "Show what the stage changed"], ["Enter", "Open a link, a box or a guard"], ["t", "Light, dark, or as the system"], ["Esc", "Close"],
];

function helpDialog() {
  const dialog = h("dialog", { class: "help", "aria-label": "Keys", onclick: (event) => { if (event.target === dialog) dialog.close(); } },
    h("h2", {}, "Keys"), h("dl", {}, KEYS.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
    h("p", { class: "dim" }, "The URL contains the selection: copy it to share this view."),
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  return dialog;
}
