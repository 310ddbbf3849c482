// One person's answers to blind items: keys, undo, progress kept in the browser and in a file. An answer names an item by
// its token alone: only the store that made the page can identify a picture.

const data = JSON.parse(document.getElementById("data").textContent);
const FORMAT = "image-jury labels 1";
const KEPT = `${FORMAT} ${data.page}`;
const NUMBER = "a whole number"; // a choice that is a field
const SIDES = ["Left", "Right"];
const by = (id) => document.getElementById(id);
const LONG = 140; // height from which on the text has a column of its own, so that the question stays in sight
const tokens = new Set(data.items.map((item) => item.item));
// name; answers: item -> question -> answer; comments: item -> text; done: changes that undo takes back; at: place on the page
let state = { name: pseudonym(), answers: {}, comments: {}, done: [], at: 0 };
let scale = 0;
let middle = [0.5, 0.5];
let moved = false; // by dragging: the click that ends it is none
let more = false; // texts that no question is about

function pseudonym() {
  const bytes = crypto.getRandomValues(new Uint8Array(3));
  return `reader-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

// Questions and answers

const now = () => data.items[state.at];
const asked = (item) => data.asked[item.tag];
const answer = (item, question) => state.answers[item.item]?.[question] ?? "";
const isNumber = (text) => /^\d+$/.test(text);
const open = (item) => asked(item).find((each) => !answer(item, each.question));
const answered = () => data.items.filter((item) => !open(item)).length;

function give(question, value) {
  const item = now();
  if (answer(item, question) === value) return move(nextOpen());
  state.done.push([item.item, question, answer(item, question)]);
  (state.answers[item.item] ??= {})[question] = value;
  keep();
  if (open(item)) show();
  else move(nextOpen());
}

// The next item without all answers, from here on and then from the start; here, where there is none.
function nextOpen() {
  const count = data.items.length;
  for (let step = 1; step <= count; step += 1) {
    const at = (state.at + step) % count;
    if (open(data.items[at])) return at;
  }
  return state.at;
}

function undo() {
  const last = state.done.pop();
  if (!last) return;
  const [token, question, before] = last;
  if (before) state.answers[token][question] = before;
  else delete state.answers[token][question];
  move(data.items.findIndex((item) => item.item === token));
}

// Keeping: in the browser after each change, and in a file when asked for

function inBrowser(act) {
  try {
    act();
  } catch {
    tell("This browser keeps nothing of this page: save the file before you close it.", true);
  }
}

const keep = () => inBrowser(() => localStorage.setItem(KEPT, JSON.stringify(state)));

function restore() {
  const kept = JSON.parse(localStorage.getItem(KEPT) ?? "null");
  if (kept) state = { ...state, ...kept, at: Math.min(kept.at, data.items.length - 1) };
}

// The same page in another tab has kept its answers: they are this one's, too, which would overwrite them.
function follow() {
  const { at } = state;
  inBrowser(restore);
  state.at = at;
  show();
}

const whole = (text) => text.replace(/[\ud800-\udfff]/gu, "\ufffd").trim();

function row(item, question) {
  return { item: item.item, question, answer: answer(item, question), comment: whole(state.comments[item.item] ?? "") };
}

function save() {
  const name = whole(by("name").value) || state.name;
  const some = data.items.filter((item) => state.answers[item.item] || state.comments[item.item]);
  const answers = some.flatMap((item) =>
    asked(item).filter((each) => answer(item, each.question) || state.comments[item.item]).map((each) => row(item, each.question)));
  const file = { format: FORMAT, page: data.page, name, saved_at: new Date().toISOString(), answers };
  const url = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1)], { type: "application/json" }));
  make("a", { href: url, download: `labels-${name.replace(/[^\p{L}\p{N}_.-]+/gu, "-")}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  tell(`Saved ${answered()} of ${data.items.length} items. Whoever gave you this page brings the file in with: jury labels import`);
}

async function load(file) {
  try {
    const found = JSON.parse(await file.text());
    if (found.format !== FORMAT || found.page !== data.page) throw new Error("it was not saved from this page");
    const answers = {};
    const comments = {};
    for (const each of found.answers) {
      const item = data.items.find((one) => one.item === each.item);
      const question = item && asked(item).find((one) => one.question === each.question);
      const choices = question?.choices.map((choice) => choice.value) ?? [];
      const known = choices.includes(each.answer) || (choices.includes(NUMBER) && isNumber(each.answer));
      if (!item || (each.answer && !known)) throw new Error("it was changed after it was saved");
      if (each.answer) (answers[each.item] ??= {})[each.question] = each.answer;
      if (each.comment) comments[each.item] = String(each.comment);
    }
    const lost = Object.entries(state.answers).flatMap(([item, given]) =>
      Object.entries(given).filter(([question, value]) => value && answers[item]?.[question] !== value)).length;
    if (lost && !confirm(`${file.name} lacks ${lost} of the answers on this page, and replaces them. Load it?`)) return;
    state = { name: String(found.name), answers, comments, done: [], at: state.at };
    move(open(now()) ? state.at : nextOpen());
    tell(`Loaded ${answered()} of ${data.items.length} items.`);
  } catch (error) {
    tell(`${file.name} is not loaded: ${error.message}.`, true);
  }
}

// Showing

function tell(words, alarm = false) {
  by("notice").textContent = words;
  by("notice").hidden = !words;
  by("notice").classList.toggle("alarm", alarm);
}

function figure(source, place, count) {
  const name = count > 1 ? SIDES[place] : "Image";
  const picture = make("img", { alt: `${name} picture`, src: source, draggable: false });
  picture.addEventListener("load", arrange);
  picture.addEventListener("error", () => tell("The pictures of this page are missing: the folder named below belongs beside it.", true));
  const view = make("button", { type: "button", className: "view", title: "100%, or all of it" }, picture);
  view.addEventListener("click", (event) => moved || zoom(scale ? 0 : 1, view, event));
  view.addEventListener("pointerdown", () => { moved = false; });
  view.addEventListener("pointermove", (event) => event.buttons && scale && drag(view, event));
  view.addEventListener("wheel", (event) => scale && (event.preventDefault(), zoom(scale * 2 ** (-event.deltaY / 400))));
  return make("figure", {}, make("figcaption", {}, name), view);
}

function choice(one, question, current) {
  const button = make("button", { type: "button" }, make("kbd", {}, one.key), one.words === one.key ? "" : ` ${one.words}`);
  button.setAttribute("aria-pressed", String(answer(now(), question) === one.value));
  if (current) button.setAttribute("aria-keyshortcuts", one.key);
  button.addEventListener("click", () => give(question, one.value));
  return button;
}

function field(question) {
  const given = answer(now(), question);
  const number = make("input", { type: "number", min: 0, max: 999999, required: true, value: isNumber(given) ? given : "" });
  number.setAttribute("aria-label", "Number");
  const form = make("form", { className: "choices" }, number, make("button", {}, "Answer ", make("kbd", {}, "Enter")));
  form.addEventListener("submit", (event) => { event.preventDefault(); give(question, String(number.valueAsNumber)); });
  return form;
}

function questionSet(each, current) {
  const shown = each.choices.map((one) => (one.value === NUMBER ? field(each.question) : choice(one, each.question, current)));
  const choices = make("div", { className: "choices" }, ...shown);
  const hint = make("p", { className: "hint" }, each.hint);
  return make("fieldset", { className: current ? "now" : "" }, make("legend", {}, each.words), hint, choices);
}

// The question that the keys answer: the first without an answer, else the last.
const current = (item) => open(item) ?? asked(item).at(-1);

function show() {
  const item = now();
  const count = data.items.length;
  by("place").textContent = `Item ${state.at + 1} of ${count}`;
  by("progress").textContent = `${answered()} of ${count} answered${answered() === count ? ": save the file" : ""}`;
  Object.assign(by("bar"), { max: count, value: answered() });
  by("name").value = state.name;
  by("comment").value = state.comments[item.item] ?? "";
  by("questions").replaceChildren(...asked(item).map((each) => questionSet(each, each === current(item))));
  by("undo").disabled = state.done.length === 0;
  by("previous").disabled = state.at === 0;
  by("next").disabled = state.at === count - 1;
}

// Texts that a question is about are always there, others of the judge when asked for.
function showTexts() {
  const item = now();
  const needed = new Set(asked(item).flatMap((each) => each.texts));
  const names = Object.keys(item.texts).sort((one, other) => item.texts[one].length - item.texts[other].length);
  const shown = names.filter((name) => more || needed.has(name));
  by("more").hidden = names.every((name) => needed.has(name));
  by("more").setAttribute("aria-pressed", String(more));
  by("text").replaceChildren(...shown.map((name) => make("p", {}, make("b", {}, data.labels[name]), `\n${item.texts[name] || "(empty)"}`)));
  by("item").classList.remove("long");
  by("item").classList.toggle("long", by("text").scrollHeight > LONG);
  by("text").scrollTop = 0;
}

function showPictures() {
  const item = now();
  by("pictures").replaceChildren(...item.pictures.map((source, place) => figure(source, place, item.pictures.length)));
  zoom(0);
  for (const source of data.items[state.at + 1]?.pictures ?? []) new Image().src = source;
}

// Zoom: all pictures of an item at one scale (CSS pixels a pixel; 0: all of each is seen), with one place in their middles

const between = (low, value, high) => Math.max(low, Math.min(value, high));
const views = () => [...document.querySelectorAll(".view")];
const box = (view) => [view.clientWidth, view.clientHeight];
const size = (view) => [view.firstChild.naturalWidth, view.firstChild.naturalHeight];
const fitting = (view) => Math.min(...size(view).map((pixels, axis) => box(view)[axis] / pixels));

function zoom(to, view, event) {
  if (to && event?.detail) { // a click, not a key: the place under the pointer
    const { left, top } = view.getBoundingClientRect();
    const apart = [event.clientX - left, event.clientY - top].map((at, axis) => at - box(view)[axis] / 2);
    middle = apart.map((pixels, axis) => 0.5 + pixels / (size(view)[axis] * fitting(view)));
  }
  scale = to && between(0.1, to, 8);
  by("zoom").setAttribute("aria-pressed", String(scale > 0));
  by("zoom").firstChild.data = `${Math.round(100 * (scale || 1))}% `;
  by("pictures").classList.toggle("zoomed", scale > 0);
  arrange();
}

function arrange() {
  const there = views().filter((view) => view.firstChild.naturalWidth);
  middle = middle.map((at, axis) => {
    const edge = Math.min(0.5, ...there.map((view) => box(view)[axis] / size(view)[axis] / scale / 2));
    return between(edge, at, 1 - edge);
  });
  for (const view of there) {
    const pixels = size(view).map((each) => each * scale);
    const [left, top] = box(view).map((room, axis) => {
      return pixels[axis] < room ? (room - pixels[axis]) / 2 : between(room - pixels[axis], room / 2 - middle[axis] * pixels[axis], 0);
    });
    const found = { width: pixels[0], height: pixels[1], left, top };
    for (const [name, value] of Object.entries(found)) view.firstChild.style[name] = scale ? `${value}px` : "";
  }
}

function pan(view, pixels) {
  middle = middle.map((at, axis) => at + pixels[axis] / (size(view)[axis] * scale));
  arrange();
}

function drag(view, event) {
  moved = true;
  view.setPointerCapture(event.pointerId);
  pan(view, [-event.movementX, -event.movementY]);
}

const arrow = (across, down) => pan(views()[0], box(views()[0]).map((room, axis) => [across, down][axis] * room / 4));

function move(at) {
  tell("");
  state.at = Math.max(0, Math.min(at, data.items.length - 1));
  keep();
  showItem();
}

function showItem() {
  middle = [0.5, 0.5];
  show();
  showTexts();
  showPictures();
}

const MOVES = {
  ArrowLeft: () => (scale ? arrow(-1, 0) : move(state.at - 1)),
  ArrowRight: () => (scale ? arrow(1, 0) : move(state.at + 1)),
  ArrowUp: () => arrow(0, -1),
  ArrowDown: () => arrow(0, 1),
  u: undo,
  o: () => move(nextOpen()),
  z: () => zoom(scale ? 0 : 1),
  "+": () => zoom((scale || 0.75) * 4 / 3),
  "-": () => zoom((scale || 1) * 3 / 4),
  t: () => { more = !more; showTexts(); },
  m: () => by("comment").focus(),
  s: save,
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") return document.activeElement.matches("textarea, input") ? document.activeElement.blur() : zoom(0);
  if (event.target.matches("textarea, input:not([type=file])")) return;
  const question = current(now());
  const number = isNumber(event.key) && document.querySelector(".now [type=number]");
  if (number) return number.focus(), number.select(); // it gets the digit
  if (event.repeat && !/^Arrow|^[+-]$/.test(event.key)) return; // a key held down would answer items that nobody has seen
  const chosen = question.choices.find((one) => one.key === keyOf(event));
  const act = chosen ? () => give(question.question, chosen.value) : MOVES[keyOf(event)];
  if (!act || (!scale && ["ArrowUp", "ArrowDown"].includes(event.key))) return;
  event.preventDefault();
  act();
}

addEventListener("keydown", pressed);
addEventListener("resize", arrange);
addEventListener("storage", ({ key }) => { if (key === KEPT) follow(); });
by("comment").addEventListener("input", () => { state.comments[now().item] = by("comment").value; keep(); });
by("name").addEventListener("input", () => { state.name = whole(by("name").value) || state.name; keep(); });
by("save").addEventListener("click", save);
by("load").addEventListener("change", (event) => { if (event.target.files[0]) load(event.target.files[0]); event.target.value = ""; });
const BUTTONS = {
  previous: () => move(state.at - 1), next: () => move(state.at + 1), undo, open: MOVES.o, zoom: MOVES.z, smaller: MOVES["-"],
  larger: MOVES["+"], more: MOVES.t,
};
for (const [id, act] of Object.entries(BUTTONS)) by(id).addEventListener("click", act);

inBrowser(restore);
for (const token of Object.keys(state.answers)) if (!tokens.has(token)) delete state.answers[token];
showItem(); // keeps nothing yet: a page that is loaded again at once may not have its last answers, and gets them by an event
