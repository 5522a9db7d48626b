// The editor of one setting, and the dialog that shows a change and asks for a reason.

import { post } from './api.js';
import { dialog, field, fill, h, say, select, table, toast } from './dom.js';

const pause = 300; // ms after the last key before a value is tried

/**
 * Opens the editor of a setting in a place below its row.
 * @param {object} s setting as GET /admin/settings tells it
 * @param {{route: string, routes: string[], valueOf: (route: string) => string, closed: (changes: object[]|null) => void}} o changes made, or null
 */
export function openEditor(place, s, o) {
  const input = inputFor(s);
  const scope = select({ test: 'setting-scope' }, [['', 'all routes'], ...o.routes.map((r) => [r, `route ${r}`])], o.route);
  const check = h('div.checked', { test: 'setting-check', data: { state: 'idle' }, 'aria-live': 'polite' });
  const save = h('button', { type: 'submit', test: 'setting-save', disabled: true }, 'Review change');
  const name = () => (scope.value ? `${s.name}@${scope.value}` : s.name);
  const change = () => ({ set: { [name()]: input.value } });
  const tried = trier(change, check, (ok) => {
    save.disabled = !ok;
  });
  const close = (changes) => {
    tried.stop();
    fill(place);
    o.closed(changes);
  };
  const review = (what, title) => confirmChange(title, what, 'settings', close);
  input.addEventListener('input', tried.soon);
  const unset = h('button.quiet', { type: 'button', test: 'setting-unset', on: { click: () => review({ unset: [name()] }, `Unset ${name()}`) } });
  const nameUnset = () => say(unset, scope.value ? 'Use the value of all routes' : `Reset to default (${s.default === '' ? 'empty' : s.default})`);
  scope.addEventListener('change', () => {
    input.value = o.valueOf(scope.value);
    nameUnset();
    tried.soon();
  });
  nameUnset();
  const submit = (e) => {
    e.preventDefault();
    if (!save.disabled) review(change(), `Change ${name()}`);
  };
  const form = h(
    'form.editor',
    {
      test: 'setting-editor',
      on: {
        submit,
        keydown: (e) => {
          if (e.key === 'Escape') close(null);
        },
        'foregate:close': () => close(null),
      },
    },
    field('New value', input, s.range),
    o.routes.length > 0 && field('Route', scope),
    check,
    h('div.buttons', null, unset, h('button.quiet', { type: 'button', test: 'setting-cancel', on: { click: () => close(null) } }, 'Cancel'), save),
  );
  fill(place, form);
  input.focus();
  input.select?.();
}

/** A select where the range is a list of words, else a line of text. */
function inputFor(s) {
  const words = (s.range ?? '').split(', ');
  if (words.length > 1 && words.every((w) => /^[a-z][a-z0-9_-]*$/.test(w)) && words.includes(s.value))
    return select(
      { test: 'setting-input' },
      words.map((w) => [w, w]),
      s.value,
    );
  return h('input', { type: 'text', test: 'setting-input', value: s.value, autocomplete: 'off', spellcheck: 'false' });
}

/** Tries what would change, a moment after the last key, and tells it. */
function trier(change, check, decided) {
  let timer = 0,
    call = null;
  const show = (state, ...said) => {
    check.dataset.state = state;
    fill(check, ...said);
    decided(state === 'ok');
  };
  const run = async () => {
    call?.abort();
    const mine = (call = new AbortController());
    try {
      const told = await post('settings', { ...change(), dry_run: true }, mine.signal);
      if (mine.signal.aborted) return;
      if (!told.changes?.length) show('same', 'This is the current value.', notes(told.notes));
      else show('ok', changeWords(told), notes(told.notes));
    } catch (err) {
      if (!mine.signal.aborted && err.name !== 'AbortError') show('bad', problems(err));
    }
  };
  return {
    soon: () => {
      clearTimeout(timer);
      call?.abort();
      show('checking', 'Checking …');
      timer = setTimeout(run, pause);
    },
    stop: () => {
      clearTimeout(timer);
      call?.abort();
    },
  };
}

const orDefault = (v) => (v === '' || v == null ? 'not set' : v);
const changeWords = (told) =>
  h(
    'p',
    null,
    'Changes ',
    told.changes.map((c, i) => [
      i > 0 && ', ',
      h('code', null, c.name),
      ' from ',
      h('b', null, orDefault(c.old)),
      ' to ',
      h('b', null, orDefault(c.new)),
    ]),
    '.',
  );
const notes = (list) =>
  list?.length
    ? h(
        'ul.notes',
        null,
        list.map((n) => h('li', null, n)),
      )
    : null;

/** Why something was refused. */
function problems(err) {
  const list = err.problems?.length ? err.problems : [err.message];
  return h(
    'ul.problems',
    null,
    list.map((p) => h('li', null, p)),
  );
}

/** A table of changes. */
export function changesTable(changes) {
  return table(
    'Changes',
    [{ label: 'Setting' }, { label: 'From' }, { label: 'To' }],
    changes.map((c) =>
      h(
        'tr',
        null,
        h('th', { scope: 'row' }, h('code', null, c.name)),
        h('td', null, orDefault(c.old)),
        h('td', null, h('b', null, orDefault(c.new))),
      ),
    ),
  );
}

/**
 * Shows what a change would do, asks why, and makes it.
 * @param {object} what body of the order, without why and dry_run
 * @param {string} path 'settings' or 'settings/rollback'
 * @param {(changes: object[]) => void} done after it was made
 */
export async function confirmChange(title, what, path, done) {
  const changes = h('div', { test: 'confirm-changes' }, 'Checking …'),
    wrong = h('div', { role: 'alert' });
  const why = h('input', {
    type: 'text',
    test: 'confirm-why',
    required: true,
    maxlength: '200',
    placeholder: 'e.g. the night batch fills the pools',
  });
  const go = h('button', { type: 'submit', test: 'confirm-submit', disabled: true }, 'Apply change');
  const submit = async (e) => {
    e.preventDefault();
    go.disabled = true;
    try {
      const told = await post(path, { ...what, why: why.value.trim(), dry_run: false });
      box.close();
      toast(
        told.changes?.length
          ? `Changed: ${told.changes.map((c) => `${c.name} = ${orDefault(c.new)}`).join(', ')}. Replicas apply it within about a second.`
          : 'No change was needed.',
      );
      done(told.changes ?? []);
    } catch (err) {
      go.disabled = false;
      fill(wrong, problems(err));
    }
  };
  const box = dialog(
    'confirm-dialog',
    title,
    changes,
    h(
      'form',
      { on: { submit } },
      field('Reason', why, 'Kept in the history.'),
      wrong,
      h('div.buttons', null, h('button.quiet', { type: 'button', test: 'confirm-cancel', on: { click: () => box.close() } }, 'Cancel'), go),
    ),
  );
  why.focus();
  try {
    const told = await post(path, { ...what, dry_run: true });
    fill(changes, told.changes?.length ? changesTable(told.changes) : h('p', null, 'Nothing to change.'), notes(told.notes), foundBy(told.found));
    go.disabled = !told.changes?.length;
  } catch (err) {
    fill(changes);
    fill(wrong, problems(err));
  }
}

/** Changes that somebody made past the history, which this one would take up. */
function foundBy(found) {
  if (!found?.length) return null;
  return h('div', null, h('p', null, 'Changed outside the history since its last entry:'), changesTable(found));
}
