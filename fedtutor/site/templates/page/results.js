"use strict";
// The one script of this page: it filters and sorts the tables that stand in it, and loads nothing.
const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
const collator = new Intl.Collator("en", { numeric: true });

/** The number that a text begins with: -4.1 of "-4.1 ± 0.7", NaN of "" and "exact". */
const leading = (text) => {
  const found = /^\s*([+\-\u2212]?\d[\d,]*\.?\d*)/.exec(text);
  return found ? Number(found[1].replace("\u2212", "-").replaceAll(",", "")) : NaN;
};

/** Whether a row, {key: text}, has every chosen value, and every word of `chosen.words`. */
function keeps(row, chosen, except = "") {
  for (const [key, value] of Object.entries(chosen)) {
    if (!value || key === "words" || key === except) continue;
    if (row[key] !== value) return false;
  }
  const text = plain(Object.values(row).join(" "));
  return plain(chosen.words || "").split(/\s+/).every((word) => text.includes(word));
}

/** The values of `key` that rows have which all other choices keep, in the order of the rows. */
function values(rows, key, chosen) {
  return [...new Set(rows.filter((row) => keeps(row, chosen, key)).map((row) => row[key]))];
}

/** Places of `cells`, [{text, order}], from the least to the largest; what is empty is last.
 *  Equal ones stay as they are. `down`: the largest first. */
function sorted(cells, { number = false, down = false } = {}) {
  const of = ({ text, order }) => (order !== undefined ? order : number ? leading(text) : text);
  const empty = (value) => value === "" || Number.isNaN(value);
  const side = down ? -1 : 1;
  return cells.map(of).map((value, place) => ({ value, place })).sort((a, b) => {
    if (empty(a.value) || empty(b.value)) return empty(a.value) - empty(b.value) || a.place - b.place;
    const less = typeof a.value === "number" ? a.value - b.value : collator.compare(a.value, b.value);
    return side * less || a.place - b.place;
  }).map(({ place }) => place);
}

/** The next order of a column after `now`: up, down, as printed. */
const next = (now) => ({ none: "ascending", ascending: "descending", descending: "none" })[now];

if (typeof document !== "undefined") {
  const address = new URLSearchParams(location.search), sections = [];
  const remember = () => {
    const kept = new URLSearchParams();
    for (const { name, chosen } of sections)
      for (const [key, value] of Object.entries(chosen())) if (value) kept.set(`${name}.${key}`, value);
    const query = kept.toString();
    try {
      history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
    } catch { /* a page from a disk may not change its address in every browser */ }
  };
  for (const section of document.querySelectorAll(".lookup")) {
    const name = section.dataset.name, form = section.querySelector("form");
    const heads = [...section.querySelectorAll("thead th")], table = section.querySelector("tbody");
    const keys = heads.map((head) => head.dataset.key), lines = [...table.rows];
    const rows = lines.map((line) => Object.fromEntries(
      keys.map((key, place) => [key, line.cells[place].textContent])));
    const told = section.querySelector("[role=status]");
    const chosen = () => Object.fromEntries(new FormData(form));
    const show = () => {
      const now = chosen(), kept = rows.map((row) => keeps(row, now));
      lines.forEach((line, place) => { line.hidden = !kept[place]; });
      for (const select of form.querySelectorAll("select")) {
        const possible = values(rows, select.name, now).filter(Boolean), value = select.value;
        if (value && !possible.includes(value)) possible.push(value);
        select.replaceChildren(new Option("all", ""), ...possible.map((text) => new Option(text)));
        select.value = value;
      }
      told.textContent = `${kept.filter(Boolean).length.toLocaleString("en")} of `
        + `${rows.length.toLocaleString("en")} lines`;
    };
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const order = next(head.getAttribute("aria-sort"));
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", order);
        const cells = lines.map(({ cells: { [place]: cell } }) => ({ text: cell.textContent,
          order: cell.dataset.order === undefined ? undefined : Number(cell.dataset.order) }));
        const number = "number" in head.dataset, down = order === "descending";
        const places = order === "none" ? lines.keys() : sorted(cells, { number, down });
        table.replaceChildren(...[...places].map((at) => lines[at]));
      });
    });
    form.hidden = false;
    show();
    for (const field of form.elements) {
      const value = field.name && address.get(`${name}.${field.name}`);
      if (value && field.tagName === "SELECT") field.append(new Option(value));
      if (value) field.value = value;
    }
    show();
    sections.push({ name, chosen });
    form.addEventListener("input", () => { show(); remember(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => { show(); remember(); }));
  }
}
if (typeof module !== "undefined") module.exports = { leading, keeps, values, sorted, next };
