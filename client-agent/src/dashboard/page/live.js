"use strict";
// Renews the figures and lists of the dashboard in their nodes, so that focus and selection stay. A hidden page closes its
// stream, because browsers open only six connections to a server.
const node = (id) => document.getElementById(id);

function renew(update) {
  for (const [id, text] of Object.entries(update.text)) {
    const found = node(id);
    if (found && found.textContent !== text) found.textContent = text;
  }
  for (const [id, path] of Object.entries(update.path)) node(id)?.setAttribute("d", path);
  for (const id of ["top", "hop"]) node(id).dataset.state = update.state;
}

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

// Changes a node into another one, and keeps each of its nodes that has the same place and name.
function become(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    old.data = fresh.data;
    return;
  }
  // What the user has opened stays open.
  const stays = (name) => name === "open" && old.nodeName === "DETAILS";
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !stays(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((child, at) => (before[at] ? become(before[at], child) : old.append(child)));
  before.slice(after.length).forEach((child) => child.remove());
}

// Puts rows into a list; a row that is there already, by its id, keeps its nodes.
function fill(list, rows) {
  let last = null;
  for (const html of rows) {
    const fresh = parse(html);
    const found = node(fresh.id);
    if (found) become(found, fresh);
    const row = found ?? fresh;
    const next = last ? last.nextElementSibling : list.firstElementChild;
    if (next !== row) list.insertBefore(row, next);
    last = row;
  }
  while (list.lastElementChild !== last) list.lastElementChild.remove();
}

function pages(rows) {
  fill(node("pages"), rows);
  node("loads").hidden = rows.length === 0;
  node("no-pages").hidden = rows.length > 0;
}

function parts({ lists, parts }) {
  for (const [id, rows] of Object.entries(lists)) {
    fill(node(`${id}-list`), rows);
    node(`${id}-part`).hidden = rows.length === 0;
  }
  for (const [id, html] of Object.entries(parts)) become(node(id), parse(html));
}

let stream = null;

function follow() {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else if (!stream) {
    stream = new EventSource("/live");
    const on = (name, use) => stream.addEventListener(name, (event) => use(JSON.parse(event.data)));
    on("message", renew);
    on("pages", pages);
    on("parts", parts);
  }
}

document.addEventListener("visibilitychange", follow);
follow();
