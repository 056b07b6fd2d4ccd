// The page's behaviour: theme, contents on a phone, copy buttons, tabs, scroll boxes, margin, search.
// Every page is complete without it.
"use strict";
(() => {
  const root = document.documentElement;
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
  const make = (tag, properties = {}) => Object.assign(document.createElement(tag), properties);

  // Theme: automatic, then the other one than the system's, then the system's, then automatic again.
  // The head's script applies the stored one.
  const themeButton = $(".theme-button");
  const showTheme = () => {
    const name = root.dataset.theme || "automatic";
    $("span", themeButton).textContent = "Theme: " + name;
    themeButton.title = "Theme: " + name;
  };
  themeButton.addEventListener("click", () => {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const other = system === "dark" ? "light" : "dark";
    const next = { automatic: other, [other]: system, [system]: "automatic" }[root.dataset.theme || "automatic"];
    if (next === "automatic") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      if (next === "automatic") localStorage.removeItem("theme");
      else localStorage.setItem("theme", next);
    } catch { /* private windows may refuse; the theme then lasts for this page */ }
    showTheme();
  });
  showTheme();

  // Contents on a phone. Without this script the link jumps to the list, which :target then shows.
  const menu = $(".menu-button"), sidebar = $("#sidebar");
  const setMenu = (open) => {
    sidebar.classList.toggle("open", open);
    menu.setAttribute("aria-expanded", open);
    if (open) $("a", sidebar).focus();
  };
  menu.addEventListener("click", (event) => {
    event.preventDefault();
    setMenu(!sidebar.classList.contains("open"));
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key === " ") { event.preventDefault(); menu.click(); }
  });
  sidebar.addEventListener("click", (event) => { if (event.target.closest("a")) setMenu(false); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && sidebar.classList.contains("open")) { setMenu(false); menu.focus(); }
  });
  const here = $('[aria-current="page"]', sidebar);
  if (here) {
    const box = here.getBoundingClientRect();
    if (box.top > sidebar.clientHeight - 80) sidebar.scrollTop = box.top - 120;
  }

  // What a docstring says beyond its first paragraph is folded. The button's word is the style sheet's, so that it
  // is no part of the code's text, which the copy button and the search read whole.
  for (const rest of $$("d-")) {
    const button = make("button", { type: "button", className: "more" });
    const set = (open) => {
      rest.classList.toggle("open", open);
      button.setAttribute("aria-expanded", open);
    };
    button.setAttribute("aria-label", "Rest of the docstring");
    button.addEventListener("click", () => set(button.getAttribute("aria-expanded") !== "true"));
    set(false);
    rest.nextElementSibling.before(button);
  }

  // Copy buttons on code, not on outputs.
  for (const block of $$("div.sourceCode")) {
    const button = make("button", { type: "button", className: "copy", textContent: "Copy" });
    button.setAttribute("aria-label", "Copy the code");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText($("code", block).textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren($("code", block));
        button.textContent = "Press Ctrl+C";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    });
    block.append(button);
  }

  // Boxes that scroll sideways can be reached with the keyboard; boxes that do not, need not.
  const boxes = $$(".scroll, .drawing, pre, .equation > math, article > p > math[display=block]");
  const setScroll = () => {
    for (const box of boxes) {
      if (box.scrollWidth > box.clientWidth) {
        box.tabIndex = 0;
        if (box.tagName.toLowerCase() === "math") continue; // has its own role and name
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", box.matches("pre") ? "Code" : box.matches(".drawing") ? "Figure" : "Table");
      } else if (box.tabIndex === 0) {
        for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
      }
    }
  };
  setScroll();
  addEventListener("resize", setScroll);

  // Tabs: arrow keys move, sets of one group move together. Without this script all panels show.
  const sets = $$(".panel-tabset");
  const choose = (set, index, focus) => {
    const tabs = $$(":scope > [role=tablist] > [role=tab]", set);
    const panels = $$(":scope > [role=tabpanel]", set);
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", i === index);
      tab.tabIndex = i === index ? 0 : -1;
      panels[i].hidden = i !== index;
    });
    if (focus) tabs[index].focus();
    setScroll();
  };
  for (const set of sets) {
    // A panel with nothing to focus is itself a stop, so that its text can be reached from the tab.
    for (const panel of $$(":scope > [role=tabpanel]", set)) if (!$("a[href], button, [tabindex='0']", panel)) panel.tabIndex = 0;
    const tabs = $$(":scope > [role=tablist] > [role=tab]", set);
    const pick = (index, focus) => {
      choose(set, index, focus);
      if (!set.dataset.group) return;
      const name = tabs[index].textContent;
      for (const other of sets.filter((s) => s !== set && s.dataset.group === set.dataset.group)) {
        const same = $$(":scope > [role=tablist] > [role=tab]", other).findIndex((t) => t.textContent === name);
        if (same >= 0) choose(other, same, false);
      }
    };
    tabs.forEach((tab, i) => {
      tab.addEventListener("click", () => pick(i, false));
      tab.addEventListener("keydown", (event) => {
        const last = tabs.length - 1;
        const to = { ArrowRight: i === last ? 0 : i + 1, ArrowLeft: i === 0 ? last : i - 1, Home: 0, End: last }[event.key];
        if (to !== undefined) { event.preventDefault(); pick(to, true); }
      });
    });
    choose(set, 0, false);
  }

  // A link into a folded box or a hidden tab opens it.
  const reveal = () => {
    let target = null;
    try { target = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { return; }
    for (let node = target; node; node = node.parentElement) {
      if (node.tagName === "DETAILS") node.open = true;
      if (node.matches("[role=tabpanel][hidden]")) $("#" + node.id + "-tab").click();
    }
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  if (location.hash) reveal();
  // On paper every fold is open; afterwards each is as it was.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = $$("details:not([open])");
    for (const box of opened) box.open = true;
  });
  addEventListener("afterprint", () => { for (const box of opened) box.open = false; });

  // The page's contents: mark the section being read, and make room for margin notes.
  const contents = $(".contents");
  if (contents) {
    const lists = [$$("a", contents), $$("li li a", sidebar)].map((links) =>
      links.map((link) => [link, document.getElementById(decodeURIComponent(link.hash.slice(1)))]));
    const notes = $$(".margin-note");
    let waiting = false;
    const update = () => {
      waiting = false;
      const line = innerHeight * 0.25;
      for (const list of lists) {
        const current = list.findLast(([, head]) => head && head.getBoundingClientRect().top < line)?.[0];
        for (const [link] of list) {
          if (link !== current) link.removeAttribute("aria-current");
          else if (!link.hasAttribute("aria-current")) {
            link.setAttribute("aria-current", "true");
            // Its own list scrolls with it; scrollIntoView would scroll the page too.
            const frame = link.closest("nav"), at = link.getBoundingClientRect(), view = frame.getBoundingClientRect();
            if (at.top < view.top || at.bottom > view.bottom) frame.scrollTop += at.top - view.top - view.height / 2;
          }
        }
      }
      const box = contents.getBoundingClientRect();
      const covered = notes.some((note) => {
        const other = note.getBoundingClientRect();
        return other.right > box.left && other.top < box.bottom + 12 && other.bottom > box.top - 12;
      });
      contents.classList.toggle("covered", covered);
    };
    const later = () => { if (!waiting) { waiting = true; requestAnimationFrame(update); } };
    addEventListener("scroll", later, { passive: true });
    addEventListener("resize", later);
    update();
  }

  // Search: the index is a script, loaded at the first use, so that it works from file:// too.
  const dialog = $("dialog.search"), input = $("input", dialog), list = $("[role=listbox]", dialog), status = $(".search-status", dialog);
  const base = document.body.dataset.root;
  let index = null, active = -1;
  // Of a text only its words, a space before each: where a word begins is then a plain search.
  const spaced = (text) => " " + text.replace(/[^\p{L}\p{N}_]+/gu, " ");
  const load = () => new Promise((done, failed) => {
    if (index) { done(); return; }
    const script = make("script", { src: base + "assets/search-index.js", onerror: failed });
    script.onload = () => {
      index = window.BOOK_INDEX.map(([address, chapter, title, text]) => {
        const low = text.toLowerCase(), head = (title + " " + chapter).toLowerCase();
        return { address, chapter, title, text, low, head, words: spaced(low), headWords: spaced(head) };
      });
      done();
    };
    document.head.append(script);
  });
  const escape = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const mark = (text, terms) => {
    const pattern = new RegExp("(" + terms.map(literal).join("|") + ")", "gi");
    return text.split(pattern).map((piece, i) => (i % 2 ? "<mark>" + escape(piece) + "</mark>" : escape(piece))).join("");
  };
  const snippet = (entry, terms) => {
    const begins = terms.map((t) => entry.low.search(new RegExp("(?<![\\p{L}\\p{N}_])" + literal(t), "u")));
    const places = (begins.some((i) => i >= 0) ? begins : terms.map((t) => entry.low.indexOf(t))).filter((i) => i >= 0);
    const at = Math.max(0, Math.min(...places, entry.text.length) - 60);
    const start = at ? entry.text.indexOf(" ", at) + 1 : 0;
    const end = entry.text.lastIndexOf(" ", start + 170), rest = entry.text.length > start + 170;
    return (start ? "… " : "") + entry.text.slice(start, rest && end > start ? end : start + 170) + (rest ? " …" : "");
  };
  // Every term must occur. A word that begins with it counts more than one that only holds it (GiB, eligible), a
  // heading more than the text, a chapter more than an appendix.
  const find = (query) => {
    const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!terms.length || !index) return [terms, [], 0];
    const hits = [];
    for (const entry of index) {
      let score = 0;
      for (const term of terms) {
        const inHead = entry.head.includes(term), inText = entry.low.includes(term);
        if (!inHead && !inText) { score = -1; break; }
        const word = spaced(term).trimEnd();
        score += (word && entry.headWords.includes(word) ? 20 : inHead ? 4 : 0) + (inText ? 0.2 : 0) +
          (entry.title.toLowerCase().startsWith(term) ? 10 : 0) + (word ? Math.min(entry.words.split(word).length - 1, 8) : 0);
      }
      if (score > 0 && terms.length > 1 && entry.low.includes(terms.join(" "))) score += 15;
      if (/^[A-Z] /.test(entry.chapter)) score *= 0.5;
      if (score > 0) hits.push([score, entry]);
    }
    return [terms, hits.sort((a, b) => b[0] - a[0]).slice(0, 20).map((hit) => hit[1]), hits.length];
  };
  const select = (i) => {
    const items = $$("a", list);
    active = items.length && i >= -1 ? (i === items.length ? 0 : i) : items.length - 1;
    items.forEach((item, j) => item.setAttribute("aria-selected", j === active));
    if (active >= 0) {
      input.setAttribute("aria-activedescendant", items[active].id);
      items[active].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  };
  const show = () => {
    const [terms, hits, count] = find(input.value);
    list.innerHTML = hits.map((entry, i) => {
      const place = entry.title === entry.chapter ? "" : '<span class="place">' + escape(entry.chapter) + "</span>";
      return '<a role="option" tabindex="-1" id="hit-' + i + '" href="' + escape(base + entry.address) + '">' +
        place + "<strong>" + mark(entry.title, terms) + "</strong><span>" + mark(snippet(entry, terms), terms) + "</span></a>";
    }).join("");
    input.setAttribute("aria-expanded", hits.length > 0);
    const sections = count + (count === 1 ? " section" : " sections");
    status.textContent = !terms.length ? "" : !count ? "No section has all these words." :
      count > hits.length ? sections + ", the best " + hits.length : sections;
    select(-1);
  };
  const openSearch = () => {
    if (!dialog.open) dialog.showModal();
    input.select();
    load().then(show, () => { status.textContent = "The search index could not be loaded."; });
  };
  $(".search-button").addEventListener("click", openSearch);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea, select, [contenteditable]");
    if ((event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) || (event.key === "k" && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      openSearch();
    }
  });
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      select(active + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Escape") { // a search field would first empty itself
      event.preventDefault();
      dialog.close();
    } else if (event.key === "Enter") {
      event.preventDefault();
      const link = $('[aria-selected="true"]', list) || $("a", list);
      if (link) { dialog.close(); link.click(); }
    }
  });
  list.addEventListener("click", (event) => { if (event.target.closest("a")) dialog.close(); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
})();
