/* SPDX-License-Identifier: BSD-2-Clause */
/* What this process's environment says about admission and the ladder, read once. */
#ifndef PNMEM_LIB_ADMIT_SETTINGS_H
#define PNMEM_LIB_ADMIT_SETTINGS_H

#include <stdbool.h>

#include "core/admission.h"

struct admit_settings {
	struct admission_config admission;
	bool ladder_off;
	int refused;        /* values that could not be used */
	char warnings[512]; /* a line for each, as many as there is room for */
};

/* The first call reads the environment; constant from then on, any thread. */
const struct admit_settings *admit_settings_get(void);

#endif
