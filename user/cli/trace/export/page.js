/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Draws the trace of this page: panels above each other over one axis of time, as SVG, again at
 * every zoom, which is trace_page_use.js's. Both are the inside of one function of the page. Texts
 * of the trace go into it as text, never as markup.
 */
'use strict';
window.onerror = (message) => {
	document.documentElement.dataset.error = message;
};
const trace = JSON.parse(document.getElementById('trace').textContent);
const svg = document.getElementById('chart');
const tip = document.getElementById('tip');
const levelNames = ['OK', 'WATCH', 'TIGHT', 'CRITICAL'];
const levelColours = ['--ok', '--watch', '--tight', '--critical'];
const right = 14;
const view = { from: 0, to: Math.max(trace.bins, 1), cursor: null, drag: null };
let left = 0, width = 0;

/* ---- values ------------------------------------------------------------------------------- */

/* One value for each bin, from pairs of a bin and what holds from there on. */
function expand(data, before) {
	const values = new Float64Array(trace.bins);
	let value = before, next = 0;
	for (let i = 0; i < trace.bins; i++) {
		if (next < data.length && data[next] === i) {
			value = data[next + 1] === null ? NaN : data[next + 1];
			next += 2;
		}
		values[i] = value;
	}
	return values;
}

/* The worst of bins a..b-1: lowest, highest or the mean. */
function worst(values, a, b, how) {
	let ret = NaN, sum = 0;
	for (let i = a; i < b; i++) {
		const v = values[i];
		sum += v;
		if (!(how === 'min' ? v >= ret : v <= ret) && !Number.isNaN(v))
			ret = v;
	}
	return how === 'sum' ? sum : how === 'mean' ? sum / (b - a) : ret;
}

function mib(value) {
	if (Number.isNaN(value))
		return '?';
	for (const unit of ['MiB', 'GiB', 'TiB']) {
		if (value < 1024 || unit === 'TiB')
			return value.toFixed(value < 10 || unit !== 'MiB' ? 1 : 0) + ' ' + unit;
		value /= 1024;
	}
	return '';
}

function duration(ms) {
	return ms < 1000 ? ms.toFixed(ms < 10 ? 1 : 0) + ' ms' : (ms / 1000).toFixed(1) + ' s';
}

function seconds(s, step) {
	return '+' + s.toFixed(step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3) + ' s';
}

const percent = (value) => Number.isNaN(value) ? '?' : value.toFixed(2) + ' %';

/* What an axis of so much is divided by: about n parts of 1, 2 or 5 times a power of ten. */
function niceStep(span, n) {
	const power = Math.pow(10, Math.floor(Math.log10(span / n)));
	for (const times of [1, 2, 5])
		if (span / n <= times * power)
			return times * power;
	return 10 * power;
}

/* ---- panels ------------------------------------------------------------------------------- */

const panels = [];

function heading(text, note) {
	panels.push({ kind: 'heading', height: 26, name: text, note: note || '' });
}

function greatest(values) {
	return values.reduce((a, v) => v > a ? v : a, 0);
}

/* Lines over a scale from 0. A limit far above them is told in words, not drawn. */
function chart(name, height, lines, options) {
	let top = options.top || 0;
	for (const line of lines)
		if (!line.limit)
			top = Math.max(top, greatest(line.values));
	for (const line of lines) {
		const most = greatest(line.values);
		if (line.limit && most <= 3 * top)
			top = Math.max(top, most);
		else if (line.limit)
			line.above = true;
	}
	panels.push({ kind: 'chart', height, name, lines, top: (top || 1) * 1.04,
		      format: options.format, colours: options.colours });
}

function leftOut(lines, shown, what) {
	return lines.length > shown ? '; without ' + (lines.length - shown) + ' more ' + what : '';
}

function build() {
	heading('Level', leftOut(trace.levels, 12, 'cgroups'));
	for (const line of trace.levels.slice(0, 12))
		panels.push({ kind: 'level', height: 28, name: line.name,
			      values: expand(line.data, NaN) });
	for (const line of trace.memory) {
		heading('Host memory', 'available; dashed: the reserve');
		const lines = [{ name: 'available', values: expand(line.data, NaN), how: 'min',
				 colour: '--memory', area: true }];
		if (line.line)
			lines.push({ name: 'reserve', values: expand(line.line.data, NaN),
				     how: 'max', limit: true });
		chart('Host', 120, lines, { format: mib, top: trace.total });
	}
	if (trace.psi_some.length) {
		heading('PSI avg10', 'the larger of file and live');
		const lines = [{ name: 'some', values: expand(trace.psi_some[0].data, NaN),
				 how: 'max', colour: '--some', area: true },
			       { name: 'full', values: expand(trace.psi_full[0].data, NaN),
				 how: 'max', colour: '--full', area: true }];
		chart('PSI', 90, lines, { format: percent, top: 5,
					 colours: [['some', '--some'], ['full', '--full']] });
	}
	if (trace.groups.length)
		heading('Memory of cgroups', 'current; dashed: the limit' +
			leftOut(trace.groups, 8, 'cgroups'));
	for (const line of trace.groups.slice(0, 8)) {
		const lines = [{ name: 'current', values: expand(line.data, NaN), how: 'max',
				 colour: '--memory', area: true }];
		if (line.line)
			lines.push({ name: 'limit', values: expand(line.line.data, NaN),
				     how: 'min', limit: true });
		chart(line.name, 70, lines, { format: mib });
	}
	if (trace.dies.length)
		heading('Dies', 'free; dashed: the budget' + leftOut(trace.dies, 16, 'dies'));
	for (const line of trace.dies.slice(0, 16)) {
		const lines = [{ name: 'free', values: expand(line.data, NaN), how: 'min',
				 colour: '--memory', area: true }];
		if (line.line)
			lines.push({ name: 'budget', values: expand(line.line.data, NaN),
				     how: 'max', limit: true });
		chart(line.name, 60, lines, { format: mib });
	}
	if (trace.lanes.length)
		heading('Events and verdicts');
	for (const lane of trace.lanes)
		panels.push({ kind: 'lane', height: 19, name: lane.name, total: lane.total,
			      values: expand(lane.data, 0),
			      colour: lane.name === 'admitted' ? '--good' :
				      /^(OOM kills|refused)$/.test(lane.name) ? '--bad' :
				      lane.name === 'capped' ? '--tight' : '--event' });
	for (const [key, text] of [['cgroups', 'Stalls by cgroup'], ['tasks', 'Stalls by task']]) {
		if (!trace[key].length)
			continue;
		const n = trace[key + '_left'];
		heading(text, 'share of the time; those with most' +
			(n ? ', without ' + n + ' others of ' + duration(trace[key + '_left_ms']) +
			     ' in all' : ''));
		for (const line of trace[key])
			panels.push({ kind: 'stall', height: 19, name: line.name, of: line.of,
				      total_ms: line.total_ms, values: expand(line.data, 0) });
	}
}

/* ---- drawing ------------------------------------------------------------------------------ */

function add(parent, name, attributes, text) {
	const node = document.createElementNS('http://www.w3.org/2000/svg', name);
	for (const key in attributes)
		node.setAttribute(key, attributes[key]);
	if (text !== undefined)
		node.textContent = text;
	parent.appendChild(node);
	return node;
}

const xOf = (bin) => left + (bin - view.from) / (view.to - view.from) * width;
const binOf = (x) => view.from + (x - left) / width * (view.to - view.from);

/* The columns to draw: of whole bins, and none narrower than a pixel. */
function columns() {
	const first = Math.floor(view.from), end = Math.min(Math.ceil(view.to), trace.bins);
	const step = Math.max(1, Math.ceil((view.to - view.from) / width));
	const ret = [];
	for (let i = first - first % step; i < end; i += step)
		ret.push([i, Math.min(i + step, trace.bins)]);
	return ret;
}

const clampX = (x) => Math.min(Math.max(x, left), left + width);

/* Runs of columns with one value. */
function runs(cols, values, how) {
	const ret = [];
	for (const [a, b] of cols) {
		const v = worst(values, a, b, how), before = ret[ret.length - 1];
		if (before && (before.v === v || (Number.isNaN(v) && Number.isNaN(before.v))))
			before.b = b;
		else
			ret.push({ a, b, v });
	}
	return ret.map((r) => ({ v: r.v, x: clampX(xOf(r.a)), end: clampX(xOf(r.b)) }));
}

/* A name that is too long loses its middle: the end of a path says most. */
function label(panel, y, soft) {
	const name = panel.name || '(root)';
	const node = add(svg, 'text', { x: 0, y }, panel.colours ? '' : name);
	for (const [part, colour] of panel.colours || [])
		add(node, 'tspan', { dx: 2, style: 'font-weight: 600; fill: var(' + colour + ')' },
		    part + ' ');
	for (let n = name.length; n > 8 && node.getComputedTextLength() > left - 72; n--)
		node.textContent = name.slice(0, 4) + '\u2026' + name.slice(5 - n);
	if (node.textContent !== name || panel.of)
		add(node, 'title', {}, name + (panel.of ? ' in ' + panel.of : ''));
	if (soft !== undefined)
		add(svg, 'text', { x: left - 8, y, class: 'soft end' }, soft);
}

function drawLevel(panel, y, cols) {
	drawBack(y + 2, 24);
	label(panel, y + 18);
	for (const run of runs(cols, panel.values, 'max')) {
		if (Number.isNaN(run.v))
			continue;
		const level = Math.min(Math.max(run.v, 0), 3), high = 2 * (level + 1);
		const style = 'fill: var(' + levelColours[level] + ')';
		const w = Math.max(run.end - run.x, 1);
		add(svg, 'rect', { x: run.x, y: y + 2, width: w, height: 24, style,
				   opacity: 0.25 });
		add(svg, 'rect', { x: run.x, y: y + 26 - high, width: w, height: high, style });
		if (w > 66)
			add(svg, 'text', { x: run.x + w / 2, y: y + 14, class: 'mid',
					   style: 'font-size: 11px' },
			    levelNames[level]);
	}
}

function drawLine(panel, line, y, cols) {
	const yOf = (v) => y + panel.height - 4 - Math.min(v / panel.top, 1) * (panel.height - 8);
	let path = '', area = '';
	if (line.above)
		return;
	for (const run of runs(cols, line.values, line.how)) {
		if (Number.isNaN(run.v)) {
			if (area)
				area += 'V' + yOf(0) + 'Z';
			path += ' ';
			area = area && area + ' ';
			continue;
		}
		const at = run.x.toFixed(1), v = yOf(run.v).toFixed(1);
		const fresh = !path || path.endsWith(' ');
		path += fresh ? 'M' + at + ' ' + v : 'V' + v;
		area += fresh ? 'M' + at + ' ' + yOf(0) + 'V' + v : 'V' + v;
		path += 'H' + run.end.toFixed(1);
		area += 'H' + run.end.toFixed(1);
	}
	if (line.area && area)
		add(svg, 'path', { d: area.endsWith(' ') ? area : area + 'V' + yOf(0) + 'Z',
				   class: 'area', style: 'fill: var(' + line.colour + ')' });
	if (line.limit)
		add(svg, 'path', { d: path, class: 'limit' });
	else
		add(svg, 'path', { d: path, class: 'value',
				   style: 'stroke: var(' + line.colour + ')' });
}

function drawChart(panel, y, cols) {
	const unit = panel.format === mib && panel.top >= 1024 ? 1024 : 1;
	let parts = panel.height < 80 ? 2 : 4, step;
	do /* one line above 0 at least */
		step = niceStep(panel.top / unit, parts++) * unit;
	while (step > panel.top);
	drawBack(y, panel.height);
	label(panel, y + 14);
	for (let v = 0; v <= panel.top; v += step) {
		const at = y + panel.height - 4 - v / panel.top * (panel.height - 8);
		add(svg, 'line', { x1: left, x2: left + width, y1: at, y2: at, class: 'grid' });
		add(svg, 'text', { x: left - 8, y: at + 4, class: 'soft end' },
		    v ? panel.format(v).replace(/\.0+ /, ' ') : '0');
	}
	for (const line of panel.lines)
		drawLine(panel, line, y, cols);
	for (const line of panel.lines)
		if (line.above)
			add(svg, 'text', { x: left + width - 6, y: y + 14, class: 'soft end' },
			    line.name + ' ' + panel.format(greatest(line.values)) + ', above this');
}

function drawLane(panel, y, cols) {
	const stall = panel.kind === 'stall', style = 'fill: var(' +
		(stall ? '--stall' : panel.colour) + ')';
	drawBack(y + 1, panel.height - 2);
	label(panel, y + 14, stall ? duration(panel.total_ms) : String(panel.total));
	if (!stall) {
		for (const [a, b] of cols)
			if (worst(panel.values, a, b, 'sum'))
				add(svg, 'rect', { x: clampX(xOf(a)), y: y + 2, style,
						   width: Math.max(clampX(xOf(b)) -
								   clampX(xOf(a)), 2),
						   height: panel.height - 4 });
		return;
	}
	for (const run of runs(cols, panel.values.map((ms) => {
		const share = Math.min(ms / (trace.width_s * 1000), 1);
		return share ? Math.ceil(share * 8) / 8 : 0;
	}), 'max'))
		if (run.v)
			add(svg, 'rect', { x: run.x, y: y + 2, style,
					   width: Math.max(run.end - run.x, 1),
					   height: panel.height - 4,
					   opacity: (0.25 + 0.75 * run.v).toFixed(2) });
}

/* Times with a label; at the end there is no room for one. */
function times() {
	const span = (view.to - view.from) * trace.width_s;
	const step = niceStep(span, Math.max(2, Math.floor(width / 110)));
	const ret = [];
	for (let i = Math.ceil(view.from * trace.width_s / step);
	     i * step <= view.to * trace.width_s; i++)
		ret.push({ x: xOf(i * step / trace.width_s), text: seconds(i * step, step) });
	return ret;
}

function drawTimes(y) {
	for (const time of times())
		add(svg, 'text', { x: Math.min(time.x, left + width - 18), y, class: 'soft mid' },
		    time.text);
}

function drawBack(y, height) {
	add(svg, 'rect', { x: left, y, width, height, class: 'back' });
	for (const time of times())
		add(svg, 'line', { x1: time.x, x2: time.x, y1: y, y2: y + height, class: 'grid' });
}

function draw() {
	const cols = [];
	let y = 20;

	width = svg.clientWidth;
	left = width < 700 ? 130 : 230;
	width = Math.max(width - left - right, 100);
	cols.push(...columns());
	svg.replaceChildren();
	for (const panel of panels) {
		panel.y = y;
		y += panel.height + (panel.kind === 'chart' ? 6 : 0);
	}
	svg.setAttribute('height', y + 24);
	for (const panel of panels) {
		if (panel.kind === 'heading') {
			const node = add(svg, 'text', { x: 0, y: panel.y + 18, class: 'head' },
					 panel.name);
			if (panel.note)
				add(node, 'tspan', { dx: 8,
						     style: 'font-weight: 400; fill: var(--soft)' },
				    panel.note.replace(/^; /, ''));
		} else if (panel.kind === 'level') {
			drawLevel(panel, panel.y, cols);
		} else if (panel.kind === 'chart') {
			drawChart(panel, panel.y, cols);
		} else {
			drawLane(panel, panel.y, cols);
		}
	}
	drawTimes(14);
	drawTimes(y + 14);
	view.chosen = add(svg, 'rect', { y: 20, height: y - 20, width: 0, class: 'chosen' });
	view.line = add(svg, 'line', { y1: 20, y2: y, class: 'cursor', visibility: 'hidden' });
	drawCursor();
}
