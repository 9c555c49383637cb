/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scanner of scan.h. Own digits loops instead of strtoull: that takes signs, hex, octal and
 * blanks, needs a NUL, and strtod follows the locale.
 */
#include <errno.h>
#include <string.h>

#include "host/scan.h"

static bool scan_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool scan_digit(char c)
{
	return c >= '0' && c <= '9';
}

int scan_line(struct scan *text, struct scan *ret_line)
{
	const char *newline;

	if (text->at == text->end)
		return 0;
	newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
	if (!newline)
		return -EBADMSG;
	*ret_line = (struct scan){ text->at, newline };
	text->at = newline + 1;
	return 1;
}

bool scan_token(struct scan *line, struct scan *ret_token)
{
	const char *from;

	while (line->at < line->end && scan_blank(*line->at))
		line->at++;
	from = line->at;
	while (line->at < line->end && !scan_blank(*line->at))
		line->at++;
	if (from == line->at)
		return false;
	*ret_token = (struct scan){ from, line->at };
	return true;
}

bool scan_prefix(struct scan *token, const char *prefix)
{
	size_t len = strlen(prefix);

	if ((size_t)(token->end - token->at) < len || memcmp(token->at, prefix, len))
		return false;
	token->at += len;
	return true;
}

bool scan_is(struct scan token, const char *word)
{
	return scan_prefix(&token, word) && token.at == token.end;
}

bool scan_u64(struct scan token, uint64_t *ret)
{
	uint64_t value = 0;

	if (token.at == token.end)
		return false;
	for (; token.at < token.end; token.at++) {
		if (!scan_digit(*token.at))
			return false;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*token.at - '0'), &value))
			return false;
	}
	*ret = value;
	return true;
}

bool scan_pct(struct scan token, uint32_t *ret_hundredths)
{
	struct scan whole = { token.at, token.at };
	uint32_t unit = 10;
	uint32_t hundredths;
	uint64_t pct;

	while (whole.end < token.end && *whole.end != '.')
		whole.end++;
	if (!scan_u64(whole, &pct) || pct > 100)
		return false;
	hundredths = (uint32_t)pct * 100;
	if (whole.end < token.end) {
		token.at = whole.end + 1;
		if (token.at == token.end)
			return false;
		for (; token.at < token.end; token.at++, unit /= 10) {
			if (!scan_digit(*token.at))
				return false;
			hundredths += (uint32_t)(*token.at - '0') * unit;
		}
	}
	if (hundredths > 10000)
		return false;
	*ret_hundredths = hundredths;
	return true;
}
