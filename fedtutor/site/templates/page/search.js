"use strict";
// The one script of these pages: it finds sections, in this page alone, and loads nothing.
const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
const literal = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const starts = (word) => new RegExp(`(?<![\\p{L}\\p{N}])${literal(word)}`, "gu");

/** The sections in which every word of `query` begins a word, the best first.
 *  A word in a heading counts as five in the text, and no more than five of one word count. */
function find(sections, query, most = 40) {
  const words = plain(query).split(/\s+/).filter(Boolean).map(starts);
  if (!words.length) return [];
  const times = (text, word) => Math.min(5, (text.match(word) || []).length);
  return sections
    .map(([page, title, anchor, head, text], place) => {
      const above = plain(`${title} ${head}`), below = plain(text);
      const counts = words.map((word) => 5 * times(above, word) + times(below, word));
      const score = counts.includes(0) ? 0 : counts.reduce((sum, n) => sum + n, 0);
      return { page, title, anchor, head, text, score, place };
    })
    .filter(({ score }) => score)
    .sort((a, b) => b.score - a.score || a.place - b.place)
    .slice(0, most);
}

/** The text around the first of the words, as [text, whether it is to be marked] pieces. */
function excerpt(text, query, around = 110) {
  const words = plain(query).split(/\s+/).filter(Boolean);
  const any = new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.map(literal).join("|")})`, "giu");
  const at = Math.max(0, text.search(any));
  const from = at <= around ? 0 : text.indexOf(" ", at - around) + 1;
  const cut = text.slice(from, at + 2 * around), pieces = [];
  let last = 0;
  for (const match of cut.matchAll(any)) {
    pieces.push([cut.slice(last, match.index), false], [match[0], true]);
    last = match.index + match[0].length;
  }
  pieces.push([cut.slice(last), false]);
  return [[from ? "… " : "", false], ...pieces, [at + 2 * around < text.length ? " …" : "", false]];
}

if (typeof document !== "undefined") {
  const sections = JSON.parse(document.getElementById("sections").textContent);
  const field = document.getElementById("query"), list = document.getElementById("results");
  const told = document.getElementById("told");
  const item = ({ page, title, anchor, head, text }) => {
    const row = document.createElement("li"), link = document.createElement("a");
    const words = document.createElement("p");
    link.href = anchor ? `${page}#${anchor}` : page;
    link.textContent = head && head !== title ? `${title}: ${head}` : title;
    for (const [piece, marked] of excerpt(text, field.value)) {
      const part = document.createElement(marked ? "mark" : "span");
      part.textContent = piece;
      words.append(part);
    }
    row.append(link, words);
    return row;
  };
  const show = () => {
    const found = find(sections, field.value);
    list.replaceChildren(...found.map(item));
    const many = found.length === 1 ? "1 section" : `${found.length} sections`;
    told.textContent = !field.value.trim() ? "" : found.length ? many : "Nothing found.";
  };
  field.value = new URLSearchParams(location.search).get("q") || "";
  field.addEventListener("input", show);
  field.form.addEventListener("submit", (event) => event.preventDefault());
  show();
} else if (typeof module !== "undefined") module.exports = { find, excerpt };
