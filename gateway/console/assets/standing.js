// Helpers over GET /admin/status: settings that are not in force, kill switches, and which
// backends take requests.

import { h } from './dom.js';

/** Backends of a pool that get requests: neither drained nor down, with a breaker that is not open. Suspects get them where no other is left. */
export const taking = (pool, status) =>
  pool.backends.filter((b) => (b.state === 'up' || b.state === 'suspect') && breakerOf(pool, b, status)?.state !== 'open');

/** Those of them that are well. */
export const usable = (pool, status) => taking(pool, status).filter((b) => b.state === 'up');

/** The breaker of a backend, where it is not closed. */
export const breakerOf = (pool, b, status) => status?.breakers?.find((x) => x.pool === pool.pool && x.backend === b.id);

/** A backend's state in words, e.g. 'up, breaker open'. */
export const stateWords = (pool, b, status) => (b.state === 'up' && breakerOf(pool, b, status)?.state === 'open' ? 'up, breaker open' : b.state);

/**
 * Each pool with how many of its backends can be used, and which cannot.
 * @returns {{pool: string, usable: number, all: number, tone: string, not: string[]}[]}
 */
export function poolsOf(status) {
  return (status?.pools ?? []).map((pool) => {
    const good = usable(pool, status),
      all = pool.backends.length;
    return {
      pool: pool.pool,
      usable: good.length,
      all,
      tone: taking(pool, status).length === 0 ? 'bad' : good.length < all ? 'warn' : 'good',
      not: pool.backends.filter((b) => !good.includes(b)).map((b) => `${b.id} (${stateWords(pool, b, status)})`),
    };
  });
}

/** Kill switches in force. Those that routes only have from all routes are left out: the one of all says it. */
const switchesOf = (settings) => {
  const all = settings?.switches ?? [];
  return all.filter((s) => !s.includes('@') || !all.includes(s.replace(/@\S+/, '')));
};

/** Priority classes that kill switches shed completely, e.g. 'low' or 'low of llama-3'. */
export function switchedOff(status) {
  const told = switchesOf(status?.settings)
    .map((s) => /^shed\.(\w+)(?:@(\S+))? is 0/.exec(s))
    .filter(Boolean);
  return told.map(([, name, route]) => (route ? `${name} of ${route}` : name));
}

/** Files that are not in force as they are now, or that too many may read. @param {object[]} files of the status */
const fileTroubles = (files) => [
  ...files
    .filter((f) => f.error)
    .map((f) =>
      h(
        'li',
        { data: { tone: 'bad' } },
        h('b', null, 'File not applied '),
        h('code', null, f.setting),
        ` ${f.error.split('\n').join('; ')}. The last good content stays in force.`,
      ),
    ),
  ...files
    .filter((f) => f.world_readable)
    .map((f) =>
      h('li', { data: { tone: 'warn' } }, h('b', null, 'File readable by everybody '), h('code', null, f.setting), ' Every user of this machine can read it. Remove the permission (chmod o-r).'),
    ),
];

/** What troubles() shows, as text: a page is drawn again when it changes. @param {object} status */
export const troubled = ({ settings: s, files, warnings }) =>
  JSON.stringify([warnings, s.switches, s.lost, s.rejected, s.unknown, (files ?? []).map((f) => [f.setting, f.error, f.world_readable])]);

/** What is not in force, kill switches, and what the configuration leaves open; false where there is none. @param {object} status */
export function troubles({ settings: s, files, warnings = [] }) {
  const list = [
    ...fileTroubles(files ?? []),
    ...warnings.map((text) => h('li', { data: { tone: 'warn' } }, h('b', null, 'Warning '), text)),
    ...switchesOf(s).map((name) => h('li', { data: { tone: 'bad' } }, h('b', null, 'Kill switch '), h('code', null, name))),
    ...(s.lost ?? []).map((l) =>
      h(
        'li',
        { data: { tone: 'bad' } },
        h('b', null, 'Lost in Redis '),
        h('code', null, `${l.name} = ${l.old ?? 'default'}`),
        ' It stays in force here and is not published again yet.',
      ),
    ),
    ...(s.rejected ?? []).map((r) =>
      h(
        'li',
        { data: { tone: 'bad' } },
        h('b', null, 'Rejected '),
        h('code', null, `${r.name} = ${r.value}`),
        ` ${r.reason}. The last good value stays in force.`,
      ),
    ),
    ...(s.unknown ?? []).map((r) =>
      h('li', { data: { tone: 'warn' } }, h('b', null, 'Unknown '), h('code', null, `${r.name} = ${r.value}`), ` ${r.reason}`),
    ),
  ];
  return list.length > 0 && h('ul.troubles', { 'aria-label': 'Settings and files that are not in force, kill switches, and warnings' }, list);
}
