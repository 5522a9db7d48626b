// Elements, built so that data can never become markup: text goes into text nodes, attributes
// through setAttribute, styles through the CSSOM (which a strict policy allows).

/**
 * Makes an element.
 * @param {string} tag e.g. 'td', or 'td.number' for classes
 * @param {object} [props] `on` {event: handler}, `data` {name: value}, `style` {property: value},
 *   `value`, `checked`, … as properties; all else as attributes. null, undefined and false leave out.
 * @param {...(Node|string|number|null|false|Array)} children
 * @returns {HTMLElement}
 */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split('.');
  const el = document.createElement(name || 'div');
  if (classes.length) el.className = classes.join(' ');
  for (const [key, value] of Object.entries(props ?? {})) set(el, key, value);
  add(el, children);
  return el;
}

const asProperty = new Set(['value', 'checked', 'disabled', 'selected', 'hidden', 'open']);

function set(el, key, value) {
  if (key === 'on') {
    for (const [event, handler] of Object.entries(value)) el.addEventListener(event, handler);
  } else if (key === 'data') {
    for (const [name, v] of Object.entries(value)) if (v != null) el.dataset[name] = String(v);
  } else if (key === 'style') {
    for (const [name, v] of Object.entries(value)) el.style.setProperty(name, v);
  } else if (key === 'test') {
    el.dataset.test = value;
  } else if (asProperty.has(key)) {
    el[key] = value;
  } else if (value != null && value !== false) {
    el.setAttribute(key, value === true ? '' : String(value));
  }
}

function add(el, children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false || child === '') continue;
    el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replaces what an element holds. */
export function fill(el, ...children) {
  el.replaceChildren();
  add(el, children);
  return el;
}

/** Sets an element's text if it is another, so that nothing is announced or laid out anew for nothing. */
export function say(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

/**
 * A table with a caption and column headings.
 * @param {string} caption
 * @param {{label: string, number?: boolean, hide?: boolean, title?: string}[]} columns `hide`: not on narrow screens;
 *   '' as a label is told to screen readers by `said`
 * @param {HTMLElement[]} rows
 */
export function table(caption, columns, rows, props) {
  const heads = columns.map((c) => h('th', { scope: 'col', class: classOf(c), title: c.title }, c.label || h('span.unseen', null, c.said ?? '')));
  return h(
    'div.scroll',
    { tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', props, h('caption.unseen', null, caption), h('thead', null, h('tr', null, heads)), h('tbody', null, rows)),
  );
}

/** The class of a column's cells. */
export const classOf = (c) => [c.number && 'number', c.hide && 'wide-only'].filter(Boolean).join(' ') || null;

/**
 * Opens a modal dialog, which leaves the page when it is closed. It is a step of the history, so that Back closes it.
 * @returns {HTMLDialogElement}
 */
export function dialog(test, title, ...children) {
  const id = `${test}-title`;
  const before = document.activeElement;
  const el = h('dialog', { test, 'aria-labelledby': id }, h('h2', { id }, title), children);
  const depth = (history.state?.dialog ?? 0) + 1;
  history.pushState({ dialog: depth }, '');
  const back = (e) => {
    if ((e.state?.dialog ?? 0) < depth) el.close();
  };
  addEventListener('popstate', back);
  el.addEventListener('close', () => {
    removeEventListener('popstate', back);
    if (history.state?.dialog === depth) history.back();
    el.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus();
  });
  el.addEventListener('click', (e) => {
    if (e.target === el && outside(el, e)) el.close();
  });
  document.body.append(el);
  el.showModal();
  return el;
}

function outside(el, e) {
  const box = el.getBoundingClientRect();
  return e.clientX < box.left || e.clientX > box.right || e.clientY < box.top || e.clientY > box.bottom;
}

/** Tells the operator what came of what they did. Errors stay until they are closed. */
export function toast(text, kind = 'ok') {
  const el = h(
    `div.toast.${kind}`,
    { test: 'toast', data: { kind } },
    h('p', null, text),
    h('button.quiet', { type: 'button', 'aria-label': 'Close this message', on: { click: () => el.remove() } }, '×'),
  );
  document.querySelector('.toasts').append(el);
  if (kind === 'ok') setTimeout(() => el.remove(), 8000);
}

/** A label with its field, and perhaps a hint. */
export function field(label, input, hint) {
  return h('label.field', null, h('span', null, label), input, hint && h('small', null, hint));
}

/** A select. @param {[string, string][]} options value and label */
export function select(props, options, chosen) {
  return h(
    'select',
    props,
    options.map(([value, label]) => h('option', { value, selected: value === chosen }, label)),
  );
}
