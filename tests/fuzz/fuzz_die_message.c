/* SPDX-License-Identifier: BSD-2-Clause */
/* Sampler packets from anywhere: no crash, and what is accepted can be used without a check. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/die_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static void use_driver(const struct die_driver *d)
{
	if (d->n_dies < 0 || d->n_dies > DIE_MESSAGE_MAX_DIES)
		abort();
	if (strlen(d->library_path) >= sizeof(d->library_path) ||
	    strlen(d->error_name) >= sizeof(d->error_name))
		abort();
}

static void use_die(const struct die_sample *d)
{
	if (d->index < 0 || d->index >= d->n_dies || d->n_dies > DIE_MESSAGE_MAX_DIES)
		abort();
	if (d->state == DIE_OK && (!d->total_bytes || die_sample_free_bytes(d) > d->total_bytes))
		abort();
	if (strlen(d->pci) >= sizeof(d->pci) || strlen(d->name) >= sizeof(d->name))
		abort();
}

static void check_packet(const void *packet, size_t bytes)
{
	struct die_message m;
	struct die_request request;
	int err = die_message_check(packet, bytes, &m);

	if (!err && m.header.kind == DIE_KIND_DRIVER)
		use_driver(&m.driver);
	if (!err && m.header.kind == DIE_KIND_DIE)
		use_die(&m.die);
	if (err && err != -EBADMSG && err != -EPROTONOSUPPORT)
		abort();
	if (!die_request_check(packet, bytes, &request) && !err)
		abort(); /* nothing is both */
}

/* As it is, and as the contents of a message of each kind, which is harder to hit upon. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	size_t room = sizeof(struct die_message) - sizeof(struct die_header);

	check_packet(data, len_bytes);
	for (uint16_t kind = DIE_KIND_DRIVER; kind <= DIE_KIND_PASS_END; kind++) {
		struct die_message m = { .header = die_header_make(kind, 0) };

		memcpy((char *)&m + sizeof(m.header), data, len_bytes < room ? len_bytes : room);
		check_packet(&m, sizeof(m));
	}
	return 0;
}
