// Lists that render only the rows in view, so that a million rows cost no more than fifty.

const ROW = 20; // pixels; the style sheet sets the same height
const STEP = 10; // rows by which the rendered part moves
const TALLEST = 8_000_000; // pixels; browsers cut elements that are higher
let listCount = 0;

class List {
  // draw(index) returns the children of a row; chosen(index) is called when the user picks a row.
  constructor({ label, draw, chosen, wide = true }) {
    this.draw = draw;
    this.chosen = chosen;
    this.size = 0;
    this.active = -1;
    this.marks = new Map();
    this.id = `list-${(listCount += 1)}`;
    this.rows = h("div", { class: "rows" });
    this.space = h("div", { class: "space" }, this.rows);
    this.element = h("div", { class: `list${wide ? " wide" : ""}`, role: "listbox", tabindex: "0", "aria-label": label, id: this.id,
      onscroll: () => this.later(), onkeydown: (event) => this.key(event), onclick: (event) => this.click(event) }, this.space);
    this.seen = 0; // how high the element is; reading it after each change would make the browser lay the page out
    this.top = 0;
    this.watch = new ResizeObserver(() => {
      this.seen = this.element.clientHeight;
      this.later();
    });
    this.watch.observe(this.element);
  }

  // Shows other rows, and scrolls such that one of them is in view; -1 scrolls nowhere.
  set(size, marks = new Map(), shown = -1) {
    this.size = size;
    this.marks = marks;
    this.active = Math.min(this.active, size - 1);
    const height = Math.min(size * ROW, TALLEST);
    if (height !== this.height) {
      this.height = height;
      this.space.style.height = `${height}px`;
      this.top = Math.max(0, Math.min(this.top, height - this.seen));
    }
    this.reveal(shown);
    this.paint({ again: true });
  }

  // How many pixels of rows one pixel of scrolling moves: more than one where the browser could not be as high.
  ratio() {
    return this.size * ROW <= TALLEST || this.height <= this.seen ? 1 : (this.size * ROW - this.seen) / (this.height - this.seen);
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.top = this.element.scrollTop; this.paint(); });
  }

  // Renders the rows in view, unless they are there already.
  paint({ all = false, again = all } = {}) {
    const count = Math.ceil((this.seen || 600) / ROW) + 20 + STEP;
    const offset = this.top * this.ratio();
    const first = all ? 0 : Math.max(0, Math.min(STEP * Math.floor((offset / ROW - 10) / STEP), this.size - count));
    const last = all ? Math.min(this.size, 3000) : Math.min(this.size, first + count);
    this.rows.style.transform = `translateY(${all ? 0 : this.top + first * ROW - offset}px)`;
    if (again || first !== this.first || last !== this.last) {
      [this.first, this.last] = [first, last];
      const rows = [];
      for (let at = first; at < last; at += 1) {
        const mark = this.marks.get(at) || "";
        rows.push(h("div", { class: `row ${mark}`, role: "option", id: `${this.id}-${at}`, "data-at": at,
          "aria-selected": mark.includes("picked") || mark.includes("linked") ? "true" : "false", "aria-setsize": this.size, "aria-posinset": at + 1 }, this.draw(at)));
      }
      this.rows.replaceChildren(...rows);
    }
    if (this.active >= first && this.active < last) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  reveal(index) {
    if (index < 0 || index >= this.size) return;
    const [at, ratio] = [index * ROW, this.ratio()];
    const seen = this.seen || this.element.clientHeight;
    const offset = this.top * ratio;
    if (at >= offset + ROW && at <= offset + seen - 3 * ROW) return;
    this.element.scrollTop = Math.max(0, (at - seen / 3) / ratio);
    this.top = this.element.scrollTop;
  }

  show(index) {
    this.reveal(index);
    this.paint();
  }

  click(event) {
    const row = event.target.closest(".row");
    if (row && !event.target.closest("a,button")) this.pick(Number(row.dataset.at));
  }

  pick(index) {
    this.active = index;
    this.show(index);
    if (this.chosen) this.chosen(index);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.size, End: this.size };
    if (!(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey || !this.size) return;
    event.preventDefault();
    this.pick(Math.max(0, Math.min(this.size - 1, (this.active < 0 ? (event.key === "ArrowUp" ? 0 : -1) : this.active) + steps[event.key])));
  }
}

const LISTS = new Set();

function list(options) {
  const made = new List(options);
  LISTS.add(new WeakRef(made));
  return made;
}

// Printed lists have all their rows, up to a limit.
for (const [event, all] of [["beforeprint", true], ["afterprint", false]]) {
  window.addEventListener(event, () => {
    for (const each of LISTS) {
      const made = each.deref();
      if (made && made.element.isConnected) made.paint({ all, again: true });
    }
  });
}
