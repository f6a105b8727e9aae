"use strict";
(() => {
  const root = document.documentElement;
  const find = (id) => document.getElementById(id);
  const make = (tag, text, given) => {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    for (const [name, value] of Object.entries(given || {})) element.setAttribute(name, value);
    return element;
  };

  // light and dark: the reader's choice outlives the page where the browser allows it
  const remembered = () => { try { return localStorage.getItem("statewise-theme"); } catch { return null; } };
  if (remembered()) root.dataset.theme = remembered();
  find("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("statewise-theme", root.dataset.theme); } catch { /* a private window keeps nothing */ }
  });

  // what a cell of a table is about, beside it
  const tip = find("tip");
  let leaving = 0, about = null;
  const hide = () => { tip.hidden = true; about = null; };
  const put = (cell) => {
    const at = cell.getBoundingClientRect(), size = tip.getBoundingClientRect(), edge = 8;
    const left = Math.min(Math.max(edge, at.left + at.width / 2 - size.width / 2), root.clientWidth - size.width - edge);
    const below = at.bottom + edge + size.height < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(edge, below ? at.bottom + 4 : at.top - size.height - 4)}px`;
  };
  const showTip = (cell) => {
    clearTimeout(leaving);
    const more = find(cell.dataset.more);
    if (!more) return;
    tip.replaceChildren(...[...more.childNodes].map((node) => node.cloneNode(true)));
    tip.hidden = false;
    about = cell;
    put(cell);
  };
  const leave = () => {
    clearTimeout(leaving);
    leaving = setTimeout(() => { if (!about || !about.contains(document.activeElement)) hide(); }, 180);
  };
  for (const cell of document.querySelectorAll("td.cell")) {
    for (const event of ["mouseenter", "focusin", "click"]) cell.addEventListener(event, () => showTip(cell));
    for (const event of ["mouseleave", "focusout"]) cell.addEventListener(event, leave);
  }
  tip.addEventListener("mouseenter", () => clearTimeout(leaving));
  tip.addEventListener("mouseleave", leave);
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("pointerdown", (event) => { if (!event.target.closest("td.cell, #tip")) hide(); });
  addEventListener("scroll", () => {
    if (!about) return;
    const at = about.getBoundingClientRect();
    if (at.bottom < 0 || at.top > innerHeight) hide(); else put(about);
  }, { passive: true });

  // all runs
  const data = JSON.parse(find("data").textContent);
  const runs = data.runs.map((row) => {
    const config = { ...data.common, ...row.c };
    for (const name of row.x || []) delete config[name];
    const scores = row.r || {}, constants = row.b || {}, lengths = Object.keys(scores).map(Number).sort((a, b) => a - b), last = lengths[lengths.length - 1];
    return {
      key: row.k, config, own: row.c || {}, scores, constants, lengths, row,
      text: [row.k, row.s, config.task, config.model, config.recipe, `seed=${config.seed}`, `lr=${config.lr}`, row.e].join(" ").toLowerCase(),
      cells: {
        task: config.task, model: config.model, recipe: config.recipe, status: row.s, hidden: config.hidden, steps: row.n,
        lr: config.lr, seed: config.seed, inside: row.i, far: scores[data.far], longest: scores[last],
        constantFar: constants[data.far], constantLongest: constants[last], constantInside: row.j, verdict: row.w,
        loss: row.l, seconds: row.t,
      },
    };
  });
  const signed = (text) => (Number(text) ? text : text.replace("-", "")).replace("-", "−");
  const score = (value) => signed(value.toFixed(2)), whole = (value) => signed(String(value));
  const columns = [
    ["task", "task"], ["model", "model"], ["recipe", "recipe"],
    ["far", `score at ${data.far.toLocaleString("en")}`, score], ["constantFar", "constant answer", score], ["longest", "score, longest", score], ["constantLongest", "constant, longest", score],
    ["inside", "score, training lengths", score], ["constantInside", "constant, training lengths", score], ["verdict", "verdict"], ["status", "status"],
    ["hidden", "H", String], ["steps", "steps", (n) => n.toLocaleString("en")], ["lr", "rate", String], ["seed", "seed", String],
    ["loss", "loss", (n) => n.toPrecision(2)], ["seconds", "seconds", (n) => n.toFixed(1)],
  ];
  const EACH = 100, VIEW = "#runs?", FIELDS = ["text", "status", "model", "recipe"];
  const form = find("filters"), body = document.querySelector(".runs tbody"), head = document.querySelector(".runs thead");
  const opened = new Set();
  let sorted = null, falling = false, page = 0, chosen = runs;

  const fill = (name) => {
    const values = [...new Set(runs.map((run) => run.cells[name]).filter((value) => value !== undefined && value !== null))];
    const select = form.elements[name];
    select.append(make("option", "all", { value: "" }));
    values.map(String).sort().forEach((value) => select.append(make("option", value.length > 40 ? `${value.slice(0, 39)}…` : value, { value })));
  };
  ["status", "model", "recipe"].forEach(fill);

  const compare = (a, b) => {
    const x = a.cells[sorted], y = b.cells[sorted];
    const noX = x === undefined || x === null, noY = y === undefined || y === null;
    // what is missing stands last either way
    if (noX || noY) return noX - noY;
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return falling ? -order : order;
  };
  const written = (value) => (value === null ? "none" : Array.isArray(value) ? value.join(", ") : String(value));
  // "rate=0.01" filters a column by its title or its option, "hidden=64" any option; other parts are text
  const named = new Map([...runs.flatMap((run) => Object.keys(run.config)), ...columns.map(([name]) => name)].map((name) => [name.toLowerCase(), name]));
  columns.forEach(([name, title]) => named.set(title.toLowerCase(), name));
  const matching = (part) => {
    const cut = part.indexOf("="), name = named.get(part.slice(0, cut)), wanted = part.slice(cut + 1);
    if (cut < 1 || name === undefined) return (run) => run.text.includes(part);
    return (run) => {
      const value = name in run.cells ? run.cells[name] : run.config[name];
      if (!wanted || value === undefined) return !wanted;
      return typeof value === "number" && !Number.isNaN(Number(wanted)) ? value === Number(wanted) : written(value).toLowerCase().includes(wanted);
    };
  };
  const choose = () => {
    const tests = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean).map(matching);
    const wanted = ["status", "model", "recipe"].map((name) => [name, form.elements[name].value]).filter(([, value]) => value);
    chosen = runs.filter((run) => tests.every((test) => test(run)) && wanted.every(([name, value]) => String(run.cells[name]) === value));
    if (sorted) chosen.sort(compare);
    page = 0;
  };

  const toml = (config) => Object.entries(config).filter(([, value]) => value !== null).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join("\n");
  const list = (pairs, own) => {
    const made = make("dl", null, { class: "pairs" });
    for (const [name, value] of pairs) {
      const kinds = [own && name in own ? "own" : "", String(value).length > 24 ? "long" : ""].join(" ").trim();
      const pair = make("div", null, kinds ? { class: kinds } : {});
      pair.append(make("dt", name), make("dd", value));
      made.append(pair);
    }
    return made;
  };
  const details = (run) => {
    const made = make("div", null, { class: "details" });
    if (run.row.e) made.append(make("p", run.row.e, { class: "reason" }));
    const facts = [["key", run.key]];
    const beside = (value, constant) => whole(value) + (constant === undefined ? "" : `, constant ${whole(constant)}`);
    if (run.row.i !== undefined) facts.push(["score, training lengths", beside(run.row.i, run.row.j)]);
    run.lengths.forEach((length) => facts.push([`score at ${length.toLocaleString("en")}`, beside(run.scores[length], run.constants[length])]));
    if (run.row.w) facts.push(["verdict", run.row.w]);
    if (run.row.l !== undefined) facts.push(["last loss", run.row.l.toPrecision(4)]);
    if (run.row.p !== undefined) facts.push(["parameters", run.row.p.toLocaleString("en")]);
    if (run.row.f) facts.push(["finished", `${run.row.f} UTC`]);
    if (data.made[run.row.v]) facts.push(["made with", data.made[run.row.v]]);
    made.append(make("h4", "Results"), list(facts), make("h4", "Config"), make("p", "Bold: not as in most runs of this store.", { class: "muted" }));
    made.append(list(Object.entries(run.config).map(([name, value]) => [name, written(value)]), run.own));
    const again = make("details");
    again.append(make("summary", "As a file for statewise train --config"), make("pre", toml(run.config)));
    made.append(again);
    return made;
  };
  const rowOf = (run) => {
    const row = make("tr", null, { id: `run-${run.key}`, class: "run" });
    columns.forEach(([name, , write], place) => {
      const value = run.cells[name], cell = make(place ? "td" : "th", null, place ? {} : { scope: "row" });
      const text = value === undefined || value === null ? "–" : write && typeof value === "number" ? write(value) : String(value);
      if (!place) {
        const button = make("button", null, { type: "button", "aria-expanded": String(opened.has(run.key)), title: text });
        // long names break where their parts end
        text.split(/(?<=[_(,])/).forEach((part) => button.append(part, make("wbr")));
        cell.append(button);
      } else {
        cell.textContent = text;
        if (write) cell.className = "number";
        cell.title = write === score && typeof value === "number" ? whole(value) : text;
        if (name === "longest" && value !== undefined) cell.title += ` at length ${run.lengths[run.lengths.length - 1].toLocaleString("en")}`;
        if (name === "status") cell.className = `status ${text.replace(/\W/g, "")}`;
      }
      row.append(cell);
    });
    // the whole row opens the run, but whoever marks its text wants to copy it
    row.addEventListener("click", () => { if (getSelection().isCollapsed) toggle(run); });
    if (!opened.has(run.key)) return [row];
    const more = make("tr", null, { class: "opened" }), cell = make("td", null, { colspan: String(columns.length) });
    cell.append(details(run));
    more.append(cell);
    return [row, more];
  };
  const draw = () => {
    const from = page * EACH, some = chosen.slice(from, from + EACH), pages = Math.max(1, Math.ceil(chosen.length / EACH));
    body.replaceChildren(...some.flatMap(rowOf));
    const counted = chosen.length === runs.length ? `${runs.length.toLocaleString("en")} run${runs.length === 1 ? "" : "s"}` : `${chosen.length.toLocaleString("en")} of ${runs.length.toLocaleString("en")} runs`;
    find("shown").textContent = runs.length ? `${counted}. Choose a run for its full config.` : "There are no runs in this store.";
    find("pages").hidden = pages === 1;
    find("pages").querySelector("span").textContent = `page ${page + 1} of ${pages}`;
    find("before").disabled = page === 0;
    find("after").disabled = page === pages - 1;
    for (const cell of head.querySelectorAll("th")) cell.setAttribute("aria-sort", cell.dataset.name === sorted ? (falling ? "descending" : "ascending") : "none");
  };
  const toggle = (run) => {
    if (!opened.delete(run.key)) opened.add(run.key);
    draw();
    const row = find(`run-${run.key}`);
    if (row) row.querySelector("button").focus({ preventScroll: true });
  };
  const open = (key) => {
    const run = runs.find((one) => one.key === key);
    if (!run) return;
    if (!chosen.includes(run)) {
      for (const name of FIELDS) form.elements[name].value = "";
      choose();
    }
    opened.add(key);
    page = Math.floor(chosen.indexOf(run) / EACH);
    draw();
    hide();
    const row = find(`run-${key}`);
    row.classList.add("sought");
    row.scrollIntoView({ block: "start" });
    row.querySelector("button").focus({ preventScroll: true });
  };

  // what is chosen, and in which order, is in the address: whoever is given it sees the same runs
  const changed = () => {
    choose();
    draw();
    const view = new URLSearchParams(FIELDS.map((name) => [name, form.elements[name].value]).filter(([, value]) => value));
    if (sorted) view.set(falling ? "falling" : "rising", sorted);
    history.replaceState(null, "", String(view) ? VIEW + view : "#runs");
  };
  const restore = () => {
    const view = new URLSearchParams(location.hash.slice(VIEW.length));
    FIELDS.forEach((name) => { form.elements[name].value = view.get(name) || ""; });
    falling = view.has("falling");
    sorted = columns.map(([name]) => name).find((name) => name === view.get(falling ? "falling" : "rising")) || null;
    choose();
    draw();
    find("runs").scrollIntoView();
  };

  const line = make("tr");
  for (const [name, title, write] of columns) {
    const cell = make("th", null, { scope: "col", "data-name": name, class: write ? "number" : "" }), button = make("button", title, { type: "button" });
    button.addEventListener("click", () => {
      // numbers begin with the largest
      falling = sorted === name ? !falling : Boolean(write);
      sorted = name;
      changed();
    });
    cell.append(button);
    line.append(cell);
  }
  head.append(line);
  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(changed));
  const turn = (by) => { page += by; draw(); find("runs").scrollIntoView(); };
  find("before").addEventListener("click", () => turn(-1));
  find("after").addEventListener("click", () => turn(1));
  form.hidden = find("list").hidden = !runs.length;
  draw();

  const sought = () => {
    if (location.hash.startsWith("#run-")) open(location.hash.slice(5));
    if (location.hash.startsWith(VIEW)) restore();
  };
  addEventListener("hashchange", sought);
  // a second click on the same link changes no address
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#run-"]');
    if (!link) return;
    event.preventDefault();
    history.pushState(null, "", link.getAttribute("href"));
    sought();
  });
  sought();
})();
