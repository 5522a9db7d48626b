// Live settings: values in force, and changing them. A change is validated first (dry_run), shown,
// and then applied with a reason.

import { get, onSession, poll, session } from './api.js';
import { fill, h, say, select } from './dom.js';
import { many } from './format.js';
import { openEditor } from './settingsedit.js';
import { mountLog } from './settingslog.js';
import { troubles } from './standing.js';

const takes = 6000; // ms within which a replica has taken a change

/** Shows the page. @returns {() => void} its end */
export function mount(root, { ready }) {
  const page = new Page(root, ready);
  return () => page.end();
}

class Page {
  constructor(root, ready) {
    this.settings = [];
    this.overrides = []; // changed settings of routes, by name@route
    this.editing = null; // name of the row with the editor
    this.route = '';
    this.made = new Map(); // changes of ours that the replica need not have taken yet, by name[@route]
    this.build(root);
    this.log = mountLog(root, (changes) => this.changedTo(changes));
    this.asking = poll(
      4000,
      (signal) => this.ask(signal),
      (err) => {
        say(this.problem, err ? err.message : '');
        if (!err) this.draw();
        ready();
      },
    );
    this.unheard = onSession(() => {
      this.showRights();
      this.draw(true);
    });
  }

  end() {
    this.asking.stop();
    this.log.stop();
    this.unheard();
  }

  build(root) {
    this.search = h('input', {
      type: 'search',
      test: 'settings-search',
      placeholder: 'Search names and descriptions',
      'aria-label': 'Search settings',
      on: { input: () => this.draw(true) },
    });
    this.scope = select({ test: 'settings-scope', 'aria-label': 'Route', on: { change: () => this.choose() } }, [['', 'All routes']], '');
    this.jump = h('nav.jump', { test: 'settings-jump', 'aria-label': 'Subjects' });
    this.count = h('span.muted', { role: 'status' });
    this.problem = h('p.problem', { role: 'alert' });
    this.rights = h('p.rights', { test: 'settings-readonly' });
    this.top = h('div');
    this.list = h('div.settings');
    root.append(
      h('h1', null, 'Settings'),
      this.rights,
      this.top,
      h('div.filters', null, this.search, this.scope, this.count),
      this.jump,
      this.problem,
      this.list,
    );
    this.showRights();
  }

  /** How to be allowed to change something, where one is not. */
  showRights() {
    this.rights.hidden = session.signedIn;
    if (!session.writable) {
      fill(
        this.rights,
        'Read-only, because no operator tokens are configured. Put a line ',
        h('code', null, 'NAME operate SECRET'),
        ' into a file, name it as ',
        h('code', null, 'admin_tokens_file'),
        ' in the configuration, and restart; or use ',
        h('code', null, 'foregate settings'),
        ' in a terminal.',
      );
    } else {
      fill(
        this.rights,
        'Read-only until you sign in. ',
        h('button.link', { type: 'button', on: { click: () => window.dispatchEvent(new Event('foregate:signin')) } }, 'Sign in'),
      );
    }
  }

  async ask(signal) {
    const query = this.route ? `?route=${encodeURIComponent(this.route)}` : '';
    const [told, status] = await Promise.all([get(`settings${query}`, signal), get('status', signal)]);
    this.settings = told.settings.map((s) => ({ ...s, name: s.name.split('@')[0] })); // of a route: NAME@ROUTE
    this.status = status;
    this.overrides = status.settings.changed.filter((s) => s.name.includes('@'));
    this.listRoutes(status.drafts.map((d) => d.route));
    for (const [name, { value, until }] of this.made) {
      if (Date.now() > until) this.made.delete(name);
      else this.put(name, value);
    }
  }

  /** Shows what was just changed at once: this replica takes it a moment later. */
  changedTo(changes) {
    for (const c of changes ?? []) {
      this.made.set(c.name, { value: c.new ?? '', until: Date.now() + takes });
      this.put(c.name, c.new ?? '');
    }
    this.renew();
    this.asking.now();
  }

  /** Sets one value of what is shown; '' is unset. What a route then has is not known here. */
  put(name, value) {
    const [field, route = ''] = name.split('@');
    const s = this.settings.find((x) => x.name === field);
    if (route) {
      this.overrides = this.overrides.filter((o) => o.name !== name);
      if (value !== '') this.overrides.push({ name, value });
    }
    if (s && route === this.route && (value !== '' || !route)) s.value = value === '' ? s.default : value;
  }

  listRoutes(routes) {
    if (this.scope.options.length === routes.length + 1) return;
    fill(
      this.scope,
      [['', 'All routes'], ...routes.map((r) => [r, `Route ${r}`])].map(([value, label]) =>
        h('option', { value, selected: value === this.route }, label),
      ),
    );
  }

  choose() {
    this.route = this.scope.value;
    this.editing = null;
    this.asking.now();
  }

  /** Draws what is shown, unless somebody is editing and nothing made it change. */
  draw(asked) {
    if (!this.status) return;
    fill(this.top, troubles(this.status));
    if (this.editing && !asked) return this.renew();
    const wanted = this.search.value.trim().toLowerCase(),
      focused = this.list.contains(document.activeElement) && document.activeElement.dataset.test;
    const shown = this.settings.filter((s) => !wanted || `${s.name} ${s.meaning ?? ''}`.toLowerCase().includes(wanted));
    if (this.editing && !shown.some((s) => s.name === this.editing)) this.editing = null;
    if (this.editing && this.list.querySelector('[data-test=setting-editor]')) return this.keepEditor(shown);
    say(this.count, many(shown.length, 'setting'));
    const groups = groupsOf(shown, (s) => this.isChanged(s));
    this.jumps(groups.map(([subject]) => subject));
    fill(
      this.list,
      groups.map(([subject, own]) =>
        h(
          'section.block',
          { data: { subject } },
          h('h2', { tabindex: '-1' }, subject),
          h(
            'ul.rows',
            null,
            own.map((s) => this.row(s)),
          ),
        ),
      ),
      !shown.length && h('p.none', null, 'No setting matches this search.'),
    );
    if (focused) this.list.querySelector(`[data-test="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  /** The list of subjects, from which one jumps to each. */
  jumps(subjects) {
    if (this.jump.dataset.subjects === subjects.join()) return;
    this.jump.dataset.subjects = subjects.join();
    const go = (subject) => {
      const title = this.list.querySelector(`[data-subject="${CSS.escape(subject)}"] h2`);
      title.scrollIntoView();
      title.focus({ preventScroll: true });
    };
    fill(
      this.jump,
      subjects.map((subject) => h('button.link', { type: 'button', on: { click: () => go(subject) } }, subject)),
    );
  }

  /** Hides rows that the search leaves out, without touching the editor. */
  keepEditor(shown) {
    const names = new Set(shown.map((s) => s.name));
    for (const row of this.list.querySelectorAll('[data-test=setting-row]')) row.hidden = !names.has(row.dataset.name);
    for (const part of this.list.querySelectorAll('section')) part.hidden = !part.querySelector('[data-test=setting-row]:not([hidden])');
    say(this.count, many(shown.length, 'setting'));
  }

  /** Renews the values of rows that stay. */
  renew() {
    for (const s of this.settings) {
      const row = this.list.querySelector(`[data-test=setting-row][data-name="${CSS.escape(s.name)}"]`);
      if (row) this.showValue(row, s);
    }
  }

  overridesOf(s) {
    return this.overrides.filter((o) => o.name.startsWith(`${s.name}@`));
  }
  isChanged(s) {
    return s.value !== s.default || (!this.route && this.overridesOf(s).length > 0);
  }

  row(s) {
    const value = h('span.value', { data: { cell: 'value' } });
    const edit =
      session.signedIn &&
      h(
        'button.quiet',
        { type: 'button', test: `edit-${s.name}`, 'aria-label': `Edit ${s.name}`, 'aria-expanded': 'false', on: { click: () => this.edit(s) } },
        'Edit',
      );
    const row = h(
      'li.setting',
      { test: 'setting-row', data: { name: s.name } },
      h(
        'div.line',
        null,
        h('div.what', null, h('code.name', null, s.name), s.meaning && h('p', null, inWords(s.meaning))),
        h('div.how', null, value, h('small', null, s.range && s.range, h('span', { data: { cell: 'default' } }))),
        edit,
      ),
      h('div.overrides', { data: { cell: 'overrides' } }),
      h('div', { data: { cell: 'editor' } }),
    );
    this.showValue(row, s);
    return row;
  }

  showValue(row, s) {
    const cell = (name) => row.querySelector(`[data-cell=${name}]`);
    row.dataset.value = s.value;
    row.dataset.changed = String(this.isChanged(s));
    say(cell('value'), s.value === '' ? '(empty)' : s.value);
    say(cell('default'), s.value === s.default ? '' : `default ${s.default === '' ? '(empty)' : s.default}`);
    const own = this.route ? [] : this.overridesOf(s);
    fill(
      cell('overrides'),
      own.map((o) => h('span.chip', null, `${o.name.split('@')[1]}: `, h('b', null, o.value))),
    );
  }

  edit(s) {
    const open = this.list.querySelector('[data-test=setting-editor]');
    if (open) open.dispatchEvent(new Event('foregate:close'));
    if (this.editing === s.name) {
      this.editing = null;
      return;
    }
    const row = this.list.querySelector(`[data-test=setting-row][data-name="${CSS.escape(s.name)}"]`),
      button = row.querySelector('button[data-test^=edit-]');
    this.editing = s.name;
    button.setAttribute('aria-expanded', 'true');
    openEditor(row.querySelector('[data-cell=editor]'), s, {
      route: this.route,
      routes: !s.per_route ? [] : [...this.scope.options].map((o) => o.value).filter(Boolean),
      valueOf: (route) => (route === this.route ? s.value : (this.overrides.find((o) => o.name === `${s.name}@${route}`)?.value ?? s.value)),
      closed: (changes) => {
        this.editing = null;
        button.setAttribute('aria-expanded', 'false');
        button.focus();
        if (changes) {
          this.changedTo(changes);
          this.log.now();
        }
      },
    });
  }
}

/** A meaning as the reference has it, where names and values stand between backticks. */
const inWords = (text) => text.split('`').map((part, i) => (i % 2 ? h('code', null, part) : part));

const changed = 'Changed from default';

/** Subjects by what stands before the first dot of a name; others are called by that. */
const subjects = {
  breaker: 'Circuit breakers',
  cache: 'Response cache',
  economy: 'Cost guard',
  limit: 'Limits of tenants',
  receipts: 'Receipts',
  redis: 'Redis',
  responses: 'Stored responses',
  retry: 'Retries',
  risk: 'Guarantee and audits',
  route: 'Choice of the backend',
  scrape: 'Readings of the engines',
  shed: 'Shedding',
  speculation: 'Drafts',
  stream: 'Streams',
  timeout: 'Timeouts',
};

/** Settings by subject, those that are changed first. */
function groupsOf(settings, isChanged) {
  const groups = new Map([[changed, []]]);
  for (const s of settings) {
    const prefix = s.name.split('.')[0],
      subject = isChanged(s) ? changed : (subjects[prefix] ?? prefix);
    if (!groups.has(subject)) groups.set(subject, []);
    groups.get(subject).push(s);
  }
  return [...groups].filter(([, own]) => own.length > 0);
}
