/* SPDX-License-Identifier: BSD-2-Clause */
/* See pressure_request.h. */
#include "core/pressure_request.h"

#include <string.h>
#include <strings.h>

pn_mem_level pressure_request_level(const char *text, size_t bytes)
{
	static const struct {
		const char *name;
		pn_mem_level level;
	} names[] = {
		{ "WATCH", PN_MEM_LEVEL_WATCH },
		{ "TIGHT", PN_MEM_LEVEL_TIGHT },
		{ "CRITICAL", PN_MEM_LEVEL_CRITICAL },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i].name);

		if (bytes < length || strncasecmp(text, names[i].name, length))
			continue;
		if (bytes == length || !text[length] || strchr(" \t\r\n", text[length]))
			return names[i].level;
	}
	return PRESSURE_LEVEL_DEFAULT;
}
