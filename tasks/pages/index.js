// Tools for the table: choose, sort, and write the command that compares two evaluations.

const form = document.getElementById("filters");
const table = document.getElementById("evaluations");
const body = table.tBodies[0];
const more = document.getElementById("more");
const FIRST = Number(table.dataset.first); // A browser that lays out all rows of years is busy for seconds.
let rows = [...body.rows].map((node) => ({ node, words: node.textContent.toLowerCase() }));
let most = FIRST;
const told = document.getElementById("compare");
const HOW = told.textContent;
const PLAIN = /^[\w@%+=:,./-]+$/;

// Choosing

function apply() {
  const search = form.elements.search.value.toLowerCase().split(/\s+/);
  let found = 0;
  for (const { node, words } of rows) {
    const fits = search.every((word) => words.includes(word));
    found += fits;
    node.hidden = !fits || found > most;
  }
  form.querySelector("output").textContent = `${found} of ${rows.length}`;
  more.hidden = found <= most;
  more.textContent = `Show all ${found}`;
}

more.addEventListener("click", () => {
  most = rows.length;
  apply();
});
form.addEventListener("input", apply);
form.addEventListener("submit", (event) => event.preventDefault());

// Sorting

function value(node, column) {
  const cell = node.cells[column];
  return "n" in cell.dataset ? Number(cell.dataset.n) : cell.textContent;
}

function order(one, other) {
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
}

function sort(head) {
  const column = head.cellIndex;
  const up = head.ariaSort === "descending";
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  head.ariaSort = up ? "ascending" : "descending";
  const keyed = rows.map((row) => [value(row.node, column), row]);
  keyed.sort(([one], [other]) => (up ? 1 : -1) * order(one, other));
  rows = keyed.map(([, row]) => row);
  body.append(...rows.map(({ node }) => node));
  apply();
}

table.tHead.addEventListener("click", (event) => {
  const head = event.target.closest("button")?.parentElement;
  if (head) sort(head);
});

// Comparing: a name may contain shell commands, so it is quoted

function quoted(text) {
  return PLAIN.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function command([earlier, later]) {
  const names = [earlier, later].map((row) => row.dataset.candidate);
  const both = names.every((name) => name && !/[\p{C}]/u.test(name));
  const of = both ? [...new Set(names)].map((name) => ` --candidate ${quoted(name)}`).join("") : "";
  const runs = [...new Set([earlier.dataset.run, later.dataset.run])].map(quoted).join(" ");
  return `jury compare ${runs}${of}`;
}

// `jury up` marks the index that it serves: there, a form makes the page of the comparison

function asking([before, after]) {
  const fields = {
    before: before.dataset.run, after: after.dataset.run,
    before_candidate: before.dataset.candidate, after_candidate: after.dataset.candidate,
  };
  const inputs = Object.entries(fields).map(([name, value = ""]) => make("input", { type: "hidden", name, value }));
  return make("form", { method: "post", action: "compare" }, ...inputs, make("button", {}, "Compare"));
}

function tell() {
  const chosen = [...body.querySelectorAll("input:checked")].map((box) => box.closest("tr"));
  for (const box of body.querySelectorAll("input")) box.disabled = chosen.length > 1 && !box.checked;
  if (chosen.length < 2) {
    told.textContent = HOW;
    return;
  }
  chosen.sort((one, other) => order(value(one, 1), value(other, 1)));
  const button = make("button", { type: "button" }, "Copy ", make("kbd", {}, "Enter"));
  button.addEventListener("click", () => copy(button));
  const form = "served" in document.body.dataset ? asking(chosen) : "";
  told.replaceChildren(form, make("code", {}, command(chosen)), " ", button);
}

body.addEventListener("change", tell);

// By keyboard: Enter on a chosen evaluation copies the command, however far below it is shown

function leave() {
  form.reset();
  most = FIRST;
  for (const box of body.querySelectorAll("input:checked")) box.checked = false;
  tell();
  apply();
}

addEventListener("keydown", (event) => {
  const chooses = event.target.closest("#evaluations input");
  if (event.key === "Escape") leave();
  if (event.key === "Enter" && chooses) told.querySelector("button")?.click();
  if (event.key !== "/" || (event.target.closest("input, select") && !chooses)) return;
  event.preventDefault();
  form.elements.search.focus();
});

leave();
