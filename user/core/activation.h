/* SPDX-License-Identifier: BSD-2-Clause */
/* Host memory of a prefill's activations by prompt length: the anchor table and its arithmetic. */
#ifndef PNMEM_CORE_ACTIVATION_H
#define PNMEM_CORE_ACTIVATION_H

#include <stdint.h>

#include "pn_admission.h"

/* Derived from a reference model; activation.c says how. */
extern const pn_admit_lut activation_lut_default;

/*
 * Peak bytes of n_tokens; 0 for n_tokens <= 0, saturates at UINT64_MAX. Defined for any table:
 * one that breaks the order of pn_admit_lut gives some number, never a fault.
 */
uint64_t activation_peak_bytes(const pn_admit_lut *lut, int n_tokens);

/*
 * Reads "tokens:bytes" six times with commas between, such as "1024:64M,2048:256M,...", in the
 * number format of settings_parse_bytes. Returns 0, or -EINVAL if there are not six, or tokens do
 * not rise strictly within int, or bytes fall.
 */
int activation_lut_parse(const char *text, pn_admit_lut *ret_lut);

#endif
