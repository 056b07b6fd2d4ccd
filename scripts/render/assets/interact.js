<!-- --><script>
// What readers turn, predict and tick off. A page is complete without it; nothing leaves the reader's device.
// Quarto includes this file as HTML, hence its first and last line, which to a browser's script are comments.
"use strict";
(() => {
  const each = (selector, work) => document.querySelectorAll(selector).forEach(work);
  const text = (element, words) => { if (element && element.textContent !== words) element.textContent = words; };

  // explore: the controls choose a state; a state is a template joined with a row (modelcall.lab.packing).
  each(".explore", (box) => {
    const data = JSON.parse(box.querySelector("script").textContent);
    const result = box.querySelector(".explore-result");
    const fields = [...box.querySelectorAll(".explore-controls :is(input, select)")];
    const at = (field) => field.type === "checkbox" ? +field.checked : field.type === "range" ? +field.value : field.selectedIndex;
    const update = () => {
      let state = 0;
      fields.forEach((field, i) => {
        state = state * data.c[i].length + at(field);
        if (field.type !== "range") return;
        const name = data.c[i][at(field)];
        field.setAttribute("aria-valuetext", name);
        text(field.nextElementSibling, name);
      });
      result.style.minHeight = Math.ceil(result.getBoundingClientRect().height) + "px"; // what stands below does not jump back and forth
      const [template, ...words] = data.r[data.s ? data.s[state] : state].split(",");
      result.innerHTML = data.t[template].map((piece) => piece.charAt ? piece : words[piece]).join("");
    };
    for (const field of fields) field.addEventListener("input", update);
    addEventListener("resize", () => { result.style.minHeight = ""; });
    // A browser that comes back to a page may have kept the controls where they were, and not the figure.
    const first = (field) => field.type === "checkbox" ? +field.defaultChecked : field.type === "range" ? +field.defaultValue :
      Math.max(0, [...field.options].findIndex((option) => option.defaultSelected));
    addEventListener("pageshow", () => { if (fields.some((field) => at(field) !== first(field))) update(); });
  });

  // Predictions and ticks: in the browser's storage, or on this page only where that is refused.
  const prefix = "modelcall:", visit = new Map();
  let kept = true;
  const storage = (work) => {
    try { return work(localStorage); } catch { kept = false; return null; }
  };
  const read = (key) => visit.get(key) ?? storage((store) => store.getItem(prefix + key));
  const write = (key, value) => {
    if (value === null) visit.delete(key); else visit.set(key, value);
    storage((store) => value === null ? store.removeItem(prefix + key) : store.setItem(prefix + key, value));
  };
  storage((store) => store.getItem(prefix));
  const where = () => kept ? "on this device" : "until you leave this page: the browser keeps nothing here";

  each("form.prediction", (form) => {
    const status = form.querySelector("[role=status]"), key = form.dataset.key;
    const fields = [...form.querySelectorAll("input")];
    const show = (value) => { text(status, value === null ? "" : `Kept ${where()}: ${value}.`); };
    const before = read(key);
    if (before !== null) {
      for (const field of fields) {
        if (field.type === "radio") field.checked = field.value === before; else field.value = before;
      }
      show(before);
    }
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = new FormData(form).get("value");
      write(key, value);
      show(value);
      dispatchEvent(new Event("kept"));
    });
  });

  // What the page found for a prediction, once it has told: what was said stands beside it.
  each(".predicted", (line) => {
    const found = line.textContent;
    const show = () => {
      const said = read(line.dataset.key);
      text(line, said === null ? found : `${found} You said ${said}.`);
    };
    addEventListener("kept", show);
    show();
  });

  each("input[type=checkbox][data-key]", (box) => {
    box.checked = read(box.dataset.key) !== null;
    box.addEventListener("change", () => write(box.dataset.key, box.checked ? "solved" : null));
  });

  // The progress page: the book's list, filled from the same storage.
  each(".progress", (list) => {
    const rows = [...list.querySelectorAll("tr[data-key]")];
    const status = list.querySelector("[role=status]");
    const show = () => {
      let done = 0;
      for (const row of rows) {
        const value = read(row.dataset.key);
        done += value !== null;
        row.classList.toggle("done", value !== null);
        text(row.cells[2], value === null ? "open" : value);
      }
      text(status, `${done} of ${rows.length} done` + (kept ? "." : "; the browser keeps nothing between pages."));
    };
    const markdown = () => ["# My progress", "", status.textContent, "", "| what | state |", "|---|---|",
      ...rows.map((row) => "| " + [0, 1].map((i) => row.cells[i].textContent.trim()).join(" ") + " | " + row.cells[2].textContent.trim().replace(/\|/g, "\\|") + " |"), ""].join("\n");
    const press = (name, work) => list.querySelector(`button[data-do=${name}]`).addEventListener("click", work);
    press("export", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([markdown()], { type: "text/markdown" }));
      link.download = "progress.md";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    press("print", () => print());
    press("reset", () => {
      if (!confirm("Remove all predictions and ticks from this browser?")) return;
      for (const row of rows) write(row.dataset.key, null);
      storage((store) => Object.keys(store).filter((key) => key.startsWith(prefix)).forEach((key) => store.removeItem(key)));
      show();
    });
    addEventListener("storage", show);
    addEventListener("pageshow", show);
    show();
  });
})();
<!-- --></script>
