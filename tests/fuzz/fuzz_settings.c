/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values of environment variables and names of dies: whatever they hold, no read past their end, no
 * value outside its range, and a refused one leaves its default.
 */
#include <stdlib.h>
#include <string.h>

#include "core/activation.h"
#include "core/dies.h"
#include "core/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static const char *value;
static int n_warned;

static const char *get(void *arg, const char *name)
{
	return value;
}

static void warn(void *arg, const char *name, const char *text, const char *fallback)
{
	if (text != value || !*name || !*fallback)
		abort();
	n_warned++;
}

static void check_settings(void)
{
	struct level_config config;

	n_warned = 0;
	settings_level(&config, get, NULL, warn, NULL);
	if (!(config.psi_full_reject_pct > 0) || config.psi_full_reject_pct > 100 ||
	    config.hold_ns > 60000000000ull || n_warned > 5)
		abort();
}

static void check_lut(void)
{
	pn_admit_lut lut;

	if (activation_lut_parse(value, &lut))
		return;
	for (int i = 1; i < PN_ADMIT_LUT_ANCHORS; i++)
		if (lut.anchor[i].n_tokens <= lut.anchor[i - 1].n_tokens ||
		    lut.anchor[i].peak_bytes < lut.anchor[i - 1].peak_bytes)
			abort();
}

static void check_pci(void)
{
	char pci[DIE_PCI_BYTES], again[DIE_PCI_BYTES];

	if (die_pci_parse(value, pci))
		return;
	/* The form that comes out is one that goes in, and stays as it is. */
	if (strlen(pci) >= sizeof(pci) || die_pci_parse(pci, again) || strcmp(pci, again) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	/* Of its exact size, so that a read past the end is seen. */
	char *text = malloc(len_bytes + 1);

	if (!text)
		return 0;
	memcpy(text, data, len_bytes);
	text[len_bytes] = 0;
	value = text;
	check_settings();
	check_lut();
	check_pci();
	free(text);
	return 0;
}
