/* SPDX-License-Identifier: BSD-2-Clause */
/* Parser of a PSI file: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", then "full ...". */
#include <errno.h>

#include "host/pressure.h"
#include "host/scan.h"

static bool pressure_avg(struct scan value, double *ret_pct)
{
	uint32_t hundredths;

	if (!scan_pct(value, &hundredths))
		return false;
	*ret_pct = hundredths / 100.0;
	return true;
}

/* The values of a line whose first word has been taken. */
static bool pressure_values(struct scan line, struct pressure_line *ret)
{
	enum { AVG10 = 1, AVG60 = 2, AVG300 = 4, TOTAL = 8, ALL = 15 };
	unsigned have = 0;
	struct scan token;

	while (scan_token(&line, &token)) {
		bool good = true;

		if (scan_prefix(&token, "avg10=")) {
			good = pressure_avg(token, &ret->avg10);
			have |= AVG10;
		} else if (scan_prefix(&token, "avg60=")) {
			good = pressure_avg(token, &ret->avg60);
			have |= AVG60;
		} else if (scan_prefix(&token, "avg300=")) {
			good = pressure_avg(token, &ret->avg300);
			have |= AVG300;
		} else if (scan_prefix(&token, "total=")) {
			good = scan_u64(token, &ret->total_us);
			have |= TOTAL;
		}
		if (!good)
			return false;
	}
	return have == ALL;
}

int pressure_parse(const char *buf, size_t len_bytes, struct pressure *ret)
{
	struct scan text = { buf, buf + len_bytes };
	struct pressure p = { 0 };
	bool has_some = false;
	struct scan line, word;
	int more;

	while ((more = scan_line(&text, &line)) > 0) {
		bool good = true;

		if (!scan_token(&line, &word))
			continue;
		if (scan_is(word, "some"))
			good = has_some = pressure_values(line, &p.some);
		else if (scan_is(word, "full"))
			good = p.has_full = pressure_values(line, &p.full);
		if (!good)
			return -EBADMSG;
	}
	if (more < 0 || !has_some)
		return -EBADMSG;
	*ret = p;
	return 0;
}
