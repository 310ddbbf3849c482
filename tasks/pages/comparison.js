// Choose the changed samples by direction.

const choices = document.querySelectorAll("[data-shows]");
for (const choice of choices) {
  choice.addEventListener("click", () => {
    const { shows } = choice.dataset;
    for (const each of choices) each.setAttribute("aria-pressed", each === choice);
    for (const sample of document.querySelectorAll(".changed")) {
      sample.hidden = Boolean(shows) && sample.dataset.direction !== shows;
    }
  });
}
