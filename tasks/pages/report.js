// The samples of a run: a grid to choose from, and the chosen one beside it. A sample is filled when it comes near the
// screen, so that thousands of samples open at once.

const held = document.getElementById("samples");
const samples = JSON.parse(held.textContent);
const { beside } = held.dataset;
const form = document.getElementById("filters");
const grid = document.getElementById("grid");
const panel = document.getElementById("opened");
const missing = document.getElementById("missing");
const candidates = [...new Set(samples.map((card) => card.candidate))];
const firstImages = [...document.querySelectorAll("img[data-sha]")];
const shownFirst = new Map(firstImages.map((image) => [image.dataset.sha, image.src]));
const PART = 60; // any number of columns up to six divides it
const ANY = "any";
let shown = samples;
let current = null;

// Pictures

function place(sha256, image) {
  const held = shownFirst.get(sha256) ?? (beside ? `${beside}/${sha256}.jpg` : document.getElementById(`p-${sha256}`)?.textContent);
  if (held) image.src = held;
  else if (document.readyState !== "loading") return image.replaceWith(absent(sha256));
  // The pictures are at the end of the page: the first places are filled before they are there.
  else addEventListener("DOMContentLoaded", () => place(sha256, image), { once: true });
  watch(sha256, image);
}

function watch(sha256, image) {
  image.addEventListener("error", () => image.replaceWith(absent(sha256)), { once: true });
}

function absent(sha256) {
  // The folder of the pictures may lie elsewhere.
  const title = sha256 && beside ? `${plainText(beside)} lacks it` : "";
  const kept = document.getElementById("lacks") ? "not on this page" : "picture not kept";
  return make("p", { className: "absent", title }, title ? "not beside this page" : sha256 ? kept : "no picture");
}

function picture(side, sha256) {
  if (!sha256) return absent("");
  const image = make("img", { alt: `${side} picture`, decoding: "async" });
  queueMicrotask(() => place(sha256, image));
  return image;
}

function chip(words) {
  return make("span", { className: `chip ${words.split(" ")[0]}` }, words);
}

// The grid

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) approach(target);
}, { rootMargin: "600px" });
const byNode = new Map();

function outline(card) {
  card.node = make("a", { className: "thumb", href: address(card) }, make("b", {}, card.id));
  const states = [card.status, card.fragile && "fragile"];
  card.states = states.filter(Boolean).map((state) => state.replaceAll("_", " "));
  card.marks = Object.entries(card.marks).map(([name, verdict]) => `${name}: ${verdict}`);
  card.words = [card.id, card.text, card.candidate, card.category, card.difficulty, card.tag].join("\n").toLowerCase();
  byNode.set(card.node, card);
}

// The samples of a near part are observed one by one: to fill all of them at once takes longer than a frame.
function approach(node) {
  near.unobserve(node);
  if (byNode.has(node)) fill(byNode.get(node));
  else for (const child of node.children) near.observe(child);
}

function fill(card) {
  if (card.node.childElementCount > 1) return;
  const sides = Object.entries(card.pictures).map(([side, sha256]) => picture(side, sha256));
  card.node.prepend(make("span", { className: "sides" }, ...sides));
  const told = card.aspects ? card.aspects.map((one) => `${one.name} ${one.score}`) : byVerdict(card);
  const where = candidates.length > 1 ? card.candidate : "";
  card.node.append(" ", chip(card.overall), make("small", {}, [where, ...told].filter(Boolean).join(" · ")));
}

function byVerdict({ status, questions = [] }) {
  if (status === "forfeit") return [];
  const names = (verdict) => questions.filter((one) => one.verdict === verdict).map((one) => one.name).join(", ");
  return [...new Set(questions.map((one) => one.verdict))].map((verdict) => `${verdict}: ${names(verdict)}`);
}

// Choosing

function options(name, values) {
  const select = form.elements[name];
  select.replaceChildren(...[ANY, ...values].map((value) => make("option", { value }, value)));
  select.parentElement.hidden = values.length < 2;
}

function isWanted(card, wanted) {
  return [ANY, card.candidate].includes(wanted.candidate)
    && (wanted.status === ANY || card.states.includes(wanted.status))
    && (wanted.verdict === ANY || card.marks.includes(wanted.verdict))
    && card.words.includes(wanted.search.trim().toLowerCase());
}

function apply() {
  const wanted = Object.fromEntries(new FormData(form));
  shown = samples.filter((card) => isWanted(card, wanted));
  near.disconnect();
  grid.replaceChildren();
  for (let at = 0; at < shown.length; at += PART) {
    grid.append(make("div", { className: "part" }, ...shown.slice(at, at + PART).map((card) => card.node)));
    near.observe(grid.lastChild);
  }
  form.querySelector("output").textContent = `${shown.length} of ${samples.length} samples, lowest first`;
}

function showAll() {
  form.reset();
  apply();
}

// The chosen sample

function reason(one) {
  const lines = one.parts.map(([heading, text]) => make("p", {}, heading && make("b", {}, `${heading}: `), text));
  const call = one.call && make("p", { className: "quiet" }, one.verdict ? `${one.call}: ${one.verdict}` : one.call);
  const seen = one.seen && make("p", {}, make("b", {}, "The judge sees: "), one.seen);
  return make("div", { className: "reason" }, call || "", ...lines, seen || "");
}

function answer(name, words, ...told) {
  return make("section", {}, make("h4", {}, name, chip(words)), ...told);
}

function questionAnswer(one) {
  const orders = one.orders && make("p", { className: "quiet" }, one.orders);
  return answer(one.name, one.verdict, orders || "", ...(one.reasons ?? []).map(reason));
}

function button(words, title, act) {
  const made = make("button", { type: "button", title }, words);
  made.addEventListener("click", act);
  return made;
}

function figure([side, sha256]) {
  const image = picture(side, sha256);
  const larger = () => panel.querySelector(".pictures").classList.toggle("large");
  const shownAs = sha256 ? button(image, "Larger or smaller", larger) : image;
  return make("figure", {}, make("figcaption", { className: "quiet" }, side), shownAs);
}

function open(card) {
  current?.node.removeAttribute("aria-current");
  current = card;
  card.node.setAttribute("aria-current", "true");
  const where = [card.candidate, card.category, card.difficulty, card.tag].filter(Boolean).join(" · ");
  const name = make("a", { className: "address", href: address(card), title: "The address of this sample" }, card.id);
  const moves = make("span", { className: "moves" }, button("‹", "Previous (k)", () => move(-1)), button("›", "Next (j)", () => move(1)), button("×", "Close (Esc)", close));
  const pictures = Object.entries(card.pictures).map(figure);
  const notes = [card.path, card.fragile && `Fragile: ${card.fragile}`, ...(card.notes ?? [])].filter(Boolean);
  const article = make("article", { className: "card", tabIndex: -1 },
    make("h3", {}, name, chip(card.overall), make("span", { className: "quiet" }, where), moves),
    make("div", { className: pictures.length > 1 ? "pictures" : "pictures single" }, ...pictures),
    make("p", { className: "text" }, card.text));
  const aspects = (card.aspects ?? []).map((one) => answer(one.name, one.score, make("p", {}, one.explanation)));
  article.append(...aspects, ...(card.questions ?? []).map(questionAnswer));
  article.append(make("ul", { className: "quiet" }, ...notes.map((words) => make("li", {}, words))));
  panel.replaceChildren(article);
  panel.hidden = false;
  card.node.scrollIntoView({ behavior: "instant", block: "nearest" });
  if (panel.getBoundingClientRect().top > 40) panel.scrollIntoView({ behavior: "instant", block: "start" });
  article.focus({ preventScroll: true });
}

function close() {
  current?.node.removeAttribute("aria-current");
  current?.node.focus();
  current = null;
  panel.hidden = true;
  panel.replaceChildren();
  history.replaceState(null, "", location.pathname + location.search);
}

// Addresses: #sample=ID, and which one where the page has several of that id

function address(card) {
  const several = { candidate: candidates.length > 1 && card.candidate };
  const parts = Object.entries({ sample: card.id, ...several }).filter(([, value]) => value !== false);
  return `#${parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
}

function plainText(encoded) {
  try { return decodeURIComponent(encoded); } catch { return encoded; }
}

function asked() {
  const parts = location.hash.slice(1).split("&").map((part) => [part.split("=", 1)[0], part.replace(/^[^=]*=?/, "")]);
  return Object.fromEntries(parts.map(([name, value]) => [name, plainText(value)]));
}

function follow() {
  const { sample, candidate } = asked();
  missing.hidden = true;
  if (sample === undefined) return;
  const found = samples.find((card) => card.id === sample && [undefined, card.candidate].includes(candidate));
  if (found && !shown.includes(found)) showAll();
  if (found) return open(found);
  const named = [`"${sample}"`, candidate && `of ${candidate}`].filter(Boolean).join(" ");
  missing.textContent = `This page holds no sample ${named}. Its samples follow.`;
  missing.hidden = false;
  missing.scrollIntoView({ behavior: "instant", block: "center" });
}

addEventListener("hashchange", follow);
grid.addEventListener("click", (event) => {
  // A second click on the address of the opened sample changes no address.
  const node = event.target.closest(".thumb");
  if (node?.hash === location.hash && !current) open(byNode.get(node));
});

// Moving on

function move(step) {
  if (!shown.length) return;
  const at = shown.indexOf(current);
  const next = shown[Math.min(Math.max(at + step, 0), shown.length - 1)];
  history.replaceState(null, "", address(next));
  open(next);
}

const KEYS = {
  j: () => move(1),
  ArrowRight: () => move(1),
  k: () => move(-1),
  ArrowLeft: () => move(-1),
  "/": () => form.elements.search.focus(),
};

function leave() {
  const large = panel.querySelector(".pictures.large");
  if (large) return large.classList.remove("large");
  if (current) return close();
  document.activeElement.blur();
  if (shown.length < samples.length) showAll();
}

addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    leave();
  } else if (KEYS[keyOf(event)] && !event.target.closest("input, select, [tabindex='0']") && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    KEYS[keyOf(event)]();
  }
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  move(1);
});
form.addEventListener("input", apply);

// Tables as Markdown

function markdown(one) {
  const cell = (each) => each.textContent.trim().replace(/\s+/g, " ").replace(/[\\|`*<]|\](?=\()/g, "\\$&");
  const lines = [...one.rows].map((line) => `| ${[...line.cells].map(cell).join(" | ")} |`);
  lines.splice(1, 0, `|${" --- |".repeat(one.rows[0].cells.length)}`);
  return lines.join("\n");
}

for (const box of document.querySelectorAll("#numbers .wide")) {
  const copied = make("div", {}, button("Copy as Markdown", "", async (event) => {
    const code = make("code", {}, markdown(box.firstChild));
    copied.append(code);
    await copy(event.target);
    code.hidden = event.target.textContent === "Copied";
  }));
  box.after(copied);
}

addEventListener("beforeprint", () => {
  shown.slice(0, PART).forEach(fill);
  for (const one of document.querySelectorAll("details")) one.open = true;
});

for (const image of firstImages) {
  if (image.complete && !image.naturalWidth) image.replaceWith(absent(image.dataset.sha)); // it failed before this script
  else watch(image.dataset.sha, image);
}
samples.forEach(outline);
options("candidate", candidates);
options("status", [...new Set(samples.flatMap((card) => card.states))]);
options("verdict", [...new Set(samples.flatMap((card) => card.marks))]);
apply();
follow();
