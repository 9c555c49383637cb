/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The use of the timeline that trace_page.js draws: a cursor with values, zoom, keys, and what the
 * page says in words. The page begins with the last lines of this.
 */

/* ---- the values at the cursor ------------------------------------------------------------- */

function tipRow(name, value) {
	const row = document.createElement('div');
	for (const text of [name, value]) {
		const span = document.createElement('span');
		span.textContent = text;
		row.appendChild(span);
	}
	tip.appendChild(row);
}

function fillTip(bin) {
	const most = { level: 6, chart: 10, lane: 10, stall: 6 };
	tip.replaceChildren();
	tipRow('time', seconds(bin * trace.width_s, 0.001));
	for (const panel of panels) {
		const value = panel.values ? panel.values[bin] : NaN;
		if (panel.kind === 'chart' && most.chart-- > 0)
			for (const line of panel.lines.filter((l) => !Number.isNaN(l.values[bin])))
				tipRow(panel.name + ': ' + line.name, panel.format(line.values[bin]));
		else if (panel.kind === 'level' && !Number.isNaN(value) && most.level-- > 0)
			tipRow('level of ' + panel.name, levelNames[value] || '?');
		else if (panel.kind === 'lane' && value && most.lane-- > 0)
			tipRow(panel.name, String(value));
		else if (panel.kind === 'stall' && value && most.stall-- > 0)
			tipRow('stall: ' + (panel.name || '(root)'), duration(value));
	}
}

function drawCursor(clientX, clientY) {
	const bin = view.cursor;
	if (bin === null || bin < view.from || bin >= view.to) {
		view.line.setAttribute('visibility', 'hidden');
		tip.hidden = true;
		return;
	}
	const x = xOf(bin + 0.5), box = svg.getBoundingClientRect();
	view.line.setAttribute('x1', x);
	view.line.setAttribute('x2', x);
	view.line.setAttribute('visibility', 'visible');
	fillTip(bin);
	tip.hidden = false;
	const at = clientX === undefined ? box.left + x : clientX;
	const room = tip.offsetHeight + 12;
	const top = clientY === undefined ? Math.max(box.top, 0) + 30 : clientY + 14;
	tip.style.left = (at + 330 > innerWidth ? Math.max(at - 340, 0) : at + 16) + 'px';
	tip.style.top = Math.max(Math.min(top, innerHeight - room), 0) + 'px';
}

function setCursor(bin, clientX, clientY) {
	view.cursor = Math.min(Math.max(Math.floor(bin), 0), trace.bins - 1);
	drawCursor(clientX, clientY);
}

/* ---- zoom --------------------------------------------------------------------------------- */

function show(from, to) {
	const least = Math.min(8, Math.max(trace.bins, 1));
	const span = Math.min(Math.max(to - from, least), Math.max(trace.bins, 1));
	from = Math.min(Math.max((from + to - span) / 2, 0), Math.max(trace.bins, 1) - span);
	view.from = from;
	view.to = from + span;
	draw();
}

function zoom(factor, around) {
	const at = around === undefined ?
		   view.cursor !== null && view.cursor >= view.from && view.cursor < view.to ?
		   view.cursor + 0.5 : (view.from + view.to) / 2 : around;
	show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

function pan(share) {
	const by = (view.to - view.from) * share;
	const from = Math.min(Math.max(view.from + by, 0),
			      Math.max(trace.bins, 1) - (view.to - view.from));
	show(from, from + view.to - view.from);
}

const actions = {
	in: () => zoom(0.5), out: () => zoom(2), all: () => show(0, trace.bins),
	earlier: () => pan(-0.25), later: () => pan(0.25),
};

function onKey(event) {
	const step = Math.max(1, Math.round((view.to - view.from) / 200)) * (event.shiftKey ? 10 : 1);
	const from = view.cursor === null ? Math.floor((view.from + view.to) / 2) : view.cursor;
	const keys = {
		'+': actions.in, '=': actions.in, '-': actions.out, '0': actions.all,
		PageUp: actions.earlier, PageDown: actions.later,
		ArrowLeft: () => setCursor(from - step), ArrowRight: () => setCursor(from + step),
		Home: () => setCursor(view.from), End: () => setCursor(view.to - 1),
		Escape: () => { view.cursor = null; drawCursor(); },
	};
	if (event.ctrlKey || event.altKey || event.metaKey || !keys[event.key])
		return;
	event.preventDefault();
	keys[event.key]();
	if (view.cursor !== null && (view.cursor < view.from || view.cursor >= view.to))
		pan(view.cursor < view.from ? -0.25 : 0.25);
}

function listen() {
	const xIn = (event) => event.clientX - svg.getBoundingClientRect().left;
	for (const button of document.querySelectorAll('[data-do]'))
		button.onclick = () => actions[button.dataset.do]();
	svg.onkeydown = onKey;
	svg.onpointerdown = (event) => {
		if (event.button || xIn(event) < left)
			return;
		view.drag = xIn(event);
		svg.setPointerCapture(event.pointerId);
	};
	svg.onpointermove = (event) => {
		const x = clampX(xIn(event));
		if (xIn(event) < left && view.drag === null)
			return;
		setCursor(binOf(x), event.clientX, event.clientY);
		if (view.drag === null)
			return;
		view.chosen.setAttribute('x', Math.min(x, view.drag));
		view.chosen.setAttribute('width', Math.abs(x - view.drag));
	};
	svg.onpointerup = (event) => {
		const from = view.drag, to = clampX(xIn(event));
		view.drag = null;
		view.chosen.setAttribute('width', 0);
		if (from !== null && Math.abs(to - from) > 4)
			show(binOf(Math.min(from, to)), binOf(Math.max(from, to)));
	};
	svg.onpointerleave = () => { view.cursor = null; drawCursor(); };
	svg.addEventListener('wheel', (event) => {
		if (!event.ctrlKey) /* else the page scrolls */
			return;
		event.preventDefault();
		zoom(event.deltaY > 0 ? 1.25 : 0.8, binOf(clampX(xIn(event))));
	}, { passive: false });
	addEventListener('resize', draw);
}

/* ---- words -------------------------------------------------------------------------------- */

function words() {
	const set = (id, text) => { document.getElementById(id).textContent = text; };
	const start = new Date(trace.start_ms), keys = document.getElementById('keys');
	const when = Number.isNaN(start.getTime()) ? 'an unknown time' :
		     start.toISOString().replace('T', ' ').replace(/\.\d+Z/, ' UTC');
	const trouble = [];
	set('title', 'Memory pressure on ' + (trace.host || 'an unnamed host'));
	document.title = document.getElementById('title').textContent;
	set('about', duration(trace.span_s * 1000) + ' from ' + when + '; ' + trace.cpus +
	    ' CPUs, ' + mib(trace.total) + ', Linux ' + trace.kernel + ', ' + trace.agent);
	if (trace.end !== 'whole')
		trouble.push('The file is ' + trace.end + ': what could be read of it is shown.');
	if (trace.lost)
		trouble.push(trace.lost + ' records were lost.');
	if (trace.incomplete)
		trouble.push('There was no memory for some lines.');
	if (!trace.bins)
		trouble.push('There is nothing in it to show.');
	set('trouble', trouble.join(' '));
	document.getElementById('trouble').hidden = !trouble.length;
	levelNames.forEach((name, i) => {
		const key = document.createElement('span');
		key.className = 'key';
		key.style.background = 'var(' + levelColours[i] + ')';
		const item = document.createElement('span');
		item.append(key, ' ' + name);
		keys.append(item);
	});
	set('drawn', trace.bins + ' steps of ' + duration(trace.width_s * 1000) + ': each shows ' +
	    'the worst value of its time, the lowest of what is free and the highest of all else.');
	set('left', trace.notes_left ? 'and ' + trace.notes_left + ' more' : trace.notes.length ?
	    '' : 'No level changed, nothing was refused or killed.');
}

function notes() {
	const body = document.getElementById('notes');
	for (const note of trace.notes) {
		const row = body.insertRow(), button = document.createElement('button');
		const bin = Math.min(Math.floor(note.s / trace.width_s), trace.bins - 1);
		button.type = 'button';
		button.textContent = seconds(note.s, 0.001);
		button.title = 'Show it';
		button.onclick = () => {
			const half = Math.min(view.to - view.from, trace.bins / 8) / 2;
			show(bin - half, bin + half);
			svg.scrollIntoView();
			svg.focus();
			setCursor(bin);
		};
		row.insertCell().appendChild(button);
		row.insertCell().textContent = note.what;
		row.insertCell().textContent = note.text;
	}
}

words();
build();
notes();
listen();
draw();
document.documentElement.dataset.panels = panels.filter((p) => p.kind !== 'heading').length;
