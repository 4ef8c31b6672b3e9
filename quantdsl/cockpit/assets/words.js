"use strict";
// Numbers and times as text, and elements that change only where their text does.

const at = (id) => document.getElementById(id);
const grouped = new Map();
function fixed(value, digits) {
  if (!grouped.has(digits)) {
    grouped.set(digits, new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }
  return grouped.get(digits).format(value + 0).replace("-", "−");
}
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const money = (value) => (known(value) ? fixed(value, 2) : "–");
const signed = (value) => (known(value) ? (value > 0 ? "+" : "") + money(value) : "–");
const share = (value) => (known(value) ? `${fixed(value * 100, 2)} %` : "–");
const count = (value) => fixed(value, 0);
const tone = (value) => (value > 0 ? "gain" : value < 0 ? "loss" : "");
const left = (order) => (order.quantity ? units(order.symbol, order.quantity - order.filled) : "all");
const price = (symbol, value) => (known(value) ? fixed(value, instrument(symbol).price_digits) : "–");
const units = (symbol, value) => (known(value) ? fixed(value, instrument(symbol).quantity_digits) : "–");
const dayTime = (ns) => new Date(ns / 1e6).toISOString().slice(11, 19);
// A time of the session's day as a time, of another day with its date.
const moment = (ns) => (dated(ns).slice(0, 10) === dated(session?.ts ?? ns).slice(0, 10) ? dayTime(ns) : dated(ns).slice(5, 16));
const dated = (ns) => new Date(ns / 1e6).toISOString().slice(0, 19).replace("T", " ");
function span(ns) {
  if (!known(ns)) return "–";
  const [unit, by] = ns < 1e3 ? ["ns", 1] : ns < 1e6 ? ["µs", 1e3] : ns < 1e9 ? ["ms", 1e6] : ["s", 1e9];
  const value = ns / by;
  return `${fixed(value, value < 10 && by > 1 ? 1 : 0)} ${unit}`;
}
const spoken = (name) => name.replaceAll("_", " ");

let session = null;
let instruments = new Map();
const PLAIN = { price_digits: 2, quantity_digits: 2 };
const instrument = (symbol) => instruments.get(symbol) ?? PLAIN;

// Sets text and class only where they differ, so that nothing is laid out anew for nothing.
function put(element, text, className) {
  if (element.textContent !== text) element.textContent = text;
  if (className !== undefined && element.className !== className) element.className = className;
}
function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}
// The children of `parent` are one for each item: kept, updated, made or dropped by key.
function keyed(parent, items, key, create, update) {
  const before = (parent.byKey ??= new Map());
  const after = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    if (after.has(name)) continue;
    const element = before.get(name) ?? create(item);
    update(element, item);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
    after.set(name, element);
  }
  for (const [name, element] of before) if (!after.has(name)) element.remove();
  parent.byKey = after;
}
