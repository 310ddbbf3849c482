// Script of all pages. Texts become text nodes and never markup; nothing is fetched.
"use strict";

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

// Light and dark, remembered where the browser allows it

const root = document.documentElement;
const remembered = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
if (remembered()) root.dataset.theme = remembered();
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it holds for this visit */ }
});

// Copying: the code beside a button

async function copy(button) {
  const code = button.parentElement.querySelector("code");
  getSelection().selectAllChildren(code);
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Selected: press Ctrl+C";
  }
}

// Boxes that scroll can be reached and scrolled by keys, in any browser

const SCROLLED = ".wide, pre, .reason p, #text";
const boxes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
const reach = (inside) => { for (const box of inside.querySelectorAll(SCROLLED)) boxes.observe(box); };
reach(document);
