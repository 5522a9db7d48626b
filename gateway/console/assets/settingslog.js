// The settings history: who changed what, when and why, and rolling back.

import { get, onSession, poll, session } from './api.js';
import { fill, h, say, table } from './dom.js';
import { stamp } from './format.js';
import { confirmChange } from './settingsedit.js';

/**
 * @param {(changes: object[]) => void} changed after a rollback
 * @returns {{stop: () => void, now: () => void}}
 */
export function mountLog(root, changed) {
  const problem = h('p.problem'),
    body = h('div');
  root.append(h('section.block', null, h('h2', null, 'History'), problem, body));
  let entries = [],
    drawn = '';
  const draw = () => {
    const shape = JSON.stringify([entries.map((e) => e.id), session.signedIn]);
    if (shape === drawn) return; // it is read, perhaps with the keyboard
    drawn = shape;
    fill(
      body,
      entries.length
        ? historyTable(entries, (changes) => {
            changed(changes);
            asking.now();
          })
        : h('p.none', null, 'No changes yet. Changes made here or with foregate settings appear with their reason.'),
    );
  };
  const asking = poll(
    5000,
    async (signal) => {
      entries = (await get('settings/log?n=50', signal)).entries;
    },
    (err) => {
      say(problem, err ? `The history cannot be read: ${err.message}` : '');
      if (!err) draw();
    },
  );
  const unheard = onSession(draw);
  return {
    stop: () => {
      asking.stop();
      unheard();
    },
    now: asking.now,
  };
}

function historyTable(entries, changed) {
  const columns = [
    { label: 'Version', number: true },
    { label: 'Time' },
    { label: 'Operator' },
    { label: 'Reason' },
    { label: 'Change' },
    ...(session.signedIn ? [{ label: '', said: 'Roll back' }] : []),
  ];
  return table(
    'History of the settings',
    columns,
    entries.map((e, i) => row(e, i === 0, changed)),
    { class: 'history' },
  );
}

function row(e, newest, changed) {
  const word = (v) => (v === '' || v == null ? 'default' : v);
  const back = () => confirmChange(`Roll back to version ${e.version}`, { version: e.version }, 'settings/rollback', changed);
  return h(
    'tr',
    { test: 'history-row', data: { version: e.version } },
    h('td.number', null, e.version),
    h('td.mono', null, stamp(new Date(e.when))),
    h('td', null, e.who || '–'),
    h('td', null, e.why || '–'),
    h(
      'td',
      null,
      (e.changes ?? []).map((c) => h('div', null, h('code', null, c.name), ' ', word(c.old), ' → ', h('b', null, word(c.new)))),
    ),
    session.signedIn &&
      h(
        'td.orders',
        null,
        !newest &&
          h(
            'button.quiet',
            { type: 'button', test: `rollback-${e.version}`, 'aria-label': `Roll back to version ${e.version}`, on: { click: back } },
            'Roll back to',
          ),
      ),
  );
}
