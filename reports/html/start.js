// Builds the frame of the page, and shows the page that the URL names.

const THEMES = ["auto", "light", "dark"];
const search = new Search();
const keys = helpDialog();
let theme = "auto";
let current = null;
let showing = 0;

function setTheme(name) {
  theme = name;
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  themeButton.setAttribute("aria-label", `Theme: ${name}`);
  fill(themeButton, { auto: "◐", light: "☀", dark: "☾" }[name]);
}

const themeButton = h("button", { type: "button", class: "icon", title: "Light, dark, or as the system", onclick: () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]) });
const navigation = h("nav", { "aria-label": "Pages" }, PAGES.map((page) => h("a", { href: `#${page.name}`, "data-page": page.name }, page.title, h("span", { class: "count" }))));
const main = h("main", { id: "main", tabindex: "-1" });

fill(document.getElementById("app"),
  h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "Skip to the content"),
  h("header", { class: "top" },
    h("div", { class: "bar" },
      h("a", { class: "brand", href: `#${PAGES[0].name}` }, h("strong", {}, "ctrace"), h("span", { class: "target" }, HEAD.title)),
      h("button", { type: "button", class: "find", onclick: () => search.open() }, h("span", {}, "Search"), h("kbd", {}, "/")),
      h("button", { type: "button", class: "icon", title: "Keys", "aria-label": "Keys", onclick: () => keys.showModal() }, "?"),
      themeButton),
    navigation),
  main,
  h("footer", {}, `ctrace ${HEAD.ctrace} · ${HEAD.serves ? "this server only reads" : "everything on this page is in this file"}`),
  search.dialog, keys);
setTheme("auto");

async function showPage() {
  const { page: name, query } = address();
  if (name === "main") return;
  const page = PAGES.find((each) => each.name === name) || PAGES[0];
  for (const link of navigation.children) {
    if (link.dataset.page === page.name) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "center" }); } else link.removeAttribute("aria-current");
  }
  try {
    if (current?.page === page && current.view?.update) { await current.view.update(query); document.body.dataset.ready = page.name; return; }
    const turn = (showing += 1);
    const root = h("div", { class: `page ${page.name}${page.wide ? " full" : ""}` });
    document.title = `${page.title} · ${HEAD.title} · ctrace`;
    fill(main, root);
    current = { page, view: null };
    const mine = current;
    const view = await page.render(root, query);
    if (turn === showing) mine.view = view || null;
  } catch (error) {
    fill(main, h("div", { class: "page" }, h("section", { class: "card alert" }, h("h1", {}, "This page cannot be shown"), h("p", {}, String(error.message || error)), h("p", {}, "Write the report again with ctrace report."))));
    current = null;
  }
  document.body.dataset.ready = page.name;
}

window.addEventListener("hashchange", () => { delete document.body.dataset.ready; showPage(); });

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest?.("input:not([type=range]):not([type=checkbox]), select, textarea, dialog[open]")) return;
  const view = current?.view;
  const step = { "[": -1, "]": 1 }[event.key];
  if (event.key === "/") search.open();
  else if (event.key === "?") keys.showModal();
  else if (event.key === "t") themeButton.click();
  else if (event.key === "d" && view?.diffBox) view.diffBox.click();
  else if (step && view?.labels) { const at = view.labels.indexOf(view.stage) + step; if (view.labels[at]) view.choose({ st: view.labels[at] }); }
  else if (/^[0-9]$/.test(event.key) && PAGES[(Number(event.key) + 9) % 10]) go(PAGES[(Number(event.key) + 9) % 10].name);
  else return;
  event.preventDefault();
});

read("explain").then((data) => {
  for (const page of PAGES) {
    if (!page.count || !data) continue;
    const count = page.count(data);
    if (count) fill(navigation.querySelector(`[data-page="${page.name}"] .count`), number(count));
  }
  navigation.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}, () => {});

showPage();
