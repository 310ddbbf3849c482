// Tools for the samples: choose, search, move on. A card is filled when it comes near the screen, so that
// thousands of them open at once.

const samples = JSON.parse(document.getElementById("samples").textContent);
const form = document.getElementById("filters");
const list = document.getElementById("cards");
const missing = document.getElementById("missing");
const candidates = [...new Set(samples.map((card) => card.candidate))];
const PRINTED = 40;
const ANY = "any";
const ONLY = {
  "any": () => true,
  "orders disagree": (card) => card.questions?.some((each) => each.flip),
  "orders name different winners": (card) => card.questions?.some((each) => each.reversal),
  "changed since the run before": (card) => card.changed?.length > 0,
};
const ORDERS = {
  "by id": () => 0,
  "most changed first": (a, b) => Math.abs(b.change ?? 0) - Math.abs(a.change ?? 0) || (b.changed ?? []).length - (a.changed ?? []).length,
  "lowest score first": (a, b) => (a.score ?? Infinity) - (b.score ?? Infinity),
  "highest score first": (a, b) => (b.score ?? -Infinity) - (a.score ?? -Infinity),
};
let shown = [];
let at = -1;

// Cards

function picture(side, sha256) {
  const caption = make("figcaption", { className: "quiet" }, side);
  if (!sha256) return make("figure", {}, caption, make("p", { className: "absent" }, "no picture"));
  const image = make("img", { alt: `${side} picture` });
  const button = make("button", { type: "button", title: "Larger or smaller" }, image);
  button.addEventListener("click", () => button.closest(".pictures").classList.toggle("large"));
  const show = () => {
    const data = document.getElementById(`p-${sha256}`);
    if (data) image.src = `data:image/jpeg;base64,${data.textContent}`;
    else button.replaceWith(make("p", { className: "absent" }, document.getElementById("lacks") ? "not on this page" : "picture not kept"));
  };
  // The pictures are at the end of the page: the first cards are drawn before they are there.
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", show, { once: true });
  else show();
  return make("figure", {}, caption, button);
}

function reason(one) {
  const lines = one.parts.map(([heading, text]) => make("p", {}, heading && make("b", {}, `${heading}: `), text));
  const call = one.call && make("p", { className: "quiet" }, one.verdict ? `${one.call}: ${one.verdict}` : one.call);
  const seen = one.seen && make("p", {}, make("b", {}, "The judge sees: "), one.seen);
  return make("div", { className: "reason" }, call || "", ...lines, seen || "");
}

function chip(words) {
  return make("span", { className: `chip ${["Model", "Human"].includes(words) ? words : ""}` }, words);
}

function questionRow(one) {
  const orders = one.orders && make("p", { className: "quiet" }, one.orders);
  const verdict = make("td", {}, chip(one.verdict), orders || "");
  return make("tr", {}, make("td", {}, one.name), verdict, make("td", {}, ...(one.reasons ?? []).map(reason)));
}

function aspectRow(one) {
  return make("tr", {}, make("td", {}, one.name), make("td", {}, one.score), make("td", {}, one.explanation));
}

function table(header, rows) {
  const heads = header.map((words) => make("th", { scope: "col" }, words));
  const head = make("thead", {}, make("tr", {}, ...heads));
  return make("div", { className: "wide questions" }, make("table", {}, head, make("tbody", {}, ...rows)));
}

function fill(card) {
  if (card.filled) return;
  card.filled = true;
  const pictures = Object.entries(card.pictures).map(([side, sha256]) => picture(side, sha256));
  const tier = card.tier && !card.path.includes(card.tier) && `Decided by ${card.tier}`;
  const outcome = [tier, card.path].filter(Boolean).join(". ");
  const changed = card.changed?.length && `Since the run before: ${card.changed.join("; ")}`;
  const notes = [outcome, ...(card.notes ?? []), changed].filter(Boolean);
  card.node.append(
    make("p", { className: "text" }, card.text),
    make("div", { className: pictures.length > 1 ? "pictures" : "pictures single" }, ...pictures),
    make("ul", { className: "quiet" }, ...notes.map((words) => make("li", {}, words))),
  );
  if (card.aspects) card.node.append(table(["aspect", "score", "the judge's reasons"], card.aspects.map(aspectRow)));
  if (card.questions) card.node.append(table([...card.columns, "the judge's reasons"], card.questions.map(questionRow)));
  reach(card.node);
}

function outline(card) {
  const where = [card.candidate, card.category, card.difficulty, card.tag].filter(Boolean).join(" · ");
  const name = make("a", { className: "address", href: address(card), title: "The address of this sample" }, card.id);
  const heading = make("h3", {}, name, chip(card.overall), make("span", { className: "quiet" }, where));
  card.node = make("article", { className: "card", tabIndex: -1 }, heading);
  card.words = [card.id, card.text, card.candidate].join("\n").toLowerCase();
  near.observe(card.node);
  byNode.set(card.node, card);
}

const byNode = new Map();
const near = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) fill(byNode.get(entry.target));
}, { rootMargin: "1200px" });

// Choosing

function options(name, values) {
  const select = form.elements[name];
  const chosen = select.value;
  select.replaceChildren(...values.map((value) => make("option", { value }, value)));
  select.value = values.includes(chosen) ? chosen : values[0];
  select.parentElement.hidden = values.length < 2;
}

function values(of) {
  return [...new Set(samples.map(of).filter((value) => value !== undefined && value !== ""))];
}

function choice(name, of) {
  const found = values(of);
  options(name, found.length > 1 ? [ANY, ...found] : [ANY]);
}

function offerVerdicts() {
  const dimension = form.elements.dimension.value;
  options("verdict", [ANY, ...values((card) => card.marks[dimension]).sort()]);
}

function isWanted(card, wanted) {
  const named = ["candidate", "category", "difficulty", "status"];
  return named.every((name) => wanted[name] === ANY || card[name] === wanted[name])
    && (wanted.verdict === ANY || card.marks[wanted.dimension] === wanted.verdict)
    && ONLY[wanted.only](card)
    && card.words.includes(wanted.search.trim().toLowerCase());
}

function apply() {
  const wanted = Object.fromEntries(new FormData(form));
  shown = samples.filter((card) => isWanted(card, wanted)).sort(ORDERS[wanted.order]);
  at = -1;
  list.replaceChildren(...shown.map((card) => card.node));
  form.querySelector("output").textContent = `${shown.length} of ${samples.length} samples`;
}

function showAll() {
  form.reset();
  offerVerdicts();
  apply();
}

function find(id) {
  showAll();
  form.elements.search.value = id;
  apply();
  at = shown.findIndex((card) => card.id === id);
  move(0);
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
  showAll();
  at = shown.findIndex((card) => card.id === sample && [undefined, card.candidate].includes(candidate));
  if (at >= 0) return move(0);
  const named = [`"${sample}"`, candidate && `of ${candidate}`].filter(Boolean).join(" ");
  missing.textContent = `This page holds no sample ${named}. Its samples follow.`;
  missing.hidden = false;
  missing.scrollIntoView({ behavior: "instant", block: "center" });
}

addEventListener("hashchange", follow);

// Moving on

function move(step) {
  if (!shown.length) return;
  at = Math.min(Math.max(at + step, 0), shown.length - 1);
  fill(shown[at]);
  shown[at].node.focus({ preventScroll: true });
  shown[at].node.scrollIntoView({ behavior: "instant", block: "start" });
}

const KEYS = {
  j: () => move(1),
  ArrowRight: () => move(1),
  k: () => move(-1),
  ArrowLeft: () => move(-1),
  "/": () => form.elements.search.focus(),
};

function leave() {
  const large = [...list.querySelectorAll(".pictures.large")];
  if (large.length) return large.forEach((pictures) => pictures.classList.remove("large"));
  document.activeElement.blur();
  if (shown.length < samples.length) showAll();
}

addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    leave();
  } else if (KEYS[event.key] && !event.target.closest("input, select, [tabindex='0']") && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

list.addEventListener("focusin", (event) => {
  at = shown.indexOf(byNode.get(event.target.closest(".card")));
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  move(1);
});
form.addEventListener("input", (event) => {
  if (event.target.name === "dimension") offerVerdicts();
  apply();
});

document.addEventListener("click", async (event) => {
  if (event.target.dataset.find) find(event.target.dataset.find);
  if ("copy" in event.target.dataset) await copy(event.target);
});

addEventListener("beforeprint", () => {
  shown.forEach((card, place) => card.node.classList.toggle("unprinted", place >= PRINTED));
  shown.slice(0, PRINTED).forEach(fill);
});

samples.forEach(outline);
options("dimension", [...new Set(samples.flatMap((card) => Object.keys(card.marks)))]);
for (const name of ["candidate", "category", "difficulty", "status"]) choice(name, (card) => card[name]);
options("only", Object.keys(ONLY).filter((name) => name === ANY || samples.some(ONLY[name])));
options("order", Object.keys(ORDERS));
offerVerdicts();
apply();
follow();
