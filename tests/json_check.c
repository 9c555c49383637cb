/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json_check [--keys|--lines] FILE: the file is one JSON value (--lines: each line is an object);
 * --keys: with every field of pn_mem_state under its own name and of its own type.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *key;
	json_type type;
} keys[] = {
	{ "host_total_bytes", JSON_INTEGER },
	{ "host_avail_bytes", JSON_INTEGER },
	{ "host_psi_some_avg10", JSON_REAL },
	{ "host_psi_full_avg10", JSON_REAL },
	{ "cgroup_current_bytes", JSON_INTEGER },
	{ "cgroup_high_bytes", JSON_INTEGER },
	{ "cgroup_max_bytes", JSON_INTEGER },
	{ "n_dies", JSON_INTEGER },
	{ "per_die_free", JSON_ARRAY },
	{ "per_die_budget", JSON_ARRAY },
	{ "per_die_used", JSON_ARRAY },
	{ "level", JSON_INTEGER },
	{ "level_name", JSON_STRING },
	{ "seq", JSON_INTEGER },
};

static int has_keys(const json_t *value)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const json_t *field = json_object_get(value, keys[i].key);

		if (!field || json_typeof(field) != keys[i].type) {
			printf("%s is missing or of another type\n", keys[i].key);
			return 0;
		}
	}
	return 1;
}

int main(int argc, char **argv)
{
	int lines = argc == 3 && !strcmp(argv[1], "--lines");
	int with_keys = argc == 3 && !strcmp(argv[1], "--keys");
	size_t flags = lines ? JSON_DISABLE_EOF_CHECK : 0;
	FILE *f = argc > 1 ? fopen(argv[argc - 1], "re") : NULL;
	json_error_t error;
	int n = 0, c;

	if (!f)
		return 2;
	do {
		json_t *value = json_loadf(f, flags, &error);

		if (!value || !json_is_object(value) || (with_keys && !has_keys(value))) {
			printf("value %d: %s\n", n, error.text);
			return 1;
		}
		json_decref(value);
		n++;
		c = getc(f);
		while (c == '\n')
			c = getc(f);
		ungetc(c, f);
	} while (lines && c != EOF);
	fclose(f);
	return 0;
}
