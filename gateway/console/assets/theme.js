// The theme, before the first paint: auto (what the system prefers), light or dark.
// A classic script in the head, so that no page flashes in the other one.
(() => {
  'use strict';
  const kept = 'foregate.theme';
  const modes = ['auto', 'light', 'dark'];
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const heard = new Set();

  /** What is remembered; auto where nothing is, or where nothing may be. */
  const mode = () => {
    try {
      const m = localStorage.getItem(kept);
      return modes.includes(m) ? m : 'auto';
    } catch {
      return 'auto';
    }
  };
  let now = mode();

  const show = () => {
    document.documentElement.dataset.theme = now === 'auto' ? (dark.matches ? 'dark' : 'light') : now;
    for (const hear of heard) hear(now);
  };

  /** Goes to the next mode and remembers it. */
  const next = () => {
    now = modes[(modes.indexOf(now) + 1) % modes.length];
    try {
      localStorage.setItem(kept, now);
    } catch {
      /* it holds for this page */
    }
    show();
  };

  dark.addEventListener('change', show);
  show();
  window.foregateTheme = {
    mode: () => now,
    next,
    onChange: (hear) => {
      heard.add(hear);
      return () => heard.delete(hear);
    },
  };
})();
