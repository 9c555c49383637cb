/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake-cuda: the stand-in driver's script from a shell.
 *
 *	fake-cuda SCRIPT create DIES
 *	fake-cuda SCRIPT set DIE total|system|context|other|lie|mode|integrated|mig VALUE
 *	fake-cuda SCRIPT fail FUNCTION RESULT [DELAY_MS [TIMES]]	(-1: for ever, always)
 *	fake-cuda SCRIPT calls FUNCTION
 *	fake-cuda SCRIPT private 0|1	(1: cuGetProcAddress gives functions that are not exported)
 *	fake-cuda SCRIPT show	(a line per die: UUID, PCI id, name, total and used MiB, as
 * nvidia-smi)
 *
 * Bytes may end in K, M or G. What uses the driver finds the script by FAKE_CUDA=SCRIPT.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcuda_state.h"

static const char *const function_names[] = {
#define FAKE_NAME(name, parameters) #name,
	CU_FAKE_FUNCTIONS(FAKE_NAME)
#undef FAKE_NAME
};

static _Noreturn void usage(const char *why)
{
	fprintf(stderr, "fake-cuda: %s\n", why);
	exit(2);
}

/* A whole number with an optional unit. */
static long long number(const char *text)
{
	static const char units[] = "KMG";
	char *end;
	long long value = strtoll(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;

	if (end == text || (*end && (!unit || end[1])))
		usage("not a number");
	return unit ? value << (10 * (unit - units + 1)) : value;
}

static enum fake_function function(const char *name)
{
	for (int i = 0; i < FAKE_FUNCTIONS; i++) {
		if (!strcmp(function_names[i], name))
			return (enum fake_function)i;
	}
	usage("no such function");
}

static void set(struct fake_die *die, const char *field, long long value)
{
	const struct {
		const char *name;
		uint64_t *bytes;
		int32_t *number;
	} fields[] = {
		{ "total", &die->total_bytes, NULL },     { "system", &die->system_bytes, NULL },
		{ "context", &die->context_bytes, NULL }, { "other", &die->other_bytes, NULL },
		{ "lie", &die->lie_free_bytes, NULL },    { "mode", NULL, &die->compute_mode },
		{ "integrated", NULL, &die->integrated },
	};

	/* An instance's UUID, of this number; 0: none. */
	if (!strcmp(field, "mig")) {
		memset(die->mig_uuid, 0, sizeof(die->mig_uuid));
		die->mig_uuid[0] = (uint8_t)value;
		return;
	}
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (strcmp(fields[i].name, field))
			continue;
		if (fields[i].bytes)
			__atomic_store_n(fields[i].bytes, (uint64_t)value, __ATOMIC_RELAXED);
		else
			__atomic_store_n(fields[i].number, (int32_t)value, __ATOMIC_RELAXED);
		return;
	}
	usage("no such field");
}

static void fail(struct fake_cuda *fake, int argc, char **argv)
{
	long long delay_ms = argc > 5 ? number(argv[5]) : 0;

	fake_cuda_fault(fake, function(argv[3]), FAKE_ANY_DIE, (int)number(argv[4]),
			delay_ms < 0 ? FAKE_FOR_EVER_NS : (uint64_t)delay_ms * 1000000,
			argc > 6 ? number(argv[6]) : FAKE_ALWAYS);
}

/* As NVIDIA's own tool would say it of these dies: total and used are without what is reserved. */
static int show(const char *path)
{
	setenv(FAKE_CUDA_ENV, path, 1);
	if (state_open())
		return 1;
	for (int i = 0; i < state_fake()->n_dies; i++) {
		const struct fake_die *die = &state_fake()->die[i];
		unsigned long long total_mib = die->total_bytes >> 20;

		printf("GPU-");
		for (int k = 0; k < 16; k++)
			printf("%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "",
			       die->uuid[k]);
		printf(", 0000%s, %s, %llu, %llu\n", die->pci, die->name, total_mib,
		       total_mib - (state_free_bytes(i) >> 20));
	}
	return 0;
}

int main(int argc, char **argv)
{
	bool create = argc == 4 && !strcmp(argv[2], "create");
	struct fake_cuda *fake;
	long long n = create ? number(argv[3]) : 0;

	if (argc == 3 && !strcmp(argv[2], "show"))
		return show(argv[1]);
	if (argc < 4 || n < 0 || n > FAKE_MAX_DIES)
		usage("SCRIPT create|set|fail|calls ...");
	fake = create ? fake_cuda_create(argv[1], (int)n) : fake_cuda_open(argv[1]);
	if (!fake) {
		fprintf(stderr, "fake-cuda: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	if (!strcmp(argv[2], "set") && argc == 6) {
		n = number(argv[3]);
		if (n < 0 || n >= FAKE_MAX_DIES)
			usage("no such die");
		set(&fake->die[n], argv[4], number(argv[5]));
	} else if (!strcmp(argv[2], "fail") && argc >= 5 && argc <= 7) {
		fail(fake, argc, argv);
	} else if (!strcmp(argv[2], "calls") && argc == 4) {
		printf("%llu\n", (unsigned long long)fake_cuda_calls(fake, function(argv[3])));
	} else if (!strcmp(argv[2], "private") && argc == 4) {
		fake->private_calls = number(argv[3]) != 0;
	} else if (!create) {
		usage("bad arguments");
	}
	return 0;
}
