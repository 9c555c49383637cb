/* SPDX-License-Identifier: BSD-2-Clause */
/* Sampler message checks. See die_message.h. */
#include "core/die_message.h"

#include <errno.h>
#include <string.h>

struct die_header die_header_make(uint16_t kind, uint64_t pass)
{
	return (struct die_header){
		.magic = DIE_MESSAGE_MAGIC,
		.version = DIE_MESSAGE_VERSION,
		.kind = kind,
		.size_bytes = kind == DIE_SAMPLE_NOW ? sizeof(struct die_request)
						     : sizeof(struct die_message),
		.pass = pass,
	};
}

/* Packets of a version that does not yet exist may be of another size. */
static int header_check(const void *packet, size_t bytes, size_t want_bytes)
{
	struct die_header header;

	if (bytes < sizeof(header))
		return -EBADMSG;
	memcpy(&header, packet, sizeof(header));
	if (header.magic != DIE_MESSAGE_MAGIC || header.size_bytes != bytes)
		return -EBADMSG;
	if (header.version != DIE_MESSAGE_VERSION)
		return -EPROTONOSUPPORT;
	return bytes == want_bytes ? 0 : -EBADMSG;
}

static bool text_ok(const char *text, size_t bytes)
{
	const char *end = memchr(text, 0, bytes);

	if (!end)
		return false;
	for (; text < end; text++) {
		if (*text < ' ' || *text > '~')
			return false;
	}
	return true;
}

#define TEXT_OK(field) text_ok(field, sizeof(field))

static bool driver_ok(const struct die_driver *d)
{
	if (d->state > DIE_DRIVER_ERROR || d->driver_version < 0)
		return false;
	if (d->n_dies < 0 || d->n_dies > DIE_MESSAGE_MAX_DIES)
		return false;
	if ((d->state == DIE_DRIVER_OK) != (d->n_dies > 0))
		return false;
	return TEXT_OK(d->error_name) && TEXT_OK(d->library_path);
}

static bool hex_ok(const char *text, int digits)
{
	while (digits--) {
		if (!*text || !strchr("0123456789abcdef", *text++))
			return false;
	}
	return true;
}

/* "0000:3b:00.0", or a domain of more than four digits. */
static bool pci_ok(const char *pci)
{
	size_t domain = strcspn(pci, ":");

	return domain >= 4 && strlen(pci) == domain + 8 && hex_ok(pci, (int)domain) &&
	       hex_ok(pci + domain + 1, 2) && pci[domain + 3] == ':' &&
	       hex_ok(pci + domain + 4, 2) && pci[domain + 6] == '.' && hex_ok(pci + domain + 7, 1);
}

static bool sample_bytes_ok(const struct die_sample *d)
{
	if (d->state != DIE_OK)
		return !d->free_bytes && !d->own_context_bytes;
	return d->total_bytes && d->free_bytes <= d->total_bytes &&
	       d->own_context_bytes <= d->total_bytes;
}

static bool sample_ok(const struct die_sample *d)
{
	if (d->n_dies < 1 || d->n_dies > DIE_MESSAGE_MAX_DIES)
		return false;
	if (d->index < 0 || d->index >= d->n_dies || d->state > DIE_ERROR)
		return false;
	if (d->board_group < -1 || d->integrated < 0 || d->integrated > 1)
		return false;
	if (!TEXT_OK(d->pci) || !TEXT_OK(d->name) || !TEXT_OK(d->error_name))
		return false;
	if (!pci_ok(d->pci) && (d->state != DIE_ERROR || d->pci[0]))
		return false;
	return sample_bytes_ok(d);
}

int die_message_check(const void *packet, size_t bytes, struct die_message *ret)
{
	struct die_message m;
	bool ok;
	int r;

	r = header_check(packet, bytes, sizeof(m));
	if (r)
		return r;
	memcpy(&m, packet, sizeof(m));
	switch (m.header.kind) {
	case DIE_KIND_DRIVER:
		ok = driver_ok(&m.driver);
		break;
	case DIE_KIND_DIE:
		ok = sample_ok(&m.die);
		break;
	case DIE_KIND_PASS_END:
		ok = true;
		break;
	default:
		ok = false;
	}
	if (!ok)
		return -EBADMSG;
	*ret = m;
	return 0;
}

int die_request_check(const void *packet, size_t bytes, struct die_request *ret)
{
	struct die_request request;
	int r;

	r = header_check(packet, bytes, sizeof(request));
	if (r)
		return r;
	memcpy(&request, packet, sizeof(request));
	if (request.header.kind != DIE_SAMPLE_NOW || request.n_skip < 0 ||
	    request.n_skip > DIE_MESSAGE_MAX_DIES)
		return -EBADMSG;
	for (int i = 0; i < request.n_skip; i++)
		if (!TEXT_OK(request.skip_pci[i]))
			return -EBADMSG;
	*ret = request;
	return 0;
}

bool die_request_skips(const struct die_request *request, const char *pci)
{
	for (int i = 0; i < request->n_skip; i++)
		if (!strcmp(request->skip_pci[i], pci))
			return true;
	return false;
}

bool die_sample_ends_process(const struct die_sample *die)
{
	return die->state == DIE_ERROR && die->cuda_error &&
	       die->cuda_error != DIE_CUDA_OUT_OF_MEMORY;
}

uint64_t die_sample_free_bytes(const struct die_sample *die)
{
	uint64_t used_bytes = die->total_bytes - die->free_bytes;

	return die->free_bytes +
	       (die->own_context_bytes < used_bytes ? die->own_context_bytes : used_bytes);
}
