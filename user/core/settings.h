/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings from the environment. The values are parsed here; a bad one is reported through a
 * callback, since neither the library nor this layer logs, and the default stays.
 */
#ifndef PNMEM_CORE_SETTINGS_H
#define PNMEM_CORE_SETTINGS_H

#include <stdint.h>

#include "core/level.h"

/* Receives a bad value: the variable, its text, and the default used instead (as text). */
typedef void (*settings_warn_fn)(void *arg, const char *name, const char *value,
				 const char *fallback);

/*
 * Looks a variable up; returns NULL if it is not set. get_arg is the caller's. Where a caller gives
 * no such function, no variable is set.
 */
typedef const char *(*settings_get_fn)(void *get_arg, const char *name);

/* Bytes: decimal digits and at most one of K M G T (powers of 1024). 0 or -EINVAL, -ERANGE. */
int settings_parse_bytes(const char *text, uint64_t *ret_bytes);

/* A plain non-negative decimal number such as 15 or 7.5, in any locale. 0 or -EINVAL. */
int settings_parse_decimal(const char *text, double *ret_value);

/* The source of the dies' figures: PN_DIE_SOURCE. */
enum die_source {
	DIE_SOURCE_AUTO = 0, /* the sampler where there is a driver, and engines */
	DIE_SOURCE_CUDA = 1, /* the sampler alone */
	DIE_SOURCE_PUSH = 2, /* engines alone */
	DIE_SOURCE_OFF = 3,
};

/* PN_DIE_SOURCE: auto (also if unset), cuda, push or off. warn may be NULL. */
enum die_source settings_die_source(settings_get_fn get, void *get_arg, settings_warn_fn warn,
				    void *warn_arg);

/*
 * PN_HOST_RESERVE_BYTES, PN_PSI_FULL_REJECT (percent, above 0 to 100), PN_DIE_RESERVE_BYTES,
 * PN_LEVEL_HOLD_MS (0..60000), PN_CGROUP_LEVEL (0 or 1) over the defaults. warn may be NULL.
 */
void settings_level(struct level_config *ret, settings_get_fn get, void *get_arg,
		    settings_warn_fn warn, void *warn_arg);

/* The value of a variable; NULL if it is not set or empty. */
const char *settings_value(settings_get_fn get, void *get_arg, const char *name);

#endif
