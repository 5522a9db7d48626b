// Numbers and times as operators read them, units after a space that does not break. Pure; unknown
// values (null, NaN) are an en dash.

const none = '–';
const known = (v) => typeof v === 'number' && Number.isFinite(v) && Math.abs(v) < 1e300;

/** A number with about three digits that count: 0.0123, 1.23, 12.3, 1,234, 1.23 M. */
export function number(v) {
  if (!known(v)) return none;
  const a = Math.abs(v);
  if (a >= 1e6) return `${fixed(v / 1e6, a >= 1e8 ? 0 : 1)}\u00a0M`;
  if (a >= 100 || Number.isInteger(v)) return fixed(v, 0);
  if (a >= 10) return fixed(v, 1);
  if (a >= 0.1) return fixed(v, 2);
  return a === 0 ? '0' : String(Number(v.toPrecision(2))).replace('-', '−');
}

function fixed(v, digits) {
  return v.toLocaleString('en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace('-', '−');
}

/** USD: $0.000315, $0.42, $12.30, $1,234. */
export function usd(v) {
  if (!known(v)) return none;
  const a = Math.abs(v),
    sign = v < 0 ? '−' : '';
  if (a >= 1000) return `${sign}$${fixed(a, 0)}`;
  if (a >= 0.0995) return `${sign}$${fixed(a, 2)}`;
  if (a === 0) return '$0';
  return `${sign}$${a < 1e-6 ? a.toExponential(1) : trim(a.toFixed(Math.min(8, 2 - Math.floor(Math.log10(a)))))}`;
}

const trim = (text) => text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');

/** A share of one as per cent: 0.5 %, 37 %, 99.7 %. */
export function percent(v) {
  if (!known(v)) return none;
  const p = v * 100;
  if (p > 0 && p < 0.1) return '<\u00a00.1\u00a0%';
  if (p > 99.9 && p < 100) return '>\u00a099.9\u00a0%';
  const digits = Number.isInteger(p) || (p >= 10 && p < 99) ? 0 : 1;
  return `${fixed(p, digits)}\u00a0%`;
}

/** Seconds: 850 µs, 12 ms, 1.25 s, 3 min 5 s, 2 h 10 min, 3 d 4 h. */
export function seconds(v) {
  if (!known(v)) return none;
  const a = Math.abs(v);
  if (a === 0) return '0\u00a0s';
  if (a < 0.001) return `${fixed(v * 1e6, 0)}\u00a0µs`;
  if (a < 0.9995) return `${number3(v * 1000)}\u00a0ms`;
  if (a < 59.5) return `${number3(v)}\u00a0s`;
  if (a < 3600) return pair(v, 60, 'min', 1, 's');
  if (a < 86400) return pair(v, 3600, 'h', 60, 'min');
  return pair(v, 86400, 'd', 3600, 'h');
}

const number3 = (v) => (Math.abs(v) >= 100 ? fixed(v, 0) : String(Number(v.toPrecision(3))));

function pair(v, big, bigName, small, smallName) {
  let whole = Math.floor(v / big),
    rest = Math.round((v - whole * big) / small);
  if (rest * small >= big) [whole, rest] = [whole + 1, 0];
  return rest ? `${whole}\u00a0${bigName} ${rest}\u00a0${smallName}` : `${whole}\u00a0${bigName}`;
}

/** Milliseconds, as seconds tells them. */
export const millis = (v) => (known(v) ? seconds(v / 1000) : none);

/** Events a second. */
export const rate = (v) => (known(v) ? `${number(v)}\u00a0/s` : none);

/** A time of day, as this browser's zone has it: 14:03:07. */
export function clock(date) {
  return known(date?.getTime?.()) ? [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':') : none;
}

/** Day and time: 2026-01-31 14:03:07. */
export function stamp(date) {
  return known(date?.getTime?.()) ? `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(date)}` : none;
}

const two = (n) => String(n).padStart(2, '0');

/** "1 request", "3 requests". */
export const many = (n, one, more = `${one}s`) => `${number(n)} ${n === 1 ? one : more}`;

/** The first characters of a long name. */
export const short = (text, most = 12) => (text.length > most ? `${text.slice(0, most)}…` : text);
