// Light and dark, remembered where the browser allows it

const root = document.documentElement;
const remembered = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
if (remembered()) root.dataset.theme = remembered();
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it holds for this visit */ }
});
