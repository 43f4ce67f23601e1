// The browser's side of the tree explorer: shows three panels, sends requests, walks the tree by keyboard.
// It holds no data: every panel is HTML made by Python (explorer_*.py).

const PANELS = ["list", "tree", "detail"];
const LABELS = { list: "Trees and delegations", tree: "The tree", detail: "What was picked" };

function render({ model, el }) {
  el.classList.add("sera-explorer");
  const places = {};
  for (const name of PANELS) {
    const place = document.createElement("section");
    place.className = name;
    place.setAttribute("aria-label", LABELS[name]);
    places[name] = place;
    el.append(place);
  }
  places.detail.setAttribute("aria-live", "polite");

  let n = 0;
  const send = (what) => {
    n += 1;
    el.setAttribute("aria-busy", "true");
    model.set("request", { n, ...what });
    model.save_changes();
  };

  const show = (name) => {
    const place = places[name];
    const field = place.querySelector(":focus")?.name;
    const caret = place.querySelector(":focus")?.selectionStart;
    place.innerHTML = model.get(name);
    if (field) {
      const again = place.querySelector(`[name="${field}"]`);
      again?.focus();
      if (again?.type === "search") again.setSelectionRange(caret, caret);
    }
    if (name === "tree") place.querySelector('[role="treeitem"]')?.setAttribute("tabindex", "0");
    if (name === "detail") {
      place.scrollTop = 0;
      place.querySelector("[data-wanted]")?.scrollIntoView({ block: "start" });
    }
    mark();
  };

  const mark = () => {
    const selected = model.get("selected");
    for (const entry of el.querySelectorAll("[data-open]")) {
      const here = entry.dataset.open === selected;
      if (entry.getAttribute("role") === "treeitem") {
        entry.setAttribute("aria-selected", String(here));
        if (here) {
          walkTo(entry, "quietly");
          const card = entry.querySelector(":scope > span");
          const [outer, inner] = [places.tree.getBoundingClientRect(), card.getBoundingClientRect()];
          if (inner.top < outer.top || inner.bottom > outer.bottom || inner.left < outer.left || inner.right > outer.right)
            card.scrollIntoView({ block: "nearest", inline: "nearest" });
        }
      } else if (entry.classList.contains("entry")) {
        if (here) entry.setAttribute("aria-current", "true");
        else entry.removeAttribute("aria-current");
      }
    }
  };

  const items = () => [...places.tree.querySelectorAll('[role="treeitem"]')];
  const walkTo = (item, how) => {
    if (!item) return;
    for (const other of items()) other.setAttribute("tabindex", other === item ? "0" : "-1");
    if (how !== "quietly") item.focus();
  };

  const filters = () => {
    const form = new FormData(places.list.querySelector("form"));
    send({ filter: form.get("filter"), epoch: form.get("epoch"), text: form.get("text") });
  };

  el.addEventListener("click", (event) => {
    const target = event.target.closest("[data-open], [data-page]");
    if (!target || !el.contains(target)) return;
    if (target.dataset.page !== undefined) send({ page: Number(target.dataset.page) });
    else {
      if (target.getAttribute("role") === "treeitem") walkTo(target);
      send({ open: target.dataset.open });
    }
  });
  el.addEventListener("submit", (event) => {
    event.preventDefault();
    filters();
  });
  places.list.addEventListener("change", filters);
  let typing;
  places.list.addEventListener("input", (event) => {
    if (event.target.name !== "text") return;
    clearTimeout(typing);
    typing = setTimeout(filters, 250);
  });

  places.tree.addEventListener("keydown", (event) => {
    const item = event.target.closest('[role="treeitem"]');
    if (!item || event.target !== item) return;
    const all = items();
    const at = all.indexOf(item);
    const steps = {
      ArrowDown: () => all[at + 1],
      ArrowUp: () => all[at - 1],
      ArrowRight: () => item.querySelector('[role="treeitem"]'),
      ArrowLeft: () => item.parentElement.closest('[role="treeitem"]'),
      Home: () => all[0],
      End: () => all[all.length - 1],
    };
    if (steps[event.key]) walkTo(steps[event.key]());
    else if (event.key === "Enter" || event.key === " ") send({ open: item.dataset.open });
    else return;
    event.preventDefault();
  });

  for (const name of PANELS) {
    model.on(`change:${name}`, () => show(name));
    show(name);
  }
  model.on("change:selected", mark);
  model.on("change:answered", () => el.setAttribute("aria-busy", "false"));
  el.setAttribute("aria-busy", "false");
}

export default { render };
