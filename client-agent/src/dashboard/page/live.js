"use strict";
// Renews the figures of the dashboard in their nodes. A hidden page closes its stream, because browsers open only six
// connections to a server.
const node = (id) => document.getElementById(id);

function renew(update) {
  for (const [id, text] of Object.entries(update.text)) {
    const found = node(id);
    if (found && found.textContent !== text) found.textContent = text;
  }
  for (const [id, path] of Object.entries(update.path)) node(id)?.setAttribute("d", path);
  for (const id of ["top", "hop"]) node(id).dataset.state = update.state;
}

// Puts a row of the list of pages into its place after `before`; a row that is there already keeps its node.
function place(body, before, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const fresh = template.content.firstElementChild;
  let row = node(fresh.id);
  if (!row) {
    row = fresh;
  } else if (!row.isEqualNode(fresh)) {
    const focused = row.contains(document.activeElement);
    row.replaceChildren(...fresh.childNodes);
    if (focused) row.querySelector("a").focus();
  }
  const next = before ? before.nextElementSibling : body.firstElementChild;
  if (next !== row) body.insertBefore(row, next);
  return row;
}

function list(rows) {
  const body = node("pages");
  let last = null;
  for (const html of rows) last = place(body, last, html);
  while (body.lastElementChild !== last) body.lastElementChild.remove();
  node("loads").hidden = rows.length === 0;
  node("no-pages").hidden = rows.length > 0;
}

let stream = null;

function follow() {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else if (!stream) {
    stream = new EventSource("/live");
    stream.addEventListener("message", (event) => renew(JSON.parse(event.data)));
    stream.addEventListener("pages", (event) => list(JSON.parse(event.data)));
  }
}

document.addEventListener("visibilitychange", follow);
follow();
