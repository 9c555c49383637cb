/* SPDX-License-Identifier: BSD-2-Clause */
/* Dies that are left out for a time. See die_retry.h. */
#include "core/die_retry.h"

#include <stdio.h>
#include <string.h>

#include "core/u64.h"

static struct die_retry_entry *find(struct die_retry *retry, const char *pci)
{
	for (int i = 0; i < retry->count; i++)
		if (!strcmp(retry->die[i].pci, pci))
			return &retry->die[i];
	return NULL;
}

void die_retry_failed(struct die_retry *retry, const char *pci, uint64_t now_ns)
{
	struct die_retry_entry *entry;

	if (retry->count == DIE_MESSAGE_MAX_DIES || find(retry, pci))
		return;
	entry = &retry->die[retry->count++];
	snprintf(entry->pci, sizeof(entry->pci), "%s", pci);
	entry->backoff_ns = DIE_RETRY_MIN_NS;
	entry->due_ns = now_ns + entry->backoff_ns;
}

void die_retry_good(struct die_retry *retry, const char *pci)
{
	struct die_retry_entry *entry = find(retry, pci);

	if (entry)
		*entry = retry->die[--retry->count];
}

void die_retry_ask(struct die_retry *retry, bool first_pass, uint64_t now_ns,
		   struct die_request *request)
{
	request->n_skip = 0;
	for (int i = 0; i < retry->count; i++) {
		struct die_retry_entry *entry = &retry->die[i];

		if (first_pass || now_ns < entry->due_ns) {
			memcpy(request->skip_pci[request->n_skip++], entry->pci,
			       sizeof(entry->pci));
			continue;
		}
		entry->backoff_ns = u64_min(2 * entry->backoff_ns, DIE_RETRY_MAX_NS);
		entry->due_ns = now_ns + entry->backoff_ns;
	}
}

uint64_t die_retry_due_ns(const struct die_retry *retry)
{
	uint64_t due_ns = UINT64_MAX;

	for (int i = 0; i < retry->count; i++)
		due_ns = u64_min(due_ns, retry->die[i].due_ns);
	return due_ns;
}
