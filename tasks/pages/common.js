// Script of all pages. Texts become text nodes and never markup; nothing is fetched.
"use strict";

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

// Keys are the same with Caps Lock

function keyOf({ key }) {
  return key.length === 1 ? key.toLowerCase() : key;
}

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
