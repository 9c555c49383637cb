/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A scanner over the bytes of a kernel text file: lines, blank-separated tokens, numbers.
 *
 * It never allocates, never needs a terminating NUL and never looks at the locale. What the
 * tokens mean is left to the parsers.
 */
#ifndef PNMEM_HOST_SCAN_H
#define PNMEM_HOST_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes [at, end) of somebody else's buffer. */
struct scan {
	const char *at;
	const char *end;
};

/*
 * Takes the next line, without its newline. Returns 1; 0 at the end of the text; -EBADMSG if the
 * last line has no newline: the kernel ends every line, so the text was cut short, and half a
 * number must not pass for a whole one.
 */
int scan_line(struct scan *text, struct scan *ret_line);

/* Takes the next token (blanks are space and tab). Returns false at the end of the line. */
bool scan_token(struct scan *line, struct scan *ret_token);

/* Takes prefix off the front of *token if it is there. */
bool scan_prefix(struct scan *token, const char *prefix);

/* Is the token this word, no more and no less? */
bool scan_is(struct scan token, const char *word);

/* The whole token as a base 10 number: digits only, leading zeros allowed, false on overflow. */
bool scan_u64(struct scan token, uint64_t *ret);

/*
 * The whole token as a percentage in hundredths, "12.34" being 1234. More than two decimals are
 * cut off. False for anything else and above 100.00.
 */
bool scan_pct(struct scan token, uint32_t *ret_hundredths);

#endif
