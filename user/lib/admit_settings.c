/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The environment's settings for admission and the ladder: read once, constant afterwards, so that
 * a decision costs no getenv. Bad values are kept as text for whoever asks, as the library does
 * not log.
 */
#include "lib/admit_settings.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pn_ladder.h"

static struct admit_settings settings;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static const char *get_env(void *arg, const char *name)
{
	return secure_getenv(name);
}

static void warn(void *arg, const char *name, const char *value, const char *fallback)
{
	struct admit_settings *s = arg;
	size_t used = strlen(s->warnings);

	s->refused++;
	/* The precision keeps one absurd value from hiding the next warning. */
	snprintf(s->warnings + used, sizeof(s->warnings) - used,
		 "%s=%.64s is not understood, using %s\n", name, value, fallback);
}

static void read_once(void)
{
	const char *off = secure_getenv("PN_LADDER_DISABLE");

	admission_settings(&settings.admission, get_env, NULL, warn, &settings);
	settings.ladder_off = off && *off && strcmp(off, "0") != 0;
}

const struct admit_settings *admit_settings_get(void)
{
	pthread_once(&settings_once, read_once);
	return &settings;
}

int pn_admit_settings_check(char *buf, size_t buf_bytes)
{
	const struct admit_settings *s = admit_settings_get();

	if (buf_bytes)
		snprintf(buf, buf_bytes, "%s", s->warnings);
	return s->refused;
}

bool pn_ladder_disabled(void)
{
	return admit_settings_get()->ladder_off;
}
