// The console of a Foregate replica: which page is open, the theme, the session, keys.
//
// Hooks for tests ([data-test=…]), which stay as they are:
//   everywhere  nav-PAGE, view (data-view, data-ready), theme (data-mode), live (data-state), stale-banner, scope, help, help-dialog,
//               session (data-signed-in), signin-dialog, signin-token, signin-submit, signin-error, toast (data-kind)
//   overview    tile-failed|shed|ttft|latency|redis|inflight|rate|acceptance|cache|spent|saved|replicas (data-value), mix,
//               chart-requests|acceptance|cache|ttft|latency|kv|shed|cost (data-points, data-last; chart-kv: data-lines), states, state-row (data-name, data-now)
//   backends    pool (data-pool), backend-row (data-pool, data-backend, data-state), drain, undrain, drain-dialog, drain-for, drain-why, drain-submit
//   settings    settings-search, settings-scope, settings-jump, settings-readonly, setting-row (data-name, data-value, data-changed), edit-NAME,
//               setting-editor, setting-input, setting-scope, setting-check (data-state), setting-save, setting-unset, setting-cancel,
//               confirm-dialog, confirm-changes, confirm-why, confirm-submit, confirm-cancel, history-row (data-version), rollback-VERSION
//   receipts    receipt-row (data-id), filter-tier|verdict|code|tenant, auto-refresh, receipts-count, receipt (data-id), waterfall,
//               waterfall-bar (data-kind), waterfall-mark (data-kind), score-track (data-points), receipt-raw, copy-raw
//   tenants     tenant-row (data-tenant), usage-from|to, usage-by-tenant|route|day, usage-csv, usage-about, usage-row (data-tenant, data-route, data-day, data-requests), usage-total (data-requests)
//   risk        risk-row (data-route, data-class, data-state),
//               frontier-chart (data-route, data-class, data-label, data-points, data-eps), frontier-class|label|column, frontier-summary,
//               frontier-point (data-rate), frontier-proposal (data-name, data-value), frontier-review, frontier-cancel, frontier-examples (data-bad, data-good)

import { onSession, refreshSession, session, signIn, signOut } from './api.js';
import { dialog, field, fill, h, say, toast } from './dom.js';
import { many, seconds } from './format.js';
import { Live } from './live.js';
import * as backends from './backends.js';
import * as overview from './overview.js';
import * as receipt from './receipt.js';
import * as receipts from './receipts.js';
import * as risk from './risk.js';
import * as settings from './settings.js';
import * as tenants from './tenants.js';

const pages = { overview, backends, settings, receipts, tenants, risk };
const titles = {
  overview: 'Overview',
  backends: 'Backends',
  settings: 'Settings',
  receipts: 'Receipts',
  receipt: 'Receipt',
  tenants: 'Tenants',
  risk: 'Guarantee',
};
const keys = [
  ['g o', 'overview', 'Overview'],
  ['g b', 'backends', 'Backends'],
  ['g s', 'settings', 'Settings'],
  ['g r', 'receipts', 'Receipts'],
  ['g t', 'tenants', 'Tenants'],
  ['g g', 'risk', 'Guarantee'],
];

const one = (test) => document.querySelector(`[data-test="${test}"]`);
const view = one('view');
const live = new Live();
let unmount = () => {};
let declined = false; // somebody was asked for the token on this page, and does not want to sign in

/** Opens the page that the address names. */
function route(first) {
  const [name, id] = location.hash
    .replace(/^#\/?/, '')
    .split('/')
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
  const page = name === 'receipts' && id ? 'receipt' : name in pages ? name : name === 'usage' ? 'tenants' : 'overview';
  unmount();
  declined = false;
  fill(view);
  view.dataset.view = page;
  view.dataset.ready = 'false';
  document.title = `${titles[page]} · Foregate`;
  for (const link of document.querySelectorAll('[data-page]')) {
    const open = link.dataset.page === (page === 'receipt' ? 'receipts' : page);
    if (!open) link.removeAttribute('aria-current');
    else {
      link.setAttribute('aria-current', 'page');
      link.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    }
  }
  const ready = () => {
    view.dataset.ready = 'true';
  };
  unmount = (pages[page] ?? receipt).mount(view, { live, id, ready });
  scrollTo(0, 0);
  if (first !== true) view.focus({ preventScroll: true });
}

/** What the figures of a page are of: of all replicas, where they share it or one process has them, or of this one. */
function scopeOf(page, s) {
  if (!s) return '';
  const all = many(s.replicas, 'replica'),
    own = s.replicas > 1 ? `this replica, one of ${s.replicas}` : 'this replica';
  if (page === 'overview') return s.covered >= s.replicas && s.replicas > 1 ? `Figures of ${all}` : `Figures of ${own}`;
  if (page === 'backends' || page === 'receipts' || page === 'receipt') return `As seen by ${own}`;
  return s.redis_level === 'local' ? `Of ${own}: Redis is away` : `Shared by ${all}`;
}

/** The pill that says whether samples come, and the banner once they do not. */
function watchLive() {
  const pill = one('live'),
    text = pill.querySelector('[data-live-text]'),
    banner = one('stale-banner'),
    scope = one('scope');
  const show = (l) => {
    pill.dataset.state = l.state;
    say(text, { connecting: 'connecting', live: 'live', stale: 'no data' }[l.state]);
    say(scope, scopeOf(view.dataset.view, l.last));
    banner.hidden = l.state !== 'stale';
    if (!banner.hidden) {
      const since = 10 * Math.floor(l.age / 10); // it is read out: not each second
      say(
        banner,
        l.samples.length
          ? `No sample for ${seconds(since)}: charts and tiles are out of date. Reconnecting.`
          : 'No live data yet. Reconnecting.',
      );
    }
  };
  show.ticks = true;
  live.subscribe(show);
  live.start();
  addEventListener('hashchange', () => show(live));
}

function watchTheme() {
  const button = one('theme'),
    { mode, next, onChange } = window.foregateTheme;
  const show = () => {
    button.dataset.mode = mode();
    say(button, `Theme: ${mode()}`);
  };
  button.addEventListener('click', next);
  onChange(show);
  show();
}

function watchSession() {
  const button = one('session');
  button.addEventListener('click', async () => {
    if (!session.signedIn) return askToken();
    try {
      await signOut();
      live.restart();
      toast('Signed out.');
    } catch (err) {
      toast(err.message, 'error');
    }
  });
  onSession((needed) => {
    button.hidden = !session.writable && !needed;
    button.dataset.signedIn = session.signedIn;
    say(button, session.signedIn ? 'Sign out' : 'Sign in');
    button.title = session.operator && `Signed in as ${session.operator}`;
    if (needed && !declined) askToken('This listener needs an operator token.');
  });
  window.addEventListener('foregate:signin', () => askToken());
}

/** Asks for an operator's token, once at a time. */
function askToken(why = 'Sign in to drain backends and change settings.') {
  if (one('signin-dialog')) return;
  const input = h('input', {
    type: 'password',
    test: 'signin-token',
    name: 'token',
    autocomplete: 'current-password',
    required: true,
    'aria-describedby': 'signin-error',
  });
  const wrong = h('p.problem', { test: 'signin-error', id: 'signin-error', role: 'alert' });
  const submit = async (e) => {
    e.preventDefault();
    try {
      await signIn(input.value.trim());
      box.close();
      signedIn();
    } catch (err) {
      say(wrong, err.message);
      input.select();
    }
  };
  const box = dialog(
    'signin-dialog',
    'Sign in',
    h('p', null, why, ' The token needs the scope ', h('code', null, 'operate'), ' in ', h('code', null, 'admin_tokens_file'), '.'),
    h(
      'form',
      { on: { submit } },
      field('Token', input),
      wrong,
      h(
        'div.buttons',
        null,
        h('button.quiet', { type: 'button', on: { click: () => box.close() } }, 'Cancel'),
        h('button', { type: 'submit', test: 'signin-submit' }, 'Sign in'),
      ),
    ),
  );
  box.addEventListener('close', () => {
    declined = !session.signedIn;
  });
  input.focus();
}

function signedIn() {
  toast('Signed in until this tab is closed.');
  live.restart();
  route();
}

/** A link with #token=… signs in, and leaves neither address bar nor history with it. */
async function tokenOfAddress() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return false;
  history.replaceState(null, '', `${location.pathname}#/overview`);
  try {
    await signIn(decodeURIComponent(token));
    return true;
  } catch (err) {
    toast(`Not signed in: ${err.message}`, 'error');
    return false;
  }
}

function help() {
  if (one('help-dialog')) return;
  const rows = [
    ...keys.map(([k, , what]) => [k, what]),
    ['/', 'Search or filter this page'],
    ['↑ ↓', 'Move between rows'],
    ['d', 'Next theme'],
    ['?', 'This help'],
    ['Esc', 'Close a dialog, or an editor'],
  ];
  const box = dialog(
    'help-dialog',
    'Keys',
    h(
      'dl.keys',
      null,
      rows.map(([k, what]) =>
        h(
          'div',
          null,
          h(
            'dt',
            null,
            k.split(' ').map((key) => h('kbd', null, key)),
          ),
          h('dd', null, what),
        ),
      ),
    ),
    h('div.buttons', null, h('button', { type: 'button', on: { click: () => box.close() } }, 'Close')),
  );
}

/** g and a letter open a page; / goes to the page's search; arrows go from row to row. */
function watchKeys() {
  let leader = 0;
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
    const on = e.target instanceof Element ? e.target : document.body;
    if (on.matches('[data-row-link]') && moveRow(e)) return;
    if (on.matches('input, select, textarea')) return;
    const led = performance.now() - leader < 1500,
      page = keys.find(([k]) => k === `g ${e.key}`);
    leader = 0;
    if (led && page) location.hash = `#/${page[1]}`;
    else if (e.key === 'g') leader = performance.now();
    else if (e.key === '?') help();
    else if (e.key === 'd') window.foregateTheme.next();
    else if (e.key === '/') view.querySelector('input[type=search]')?.focus();
    else if (e.key === 'ArrowDown' && (on === document.body || on === view) && view.querySelector('[data-row-link]'))
      view.querySelector('[data-row-link]').focus();
    else return;
    e.preventDefault();
  });
}

function moveRow(e) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!step) return false;
  const all = [...view.querySelectorAll('[data-row-link]')];
  all[all.indexOf(e.target) + step]?.focus();
  e.preventDefault();
  return true;
}

async function begin() {
  watchTheme();
  watchSession();
  watchKeys();
  one('help').addEventListener('click', help);
  document.querySelector('.skip').addEventListener('click', (e) => {
    e.preventDefault();
    view.focus();
  });
  if (await tokenOfAddress()) toast('Signed in until this tab is closed.');
  else await refreshSession();
  window.addEventListener('hashchange', async () => {
    if (await tokenOfAddress()) toast('Signed in until this tab is closed.');
    route();
  });
  watchLive();
  route(true);
}

begin();
