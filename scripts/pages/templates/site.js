"use strict";
// Draws what the page's data file holds (`atomwatch`). Text from elsewhere comes escaped for the plotting library
// (scripts/tracker/site_data.py), and enters the page itself as text only.
(() => {
  const byId = (id) => document.getElementById(id);
  // Okabe and Ito's colours, and a dash and a symbol each: colour is never the only difference.
  const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b8a600", "#6a4c93"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const SYMBOLS = ["circle", "square", "diamond", "cross", "x", "pentagon", "hexagon", "star", "triangle-left"];
  const MARKS = {
    regression: ["triangle-up", "#d55e00"], improvement: ["triangle-down", "#0072b2"], no_valid_data: ["x", "#cc79a7"],
    pending: ["circle-open", "#e69f00"], unstable: ["hourglass", "#e69f00"], compiler_wide: ["diamond", "#7f7f7f"],
    reference_moved: ["diamond-open", "#7f7f7f"], environment: ["square-open", "#7f7f7f"], no_change: ["circle", "#7f7f7f"],
  };
  const small = () => window.innerWidth < 700;
  const ink = () => getComputedStyle(document.body).color;
  const CONFIG = { responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtonsToRemove: ["lasso2d", "select2d", "toImage"] };

  function layout(extra) {
    const axis = { gridcolor: "#8883", zerolinecolor: "#8888", automargin: true };
    const merged = Object.assign({
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink(), size: 12 },
      margin: { l: 48, r: 12, t: 12, b: 48 }, hovermode: "closest", dragmode: small() ? false : "zoom",
      legend: { orientation: "h", y: small() ? -0.3 : -0.2, yanchor: "top", font: { size: 11 } },
    }, extra);
    for (const name of Object.keys(merged).filter((key) => /^[xy]axis/.test(key))) merged[name] = Object.assign({}, axis, merged[name]);
    return merged;
  }

  function option(select, value, text) {
    const entry = document.createElement("option");
    entry.value = value;
    entry.textContent = text;
    select.append(entry);
  }

  const isDense = (line) => line.at.length > 100;

  // Of a dense line the intervals are a band: hundreds of bars take longer to draw than to read.
  function band(line, colour) {
    const x = [], y = [], gaps = new Set(line.gap);
    let start = 0;
    for (let end = 1; end <= line.at.length; end++) {
      if (end < line.at.length && !gaps.has(end)) continue;
      const there = line.at.slice(start, end);
      x.push(...there, ...there.toReversed(), null);
      y.push(...line.high.slice(start, end), ...line.low.slice(start, end).toReversed(), null);
      start = end;
    }
    return { x, y, mode: "lines", fill: "toself", fillcolor: `${colour}40`, line: { width: 0 }, hoverinfo: "skip", showlegend: false, legendgroup: line.name };
  }

  // A line of the plot; a null breaks it where points without valid data lie between.
  function trace(line, index, first) {
    const x = [], y = [], up = [], down = [], text = [];
    const gaps = new Set(line.gap);
    line.at.forEach((at, i) => {
      if (gaps.has(i)) { x.push(at); y.push(null); up.push(0); down.push(0); text.push(""); }
      x.push(at); y.push(line.value[i]);
      up.push(line.high[i] - line.value[i]); down.push(line.value[i] - line.low[i]);
      const found = line.candidate && findingAt(line.candidate, at, line.value[i]);
      const also = found ? `<br>${found.text}<br>A click opens its page.` : "";
      text.push(`${atomwatch.labels[at]}: ${line.name} ${line.value[i]} (${line.low[i]} to ${line.high[i]})${also}`);
    });
    const colour = COLOURS[index % COLOURS.length];
    return {
      x, y, text, hovertemplate: "%{text}<extra></extra>", name: line.name, legendgroup: line.name, showlegend: first,
      mode: isDense(line) ? "lines" : "lines+markers", line: { color: colour, width: 1.6, dash: DASHES[index % DASHES.length] },
      marker: { color: colour, size: 6, symbol: SYMBOLS[index % SYMBOLS.length] },
      error_y: { visible: !isDense(line), type: "data", symmetric: false, array: up, arrayminus: down, color: colour, thickness: 1, width: 3 },
    };
  }

  function traces(lines) {
    const names = [...new Set(lines.map((line) => line.name))], seen = new Set();
    return lines.flatMap((line) => {
      const first = !seen.has(line.name), index = names.indexOf(line.name);
      seen.add(line.name);
      const drawn = trace(line, index, first);
      return isDense(line) ? [band(line, drawn.line.color), drawn] : [drawn];
    });
  }

  function commitAxis() {
    const places = Object.keys(atomwatch.labels).map(Number).sort((a, b) => a - b);
    const few = places.length <= 30 ? places : atomwatch.releases.length ? atomwatch.releases : places;
    const step = Math.ceil(few.length / (small() ? 8 : 24));
    const shown = few.filter((_, i) => i % step === 0);
    return { tickvals: shown, ticktext: shown.map((at) => atomwatch.labels[at]), tickangle: -40 };
  }

  function shapes() {
    const epochs = atomwatch.epochs.map((epoch, i) => ({
      type: "rect", xref: "x", yref: "paper", x0: epoch.first - 0.4, x1: epoch.last + 0.4, y0: 0, y1: 1, layer: "below",
      line: { width: 0 }, fillcolor: i % 2 ? "rgba(127,127,127,.18)" : "rgba(127,127,127,.07)",
    }));
    const dense = atomwatch.commits > 30;
    return epochs.concat((dense ? atomwatch.releases : []).map((at) => ({
      type: "line", xref: "x", yref: "paper", x0: at, x1: at, y0: 0, y1: 1, layer: "below", line: { color: "#8886", width: 1, dash: "dot" },
    })));
  }

  // A finding often stands on a point of a line, and the library gives a pointer whichever it likes.
  const isAt = (found, x, y) => found.at === x && Math.abs(found.value / y - 1) < 1e-3;
  const findingAt = (candidate, x, y) => atomwatch.findings.find((f) => f.candidate === candidate && f.value !== null && isAt(f, x, y));

  function markers(candidate) {
    const found = atomwatch.findings.filter((f) => f.candidate === candidate && f.value !== null);
    return {
      x: found.map((f) => f.at), y: found.map((f) => f.value), text: found.map((f) => f.text), customdata: found.map((f) => f.page),
      hovertemplate: "%{text}<extra>open its page</extra>", name: "findings", mode: "markers", type: "scatter",
      marker: { size: 14, symbol: found.map((f) => MARKS[f.verdict][0]), color: found.map((f) => MARKS[f.verdict][1]), line: { width: 1.5, color: ink() } },
    };
  }

  function drawCase() {
    const candidate = byId("candidate").value, type = byId("log").checked ? "log" : "linear";
    const ratios = atomwatch.lines.filter((line) => line.candidate === candidate);
    const speeds = atomwatch.lines.filter((line) => line.candidate === null);
    const one = { type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: ink(), width: 1, dash: "dot" } };
    Plotly.react("ratio", [...traces(ratios), markers(candidate)], layout({ xaxis: commitAxis(), yaxis: { type, title: { text: "time / reference's time" } }, shapes: [...shapes(), one] }), CONFIG);
    // The second plot waits until it is looked at: half of the work of a page is drawing.
    whenSeen(byId("speed"), () => Plotly.react("speed", traces(speeds), layout({ xaxis: commitAxis(), yaxis: { type, rangemode: "tozero", title: { text: "TFLOP/s" } }, shapes: shapes() }), CONFIG));
  }

  const seeing = new Map();
  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting && seeing.has(target)) { seeing.get(target)(); seeing.delete(target); observer.unobserve(target); }
    }
  }, { rootMargin: "100px" });

  function whenSeen(element, draw) {
    seeing.set(element, draw);
    observer.unobserve(element);
    observer.observe(element);
  }

  // On paper there is no scrolling: what waits is drawn now.
  window.addEventListener("beforeprint", () => {
    for (const [element, draw] of seeing) { draw(); observer.unobserve(element); }
    seeing.clear();
  });

  function startCase() {
    const candidate = byId("candidate");
    const asked = decodeURIComponent(location.hash.slice(1));
    if ([...candidate.options].some((entry) => entry.value === asked)) candidate.value = asked;
    drawCase();
    candidate.addEventListener("change", () => { history.replaceState(null, "", `#${candidate.value}`); drawCase(); });
    byId("log").addEventListener("change", drawCase);
    byId("ratio").on("plotly_click", (event) => {
      const { x, y, customdata } = event.points[0];
      const page = customdata ?? findingAt(candidate.value, x, y)?.page;
      if (page) location.href = page;
    });
  }

  function drawConfirmation(bar, i) {
    const y = bar.names.map((_, j) => j);
    Plotly.newPlot(`confirmation-${i}`, [{
      x: bar.change, y, mode: "markers", marker: { size: 9, color: COLOURS[0] }, hovertemplate: "%{x:+.2f} %<extra></extra>",
      error_x: { type: "data", symmetric: false, array: bar.high.map((v, j) => v - bar.change[j]), arrayminus: bar.change.map((v, j) => v - bar.low[j]), color: COLOURS[0] },
    }], layout({ showlegend: false, xaxis: { title: { text: "change of time, %" } }, yaxis: { tickvals: y, ticktext: bar.names, autorange: "reversed" } }), CONFIG);
  }

  function drawTelemetry(found, i) {
    const x = found.clock_mhz.map((_, j) => j + 1);
    const line = (y, name, axis, index) => ({ x, y, name, yaxis: axis, mode: "lines+markers", line: { color: COLOURS[index], dash: DASHES[index] }, marker: { symbol: SYMBOLS[index] } });
    const shape = (block) => ({ type: "rect", xref: "x", yref: "paper", x0: block + 0.5, x1: block + 1.5, y0: 0, y1: 1, layer: "below", line: { width: 0 }, fillcolor: "rgba(213,94,0,.25)" });
    Plotly.newPlot(`telemetry-${i}`, [line(found.clock_mhz, "SM clock, MHz", "y", 0), line(found.power_w, "power, W", "y2", 1), line(found.temperature_c, "temperature, °C", "y3", 2)], layout({
      xaxis: { anchor: "y3", title: { text: "block" }, dtick: Math.ceil(x.length / 20) }, shapes: found.left_out.map(shape),
      yaxis: { domain: [0.7, 1], title: { text: "MHz" } }, yaxis2: { domain: [0.35, 0.65], title: { text: "W" } }, yaxis3: { domain: [0, 0.3], title: { text: "°C" } },
    }), CONFIG);
  }

  function cell(row, text, kind, tag = "td") {
    const made = document.createElement(tag);
    made.textContent = text;
    if (kind) made.className = kind;
    row.append(made);
    return made;
  }

  function tflopsRow(table, where, values, digits = 0) {
    const row = table.insertRow();
    cell(row, where, "nowrap");
    for (const value of values) cell(row, typeof value === "number" ? value.toFixed(digits) : (value ?? "n/a"), "number");
  }

  function percent(change) {
    const whole = Math.round(change);
    return whole === 0 ? "0 %" : `${whole > 0 ? "+" : ""}${whole} %`;
  }

  function drawTflops() {
    const headDim = byId("head_dim").value, table = byId("tflops"), data = atomwatch;
    const label = Object.fromEntries(data.commits), chosen = [byId("first").value, byId("second").value];
    table.replaceChildren();
    const head = table.insertRow();
    cell(head, "n_ctx", "", "th");
    for (const n of data.n_ctx) cell(head, String(n), "number", "th");
    for (const variant of data.variants) {
      // A row of its own: beside the numbers, the name would leave a small screen no room for them.
      const name = cell(table.insertRow(), "", "variant", "th"), code = document.createElement("code");
      name.colSpan = data.n_ctx.length + 1;
      code.textContent = variant;
      name.append(code);
      const issue = data.issue.tflops[variant];
      if (issue && Number(headDim) === data.issue.head_dim) {
        tflopsRow(table, "issue 4717", data.n_ctx.map((n) => issue[data.issue.n_ctx.indexOf(n)]));
      }
      const rows = chosen.map((commit) => data.tflops[headDim][commit][variant] ?? data.n_ctx.map(() => null));
      [...new Set(chosen)].forEach((commit, i) => tflopsRow(table, label[commit], rows[i]));
      if (chosen[0] !== chosen[1]) {
        const change = data.n_ctx.map((_, i) => rows[0][i] === null || rows[1][i] === null ? null : 100 * (rows[1][i] / rows[0][i] - 1));
        tflopsRow(table, "change", change.map((c) => c === null ? null : percent(c)));
      }
    }
  }

  function startTflops() {
    for (const id of ["first", "second"]) for (const [commit, label] of atomwatch.commits) option(byId(id), commit, label);
    for (const d of atomwatch.head_dims) option(byId("head_dim"), d, d);
    byId("second").selectedIndex = atomwatch.commits.length - 1;
    for (const id of ["first", "second", "head_dim"]) byId(id).addEventListener("change", drawTflops);
    drawTflops();
  }

  if (byId("tflops")) startTflops();
  if (byId("ratio")) startCase();
  (atomwatch.confirmations ?? []).forEach((bar, i) => whenSeen(byId(`confirmation-${i}`), () => drawConfirmation(bar, i)));
  (atomwatch.telemetry ?? []).forEach((found, i) => whenSeen(byId(`telemetry-${i}`), () => drawTelemetry(found, i)));
})();
