// Draws the charts of the page with uPlot. Each stands as JSON in its place (chart.go says what is in it).
(() => {
  const height = 220; // CSS pixels
  const dashes = {
    c1: [7, 3], c2: [2, 3], c3: [9, 3, 2, 3], c4: [12, 4], c5: [4, 4], c6: [9, 3, 2, 3, 2, 3], c7: [1, 5],
    dim: [2, 4], shed: [6, 3], error: [7, 3, 1, 3],
  };
  const durations = [[3.6e6, 'h'], [6e4, 'min'], [1e3, 's'], [1, 'ms'], [1e-3, 'µs']]; // milliseconds
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const font = '11px system-ui, "Liberation Sans", sans-serif';
  const short = (v) => String(Number(v.toPrecision(3)));

  /** Writes a value of an axis of some kind. */
  const told = {
    plain: short,
    share: (v) => `${short(v * 100)}%`,
    ms: (v) => {
      const [size, unit] = durations.find(([size]) => v >= (size > 1e3 ? 2 * size : size)) ?? durations.at(-1);
      return `${short(v / size)} ${unit}`;
    },
  };

  const scale = (a) =>
    a.Log
      ? { time: false, distr: 3, range: () => uPlot.rangeLog(a.Min, a.Max, 10, false) }
      : { time: false, range: [a.Min, a.Max + (a.Kind === 'plain' ? 0 : 0.02) * (a.Max - a.Min)] };

  const axis = (a, space) => ({
    label: a.Name + (a.Log ? ', logarithmic' : ''),
    labelFont: font,
    labelSize: 18,
    font,
    space,
    stroke: colour('dim'),
    grid: { stroke: colour('rule'), width: 1 },
    ticks: { show: false },
    values: (u, ticks) => ticks.map((v) => (v == null ? '' : told[a.Kind](v))),
  });

  /** Shades the warm-up, before the lines. */
  const warmUp = (c) => (u) => {
    if (!c.Warm) return;
    const { left, top, height } = u.bbox;
    u.ctx.save();
    u.ctx.globalAlpha = 0.13;
    u.ctx.fillStyle = colour('dim');
    u.ctx.fillRect(left, top, u.valToPos(c.Warm, 'x', true) - left, height);
    u.ctx.restore();
  };

  /** Draws a cross at each mark. */
  const crosses = (c) => (u) => {
    const size = 4 * devicePixelRatio;
    u.ctx.save();
    u.ctx.strokeStyle = colour('error');
    u.ctx.lineWidth = 2 * devicePixelRatio;
    u.ctx.beginPath();
    for (const m of c.Marks ?? []) {
      const x = u.valToPos(m.X, 'x', true),
        y = u.valToPos(m.Y, 'y', true);
      u.ctx.moveTo(x - size, y - size);
      u.ctx.lineTo(x + size, y + size);
      u.ctx.moveTo(x - size, y + size);
      u.ctx.lineTo(x + size, y - size);
    }
    u.ctx.stroke();
    u.ctx.restore();
  };

  const series = (c) => (s) => ({
    label: s.Label,
    stroke: colour(s.Colour),
    dash: dashes[s.Colour],
    width: s.Thin ? 1 : 1.8,
    points: s.Thin || c.Stairs ? { show: false } : {},
    paths: c.Stairs ? uPlot.paths.stepped({ align: 1 }) : undefined,
    value: (u, v) => (v == null ? '–' : told[c.Y.Kind](v)),
  });

  const draw = (place, c) => {
    place.plot?.destroy();
    place.plot = new uPlot(
      {
        width: Math.max(place.clientWidth, 200),
        height,
        legend: { show: c.Series.length <= 8 },
        cursor: { drag: { x: false, y: false } },
        scales: { x: scale(c.X), y: scale(c.Y) },
        axes: [
          { ...axis(c.X, 60), size: 26 },
          { ...axis(c.Y, 30), size: 52 },
        ],
        series: [{ label: c.X.Name, value: (u, v) => (v == null ? '–' : told[c.X.Kind](v)) }, ...c.Series.map(series(c))],
        hooks: { drawClear: [warmUp(c)], draw: [crosses(c)] },
      },
      uPlot.join(
        c.Series.map((s) => [s.X, s.Y]),
        c.Series.map(() => [0, 2]), // a gap reaches as far as the line has no other points
      ),
      place,
    );
  };

  const charts = [...document.querySelectorAll('.chart')].map((place) => [place, JSON.parse(place.textContent)]);
  const drawAll = () => charts.filter(([, c]) => c.Series?.length).forEach(([place, c]) => draw(place, c));
  for (const [place, c] of charts.filter(([, c]) => !c.Series?.length)) {
    const none = document.createElement('p');
    none.className = 'nothing';
    none.textContent = c.None;
    place.append(none);
  }
  drawAll();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  addEventListener('resize', () => charts.forEach(([place]) => place.plot?.setSize({ width: Math.max(place.clientWidth, 200), height })));
})();
