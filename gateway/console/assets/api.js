// The admin listener's paths, and who is signed in. Paths are relative to /console/, so that the
// pages also work behind a prefix.

/** What the listener refused, or that it could not be reached (status 0). */
export class Refused extends Error {
  constructor(message, status, code, problems = []) {
    super(message);
    this.status = status;
    this.code = code;
    this.problems = problems;
  }
}

/** The session as GET /admin/session told it. */
export const session = { writable: false, signedIn: false, operator: '', csrf: '' };

const heard = new Set();

/** Calls hear when somebody signs in or out, and when a 401 says that one must (needed). */
export const onSession = (hear) => {
  heard.add(hear);
  return () => heard.delete(hear);
};

const tell = (needed) => {
  for (const hear of heard) hear(needed);
};

function take(s) {
  session.writable = s.writable === true;
  session.signedIn = s.signed_in === true;
  session.operator = typeof s.operator === 'string' ? s.operator : '';
  session.csrf = typeof s.csrf === 'string' ? s.csrf : '';
  tell(false);
}

async function send(method, path, body, signal) {
  const headers = { Accept: 'application/json' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (method !== 'GET' && session.csrf) headers['X-Csrf-Token'] = session.csrf;
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'same-origin',
      cache: 'no-store',
    });
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new Refused('The gateway cannot be reached.', 0, 'unreachable');
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  let said = {};
  try {
    said = await response.json();
  } catch {
    /* not one of its own answers */
  }
  return new Refused(said.error?.message ?? `The gateway answered ${response.status}.`, response.status, said.error?.code ?? '', said.problems ?? []);
}

async function guarded(method, path, body, signal) {
  try {
    return await send(method, path, body, signal);
  } catch (err) {
    if (err.status === 401) lost();
    if (err.code === 'bad_csrf') await refreshSession(); // another session was begun in another tab
    throw err;
  }
}

/** A session ended, or was never begun: what is shown as signed in must not stay so. */
function lost() {
  session.signedIn = false;
  session.csrf = '';
  tell(true);
}

/** GET of JSON. */
export const get = async (path, signal) => (await guarded('GET', `../admin/${path}`, undefined, signal)).json();

/** GET of JSON lines, newest last. */
export async function lines(path, signal) {
  const text = await (await guarded('GET', `../admin/${path}`, undefined, signal)).text();
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

/** POST of JSON. What a dry run finds to be refused is thrown as if it had been. */
export async function post(path, body, signal) {
  const said = await (await guarded('POST', `../admin/${path}`, body, signal)).json();
  if (said.problems?.length) throw new Refused(said.problems.join('\n'), 422, 'settings_refused', said.problems);
  return said;
}

/** Asks who we are. A listener of a version without sessions is shown read-only. */
export async function refreshSession() {
  try {
    take(await (await send('GET', '../admin/session')).json());
  } catch (err) {
    if (err.status === 401) lost();
  }
}

/** Begins a session. @throws {Refused} 401 for a wrong token */
export async function signIn(token) {
  take(await (await send('POST', '../admin/session', { token })).json());
}

/** Ends it. @returns {Promise<string>} what somebody should know of that; '' is nothing */
export async function signOut() {
  const said = await (await send('DELETE', '../admin/session')).json();
  take(said);
  return said.message ?? '';
}

/**
 * Calls ask now and every so often while the page is visible, one call at a time.
 * @param {number} every milliseconds
 * @param {(signal: AbortSignal) => Promise<void>} ask
 * @param {(err: Error|null) => void} told what came of each
 * @returns {{stop: () => void, now: () => void}}
 */
export function poll(every, ask, told) {
  const ended = new AbortController();
  let timer = 0,
    busy = false,
    wanted = false; // while one is under way
  const run = async () => {
    clearTimeout(timer);
    if (ended.signal.aborted || busy || document.hidden) return;
    busy = true;
    wanted = false;
    try {
      await ask(ended.signal);
      if (!ended.signal.aborted) told(null);
    } catch (err) {
      if (!ended.signal.aborted) told(err);
    }
    busy = false;
    if (!ended.signal.aborted) timer = setTimeout(run, wanted ? 0 : every);
  };
  const shown = () => {
    if (!document.hidden) run();
  };
  document.addEventListener('visibilitychange', shown);
  ended.signal.addEventListener('abort', () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', shown);
  });
  run();
  const now = () => {
    wanted = true; // what is under way may have been asked before what is to be seen
    run();
  };
  return { stop: () => ended.abort(), now };
}
